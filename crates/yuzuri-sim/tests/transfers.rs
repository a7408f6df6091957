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
struct Bench {
    sender: Sender,
    receiver: Receiver,
    now: u64,
    /// Arrivals: time, order, segment.
    on_the_way: BinaryHeap<std::cmp::Reverse<(u64, u64, usize)>>,
    segments: Vec<Segment>,
    one_way: u64,
    /// Transmission time of a data segment at the bottleneck, ns.
    per_segment: u64,
    queue: u64,
    free_at: u64,
    lose: Box<dyn FnMut(&Segment) -> bool>,
    lost: u64,
    overflowed: u64,
    check: Check,
}

impl Bench {
    fn new(config: SenderConfig, rtt_ms: u64) -> Bench {
        Bench {
            sender: Sender::new(0, config, 1),
            receiver: Receiver::new(0, ReceiverConfig::default()),
            now: 0,
            on_the_way: BinaryHeap::new(),
            segments: Vec::new(),
            one_way: rtt_ms * MS / 2,
            per_segment: 600_000,
            queue: 1000,
            free_at: 0,
            lose: Box::new(|_| false),
            lost: 0,
            overflowed: 0,
            check: Box::new(|_, _| {}),
        }
    }

    fn send(&mut self, segment: Segment) {
        let mut at = self.now + self.one_way;
        if segment.kind == Kind::Data {
            let start = self.free_at.max(self.now);
            if (start - self.now) / self.per_segment > self.queue {
                self.overflowed += 1;
                return;
            }
            self.free_at = start + self.per_segment;
            at = self.free_at + self.one_way;
        }
        if (self.lose)(&segment) {
            self.lost += 1;
            return;
        }
        let order = self.segments.len();
        self.segments.push(segment);
        self.on_the_way.push(std::cmp::Reverse((at, order as u64, order)));
    }

    fn pump(&mut self) {
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
        self.pump();
        while !self.sender.is_finished() {
            let arrival = self.on_the_way.peek().map(|entry| entry.0.0);
            let timer = self.sender.next_timer().into_iter().chain(self.receiver.next_timer()).min();
            let next =
                arrival.into_iter().chain(timer.map(Time::as_nanos)).min().expect("a segment or a timer");
            if next > until_ms * MS {
                return false;
            }
            self.now = self.now.max(next);
            let now = Time::from_nanos(self.now);
            if arrival == Some(next) {
                let (_, _, index) = self.on_the_way.pop().expect("an arrival").0;
                let segment = self.segments[index];
                match segment.kind {
                    Kind::Data | Kind::Syn => self.receiver.on_segment(now, &segment),
                    Kind::Ack | Kind::SynAck => self.sender.on_segment(now, &segment),
                }
            } else {
                self.sender.on_timer(now);
                self.receiver.on_timer(now);
            }
            self.pump();
        }
        true
    }
}

/// Loses the given segments the given number of times: (number, count).
fn losing(mut times: Vec<(u32, u32)>) -> Box<dyn FnMut(&Segment) -> bool> {
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
    fn every_transfer_ends(
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
        let mut bench = Bench::new(SenderConfig { window_bytes: buffer, ..config(algorithm) }, rtt_ms);
        bench.queue = queue;
        let mut state = seed | 1;
        bench.lose = Box::new(move |segment| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let drawn = (state >> 11) as f64 / (1_u64 << 53) as f64;
            drawn < if segment.kind == Kind::Data { loss } else { ack_loss }
        });
        let most = (buffer / 1448).max(1) as u32;
        bench.check = Box::new(move |_, sender| {
            let window = sender.window();
            assert!(window.cwnd >= 1, "window {}", window.cwnd);
            assert!(sender.outstanding() <= most + 1, "{} outstanding of {most}", sender.outstanding());
        });
        bench.sender.write(bytes);
        prop_assert!(bench.run(3_600_000), "not finished: {:?} {:?}", bench.sender.counts(), bench.sender.window());
        prop_assert_eq!(bench.receiver.received_bytes(), bytes);
        prop_assert_eq!(bench.sender.acked_bytes(), bytes);
        prop_assert_eq!(bench.sender.outstanding(), 0);
        prop_assert_eq!(bench.sender.window().in_flight, 0);
    }

    /// Never sends more than the window: each transmission except a tail-loss probe has room.
    #[test]
    fn a_transmission_finds_room(seed in any::<u64>(), loss in 0.0_f64..0.1) {
        let mut bench = Bench::new(config(Algorithm::Cubic), 40);
        let mut state = seed | 1;
        bench.lose = Box::new(move |segment| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            segment.kind == Kind::Data && ((state >> 33) as f64 / (1_u64 << 31) as f64) < loss
        });
        let peak = Rc::new(RefCell::new((0_u64, 0_u32)));
        let seen = Rc::clone(&peak);
        bench.check = Box::new(move |_, sender| {
            let (window, probes) = (sender.window(), sender.counts().probes);
            let mut seen = seen.borrow_mut();
            // Segments in flight when the window shrank may exceed it; none may be added then.
            let before = seen.1.max(window.cwnd + u32::from(probes > seen.0));
            assert!(window.in_flight <= before, "{} in flight, {} before, window {}", window.in_flight, seen.1, window.cwnd);
            *seen = (probes, window.in_flight);
        });
        bench.sender.write(2_000_000);
        prop_assert!(bench.run(3_600_000));
        // Gaps and retransmissions are not reordering: the path preserves order and loses no ACK.
        prop_assert!(!bench.sender.reordering_seen());
    }
}

