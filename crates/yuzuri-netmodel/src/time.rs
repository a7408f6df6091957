//! Simulated time.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

/// Nanoseconds since the start of the experiment; the range is 584 years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// Start of the experiment.
    pub const ZERO: Time = Time(0);
    /// The last representable instant. `advance` to it processes all events.
    pub const MAX: Time = Time(u64::MAX);

    /// The instant `nanos` ns after the start.
    pub const fn from_nanos(nanos: u64) -> Time {
        Time(nanos)
    }

    /// Nanoseconds since the start.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The instant `seconds` after the start. Negative values and NaN yield the start.
    pub fn from_secs_f64(seconds: f64) -> Time {
        Time((seconds * 1e9) as u64)
    }

    /// Seconds since the start.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Time from `earlier` to this instant; zero if `earlier` is later.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    pub(crate) const fn after_nanos(self, nanos: u64) -> Time {
        Time(self.0.saturating_add(nanos))
    }

    pub(crate) const fn nanos_since(self, earlier: Time) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Time {
    type Output = Time;
    fn add(self, by: Duration) -> Time {
        Time(self.0.saturating_add(u64::try_from(by.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl AddAssign<Duration> for Time {
    fn add_assign(&mut self, by: Duration) {
        *self = *self + by;
    }
}

/// Zero if the right operand is later, like [`Time::since`].
impl Sub for Time {
    type Output = Duration;
    fn sub(self, earlier: Time) -> Duration {
        self.since(earlier)
    }
}

impl fmt::Display for Time {
    /// Formats as seconds with six decimals.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06} s", self.0 / 1_000_000_000, self.0 % 1_000_000_000 / 1000)
    }
}
