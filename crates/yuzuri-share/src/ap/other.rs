//! A station's traffic without a window to bound: QUIC and other UDP, tunnels. To the policy it is
//! one more upload of the station, and a token bucket enforces the decision. No I/O and no clock.

use super::arrivals::{ArrivalEstimator, Arrives, HISTORY_NS, passed_at};
use std::collections::VecDeque;
use yuzuri_gate::OtherTraffic;
use yuzuri_policy::FlowSeen;

/// A lower rate is not an upload, bit/s: calls, DNS, games. The gate gives such small streams
/// priority.
const SMALL_BPS: f64 = 512_000.0;
/// A sender that uses at least this fraction of its share would use more.
const NEARLY_ALL: f64 = 0.9;
/// So would a sender for this long after one of its packets was marked or dropped, nanoseconds.
const HELD_BACK_NS: u64 = 10_000_000_000;
/// A sender ignores losses if it loses more than this fraction of its packets in each of this many
/// ticks, and still sends at least the fraction `CUT` of its previous maximum. One loss reduces a
/// window to that fraction (RFC 9438, 4.6).
const DOES_NOT_ANSWER: f64 = 0.2;
const CUT: f64 = 0.7;
const TICKS: u32 = 20;
/// Such a sender is left alone for this long, nanoseconds: dropping its packets gains nothing.
const LEFT_ALONE_NS: u64 = 300_000_000_000;
/// A sender that responds to losses varies its rate: if it is limited to its share at each moment,
/// its mean rate is lower. So it may catch up on the unused share of the last seconds, within about
/// a second. Its limit is at most the rate that a loss reduces to the share (by a factor of 0.7,
/// RFC 9438, 4.6).
const LEFT_S: f64 = 2.0;
const CATCH_UP_S: f64 = 1.0;
const PEAK: f64 = 1.0 / CUT;
/// A window carries less as the queue grows, a rate does not. So the rate is reduced until the
/// queue in excess of the delay that windows may cause has drained, within this time, seconds. It
/// is reduced at most to this fraction, as a window is at a loss (RFC 5681).
const DRAINS_S: f64 = 1.0;
const CUT_TO: f64 = 0.5;
/// Payload of a segment, and its packet, bytes.
const SEGMENT: (u64, f64) = (1448, 1500.0);

/// Its flow ID. The IDs of connections begin at 1.
pub(super) const ID: u64 = 0;

/// State of a station's traffic without a window.
#[derive(Debug, Clone)]
pub(crate) struct UnwindowedSender {
    last: OtherTraffic,
    observed_ns: u64,
    /// Bytes passed, by tick.
    passed: VecDeque<(u64, f64)>,
    /// The last known delivery rate, bytes per second; and the total, bytes.
    per_s: f64,
    delivered: f64,
    held_back_ns: Option<u64>,
    vain: u32,
    /// The maximum rate of a tick, bit/s, since more than `DOES_NOT_ANSWER` of its packets are
    /// dropped.
    max_bps: f64,
    left_alone_until_ns: u64,
    observed_for_s: f64,
    /// The unused part of its share, bits.
    left: f64,
    /// The traffic that arrived, and that passed, since the previous tick, bit/s of IP packets.
    pub(crate) came_bps: f64,
    pub(crate) passed_bps: f64,
    /// The rate that may pass, bit/s; `None`: unlimited.
    pub(crate) rate_bps: Option<u64>,
}

impl UnwindowedSender {
    /// The initial state.
    pub(super) fn new(now_ns: u64, seen: OtherTraffic) -> UnwindowedSender {
        UnwindowedSender {
            last: seen,
            observed_ns: now_ns,
            passed: VecDeque::from([(now_ns, 0.0)]),
            per_s: 0.0,
            delivered: 0.0,
            held_back_ns: None,
            vain: 0,
            max_bps: 0.0,
            left_alone_until_ns: 0,
            observed_for_s: 0.0,
            left: 0.0,
            came_bps: 0.0,
            passed_bps: 0.0,
            rate_bps: None,
        }
    }

