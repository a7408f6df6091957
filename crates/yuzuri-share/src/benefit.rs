//! A terminal's figures before sharing began, and since, as measured by the daemon.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

/// Ticks kept from before sharing: half a minute.
const MAX_TICKS: usize = 60;
/// Minimum number of ticks for which a mean is reported. A shorter pause between two bounds does
/// not restart the comparison.
const MIN_TICKS: usize = 10;

/// The figures of ticks in which something was delivered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Seconds in which something was delivered.
    pub seconds: f64,
    /// Payload delivered in them, bit/s.
    pub rate_bps: f64,
    /// Mean smoothed round-trip time, weighted by the data delivered, µs.
    pub srtt_us: f64,
}

/// Before sharing began, and since.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Benefit {
    /// The last half minute before the first bound.
    pub before: Measured,
    /// Since then.
    pub since: Measured,
}

impl fmt::Display for Benefit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Benefit { before, since } = self;
        write!(
            f,
            "RTT {:.0} -> {:.0} ms, throughput {:.1} -> {:.1} Mbit/s since sharing began ({:.0} s before, {:.0} s since)",
            before.srtt_us / 1e3,
            since.srtt_us / 1e3,
            before.rate_bps / 1e6,
            since.rate_bps / 1e6,
            before.seconds,
            since.seconds,
        )
    }
}

/// A flow at a tick.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Point {
    pub(crate) rate_bps: f64,
    pub(crate) srtt_us: u32,
    /// A bound is in force on it.
    pub(crate) bounded: bool,
}

/// A sum over ticks.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    ticks: usize,
    seconds: f64,
    bits: f64,
    /// Round-trip time, weighted by bits.
    bits_us: f64,
}

impl Sum {
    fn add(&mut self, other: Sum) {
        self.ticks += other.ticks;
        self.seconds += other.seconds;
        self.bits += other.bits;
        self.bits_us += other.bits_us;
    }

    fn measured(self) -> Option<Measured> {
        let Sum { ticks, seconds, bits, bits_us } = self;
        (ticks >= MIN_TICKS && seconds > 0.0 && bits > 0.0).then(|| Measured {
            seconds,
            rate_bps: bits / seconds,
            srtt_us: bits_us / bits,
        })
    }
}

/// Follows the flows of an interface from tick to tick.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ledger {
    /// Ticks without a bound since the last tick with one.
    without: VecDeque<Sum>,
    before: Sum,
    since: Sum,
    /// The bounds set by the previous tick: they were in force during the interval of the next
    /// tick's figures.
    in_force: BoundedFraction,
}

/// The bounded fraction of the delivered data.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
enum BoundedFraction {
    #[default]
    Nothing,
    Little,
    Most,
}

impl Ledger {
    /// Adds a tick, and the bounds that it set. A tick without deliveries, or with few bounds, is
    /// not informative.
    pub(crate) fn add(&mut self, elapsed: Duration, points: impl Iterator<Item = Point>) {
        let seconds = elapsed.as_secs_f64();
        let mut sum = Sum { ticks: 1, seconds, ..Sum::default() };
        let (mut bounded, mut free) = (0.0, 0.0);
        for Point { rate_bps, srtt_us, bounded: is_bounded } in points {
            sum.bits += rate_bps * seconds;
            sum.bits_us += rate_bps * seconds * f64::from(srtt_us);
            // A new flow has delivered nothing yet.
            *(if is_bounded { &mut bounded } else { &mut free }) += rate_bps.max(1.0);
        }
        let now = match () {
            () if bounded == 0.0 => BoundedFraction::Nothing,
            () if bounded < free => BoundedFraction::Little,
            () => BoundedFraction::Most,
        };
        let in_force = std::mem::replace(&mut self.in_force, now);
        if sum.bits <= 0.0 {
            return;
        }
        if in_force == BoundedFraction::Nothing {
            self.without.push_back(sum);
            if self.without.len() > MAX_TICKS {
                self.without.pop_front();
            }
            return;
        }
        if self.without.len() >= MIN_TICKS {
            self.before = Sum::default();
            self.without.iter().for_each(|ticks_with| self.before.add(*ticks_with));
            self.since = Sum::default();
        }
        self.without.clear();
        if in_force == BoundedFraction::Most {
            self.since.add(sum);
        }
    }

