//! What causes a sender's bursts: acknowledgements, or a clock (pacing, its device, a full path, a
//! program's rhythm).

use super::clocking::AckClocking;
use super::observations::{AT_ONCE_NS, RoundObservations, WAKES_NS};
use crate::window_trace::Round;

/// With fewer bursts it is not clear whether they are evenly spaced. They are if the variance of
/// their intervals is less than this fraction of their squared mean. A window's data comes in a
/// block, at the rate of the path, and then there is nothing until the first acknowledgement.
pub(super) const MIN_BURSTS: f64 = 12.0;
const EVEN: f64 = 0.3;
/// Compares the intervals between bursts with those between the acknowledgements that the sender
/// had seen: their mismatch relative to the mismatch with their mean (variances). Bursts caused by
/// acknowledgements keep their intervals, whatever these are: each deviation repeats with each
/// round trip, so the ratio immediately falls below 1, and further with each. Bursts caused by a
/// clock keep its mean, and the acknowledgements of the previous round trip add their own
/// deviations: the ratio is 2 and more. In between, the cause is unknown.
const ACK_CLOCKED: f64 = 0.5;
const TIMER_CLOCKED: f64 = 1.5;
/// The number of standard errors by which the mean must differ from 0 (95 %).
const SURE_ERRORS: f64 = 2.0;
/// If segments within bursts are closer than segments are on average, by this factor, the path can
/// carry more than is sent. On a full path they are as close as possible.
const BELOW_PATH_CAPACITY: f64 = 0.8;
/// If at least this fraction of bursts has no acknowledgement in between, acknowledgements do not
/// cause the bursts. It is not 0 because a burst is occasionally counted twice.
const MIN_NOT_ACK_CLOCKED: f64 = 0.1;
/// Bursts not caused by an acknowledgement: the fraction from which on a clock of the sender's own
/// causes some, and from which on it causes most.
const BY_CLOCK: f64 = 0.02;
const MAJORITY: f64 = 0.5;
/// The fraction of bursts from which on acknowledgements are their cause: a single one in several
/// rounds may be late. Below the other one they are not.
const NEARLY_ALL: f64 = 0.7;
const NEARLY_NONE: f64 = 0.1;
/// The number of bursts in a round trip above which their spacing shows whether they come in a
/// block.
const MIN_SPREAD: f64 = 2.5;
/// How fast means over rounds decay; means of values that a busy host disturbs for several rounds
/// decay more slowly.
const FORGETS: f64 = 0.25;
const FORGETS_SLOWLY: f64 = 0.05;
/// How fast evidence of their cause is forgotten: only bursts that deviate from an even rhythm are
/// evidence, and these may be few.
const FORGETS_CAUSE: f64 = 0.02;
/// The number of bursts remembered, for small and large flights alike.
const REMEMBERED: f64 = 48.0;
/// The time that a woken writer takes to write, and within which most of them do, as for bursts,
/// milliseconds.
const WAKES_MS: f64 = WAKES_NS as f64 / 1e6;
const AT_ONCE_MS: f64 = AT_ONCE_NS as f64 / 1e6;

/// The bursts of the last rounds.
#[derive(Clone, Copy, Debug, Default)]
struct BurstMeans {
    rounds: u32,
    /// Means over rounds of the number of bursts, of the sum of their values, and of the sum of the
    /// squares of these.
    count: f64,
    sum: f64,
    squares: f64,
}

impl BurstMeans {
    fn add(&mut self, (count, sum, squares): (u32, f32, f32)) {
        self.rounds = self.rounds.saturating_add(1);
        if count == 0 && self.count == 0.0 {
            // Nothing to average so far, as in most flows.
            return;
        }
        let forgets = FORGETS_CAUSE.max(1.0 / f64::from(self.rounds));
        self.count += (f64::from(count) - self.count) * forgets;
        self.sum += (f64::from(sum) - self.sum) * forgets;
        self.squares += (f64::from(squares) - self.squares) * forgets;
    }

    /// The mean of the values, with its standard error.
    fn mean(self) -> Option<(f64, f64)> {
        // A mean that decays by a fraction d in each round averages about 2/d rounds.
        let bursts = self.count * f64::from(self.rounds).min(2.0 / FORGETS_CAUSE);
        if bursts < MIN_BURSTS {
            return None;
        }
        let mean = self.sum / self.count;
        let variance = (self.squares / self.count - mean * mean).max(0.0);
        Some((mean, (variance / bursts).sqrt()))
    }
}

