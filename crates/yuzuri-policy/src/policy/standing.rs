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
//! If it carries more, it does what a leader does with a standing queue: its share is the rate that
//! it carried, sent behind that queue, and is tested again, each time after twice as long. It does
//! not leave the group, so a trial that gains by chance costs an honest group a queue for a while.
//!
//! Two queues show nothing. The minimum RTT of a latecomer contains the announced queue, so that
//! its windows leave up to as much again. And windows that are no larger than the least that a
//! leader can set are not the leader's to reduce.

use super::trust::memory;
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

/// Windows of the phase `contend`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Windows {
    /// The queue behind which they carry the share, seconds.
    pub(super) queue_s: f64,
    /// The share is at least this, bit/s.
    pub(super) least_bps: f64,
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
    windows: Windows,
    /// The means before it, and since it shows.
    before: Sums,
    after: Sums,
}

impl Trial {
    fn new(since: Moment, windows: Windows, before: Sums) -> Trial {
        Trial { since, windows, before, after: Sums::default() }
    }

    /// Whether larger windows carried more, and by more than they lengthened the queue.
    fn gained(&self) -> bool {
        let (before, after) = (&self.before, &self.after);
        let rate = after.mean(after.rate_bps) / before.mean(before.rate_bps).max(1.0);
        let time = after.mean(after.srtt_s) / before.mean(before.srtt_s).max(1e-6);
        after.decisions > 0.0 && rate * STEADY > 1.0 && rate > time
    }
}

/// Which windows a terminal uses.
#[derive(Debug, Clone, Copy, Default)]
enum Mode {
    /// The announced ones.
    #[default]
    Obey,
    /// Those of a trial.
    Try(Trial),
    /// Those that a trial found to carry more.
    Contend { windows: Windows, until: Moment },
}

/// What the last trial found.
#[derive(Debug, Clone, Copy)]
struct Found {
    at: Moment,
    /// The windows that carry more; `None`: the queue is the terminal's own.
    windows: Option<Windows>,
    /// How long that holds.
    holds: Duration,
}

/// The state of a terminal's evidence.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Standing {
    judged: Option<Moment>,
    /// For how long the queue has been longer than announced, less the time in which it was not, or
    /// in which the leader announced none; at most [`AGAIN`].
    exceeded: Duration,
    /// The sums over the decisions at which it was, with announced windows.
    sums: Sums,
    mode: Mode,
    found: Option<Found>,
}

impl Standing {
    /// Follows a decision; `None`: no queue is announced. Returns the windows to use instead of the
    /// announced ones.
    pub(super) fn follow(&mut self, now: Moment, seen: Option<QueueSeen>) -> Option<Windows> {
        let since_last = self.judged.map_or(Duration::ZERO, |at| now.since(at)).min(MIN_SPAN);
        self.judged = Some(now);
        self.note(since_last, seen);
        let seen = seen?;
        match &mut self.mode {
            Mode::Obey => {
                self.found.take_if(|found| now.since(found.at) > memory());
                let windows = match self.found {
                    Some(Found { windows: None, at, holds }) if now.since(at) < holds => None,
                    // The rate of the last trial, so that the share grows with the rates.
                    Some(Found { windows: Some(windows), .. }) => Some(windows),
                    _ => Some(Windows { queue_s: self.sums.mean(self.sums.queue_s), least_bps: 0.0 }),
                };
                if let Some(windows) = windows.filter(|_| self.exceeded >= AGAIN) {
                    self.mode = Mode::Try(Trial::new(now, windows, self.sums));
                }
            }
            Mode::Try(trial) => {
                let since = now.since(trial.since);
                if since > settles(Duration::from_secs_f64(seen.srtt_s)) {
                    trial.after.add(seen);
                }
                if since >= AGAIN {
                    let trial = *trial;
                    self.end(now, &trial);
                }
            }
            Mode::Contend { until, .. } => {
                if now >= *until {
                    self.obey();
                }
            }
        }
        match &self.mode {
            Mode::Obey => None,
            Mode::Try(trial) => Some(trial.windows),
            Mode::Contend { windows, .. } => Some(*windows),
        }
    }

    /// Adds a decision to the evidence. An answer of the leader ends what a terminal does by itself
    /// once it has lasted for [`AGAIN`]: otherwise a leader could end each trial by a short one.
    fn note(&mut self, since_last: Duration, seen: Option<QueueSeen>) {
        let obeys = matches!(self.mode, Mode::Obey);
        match seen {
            // A window below its bound shows nothing about the bound.
            Some(seen) if obeys && !seen.bound => {}
            Some(seen) if seen.is_long() => {
                if obeys {
                    if self.exceeded.is_zero() {
                        self.sums = Sums::default();
                    }
                    self.sums.add(seen);
                }
                self.exceeded = (self.exceeded + since_last).min(AGAIN);
            }
            _ => {
                self.exceeded = self.exceeded.saturating_sub(since_last);
                if self.exceeded.is_zero() && !obeys {
                    self.obey();
                    self.found = None;
                }
            }
        }
    }

    fn obey(&mut self) {
        (self.mode, self.exceeded) = (Mode::Obey, Duration::ZERO);
    }

