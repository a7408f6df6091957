//! Whose queue it is. What is measured at one moment does not tell, so the leader steps, and looks
//! at the answer. With `W` in flight, `R` the round-trip time and `u` what is carried, `W = u * R`
//! (Little's law):
//!
//! - Where the queue is the group's own, `u` stays and `R` follows `W`.
//! - Where others hold it, or the air, `R` stays and `u` follows `W`.
//!
//! While a queue grows, `R` rises and `u` falls in both: capacity fell, or others came. So a step
//! is judged from what is carried when windows give way. Rates do not say it yet, since they are
//! taken over two round trips; but no more is carried than windows hold, as they were told, over
//! `R`.
//!
//! A step *down* asks whether a queue that is longer than meant can be drained. Where it can, what
//! is carried is what the path carries, whatever it carried before. Where it cannot, and giving way
//! costs, the queue is *standing*: windows hold what was carried before it grew behind it. A step
//! *up* asks whether windows that hold what they are meant to could carry more; others' queue may
//! be shorter than the one that is aimed at.

use super::total::Total;
use super::{GROWS_TO_LOSS, STEADY, settles};
use crate::Moment;
use std::time::Duration;

/// Windows hold this part of what is in flight after a step down, and as much more after one up.
const STEP: f64 = 0.5;
const STEP_UP: f64 = 2.0 - STEP;
/// Half of a step: the round-trip time followed.
const HALF_STEP: f64 = (1.0 + STEP) / 2.0;
/// A standing queue is looked at again after twice this time, and each time that it stays after
/// twice as long, up to the second. A step up that carried no more is tried again after half of it,
/// and then alike.
const AGAIN: Duration = Duration::from_secs(16);
const AGAIN_AT_LATEST: Duration = Duration::from_secs(128);

/// What follows from the queue. Windows hold a level for `hold_s` seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Answer {
    /// The queue is as windows make it.
    AsMeant { hold_s: f64 },
    /// The same, and the level is so many times what it is meant to be: whether more is carried so.
    StepsUp { by: f64, hold_s: f64 },
    /// It is longer: the level is what was `carried` when the step began.
    GiveWay { carried: f64, hold_s: f64 },
    /// It was the group's own, and is gone: the path carries so much, and no more the best of late.
    Drained { carried: f64, hold_s: f64 },
    /// It stays although the group gave way. So much was carried before.
    Stays { before: f64 },
}

/// What was measured when a step began.
#[derive(Debug, Clone, Copy)]
struct Step {
    since: Moment,
    round_trip_s: f64,
    carried: f64,
    /// What was carried when windows gave way, in the first of several steps.
    first: f64,
    /// The best that was carried before the queue grew.
    before: f64,
}

impl Step {
    fn in_flight(&self) -> f64 {
        self.carried * self.round_trip_s
    }
}

/// What is known of the queue.
#[derive(Debug, Clone, Default)]
pub(super) struct Queue {
    standing_s: f64,
    down: Option<Step>,
    up: Option<Step>,
    /// When the last step up ended, and how long none begins.
    up_at: Option<Moment>,
    up_again: Option<Duration>,
    /// When the standing queue was found, and how long it is not looked at again.
    found_at: Moment,
    found_again: Option<Duration>,
}

impl Queue {
    /// Where another leader found a standing queue of so much, seconds.
    pub(super) fn standing(now: Moment, standing_s: f64) -> Queue {
        Queue { standing_s, found_at: now, ..Queue::default() }
    }

    /// The queue that giving way does not lower, seconds.
    pub(super) fn standing_s(&self) -> f64 {
        self.standing_s
    }

