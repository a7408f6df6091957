//! Time units. Times are nanoseconds since an origin that the caller chooses.

pub(crate) const MICROSECOND: u64 = 1_000;
pub(crate) const MILLISECOND: u64 = 1_000_000;
pub(crate) const SECOND: u64 = 1_000_000_000;

/// Microseconds from `earlier_ns` to `later_ns`, rounded down as in the kernel; 0 if the order is
/// reversed.
pub(crate) fn micros_between(later_ns: u64, earlier_ns: u64) -> u64 {
    later_ns.saturating_sub(earlier_ns) / MICROSECOND
}
