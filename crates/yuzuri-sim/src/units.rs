//! Times in nanoseconds; `Duration` would cost a division per operation.

use yuzuri_netmodel::Time;

pub(crate) const MICROSECOND: u64 = 1_000;
pub(crate) const MILLISECOND: u64 = 1_000_000;
pub(crate) const SECOND: u64 = 1_000_000_000;

/// Nanoseconds from `earlier` to `later`; 0 if `later` is before `earlier`.
pub(crate) fn nanos_between(later: Time, earlier: Time) -> u64 {
    later.as_nanos().saturating_sub(earlier.as_nanos())
}

/// Microseconds from `earlier` to `later`, rounded down like the kernel's timestamps.
pub(crate) fn micros_between(later: Time, earlier: Time) -> u64 {
    nanos_between(later, earlier) / MICROSECOND
}

/// The instant `nanos` after `time`.
pub(crate) fn after(time: Time, nanos: u64) -> Time {
    Time::from_nanos(time.as_nanos().saturating_add(nanos))
}
