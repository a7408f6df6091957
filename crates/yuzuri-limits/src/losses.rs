//! Whether a loss still holds the window: what reduced it, and how often that happens.

use crate::{Observation, Reduction};

/// Losses at a steady rate come within five times their mean distance with a probability of 99 % (1 - e^-5). Where none
/// came for longer, it is no longer they that hold the window.
const DISTANCES: u64 = 5;

/// What reduced the window last.
#[derive(Clone, Copy, Debug)]
struct Reduced {
    /// The window before it, segments; 0 once the window has grown back.
    from_segments: u32,
    by: Reduction,
}

/// The reductions that were observed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Losses {
    last: Option<Reduced>,
    /// Bytes sent when the first observation was made, and at the latest reduction.
    first_bytes: u64,
    latest_bytes: u64,
    count: u64,
}

impl Losses {
    /// The first observation: distances count from here. Losses at a steady rate have no memory, so that from any
    /// moment to the next is a distance as any other.
    pub(crate) fn begin(&mut self, now: &Observation) {
        self.first_bytes = now.sent_bytes();
        self.latest_bytes = self.first_bytes;
    }

    /// What reduced the window last.
    pub(crate) fn by(&self) -> Option<Reduction> {
        self.last.map(|last| last.by)
    }

    pub(crate) fn add(&mut self, last: &Observation, now: &Observation) {
        match now.reduction {
            Some(Reduction::Undone) => {
                self.last = None;
                self.count = self.count.saturating_sub(1);
            }
            Some(by) => {
                // A timeout has collapsed the window before it is told; the others have not.
                let from_segments = now.cwnd_segments.max(last.cwnd_segments);
                self.last = Some(Reduced { from_segments, by });
                // What is lost of the same flight is the same event (RFC 6582's `recover`).
                if self.count == 0 || now.acked_bytes >= self.latest_bytes {
                    self.latest_bytes = now.sent_bytes();
                    self.count += 1;
                }
            }
            None => {
                if let Some(reduced) = self.last.as_mut()
                    && now.cwnd_segments >= reduced.from_segments
                {
                    // It has grown back: what it loses again without a reduction, no loss has taken.
                    reduced.from_segments = 0;
                }
            }
        }
    }

    /// Whether the window is smaller than before the last reduction; `None` where none was observed and nobody knows.
    fn is_smaller(&self, seen: &Observation) -> Option<bool> {
        match (seen.prior_cwnd_segments, self.last) {
            (Some(prior), _) => Some(seen.cwnd_segments < prior),
            (None, Some(reduced)) => Some(seen.cwnd_segments < reduced.from_segments),
            (None, None) => None,
        }
    }

    /// Whether reductions come as often as they came before: then the window would be larger without them, also where it
    /// has grown beyond what it was before the last.
    fn go_on(&self, seen: &Observation) -> bool {
        if self.count == 0 {
            return false;
        }
        let mean_bytes = self.latest_bytes.saturating_sub(self.first_bytes) / self.count;
        seen.sent_bytes().saturating_sub(self.latest_bytes) <= mean_bytes.saturating_mul(DISTANCES)
    }

    /// Whether a reduction holds the window; `None`: nobody knows.
    pub(crate) fn hold(&self, seen: &Observation) -> Option<bool> {
        if self.go_on(seen) { Some(true) } else { self.is_smaller(seen) }
    }
}