    /// The comparison; `None`: sharing has not begun, or nothing was sent for long enough before or
    /// since.
    pub(crate) fn benefit(&self) -> Option<Benefit> {
        Some(Benefit { before: self.before.measured()?, since: self.since.measured()? })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const TICK: Duration = Duration::from_millis(500);

    /// Ticks with these figures, all with bounds or all without: bounds are set by the previous
    /// tick.
    fn ticks_with(ledger: &mut Ledger, ticks: usize, rate_bps: f64, srtt_us: u32, bounded: bool) {
        ledger.in_force = if bounded { BoundedFraction::Most } else { BoundedFraction::Nothing };
        for _ in 0..ticks {
            ledger.add(TICK, [Point { rate_bps, srtt_us, bounded }].into_iter());
        }
    }

    #[test]
    fn a_bound_applies_from_the_next_tick() {
        let mut ledger = Ledger::default();
        let mut one = |srtt_us, bounded| {
            ledger.add(TICK, [Point { rate_bps: 8e6, srtt_us, bounded }].into_iter());
        };
        (0..MIN_TICKS).for_each(|_| one(100_000, false));
        // The tick that sets the first bound still has the figures without one.
        one(100_000, true);
        (0..MIN_TICKS).for_each(|_| one(40_000, true));
        let measured_benefit = ledger.benefit().unwrap();
        assert_eq!((measured_benefit.before.srtt_us, measured_benefit.before.seconds), (100_000.0, 5.5));
        assert_eq!((measured_benefit.since.srtt_us, measured_benefit.since.seconds), (40_000.0, 5.0));
    }

    #[test]
    fn figures_are_means_over_delivered_data() {
        let mut ledger = Ledger::default();
        ticks_with(&mut ledger, 40, 8e6, 141_000, false);
        assert_eq!(ledger.benefit(), None);
        ticks_with(&mut ledger, 9, 8e6, 42_000, true);
        assert_eq!(ledger.benefit(), None, "too short to be reported");
        ticks_with(&mut ledger, 11, 9e6, 42_000, true);
        let measured_benefit = ledger.benefit().unwrap();
        assert_eq!((measured_benefit.before.seconds, measured_benefit.since.seconds), (20.0, 10.0));
        assert_eq!(
            measured_benefit.to_string(),
            "RTT 141 -> 42 ms, throughput 8.0 -> 8.6 Mbit/s since sharing began (20 s before, 10 s since)"
        );
        // Flows are weighted by their throughput.
        let mut ledger = Ledger::default();
        for bounded in [false, true] {
            ledger.in_force = if bounded { BoundedFraction::Most } else { BoundedFraction::Nothing };
            for _ in 0..MIN_TICKS {
                let points = [(3e6, 100_000), (1e6, 20_000)];
                ledger.add(
                    TICK,
                    points.into_iter().map(|(rate_bps, srtt_us)| Point { rate_bps, srtt_us, bounded }),
                );
            }
        }
        assert_eq!(ledger.benefit().unwrap().since.srtt_us, 80_000.0);
    }

    #[test]
    fn only_a_long_pause_restarts_the_comparison() {
        let mut ledger = Ledger::default();
        ticks_with(&mut ledger, 20, 8e6, 100_000, false);
        ticks_with(&mut ledger, 20, 8e6, 40_000, true);
        ticks_with(&mut ledger, MIN_TICKS - 1, 1e6, 500_000, false);
        ticks_with(&mut ledger, 1, 8e6, 40_000, true);
        let measured_benefit = ledger.benefit().unwrap();
        assert_eq!(
            (measured_benefit.before.srtt_us, measured_benefit.since.srtt_us, measured_benefit.since.seconds),
            (100_000.0, 40_000.0, 10.5)
        );
        ticks_with(&mut ledger, MAX_TICKS + 20, 4e6, 200_000, false);
        ticks_with(&mut ledger, MIN_TICKS, 5e6, 50_000, true);
        let measured_benefit = ledger.benefit().unwrap();
        assert_eq!(
            (
                measured_benefit.before.seconds,
                measured_benefit.before.rate_bps,
                measured_benefit.before.srtt_us
            ),
            (30.0, 4e6, 200_000.0)
        );
        assert_eq!((measured_benefit.since.seconds, measured_benefit.since.rate_bps), (5.0, 5e6));
    }

    #[test]
    fn flows_bounded_from_the_start_have_no_comparison() {
        let mut ledger = Ledger::default();
        ticks_with(&mut ledger, 2, 8e6, 100_000, false);
        ticks_with(&mut ledger, 100, 8e6, 40_000, true);
        // Silence is not informative.
        ticks_with(&mut ledger, 100, 0.0, 0, false);
        ticks_with(&mut ledger, 10, 8e6, 40_000, true);
        assert_eq!(ledger.benefit(), None);
    }
}