    /// Ends a trial. What it found holds as long as a standing queue that a leader found: for twice
    /// [`AGAIN`], and for twice the last time if it is the same again.
    fn end(&mut self, now: Moment, trial: &Trial) {
        let after = &trial.after;
        let windows = trial
            .gained()
            .then(|| Windows { queue_s: after.mean(after.queue_s), least_bps: after.mean(after.rate_bps) });
        let same = self.found.filter(|found| found.windows.is_some() == windows.is_some());
        let holds = same.map_or(2 * AGAIN, |found| (2 * found.holds).min(AGAIN_AT_LATEST));
        self.found = Some(Found { at: now, windows, holds });
        match windows {
            Some(windows) => self.mode = Mode::Contend { windows, until: now + holds },
            None => self.obey(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_millis(500);
    /// Ticks of a wait, of a trial, and of what is found first.
    const AGAIN_TICKS: usize = 32;

    /// A path of 10 ms with 100 ms of queue, of which 20 ms are announced.
    fn long() -> QueueSeen {
        QueueSeen { rate_bps: 4e6, srtt_s: 0.110, base_s: 0.010, announced_s: 0.020, bound: true }
    }

    /// With latecomers whose minimum contains the queue.
    fn short() -> QueueSeen {
        QueueSeen { srtt_s: 0.050, ..long() }
    }

    /// The windows after these decisions, if those of `contend` multiply rate and round-trip time
    /// by this.
    fn windows(
        decisions: impl IntoIterator<Item = Option<QueueSeen>>,
        [rate, time]: [f64; 2],
    ) -> Vec<Option<Windows>> {
        let mut standing = Standing::default();
        let mut contends = false;
        let mut all = Vec::new();
        for (tick, seen) in decisions.into_iter().enumerate() {
            let seen = seen.map(|seen| match contends {
                true => QueueSeen { rate_bps: rate * seen.rate_bps, srtt_s: time * seen.srtt_s, ..seen },
                false => seen,
            });
            let windows = standing.follow(Moment::at(TICK * (tick as u32 + 1)), seen);
            contends = windows.is_some();
            all.push(windows);
        }
        all
    }

    /// For how long announced windows are used, then others, and so on, in [`AGAIN`]: trials, and
    /// what they found.
    fn courses(all: &[Option<Windows>]) -> Vec<usize> {
        let same = all.chunk_by(|a, b| a.is_some() == b.is_some());
        same.map(|same| same.len() / AGAIN_TICKS).collect()
    }

    #[test]
    fn a_queue_that_stays_is_that_of_others_if_larger_windows_carry_more() {
        let all = windows([Some(long()); 26 * AGAIN_TICKS], [1.8, 1.1]);
        // A trial, and what it found: for twice as long, doubling.
        assert_eq!(courses(&all), [1, 1 + 2, 1, 1 + 4, 1, 1 + 8, 1, 5], "{all:?}");
        let trial = all[AGAIN_TICKS].expect("a trial");
        assert!((trial.queue_s - 0.100).abs() < 1e-9 && trial.least_bps == 0.0, "{trial:?}");
        let found = all[2 * AGAIN_TICKS].expect("the trial gained");
        assert!((found.queue_s - 0.111).abs() < 1e-9 && (found.least_bps - 7.2e6).abs() < 1.0, "{found:?}");
        // The next trial begins with what was found.
        assert_eq!(all[5 * AGAIN_TICKS], Some(found));
    }

    #[test]
    fn a_queue_of_its_own_is_tried_ever_less_often() {
        // An hour. Larger aggregates may carry a little more.
        for response in [[1.0, 2.0], [1.3, 1.6]] {
            let all = windows([Some(long()); 7200], response);
            assert!(all.iter().flatten().all(|windows| windows.least_bps == 0.0), "{all:?}");
            let tries = all.iter().flatten().count();
            assert!(tries > 0 && tries < all.len() / 8, "{tries} of {} ticks", all.len());
        }
    }

    #[test]
    fn a_leader_that_answers_within_the_time_is_obeyed() {
        let obeys = |decisions: Vec<Option<QueueSeen>>| {
            let all = windows(decisions, [1.8, 1.1]);
            assert!(all.iter().all(Option::is_none), "{all:?}");
        };
        // The queue drains after 15 s, and stays short for as long.
        obeys((0..600).map(|tick| Some(if tick % 60 < 30 { long() } else { short() })).collect());
        // Or the leader announces `contend`.
        obeys((0..600).map(|tick| (tick % 60 < 30).then(long)).collect());
        // A window below its bound shows nothing.
        obeys(vec![Some(QueueSeen { bound: false, ..long() }); 600]);
    }

    /// An answer of one tick does not end a trial: a leader could prevent each of them.
    #[test]
    fn an_answer_ends_a_trial_or_what_it_found_if_it_lasts() {
        for begins in [AGAIN_TICKS + 5, 2 * AGAIN_TICKS + 5] {
            let answered = |lasts| {
                let answer = move |tick| (!(begins..begins + lasts).contains(&tick)).then(long);
                windows((0..begins + AGAIN_TICKS + 6).map(answer), [1.8, 1.1])
            };
            assert!(answered(1).pop().flatten().is_some(), "{begins}");
            assert!(answered(AGAIN_TICKS).pop().flatten().is_none(), "{begins}");
        }
    }
}
