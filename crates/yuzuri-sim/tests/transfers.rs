//! Sender and receiver over a path that loses the segments that the test selects.

use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::{BinaryHeap, HashSet};
use std::rc::Rc;
use yuzuri_netmodel::Time;
use yuzuri_sim::cc::{Algorithm, Bounds, CaState, SlowStartExit};
use yuzuri_sim::{Block, Kind, LocalQueue, Receiver, ReceiverConfig, Segment, Sender, SenderConfig};

const MS: u64 = 1_000_000;

/// Checks the sender after each step; the time is in ns.
type Check = Box<dyn FnMut(u64, &Sender)>;

/// A path with a delay in each direction, a rate, a queue, and a function that selects lost
/// segments.
struct TestPath {
    sender: Sender,
    receiver: Receiver,
    now: u64,
    /// Arrivals: time, order, segment.
    arrivals: BinaryHeap<std::cmp::Reverse<(u64, u64, usize)>>,
    segments: Vec<Segment>,
    one_way_ns: u64,
    /// Transmission time of a data segment at the bottleneck, ns.
    transmission_ns: u64,
    queue: u64,
    link_free_at: u64,
    drop_segment: Box<dyn FnMut(&Segment) -> bool>,
    lost: u64,
    queue_drops: u64,
    check: Check,
}

impl TestPath {
    fn new(config: SenderConfig, rtt_ms: u64) -> TestPath {
        TestPath {
            sender: Sender::new(0, config, 1),
            receiver: Receiver::new(0, ReceiverConfig::default()),
            now: 0,
            arrivals: BinaryHeap::new(),
            segments: Vec::new(),
            one_way_ns: rtt_ms * MS / 2,
            transmission_ns: 600_000,
            queue: 1000,
            link_free_at: 0,
            drop_segment: Box::new(|_| false),
            lost: 0,
            queue_drops: 0,
            check: Box::new(|_, _| {}),
        }
    }

    fn send(&mut self, segment: Segment) {
        let mut at = self.now + self.one_way_ns;
        if segment.kind == Kind::Data {
            let start = self.link_free_at.max(self.now);
            if (start - self.now) / self.transmission_ns > self.queue {
                self.queue_drops += 1;
                return;
            }
            self.link_free_at = start + self.transmission_ns;
            at = self.link_free_at + self.one_way_ns;
        }
        if (self.drop_segment)(&segment) {
            self.lost += 1;
            return;
        }
        let order = self.segments.len();
        self.segments.push(segment);
        self.arrivals.push(std::cmp::Reverse((at, order as u64, order)));
    }

    fn exchange_segments(&mut self) {
        let now = Time::from_nanos(self.now);
        while let Some(segment) = self.sender.poll_transmit(now, LocalQueue::default()) {
            let window = self.sender.window();
            assert!(window.cwnd >= 1);
            self.send(segment);
        }
        while let Some(ack) = self.receiver.poll_transmit(now) {
            self.send(ack);
        }
        (self.check)(self.now, &self.sender);
    }

    /// Runs until everything is acknowledged or until `until_ms`. Returns whether the transfer
    /// finished.
    fn run(&mut self, until_ms: u64) -> bool {
        self.sender.open();
        self.exchange_segments();
        while !self.sender.is_finished() {
            let arrival = self.arrivals.peek().map(|entry| entry.0.0);
            let timer = self.sender.next_timer().into_iter().chain(self.receiver.next_timer()).min();
            let next =
                arrival.into_iter().chain(timer.map(Time::as_nanos)).min().expect("a segment or a timer");
            if next > until_ms * MS {
                return false;
            }
            self.now = self.now.max(next);
            let now = Time::from_nanos(self.now);
            if arrival == Some(next) {
                let (_, _, index) = self.arrivals.pop().expect("an arrival").0;
                let segment = self.segments[index];
                match segment.kind {
                    Kind::Data | Kind::Syn => self.receiver.on_segment(now, &segment),
                    Kind::Ack | Kind::SynAck => self.sender.on_segment(now, &segment),
                }
            } else {
                self.sender.on_timer(now);
                self.receiver.on_timer(now);
            }
            self.exchange_segments();
        }
        true
    }
}

