//! Whether a sender sends at its pacing rate.

use crate::Observation;
use crate::previous::Previous;

/// The tolerance for the sender's rate relative to its pacing rate: `fq` includes headers (4 % of a
/// full segment), and the kernel's own pacing compensates for some of its timers' lateness.
const TOLERANCE: f64 = 0.1;
/// The rates are compared over at least this time, microseconds, and over at most twice this time.
const SPAN_US: u64 = 100_000;
/// They are also compared over at least this many intervals between observations, because the time
/// of a poll is uncertain by one interval.
const SPAN_OBSERVATIONS: u64 = 30;
/// They are also compared over at least this many segments: with fewer, a single segment changes
/// the rate too much.
const SPAN_SEGMENTS: u64 = 20;

#[derive(Clone, Copy, Debug)]
struct Mark {
    time_us: u64,
    sent_bytes: u64,
    /// What pacing would have admitted since the first observation, bits × 10^6.
    paced: f64,
}

/// Compares the recently sent data with the pacing rate.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PacingRate {
    marks: [Option<Mark>; 2],
    paced: f64,
    known: bool,
    /// The mean interval between observations, microseconds.
    distance_us: u64,
    /// When pacing was last seen to delay a segment.
    waited_us: Option<u64>,
}

impl PacingRate {
    fn span_us(&self) -> u64 {
        SPAN_US.max(SPAN_OBSERVATIONS * self.distance_us)
    }

    /// Adds the time between two observations.
    pub(crate) fn add(&mut self, last: &Previous, now: &Observation) {
        let time_us = now.time_us.saturating_sub(last.time_us);
        let Some(rate_bps) = now.pacing_rate_bps else {
            *self = PacingRate::default();
            return;
        };
        self.known = true;
        self.distance_us = (self.distance_us * 7 + time_us.min(SPAN_US)) / 8;
        if now.pacing_wait_us.is_some_and(|wait_us| wait_us > 0) {
            self.waited_us = Some(now.time_us);
        }
        let span_us = self.span_us();
        self.paced += rate_bps as f64 * time_us as f64;
        let mark = Mark { time_us: now.time_us, sent_bytes: now.sent_bytes(), paced: self.paced };
        match self.marks {
            [Some(_), Some(newer)] if now.time_us.saturating_sub(newer.time_us) >= span_us => {
                self.marks = [Some(newer), Some(mark)];
            }
            [None, _] => self.marks = [Some(mark), None],
            [Some(first), None] if now.time_us.saturating_sub(first.time_us) >= span_us => {
                self.marks[1] = Some(mark);
            }
            _ => {}
        }
    }

    /// Whether the sender sends at its pacing rate; `None` if it was not observed for long enough.
    pub(crate) fn holds(&self, now: &Observation) -> Option<bool> {
        // The kernel has a pacing rate for every sender, but enforces few of them. An observer that
        // sees delayed segments knows which.
        let span_us = self.span_us();
        let lately = |at_us| now.time_us.saturating_sub(at_us) <= 2 * span_us;
        if now.pacing_wait_us.is_some() && !self.waited_us.is_some_and(lately) {
            return Some(false);
        }
        let mark = self.marks[0].filter(|_| self.known)?;
        let sent_bytes = now.sent_bytes().saturating_sub(mark.sent_bytes);
        let enough = sent_bytes >= SPAN_SEGMENTS * u64::from(now.mss_bytes.max(1));
        if now.time_us.saturating_sub(mark.time_us) < span_us || !enough {
            return None;
        }
        let ratio = sent_bytes as f64 * 8e6 / (self.paced - mark.paced);
        Some((1.0 - TOLERANCE..=1.0 + TOLERANCE).contains(&ratio))
    }
}
