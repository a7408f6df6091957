//! Consecutive reductions, and the sender's own clock.
#![allow(missing_docs)]

mod made_up;

use made_up::{ACK, SYN, segment};
use yuzuri_capture::{End, FlowSlot};
use yuzuri_infer::packets::Tracker;
use yuzuri_infer::window_trace::{CapturePoint, WindowTrace};

const MS: i64 = 1_000_000;
const NEAR: End = End::Lower;
const FAR: End = End::Higher;

/// A flow whose handshake takes 100 ms, observed at its sender or at its receiver.
struct Flow {
    tracker: Tracker,
    /// Both ends' timestamps at a time, ms.
    stamped: bool,
}

impl Flow {
    fn shaken(watched: CapturePoint, stamped: bool) -> Flow {
        Flow::agreed(watched, stamped, true)
    }

    /// A flow whose ends agreed to selective acknowledgements, or did not.
    fn agreed(watched: CapturePoint, stamped: bool, sack: bool) -> Flow {
        let mut flow = Flow { tracker: Tracker::new(), stamped };
        let answered = if watched == CapturePoint::Sender { 100 } else { 0 };
        for mut syn in [segment(0, NEAR, SYN, 99, 0, 0), segment(answered * MS, FAR, SYN | ACK, 499, 100, 0)]
        {
            syn.options.sack_permitted = sack;
            flow.tracker.segment(&syn);
        }
        flow.tracker.segment(&segment(100 * MS, NEAR, ACK, 100, 500, 0));
        flow
    }

    /// Sends a segment, numbered from 0. `stamps`: the sender's and the peer's clock.
    fn send(&mut self, at_us: i64, number: u32, stamps: (u32, u32)) {
        let mut data = segment(at_us * 1000, NEAR, ACK, 100 + 1000 * number, 500, 1000);
        data.options.timestamps = self.stamped.then_some(stamps);
        self.tracker.segment(&data);
    }

    /// Acknowledges everything below `number`, and the blocks.
    fn acknowledge(&mut self, at_us: i64, number: u32, blocks: &[(u32, u32)], stamps: (u32, u32)) {
        let mut answer = segment(at_us * 1000, FAR, ACK, 500, 100 + 1000 * number, 0);
        answer.options.timestamps = self.stamped.then_some(stamps);
        for (left, right) in blocks {
            answer.options.sack.push(100 + 1000 * left, 100 + 1000 * right);
        }
        self.tracker.segment(&answer);
    }

    fn window_trace(mut self) -> WindowTrace {
        let ended = self.tracker.end(FlowSlot(0)).expect("the flow");
        ended.window_traces[0].clone().expect("a window trace")
    }
}

/// 20 segments of which the 5th and the 10th are lost; of the next five, which are sent during
/// recovery, the first is lost. The acknowledgement of all 20 shows that: its sender reduces its
/// window from one that was never in flight.
#[test]
fn a_reduction_upon_a_reduction_has_no_window_before() {
    let mut flow = Flow::shaken(CapturePoint::Sender, false);
    let none = (0, 0);
    for number in 0..20 {
        flow.send(200_000 + i64::from(number) * 10, number, none);
    }
    flow.acknowledge(300_000, 5, &[], none);
    for last in 7..10 {
        flow.acknowledge(300_100, 5, &[(6, last)], none);
    }
    flow.send(300_200, 5, none);
    for last in 12..=20 {
        flow.acknowledge(300_300 + i64::from(last) * 100, 5, &[(11, last), (6, 10)], none);
    }
    for number in 20..25 {
        flow.send(303_000, number, none);
    }
    flow.send(310_000, 10, none);
    flow.acknowledge(400_200, 10, &[(11, 20)], none);
    for last in 22..=25 {
        flow.acknowledge(403_000 + i64::from(last), 10, &[(21, last), (11, 20)], none);
    }
    flow.acknowledge(410_000, 20, &[(21, 25)], none);
    flow.send(410_100, 20, none);
    for number in 25..30 {
        flow.send(410_200, number, none);
    }
    flow.acknowledge(510_100, 25, &[], none);
    for number in 25..29 {
        flow.acknowledge(510_200 + i64::from(number), number + 1, &[], none);
        flow.send(510_250 + i64::from(number), number + 5, none);
    }
    let window_trace = flow.window_trace();
    let reduced: Vec<(f32, bool)> =
        window_trace.reductions.iter().map(|reduction| (reduction.before, reduction.after > 0.0)).collect();
    assert_eq!(reduced, [(20.0, false), (0.0, true)], "{:?}", window_trace.reductions);
}