#[test]
fn one_loss_is_one_reduction_by_three_tenths() {
    let mut bench = Bench::new(config(Algorithm::Cubic), 50);
    bench.lose = losing(vec![(1000, 1)]);
    let before = Rc::new(RefCell::new((0, None)));
    let seen = Rc::clone(&before);
    bench.check = Box::new(move |_, sender| {
        let mut seen = seen.borrow_mut();
        if sender.window().state >= CaState::Recovery && seen.1.is_none() {
            seen.1 = Some((sender.window().prior_cwnd, sender.window().ssthresh));
        }
        seen.0 = sender.window().cwnd;
    });
    bench.sender.write(1448 * 1500);
    assert!(bench.run(60_000));
    let counts = *bench.sender.counts();
    assert_eq!((counts.recoveries, counts.retransmissions, counts.timeouts), (1, 1, 0));
    let (prior, ssthresh) = before.borrow().1.expect("a recovery");
    assert_eq!(ssthresh, prior * 717 / 1024);
}

#[test]
fn losses_of_one_window_are_one_reduction() {
    let mut bench = Bench::new(config(Algorithm::Cubic), 50);
    bench.lose = losing((1000..1020).step_by(2).map(|number| (number, 1)).collect());
    bench.sender.write(1448 * 1500);
    assert!(bench.run(60_000));
    let counts = *bench.sender.counts();
    assert_eq!((counts.recoveries, counts.retransmissions, counts.timeouts), (1, 10, 0));
}

#[test]
fn rack_finds_a_lost_retransmission_without_a_timeout() {
    for times in 2..5 {
        let mut bench = Bench::new(config(Algorithm::Cubic), 50);
        bench.lose = losing(vec![(1000, times)]);
        bench.sender.write(1448 * 2000);
        assert!(bench.run(60_000));
        let counts = *bench.sender.counts();
        assert_eq!(counts.timeouts, 0, "lost {times} times");
        assert_eq!(counts.lost_retransmissions, u64::from(times) - 1, "lost {times} times");
    }
}

#[test]
fn without_rack_a_lost_retransmission_needs_a_timeout() {
    for (times, timeouts) in [(1, 0), (2, 1)] {
        let sender = SenderConfig { rack: false, ..config(Algorithm::Cubic) };
        let mut bench = Bench::new(sender, 50);
        bench.lose = losing(vec![(1000, times)]);
        bench.sender.write(1448 * 2000);
        assert!(bench.run(60_000));
        let counts = *bench.sender.counts();
        assert_eq!((counts.timeouts, counts.recoveries), (timeouts, 1), "lost {times} times");
    }
}

