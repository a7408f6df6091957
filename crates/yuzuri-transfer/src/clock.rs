//! Clock readings: times are reported in `CLOCK_MONOTONIC`, and the kernel's `CLOCK_REALTIME`
//! timestamps are converted to it.

use crate::sys::clock_ns;

/// Current `CLOCK_MONOTONIC` time, in nanoseconds.
pub(crate) fn mono_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC).max(0) as u64
}

/// `CLOCK_MONOTONIC` and `CLOCK_REALTIME`, read at nearly the same moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reading {
    /// `CLOCK_MONOTONIC`, nanoseconds.
    pub mono_ns: u64,
    /// `CLOCK_REALTIME` minus `CLOCK_MONOTONIC`, nanoseconds.
    pub offset_ns: i64,
    /// Uncertainty of `offset_ns`, nanoseconds.
    pub uncertainty_ns: i64,
}

impl Reading {
    /// Reads both clocks. Retries up to four times while the uncertainty is 500 ns or more, because
    /// the process may have been preempted between the reads, and keeps the best reading.
    pub(crate) fn now() -> Reading {
        let once = || {
            let before = clock_ns(libc::CLOCK_MONOTONIC);
            let real = clock_ns(libc::CLOCK_REALTIME);
            let after = clock_ns(libc::CLOCK_MONOTONIC);
            Reading {
                mono_ns: after.max(0) as u64,
                offset_ns: real - before - (after - before) / 2,
                uncertainty_ns: (after - before) / 2 + 1,
            }
        };
        let mut best = once();
        for _ in 0..4 {
            if best.uncertainty_ns < 500 {
                break;
            }
            let again = once();
            if again.uncertainty_ns < best.uncertainty_ns {
                best = again;
            }
        }
        best
    }

    /// `CLOCK_REALTIME` of this reading, nanoseconds since the Unix epoch.
    pub(crate) fn unix_ns(&self) -> i64 {
        (self.mono_ns as i64).wrapping_add(self.offset_ns)
    }
}

/// Converts `CLOCK_REALTIME` timestamps to `CLOCK_MONOTONIC`.
///
/// NTP slewing changes the rate of both clocks equally, so their offset changes only when the
/// system time is set. A timestamp may then predate or postdate the step. The converter uses the
/// offset that places the timestamp between the write it belongs to and the present; the buffer is
/// marked.
#[derive(Debug)]
pub(crate) struct Clock {
    latest: Reading,
    /// The offset before the most recent step, and the `CLOCK_MONOTONIC` time at which the step was
    /// detected, nanoseconds.
    stepped: Option<(i64, u64)>,
}

/// Offset changes up to this size count as read error, not as a clock step, nanoseconds. The
/// uncertainties of both readings are added to it.
const MIN_STEP_NS: i64 = 20_000;

impl Clock {
    pub(crate) fn new(now: Reading) -> Clock {
        Clock { latest: now, stepped: None }
    }

    /// Records a new reading and detects a clock step.
    pub(crate) fn update(&mut self, now: Reading) {
        let change = now.offset_ns.wrapping_sub(self.latest.offset_ns).saturating_abs();
        if change > MIN_STEP_NS.saturating_add(now.uncertainty_ns).saturating_add(self.latest.uncertainty_ns)
        {
            self.stepped = Some((self.latest.offset_ns, now.mono_ns));
        }
        self.latest = now;
    }

    /// Whether a clock step was detected at or after `since_mono_ns`.
    pub(crate) fn stepped_since(&self, since_mono_ns: u64) -> bool {
        self.stepped.is_some_and(|(_, noticed)| noticed >= since_mono_ns)
    }

    /// Converts a timestamp to `CLOCK_MONOTONIC`, clamped to the range from `earliest` to the
    /// latest reading.
    pub(crate) fn to_mono(&self, unix_ns: i64, earliest: u64) -> u64 {
        let latest = self.latest.mono_ns.max(earliest);
        let with = |offset: i64| u64::try_from(unix_ns.saturating_sub(offset)).unwrap_or(0);
        let fits = |mono: u64| mono >= earliest && mono <= latest;
        let new = with(self.latest.offset_ns);
        if let Some((old_offset, noticed)) = self.stepped
            && noticed >= earliest
            && !fits(new)
            && fits(with(old_offset))
        {
            return with(old_offset);
        }
        new.clamp(earliest, latest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn reading(mono_ns: u64, offset_ns: i64) -> Reading {
        Reading { mono_ns, offset_ns, uncertainty_ns: 100 }
    }

    #[test]
    fn the_real_clocks_do_not_step_by_themselves() {
        let mut clock = Clock::new(Reading::now());
        let start = mono_ns();
        for _ in 0..1000 {
            let before = mono_ns();
            let now = Reading::now();
            clock.update(now);
            let mono = clock.to_mono(clock_ns(libc::CLOCK_REALTIME), before);
            assert!(mono >= before && mono <= mono_ns());
        }
        assert!(!clock.stepped_since(start));
    }

    #[test]
    fn a_timestamp_from_before_a_clock_step_is_converted() {
        let hour = 3_600_000_000_000;
        let mut clock = Clock::new(reading(1_000_000_000, 5 * hour));
        clock.update(reading(2_000_000_000, 6 * hour));
        assert!(clock.stepped_since(1_500_000_000));
        assert_eq!(clock.to_mono(5 * hour + 1_700_000_000, 1_500_000_000), 1_700_000_000);
        assert_eq!(clock.to_mono(6 * hour + 1_800_000_000, 1_500_000_000), 1_800_000_000);
        assert!(!clock.stepped_since(2_000_000_001));
    }

    proptest! {
        #[test]
        fn a_time_stays_between_its_write_and_now(
            offsets in proptest::collection::vec(any::<i64>(), 1..5), unix: i64, earliest in 0u64..1 << 50
        ) {
            let mut clock = Clock::new(reading(1, offsets[0]));
            let mut now = 1;
            for offset in offsets {
                now += 1 << 48;
                clock.update(reading(now, offset));
            }
            let mono = clock.to_mono(unix, earliest);
            prop_assert!(mono >= earliest && mono <= now.max(earliest));
        }

        #[test]
        fn without_a_step_the_conversion_is_exact(
            offset in 0i64..1 << 60, at in 0u64..1 << 40, jitter in -10_000i64..10_000
        ) {
            let mut clock = Clock::new(reading(1, offset));
            clock.update(reading(1 << 41, offset + jitter));
            prop_assert!(!clock.stepped_since(0));
            prop_assert_eq!(clock.to_mono(offset + jitter + at as i64, 0), at);
        }
    }
}
