//! Whose losses are, beside traffic that no window bounds. A sender of QUIC that overflows a queue
//! makes connections lose there as they do on a path that loses segments. Which of the two it is,
//! is asked: while token buckets hold that traffic, losses of its making end within a few round
//! trips, those of a path go on. Until that is known, the policy is not told of them: otherwise it
//! would let all go, and so keep up the losses that it let go for. No I/O and no clock.

use super::stand_off::{CHANCE, HOLDS, LOST, SETTLES};
use std::collections::HashMap;
use yuzuri_policy::FlowSeen;

/// What was lost before the buckets held is sent again within so many round trips: the queue drains
/// in about one, as the loss shows in the next, and a recovery repairs half of a window in each of
/// two more.
const ROUND_TRIPS: f64 = 4.0;
/// The question stands for so many looks at most while buckets do not hold: a start-up is over by
/// then.
const UNANSWERED: u32 = 20;

/// What can be done about traffic that no window bounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Buckets {
    /// There is none, or it cannot be held.
    None,
    /// It is not held yet.
    Ready,
    /// It is held.
    Hold,
}

/// The question over time.
#[derive(Debug, Default)]
pub(super) struct WhoseLoss {
    /// What each connection had lost and delivered at the last look, and what of its losses the
    /// policy was not told, segments.
    before: HashMap<u64, [u64; 3]>,
    /// It turned out that the path loses.
    is_of_path: bool,
    /// Looks since losses without buckets that hold.
    unanswered: u32,
    /// Looks, and seconds, since the buckets hold; what was lost and delivered since they had taken
    /// effect.
    held: u32,
    held_s: f64,
    longest_s: f64,
    lost: f64,
    delivered: f64,
}