    /// Processes the current observation.
    pub(super) fn observe(&mut self, now_ns: u64, seen: OtherTraffic) {
        let seconds = now_ns.saturating_sub(self.observed_ns) as f64 / 1e9;
        // A lower value than before: the gate had forgotten the station, and starts counting from
        // zero.
        let since = |now: u64, before: u64| if now >= before { now - before } else { now } as f64;
        let packets = since(seen.packets, self.last.packets);
        let dropped = since(seen.dropped, self.last.dropped) / packets.max(1.0);
        let came = since(seen.bytes, self.last.bytes);
        let passed = came * (1.0 - dropped);
        let before = self.passed.back().map_or(0.0, |(_, bytes)| *bytes);
        self.passed.push_back((now_ns, before + passed));
        while self.passed.get(1).is_some_and(|(at, _)| now_ns.saturating_sub(*at) > HISTORY_NS) {
            self.passed.pop_front();
        }
        self.observed_for_s = seconds;
        if seconds > 0.0 {
            (self.came_bps, self.passed_bps) = (came * 8.0 / seconds, passed * 8.0 / seconds);
        }
        if seen.dropped != self.last.dropped || seen.marked != self.last.marked {
            self.held_back_ns = Some(now_ns);
        }
        self.max_bps = if dropped > DOES_NOT_ANSWER { self.max_bps.max(self.came_bps) } else { 0.0 };
        // A sender that has reduced its rate may lose packets for a long time, because its
        // retransmissions are dropped as well.
        self.vain = if self.max_bps > 0.0 && self.came_bps >= CUT * self.max_bps { self.vain + 1 } else { 0 };
        if self.vain == TICKS {
            self.left_alone_until_ns = now_ns.saturating_add(LEFT_ALONE_NS);
            self.vain = 0;
        }
        (self.last, self.observed_ns) = (seen, now_ns);
    }

    /// Whether it is not limited because it ignores losses.
    pub(crate) fn is_left_alone(&self) -> bool {
        self.observed_ns < self.left_alone_until_ns
    }

    /// Whether enough arrives to fill a queue, and its sender is not known to ignore losses.
    pub(super) fn is_upload(&self) -> bool {
        self.came_bps >= SMALL_BPS && !self.is_left_alone()
    }

    /// The traffic that was dropped since the previous tick, payload bit/s.
    pub(super) fn dropped_bps(&self) -> f64 {
        (self.came_bps - self.passed_bps) * SEGMENT.0 as f64 / SEGMENT.1
    }

    /// Whether its sender appears to have more to send than passes.
    fn is_elastic(&self, share_bps: f64) -> bool {
        let lately = self.held_back_ns.is_some_and(|at| self.observed_ns.saturating_sub(at) < HELD_BACK_NS);
        lately && !self.is_left_alone() || self.passed_bps >= NEARLY_ALL * share_bps
    }

    fn passed_between(&self, from_ns: u64, to_ns: u64) -> f64 {
        (passed_at(&self.passed, to_ns) - passed_at(&self.passed, from_ns)).max(0.0)
    }

    /// Its state as an upload, if it is one. Data that passed is delivered once data that passed at
    /// the same time is: until then it may only fill a queue, and does not show what the path
    /// carries. Its round-trip time is unknown: a connection on the same path, `like`, provides it,
    /// and also the delivered rate if no other connection does. `share_bps`: its station's share.
    pub(super) fn as_flow(
        &mut self,
        like: &FlowSeen,
        arrivals: &ArrivalEstimator,
        share_bps: Option<f64>,
    ) -> Option<FlowSeen> {
        // While the rate is unknown, use the last known one.
        self.per_s = match arrivals.arrives() {
            Arrives::Passed { from_ns, to_ns, in_s, surely } => {
                self.per_s + (self.passed_between(from_ns, to_ns) / in_s - self.per_s) * surely
            }
            Arrives::Unsure => self.per_s,
            Arrives::Unknown => {
                let to_ns = self.observed_ns.saturating_sub(u64::from(like.srtt_us) * 1000);
                let from_ns = to_ns.saturating_sub((self.observed_for_s * 1e9) as u64);
                self.passed_between(from_ns, to_ns) / self.observed_for_s.max(1e-3)
            }
        };
        self.delivered += self.per_s * self.observed_for_s;
        let is_elastic = share_bps.is_some_and(|share_bps| self.is_elastic(share_bps));
        if self.passed_bps < SMALL_BPS && !is_elastic {
            return None;
        }
        let in_flight = self.passed_bps / 8.0 * f64::from(like.srtt_us) / 1e6 / SEGMENT.1;
        Some(FlowSeen {
            id: ID,
            destination: like.destination,
            mss_bytes: SEGMENT.0 as u32,
            cwnd: in_flight as u32,
            in_flight: in_flight as u32,
            srtt_us: like.srtt_us,
            min_rtt_us: like.min_rtt_us,
            delivered: (self.delivered / SEGMENT.1) as u64,
            bytes_acked: self.delivered as u64,
            app_limited: !is_elastic,
            ..FlowSeen::default()
        })
    }

