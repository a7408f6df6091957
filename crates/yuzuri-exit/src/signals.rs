//! A stop flag for SIGINT, SIGTERM and SIGHUP, so that all of Yuzuri's programs end the same way.

#![expect(unsafe_code, reason = "a signal handler")]

use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

/// Signals within this time of the first one count as a single request, nanoseconds. A Ctrl-C
/// reaches the whole foreground process group, and a script or `timeout` may forward it once more.
const SAME_REQUEST_NS: i64 = 500_000_000;

/// Installs handlers and returns a flag that the first SIGINT, SIGTERM or SIGHUP sets. A further
/// signal at least half a second later ends the process immediately with exit code 128 + signal
/// number and skips the cleanup; the kernel then still removes the BPF programs.
///
/// # Errors
/// Returns an error if the kernel refuses to install a handler.
pub fn stop_flag() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let first = Arc::new(AtomicI64::new(i64::MAX));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let (stop, first) = (stop.clone(), first.clone());
        let heard = move || {
            let earliest = first.fetch_min(now_ns(), Ordering::Relaxed);
            if is_new_request(earliest, now_ns()) {
                low_level::exit(128 + signal);
            }
            stop.store(true, Ordering::Relaxed);
        };
        // SAFETY: the handler only calls functions that are safe there (signal-safety(7)): atomics,
        // clock_gettime and _exit. It takes no lock, allocates nothing and cannot panic.
        unsafe { low_level::register(signal, heard) }?;
    }
    Ok(stop)
}

/// Whether a signal received now is a request of its own; `i64::MAX` means that there was no first
/// one.
fn is_new_request(first_ns: i64, now_ns: i64) -> bool {
    now_ns.saturating_sub(first_ns) >= SAME_REQUEST_NS
}

/// `CLOCK_MONOTONIC` time, nanoseconds. 0 if the clock cannot be read, which never ends the
/// process.
fn now_ns() -> i64 {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |now| now.num_nanoseconds())
}

/// Whether the flag is set.
pub fn stopped(stop: &AtomicBool) -> bool {
    stop.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simultaneous_changes_are_one_request() {
        assert!(!is_new_request(i64::MAX, 5), "the first");
        assert!(!is_new_request(5, 5 + SAME_REQUEST_NS - 1));
        assert!(is_new_request(5, 5 + SAME_REQUEST_NS));
    }
}
