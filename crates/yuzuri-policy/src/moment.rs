//! Time as it is handed in.

use std::ops::Add;
use std::time::Duration;

/// An instant of a clock that only goes forward, counted from any beginning that stays the same for one terminal. Terminals' clocks
/// have nothing to do with each other: no message carries one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(Duration);

impl Moment {
    /// The instant so long after the beginning.
    pub const fn at(since_beginning: Duration) -> Moment {
        Moment(since_beginning)
    }

    /// The instant so many ns after the beginning (`CLOCK_MONOTONIC` or `CLOCK_BOOTTIME`).
    pub const fn from_nanos(nanos: u64) -> Moment {
        Moment(Duration::from_nanos(nanos))
    }

    /// The time since `earlier`; zero where that is later.
    pub fn since(self, earlier: Moment) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// Time since the beginning.
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
