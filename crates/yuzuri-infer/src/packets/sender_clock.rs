//! Round-trip times by the sender's own clock, which its timestamps (RFC 7323) reveal away from it:
//! the difference between the timestamp of a segment and that of the segment sent in response to
//! its acknowledgement is what the sender measures. The arrival times at a distant capture include
//! delays of their own.

use super::pieces::Pieces;
use crate::window_trace::{Round, WindowTrace};

/// Clock rates of senders, ticks per second.
const CLOCKS_HZ: [f64; 4] = [1e6, 1000.0, 250.0, 100.0];
/// The apparent error of a clock that is tolerated: a short flow's queue grows meanwhile.
const CLOCK_OFF: f64 = 0.1;
/// Ticks that the minimum round-trip time must have: one is lost or gained between two readings.
const MIN_TICKS: f64 = 16.0;
/// More ticks are no round-trip time: an artificial clock, or one that was set.
const MAX_TICKS: u32 = 1 << 26;

/// The measurements of a round, ticks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TickTally {
    first: u32,
    min: u32,
    max: u32,
    last: u32,
    sum: u64,
    count: u32,
}

impl TickTally {
    pub(super) fn add(&mut self, ticks: u32) {
        if ticks > MAX_TICKS {
            return;
        }
        if self.count == 0 {
            (self.first, self.min, self.max) = (ticks, ticks, ticks);
        }
        self.min = self.min.min(ticks);
        self.max = self.max.max(ticks);
        self.last = ticks;
        self.sum += u64::from(ticks);
        self.count += 1;
    }

    /// Replaces the round's times.
    fn set(&self, round: &mut Round, tick_us: f64) {
        if self.count == 0 {
            return;
        }
        let us = |ticks: f64| ((ticks * tick_us) as u32).max(1);
        round.rtt_first_us = us(f64::from(self.first));
        round.rtt_min_us = us(f64::from(self.min));
        round.rtt_max_us = us(f64::from(self.max));
        round.rtt_last_us = us(f64::from(self.last));
        round.rtt_mean_us = us(self.sum as f64 / f64::from(self.count));
    }
}

/// The sender's clock, and its measurements round by round.
#[derive(Clone, Debug, Default)]
pub(super) struct SenderClock {
    /// The first reading, with the capture's time.
    first: Option<(u32, i64)>,
    last: (u32, i64),
    rounds: Pieces<TickTally>,
}

impl SenderClock {
    /// Records a reading.
    pub(super) fn saw(&mut self, stamp: u32, now_ns: i64) {
        self.first.get_or_insert((stamp, now_ns));
        self.last = (stamp, now_ns);
    }

    /// Keeps the measurements of a round.
    pub(super) fn keep(&mut self, ticks: TickTally) {
        self.rounds.push(ticks);
    }

    /// Ticks per second, if it is a known clock.
    fn hz(&self) -> Option<f64> {
        let (first, first_ns) = self.first?;
        let (last, last_ns) = self.last;
        let measured = f64::from(last.wrapping_sub(first)) / ((last_ns - first_ns) as f64 / 1e9);
        CLOCKS_HZ.into_iter().find(|hz| (measured / hz - 1.0).abs() < CLOCK_OFF)
    }

    /// The time from one reading to another, ns, if it is a known clock.
    pub(super) fn between_ns(&self, from: u32, to: u32) -> Option<i64> {
        let ticks = Some(to.wrapping_sub(from)).filter(|ticks| *ticks <= MAX_TICKS)?;
        Some((f64::from(ticks) / self.hz()? * 1e9) as i64)
    }

    /// Replaces the round-trip times by those of this clock if it is fine enough.
    pub(super) fn set(self, window_trace: &mut WindowTrace) {
        let Some(tick_us) = self.hz().map(|hz| 1e6 / hz) else { return };
        if f64::from(window_trace.min_rtt_us) < MIN_TICKS * tick_us
            || self.rounds.len() != window_trace.rounds.len()
        {
            return;
        }
        for (ticks, round) in self.rounds.into_vec().into_iter().zip(&mut window_trace.rounds) {
            ticks.set(round, tick_us);
        }
    }
}
