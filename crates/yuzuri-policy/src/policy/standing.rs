//! Whether obeying bounds keeps the queue short, and if not, what it costs this terminal.
//!
//! A terminal obeys bounds because they keep the queue short for all. An honest leader that
//! announces a queue and finds a longer one reduces windows until the queue is as announced, or
//! announces the phase `contend`: it tests a standing queue again after [`AGAIN`], and judges the
//! response to a step within that time. So a queue that has been longer than announced for that
//! much longer than it has not is that of somebody who does not obey.
//!
//! It may also be the terminal's own, for example at its radio: a leader knows only the mean queue
//! of all. Little's law distinguishes the two. With larger windows, a sender behind a queue of
//! others carries more, and a sender behind its own queue only waits longer. So the terminal tries
//! the windows of `contend` for as long as it has waited, and compares the means of both times. A
//! comparison of single decisions would fail by chance, because the windows of others vary.
//!
//! Two queues show nothing. The minimum RTT of a latecomer contains the announced queue, so that
//! its windows leave up to as much again. And windows that are no larger than the least that a
//! leader can set are not the leader's to reduce.

use crate::Moment;
use crate::capacity::{AGAIN, AGAIN_AT_LATEST, STEADY, settles};
use crate::own::MIN_SPAN;
use std::time::Duration;

/// What the flows that an announced queue bounds show at one decision.
#[derive(Debug, Clone, Copy)]
pub(super) struct QueueSeen {
    /// The terminal's rate, bit/s.
    pub(super) rate_bps: f64,
    /// Their mean RTT, and minimum RTT, seconds.
    pub(super) srtt_s: f64,
    pub(super) base_s: f64,
    /// The announced queue, seconds.
    pub(super) announced_s: f64,
    /// Whether a bound limits one of them, and the leader can halve it.
    pub(super) bound: bool,
}

impl QueueSeen {
    /// Whether the queue is longer than windows of the announced one leave, latecomers' included.
    fn is_long(&self) -> bool {
        self.base_s + 2.0 * self.announced_s < STEADY * self.srtt_s
    }
}

/// What came of a decision.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Outcome {
    Obey,
    /// Windows carry the share behind this queue, seconds.
    Try(f64),
    /// They have carried more, and the queue was not the terminal's own.
    InVain,
}

/// Sums over decisions.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    rate_bps: f64,
    srtt_s: f64,
    queue_s: f64,
    decisions: f64,
}

impl Sums {
    fn add(&mut self, seen: QueueSeen) {
        self.rate_bps += seen.rate_bps;
        self.srtt_s += seen.srtt_s;
        self.queue_s += seen.srtt_s - seen.base_s;
        self.decisions += 1.0;
    }

    fn mean(&self, sum: f64) -> f64 {
        sum / self.decisions.max(1.0)
    }
}

/// A trial of larger windows.
#[derive(Debug, Clone, Copy)]
struct Trial {
    since: Moment,
    /// The means before it, and since it shows.
    before: Sums,
    after: Sums,
}

impl Trial {
    /// Whether larger windows carried more, and by more than they lengthened the queue.
    fn gained(&self) -> bool {
        let (before, after) = (&self.before, &self.after);
        let rate = after.mean(after.rate_bps) / before.mean(before.rate_bps).max(1.0);
        let time = after.mean(after.srtt_s) / before.mean(before.srtt_s).max(1e-6);
        after.decisions > 0.0 && rate * STEADY > 1.0 && rate > time
    }
}

/// The state of a terminal's evidence.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Standing {
    judged: Option<Moment>,
    /// For how long the queue has been longer than announced, less the time in which it was not.
    exceeded: Duration,
    /// The sums over the decisions at which it was.
    sums: Sums,
    trial: Option<Trial>,
    /// When a trial last gained nothing, and the time until the next.
    lost: Option<(Moment, Duration)>,
}

