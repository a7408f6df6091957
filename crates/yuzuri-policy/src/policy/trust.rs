//! Decides whether a terminal believes an announced share. A share is believed if the terminal's
//! own radio, its own rates, and the number of senders that proved their liveness explain it. A
//! share without explanation is not obeyed: the terminal keeps its previous share, and checks
//! whether it still carries more than the announced one. If so, the leader is refuted, and the
//! terminal does not follow it for a while. Each further refutation doubles that time.
//!
//! A terminal that obeys a leader keeps at least half ([`STEP`]) of the rate due by its own
//! evidence and of its current rate, and a decision at most halves its window: an honest leader's
//! step takes no more. This is a guarantee to each terminal, not a tuned value.

use super::standing::{QueueSeen, Standing, Windows};
use crate::Moment;
use crate::capacity::{AGAIN, AGAIN_AT_LATEST, STEP, settles};
use crate::own::{MAX_SPAN, MIN_SPAN};
use std::collections::VecDeque;
use std::time::Duration;

/// How long senders may take to learn about each other, and to answer a challenge: meanwhile no
/// leader is refuted.
const GATHERS: Duration = Duration::from_secs(5);

/// How long a terminal's own measurements count as evidence: a leader tests a standing queue twice
/// in that time.
pub(super) fn memory() -> Duration {
    2 * AGAIN_AT_LATEST
}

/// The facts by which a share is judged.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Claim {
    /// This terminal's rate, bit/s.
    pub(super) rate_bps: f64,
    /// The announced share, bit/s.
    pub(super) share_bps: f64,
    /// The announced capacity, bit/s.
    pub(super) capacity_bps: f64,
    /// The rate that this terminal's radio would carry alone, bit/s; infinite if unknown.
    pub(super) alone_bps: f64,
    /// Senders that have proved their liveness to this terminal, itself included; at most as many
    /// as the leader claims.
    pub(super) senders: u16,
    /// Senders according to the leader.
    pub(super) claimed: u16,
    /// Senders that have proved their liveness to this terminal, itself included, whatever the
    /// leader claims.
    pub(super) proved: u16,
    /// Members that this terminal has heard, proved or not, itself included.
    pub(super) heard: u16,
    /// The largest smoothed RTT of its flows, and its expected value if windows followed the group.
    pub(super) srtt: Duration,
    pub(super) held: Duration,
    /// Whether its flows want more than they get.
    pub(super) elastic: bool,
    /// Whether the group sets upper bounds at all.
    pub(super) bounded: bool,
    /// What its flows show of the announced queue; `None`: none is announced.
    pub(super) queue: Option<QueueSeen>,
}

impl Claim {
    /// The rate that one terminal alone would carry if each of `senders` carries this much, bit/s.
    fn of_all_bps(&self, each_bps: f64, senders: u16) -> f64 {
        each_bps * f64::from(senders.max(1))
    }

    /// The rate that this terminal could carry alone, by its own evidence: its own rate; and the
    /// announced capacity, if it carries its share of that.
    fn evidence_bps(&self) -> f64 {
        let shared_bps = if self.bounded {
            self.of_all_bps(self.share_bps.min(self.rate_bps), self.senders).min(self.capacity_bps)
        } else {
            0.0
        };
        self.rate_bps.max(shared_bps).min(self.alone_bps)
    }
}

/// A terminal's rate and evidence in one interval.
#[derive(Debug, Clone, Copy)]
struct Interval {
    since: Moment,
    rate_bps: f64,
    /// The rate that it could have carried alone, and its radio's rate then, bit/s.
    evidence_bps: f64,
    alone_bps: f64,
}

/// The last summary that was believed: one without bounds, or a share.
#[derive(Debug, Clone, Copy)]
enum LastBelieved {
    Unbounded,
    Share(BelievedShare),
}

#[derive(Debug, Clone, Copy)]
struct BelievedShare {
    share_bps: f64,
    /// Senders according to the leader at that time.
    claimed: u16,
    alone_bps: f64,
}

impl BelievedShare {
    /// Scaled to the current number of senders and the current radio, bit/s.
    fn now_bps(&self, claim: Claim) -> f64 {
        let fewer = f64::from(self.claimed.max(1)) / f64::from(claim.senders.max(1));
        let slower = if self.alone_bps.is_finite() { claim.alone_bps / self.alone_bps } else { 1.0 };
        self.share_bps * fewer.min(1.0) * slower.min(1.0)
    }
}

