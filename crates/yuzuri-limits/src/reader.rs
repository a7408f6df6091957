//! Whether the receiver's program reads at once, by the windows that it tells.

use crate::{Moment, Observation};

/// A program that reads at once tells the same window each time; one that reads in its own time tells a smaller one now
/// and then, where more had arrived than it had read. A busy host makes the former late at one acknowledgement in a
/// hundred. Of the latter at least one in twenty is smaller: it would read between two of them nearly each time, and then
/// its program limited nothing.
const BY_CHANCE: f64 = 0.01;
const LATE: f64 = 0.05;
/// The odds from which on one of both is told (Wald's sequential test). Of windows that stay full, most are those of
/// small buffers: less speaks for what is usual.
const SURE: f64 = 19.0;
const USUAL: f64 = 4.0;
/// As many acknowledgements are remembered: a reader may become slow.
const REMEMBERED: f64 = 200.0;

/// Follows the windows that a receiver tells.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reader {
    /// Observations that acknowledge more than the one before, and how many of them told a smaller window.
    told: f64,
    shrunk: f64,
}

impl Reader {
    /// Takes an observation in. Only a window that is full tells: another one may be smaller for as long as it takes to
    /// wake up a program.
    pub(crate) fn observe(&mut self, last: &Observation, now: &Observation) {
        let (Some(before), Some(window)) = (last.receive_window_bytes, now.receive_window_bytes) else {
            return;
        };
        let full = last.receiver_room_bytes().is_some_and(|room| room < 2 * u64::from(now.mss_bytes));
        let moments = [last.moment, now.moment];
        let tells = moments == [Moment::Polled; 2] || moments == [Moment::Arrival; 2];
        if full && tells && now.acked_bytes > last.acked_bytes {
            self.add(1, u32::from(window < before));
        }
    }

    /// So many acknowledgements of more data came, of which some told a smaller window than the one before.
    pub fn add(&mut self, told: u32, shrunk: u32) {
        self.told += f64::from(told);
        self.shrunk += f64::from(shrunk);
        if self.told > REMEMBERED {
            self.shrunk *= REMEMBERED / self.told;
            self.told = REMEMBERED;
        }
    }

    /// Whether it reads at once; `None` until that is sure.
    pub fn at_once(&self) -> Option<bool> {
        let same = self.told - self.shrunk;
        let odds = self.shrunk * (LATE / BY_CHANCE).ln() + same * ((1.0 - LATE) / (1.0 - BY_CHANCE)).ln();
        match odds {
            odds if odds >= SURE.ln() => Some(false),
            odds if odds <= -USUAL.ln() => Some(true),
            _ => None,
        }
    }
}
