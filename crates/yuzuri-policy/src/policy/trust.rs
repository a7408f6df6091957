//! What a terminal believes of its group. A share is believed if this terminal's own radio, what it carried itself, and the number of senders that
//! proved themselves explain it. One that nothing explains is not obeyed: the terminal keeps the share it had, and looks whether it still carries more
//! than it is told to. A leader that is refuted by that is not followed for a while, each time for twice as long.

use crate::Moment;
use std::collections::VecDeque;
use std::time::Duration;

/// What a terminal carried itself counts for so long.
const MEMORY: Duration = Duration::from_secs(300);
/// And lately is so much.
const LATELY: Duration = Duration::from_secs(60);
/// Of each so much time the best is kept.
const GRAIN: Duration = Duration::from_secs(2);
/// Whoever obeys loses no more than this part of what is due by own evidence, or of what it has: that is the promise to each terminal, and not tuned.
const AT_LEAST: f64 = 0.5;
/// Who tells less is refuted after so long, and so many round trips: what windows of before hold needs them to drain.
const REFUTED_AFTER: Duration = Duration::from_millis(1500);
const ROUND_TRIPS: u32 = 4;
/// Decisions are half a second apart; doubt does not grow while nobody decides.
const DECISION_AT_MOST: Duration = Duration::from_secs(1);
/// A refuted leader is not followed for so long at first.
const MISTRUST: Duration = Duration::from_secs(30);
/// So long it may take until senders have heard of each other, and proved themselves where they were asked to: meanwhile nobody is refuted.
const GATHERS: Duration = Duration::from_secs(5);

/// What a share is judged by.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Claim {
    /// What this terminal delivers, bit/s.
    pub(super) rate_bps: f64,
    /// What the group says it may, bit/s.
    pub(super) share_bps: f64,
    /// What the group is said to carry, bit/s.
    pub(super) capacity_bps: f64,
    /// What this terminal's radio would carry alone, bit/s; infinite where that is not known.
    pub(super) alone_bps: f64,
    /// Senders that have proved themselves to this terminal, itself included; no more than the leader claims.
    pub(super) senders: u16,
    /// Senders that the leader claims there are.
    pub(super) claimed: u16,
    /// Members that this terminal has heard of, proved or not, itself included.
    pub(super) heard: u16,
    /// Largest smoothed round-trip time of its flows, and what it would be if windows held what the group says.
    pub(super) srtt: Duration,
    pub(super) held: Duration,
    /// Whether its flows want more than they get.
    pub(super) elastic: bool,
    /// Whether the group bounds windows from above at all.
    pub(super) bounded: bool,
}

impl Claim {
    /// What would be carried alone, if each of so many carries this much, bit/s.
    fn of_all_bps(&self, each_bps: f64, senders: u16) -> f64 {
        each_bps * f64::from(senders.max(1))
    }

    /// What this terminal could carry alone, as far as it shows: what it carries; and what the group is said to carry, where it carries its part of that.
    fn evidence_bps(&self) -> f64 {
        let shared_bps = if self.bounded {
            self.of_all_bps(self.share_bps.min(self.rate_bps), self.senders).min(self.capacity_bps)
        } else {
            0.0
        };
        self.rate_bps.max(shared_bps).min(self.alone_bps)
    }
}

/// What a terminal carried, or was given and carried, in a grain of time.
#[derive(Debug, Clone, Copy)]
struct Grain {
    since: Moment,
    rate_bps: f64,
    /// What it could have carried alone, and its radio then, bit/s.
    evidence_bps: f64,
    alone_bps: f64,
}

/// The share that was believed last.
#[derive(Debug, Clone, Copy)]
struct Had {
    share_bps: f64,
    /// Senders that the leader claimed then.
    claimed: u16,
    alone_bps: f64,
}

/// What a terminal has seen itself, and for how long the group's words have not fitted it.
#[derive(Debug, Clone, Default)]
pub(super) struct Trust {
    grains: VecDeque<Grain>,
    had: Option<Had>,
    looks_since: Option<Moment>,
    heard: u16,
    /// When it heard of another member last, or began to ask senders to prove themselves.
    gathers_since: Option<Moment>,
    asks: bool,
    judged: Option<Moment>,
    /// For how long the leader's words have been refuted by what this terminal carries, less the time in which they were not.
    doubt: Duration,
    mistrusts: Option<Mistrusts>,
    /// How long a leader that is refuted now is not followed; `None`: for the first time.
    next: Option<Duration>,
    believes_since: Option<Moment>,
}

/// A time of plain CUBIC.
#[derive(Debug, Clone, Copy)]
struct Mistrusts {
    until: Moment,
    lasts: Duration,
    /// What this terminal could have carried alone when it began, bit/s.
    alone_bps: f64,
    /// The sum over decisions at which it wanted more of what it carried, bit/s; and how many they were.
    rates_bps: f64,
    decisions: u32,
}

/// What to do with a share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Verdict {
    Obey,
    /// Too little is known to judge: obey, but keep at least this share, bit/s.
    Look(f64),
    /// Keep the share of before, bit/s.
    Keep(f64),
    Mistrust,
}

