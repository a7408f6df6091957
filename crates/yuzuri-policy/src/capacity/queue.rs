//! Determines whether a queue is the group's own or that of senders outside the group. A single
//! measurement does not show it. Therefore the leader changes the windows in a step and observes
//! the response. With the flight `W`, the round-trip time `R` and the delivery rate `u`, Little's
//! law is `W = u * R`:
//!
//! - If the queue is the group's own, `u` stays and `R` follows `W`.
//! - If other senders or the air hold the queue, `R` stays and `u` follows `W`.
//!
//! While a queue grows, `R` rises and `u` falls in both cases: the capacity fell, or other senders
//! arrived. Therefore a step is judged against the rate at the moment when windows shrink. The
//! measured rates do not show that rate yet, since they cover two round trips; but it is at most
//! the announced windows over `R`.
//!
//! A step *down* tests whether a queue above its target can be drained. If it can, the current rate
//! is the capacity of the path, whatever the rate was before. If it cannot, and the step reduced
//! the rate, the queue is *standing*: windows then carry the former rate behind it. A step *up*
//! tests whether larger windows carry more: the queue of other senders may be shorter than the
//! target. If a step of either kind changes the queue and not the rate, the group carries the whole
//! capacity of the path. As long as it does, the leader makes no steps up.

use super::total::Total;
use super::weights::{Parts, Rescale};
use super::{GROWS_TO_LOSS, STEADY, settles};
use crate::Moment;
use std::time::Duration;

/// A step down reduces the flight to this fraction (the reduction of RFC 5681); a step up raises it
/// by as much.
pub(crate) const STEP: f64 = 0.5;
/// Half of a step: beyond it, the round-trip time has followed the windows.
const HALF_STEP: f64 = (1.0 + STEP) / 2.0;
/// A standing queue is tested again after twice this time. Each test that confirms it doubles the
/// interval, up to the second value. A step up that gained nothing is repeated after half of this
/// time, with the same doubling.
pub(crate) const AGAIN: Duration = Duration::from_secs(16);
pub(crate) const AGAIN_AT_LATEST: Duration = Duration::from_secs(128);

/// The result of an evaluation. Windows carry the level over a round trip of `hold_s` seconds.
#[derive(Debug, Clone)]
pub(super) enum Answer {
    /// The queue is within its target.
    OnTarget { hold_s: f64 },
    /// The same, during a step up: the level is raised by this factor to see whether the rate
    /// follows.
    StepUp { by: f64, hold_s: f64 },
    /// The queue is longer: the level is the rate when the step down began.
    StepDown { carried: f64, hold_s: f64 },
    /// The queue was the group's own and has drained: the path carries this rate, no longer the
    /// former maximum.
    Drained { carried: f64, hold_s: f64 },
    /// The queue stays although the group's windows were reduced; with the rate before.
    Stays { before: Parts },
}

/// The measurements at the beginning of a step.
#[derive(Debug, Clone)]
struct Step {
    since: Moment,
    round_trip_s: f64,
    carried: Parts,
    /// The rate at the beginning of the first of several steps.
    first: Parts,
    /// The maximum rate before the queue grew.
    before: Parts,
}

impl Step {
    fn in_flight(&self) -> f64 {
        self.carried.sum * self.round_trip_s
    }
}

/// The state of the queue's evaluation.
#[derive(Debug, Clone, Default)]
pub(super) struct Queue {
    standing_s: f64,
    down: Option<Step>,
    up: Option<Step>,
    /// When the last step up ended, and the time until the next one.
    up_at: Option<Moment>,
    up_again: Option<Duration>,
    /// The rate at which a step changed the queue and not the rate: the capacity of the path. While
    /// the group carries this rate, no other sender uses the path, and no step up is needed.
    alone: Option<Parts>,
    /// When the standing queue was found, and the time until it is tested again.
    found_at: Moment,
    found_again: Option<Duration>,
}

impl Queue {
    /// Continues with the standing queue that another leader found, seconds.
    pub(super) fn standing(now: Moment, standing_s: f64) -> Queue {
        Queue { standing_s, found_at: now, ..Queue::default() }
    }

    /// The part of the queue that smaller windows do not drain, seconds.
    pub(super) fn standing_s(&self) -> f64 {
        self.standing_s
    }

