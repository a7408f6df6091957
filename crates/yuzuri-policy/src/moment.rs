//! Time, as passed in by the caller.

use std::ops::Add;
use std::time::Duration;

/// An instant of a monotonic clock, counted from an origin that is fixed for one terminal. Clocks
/// of different terminals are unrelated: no message carries a time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(Duration);

impl Moment {
    /// The instant this long after the origin.
    pub const fn at(since_beginning: Duration) -> Moment {
        Moment(since_beginning)
    }

    /// The instant this many ns after the origin (`CLOCK_MONOTONIC` or `CLOCK_BOOTTIME`).
    pub const fn from_nanos(nanos: u64) -> Moment {
        Moment(Duration::from_nanos(nanos))
    }

    /// The time since `earlier`; zero if that is later.
    pub fn since(self, earlier: Moment) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// Time since the origin.
    pub const fn since_beginning(self) -> Duration {
        self.0
    }
}

impl Add<Duration> for Moment {
    type Output = Moment;
    fn add(self, later: Duration) -> Moment {
        Moment(self.0.saturating_add(later))
    }
}
