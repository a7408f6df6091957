//! Probes for more capacity: for a round trip every member takes more than its share, and the best
//! rate afterwards shows the result.

use crate::Moment;
use std::time::Duration;

/// A probe lasts one round trip, and at least this long ...
const SHORTEST: Duration = Duration::from_millis(500);
/// ... and repeats every six round trips, at least this far apart; after each unsuccessful one
/// twice as far, up to a maximum.
const EVERY: Duration = Duration::from_secs(4);
const MAX_PROBE_EVERY: Duration = Duration::from_secs(16);
/// A probe was successful if the best rate rose by this fraction of the attempted increase (the
/// rate is taken over two round trips, the probe lasts one): then the next follows immediately ...
const FOUND: f64 = 0.25;
/// ... and from this fraction on, it takes more.
const FOUND_MUCH: f64 = 0.4;
/// A probe's rate as a multiple of the share: the first if segments are lost, the first otherwise,
/// and those after large success.
const STEPS: [f64; 4] = [1.1, 1.25, 1.5, 2.0];

/// The schedule of the group's probes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Probe {
    begun: Option<Moment>,
    ended: Option<Moment>,
    /// The best rate before it began, bit/s.
    before_bps: f64,
    /// The index in [`STEPS`].
    step: usize,
    every: Duration,
}

impl Default for Probe {
    fn default() -> Probe {
        Probe { begun: None, ended: None, before_bps: 0.0, step: 1, every: EVERY }
    }
}

impl Probe {
    /// The current factor for the shares; 1 while there is no probe.
    pub(super) fn factor(&mut self, now: Moment, round_trip: Duration, best_bps: f64, lossy: bool) -> f64 {
        if let Some(begun) = self.begun {
            if now.since(begun) < SHORTEST.max(round_trip) {
                return STEPS[self.step];
            }
            self.begun = None;
            self.ended = Some(now);
        }
        // The probe's data is delivered a round trip later, and its rate is taken over two.
        let ended = *self.ended.get_or_insert(now);
        let answered = now.since(ended) >= Duration::from_secs(1).max(2 * round_trip);
        let tried = self.before_bps > 0.0;
        let found = |part: f64| tried && best_bps > (1.0 + part * (STEPS[self.step] - 1.0)) * self.before_bps;
        if found(FOUND) && answered {
            if found(FOUND_MUCH) {
                self.step = (self.step + 1).min(STEPS.len() - 1);
            }
            self.every = EVERY;
        } else if now.since(ended) >= self.every.max(6 * round_trip) {
            self.step = usize::from(!lossy);
            self.every = if tried { (2 * self.every).min(MAX_PROBE_EVERY) } else { EVERY };
        } else {
            return 1.0;
        }
        self.begun = Some(now);
        self.ended = None;
        self.before_bps = best_bps;
        STEPS[self.step]
    }

    /// A member came or went: earlier results say little.
    pub(super) fn anew(&mut self) {
        self.every = EVERY;
    }
}