/// The cause of bursts of one kind.
#[derive(Clone, Copy, Debug, Default)]
struct Causes {
    /// As [`AckClocking`].
    by_last: BurstMeans,
    by_first: BurstMeans,
}

impl Causes {
    fn add(&mut self, clocked: AckClocking) {
        self.by_last.add(clocked.by_last);
        self.by_first.add(clocked.by_first);
    }

    /// Whether a clock causes them, or acknowledgements (`false`); `None`: unknown.
    fn by_clock(&self) -> Option<bool> {
        let (by_last, by_first) = (self.by_last.mean(), self.by_first.mean());
        let means = [by_last, by_first].into_iter().flatten();
        let (mean, error) = means.min_by(|a, b| a.0.total_cmp(&b.0))?;
        // Both match equally well: bursts may be so few, or so even, that nothing distinguishes
        // them.
        if mean.abs() < SURE_ERRORS * error {
            return None;
        }
        match mean.exp() {
            part if part <= ACK_CLOCKED => Some(false),
            // If a later acknowledgement wakes the writer, the first ones match the bursts as
            // poorly as they match a clock's.
            part if part >= TIMER_CLOCKED && by_last.is_some() => Some(true),
            _ => None,
        }
    }
}

/// Means over the last rounds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bursts {
    rounds: u32,
    /// How fast they decay.
    pub(super) forgets: f64,
    /// Bursts of a round.
    pub(super) count: f64,
    /// Bursts that did not immediately follow an acknowledgement.
    not_at_once: f64,
    /// Bursts without an acknowledgement in between, and all.
    not_ack_clocked: (f64, f64),
    /// Intervals between bursts, milliseconds: the sum, and the sum of the squares.
    gaps: (f64, f64),
    /// Time within bursts, milliseconds, and their segments after the first packet; time between
    /// bursts without pauses of the program, milliseconds, and the segments sent in it.
    spacing: [f64; 4],
    /// Bursts that followed an acknowledgement as those of a woken writer do, those that followed
    /// it immediately, and all.
    ack_woke_writer: [f64; 3],
    /// Acknowledgements of a round, and its length, milliseconds.
    acks: (f64, f64),
    /// Of the bursts that begin with an empty queue, and of the others: a program's rhythm is not
    /// that of its windows, so that one is no evidence for the other.
    writes: Causes,
    others: Causes,
    /// The part of the rounds before which the sender rested: nothing was outstanding, and there
    /// was more to send.
    rested: f64,
}

impl Bursts {
    /// `rested`: before the round nothing was outstanding, though there was more to send.
    /// `receiver_full`: the receiver's window was full, so that its updates caused the bursts. They
    /// show nothing of the program's rhythm or of pacing.
    pub(super) fn add(
        &mut self,
        round: &Round,
        observations: &RoundObservations,
        rested: bool,
        receiver_full: bool,
    ) {
        self.rounds += 1;
        self.forgets = (f64::from(observations.bursts) / REMEMBERED).clamp(FORGETS_SLOWLY, FORGETS);
        // A mean from the first round on.
        let slowly = FORGETS_SLOWLY.max(1.0 / f64::from(self.rounds));
        let by = |forgets: f64| move |mean: &mut f64, value: f64| *mean += (value - *mean) * forgets;
        let (mean, slow) = (by(self.forgets), by(slowly));
        let (ack_woke_writer, writes, others) = if receiver_full {
            Default::default()
        } else {
            (
                [observations.ack_woke_writer, observations.ack_woke_writer_at_once, observations.bursts],
                observations.writes,
                observations.clocked,
            )
        };
        self.ack_woke_writer
            .iter_mut()
            .zip(ack_woke_writer)
            .for_each(|(mean, value)| slow(mean, value.into()));
        slow(&mut self.acks.0, round.acks.into());
        slow(&mut self.acks.1, round.seconds() * 1e3);
        mean(&mut self.count, observations.bursts.into());
        mean(&mut self.not_at_once, f64::from(observations.bursts - observations.after_ack));
        slow(&mut self.not_ack_clocked.0, observations.not_ack_clocked.into());
        slow(&mut self.not_ack_clocked.1, observations.bursts.into());
        let (busy_ms, segments) = observations.busy;
        let spacing =
            [observations.spread_ms.into(), observations.further.into(), busy_ms.into(), segments.into()];
        self.spacing.iter_mut().zip(spacing).for_each(|(mean, value)| slow(mean, value));
        slow(&mut self.rested, f64::from(u8::from(rested)));
        mean(&mut self.gaps.0, observations.gaps_ms.into());
        mean(&mut self.gaps.1, observations.gaps_ms2.into());
        self.writes.add(writes);
        self.others.add(others);
    }

