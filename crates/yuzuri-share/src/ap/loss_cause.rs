//! Finds the cause of losses next to traffic that no window bounds. If a QUIC sender overflows a
//! queue, connections lose segments there as they do on a lossy path. A test distinguishes the two:
//! while token buckets limit that traffic, losses that it caused end within a few round trips, and
//! losses of the path continue. Until the cause is known, the policy does not see the losses.
//! Otherwise it would lift all bounds, and so sustain the losses for which it lifted them. No I/O
//! and no clock.

use super::bound_trials::{CHANCE, HOLDS, LOST, SETTLES};
use std::collections::HashMap;
use yuzuri_policy::FlowSeen;

/// Segments lost before the buckets limited the traffic are retransmitted within this many round
/// trips: the queue drains in about one, the losses show in the next one, and recovery repairs half
/// of a window in each of two more.
const ROUND_TRIPS: f64 = 4.0;
/// The cause stays undecided for at most this many ticks while buckets do not limit the traffic: a
/// start-up is over by then.
const UNANSWERED: u32 = 20;

/// The state of the token buckets for traffic that no window bounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Buckets {
    /// There is no such traffic, or it cannot be limited.
    None,
    /// It is not limited yet.
    Ready,
    /// It is limited.
    Hold,
}

/// State of the test.
#[derive(Debug, Default)]
pub(super) struct LossCause {
    /// For each connection at the last tick: segments lost, segments delivered, and lost segments
    /// hidden from the policy.
    before: HashMap<u64, [u64; 3]>,
    /// Whether the path itself is known to lose segments.
    is_of_path: bool,
    /// Ticks since the first losses, while buckets do not limit the traffic yet.
    unanswered: u32,
    /// Ticks and seconds since the buckets limit the traffic; longest round-trip time meanwhile;
    /// segments lost and delivered since they have taken effect.
    held: u32,
    held_s: f64,
    longest_s: f64,
    lost: f64,
    delivered: f64,
}

impl LossCause {
    /// Processes a tick `seconds` after the last one, and subtracts from the connections' losses
    /// those that the policy must not see yet. `is_lossy`: the policy treats the path as lossy.
    pub(super) fn observe<'a>(
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
        // A path that was found lossy, or was so before such traffic began, counts as lossy for as
        // long as the policy treats it so.
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

    /// A connection next to traffic that no window bounds. The policy treats the path as lossy for
    /// 60 ticks after losses that it sees.
    struct Path {
        whose: LossCause,
        seen: FlowSeen,
        attributed: u64,
        lossy_for: u32,
    }

    impl Path {
        fn new(srtt_ms: u32) -> Path {
            let seen = FlowSeen { id: 1, srtt_us: srtt_ms * 1000, ..FlowSeen::default() };
            Path { whose: LossCause::default(), seen, attributed: 0, lossy_for: 0 }
        }

        /// This tick's losses as the policy sees them.
        fn observe(&mut self, buckets: Buckets, lost: u64) -> u64 {
            self.seen.delivered += 1000;
            self.seen.lost += lost;
            let mut attributed = self.seen;
            self.whose.observe(buckets, self.lossy_for > 0, 0.5, [&mut attributed].into_iter());
            let news = attributed.lost - self.attributed;
            self.attributed = attributed.lost;
            self.lossy_for = if news > 2 { 60 } else { self.lossy_for.saturating_sub(1) };
            news
        }
    }

    #[test]
    fn losses_that_end_under_the_rate_limit_are_attributed_to_the_queue() {
        let mut path = Path::new(100);
        assert!((0..6).all(|_| path.observe(Buckets::Ready, 30) == 0));
        // The queue drains, and lost segments are retransmitted.
        assert!((0..SETTLES).all(|_| path.observe(Buckets::Hold, 20) == 0));
        assert!((0..200).all(|n| path.observe(Buckets::Hold, n % 2) == 0), "chance is none");
        // Another sender starts.
        assert!((0..4).all(|_| path.observe(Buckets::Ready, 30) == 0));
        assert!((0..20).all(|n| path.observe(Buckets::Hold, if n < 4 { 9 } else { 0 }) == 0));
    }

    /// Losses of the path continue: the policy sees them within three seconds, but not the earlier
    /// ones.
    #[test]
    fn losses_that_continue_under_the_rate_limit_are_attributed_to_the_path() {
        for buckets in [Buckets::Hold, Buckets::None] {
            let mut path = Path::new(100);
            let ticks = (0..20).take_while(|_| path.observe(buckets, 10) == 0).count() as u32;
            assert_eq!(ticks, if buckets == Buckets::Hold { SETTLES } else { 0 });
            assert_eq!(path.observe(buckets, 10), 10);
            // While the policy bounds nothing, and during its trials.
            for held in [Buckets::Ready, Buckets::Hold, Buckets::Ready] {
                assert!((0..60).all(|_| path.observe(held, 10) == 10));
            }
            assert_eq!(path.attributed, 10 * (2 + 180));
        }
    }

    #[test]
    fn the_test_is_repeated_once_the_losses_have_ended() {
        let mut path = Path::new(100);
        while path.observe(Buckets::Hold, 10) == 0 {}
        (0..80).for_each(|_| assert_eq!(path.observe(Buckets::Hold, 0), 0));
        assert_eq!((path.observe(Buckets::Ready, 10), path.observe(Buckets::Hold, 10)), (0, 0));
    }

    /// Behind a queue of two seconds, retransmissions take eight seconds.
    #[test]
    fn the_test_waits_for_long_round_trips() {
        let mut path = Path::new(2000);
        assert!((0..15).all(|_| path.observe(Buckets::Hold, 10) == 0));
        assert_eq!(path.observe(Buckets::Hold, 10), 10);
    }

    #[test]
    fn the_test_ends_without_a_result_after_a_while() {
        let mut path = Path::new(100);
        let hidden = (0..100).take_while(|_| path.observe(Buckets::Ready, 10) == 0).count() as u32;
        assert_eq!(hidden, UNANSWERED - 1);
    }
}