    /// Limits it to a part of the group's capacity, payload bit/s, until the next tick; `None`:
    /// unlimited.
    pub(super) fn limit_to(&mut self, part_bps: Option<f64>, queue: Queue) -> Option<u64> {
        let packets = |payload_bps: f64| payload_bps * SEGMENT.1 / SEGMENT.0 as f64;
        let drained = (1.0 - queue.excess_s() / DRAINS_S).max(CUT_TO);
        let part_bps = part_bps.filter(|_| !self.is_left_alone()).map(|bps| packets(bps) * drained);
        self.left = match part_bps.filter(|_| self.rate_bps.is_some()) {
            Some(bps) => {
                let left = self.left + (bps - self.passed_bps) * self.observed_for_s;
                left.clamp(0.0, LEFT_S * bps)
            }
            None => 0.0,
        };
        let catches_up = self.left / CATCH_UP_S * queue.room();
        self.rate_bps = part_bps.map(|bps| (bps + catches_up).min(PEAK * bps) as u64);
        self.rate_bps
    }
}

/// The queue on the path of such traffic.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Queue {
    /// Current queuing delay, seconds.
    pub(super) queued_s: f64,
    /// The delay that windows may cause.
    pub(super) may_hold_s: f64,
}

impl Queue {
    fn excess_s(self) -> f64 {
        (self.queued_s - self.may_hold_s).max(0.0)
    }

