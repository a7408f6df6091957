//! Ctrl-C and its kin, as a flag that long work looks at, so that every program of ours ends the same way.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A flag that the first SIGINT, SIGTERM or SIGHUP sets; a second one ends the process at once, for whoever has no
/// patience with the cleaning up (the kernel removes BPF programs then, too). The exit code is 128 + the signal's number.
///
/// # Errors
/// Where the kernel refuses to hand over a signal.
pub fn stop_flag() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, stop.clone())?;
        signal_hook::flag::register(signal, stop.clone())?;
    }
    Ok(stop)
}

/// Whether the flag is set.
pub fn stopped(stop: &AtomicBool) -> bool {
    stop.load(Ordering::Relaxed)
}