    /// Whether they are evenly spaced.
    pub(super) fn even(&self) -> bool {
        let (sum, squares) = self.gaps;
        let mean = sum / self.count.max(1e-9);
        let variance = squares / self.count.max(1e-9) - mean * mean;
        self.count >= MIN_BURSTS * self.forgets && variance < EVEN * mean * mean
    }

    /// Whether a clock determines when the sender sends more of what it has, or acknowledgements
    /// (`false`); `None`: unknown.
    pub(super) fn clocked(&self) -> Option<bool> {
        self.others.by_clock()
    }

    /// The same for when it begins to send what its program has written.
    pub(super) fn writes_clocked(&self) -> Option<bool> {
        self.writes.by_clock()
    }

    /// Whether they leave at a rate of the sender's own, by pacing or because of its device, as far
    /// as it is seen away from the sender. A full path is a clock, too: it must be able to carry
    /// more than is sent, or bursts must leave without any acknowledgement.
    /// `clocked`: see [`Bursts::clocked`].
    pub(super) fn has_own_rate(&self, clocked: Option<bool>) -> bool {
        let own = || {
            self.is_below_path_capacity()
                || self.not_ack_clocked.0 > MIN_NOT_ACK_CLOCKED * self.not_ack_clocked.1
        };
        clocked == Some(true) && own()
    }

    /// The same for bursts so even that their intervals match each other and those of
    /// acknowledgements equally well: most come later than a window would admit them.
    pub(super) fn has_own_phase(&self, clocked: Option<bool>) -> bool {
        clocked.is_none() && self.most_by_clock() && self.is_below_path_capacity() && self.even()
    }

    fn is_below_path_capacity(&self) -> bool {
        let [within_ms, further, busy_ms, segments] = self.spacing;
        let per_segment_ms = busy_ms / segments.max(1e-9);
        further > 0.0 && within_ms < BELOW_PATH_CAPACITY * further * per_segment_ms
    }

    /// Whether they are spread over the whole round trip. The data of a window that a receiver
    /// acknowledges at once comes in a block, at the rate of the path, with a pause until the next
    /// one; what a program reads at intervals is acknowledged at these intervals. One or two bursts
    /// do not show it.
    pub(super) fn spread(&self) -> bool {
        self.even() && self.count > MIN_SPREAD
    }

    /// Whether some bursts do not immediately follow an acknowledgement.
    pub(super) fn some_by_clock(&self) -> bool {
        self.not_at_once > BY_CLOCK * self.count
    }

    /// The same for most bursts; see [`Bursts::some_by_clock`].
    pub(super) fn most_by_clock(&self) -> bool {
        self.not_at_once > MAJORITY * self.count
    }

    /// Whether the sender rested before most rounds with nothing outstanding and more to send. No
    /// window does that, nor a path: only its pacing or its device.
    pub(super) fn most_rested(&self) -> bool {
        self.rested > MAJORITY
    }

    /// Whether acknowledgements wake the writer; `None`: possibly. A busy host sometimes wakes it
    /// later, but mostly at once: if all bursts come late, though within the time that a writer
    /// takes, a clock determines their phase. The bursts of a program with its own rhythm follow
    /// acknowledgements as often as by chance.
    pub(super) fn acks_wake_writer(&self) -> Option<bool> {
        let [soon, at_once, all] = self.ack_woke_writer;
        let is = |count: f64, within_ms: f64, enough: f64| {
            let part = count / all.max(1e-9);
            let rarely = (self.by_chance(within_ms).min(enough) + enough) / 2.0;
            if part >= enough { Some(true) } else { (part < rarely).then_some(false) }
        };
        match (is(soon, WAKES_MS, NEARLY_ALL), is(at_once, AT_ONCE_MS, MAJORITY)) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (Some(true), Some(true)) => Some(true),
            _ => None,
        }
    }

    /// The same where the least time from an acknowledgement to data is unknown: only that hardly
    /// any burst follows one is certain.
    pub(super) fn acks_may_wake_writer(&self) -> Option<bool> {
        let [soon, _, all] = self.ack_woke_writer;
        (soon < NEARLY_NONE * all).then_some(false)
    }

    /// The fraction of time that is so close after an acknowledgement that a writer would seem to
    /// be woken by it.
    fn by_chance(&self, within_ms: f64) -> f64 {
        let (acks, ms) = self.acks;
        acks * within_ms / ms.max(1e-9)
    }
}