/// A terminal's own evidence, and for how long the group has contradicted it.
#[derive(Debug, Clone, Default)]
pub(super) struct Trust {
    intervals: VecDeque<Interval>,
    had: Option<LastBelieved>,
    undecided_since: Option<Moment>,
    heard: u16,
    /// When it last learned about another member, or began to challenge senders.
    gathers_since: Option<Moment>,
    asks: bool,
    asked: Option<Asked>,
    judged: Option<Moment>,
    /// For how long this terminal's rate has refuted the leader, less the time in which it has not.
    doubt: Duration,
    mistrusts: Option<MistrustPeriod>,
    /// How long the next refuted leader is not followed; `None`: none was refuted before.
    next: Option<Duration>,
    believes_since: Option<Moment>,
    /// Whether obeying keeps the queue short.
    standing: Standing,
}

/// The last time that all senders were challenged, and the senders that have proved their liveness:
/// then, and at most since.
#[derive(Debug, Clone, Copy)]
struct Asked {
    at: Moment,
    before: u16,
    most: u16,
}

impl Asked {
    /// Whether nobody answered. A leader that repeats its claim gets no more time. Otherwise a
    /// leader that alternately makes and withdraws it would never be refuted.
    fn is_in_vain(&self, now: Moment) -> bool {
        let since = now.since(self.at);
        self.most <= self.before && (GATHERS..memory()).contains(&since)
    }
}

/// A period of plain CUBIC.
#[derive(Debug, Clone, Copy)]
struct MistrustPeriod {
    until: Moment,
    lasts: Duration,
    /// The rate that this terminal could have carried alone when it began, bit/s.
    alone_bps: f64,
    /// The sum of its rates over the decisions at which it wanted more, bit/s; and their number.
    rates_bps: f64,
    decisions: u32,
}

/// The decision about a share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Verdict {
    Obey,
    /// Too little is known to judge: obey, but keep at least this share, bit/s.
    Undecided(f64),
    /// Keep the previous share, bit/s.
    Keep(f64),
    /// Keep what the last believed summary left: no bounds.
    KeepUnbounded,
    /// Obey, but with these windows.
    Contend(Windows),
    Mistrust,
}

impl Trust {
    pub(super) fn judge(&mut self, now: Moment, claim: Claim) -> Verdict {
        self.note(now, claim.rate_bps, claim.rate_bps.min(claim.alone_bps), claim.alone_bps);
        // Decisions are half a second apart. Without them, doubt does not grow.
        let since_last = self.judged.map_or(Duration::ZERO, |at| now.since(at)).min(MIN_SPAN);
        self.judged = Some(now);
        let explained = !claim.elastic || self.explains(now, claim, claim.senders);
        self.gather(now, explained, claim);
        if let Some(verdict) = self.mistrusted(now, claim) {
            return verdict;
        }
        // Earlier windows' queues need this long to drain.
        let patience = settles(claim.srtt);
        let since = *self.undecided_since.get_or_insert(now);
        if now.since(since) < patience {
            return Verdict::Undecided(STEP * self.best_bps());
        }
        // A terminal with less than twice the announced share loses little by obeying; but then the
        // queue has to drain, too.
        let has_more = claim.share_bps < STEP * claim.rate_bps;
        let refuted = !explained && (has_more || claim.srtt > 2 * claim.held);
        let gathers = self.gathers_since.is_some_and(|at| now.since(at) < GATHERS);
        if refuted && !gathers {
            self.doubt += since_last;
        } else {
            self.doubt = self.doubt.saturating_sub(since_last);
        }
        if self.doubt > patience {
            self.mistrust(now, claim, self.next.unwrap_or(2 * AGAIN));
            return Verdict::Mistrust;
        }
        if !explained && has_more {
            return match self.had {
                Some(LastBelieved::Share(had)) => Verdict::Keep(had.now_bps(claim)),
                Some(LastBelieved::Unbounded) => Verdict::KeepUnbounded,
                None => Verdict::Undecided(STEP * self.best_bps()),
            };
        }
        if explained && claim.elastic {
            if claim.bounded {
                self.believe(now, claim);
            } else {
                self.had = Some(LastBelieved::Unbounded);
            }
        }
        let queue = claim.queue.filter(|_| claim.elastic);
        self.standing.follow(now, queue).map_or(Verdict::Obey, Verdict::Contend)
    }

    /// An explained share becomes the reference from now on, and is evidence of what can be
    /// carried.
    fn believe(&mut self, now: Moment, claim: Claim) {
        self.note(now, claim.rate_bps, claim.evidence_bps(), claim.alone_bps);
        self.had = Some(LastBelieved::Share(BelievedShare {
            share_bps: claim.share_bps,
            claimed: claim.claimed,
            alone_bps: claim.alone_bps,
        }));
        // A leader that has been believed for as long as it was not followed before starts again
        // without a history.
        let since = *self.believes_since.get_or_insert(now);
        if self.next.is_some_and(|next| now.since(since) > next) {
            self.next = None;
        }
    }

