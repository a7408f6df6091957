//! What can be determined depends on where a flow was observed, and on the content of its segments.
#![allow(missing_docs)]

mod made_up;

use made_up::{ACK, SYN, segment};
use yuzuri_capture::{End, FlowSlot};
use yuzuri_infer::packets::{Ended, Tracker};
use yuzuri_infer::verdict::Answer;
use yuzuri_infer::window_trace::CapturePoint;
use yuzuri_infer::{identify, window_trace::WindowTrace};

const MS: i64 = 1_000_000;
const RTT: i64 = 100 * MS;

/// 20 segments in flight, one every 5 ms, each acknowledged immediately, of a size below the 1000
/// bytes of the handshake or of this size; seen `from_sender` after they were sent.
fn flow(from_sender: i64, bytes: u32) -> Ended {
    let (near, far) = (End::Lower, End::Higher);
    let mut tracker = Tracker::new();
    // Each entry: time at the sender or at the receiver, sender, content.
    let at =
        |time: i64, from: End| if from == near { time + from_sender } else { time + RTT / 2 - from_sender };
    tracker.segment(&segment(at(0, near), near, SYN, 99, 0, 0));
    tracker.segment(&segment(at(RTT / 2, far), far, SYN | ACK, 499, 100, 0));
    tracker.segment(&segment(at(RTT, near), near, ACK, 100, 500, 0));
    let mut passing: Vec<(i64, End, u32)> = Vec::new();
    for number in 0..400_i64 {
        let sent = RTT + 5 * MS * (number + 1);
        let place = 100 + bytes * number as u32;
        passing.push((at(sent, near), near, place));
        passing.push((at(sent + RTT / 2 - 10_000, far), far, place + bytes));
    }
    passing.sort_by_key(|(at, _, _)| *at);
    for (at, from, place) in passing {
        tracker.segment(&if from == near {
            segment(at, near, ACK, place, 500, bytes)
        } else {
            segment(at, far, ACK, 500, place, 0)
        });
    }
    tracker.end(FlowSlot(0)).expect("the flow")
}

fn window_trace(ended: &Ended) -> WindowTrace {
    ended.window_traces[0].clone().expect("a window trace")
}

fn unknown_because(ended: &Ended) -> Option<String> {
    match identify(window_trace(ended), Some(ended.seen), None, None).answer {
        Answer::Named { .. } => None,
        Answer::Unknown { because } => Some(because),
    }
}

#[test]
fn at_the_receiver_without_timestamps_the_window_is_unknown() {
    let ended = flow(RTT / 2, 1000);
    assert_eq!(window_trace(&ended).capture_point, CapturePoint::Receiver);
    let because = unknown_because(&ended).expect("no name");
    assert!(because.contains("away from the sender without timestamps"), "{because}");
}

#[test]
fn at_the_sender_the_window_is_reconstructed() {
    let ended = flow(0, 1000);
    let window_trace = window_trace(&ended);
    assert_eq!(window_trace.capture_point, CapturePoint::Sender);
    let windows: Vec<f32> =
        window_trace.rounds[2..window_trace.rounds.len() - 2].iter().map(|round| round.window).collect();
    assert!(windows.len() > 10 && windows.iter().all(|window| *window == 20.0), "{windows:?}");
    assert!(unknown_because(&ended).is_none_or(|because| !because.contains("timestamps")));
}

#[test]
fn segments_that_are_all_smaller_than_the_handshake_allows_are_full() {
    let ended = flow(0, 900);
    let window_trace = window_trace(&ended);
    assert_eq!(window_trace.mss_bytes, 900);
    let late = &window_trace.rounds[4..window_trace.rounds.len() - 2];
    assert!(late.iter().all(|round| round.window == 20.0 && !round.limits.application), "{late:?}");
}