/// Loses the given segments the given number of times: (number, count).
fn drops(mut times: Vec<(u32, u32)>) -> Box<dyn FnMut(&Segment) -> bool> {
    Box::new(move |segment| {
        if segment.kind != Kind::Data {
            return false;
        }
        times.iter_mut().find(|(number, left)| *number == segment.number && *left > 0).is_some_and(
            |(_, left)| {
                *left -= 1;
                true
            },
        )
    })
}

fn config(algorithm: Algorithm) -> SenderConfig {
    SenderConfig { algorithm, small_queue_shift: None, ..SenderConfig::default() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Every loss is repaired, the window never falls below one, and the data in flight stays
    /// within window and buffer.
    #[test]
    fn every_transfer_completes(
        seed in any::<u64>(),
        loss in 0.0_f64..0.2,
        ack_loss in 0.0_f64..0.2,
        bytes in 1_u64..600_000,
        rtt_ms in 1_u64..300,
        queue in 5_u64..200,
        cca in 0..Algorithm::ALL.len(),
        buffer in 3_000_u64..500_000,
    ) {
        let algorithm = Algorithm::ALL[cca];
        let mut path = TestPath::new(SenderConfig { window_bytes: buffer, ..config(algorithm) }, rtt_ms);
        path.queue = queue;
        let mut state = seed | 1;
        path.drop_segment = Box::new(move |segment| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let uniform = (state >> 11) as f64 / (1_u64 << 53) as f64;
            uniform < if segment.kind == Kind::Data { loss } else { ack_loss }
        });
        let max_packets = (buffer / 1448).max(1) as u32;
        path.check = Box::new(move |_, sender| {
            let window = sender.window();
            assert!(window.cwnd >= 1, "window {}", window.cwnd);
            assert!(sender.outstanding() <= max_packets + 1, "{} outstanding, at most {max_packets}", sender.outstanding());
        });
        path.sender.write(bytes);
        prop_assert!(path.run(3_600_000), "not finished: {:?} {:?}", path.sender.counts(), path.sender.window());
        prop_assert_eq!(path.receiver.received_bytes(), bytes);
        prop_assert_eq!(path.sender.acked_bytes(), bytes);
        prop_assert_eq!(path.sender.outstanding(), 0);
        prop_assert_eq!(path.sender.window().in_flight, 0);
    }

    /// Never sends more than the window: each transmission except a tail-loss probe has room.
    #[test]
    fn a_transmission_fits_into_cwnd(seed in any::<u64>(), loss in 0.0_f64..0.1) {
        let mut path = TestPath::new(config(Algorithm::Cubic), 40);
        let mut state = seed | 1;
        path.drop_segment = Box::new(move |segment| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            segment.kind == Kind::Data && ((state >> 33) as f64 / (1_u64 << 31) as f64) < loss
        });
        let peak = Rc::new(RefCell::new((0_u64, 0_u32)));
        let seen = Rc::clone(&peak);
        path.check = Box::new(move |_, sender| {
            let (window, probes) = (sender.window(), sender.counts().probes);
            let mut seen = seen.borrow_mut();
            // Segments in flight when the window shrank may exceed it; none may be added then.
            let before = seen.1.max(window.cwnd + u32::from(probes > seen.0));
            assert!(window.in_flight <= before, "{} in flight, {} before, window {}", window.in_flight, seen.1, window.cwnd);
            *seen = (probes, window.in_flight);
        });
        path.sender.write(2_000_000);
        prop_assert!(path.run(3_600_000));
        // Gaps and retransmissions are not reordering: the path preserves order and loses no ACK.
        prop_assert!(!path.sender.reordering_seen());
    }
}

#[test]
fn one_loss_reduces_the_window_once_by_three_tenths() {
    let mut path = TestPath::new(config(Algorithm::Cubic), 50);
    path.drop_segment = drops(vec![(1000, 1)]);
    let before = Rc::new(RefCell::new((0, None)));
    let seen = Rc::clone(&before);
    path.check = Box::new(move |_, sender| {
        let mut seen = seen.borrow_mut();
        if sender.window().state >= CaState::Recovery && seen.1.is_none() {
            seen.1 = Some((sender.window().prior_cwnd, sender.window().ssthresh));
        }
        seen.0 = sender.window().cwnd;
    });
    path.sender.write(1448 * 1500);
    assert!(path.run(60_000));
    let counts = *path.sender.counts();
    assert_eq!((counts.recoveries, counts.retransmissions, counts.timeouts), (1, 1, 0));
    let (prior, ssthresh) = before.borrow().1.expect("a recovery");
    assert_eq!(ssthresh, prior * 717 / 1024);
}

