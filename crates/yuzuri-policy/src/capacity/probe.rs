//! Trying whether there is more: for a round trip everybody takes more than its share, and the best of what follows tells.

use crate::Moment;
use std::time::Duration;

/// A probe lasts a round trip, at least so long ...
const SHORTEST: Duration = Duration::from_millis(500);
/// ... and comes every six round trips, at least so much time apart; after each that found nothing twice as much, up to so much.
const EVERY: Duration = Duration::from_secs(4);
const MAX_PROBE_EVERY: Duration = Duration::from_secs(16);
/// A probe found more if the best rose by this part of what was tried (the rate is taken over two round trips, the probe lasts one): then
/// the next comes at once ...
const FOUND: f64 = 0.25;
/// ... and after this part, it takes more.
const FOUND_MUCH: f64 = 0.4;
/// What a probe takes, times the share: the first where segments are lost, the first elsewhere, and those after finding much.
const STEPS: [f64; 4] = [1.1, 1.25, 1.5, 2.0];

/// When the group tries whether there is more.
#[derive(Debug, Clone, Copy)]
pub(super) struct Probe {
    begun: Option<Moment>,
    ended: Option<Moment>,
    /// The best before it began, bit/s.
    before_bps: f64,
    /// Which of [`STEPS`].
    step: usize,
    every: Duration,
}

impl Default for Probe {
    fn default() -> Probe {
        Probe { begun: None, ended: None, before_bps: 0.0, step: 1, every: EVERY }
    }
}

impl Probe {
    /// What to multiply the shares with now; 1 while nothing is tried.
    pub(super) fn factor(&mut self, now: Moment, round_trip: Duration, best_bps: f64, lossy: bool) -> f64 {
        if let Some(begun) = self.begun {
            if now.since(begun) < SHORTEST.max(round_trip) {
                return STEPS[self.step];
            }
            self.begun = None;
            self.ended = Some(now);
        }
        // What a probe brought is delivered a round trip later, and its rate is taken over two.
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

    /// Somebody came or went: what was found before says little.
    pub(super) fn anew(&mut self) {
        self.every = EVERY;
    }
}
