//! Determines whose a queue is. The group yields to its own queue. Yielding to the queue of senders
//! outside the group only leaves them more. A queue does not show whose it is. The group's rate
//! with wider windows does: it rises if others hold the queue, and stays if the group does. So the
//! group makes a *trial*, and acts on its result.

use super::total::Total;
use crate::Moment;
use std::time::Duration;

/// Less than this fraction of the shares is carried ...
const MISSING: f64 = 0.75;
/// ... behind a queue that is longer by this than windows may hold, and by this fraction of the
/// minimum RTT, seconds, ...
const BEYOND_OWN_S: f64 = 0.030;
const BEYOND_OWN_OF_BASE: f64 = 0.5;
/// ... for three round trips, and at least this long: then windows are widened.
const MISSING_FOR: Duration = Duration::from_millis(1500);
/// Wider windows are evaluated after four round trips, and at least this long: a sender that holds
/// the queue alone needs no longer.
const FIRST_LOOK: Duration = Duration::from_secs(2);
/// Behind queues of seconds others yield later: wait twelve more round trips, and at least this
/// long, of which the second half counts.
const SECOND_LOOK: Duration = Duration::from_secs(8);
/// The factor from which on the rate has risen: rates over two round trips differ by a tenth from
/// one to the next.
const MORE: f64 = 1.1;
/// After the second check, wide windows, which cost a queue, are worthwhile from this factor on ...
const PAYS: f64 = 1.4;
/// ... and then stay for this long; each time twice as long as before, up to a maximum. After an
/// equally long time of sharing, the first duration applies again.
const WIDE: Duration = Duration::from_secs(30);
const MAX_WIDE: Duration = Duration::from_secs(300);
/// The queue of others is followed up to this factor each way; upwards only while less than this
/// fraction of the shares is carried.
const FOLLOWS: f64 = 4.0;
const CARRIED: f64 = 0.9;
/// If they are not, no trial begins for this long; after each such trial twice as long, up to a
/// maximum.
const TRY_AFTER: Duration = Duration::from_secs(4);
const TRY_AT_LATEST: Duration = Duration::from_secs(64);

/// The instruction for the windows.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) enum Answer {
    /// Enforce the shares.
    #[default]
    Share,
    /// Grow to the size that the shares need behind the current queue.
    Widen,
    /// Enforce shares of the currently carried rate: the previous rate no longer applies.
    Forget,
    /// Start over.
    Begin,
}

#[derive(Debug, Clone, Copy, Default)]
enum Trial {
    #[default]
    None,
    /// Wider windows, and whether they were checked once.
    Wider { before: Before, looked: bool },
    /// Wide windows are worthwhile, until then.
    Wide { until: Moment },
}

/// The state when a trial began.
#[derive(Debug, Clone, Copy)]
struct Before {
    since: Moment,
    carried: f64,
    queue_s: f64,
}

/// What the group knows about others.
#[derive(Debug, Clone)]
pub(super) struct Others {
    trial: Trial,
    /// The rates carried since the middle of the second check: sum and number.
    seen: (f64, u32),
    missing_for: Duration,
    followed: Option<Moment>,
    /// The earliest time of the next trial, and how long the one after it waits.
    widen_at: Moment,
    widen_after: Duration,
    wide_for: Duration,
    wide_ended: Option<Moment>,
    /// The queue behind which windows carry the shares, seconds: its length when they were widened.
    behind_s: f64,
    found_s: f64,
}

impl Default for Others {
    fn default() -> Others {
        Others {
            trial: Trial::None,
            seen: (0.0, 0),
            missing_for: Duration::ZERO,
            followed: None,
            widen_at: Moment::default(),
            widen_after: TRY_AFTER,
            wide_for: WIDE,
            wide_ended: None,
            behind_s: 0.0,
            found_s: 0.0,
        }
    }
}

/// The observed quantities, in units of air or in bit/s.
#[derive(Debug, Clone, Copy)]
pub(super) struct Followed {
    /// The carried rate.
    pub(super) carried: f64,
    /// The sum of the shares.
    pub(super) shared: f64,
    /// The queue that windows may hold, seconds.
    pub(super) may_hold_s: f64,
}

impl Others {
    /// Continues with wide windows if another leader had them.
    pub(super) fn resume(now: Moment, behind_s: f64) -> Others {
        let mut others = Others { behind_s, found_s: behind_s, ..Others::default() };
        others.stay_wide(now);
        others
    }

    /// The queue behind which wide windows carry the shares, seconds.
    pub(super) fn behind_s(&self) -> f64 {
        self.behind_s
    }

