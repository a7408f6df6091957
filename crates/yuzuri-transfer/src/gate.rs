//! A limit on outstanding data that is enforced in user space by holding back writes.

use crate::clock::mono_ns;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Limits the number of outstanding bytes of a connection: written but not acknowledged. Any thread
/// may set the limit during the transfer. It expires by itself.
#[derive(Debug)]
pub struct Gate {
    max_bytes: AtomicU64,
    /// `CLOCK_MONOTONIC` time at which the limit expires.
    until_ns: AtomicU64,
    was_limited: AtomicBool,
}

impl Default for Gate {
    fn default() -> Gate {
        Gate {
            max_bytes: AtomicU64::new(u64::MAX),
            until_ns: AtomicU64::new(0),
            was_limited: AtomicBool::new(false),
        }
    }
}

impl Gate {
    /// Limits outstanding data to `max_bytes` for `duration`. Data that is already
    /// outstanding is not affected.
    pub fn limit(&self, max_bytes: u64, duration: Duration) {
        let duration_ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.max_bytes.store(max_bytes, Ordering::Relaxed);
        self.until_ns.store(mono_ns().saturating_add(duration_ns), Ordering::Relaxed);
    }

    /// Removes the limit.
    pub fn remove_limit(&self) {
        self.until_ns.store(0, Ordering::Relaxed);
    }

    /// Whether the limit held back data since the previous call. Clears the flag.
    pub fn was_limited(&self) -> bool {
        self.was_limited.swap(false, Ordering::Relaxed)
    }

    pub(crate) fn is_limited(&self) -> bool {
        self.until_ns.load(Ordering::Relaxed) > mono_ns()
    }

    /// Number of bytes that may be written while the limit applies, given the `remaining` bytes of
    /// the buffer and the `outstanding` bytes of the connection. Rounded down to whole segments of
    /// `mss_bytes`, because TCP would send a partial segment as it is.
    pub(crate) fn allowed_bytes(&self, outstanding: u64, remaining: u64, mss_bytes: u32) -> u64 {
        let mss = u64::from(mss_bytes.max(1));
        // One segment is always allowed. Without outstanding data there would be no ACK to trigger
        // the next write.
        let max_bytes = self.max_bytes.load(Ordering::Relaxed).max(mss);
        let room = max_bytes.saturating_sub(outstanding);
        if room >= remaining {
            return room;
        }
        self.was_limited.store(true, Ordering::Relaxed);
        room - room % mss
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    #[test]
    fn the_gate_allows_whole_segments_up_to_its_limit() {
        let gate = Gate::default();
        assert!(!gate.is_limited());
        gate.limit(10_500, LONG);
        assert_eq!(gate.allowed_bytes(0, 1 << 20, 1000), 10_000);
        assert!(gate.was_limited() && !gate.was_limited(), "reading clears the flag");
        assert_eq!(gate.allowed_bytes(10_000, 1 << 20, 1000), 0);
        assert_eq!(gate.allowed_bytes(20_000, 1 << 20, 1000), 0, "more is outstanding than allowed");
        assert_eq!(
            gate.allowed_bytes(10_200, 300, 1000),
            300,
            "the end of the data need not be a whole segment"
        );
        gate.was_limited();
        gate.allowed_bytes(10_200, 300, 1000);
        assert!(!gate.was_limited(), "all could be written");
        gate.limit(1, LONG);
        assert_eq!(gate.allowed_bytes(0, 5000, 1000), 1000);
    }

    #[test]
    fn the_limit_expires() {
        let gate = Gate::default();
        gate.limit(1000, Duration::ZERO);
        assert!(!gate.is_limited());
        gate.limit(1000, LONG);
        assert!(gate.is_limited());
        gate.remove_limit();
        assert!(!gate.is_limited());
    }
}