impl WhoseLoss {
    /// Takes in a look `seconds` after the last one, and takes losses off the connections that the
    /// policy is not to be told. `is_lossy`: the policy takes the path for one that loses.
    pub(super) fn look<'a>(
        &mut self,
        buckets: Buckets,
        is_lossy: bool,
        seconds: f64,
        flows: impl Iterator<Item = &'a mut FlowSeen>,
    ) {
        let mut now = HashMap::new();
        let (mut lost, mut delivered) = (0, 0);
        let mut longest_us = 0;
        let mut flows: Vec<_> = flows.collect();
        for flow in &flows {
            let before = self.before.get(&flow.id).copied().unwrap_or([0, flow.delivered, 0]);
            lost += flow.lost.saturating_sub(before[0]);
            delivered += flow.delivered.saturating_sub(before[1]);
            longest_us = longest_us.max(flow.srtt_us);
            now.insert(flow.id, [flow.lost, flow.delivered, before[2]]);
        }
        self.ask(buckets, is_lossy, seconds, f64::from(longest_us) / 1e6, [lost as f64, delivered as f64]);
        let hides = buckets != Buckets::None && !self.is_of_path && self.unanswered < UNANSWERED;
        for flow in &mut flows {
            let Some([lost, _, hidden]) = now.get_mut(&flow.id) else { continue };
            let before = self.before.get(&flow.id).map_or(0, |[lost, ..]| *lost);
            *hidden += if hides { lost.saturating_sub(before) } else { 0 };
            flow.lost = lost.saturating_sub(*hidden);
        }
        self.before = now;
    }

    fn ask(
        &mut self,
        buckets: Buckets,
        is_lossy: bool,
        seconds: f64,
        round_trip_s: f64,
        [lost, delivered]: [f64; 2],
    ) {
        // What was found, or was there before such traffic, holds as long as the policy goes by it.
        self.is_of_path = is_lossy && (self.is_of_path || buckets == Buckets::None);
        if buckets != Buckets::Hold {
            let since = self.unanswered > 0 || lost > 0.0;
            self.unanswered = if buckets == Buckets::Ready && since { self.unanswered + 1 } else { 0 };
            (self.held, self.held_s, self.longest_s) = (0, 0.0, 0.0);
            (self.lost, self.delivered) = (0.0, 0.0);
            return;
        }
        self.unanswered = 0;
        (self.held, self.held_s) = (self.held + 1, self.held_s + seconds);
        self.longest_s = self.longest_s.max(round_trip_s);
        if self.held <= SETTLES || self.held_s < ROUND_TRIPS * self.longest_s {
            return;
        }
        (self.lost, self.delivered) = (self.lost + lost, self.delivered + delivered);
        if self.lost > CHANCE + LOST * self.delivered {
            self.is_of_path = true;
        } else if self.held >= HOLDS {
            self.held = SETTLES + 1;
            (self.lost, self.delivered) = (0.0, 0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// A connection beside traffic that no window bounds; the policy takes what it is told for a
    /// path that loses, for a minute.
    struct Path {
        whose: WhoseLoss,
        seen: FlowSeen,
        told: u64,
        lossy_for: u32,
    }

    impl Path {
        fn new(srtt_ms: u32) -> Path {
            let seen = FlowSeen { id: 1, srtt_us: srtt_ms * 1000, ..FlowSeen::default() };
            Path { whose: WhoseLoss::default(), seen, told: 0, lossy_for: 0 }
        }

        /// What the policy is told of this look's losses.
        fn look(&mut self, buckets: Buckets, lost: u64) -> u64 {
            self.seen.delivered += 1000;
            self.seen.lost += lost;
            let mut told = self.seen;
            self.whose.look(buckets, self.lossy_for > 0, 0.5, [&mut told].into_iter());
            let news = told.lost - self.told;
            self.told = told.lost;
            self.lossy_for = if news > 2 { 60 } else { self.lossy_for.saturating_sub(1) };
            news
        }
    }

    #[test]
    fn losses_that_end_while_buckets_hold_were_of_the_queue() {
        let mut path = Path::new(100);
        assert!((0..6).all(|_| path.look(Buckets::Ready, 30) == 0));
        // The queue drains, and what was lost is sent again.
        assert!((0..SETTLES).all(|_| path.look(Buckets::Hold, 20) == 0));
        assert!((0..200).all(|n| path.look(Buckets::Hold, n % 2) == 0), "chance is none");
        // Another start.
        assert!((0..4).all(|_| path.look(Buckets::Ready, 30) == 0));
        assert!((0..20).all(|n| path.look(Buckets::Hold, if n < 4 { 9 } else { 0 }) == 0));
    }

    /// A path's losses go on: the policy is told before three seconds have passed, and of no
    /// earlier ones.
    #[test]
    fn losses_that_go_on_while_buckets_hold_are_of_the_path() {
        for buckets in [Buckets::Hold, Buckets::None] {
            let mut path = Path::new(100);
            let looks = (0..20).take_while(|_| path.look(buckets, 10) == 0).count() as u32;
            assert_eq!(looks, if buckets == Buckets::Hold { SETTLES } else { 0 });
            assert_eq!(path.look(buckets, 10), 10);
            // As long as the policy lets all go, and in its trials.
            for held in [Buckets::Ready, Buckets::Hold, Buckets::Ready] {
                assert!((0..60).all(|_| path.look(held, 10) == 10));
            }
            assert_eq!(path.told, 10 * (2 + 180));
        }
    }

    #[test]
    fn it_is_asked_anew_once_the_losses_have_ended() {
        let mut path = Path::new(100);
        while path.look(Buckets::Hold, 10) == 0 {}
        (0..80).for_each(|_| assert_eq!(path.look(Buckets::Hold, 0), 0));
        assert_eq!((path.look(Buckets::Ready, 10), path.look(Buckets::Hold, 10)), (0, 0));
    }

    /// Behind a queue of two seconds what was lost is sent again for eight.
    #[test]
    fn long_round_trips_take_longer() {
        let mut path = Path::new(2000);
        assert!((0..15).all(|_| path.look(Buckets::Hold, 10) == 0));
        assert_eq!(path.look(Buckets::Hold, 10), 10);
    }

    #[test]
    fn a_question_without_an_answer_ends() {
        let mut path = Path::new(100);
        let hidden = (0..100).take_while(|_| path.look(Buckets::Ready, 10) == 0).count() as u32;
        assert_eq!(hidden, UNANSWERED - 1);
    }
}
