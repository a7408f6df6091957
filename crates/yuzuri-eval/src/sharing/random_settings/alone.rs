//! Each terminal's rate relative to its rate alone at the same moment. Radios and the wire change
//! within a run: a rate over the initial rate alone then shows the change, and not whether the
//! terminals shared evenly.

use super::draw::Drawn;
use super::rates::Rates;
use yuzuri_netmodel::Time;
use yuzuri_sim::cc::Bounds;
use yuzuri_sim::{MSS_BYTES, Observation, Segment, Steer};

/// A run of `steer`, with the sums of each terminal.
pub struct Alone<'a> {
    steer: &'a mut dyn Steer,
    /// The figures count from this time on.
    from: Time,
    rates: Rates,
    delivered: Vec<u64>,
    /// How long each terminal would have needed alone for what it delivered, seconds.
    alone_s: Vec<f64>,
}

impl Alone<'_> {
    /// Wraps the contender of a run.
    pub fn of<'a>(drawn: &Drawn, steer: &'a mut dyn Steer) -> Alone<'a> {
        Alone {
            steer,
            from: Time::from_nanos(drawn.scenario.warm_up_ms * 1_000_000),
            rates: Rates::of(drawn),
            delivered: vec![0; drawn.phys.len()],
            alone_s: vec![0.0; drawn.phys.len()],
        }
    }

    /// By terminal: the time that it would have needed alone for what it delivered, seconds.
    pub fn alone_s(&self) -> &[f64] {
        &self.alone_s
    }

    fn count(&mut self, now: Time, terminals: &[Option<Observation>]) {
        for (number, seen) in terminals.iter().enumerate() {
            let Some(seen) = seen else { continue };
            let before = std::mem::replace(&mut self.delivered[number], seen.delivered);
            if now > self.from {
                let bits = seen.delivered.saturating_sub(before) as f64 * f64::from(MSS_BYTES) * 8.0;
                self.alone_s[number] += bits / self.rates.alone_bps[number].min(self.rates.wire_bps).max(1.0);
            }
        }
        // Data delivered until now counts at the rates before a change at this moment.
        self.rates.advance(now);
    }
}

impl Steer for Alone<'_> {
    fn steer(&mut self, now: Time, terminals: &[Option<Observation>], bounds: &mut [Bounds]) {
        self.count(now, terminals);
        self.steer.steer(now, terminals, bounds);
    }

    fn forwards_up(&mut self, now: Time, terminal: usize, segment: &mut Segment) -> bool {
        self.steer.forwards_up(now, terminal, segment)
    }

    fn forwards_down(&mut self, now: Time, terminal: usize, segment: &mut Segment) -> bool {
        self.steer.forwards_down(now, terminal, segment)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::draw;
    use super::*;
    use yuzuri_sim::{Change, ChangeKind, NoBounds, run};

    /// A terminal that delivers at its rate alone would need exactly the elapsed time alone.
    #[test]
    fn what_is_delivered_counts_by_the_rate_of_its_time() {
        let mut drawn = (0..).map(|number| draw::setting(5, number)).find(|d| d.phys.len() > 2).unwrap();
        drawn.scenario.changes =
            vec![Change { at_ms: 7_000, what: ChangeKind::Wire { rate_bps: 16_000_000 } }];
        let mut steer = NoBounds;
        let mut alone = Alone::of(&drawn, &mut steer);
        alone.rates.alone_bps = vec![8e6; drawn.phys.len()];
        alone.rates.wire_bps = 4e6;
        let seen = |segments: u64| Some(Observation { delivered: segments, ..Observation::default() });
        let segments = |bps: f64, s: f64| (bps * s / (8.0 * f64::from(MSS_BYTES))) as u64;
        for tick in 0..=20 {
            let s = f64::from(tick) / 2.0;
            let delivered = segments(4e6, s.min(7.0)) + segments(8e6, (s - 7.0).max(0.0));
            let now = Time::from_nanos((s * 1e9) as u64);
            alone.count(now, &[None, seen(delivered), seen(delivered / 2)]);
        }
        let alone_s = alone.alone_s();
        assert_eq!(alone_s[0], 0.0);
        assert!((alone_s[1] - 5.0).abs() < 0.02, "{alone_s:?}");
        assert!((alone_s[2] - 2.5).abs() < 0.02, "{alone_s:?}");
    }

    #[test]
    fn a_run_is_the_same_with_it() {
        let drawn = draw::setting(5, 3);
        let mut steer = NoBounds;
        let mut alone = Alone::of(&drawn, &mut steer);
        let with = run(&drawn.scenario, &mut alone).unwrap();
        let without = run(&drawn.scenario, &mut NoBounds).unwrap();
        assert_eq!(with.goodputs(), without.goodputs());
        assert!(alone.alone_s().iter().any(|s| *s > 0.0));
    }
}