#[test]
fn losses_in_one_window_of_data_reduce_it_once() {
    let mut path = TestPath::new(config(Algorithm::Cubic), 50);
    path.drop_segment = drops((1000..1020).step_by(2).map(|number| (number, 1)).collect());
    path.sender.write(1448 * 1500);
    assert!(path.run(60_000));
    let counts = *path.sender.counts();
    assert_eq!((counts.recoveries, counts.retransmissions, counts.timeouts), (1, 10, 0));
}

#[test]
fn rack_detects_a_lost_retransmission_without_an_rto() {
    for times in 2..5 {
        let mut path = TestPath::new(config(Algorithm::Cubic), 50);
        path.drop_segment = drops(vec![(1000, times)]);
        path.sender.write(1448 * 2000);
        assert!(path.run(60_000));
        let counts = *path.sender.counts();
        assert_eq!(counts.timeouts, 0, "lost {times} times");
        assert_eq!(counts.lost_retransmissions, u64::from(times) - 1, "lost {times} times");
    }
}

#[test]
fn without_rack_a_lost_retransmission_needs_an_rto() {
    for (times, timeouts) in [(1, 0), (2, 1)] {
        let sender = SenderConfig { rack: false, ..config(Algorithm::Cubic) };
        let mut path = TestPath::new(sender, 50);
        path.drop_segment = drops(vec![(1000, times)]);
        path.sender.write(1448 * 2000);
        assert!(path.run(60_000));
        let counts = *path.sender.counts();
        assert_eq!((counts.timeouts, counts.recoveries), (timeouts, 1), "lost {times} times");
    }
}

/// An aggregate delivers all its ACKs at one instant. A segment sent in response to a later ACK
/// still counts as sent later: new data sent on the first ACKs must not make a retransmission sent
/// on the last ACK look overtaken.
#[test]
fn acks_at_one_instant_preserve_the_transmission_order() {
    let mut sender = Sender::new(0, config(Algorithm::Reno), 1);
    let at = |ms: u64| Time::from_nanos(ms * MS);
    let poll = |sender: &mut Sender, now: Time| {
        std::iter::from_fn(|| sender.poll_transmit(now, LocalQueue::default())).map(|s| s.number).collect()
    };
    let ack = |number: u32, sacked: &[(u32, u32)]| {
        let mut ack = Segment::new(0, Kind::Ack, number, Time::ZERO, Time::ZERO);
        for (block, (start, end)) in ack.sack.iter_mut().zip(sacked) {
            *block = Block { start: *start, end: *end };
            ack.blocks += 1;
        }
        ack
    };
    sender.open();
    sender.write_endlessly(true);
    let _: Vec<u32> = poll(&mut sender, at(0));
    sender.on_segment(at(50), &Segment::new(0, Kind::SynAck, 0, at(25), at(0)));
    let first: Vec<u32> = poll(&mut sender, at(50));
    assert_eq!(first, (0..10).collect::<Vec<u32>>());
    // At 100 ms, in sequence: 0 to 3 arrived, 4 did not, 5 to 9 did.
    sender.on_segment(at(100), &ack(4, &[]));
    let new: Vec<u32> = poll(&mut sender, at(100));
    assert_eq!(new, (10..18).collect::<Vec<u32>>());
    sender.on_segment(at(100), &ack(4, &[(5, 10)]));
    let again: Vec<u32> = poll(&mut sender, at(100));
    assert_eq!(again.first(), Some(&4));
    // The new data arrives before the retransmission, in transmission order.
    sender.on_segment(at(150), &ack(4, &[(5, 18)]));
    assert_eq!(sender.counts().lost_retransmissions, 0);
    assert_eq!(sender.counts().lost, 1);
}

#[test]
fn a_tail_loss_probe_repairs_a_lost_tail() {
    let mut path = TestPath::new(config(Algorithm::Cubic), 50);
    path.drop_segment = drops(vec![(99, 1)]);
    path.sender.write(1448 * 100);
    assert!(path.run(60_000));
    let counts = *path.sender.counts();
    assert_eq!((counts.timeouts, counts.probes, counts.retransmissions), (0, 1, 1));
    // The probe's ACK reveals the loss only with the next data; several losses at the tail are
    // found by SACK.
    let mut path = TestPath::new(config(Algorithm::Cubic), 50);
    path.drop_segment = drops(vec![(96, 1), (97, 1), (98, 1), (99, 1)]);
    path.sender.write(1448 * 100);
    assert!(path.run(60_000));
    let counts = *path.sender.counts();
    assert_eq!((counts.timeouts, counts.probes, counts.recoveries), (0, 1, 1));
}