    fn mistrust(&mut self, now: Moment, claim: Claim, lasts: Duration) {
        let alone_bps = self.alone_bps(now, claim);
        self.doubt = Duration::ZERO;
        self.believes_since = None;
        self.next = Some(2 * lasts);
        self.mistrusts =
            Some(MistrustPeriod { until: now + lasts, lasts, alone_bps, rates_bps: 0.0, decisions: 0 });
    }

    /// Evaluates a tick while a leader is not followed. At the end, the rate of plain CUBIC refutes
    /// the leader or confirms it.
    fn mistrusted(&mut self, now: Moment, claim: Claim) -> Option<Verdict> {
        let mistrusts = self.mistrusts.as_mut()?;
        if claim.elastic {
            mistrusts.rates_bps += claim.rate_bps;
            mistrusts.decisions += 1;
        }
        if now < mistrusts.until {
            return Some(Verdict::Mistrust);
        }
        let over = *mistrusts;
        self.mistrusts = None;
        if over.decisions > 0 {
            let mean_bps = over.rates_bps / f64::from(over.decisions);
            // Plain CUBIC's rate shows what is possible: if that is less than what was due, the
            // group may have been right.
            let of_all_bps = claim.of_all_bps(mean_bps, claim.senders);
            for interval in &mut self.intervals {
                interval.evidence_bps = interval.evidence_bps.min(of_all_bps);
            }
            // If plain CUBIC also reaches the due rate, that rate stays evidence while the leader
            // continues.
            let alone_bps = over.alone_bps.min(of_all_bps).min(claim.alone_bps);
            self.note(now, claim.rate_bps, alone_bps, claim.alone_bps);
        }
        if claim.elastic && !self.explains(now, claim, claim.senders) {
            self.mistrust(now, claim, 2 * over.lasts);
            return Some(Verdict::Mistrust);
        }
        None
    }

    /// Challenges senders if only unproved ones explain a share. Gives them time to answer, and
    /// members that were just heard time to be challenged.
    fn gather(&mut self, now: Moment, explained: bool, claim: Claim) {
        let hears = claim.heard > self.heard && self.heard > 0;
        let asks = !explained && self.explains(now, claim, claim.claimed);
        let begins_to_ask = asks && !self.asks;
        (self.heard, self.asks) = (claim.heard, asks);
        if let Some(asked) = &mut self.asked {
            asked.most = asked.most.max(claim.proved);
        }
        if !(hears || begins_to_ask) || self.asked.is_some_and(|asked| asked.is_in_vain(now)) {
            return;
        }
        self.gathers_since = Some(now);
        if begins_to_ask {
            self.asked = Some(Asked { at: now, before: claim.proved, most: claim.proved });
        }
    }

    /// Whether the radio, the carried rates and this many senders explain a share.
    fn explains(&self, now: Moment, claim: Claim, senders: u16) -> bool {
        claim.of_all_bps(claim.share_bps, senders) >= STEP * self.alone_bps(now, claim)
    }

    /// The rate that this terminal could carry alone with its current radio, bit/s, as far as it
    /// was observed.
    fn alone_bps(&self, now: Moment, claim: Claim) -> f64 {
        let slower = |interval: &Interval| {
            if interval.alone_bps.is_finite() { (claim.alone_bps / interval.alone_bps).min(1.0) } else { 1.0 }
        };
        let fresh = self.intervals.iter().filter(|interval| now.since(interval.since) < memory());
        fresh.map(|interval| interval.evidence_bps * slower(interval)).fold(0.0, f64::max)
    }

    /// Whether only senders that have not proved their liveness explain the share: they should be
    /// challenged.
    pub(super) fn wants_proof(&self) -> bool {
        self.asks
    }

    /// The maximum rate of this terminal, bit/s.
    fn best_bps(&self) -> f64 {
        self.intervals.iter().map(|interval| interval.rate_bps).fold(0.0, f64::max)
    }

    /// Keeps the maxima of each interval of [`MAX_SPAN`].
    fn note(&mut self, now: Moment, rate_bps: f64, evidence_bps: f64, alone_bps: f64) {
        let same = |interval: &&mut Interval| {
            now.since(interval.since) < MAX_SPAN && interval.alone_bps == alone_bps
        };
        match self.intervals.back_mut().filter(same) {
            Some(interval) => {
                interval.rate_bps = interval.rate_bps.max(rate_bps);
                interval.evidence_bps = interval.evidence_bps.max(evidence_bps);
            }
            None => self.intervals.push_back(Interval { since: now, rate_bps, evidence_bps, alone_bps }),
        }
        while self.intervals.front().is_some_and(|interval| now.since(interval.since) > memory()) {
            self.intervals.pop_front();
        }
    }
}

#[cfg(test)]
mod tests;