impl Standing {
    /// Follows a decision; `None`: no queue is announced.
    pub(super) fn follow(&mut self, now: Moment, seen: Option<QueueSeen>) -> Outcome {
        let since_last = self.judged.map_or(Duration::ZERO, |at| now.since(at)).min(MIN_SPAN);
        self.judged = Some(now);
        let Some(seen) = seen else {
            self.trial = None;
            self.exceeded = self.exceeded.saturating_sub(since_last);
            return Outcome::Obey;
        };
        if let Some(trial) = &mut self.trial {
            let since = now.since(trial.since);
            if since > settles(Duration::from_secs_f64(seen.srtt_s)) {
                trial.after.add(seen);
            }
            if since < AGAIN {
                return Outcome::Try(trial.before.mean(trial.before.queue_s));
            }
            let gained = trial.gained();
            self.trial = None;
            if gained {
                self.lost = None;
                return Outcome::InVain;
            }
            let again = self.lost.map_or(AGAIN, |(_, again)| (2 * again).min(AGAIN_AT_LATEST));
            self.lost = Some((now, again));
            return Outcome::Obey;
        }
        // A window below its bound shows nothing about the bound.
        if !seen.bound {
            return Outcome::Obey;
        }
        if !seen.is_long() {
            self.exceeded = self.exceeded.saturating_sub(since_last);
            return Outcome::Obey;
        }
        if self.exceeded.is_zero() {
            self.sums = Sums::default();
        }
        self.exceeded += since_last;
        self.sums.add(seen);
        if self.exceeded < AGAIN || self.lost.is_some_and(|(at, again)| now.since(at) < again) {
            return Outcome::Obey;
        }
        self.trial = Some(Trial { since: now, before: self.sums, after: Sums::default() });
        self.exceeded = Duration::ZERO;
        Outcome::Try(self.sums.mean(self.sums.queue_s))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_millis(500);
    /// Ticks of a wait, and of a trial.
    const AGAIN_TICKS: usize = 32;

    /// A path of 10 ms with 100 ms of queue, of which 20 ms are announced.
    fn long() -> QueueSeen {
        QueueSeen { rate_bps: 4e6, srtt_s: 0.110, base_s: 0.010, announced_s: 0.020, bound: true }
    }

    /// With latecomers whose minimum contains the queue.
    fn short() -> QueueSeen {
        QueueSeen { srtt_s: 0.050, ..long() }
    }

    /// The outcomes of these decisions, if larger windows multiply rate and round-trip time by this.
    fn outcomes(
        decisions: impl IntoIterator<Item = Option<QueueSeen>>,
        [rate, time]: [f64; 2],
    ) -> Vec<Outcome> {
        let mut standing = Standing::default();
        let mut tries = false;
        let mut all = Vec::new();
        for (tick, seen) in decisions.into_iter().enumerate() {
            let seen = seen.map(|seen| match tries {
                true => QueueSeen { rate_bps: rate * seen.rate_bps, srtt_s: time * seen.srtt_s, ..seen },
                false => seen,
            });
            let outcome = standing.follow(Moment::at(TICK * (tick as u32 + 1)), seen);
            tries = matches!(outcome, Outcome::Try(_));
            all.push(outcome);
        }
        all
    }

    fn count(outcomes: &[Outcome], of: impl Fn(&Outcome) -> bool) -> usize {
        outcomes.iter().filter(|outcome| of(outcome)).count()
    }

    fn tries(outcome: &Outcome) -> bool {
        matches!(outcome, Outcome::Try(_))
    }

    #[test]
    fn a_queue_that_stays_is_that_of_others_if_larger_windows_carry_more() {
        let all = outcomes([Some(long()); 70], [1.8, 1.1]);
        let first = all.iter().position(tries);
        assert_eq!(first, Some(AGAIN_TICKS), "{all:?}");
        assert!(matches!(all[AGAIN_TICKS], Outcome::Try(queue_s) if (queue_s - 0.100).abs() < 1e-9));
        assert_eq!(all[2 * AGAIN_TICKS], Outcome::InVain, "{all:?}");
    }

    #[test]
    fn a_queue_of_its_own_is_tried_ever_less_often() {
        // An hour.
        let all = outcomes([Some(long()); 7200], [1.0, 2.0]);
        assert_eq!(count(&all, |outcome| *outcome == Outcome::InVain), 0);
        let tried = count(&all, tries);
        assert!(tried > 0 && tried < all.len() / 8, "{tried} of {} ticks", all.len());
        // Larger aggregates may carry a little more.
        assert_eq!(count(&outcomes([Some(long()); 7200], [1.3, 1.6]), |o| *o == Outcome::InVain), 0);
    }

    #[test]
    fn a_leader_that_answers_within_the_time_is_obeyed() {
        let all_obey = |decisions: Vec<Option<QueueSeen>>| {
            let all = outcomes(decisions, [1.8, 1.1]);
            assert!(all.iter().all(|outcome| *outcome == Outcome::Obey), "{all:?}");
        };
        // The queue drains after 15 s, and stays short for as long.
        all_obey((0..600).map(|tick| Some(if tick % 60 < 30 { long() } else { short() })).collect());
        // Or the leader announces `contend`.
        all_obey((0..600).map(|tick| (tick % 60 < 30).then(long)).collect());
        // A window below its bound shows nothing.
        all_obey(vec![Some(QueueSeen { bound: false, ..long() }); 600]);
    }

    #[test]
    fn an_answer_ends_a_trial() {
        let answers = |tick| if tick == AGAIN_TICKS + 5 { None } else { Some(long()) };
        let all = outcomes((0..2 * AGAIN_TICKS).map(answers), [1.8, 1.1]);
        assert_eq!(count(&all, tries), 5, "{all:?}");
    }
}
