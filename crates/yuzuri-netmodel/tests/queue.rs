//! Tests of the queues in isolation.

use yuzuri_netmodel::queue::{CodelConfig, FqCodelConfig, Queue, QueueConfig, QueueDrops};
use yuzuri_netmodel::{Packet, Time};

#[derive(Clone, Debug)]
struct Frame {
    flow: u64,
    bytes: u32,
    capable: bool,
    marked: bool,
}

impl Packet for Frame {
    fn bytes(&self) -> u32 {
        self.bytes
    }
    fn flow(&self) -> u64 {
        self.flow
    }
    fn ecn_capable(&self) -> bool {
        self.capable
    }
    fn mark_ce(&mut self) {
        self.marked = true;
    }
}

fn frame(flow: u64, bytes: u32) -> Frame {
    Frame { flow, bytes, capable: false, marked: false }
}

fn millis(ms: u64) -> Time {
    Time::from_nanos(ms * 1_000_000)
}

fn queue(config: QueueConfig) -> Queue<Frame> {
    Queue::new(&config).expect("a valid queue")
}

/// Keeps 100 packets queued that arrived 50 ms earlier and takes one per ms. Returns the times of
/// drops or marks.
fn codel_acts(capable: bool) -> (Vec<u64>, QueueDrops) {
    let mut queue = queue(QueueConfig::Codel(CodelConfig::default()));
    let mut drops = QueueDrops::default();
    let mut acts = Vec::new();
    let arrive = |queue: &mut Queue<Frame>, at: u64, drops: &mut QueueDrops| {
        queue.push(millis(at), Frame { capable, ..frame(1, 1500) }, drops);
    };
    for at in 0..50 {
        arrive(&mut queue, at, &mut drops);
    }
    for at in 50..700 {
        arrive(&mut queue, at, &mut drops);
        let before = drops.aqm + drops.marked;
        let taken = queue.pop(millis(at), &mut drops).expect("a packet");
        if drops.aqm + drops.marked > before {
            acts.push(at);
        }
        // Dropped packets are replaced, so that the delay persists.
        for _ in before..drops.aqm {
            arrive(&mut queue, at, &mut drops);
        }
        assert_eq!(taken.marked, capable && drops.marked > before);
    }
    (acts, drops)
}

#[test]
fn codel_follows_its_control_law() {
    // RFC 8289: the first action follows an interval after the delay exceeded target (first seen at
    // 50 ms), each further one interval / sqrt(count) later: 150, + 100, + 100 / sqrt(2), + 100 /
    // sqrt(3) ...
    let mut expected = vec![150.0];
    for count in 1..12 {
        expected.push(expected[count - 1] + 100.0 / (count as f64).sqrt());
    }
    let (acts, drops) = codel_acts(false);
    assert_eq!(drops.overflow, 0);
    for (act, expected) in acts.iter().zip(&expected) {
        assert!((*act as f64 - expected).abs() <= 1.0, "{acts:?} instead of {expected:?}");
    }
    assert!(acts.len() >= 10, "{acts:?}");
    // ECN-capable packets are marked at the same times and none is lost.
    let (marks, drops) = codel_acts(true);
    assert_eq!((drops.aqm, &marks[..5]), (0, &acts[..5]));
}

#[test]
fn codel_drops_nothing_from_short_queues() {
    let mut queue = queue(QueueConfig::Codel(CodelConfig::default()));
    let mut drops = QueueDrops::default();
    // One packet at a time, with a long sojourn time.
    for at in 0..50 {
        queue.push(millis(at * 100), frame(1, 1500), &mut drops);
        assert!(queue.pop(millis(at * 100 + 90), &mut drops).is_some());
    }
    assert_eq!(drops, QueueDrops::default());
}

#[test]
fn fq_codel_serves_flows_in_turn_by_bytes_and_new_ones_first() {
    let mut queue = queue(QueueConfig::FqCodel(FqCodelConfig::default()));
    let mut drops = QueueDrops::default();
    for _ in 0..300 {
        queue.push(Time::ZERO, frame(1, 1514), &mut drops);
    }
    for _ in 0..3000 {
        queue.push(Time::ZERO, frame(2, 151), &mut drops);
    }
    let mut bytes = [0_u64; 3];
    for _ in 0..550 {
        let taken = queue.pop(Time::ZERO, &mut drops).expect("a packet");
        bytes[taken.flow as usize] += u64::from(taken.bytes);
    }
    let ratio = bytes[1] as f64 / bytes[2] as f64;
    assert!((0.95..1.05).contains(&ratio), "{bytes:?}");
    // A new flow does not wait for the backlog of the others.
    queue.push(Time::ZERO, frame(3, 100), &mut drops);
    assert_eq!(queue.pop(Time::ZERO, &mut drops).map(|one| one.flow), Some(3));
    assert_eq!(drops, QueueDrops::default());
}

#[test]
fn a_full_fq_codel_takes_from_the_fattest_flow() {
    let mut queue = queue(QueueConfig::FqCodel(FqCodelConfig { packets: 200, ..FqCodelConfig::default() }));
    let mut drops = QueueDrops::default();
    for _ in 0..10 {
        queue.push(Time::ZERO, frame(7, 100), &mut drops);
    }
    for _ in 0..191 {
        queue.push(Time::ZERO, frame(8, 1514), &mut drops);
    }
    // Half of the flow's packets, but at most 64 (RFC 8290, section 4.1).
    assert_eq!((drops.overflow, queue.packets()), (64, 201 - 64));
    let mut counts = [0; 9];
    while let Some(taken) = queue.pop(Time::ZERO, &mut drops) {
        counts[taken.flow as usize] += 1;
    }
    assert_eq!((counts[7], counts[8]), (10, 127));
    assert_eq!((queue.packets(), queue.bytes()), (0, 0));
}
