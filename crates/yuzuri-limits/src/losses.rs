//! Whether a loss still limits the window: the cause of its reduction, and how often that occurs.

use crate::previous::Previous;
use crate::{Observation, Reduction};

/// If the data sent since the last loss would have passed without a further loss with less than
/// this probability at the previous loss rate, losses no longer limit the window.
const UNLIKELY: f64 = 0.01;

/// Whether a reduction limits the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LimitedByReduction {
    Yes,
    No,
    /// Losses preceded the observation, at an unknown rate.
    Perhaps,
    /// No reduction was observed, and none is known.
    Unseen,
}

/// For a flow observed from its middle: its losses before.
#[derive(Clone, Copy, Debug)]
struct EarlierLosses {
    /// Losses at most: each retransmitted segment may be a loss of its own. At least one.
    at_most: u32,
    /// Bytes sent until then.
    bytes: u64,
}

/// The reductions observed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Losses {
    past: Option<EarlierLosses>,
    /// The cause of the last reduction.
    by: Option<Reduction>,
    /// The largest window that was reduced and has not grown back since, segments: a further loss
    /// during that growth does not end the effect of the first one.
    from_segments: u32,
    /// Bytes sent at the first observation, and at the latest reduction.
    first_bytes: u64,
    latest_bytes: u64,
    count: u64,
}

impl Losses {
    /// The first observation: distances count from here. Losses at a steady rate are memoryless, so
    /// the distance from any moment to the next loss is distributed like any other.
    pub(crate) fn begin(&mut self, now: &Observation) {
        self.first_bytes = now.sent_bytes();
        self.latest_bytes = self.first_bytes;
        let at_most = now.retransmitted_segments;
        self.past = (at_most > 0).then_some(EarlierLosses { at_most, bytes: self.first_bytes });
    }

    /// The cause of the last reduction.
    pub(crate) fn by(&self) -> Option<Reduction> {
        self.by
    }

    pub(crate) fn add(&mut self, last: &Previous, now: &Observation) {
        match now.reduction {
            Some(Reduction::Undone) => {
                (self.by, self.from_segments) = (None, 0);
                self.count = self.count.saturating_sub(1);
            }
            Some(by) => {
                // A timeout has already collapsed the window when it is reported; other reductions
                // have not.
                self.by = Some(by);
                self.from_segments = self.from_segments.max(now.cwnd_segments).max(last.cwnd_segments);
                // Further losses from the same flight belong to the same event (RFC 6582's
                // `recover`).
                if self.count == 0 || now.acked_bytes >= self.latest_bytes {
                    self.latest_bytes = now.sent_bytes();
                    self.count += 1;
                }
            }
            None => {
                self.from_segments = self.from_segments.max(now.prior_cwnd_segments.unwrap_or(0));
                if now.cwnd_segments >= self.from_segments {
                    // The window has grown back: if it shrinks again without a reduction, no loss
                    // is the cause.
                    self.from_segments = 0;
                }
            }
        }
    }

    /// Whether the window is smaller than before a reduction that it has not grown back from;
    /// `None` if none was observed and none is known.
    fn is_smaller(&self, seen: &Observation) -> Option<bool> {
        let known = seen.prior_cwnd_segments.is_some() || self.by.is_some();
        let from_segments = self.from_segments.max(seen.prior_cwnd_segments.unwrap_or(0));
        known.then_some(seen.cwnd_segments < from_segments)
    }

    /// Whether reductions continue at their previous rate: then the window would be larger without
    /// them, even if it has grown beyond its size before the last one. `None`: possibly.
    fn go_on(&self, seen: &Observation) -> Option<bool> {
        let since = seen.sent_bytes().saturating_sub(self.latest_bytes);
        let own_bytes = self.latest_bytes.saturating_sub(self.first_bytes);
        let own = (self.count > 0).then(|| may_go_on(self.count, own_bytes, since));
        let Some(past) = self.past.filter(|_| own != Some(true)) else { return own };
        // Earlier losses count as well, however many they were: if a loss came soon after the first
        // observation, that distance alone is not informative.
        let bytes = past.bytes.saturating_add(own_bytes);
        match [past.at_most, 1].map(|earlier| may_go_on(self.count + u64::from(earlier), bytes, since)) {
            [true, _] => Some(true),
            [_, false] => Some(false),
            [false, true] => None,
        }
    }

    /// Whether a reduction limits the window.
    pub(crate) fn limited_by_reduction(&self, seen: &Observation) -> LimitedByReduction {
        let knows_of_none = self.count == 0 && self.past.is_none();
        let goes_on = if knows_of_none { Some(false) } else { self.go_on(seen) };
        match (goes_on, self.is_smaller(seen)) {
            (Some(true), _) | (_, Some(true)) => LimitedByReduction::Yes,
            (None, _) => LimitedByReduction::Perhaps,
            (Some(false), Some(false)) => LimitedByReduction::No,
            (Some(false), None) => LimitedByReduction::Unseen,
        }
    }
}

/// Whether losses that came later, `count` of them within the `bytes` after the first, already came
/// `before` bytes ahead of it: losses at a steady rate have no direction in time, so the same test
/// applies backwards. It needs a whole recording or capture.
pub fn came_before(count: u64, bytes: u64, before: u64) -> bool {
    count > 0 && may_go_on(count, bytes, before)
}

/// Whether `count` losses (or other memoryless events) within `bytes` sent may continue. Their rate
/// is known only from them, so the probability that the next loss is further away than `since` is
/// (bytes / (bytes + since))^count. For many losses it approaches exp(-since / distance).
pub(crate) fn may_go_on(count: u64, bytes: u64, since: u64) -> bool {
    let (bytes, since) = (bytes as f64, since as f64);
    since == 0.0 || count as f64 * (bytes / (bytes + since)).ln() >= UNLIKELY.ln()
}
