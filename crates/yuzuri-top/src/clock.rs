//! Formats wall time and durations.

#![expect(unsafe_code, reason = "system calls that no library here wraps")]

/// The time zone of displayed times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clock {
    /// This machine's time zone.
    Local,
    /// UTC, for tests that must be reproducible.
    #[cfg_attr(not(test), allow(dead_code))]
    Utc,
}

impl Clock {
    /// `HH:MM:SS` of a time in nanoseconds since the Unix epoch.
    pub(crate) fn seconds(self, unix_ns: i64) -> String {
        let seconds = unix_ns.div_euclid(1_000_000_000);
        let of_day = (seconds + self.offset_s(seconds)).rem_euclid(86_400);
        format!("{:02}:{:02}:{:02}", of_day / 3600, of_day / 60 % 60, of_day % 60)
    }

    /// `HH:MM:SS.mmm` of a time in nanoseconds since the Unix epoch.
    pub(crate) fn millis(self, unix_ns: i64) -> String {
        format!("{}.{:03}", self.seconds(unix_ns), unix_ns.rem_euclid(1_000_000_000) / 1_000_000)
    }

    /// Offset from UTC at that time, seconds east; 0 if it is unknown.
    // `time_t` and `long` are 32 bits wide on some architectures.
    #[allow(clippy::useless_conversion, clippy::unnecessary_fallible_conversions)]
    fn offset_s(self, unix_s: i64) -> i64 {
        if self == Clock::Utc {
            return 0;
        }
        let time = libc::time_t::try_from(unix_s).unwrap_or(libc::time_t::MAX);
        let mut broken_down = std::mem::MaybeUninit::<libc::tm>::uninit();
        // SAFETY: both pointers are valid for the call. The result is read only if the call returns
        // non-null, that is, has filled it in.
        unsafe {
            if libc::localtime_r(&time, broken_down.as_mut_ptr()).is_null() {
                return 0;
            }
            broken_down.assume_init().tm_gmtoff.into()
        }
    }
}

/// A duration: `0.25 s`, `10 s`, `2 min`, `1 h 10 min`.
pub(crate) fn span(ns: u64) -> String {
    let seconds = ns as f64 / 1e9;
    match ns / 1_000_000_000 {
        0..10 if !ns.is_multiple_of(1_000_000_000) => format!("{seconds:.2} s"),
        0..60 => format!("{seconds:.0} s"),
        whole @ 60..3600 if whole % 60 == 0 => format!("{} min", whole / 60),
        whole @ 60..3600 => format!("{} min {} s", whole / 60, whole % 60),
        whole => format!("{} h {} min", whole / 3600, whole / 60 % 60),
    }
}

/// A position in a recording: `1:02`, `1:00:02`.
pub(crate) fn position(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    match seconds / 3600 {
        0 => format!("{}:{:02}", seconds / 60, seconds % 60),
        hours => format!("{hours}:{:02}:{:02}", seconds / 60 % 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_format_of_the_chosen_clock() {
        assert_eq!(Clock::Utc.millis(1_700_000_000_123_456_789), "22:13:20.123");
        assert_eq!(Clock::Utc.millis(-1_000_000), "23:59:59.999");
        let local = Clock::Local.seconds(1_700_000_000_000_000_000);
        assert_eq!(&local[5..], ":20", "zones differ by whole minutes today: {local}");
    }

    #[test]
    fn spans_and_positions() {
        let second = 1_000_000_000;
        let words = [second / 4, 10 * second, 120 * second, 90 * second, 4200 * second].map(span);
        assert_eq!(words, ["0.25 s", "10 s", "2 min", "1 min 30 s", "1 h 10 min"]);
        assert_eq!([62 * second, 3602 * second].map(position), ["1:02", "1:00:02"]);
    }
}
