//! The two clocks.

use nix::time::{ClockId, clock_gettime};

fn read_ns(clock: ClockId) -> i64 {
    // These two clocks exist on every Linux; a failure would mean that the libc is broken.
    clock_gettime(clock).map_or(0, |t| t.tv_sec() * 1_000_000_000 + t.tv_nsec())
}

/// `CLOCK_MONOTONIC`, nanoseconds: the clock of the events (`bpf_ktime_get_ns`).
pub fn mono_ns() -> u64 {
    read_ns(ClockId::CLOCK_MONOTONIC) as u64
}

/// Wall time minus monotonic time, nanoseconds: exact to about a microsecond.
pub fn wall_offset_ns() -> i64 {
    // Of a few tries the one with the least time between its two readings of the monotonic clock.
    let tries = (0..5).map(|_| {
        let before = read_ns(ClockId::CLOCK_MONOTONIC);
        let wall = read_ns(ClockId::CLOCK_REALTIME);
        let after = read_ns(ClockId::CLOCK_MONOTONIC);
        (after - before, wall - (before + (after - before) / 2))
    });
    tries.min_by_key(|(width, _)| *width).map_or(0, |(_, offset)| offset)
}