impl Trust {
    pub(super) fn judge(&mut self, now: Moment, claim: Claim) -> Verdict {
        self.note(now, claim.rate_bps, claim.rate_bps.min(claim.alone_bps), claim.alone_bps);
        let since_last = self.judged.map_or(Duration::ZERO, |at| now.since(at)).min(DECISION_AT_MOST);
        self.judged = Some(now);
        if claim.heard > self.heard && self.heard > 0 {
            self.gathers_since = Some(now);
        }
        self.heard = claim.heard;
        let explained = !claim.elastic || self.explains(now, claim, claim.senders);
        self.ask(now, explained, claim);
        if let Some(verdict) = self.mistrusted(now, claim) {
            return verdict;
        }
        let patience = REFUTED_AFTER.max(ROUND_TRIPS * claim.srtt);
        let since = *self.looks_since.get_or_insert(now);
        if now.since(since) < patience {
            return Verdict::Look(AT_LEAST * self.lately_bps(now));
        }
        // Whoever has less than twice what it is told loses little by obeying; but then the queue has to go, too.
        let has_more = claim.share_bps < AT_LEAST * claim.rate_bps;
        let refuted = !explained && (has_more || claim.srtt > 2 * claim.held);
        let gathers = self.gathers_since.is_some_and(|at| now.since(at) < GATHERS);
        if refuted && !gathers {
            self.doubt += since_last;
        } else {
            self.doubt = self.doubt.saturating_sub(since_last);
        }
        if self.doubt > patience {
            self.mistrust(now, claim, self.next.unwrap_or(MISTRUST));
            return Verdict::Mistrust;
        }
        if !explained && has_more {
            let lately_bps = AT_LEAST * self.lately_bps(now);
            return self.had_bps(claim).map_or(Verdict::Look(lately_bps), Verdict::Keep);
        }
        if explained && claim.elastic && claim.bounded {
            self.believe(now, claim);
        }
        Verdict::Obey
    }

    /// A share that is explained is what is had from now on, and says what can be carried.
    fn believe(&mut self, now: Moment, claim: Claim) {
        self.note(now, claim.rate_bps, claim.evidence_bps(), claim.alone_bps);
        self.had =
            Some(Had { share_bps: claim.share_bps, claimed: claim.claimed, alone_bps: claim.alone_bps });
        // Who was believed for as long as it was not before is not worse than anybody else.
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
            Some(Mistrusts { until: now + lasts, lasts, alone_bps, rates_bps: 0.0, decisions: 0 });
    }

    /// While a leader is not followed: at the end plain CUBIC's rate tells who was right.
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
            // What can be had is what was carried: where that is less than was due, the group may have been right.
            let of_all_bps = claim.of_all_bps(mean_bps, claim.senders);
            for grain in &mut self.grains {
                grain.evidence_bps = grain.evidence_bps.min(of_all_bps);
            }
            // What was due and is carried does not lapse while the leader goes on.
            let alone_bps = over.alone_bps.min(of_all_bps).min(claim.alone_bps);
            self.note(now, claim.rate_bps, alone_bps, claim.alone_bps);
        }
        if claim.elastic && !self.explains(now, claim, claim.senders) {
            self.mistrust(now, claim, 2 * over.lasts);
            return Some(Verdict::Mistrust);
        }
        None
    }

    /// Where only senders that have not proved themselves explain a share, they are to be asked.
    fn ask(&mut self, now: Moment, explained: bool, claim: Claim) {
        let asks = !explained && self.explains(now, claim, claim.claimed);
        if asks && !self.asks {
            self.gathers_since = Some(now);
        }
        self.asks = asks;
    }

    /// Whether the radio, what was carried and so many senders explain a share.
    fn explains(&self, now: Moment, claim: Claim, senders: u16) -> bool {
        claim.of_all_bps(claim.share_bps, senders) >= AT_LEAST * self.alone_bps(now, claim)
    }

    /// What this terminal could carry alone with the radio that it has now, bit/s, as far as it was seen.
    fn alone_bps(&self, now: Moment, claim: Claim) -> f64 {
        let slower = |grain: &Grain| {
            if grain.alone_bps.is_finite() { (claim.alone_bps / grain.alone_bps).min(1.0) } else { 1.0 }
        };
        let fresh = self.grains.iter().filter(|grain| now.since(grain.since) < MEMORY);
        fresh.map(|grain| grain.evidence_bps * slower(grain)).fold(0.0, f64::max)
    }

    /// The share that was had, among as many senders and with such a radio as there are now, bit/s.
    fn had_bps(&self, claim: Claim) -> Option<f64> {
        self.had.map(|had| {
            let fewer = f64::from(had.claimed.max(1)) / f64::from(claim.senders.max(1));
            let slower = if had.alone_bps.is_finite() { claim.alone_bps / had.alone_bps } else { 1.0 };
            had.share_bps * fewer.min(1.0) * slower.min(1.0)
        })
    }

    /// Whether only senders that have not proved themselves explain the share: they are to be asked.
    pub(super) fn wants_proof(&self) -> bool {
        self.asks
    }

    /// The best of the last minute, bit/s.
    pub(super) fn lately_bps(&self, now: Moment) -> f64 {
        let lately = self.grains.iter().filter(|grain| now.since(grain.since) < LATELY);
        lately.map(|grain| grain.rate_bps).fold(0.0, f64::max)
    }

    /// Keeps the best of each [`GRAIN`], for [`MEMORY`].
    fn note(&mut self, now: Moment, rate_bps: f64, evidence_bps: f64, alone_bps: f64) {
        let same = |grain: &&mut Grain| now.since(grain.since) < GRAIN && grain.alone_bps == alone_bps;
        match self.grains.back_mut().filter(same) {
            Some(grain) => {
                grain.rate_bps = grain.rate_bps.max(rate_bps);
                grain.evidence_bps = grain.evidence_bps.max(evidence_bps);
            }
            None => self.grains.push_back(Grain { since: now, rate_bps, evidence_bps, alone_bps }),
        }
        while self.grains.front().is_some_and(|grain| now.since(grain.since) > MEMORY) {
            self.grains.pop_front();
        }
    }
}

#[cfg(test)]
mod tests;