#[test]
fn a_lost_window_needs_an_rto() {
    let mut path = TestPath::new(config(Algorithm::Cubic), 50);
    path.drop_segment = drops((0..10).map(|number| (number, 2)).collect());
    path.sender.write(1448 * 10);
    assert!(path.run(60_000));
    assert!(path.sender.counts().timeouts >= 1);
}

#[test]
fn hystart_exits_slow_start_before_the_queue_overflows() {
    // The path holds 83 segments. HyStart++ detects the queue one round later and then only slows
    // growth for five rounds, during which the window triples (RFC 9406): it needs a deeper queue.
    for (exit, queue) in
        [(SlowStartExit::Hystart, 100), (SlowStartExit::HystartPlusPlus, 1200), (SlowStartExit::Loss, 100)]
    {
        let mut path = TestPath::new(SenderConfig { slow_start_exit: exit, ..config(Algorithm::Cubic) }, 50);
        path.queue = queue;
        let exit_state = Rc::new(RefCell::new(None));
        let seen = Rc::clone(&exit_state);
        path.check = Box::new(move |_, sender| {
            let window = sender.window();
            if seen.borrow().is_none() && !window.in_slow_start() {
                *seen.borrow_mut() = Some((window.cwnd, sender.counts().lost));
            }
        });
        path.sender.write(1448 * 8000);
        assert!(path.run(60_000));
        let (cwnd, lost) = exit_state.borrow().expect("slow start ends");
        match exit {
            SlowStartExit::Loss => assert!(lost > 0, "exited at {cwnd}"),
            _ => assert!(
                lost == 0 && u64::from(cwnd) < 83 + queue,
                "{exit:?} exited at {cwnd} after {lost} losses"
            ),
        }
    }
}

#[test]
fn an_upper_bound_shrinks_the_window_without_a_loss() {
    let mut path = TestPath::new(config(Algorithm::Cubic), 50);
    path.sender.write(1448 * 400);
    assert!(path.run(60_000));
    let unbounded_cwnd = path.sender.window().cwnd;
    assert!(unbounded_cwnd > 60, "{unbounded_cwnd}");
    path.sender.set_bounds(Bounds { upper: Some(30), ..Bounds::default() });
    let falls = Rc::new(RefCell::new((unbounded_cwnd, 0)));
    let seen = Rc::clone(&falls);
    path.check = Box::new(move |_, sender| {
        let mut seen = seen.borrow_mut();
        let cwnd = sender.window().cwnd;
        seen.1 = seen.1.max(seen.0.saturating_sub(cwnd));
        seen.0 = cwnd;
    });
    path.sender.write(1448 * 1000);
    assert!(path.run(60_000));
    assert_eq!((path.sender.window().cwnd, path.sender.is_at_upper_bound()), (30, Some(true)));
    path.sender.set_bounds(Bounds { upper: Some(31), ..Bounds::default() });
    assert_eq!(path.sender.is_at_upper_bound(), Some(false));
    // The fall never exceeds the segments that one ACK acknowledges.
    assert!(falls.borrow().1 <= 16, "fell by {}", falls.borrow().1);
    assert_eq!(path.sender.counts().retransmissions, 0);
}

#[test]
fn unsent_data_is_reported() {
    let mut path = TestPath::new(config(Algorithm::Cubic), 50);
    // A write whose last segment is short.
    path.sender.write(1448 * 400 + 100);
    assert_eq!((path.sender.unsent_bytes(), path.sender.is_at_upper_bound()), (Some(1448 * 400 + 100), None));
    let numbers = Rc::new(RefCell::new(0));
    let seen = Rc::clone(&numbers);
    path.check = Box::new(move |_, sender| {
        let sent = sender.acked_bytes() + u64::from(sender.outstanding()) * 1448;
        let unsent = sender.unsent_bytes().expect("the writer ends");
        // The short segment counts as a whole one while it is outstanding.
        assert!((1448 * 400 + 100..=1448 * 401).contains(&(sent + unsent)), "{sent} + {unsent}");
        *seen.borrow_mut() += usize::from(unsent > 0 && sent > 0);
    });
    assert!(path.run(60_000));
    assert_eq!(path.sender.unsent_bytes(), Some(0));
    assert!(*numbers.borrow() > 20, "{numbers:?}");

    // An endless writer fills its window; what a full one holds back is unknown.
    for (window_bytes, unsent) in [(1448 * 30, Some(1448 * 20)), (1448 * 10, None)] {
        let mut path = TestPath::new(SenderConfig { window_bytes, ..config(Algorithm::Cubic) }, 50);
        path.sender.write_endlessly(true);
        let first = Rc::new(RefCell::new(None));
        let seen = Rc::clone(&first);
        path.check = Box::new(move |_, sender| {
            if sender.outstanding() == 10 && sender.acked_bytes() == 0 {
                seen.borrow_mut().get_or_insert(sender.unsent_bytes());
            }
        });
        path.run(2_000);
        assert_eq!(*first.borrow(), Some(unsent));
    }
}

