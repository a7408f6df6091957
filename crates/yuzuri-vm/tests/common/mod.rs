//! What the tests with a guest share.

use std::sync::atomic::AtomicBool;
use yuzuri_vm::{Cache, Guest, Image, Kernel, Outcome, VmError, qemu_version};

/// Whether a guest can be run here at once; else says what is missing.
pub fn ready(test: &str, kernel: Kernel) -> bool {
    let missing = match qemu_version(kernel.arch()) {
        Err(error) => Some(error.to_string()),
        Ok(_) => match Cache::open().and_then(|cache| Image::built(&cache, kernel)) {
            Ok(Some(_)) => None,
            Ok(None) => Some(format!("the image of kernel {kernel} is not built: `make vm` builds it")),
            Err(error) => Some(error.to_string()),
        },
    };
    if let Some(why) = &missing {
        println!("{test}: skipped: {why}");
    }
    missing.is_none()
}

/// Runs a guest that nobody stops.
#[allow(dead_code)]
pub fn run(guest: &Guest) -> Result<Outcome, VmError> {
    guest.run(&mut |_| {}, &AtomicBool::new(false))
}
