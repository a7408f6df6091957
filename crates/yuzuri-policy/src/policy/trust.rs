//! What a terminal believes of its group: a share that does not fit what it has seen itself is not obeyed, whoever says it. So nobody in the group
//! can starve it.

use crate::Moment;
use std::collections::VecDeque;
use std::time::Duration;

/// What a terminal carried itself counts for so long.
const MEMORY: Duration = Duration::from_secs(300);
/// And lately is so much.
const LATELY: Duration = Duration::from_secs(60);
/// Of each so much time the best is kept.
const GRAIN: Duration = Duration::from_secs(2);
/// A share is too small when it is less than this part of what was carried, over the number of senders ...
const TOO_SMALL: f64 = 0.5;
/// ... or less than this part of the share that it usually was given and carried, among as many senders.
const LESS_THAN_USUAL: f64 = 0.6;
/// What is usual is the median of so many grains.
const USUAL: usize = 30;
/// It must be so for so long ...
const FOR: Duration = Duration::from_millis(1500);
/// ... and for so many round trips, but no longer than this.
const ROUND_TRIPS: u32 = 4;
const FOR_AT_MOST: Duration = Duration::from_millis(2500);
/// Doubt fades by this part of the time that shares are fair in: who starves a terminal every other moment is found out, too.
const FADES: u32 = 5;
/// Decisions are half a second apart; doubt does not grow while nobody decides.
const DECISION_AT_MOST: Duration = Duration::from_secs(1);
/// Then this terminal is plain CUBIC for so long.
const MISTRUST: Duration = Duration::from_secs(30);
/// A terminal that has seen nothing yet looks by itself first, for so long.
const FIRST_LOOK: Duration = Duration::from_secs(2);

/// So long after it heard of another member a share that is too small is not obeyed, but nor held against the group: its leader may have
/// heard only some of its members.
const GATHERS: Duration = Duration::from_secs(10);
/// A share that only the claimed number of senders explains is not obeyed for this long, while those senders are asked to prove
/// themselves. After that the number that did counts.
const PROOF_PATIENCE: Duration = Duration::from_secs(5);

/// What a share is judged by.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Claim {
    /// What this terminal delivers, bit/s.
    pub(super) rate_bps: f64,
    /// What the group says it may, bit/s.
    pub(super) share_bps: f64,
    /// Senders that have proved themselves to this terminal, itself included; no more than the leader claims.
    pub(super) senders: u16,
    /// Senders that the leader claims there are.
    pub(super) claimed: u16,
    /// Members that this terminal has heard of, proved or not, itself included.
    pub(super) heard: u16,
    /// Largest smoothed round-trip time of its flows.
    pub(super) srtt: Duration,
    /// Whether its flows want more than they get.
    pub(super) elastic: bool,
    /// Whether the group bounds windows from above at all.
    pub(super) bounded: bool,
}

impl Claim {
    /// What all would carry if each carried so much, bit/s.
    fn of_all_bps(&self, each_bps: f64) -> f64 {
        each_bps * f64::from(self.senders.max(1))
    }

    /// The same claim, if all the senders that the leader speaks of were there.
    fn believed(self) -> Claim {
        Claim { senders: self.claimed, ..self }
    }
}

/// What a terminal has seen itself, and for how long the group's words have not fitted it.
#[derive(Debug, Clone, Default)]
pub(super) struct Trust {
    /// The best of each [`GRAIN`], bit/s.
    carried: VecDeque<(Moment, f64)>,
    /// The best share of each [`GRAIN`] that it had no reason to doubt, and carried, times the senders there were, bit/s.
    usual: VecDeque<(Moment, f64)>,
    looks_since: Option<Moment>,
    heard: u16,
    /// When it heard of another member last.
    joined: Option<Moment>,
    judged: Option<Moment>,
    /// Since when senders have been asked to prove themselves, because only their number explains a share.
    asks_since: Option<Moment>,
    doubt: Duration,
    mistrusts: Option<Mistrusts>,
}

/// A time of plain CUBIC.
#[derive(Debug, Clone, Copy)]
struct Mistrusts {
    until: Moment,
    /// The sum over decisions at which it wanted more of what it carried, times the senders there were, bit/s; and how many they were.
    of_all_bps: f64,
    decisions: u32,
}

/// What to do with a share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Obey,
    /// Too little is known to judge.
    Look,
    Mistrust,
}

