//! Whether the receiver's program reads immediately, from the windows that it advertises.

use crate::previous::Previous;
use crate::{Moment, Observation};

/// The probability of a smaller window by chance. A program that reads immediately advertises the
/// same window each time. One that reads at intervals sometimes advertises a smaller one, when more
/// data has arrived than it has read. A busy host delays the former at one acknowledgement in a
/// hundred. For the latter, at least one window in twenty is smaller: otherwise it would read
/// between nearly all acknowledgements, and would not limit anything.
const BY_CHANCE: f64 = 0.01;
const LATE: f64 = 0.05;
/// The odds required for a decision (Wald's sequential test). Most windows that stay full belong to
/// small buffers: the usual case needs less evidence.
const SURE: f64 = 19.0;
const USUAL: f64 = 4.0;
/// The number of acknowledgements remembered: a reader may become slow.
const REMEMBERED: f64 = 200.0;

/// Follows the windows that a receiver advertises.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reader {
    /// Observations that acknowledge more than the previous one, and how many of them had a smaller
    /// window.
    announced: f64,
    shrunk: f64,
}

impl Reader {
    /// Processes an observation. Only full windows are informative: others may shrink for as long
    /// as waking a program takes.
    pub(crate) fn observe(&mut self, last: &Previous, now: &Observation) {
        let (Some(before), Some(window)) = (last.receive_window_bytes, now.receive_window_bytes) else {
            return;
        };
        let full = before.saturating_sub(last.outstanding_bytes) < 2 * u64::from(now.mss_bytes);
        let moments = [last.moment, now.moment];
        let is_comparable = moments == [Moment::Polled; 2] || moments == [Moment::Arrival; 2];
        if full && is_comparable && now.acked_bytes > last.acked_bytes {
            self.add(1, u32::from(window < before));
        }
    }

    /// Adds acknowledgements of new data, `shrunk` of which had a smaller window than the previous
    /// one.
    pub fn add(&mut self, announced: u32, shrunk: u32) {
        self.announced += f64::from(announced);
        self.shrunk += f64::from(shrunk);
        if self.announced > REMEMBERED {
            self.shrunk *= REMEMBERED / self.announced;
            self.announced = REMEMBERED;
        }
    }

    /// Whether it reads immediately; `None` until that is certain.
    pub fn at_once(&self) -> Option<bool> {
        let same = self.announced - self.shrunk;
        let odds = self.shrunk * (LATE / BY_CHANCE).ln() + same * ((1.0 - LATE) / (1.0 - BY_CHANCE)).ln();
        match odds {
            odds if odds >= SURE.ln() => Some(false),
            odds if odds <= -USUAL.ln() => Some(true),
            _ => None,
        }
    }
}
