//! A gate for a test.

use yuzuri_gate::{Gate, GateError, Options};

/// Loads a gate; if that is not permitted, prints that the test is skipped and why.
pub fn gate(test: &str, options: &Options) -> Option<Gate> {
    match Gate::load(options) {
        Ok(gate) => Some(gate),
        Err(GateError::NotPermitted(why)) => {
            println!("{test}: skipped: {why}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}