/// An aggregate delivers all its ACKs at one instant. A segment sent in response to a later ACK
/// still counts as sent later: new data sent on the first ACKs must not make a retransmission sent
/// on the last ACK look overtaken.
#[test]
fn acknowledgements_of_one_instant_keep_the_order_of_sending() {
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
fn a_probe_repairs_a_lost_tail() {
    let mut bench = Bench::new(config(Algorithm::Cubic), 50);
    bench.lose = losing(vec![(99, 1)]);
    bench.sender.write(1448 * 100);
    assert!(bench.run(60_000));
    let counts = *bench.sender.counts();
    assert_eq!((counts.timeouts, counts.probes, counts.retransmissions), (0, 1, 1));
    // The probe's ACK reveals the loss only with the next data; several losses at the tail are
    // found by SACK.
    let mut bench = Bench::new(config(Algorithm::Cubic), 50);
    bench.lose = losing(vec![(96, 1), (97, 1), (98, 1), (99, 1)]);
    bench.sender.write(1448 * 100);
    assert!(bench.run(60_000));
    let counts = *bench.sender.counts();
    assert_eq!((counts.timeouts, counts.probes, counts.recoveries), (0, 1, 1));
}

#[test]
fn everything_lost_needs_a_timeout() {
    let mut bench = Bench::new(config(Algorithm::Cubic), 50);
    bench.lose = losing((0..10).map(|number| (number, 2)).collect());
    bench.sender.write(1448 * 10);
    assert!(bench.run(60_000));
    assert!(bench.sender.counts().timeouts >= 1);
}

#[test]
fn hystart_leaves_slow_start_before_the_queue_overflows() {
    // The path holds 83 segments. HyStart++ detects the queue one round later and then only slows
    // growth for five rounds, during which the window triples (RFC 9406): it needs a deeper queue.
    for (exit, queue) in
        [(SlowStartExit::Hystart, 100), (SlowStartExit::HystartPlusPlus, 1200), (SlowStartExit::Loss, 100)]
    {
        let mut bench = Bench::new(SenderConfig { slow_start_exit: exit, ..config(Algorithm::Cubic) }, 50);
        bench.queue = queue;
        let left = Rc::new(RefCell::new(None));
        let seen = Rc::clone(&left);
        bench.check = Box::new(move |_, sender| {
            let window = sender.window();
            if seen.borrow().is_none() && !window.in_slow_start() {
                *seen.borrow_mut() = Some((window.cwnd, sender.counts().lost));
            }
        });
        bench.sender.write(1448 * 8000);
        assert!(bench.run(60_000));
        let (cwnd, lost) = left.borrow().expect("slow start ends");
        match exit {
            SlowStartExit::Loss => assert!(lost > 0, "left at {cwnd}"),
            _ => assert!(
                lost == 0 && u64::from(cwnd) < 83 + queue,
                "{exit:?} left at {cwnd} after {lost} losses"
            ),
        }
    }
}

#[test]
fn an_upper_bound_holds_and_shrinks_without_a_loss() {
    let mut bench = Bench::new(config(Algorithm::Cubic), 50);
    bench.sender.write(1448 * 400);
    assert!(bench.run(60_000));
    let wide = bench.sender.window().cwnd;
    assert!(wide > 60, "{wide}");
    bench.sender.set_bounds(Bounds { upper: Some(30), ..Bounds::default() });
    let falls = Rc::new(RefCell::new((wide, 0)));
    let seen = Rc::clone(&falls);
    bench.check = Box::new(move |_, sender| {
        let mut seen = seen.borrow_mut();
        let cwnd = sender.window().cwnd;
        seen.1 = seen.1.max(seen.0.saturating_sub(cwnd));
        seen.0 = cwnd;
    });
    bench.sender.write(1448 * 1000);
    assert!(bench.run(60_000));
    assert_eq!(bench.sender.window().cwnd, 30);
    // The fall never exceeds the segments that one ACK acknowledges.
    assert!(falls.borrow().1 <= 16, "fell by {}", falls.borrow().1);
    assert_eq!(bench.sender.counts().retransmissions, 0);
}

#[test]
fn a_lower_bound_is_reached_by_growth() {
    let mut bench = Bench::new(config(Algorithm::Cubic), 50);
    bench.lose = losing(vec![(400, 1)]);
    bench.sender.set_bounds(Bounds { lower: Some(120), ..Bounds::default() });
    let jumps = Rc::new(RefCell::new((10_u32, 0_u32, HashSet::new())));
    let seen = Rc::clone(&jumps);
    bench.check = Box::new(move |_, sender| {
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
    bench.sender.write(1448 * 1200);
    assert!(bench.run(60_000));
    assert!(bench.sender.window().cwnd >= 120);
    assert!(jumps.borrow().1 <= 16, "grew by {} at once", jumps.borrow().1);
    // The loss is still processed: the bound does not prevent the reduction.
    assert!(jumps.borrow().2.iter().all(|ssthresh| *ssthresh < 120), "{:?}", jumps.borrow().2);
}

#[test]
fn paced_segments_are_spread() {
    let mut bench = Bench::new(SenderConfig { paced_by_fq: true, ..config(Algorithm::Cubic) }, 100);
    bench.per_segment = 100_000;
    let sent = Rc::new(RefCell::new(Vec::new()));
    let seen = Rc::clone(&sent);
    bench.lose = Box::new(move |segment| {
        if segment.kind == Kind::Data {
            seen.borrow_mut().push(segment.sent_at.as_nanos());
        }
        false
    });
    bench.sender.write(1448 * 500);
    assert!(bench.run(60_000));
    let sent = sent.borrow();
    let together = sent.windows(2).skip(20).filter(|pair| pair[0] == pair[1]).count();
    assert!(together * 10 < sent.len(), "{together} of {} left together with another", sent.len());
}

#[test]
fn a_full_local_queue_reduces_once_and_loses_nothing() {
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
