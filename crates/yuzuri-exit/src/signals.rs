//! Ctrl-C and its kin, as a flag that long work looks at, so that every program of ours ends the same way.

#![expect(unsafe_code, reason = "a signal handler")]

use nix::time::{ClockId, clock_gettime};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

/// Signals that are nearer to one another are one wish: of a Ctrl-C hears whoever is in the foreground, and once more from a script or a
/// `timeout` that hands it on.
const ONE_WISH_NS: i64 = 500_000_000;

/// A flag that the first SIGINT, SIGTERM or SIGHUP sets; another one half a second later and more ends the process at once, for whoever has no
/// patience with the cleaning up (the kernel removes BPF programs then, too). The exit code is 128 + the signal's number.
///
/// # Errors
/// Where the kernel refuses to hand over a signal.
pub fn stop_flag() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let first = Arc::new(AtomicI64::new(i64::MAX));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let (stop, first) = (stop.clone(), first.clone());
        let heard = move || {
            let earliest = first.fetch_min(now_ns(), Ordering::Relaxed);
            if is_another_wish(earliest, now_ns()) {
                low_level::exit(128 + signal);
            }
            stop.store(true, Ordering::Relaxed);
        };
        // SAFETY: what is called in the handler is safe there (signal-safety(7)): atomics, clock_gettime and _exit. It takes no lock, allocates
        // nothing and cannot panic.
        unsafe { low_level::register(signal, heard) }?;
    }
    Ok(stop)
}

/// Whether a signal, now, is another wish than the first one; `i64::MAX` stands for none.
fn is_another_wish(first_ns: i64, now_ns: i64) -> bool {
    now_ns.saturating_sub(first_ns) >= ONE_WISH_NS
}

/// Time since the machine began. 0, which ends nothing, if the kernel should not tell.
fn now_ns() -> i64 {
    clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map_or(0, |now| now.tv_sec().saturating_mul(1_000_000_000).saturating_add(now.tv_nsec()))
}

/// Whether the flag is set.
pub fn stopped(stop: &AtomicBool) -> bool {
    stop.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_at_once_is_one_wish() {
        assert!(!is_another_wish(i64::MAX, 5), "the first");
        assert!(!is_another_wish(5, 5 + ONE_WISH_NS - 1));
        assert!(is_another_wish(5, 5 + ONE_WISH_NS));
    }
}