/// At the receiver, where data arrives 40 to 49 ms after it was sent and its acknowledgement
/// returns in correspondingly less: the sender always measures 109 ms, while the time from data to
/// the data sent in response to its acknowledgement is 100 to 118.
#[test]
fn round_trip_times_away_from_the_sender_are_those_of_its_clock() {
    let mut flow = Flow::shaken(CapturePoint::Receiver, true);
    let came_ms = |round: u32, place: u32| 200 + 109 * round + 10 * place + 40 + (3 * round + place) % 10;
    for round in 0..30 {
        for place in 0..10 {
            let sent_ms = 200 + 109 * round + 10 * place;
            let echo = if round == 0 { 0 } else { came_ms(round - 1, place) };
            let (came, number) = (came_ms(round, place), 10 * round + place);
            flow.send(i64::from(came) * 1000, number, (sent_ms, echo));
            flow.acknowledge(i64::from(came) * 1000 + 10, number + 1, &[], (came, sent_ms));
        }
    }
    let window_trace = flow.window_trace();
    assert_eq!(window_trace.capture_point, CapturePoint::Receiver);
    assert_eq!(window_trace.handshake_rtt_us, Some(100_000));
    let rounds = &window_trace.rounds[3..window_trace.rounds.len() - 2];
    assert!(rounds.len() > 10, "{}", rounds.len());
    for round in rounds {
        assert_eq!((round.rtt_min_us, round.rtt_max_us), (109_000, 109_000), "{round:?}");
    }
}

/// Ten segments of which the first is lost: duplicates for the others, with selective
/// acknowledgements agreed or not, and seen or not. The data newly delivered by the
/// acknowledgements at 401 and at 501 ms, which end recovery.
fn repaired(duplicates: u32, agreed: bool, seen: bool) -> Vec<(i64, f32, f32)> {
    let mut flow = Flow::agreed(CapturePoint::Sender, false, agreed);
    let none = (0, 0);
    for number in 0..10 {
        flow.send(200_000 + i64::from(number) * 10, number, none);
    }
    for last in 11 - duplicates..=10 {
        let blocks = [(1, last)];
        flow.acknowledge(300_000 + i64::from(last) * 10, 0, if seen { &blocks } else { &[] }, none);
    }
    flow.send(301_000, 0, none);
    flow.acknowledge(401_000, 10, &[], none);
    flow.send(401_100, 10, none);
    flow.send(401_200, 11, none);
    flow.acknowledge(501_000, 12, &[], none);
    flow.send(501_100, 12, none);
    let window_trace = flow.window_trace();
    assert_eq!(window_trace.acked_bytes, 12_000);
    let over = |ns: i64| ns / MS;
    window_trace.reductions.iter().map(|r| (over(r.over_ns), r.completed, r.cleared)).collect()
}

/// The acknowledgement that fills the hole covers only the hole, and the next one the data sent
/// since.
#[test]
fn without_selective_acknowledgements_duplicates_count() {
    assert_eq!(repaired(9, true, true), [(401, 1.0, 10.0)]);
    // A sender without them waits for data above that.
    assert_eq!(repaired(9, false, false), [(501, 2.0, 2.0)]);
}

/// A receiver may answer several segments with one duplicate, whose blocks cover all of them. A
/// capture may lack the blocks.
#[test]
fn missing_sack_blocks_reported_all_but_the_hole() {
    for duplicates in [3, 9] {
        assert_eq!(repaired(duplicates, true, false), [(401, 1.0, 10.0)], "{duplicates}");
    }
}

/// Each acknowledgement removes the whole flight, and the window of ten is immediately filled
/// again: a momentary flight of one segment does not mean that the window fell.
#[test]
fn the_window_after_recovery_is_read_at_one_ack_of_everything() {
    let mut flow = Flow::shaken(CapturePoint::Sender, false);
    let none = (0, 0);
    let burst = |flow: &mut Flow, at_us: i64, from: u32, to: u32| {
        for number in from..to {
            flow.send(at_us + i64::from(number - from) * 10, number, none);
        }
    };
    burst(&mut flow, 200_000, 0, 20);
    for last in 11..=20 {
        flow.acknowledge(300_000 + i64::from(last), 0, &[(1, last)], none);
    }
    flow.send(300_100, 0, none);
    flow.acknowledge(400_100, 20, &[], none);
    let mut next = 20;
    for round in 0..6 {
        // A segment more in each round.
        burst(&mut flow, 400_200 + 100_000 * round, next, next + 10 + round as u32);
        next += 10 + round as u32;
        flow.acknowledge(500_100 + 100_000 * round, next, &[], none);
    }
    let window_trace = flow.window_trace();
    let read: Vec<f32> = window_trace.reductions.iter().map(|reduction| reduction.after).collect();
    let next: Vec<f32> = window_trace.reductions.iter().map(|reduction| reduction.next).collect();
    assert_eq!((read, next), (vec![10.0], vec![10.0]), "{:?}", window_trace.reductions);
}
