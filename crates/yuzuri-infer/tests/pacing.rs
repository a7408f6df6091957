//! Whether a sender follows a clock of its own.
#![allow(missing_docs)]

mod made_up;

use made_up::{ACK, SYN, segment};
use yuzuri_capture::{End, FlowSlot};
use yuzuri_infer::identify;
use yuzuri_infer::packets::Tracker;

const MS: i64 = 1_000_000;

/// The paced fraction of a sender of 20 segments every 100 ms, observed next to it: in pairs right
/// after each acknowledgement, or one every 5 ms regardless of acknowledgements.
fn paced_part(by_clock: bool) -> Option<f64> {
    let (near, far) = (End::Lower, End::Higher);
    let mut tracker = Tracker::new();
    tracker.segment(&segment(0, near, SYN, 99, 0, 0));
    tracker.segment(&segment(100 * MS, far, SYN | ACK, 499, 100, 0));
    tracker.segment(&segment(100 * MS + 20_000, near, ACK, 100, 500, 0));
    // Each entry: time, sender, position of its first or of the next byte.
    let mut passing: Vec<(i64, End, u32)> = Vec::new();
    for pair in 0..200_i64 {
        let place = 100 + 2000 * pair as u32;
        let first = 101 * MS + 10 * MS * pair;
        let second = first + if by_clock { 5 * MS } else { 10_000 };
        passing.extend([(first, near, place), (second, near, place + 1000)]);
        // Acknowledgements come 2 ms before the clock's next segment: they do not cause it.
        let back = if by_clock { 98 * MS } else { 100 * MS - 30_000 };
        passing.push((first + back, far, place + 2000));
    }
    passing.sort_by_key(|(at, _, _)| *at);
    for (at, from, place) in passing {
        let seen = if from == near {
            segment(at, near, ACK, place, 500, 1000)
        } else {
            segment(at, far, ACK, 500, place, 0)
        };
        tracker.segment(&seen);
    }
    let [window_trace, _] = tracker.end(FlowSlot(0)).expect("the flow").window_traces;
    identify(window_trace.expect("a window trace"), None, None, None).constants.paced_part
}

#[test]
fn an_ack_clocked_sender_does_not_pace() {
    let part = paced_part(false).expect("seen beside the sender");
    // The first ten pairs had no acknowledgement yet.
    assert!(part < 0.06, "{part}");
}

#[test]
fn a_clocked_sender_paces() {
    let part = paced_part(true).expect("seen beside the sender");
    assert!(part > 0.95, "{part}");
}