impl Trust {
    pub(super) fn judge(&mut self, now: Moment, claim: Claim) -> Verdict {
        noted(&mut self.carried, now, claim.rate_bps);
        let since_last = self.judged.map_or(Duration::ZERO, |at| now.since(at)).min(DECISION_AT_MOST);
        self.judged = Some(now);
        if let Some(mistrusts) = &mut self.mistrusts {
            if claim.elastic {
                mistrusts.of_all_bps += claim.of_all_bps(claim.rate_bps);
                mistrusts.decisions += 1;
            }
            if now < mistrusts.until {
                return Verdict::Mistrust;
            }
            let over = *mistrusts;
            self.learn(now, over);
        }
        if claim.heard > self.heard && self.heard > 0 {
            self.joined = Some(now);
        }
        self.heard = claim.heard;
        let since = *self.looks_since.get_or_insert(now);
        let patience = FOR.max(ROUND_TRIPS * claim.srtt).min(FOR_AT_MOST);
        if now.since(since) < FIRST_LOOK.max(patience) {
            return Verdict::Look;
        }
        let too_small = claim.elastic && self.is_too_small(now, claim);
        if too_small && self.joined.is_some_and(|at| now.since(at) < GATHERS) {
            return Verdict::Look;
        }
        if too_small && !self.is_too_small(now, claim.believed()) {
            let asks_since = *self.asks_since.get_or_insert(now);
            if now.since(asks_since) < PROOF_PATIENCE {
                return Verdict::Look;
            }
        } else {
            self.asks_since = None;
        }
        if too_small {
            self.doubt += since_last;
        } else {
            self.doubt = self.doubt.saturating_sub(since_last / FADES);
        }
        if self.doubt > patience {
            self.doubt = Duration::ZERO;
            self.asks_since = None;
            self.mistrusts = Some(Mistrusts { until: now + MISTRUST, of_all_bps: 0.0, decisions: 0 });
            return Verdict::Mistrust;
        }
        if claim.elastic && claim.bounded && !too_small {
            // Neither a start ahead of others, nor a share that nobody could carry.
            noted(&mut self.usual, now, claim.of_all_bps(claim.share_bps.min(claim.rate_bps)));
            let more = self.usual.len().saturating_sub(USUAL);
            self.usual.drain(..more);
        }
        Verdict::Obey
    }

    /// A time of mistrust is over. What plain CUBIC carried in it is what can be had: where that is less than was usual, the group may have been right.
    fn learn(&mut self, now: Moment, over: Mistrusts) {
        self.mistrusts = None;
        let of_all_bps =
            if over.decisions == 0 { f64::INFINITY } else { over.of_all_bps / f64::from(over.decisions) };
        for (at, usual_bps) in &mut self.usual {
            (*at, *usual_bps) = (now, usual_bps.min(of_all_bps));
        }
    }

    fn is_too_small(&self, now: Moment, claim: Claim) -> bool {
        let of_all_bps = claim.of_all_bps(claim.share_bps);
        of_all_bps < TOO_SMALL * self.best_bps(now, Duration::MAX)
            || of_all_bps < LESS_THAN_USUAL * self.usual_of_all_bps()
    }

    /// Whether only senders that have not proved themselves explain the share: they are to be asked.
    pub(super) fn wants_proof(&self) -> bool {
        self.asks_since.is_some()
    }

    /// The best of the last minute, bit/s.
    pub(super) fn lately_bps(&self, now: Moment) -> f64 {
        self.best_bps(now, LATELY)
    }

    /// The best of less than so long ago, of what is remembered, bit/s.
    fn best_bps(&self, now: Moment, within: Duration) -> f64 {
        let carried = self.carried.iter().filter(|(at, _)| now.since(*at) < within);
        carried.map(|(_, bps)| *bps).fold(0.0, f64::max)
    }

    /// What all carry where each has the share that is usual, bit/s.
    fn usual_of_all_bps(&self) -> f64 {
        let mut of_all: Vec<f64> = self.usual.iter().map(|(_, bps)| *bps).collect();
        of_all.sort_unstable_by(f64::total_cmp);
        of_all.get(of_all.len() / 2).copied().unwrap_or(0.0)
    }
}

