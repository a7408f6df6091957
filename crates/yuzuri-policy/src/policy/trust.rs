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
/// A share is too small when it is less than this part of what was carried, over the number of senders.
const TOO_SMALL: f64 = 0.5;
/// It must be so for so long ...
const FOR: Duration = Duration::from_millis(1500);
/// ... and for so many round trips, but no longer than this.
const ROUND_TRIPS: u32 = 4;
const FOR_AT_MOST: Duration = Duration::from_millis(2500);
/// Then this terminal is plain CUBIC for so long.
const MISTRUST: Duration = Duration::from_secs(30);
/// A terminal that has seen nothing yet looks by itself first, for so long.
const FIRST_LOOK: Duration = Duration::from_secs(2);

/// What a share is judged by.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Claim {
    /// What this terminal delivers, bit/s.
    pub(super) rate_bps: f64,
    /// What the group says it may, bit/s.
    pub(super) share_bps: f64,
    /// Senders that this terminal knows of by itself, this one included.
    pub(super) senders: u16,
    /// Largest smoothed round-trip time of its flows.
    pub(super) srtt: Duration,
    /// Whether its flows want more than they get.
    pub(super) elastic: bool,
}

/// What a terminal has seen itself, and since when the group's words do not fit it.
#[derive(Debug, Clone, Default)]
pub(super) struct Trust {
    /// The best of each [`GRAIN`].
    carried: VecDeque<(Moment, f64)>,
    looks_since: Option<Moment>,
    doubts_since: Option<Moment>,
    mistrusts_until: Option<Moment>,
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
        self.note(now, claim.rate_bps);
        if self.mistrusts_until.is_some_and(|until| now < until) {
            return Verdict::Mistrust;
        }
        self.mistrusts_until = None;
        let since = *self.looks_since.get_or_insert(now);
        let patience = FOR.max(ROUND_TRIPS * claim.srtt).min(FOR_AT_MOST);
        if now.since(since) < FIRST_LOOK.max(patience) {
            return Verdict::Look;
        }
        let best_bps = self.best_bps(now, Duration::MAX);
        let too_small = claim.share_bps < TOO_SMALL * best_bps / f64::from(claim.senders.max(1));
        if !claim.elastic || !too_small {
            self.doubts_since = None;
            return Verdict::Obey;
        }
        if now.since(*self.doubts_since.get_or_insert(now)) < patience {
            return Verdict::Obey;
        }
        self.doubts_since = None;
        self.mistrusts_until = Some(now + MISTRUST);
        Verdict::Mistrust
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

    fn note(&mut self, now: Moment, rate_bps: f64) {
        match self.carried.back_mut().filter(|(at, _)| now.since(*at) < GRAIN) {
            Some((_, best)) => *best = best.max(rate_bps),
            None => self.carried.push_back((now, rate_bps)),
        }
        while self.carried.front().is_some_and(|(at, _)| now.since(*at) > MEMORY) {
            self.carried.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Moment {
        Moment::at(Duration::from_secs_f64(seconds))
    }

    fn fair() -> Claim {
        Claim { rate_bps: 10e6, share_bps: 10e6, senders: 4, srtt: Duration::from_millis(80), elastic: true }
    }

    /// Ticks of half a second of what `claim` says; the verdicts.
    fn verdicts(trust: &mut Trust, from: f64, to: f64, claim: impl Fn(f64) -> Claim) -> Vec<Verdict> {
        let ticks = (from * 2.0) as u32..(to * 2.0) as u32;
        ticks.map(|tick| f64::from(tick) / 2.0).map(|s| trust.judge(at(s), claim(s))).collect()
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
        verdicts(&mut trust, 0.0, 10.0, |_| Claim { rate_bps: 40e6, share_bps: 40e6, senders: 1, ..fair() });
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
}
