//! Whether a loss still holds the window: what reduced it, and how often that happens.

use crate::{Observation, Reduction};

/// Where losses that came as before would have let through what was sent since with less than this probability, it is
/// no longer they that hold the window.
const UNLIKELY: f64 = 0.01;

/// What reduced the window last.
#[derive(Clone, Copy, Debug)]
struct Reduced {
    /// The window before it, segments; 0 once the window has grown back.
    from_segments: u32,
    by: Reduction,
}

/// What is known of whether a reduction holds the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    Yes,
    No,
    /// Losses came before anybody looked, and nobody knows how often.
    Perhaps,
    /// No reduction was observed, and nobody knows of one.
    Unseen,
}

/// Of a flow seen from its middle: what came before.
#[derive(Clone, Copy, Debug)]
struct Past {
    /// Losses, at most: each segment that was sent again may be one of its own. At least one.
    at_most: u32,
    /// Bytes that were sent until then.
    bytes: u64,
}

/// The reductions that were observed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Losses {
    past: Option<Past>,
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
        let at_most = now.retransmitted_segments;
        self.past = (at_most > 0).then_some(Past { at_most, bytes: self.first_bytes });
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
    /// has grown beyond what it was before the last. `None`: it may be so.
    fn go_on(&self, seen: &Observation) -> Option<bool> {
        let since = seen.sent_bytes().saturating_sub(self.latest_bytes);
        if self.count > 0 {
            return Some(may_go_on(self.count, self.latest_bytes.saturating_sub(self.first_bytes), since));
        }
        let past = self.past?;
        match [past.at_most, 1].map(|count| may_go_on(count.into(), past.bytes, since)) {
            [true, _] => Some(true),
            [_, false] => Some(false),
            [false, true] => None,
        }
    }

    /// Whether a reduction holds the window.
    pub(crate) fn hold(&self, seen: &Observation) -> Held {
        let knows_of_none = self.count == 0 && self.past.is_none();
        let goes_on = if knows_of_none { Some(false) } else { self.go_on(seen) };
        match (goes_on, self.is_smaller(seen)) {
            (Some(true), _) | (_, Some(true)) => Held::Yes,
            (None, _) => Held::Perhaps,
            (Some(false), Some(false)) => Held::No,
            (Some(false), None) => Held::Unseen,
        }
    }
}

/// Whether losses may go on that came so often while so many bytes were sent: their rate is known by no more than them, so
/// the chance that the next one is further away than `since` is (bytes / (bytes + since))^count. With many it is
/// e^-distances.
fn may_go_on(count: u64, bytes: u64, since: u64) -> bool {
    let (bytes, since) = (bytes as f64, since as f64);
    since == 0.0 || count as f64 * (bytes / (bytes + since)).ln() >= UNLIKELY.ln()
}