    /// Whether the carried rate may be below capacity because others take the rest.
    pub(super) fn may_be_there(&self, now: Moment) -> bool {
        let tries = !matches!(self.trial, Trial::None);
        tries || now < self.widen_at || !self.missing_for.is_zero()
    }

    pub(super) fn follow(
        &mut self,
        now: Moment,
        round_trip: Duration,
        total: Total,
        seen: Followed,
    ) -> Answer {
        let passed = self.followed.replace(now).map_or(Duration::ZERO, |before| now.since(before));
        if !matches!(self.trial, Trial::None) {
            self.follow_queue(total, seen);
        }
        let patience = MISSING_FOR.max(3 * round_trip);
        match self.trial {
            Trial::None => self.start(now, total, seen, passed, patience),
            Trial::Wider { before, looked: false } => {
                if now.since(before.since) < FIRST_LOOK.max(4 * round_trip) {
                    return Answer::Widen;
                }
                self.first_look(now, total, seen, before)
            }
            Trial::Wider { before, looked: true } => self.second_look(now, round_trip, seen, before),
            Trial::Wide { until } if now < until => Answer::Widen,
            Trial::Wide { .. } => {
                self.trial = Trial::None;
                self.wide_ended = Some(now);
                Answer::Begin
            }
        }
    }

    /// Others' queue comes and goes. A longer one counts only while the shares are not carried
    /// behind it, or windows would follow the queue that they cause.
    fn follow_queue(&mut self, total: Total, seen: Followed) {
        if total.queue_s < self.behind_s {
            self.behind_s = total.queue_s.max(self.found_s / FOLLOWS);
        } else if seen.carried < CARRIED * seen.shared {
            self.behind_s = total.queue_s.min(FOLLOWS * self.found_s);
        }
    }

    /// Begins a trial if the carried rate has been too low for long enough.
    fn start(
        &mut self,
        now: Moment,
        total: Total,
        seen: Followed,
        passed: Duration,
        patience: Duration,
    ) -> Answer {
        let beyond_s = BEYOND_OWN_S.max(total.base_s * BEYOND_OWN_OF_BASE);
        // If nothing is carried, round-trip times are outdated.
        let sees = total.elastic > 0 && seen.carried > 0.0 && total.queue_s >= seen.may_hold_s + beyond_s;
        self.missing_for = if sees && seen.carried < MISSING * seen.shared {
            self.missing_for + passed
        } else {
            self.missing_for.saturating_sub(passed)
        };
        if self.missing_for < patience || now < self.widen_at {
            return Answer::Share;
        }
        self.missing_for = Duration::ZERO;
        let before = Before { since: now, carried: seen.carried, queue_s: total.queue_s };
        (self.behind_s, self.found_s) = (total.queue_s, total.queue_s);
        self.trial = Trial::Wider { before, looked: false };
        Answer::Widen
    }

    /// If the shares are carried, or the rate rose and not only the queue, the queue is others'.
    fn first_look(&mut self, now: Moment, total: Total, seen: Followed, before: Before) -> Answer {
        let grew = seen.carried / before.carried.max(1e-9);
        let longer = (total.base_s + total.queue_s) / (total.base_s + before.queue_s);
        if seen.carried > MISSING * seen.shared || grew > longer.max(MORE) {
            self.stay_wide(now);
            return Answer::Widen;
        }
        self.seen = (0.0, 0);
        self.trial = Trial::Wider { before: Before { since: now, ..before }, looked: true };
        Answer::Widen
    }

    fn second_look(&mut self, now: Moment, round_trip: Duration, seen: Followed, before: Before) -> Answer {
        let lasts = SECOND_LOOK.max(12 * round_trip);
        let passed = now.since(before.since);
        if passed >= lasts / 2 {
            self.seen.0 += seen.carried;
            self.seen.1 += 1;
        }
        if passed < lasts {
            return Answer::Widen;
        }
        if self.seen.0 > PAYS * before.carried * f64::from(self.seen.1) {
            self.stay_wide(now);
            return Answer::Widen;
        }
        self.trial = Trial::None;
        self.widen_at = now + self.widen_after;
        self.widen_after = (2 * self.widen_after).min(TRY_AT_LATEST);
        Answer::Forget
    }

    fn stay_wide(&mut self, now: Moment) {
        if self.wide_ended.is_some_and(|at| now.since(at) > MAX_WIDE) {
            self.wide_for = WIDE;
        }
        self.trial = Trial::Wide { until: now + self.wide_for };
        self.wide_for = (2 * self.wide_for).min(MAX_WIDE);
    }
}
