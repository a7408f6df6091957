//! Helpers for tests with a guest.

use std::sync::atomic::AtomicBool;
use yuzuri_vm::{Equipment, Guest, Image, Kernel, Outcome, VmError};

/// Whether a guest can be run immediately. Prints what is missing otherwise.
pub fn ready(test: &str, kernel: Kernel) -> bool {
    let missing = Image::missing(kernel, Equipment::Plain);
    if let Some(why) = &missing {
        println!("{test}: skipped: {why}");
    }
    missing.is_none()
}

/// Runs a guest without a stop request.
#[allow(dead_code)]
pub fn run(guest: &Guest) -> Result<Outcome, VmError> {
    guest.run(&mut |_| {}, &AtomicBool::new(false))
}