/// Keeps the best of each [`GRAIN`], for [`MEMORY`].
fn noted(grains: &mut VecDeque<(Moment, f64)>, now: Moment, bps: f64) {
    match grains.back_mut().filter(|(at, _)| now.since(*at) < GRAIN) {
        Some((_, best)) => *best = best.max(bps),
        None => grains.push_back((now, bps)),
    }
    while grains.front().is_some_and(|(at, _)| now.since(*at) > MEMORY) {
        grains.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Moment {
        Moment::at(Duration::from_secs_f64(seconds))
    }

    fn fair() -> Claim {
        Claim {
            rate_bps: 10e6,
            share_bps: 10e6,
            senders: 4,
            claimed: 4,
            heard: 4,
            srtt: Duration::from_millis(80),
            elastic: true,
            bounded: true,
        }
    }

    /// Ticks of half a second of what `claim` says; the verdicts.
    fn verdicts(trust: &mut Trust, from: f64, to: f64, claim: impl Fn(f64) -> Claim) -> Vec<Verdict> {
        let ticks = (from * 2.0) as u32..(to * 2.0) as u32;
        ticks.map(|tick| f64::from(tick) / 2.0).map(|s| trust.judge(at(s), claim(s))).collect()
    }

    #[test]
    fn while_members_come_small_shares_are_neither_obeyed_nor_held_against_the_group() {
        let mut trust = Trust::default();
        let small = Claim { share_bps: 1e6, senders: 1, claimed: 1, ..fair() };
        let coming = |s: f64| Claim { heard: 1 + (s / 2.0) as u16, ..small };
        let fits = |_: f64| Claim { heard: 4, ..fair() };
        assert!(verdicts(&mut trust, 0.0, 8.0, coming).iter().all(|v| *v == Verdict::Look));
        assert!(verdicts(&mut trust, 8.0, 30.0, fits).iter().all(|v| *v == Verdict::Obey));
        // Who stays as many is judged.
        let later = verdicts(&mut trust, 30.0, 35.0, |_| Claim { heard: 4, ..small });
        assert_eq!(later.last(), Some(&Verdict::Mistrust));
    }

    #[test]
    fn senders_that_prove_nothing_explain_a_small_share_for_five_seconds_at_most() {
        // A thousand are claimed, and this terminal knows of one other. Plain CUBIC would carry what it did before.
        let starved = Claim { share_bps: 2e4, senders: 2, claimed: 1001, ..fair() };
        let mut trust = Trust::default();
        let mut said = verdicts(&mut trust, 0.0, 20.0, |_| Claim { senders: 2, claimed: 2, ..fair() });
        for tick in 40..1240 {
            let rate_bps = if said.last() == Some(&Verdict::Obey) { 2e4 } else { 10e6 };
            said.push(trust.judge(at(f64::from(tick) / 2.0), Claim { rate_bps, ..starved }));
        }
        let said = &said[40..];
        assert!(said[..10].iter().all(|v| *v == Verdict::Look));
        // In ten minutes it obeys for no longer than doubt lasts, once in each time of mistrust.
        let obeyed = said.iter().filter(|v| **v == Verdict::Obey).count();
        assert!((1..=600 / 30 * 6).contains(&obeyed), "{obeyed} ticks");
        // Those that prove themselves in time do explain it.
        let mut trust = Trust::default();
        verdicts(&mut trust, 0.0, 20.0, |_| Claim {
            rate_bps: 40e6,
            share_bps: 40e6,
            senders: 2,
            claimed: 2,
            ..fair()
        });
        let proved = |s: f64| Claim { senders: if s < 23.0 { 2 } else { 8 }, claimed: 8, ..fair() };
        let said = verdicts(&mut trust, 20.0, 60.0, proved);
        assert!(said.iter().all(|v| *v != Verdict::Mistrust));
        assert!(said[6..].iter().all(|v| *v == Verdict::Obey));
        assert!(!trust.wants_proof());
    }

    #[test]
    fn looks_first_and_obeys_a_fair_share() {
        let mut trust = Trust::default();
        let said = verdicts(&mut trust, 0.0, 60.0, |_| fair());
        assert_eq!(said.iter().filter(|v| **v == Verdict::Look).count(), 4);
        assert!(said[4..].iter().all(|v| *v == Verdict::Obey));
    }

    #[test]
    fn a_share_far_below_what_was_carried_is_not_obeyed_for_longer_than_five_seconds() {
        let mut trust = Trust::default();
        verdicts(&mut trust, 0.0, 10.0, |_| fair());
        let said = verdicts(&mut trust, 10.0, 40.0, |_| Claim { share_bps: 1e5, rate_bps: 1e5, ..fair() });
        let obeyed = said.iter().take_while(|v| **v == Verdict::Obey).count();
        assert!(obeyed <= 10, "{obeyed} ticks");
        assert!(said[obeyed..].iter().take(59).all(|v| *v == Verdict::Mistrust));
    }

    #[test]
    fn more_senders_are_a_reason_for_less() {
        let mut trust = Trust::default();
        verdicts(&mut trust, 0.0, 10.0, |_| Claim {
            rate_bps: 40e6,
            share_bps: 40e6,
            senders: 1,
            claimed: 1,
            ..fair()
        });
        let said = verdicts(&mut trust, 10.0, 30.0, |_| fair());
        assert!(said.iter().all(|v| *v == Verdict::Obey));
    }

    #[test]
    fn who_wants_no_more_does_not_doubt() {
        let mut trust = Trust::default();
        verdicts(&mut trust, 0.0, 10.0, |_| fair());
        let said = verdicts(&mut trust, 10.0, 30.0, |_| Claim { share_bps: 1e5, elastic: false, ..fair() });
        assert!(said.iter().all(|v| *v == Verdict::Obey));
    }

    #[test]
    fn a_lie_told_every_other_moment_is_found_out() {
        let mut trust = Trust::default();
        verdicts(&mut trust, 0.0, 20.0, |_| fair());
        // One second of three is too little for each alone to be doubted.
        let lie = |s: f64| if s % 3.0 < 1.0 { Claim { share_bps: 1e5, ..fair() } } else { fair() };
        let said = verdicts(&mut trust, 21.0, 60.0, lie);
        let obeyed = said.iter().take_while(|v| **v == Verdict::Obey).count();
        assert!((6..=18).contains(&obeyed), "{obeyed} ticks");
        // One moment in ten is forgiven.
        let mut trust = Trust::default();
        verdicts(&mut trust, 0.0, 20.0, |_| fair());
        let slip = |s: f64| if s % 5.0 < 0.5 { Claim { share_bps: 1e5, ..fair() } } else { fair() };
        let said = verdicts(&mut trust, 20.0, 120.0, slip);
        assert!(said.iter().all(|v| *v == Verdict::Obey));
    }

    #[test]
    fn less_than_usual_among_as_many_is_not_obeyed_for_long() {
        let less = Claim { share_bps: 5.5e6, rate_bps: 5.5e6, ..fair() };
        let mut trust = Trust::default();
        verdicts(&mut trust, 0.0, 20.0, |_| fair());
        let said = verdicts(&mut trust, 20.0, 40.0, |_| less);
        let obeyed = said.iter().take_while(|v| **v == Verdict::Obey).count();
        assert!(obeyed <= 6, "{obeyed} ticks");
        // Among twice as many it is what is due.
        let mut trust = Trust::default();
        verdicts(&mut trust, 0.0, 20.0, |_| fair());
        let said = verdicts(&mut trust, 20.0, 40.0, |_| Claim { senders: 8, claimed: 8, ..less });
        assert!(said.iter().all(|v| *v == Verdict::Obey));
    }

    #[test]
    fn what_nobody_bounded_is_not_usual() {
        let mut trust = Trust::default();
        verdicts(&mut trust, 0.0, 10.0, |_| Claim { rate_bps: 30e6, bounded: false, ..fair() });
        let said = verdicts(&mut trust, 10.0, 40.0, |_| fair());
        assert!(said.iter().all(|v| *v == Verdict::Obey));
    }

    #[test]
    fn a_time_of_plain_cubic_tells_who_was_right() {
        // Who starves somebody does not win by holding out for 20 minutes; who tells the truth is believed after one time.
        for (alone_bps, mistrusted) in [(10e6, true), (5e6, false)] {
            let mut trust = Trust::default();
            verdicts(&mut trust, 0.0, 20.0, |_| fair());
            let less = Claim { share_bps: 5e6, rate_bps: alone_bps, ..fair() };
            let said = verdicts(&mut trust, 20.0, 1220.0, |_| less);
            let mistrusts = said.iter().filter(|v| **v == Verdict::Mistrust).count();
            if mistrusted {
                assert!(mistrusts > said.len() * 9 / 10, "{mistrusts} of {} ticks", said.len());
            } else {
                assert!((1..=60).contains(&mistrusts), "{mistrusts} of {} ticks", said.len());
            }
        }
    }
}
