//! The results away from the sender and without timestamps, where windows are visible only at
//! losses.
#![allow(missing_docs)]

mod made_up;

use made_up::{ACK, SYN, segment};
use yuzuri_capture::{End, FlowSlot};
use yuzuri_infer::identify;
use yuzuri_infer::packets::Tracker;
use yuzuri_infer::verdict::{Answer, Verdict};

const MS: i64 = 1_000_000;
/// A segment passes each millisecond, and the minimum RTT holds this many.
const RTT: u32 = 100;
/// The path and its queue hold this many.
const FULL: u32 = 200;

/// A flow at the receiver of a path that is always busy: this many segments pass between losses.
fn at_receiver(epochs: &[u32]) -> Verdict {
    let (near, far) = (End::Lower, End::Higher);
    let mut tracker = Tracker::new();
    tracker.segment(&segment(0, far, SYN, 0, 0, 0));
    tracker.segment(&segment(1000, near, SYN | ACK, 0, 1, 0));
    let mut now = i64::from(RTT) * MS;
    tracker.segment(&segment(now, far, ACK, 1, 1, 0));
    // Of 1000 bytes each: the next one in order, and what has not been acknowledged before it.
    let (mut next, mut acked) = (0u32, 0u32);
    let mut pass = |number: u32, acked: u32| {
        tracker.segment(&segment(now, far, ACK, 1 + number * 1000, 1, 1000));
        tracker.segment(&segment(now + 1000, near, ACK, 1, 1 + acked * 1000, 0));
        now += MS;
    };
    for epoch in epochs {
        for _ in 0..*epoch {
            next += 1;
            acked = next;
            pass(next - 1, acked);
        }
        // One is lost. The flight passes, and so does the response to two duplicate
        // acknowledgements; then it is retransmitted.
        let lost = next;
        for _ in 0..FULL + 1 {
            next += 1;
            pass(next, acked);
        }
        next += 1;
        acked = next;
        pass(lost, acked);
    }
    let ended = tracker.end(FlowSlot(0)).expect("the flow");
    let [_, Some(window_trace)] = ended.window_traces else { panic!("no data") };
    identify(window_trace, Some(ended.seen), None, None)
}

fn set(verdict: &Verdict) -> Vec<String> {
    match &verdict.answer {
        Answer::Named { set, .. } => set.clone(),
        Answer::Unknown { because } => panic!("{because}"),
    }
}

/// From half of it to all, one segment per round.
fn reno() -> u32 {
    (FULL / 2..FULL).sum()
}

#[test]
fn the_time_to_the_next_loss_identifies_the_algorithm() {
    let verdict = at_receiver(&[400, reno(), reno(), reno(), reno(), reno()]);
    assert_eq!(set(&verdict), ["reno", "lp"], "{:?}", verdict.ranked);
    let seen: Vec<f32> = verdict.window_trace.reductions.iter().map(|reduction| reduction.before).collect();
    assert_eq!(seen, [FULL as f32; 6], "the window before each loss");
    assert!(verdict.notes.iter().any(|note| note.contains("at losses alone")), "{:?}", verdict.notes);
    // CUBIC is back at the previous window after K seconds: the cube root of 0.3 of it over 0.4.
    let k_ms = ((f64::from(FULL) * 0.3 / 0.4).cbrt() * 1000.0) as u32;
    let cubic = at_receiver(&[400, k_ms, k_ms, k_ms, k_ms, k_ms]);
    assert_eq!(set(&cubic).first().map(String::as_str), Some("cubic"), "{:?}", cubic.ranked);
}

#[test]
fn an_unpredicted_window_is_unknown() {
    let verdict = at_receiver(&[400, 3000, 30000, 9000, 1200, 20000, 4000]);
    let Answer::Unknown { because } = &verdict.answer else { panic!("{:?}", verdict.answer) };
    assert!(because.contains("better than chance") || because.contains("off by"), "{because}");
}

#[test]
fn too_few_losses_identify_no_algorithm() {
    let verdict = at_receiver(&[400, reno(), reno()]);
    let Answer::Unknown { because } = &verdict.answer else { panic!("{:?}", verdict.answer) };
    assert!(because.contains("predict 2 windows"), "{because}");
}