    /// Follows the queue. Windows are meant to hold `target_s` of it beyond what is standing;
    /// `carried` is what is carried now, `best` the most of late, and `announced` what windows hold
    /// as they were told, by seconds.
    pub(super) fn follow(
        &mut self,
        now: Moment,
        round_trip: Duration,
        total: Total,
        target_s: f64,
        [carried, best, announced]: [f64; 3],
    ) -> Answer {
        self.follow_standing(now, total.queue_s, carried, best);
        let round_trip_s = total.base_s + total.queue_s;
        let measured = carried;
        let carried = if self.down.is_none() { carried.min(announced / round_trip_s) } else { carried };
        let here = Step { since: now, round_trip_s, carried, first: carried, before: best };
        let settles = settles(round_trip);
        let hold_s = total.base_s + self.standing_s + target_s;
        if self.is_stepping_up(here, settles, total) {
            return Answer::StepsUp { by: STEP_UP, hold_s };
        }
        if total.queue_s <= self.standing_s + target_s {
            let own = self.down.take().map(|down| down.first.max(carried));
            if let Some(carried) = own.filter(|carried| *carried < STEADY * best) {
                return Answer::Drained { carried, hold_s };
            }
            let up_at = *self.up_at.get_or_insert(now);
            if now.since(up_at) > self.up_again.unwrap_or(settles) && carried > 0.0 {
                self.up = Some(here);
            }
            return Answer::AsMeant { hold_s };
        }
        self.step_down(here, measured, settles, hold_s, total.queue_s)
    }

    /// What is carried is counted in other parts: so many times as much.
    pub(super) fn rescale(&mut self, by: f64) {
        for step in self.down.iter_mut().chain(&mut self.up) {
            (step.carried, step.first, step.before) = (step.carried * by, step.first * by, step.before * by);
        }
    }

    /// A standing queue shrinks with what is measured, and grows where less is carried behind it.
    fn follow_standing(&mut self, now: Moment, queue_s: f64, carried: f64, best: f64) {
        if queue_s < self.standing_s || self.standing_s > 0.0 && carried < STEADY * best {
            self.standing_s = queue_s;
        }
        let is_due = now.since(self.found_at) > self.found_again.unwrap_or(AGAIN);
        if self.standing_s > 0.0 && self.down.is_none() && self.up.is_none() && is_due {
            self.standing_s = 0.0;
        }
    }

    /// Whether a step up goes on. Losses answer it, too: queues that overflow are short.
    fn is_stepping_up(&mut self, here: Step, settles: Duration, total: Total) -> bool {
        let Some(up) = self.up else { return false };
        let [time, rate] = [here.round_trip_s / up.round_trip_s, here.carried / up.carried];
        let overflows = total.lost >= GROWS_TO_LOSS;
        if here.since.since(up.since) < settles && time * HALF_STEP < 1.0 && !overflows {
            return true;
        }
        self.up_at = Some(here.since);
        let pays = rate > time && rate * STEADY > 1.0 && !overflows;
        if pays {
            // The queue did not come of wider windows: it is others'.
            self.standing_s = self.standing_s.max(total.queue_s);
        }
        self.up = pays.then_some(here);
        self.up_again = match self.up_again {
            _ if pays => None,
            Some(again) => Some((2 * again).min(AGAIN_AT_LATEST)),
            None => Some(AGAIN / 2),
        };
        pays
    }

    /// Gives way to a queue that is longer than meant, a step at a time.
    fn step_down(
        &mut self,
        here: Step,
        measured: f64,
        settles: Duration,
        hold_s: f64,
        queue_s: f64,
    ) -> Answer {
        let mut down = *self.down.get_or_insert(here);
        let [time, rate] = [here.round_trip_s / down.round_trip_s, here.carried / down.first];
        if here.in_flight() > down.in_flight() {
            // Windows have not given way yet, or the path changed.
            down = here;
        } else if time < HALF_STEP && rate >= time {
            down = Step { first: down.first, before: down.before, ..here };
        } else if here.since.since(down.since) >= settles {
            if rate < STEADY && rate < time {
                self.down = None;
                self.standing_s = queue_s;
                self.found_at = here.since;
                self.found_again = Some((2 * self.found_again.unwrap_or(AGAIN)).min(AGAIN_AT_LATEST));
                return Answer::Stays { before: down.before };
            }
            down = Step { first: down.first, before: down.before, ..here };
        }
        self.down = Some(down);
        // Whether windows hold what they were told is only known at the next look: until then the
        // step is judged by it, and nobody's share falls for it.
        let carried = if down.since == here.since { measured } else { down.carried };
        Answer::GiveWay { carried, hold_s: hold_s.max(STEP * down.round_trip_s) }
    }
}