    /// The fraction of a burst that does not delay others: all of it if the queue is within its
    /// limit, none at twice that.
    fn room(self) -> f64 {
        if self.excess_s() > 0.0 { (1.0 - self.excess_s() / self.may_hold_s.max(1e-3)).max(0.0) } else { 1.0 }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const TICK_NS: u64 = 500_000_000;

    fn like() -> FlowSeen {
        FlowSeen { srtt_us: 60_000, min_rtt_us: 40_000, ..FlowSeen::default() }
    }

    /// A sender, some of whose packets the gate drops.
    struct Sender {
        seen: OtherTraffic,
        other: UnwindowedSender,
        arrivals: ArrivalEstimator,
        now_ns: u64,
    }

    impl Sender {
        fn new() -> Sender {
            let seen = OtherTraffic { mac: [2; 6], ..OtherTraffic::default() };
            Sender {
                seen,
                other: UnwindowedSender::new(0, seen),
                arrivals: ArrivalEstimator::default(),
                now_ns: 0,
            }
        }

        fn send(&mut self, bps: f64, dropped: f64) {
            self.now_ns += TICK_NS;
            let packets = bps / 2.0 / 8.0 / 1250.0;
            self.seen.packets += packets as u64;
            self.seen.bytes += packets as u64 * 1250;
            self.seen.dropped += (packets * dropped) as u64;
            self.seen.all_passed += ((packets - packets * dropped) * 1250.0) as u64;
            self.other.observe(self.now_ns, self.seen);
        }

        fn flow(&mut self, share_bps: f64) -> Option<FlowSeen> {
            self.other.as_flow(&like(), &self.arrivals, Some(share_bps))
        }

        fn limit_to(&mut self, part_bps: Option<f64>) -> Option<u64> {
            self.other.limit_to(part_bps, Queue::default())
        }
    }

    #[test]
    fn a_call_is_not_an_upload_but_a_bulk_transfer_is() {
        let mut call = Sender::new();
        call.send(100_000.0, 0.0);
        assert_eq!(call.flow(5e6), None);
        let mut upload = Sender::new();
        upload.send(2e6, 0.0);
        let flow = upload.flow(5e6).unwrap();
        assert!(flow.app_limited, "it takes less than its share");
        // All data except that of the last round trip.
        let delivered = (2_000_000.0 / 8.0 * (0.5 - 0.06) / 1500.0) as u64;
        assert_eq!((flow.delivered, flow.min_rtt_us), (delivered, 40_000));
        upload.send(4.6e6, 0.0);
        assert!(!upload.flow(5e6).unwrap().app_limited);
        assert!(
            upload.other.as_flow(&like(), &upload.arrivals, None).unwrap().app_limited,
            "nothing is shared yet"
        );
    }

    #[test]
    fn a_sender_counts_as_elastic_for_a_while_after_a_drop() {
        let mut sender = Sender::new();
        sender.send(8e6, 0.05);
        sender.send(2e6, 0.0);
        assert!(!sender.flow(5e6).unwrap().app_limited);
        (0..20).for_each(|_| sender.send(2e6, 0.0));
        assert!(sender.flow(5e6).unwrap().app_limited);
        assert_eq!(sender.limit_to(None), None);
    }

    #[test]
    fn a_sender_that_ignores_losses_is_left_alone() {
        let mut sender = Sender::new();
        for _ in 0..TICKS {
            assert!(sender.limit_to(Some(5e6)).is_some());
            sender.send(10e6, 0.5);
        }
        assert!(sender.other.is_left_alone());
        assert_eq!(sender.limit_to(Some(5e6)), None);
        // A sender that responds in between is not left alone.
        let mut sender = Sender::new();
        (0..5 * TICKS).for_each(|n| sender.send(10e6, if n % 10 == 0 { 0.05 } else { 0.5 }));
        assert!(!sender.other.is_left_alone());
    }

    /// A sender that has reduced its rate may lose retransmissions for a long time. A sender that
    /// keeps its rate has not responded, however much it loses.
    #[test]
    fn a_sender_that_reduced_its_rate_responds_to_losses() {
        for (bps, answers) in [(5e6, true), (20e6, false)] {
            let mut sender = Sender::new();
            sender.send(20e6, 0.6);
            for _ in 1..TICKS {
                assert!(!sender.other.is_left_alone());
                sender.send(bps, 0.4);
            }
            assert_eq!(sender.other.is_left_alone(), !answers, "{bps}");
        }
    }

    /// It may catch up on its unused share within limits, and then has its usual share again.
    #[test]
    fn a_sender_below_its_share_catches_up() {
        let mut sender = Sender::new();
        let share = (5e6 * SEGMENT.1 / SEGMENT.0 as f64) as u64;
        for _ in 0..10 {
            sender.send(3e6, 0.0);
            sender.limit_to(Some(5e6));
        }
        let most = sender.limit_to(Some(5e6)).unwrap();
        assert!(most.abs_diff((share as f64 * PEAK) as u64) < 10, "{most} of {share}");
        let mut caught = 0;
        while sender.limit_to(Some(5e6)).unwrap() > share {
            sender.send(most as f64, 0.0);
            caught += 1;
            assert!(caught < 20);
        }
        // It catches up on at most two seconds of its share.
        assert!(caught >= 4, "{caught}");
        assert_eq!(sender.limit_to(None), None);
        assert_eq!(sender.limit_to(Some(5e6)), Some(share));
    }

    /// A window carries less behind a longer queue, and so must a rate. An unused share is caught
    /// up only if that does not delay others.
    #[test]
    fn a_queue_above_its_limit_reduces_the_rate() {
        let mut sender = Sender::new();
        for _ in 0..10 {
            sender.send(3e6, 0.0);
            sender.limit_to(Some(5e6));
        }
        let share = 5e6 * SEGMENT.1 / SEGMENT.0 as f64;
        let other = &mut sender.other;
        let mut at = |queued_s| {
            other.limit_to(Some(5e6), Queue { queued_s, may_hold_s: 0.020 }).unwrap() as f64 / share
        };
        let parts = [0.0, 0.020, 0.030, 0.040, 0.120, 5.0].map(&mut at);
        assert!(parts.windows(2).all(|two| two[0] >= two[1] - 1e-6), "{parts:?}");
        assert!(parts[1] > 1.2 && (parts[3] - 0.98).abs() < 1e-6, "{parts:?}");
        assert!((parts[4] - 0.9).abs() < 1e-6 && (parts[5] - CUT_TO).abs() < 1e-6, "{parts:?}");
    }

    #[test]
    fn dropped_packets_have_not_passed_and_a_forgotten_station_restarts_at_zero() {
        let mut sender = Sender::new();
        sender.send(8e6, 0.5);
        assert!((sender.other.passed_bps / sender.other.came_bps - 0.5).abs() < 0.01);
        sender.seen = OtherTraffic { bytes: 0, packets: 0, dropped: 0, ..sender.seen };
        sender.send(4e6, 0.0);
        assert!((sender.other.came_bps / 4e6 - 1.0).abs() < 0.01, "{}", sender.other.came_bps);
    }
}
