//! Times in nanoseconds, where `Duration` would cost a division each time.

use yuzuri_netmodel::Time;

pub(crate) const MICROSECOND: u64 = 1_000;
pub(crate) const MILLISECOND: u64 = 1_000_000;
pub(crate) const SECOND: u64 = 1_000_000_000;

/// Nanoseconds from `earlier` to `later`, 0 if the order is the other way round.
pub(crate) fn nanos_between(later: Time, earlier: Time) -> u64 {
    later.as_nanos().saturating_sub(earlier.as_nanos())
}

/// Microseconds from `earlier` to `later`, rounded down as the kernel's stamps are.
pub(crate) fn micros_between(later: Time, earlier: Time) -> u64 {
    nanos_between(later, earlier) / MICROSECOND
}

/// The instant `nanos` after `time`.
pub(crate) fn after(time: Time, nanos: u64) -> Time {
    Time::from_nanos(time.as_nanos().saturating_add(nanos))
}