#[test]
fn the_window_grows_to_a_lower_bound() {
    let mut path = TestPath::new(config(Algorithm::Cubic), 50);
    path.drop_segment = drops(vec![(400, 1)]);
    path.sender.set_bounds(Bounds { lower: Some(120), ..Bounds::default() });
    let jumps = Rc::new(RefCell::new((10_u32, 0_u32, HashSet::new())));
    let seen = Rc::clone(&jumps);
    path.check = Box::new(move |_, sender| {
        let mut seen = seen.borrow_mut();
        let window = sender.window();
        if window.state == CaState::Open {
            seen.1 = seen.1.max(window.cwnd.saturating_sub(seen.0));
        }
        if window.state == CaState::Recovery {
            seen.2.insert(window.ssthresh);
        }
        seen.0 = window.cwnd;
    });
    path.sender.write(1448 * 1200);
    assert!(path.run(60_000));
    assert!(path.sender.window().cwnd >= 120);
    assert!(jumps.borrow().1 <= 16, "grew by {} at once", jumps.borrow().1);
    // The loss is still processed: the bound does not prevent the reduction.
    assert!(jumps.borrow().2.iter().all(|ssthresh| *ssthresh < 120), "{:?}", jumps.borrow().2);
}

#[test]
fn paced_segments_are_spread_over_time() {
    let mut path = TestPath::new(SenderConfig { paced_by_fq: true, ..config(Algorithm::Cubic) }, 100);
    path.transmission_ns = 100_000;
    let sent = Rc::new(RefCell::new(Vec::new()));
    let seen = Rc::clone(&sent);
    path.drop_segment = Box::new(move |segment| {
        if segment.kind == Kind::Data {
            seen.borrow_mut().push(segment.sent_at.as_nanos());
        }
        false
    });
    path.sender.write(1448 * 500);
    assert!(path.run(60_000));
    let sent = sent.borrow();
    let back_to_back = sent.windows(2).skip(20).filter(|pair| pair[0] == pair[1]).count();
    assert!(back_to_back * 10 < sent.len(), "{back_to_back} of {} segments sent back to back", sent.len());
}

#[test]
fn a_full_local_queue_reduces_cwnd_once_and_drops_nothing() {
    let mut sender = Sender::new(0, config(Algorithm::Cubic), 1);
    let mut receiver = Receiver::new(0, ReceiverConfig::default());
    sender.open();
    sender.write(1448 * 40);
    let mut now = Time::ZERO;
    let mut local = LocalQueue::default();
    let mut refused = 0;
    for round in 0..60 {
        // The round trip is 20 ms; in the fourth round the queue accepts two segments and then no
        // more.
        let mut out = Vec::new();
        local.full = false;
        while let Some(segment) = sender.poll_transmit(now, local) {
            out.push(segment);
            local.full = round == 3 && out.len() == 2;
        }
        refused += usize::from(local.full);
        now += std::time::Duration::from_millis(20);
        sender.on_timer(now);
        receiver.on_timer(now);
        for segment in out {
            receiver.on_segment(now, &segment);
            if let Some(ack) = receiver.poll_transmit(now) {
                sender.on_segment(now, &ack);
            }
        }
        if let Some(ack) = receiver.poll_transmit(now) {
            sender.on_segment(now, &ack);
        }
    }
    assert_eq!(refused, 1);
    assert!(sender.is_finished());
    let counts = sender.counts();
    assert_eq!((counts.local_congestion, counts.retransmissions, counts.timeouts), (1, 0, 0));
}