    /// Evaluates a tick. `target_s`: the target queue in addition to the standing one; `carried`:
    /// the current normalised rate; `best`: its recent maximum; `announced`: the sum of the
    /// announced windows, normalised rate times seconds.
    pub(super) fn follow(
        &mut self,
        now: Moment,
        round_trip: Duration,
        total: Total,
        target_s: f64,
        [mut carried, best]: [Parts; 2],
        announced: f64,
    ) -> Answer {
        self.follow_standing(now, total.queue_s, carried.sum, best.sum);
        let round_trip_s = total.base_s + total.queue_s;
        let measured = carried.sum;
        if self.down.is_none() {
            carried.sum = carried.sum.min(announced / round_trip_s);
        }
        let (most, rate) = (best.sum, carried.sum);
        let here = Step { since: now, round_trip_s, first: carried.clone(), carried, before: best };
        let settles = settles(round_trip);
        let hold_s = total.base_s + self.standing_s + target_s;
        if self.is_stepping_up(&here, settles, total) {
            return Answer::StepUp { by: 2.0 - STEP, hold_s };
        }
        if total.queue_s <= self.standing_s + target_s {
            let down = self.down.take();
            let is_own =
                |down: &Step| round_trip_s < HALF_STEP * down.round_trip_s && rate >= STEADY * down.first.sum;
            if down.as_ref().is_some_and(is_own) {
                self.alone = Some(here.carried.clone());
            }
            let own = down.map(|down| down.first.sum.max(rate));
            if let Some(carried) = own.filter(|carried| *carried < STEADY * most) {
                return Answer::Drained { carried, hold_s };
            }
            let up_at = *self.up_at.get_or_insert(now);
            let is_alone = self.alone.as_ref().is_some_and(|alone| rate >= STEADY * alone.sum);
            if now.since(up_at) > self.up_again.unwrap_or(settles) && rate > 0.0 && !is_alone {
                self.up = Some(here);
            }
            return Answer::OnTarget { hold_s };
        }
        self.step_down(here, measured, settles, hold_s, total.queue_s)
    }

    /// Converts stored normalised rates to new weights.
    pub(super) fn rescale(&mut self, to: &Rescale) {
        for step in self.down.iter_mut().chain(&mut self.up) {
            for parts in [&mut step.carried, &mut step.first, &mut step.before] {
                parts.rescale(to);
            }
        }
        self.alone.iter_mut().for_each(|alone| alone.rescale(to));
    }

    /// The standing queue shrinks with the measured one, and grows with it while the rate falls. It
    /// is discarded when it is due to be tested again.
    fn follow_standing(&mut self, now: Moment, queue_s: f64, carried: f64, best: f64) {
        if queue_s < self.standing_s || self.standing_s > 0.0 && carried < STEADY * best {
            self.standing_s = queue_s;
        }
        let is_due = now.since(self.found_at) > self.found_again.unwrap_or(AGAIN);
        if self.standing_s > 0.0 && self.down.is_none() && self.up.is_none() && is_due {
            self.standing_s = 0.0;
        }
    }

    /// Whether a step up continues. Losses end it as well: a queue that overflows is short.
    fn is_stepping_up(&mut self, here: &Step, settles: Duration, total: Total) -> bool {
        let Some(up) = &self.up else { return false };
        let [time, rate] = [here.round_trip_s / up.round_trip_s, here.carried.sum / up.carried.sum];
        let overflows = total.lost >= GROWS_TO_LOSS;
        if here.since.since(up.since) < settles && time * HALF_STEP < 1.0 && !overflows {
            return true;
        }
        self.up_at = Some(here.since);
        let pays = rate > time && rate * STEADY > 1.0 && !overflows;
        if pays {
            // The larger windows did not cause the queue: it is that of other senders.
            self.standing_s = self.standing_s.max(total.queue_s);
        }
        let is_own = time * HALF_STEP >= 1.0 && rate * STEADY <= 1.0;
        self.alone = is_own.then(|| up.carried.clone());
        self.up = pays.then(|| here.clone());
        self.up_again = match self.up_again {
            _ if pays => None,
            Some(again) => Some((2 * again).min(AGAIN_AT_LATEST)),
            None => Some(AGAIN / 2),
        };
        pays
    }

    /// Reduces the windows in steps while the queue is above its target.
    fn step_down(
        &mut self,
        here: Step,
        measured: f64,
        settles: Duration,
        hold_s: f64,
        queue_s: f64,
    ) -> Answer {
        let now = here.since;
        let mut down = self.down.take().unwrap_or_else(|| here.clone());
        let [time, rate] = [here.round_trip_s / down.round_trip_s, here.carried.sum / down.first.sum];
        if here.in_flight() > down.in_flight() {
            // The flight has not been reduced yet, or the path changed.
            down = here;
        } else if time < HALF_STEP && rate >= time {
            if rate >= STEADY {
                self.alone = Some(here.carried.clone());
            }
            down = Step { first: down.first, before: down.before, ..here };
        } else if now.since(down.since) >= settles {
            if rate < STEADY && rate < time {
                self.standing_s = queue_s;
                self.found_at = now;
                self.found_again = Some((2 * self.found_again.unwrap_or(AGAIN)).min(AGAIN_AT_LATEST));
                return Answer::Stays { before: down.before };
            }
            down = Step { first: down.first, before: down.before, ..here };
        }
        // Whether members have applied the announced windows is known only at the next tick. Until
        // then these windows only limit the rate by which the step is judged; no share falls
        // because of them.
        let carried = if down.since == now { measured } else { down.carried.sum };
        let hold_s = hold_s.max(STEP * down.round_trip_s);
        self.down = Some(down);
        Answer::StepDown { carried, hold_s }
    }
}
