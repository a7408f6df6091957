//! What limits a round other than the window, from the segment that completed the largest flight.
#![allow(missing_docs)]

mod made_up;

use made_up::{ACK, SYN, segment};
use yuzuri_capture::{End, FlowSlot, Segment};
use yuzuri_infer::packets::Tracker;
use yuzuri_infer::window_trace::WindowTrace;

const MS: i64 = 1_000_000;

/// Flights of ten segments, the last of which has `last_bytes`, to a receiver with room for
/// `window`.
fn flights(last_bytes: u32, window: u16) -> WindowTrace {
    let (near, far) = (End::Lower, End::Higher);
    let mut tracker = Tracker::new();
    let mut take = |segment: Segment| tracker.segment(&segment);
    take(segment(0, near, SYN, 999, 0, 0));
    take(segment(20 * MS, far, SYN | ACK, 0, 1000, 0));
    take(segment(20 * MS + 1000, near, ACK, 1000, 1, 0));
    let mut seq = 1000;
    for flight in 0..20 {
        let at = 21 * MS + flight * 20 * MS;
        for n in 0..10 {
            let bytes = if n == 9 { last_bytes } else { 1000 };
            take(segment(at + n * 10_000, near, ACK, seq, 1, bytes));
            seq += bytes;
        }
        take(Segment { window, ..segment(at + 19 * MS, far, ACK, 1, seq, 0) });
    }
    let ended = tracker.end(FlowSlot(0)).expect("the flow");
    ended.window_traces[near.index()].clone().expect("data")
}

/// Rounds that the application and that the receiver limited, without the first and the last.
fn limited(trace: &WindowTrace) -> (usize, usize, usize) {
    let rounds = &trace.rounds[1..trace.rounds.len() - 1];
    let count = |by: fn(&yuzuri_infer::window_trace::Round) -> bool| rounds.iter().filter(|r| by(r)).count();
    (rounds.len(), count(|round| round.limits.application), count(|round| round.limits.receiver))
}

#[test]
fn a_flight_of_full_segments_is_limited_by_neither() {
    let (all, application, receiver) = limited(&flights(1000, 65_535));
    assert!(all > 10);
    assert_eq!((application, receiver), (0, 0));
}

#[test]
fn a_flight_that_ends_with_a_short_segment_is_application_limited() {
    let (all, application, receiver) = limited(&flights(400, 65_535));
    assert_eq!((application, receiver), (all, 0));
}

#[test]
fn a_window_with_room_for_less_than_a_delayed_acknowledgement_is_full() {
    for (window, is_full) in [(10_000, true), (11_900, true), (12_000, false)] {
        let (all, application, receiver) = limited(&flights(1000, window));
        assert_eq!((application, receiver), (0, if is_full { all } else { 0 }), "{window}");
    }
}
