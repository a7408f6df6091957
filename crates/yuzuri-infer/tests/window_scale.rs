//! Receivers whose windows are scaled, as on nearly all hosts, observed from the beginning.
#![allow(missing_docs)]

mod made_up;

use made_up::{ACK, SYN, segment};
use std::collections::VecDeque;
use yuzuri_capture::{End, FlowSlot, Segment, TcpOptions};
use yuzuri_infer::packets::Tracker;
use yuzuri_limits::{Limit, LimitTimes};

const MS: i64 = 1_000_000;
const NEAR: End = End::Lower;
const FAR: End = End::Higher;
const SCALE: u8 = 7;
const MSS_BYTES: u32 = 1000;

/// What limited the sender of such a flow. `window`: the receiver's window in segments, once that
/// many segments are acknowledged.
///
/// The receiver acknowledges each segment 100 ms after it was sent, and 1 ms after the previous
/// one. The sender begins with ten segments in flight, adds one for each acknowledged one, and has
/// 3000 to send.
fn limits(window: impl Fn(u32) -> u32, max_cwnd: u32) -> LimitTimes {
    let mut tracker = Tracker::new();
    let syn = |at, from, flags, seq, ack, window| {
        let made = segment(at, from, flags, seq, ack, 0);
        Segment { window, options: TcpOptions { window_scale: Some(SCALE), ..made.options }, ..made }
    };
    tracker.segment(&syn(0, NEAR, SYN, 999, 0, 65_535));
    let first = u16::try_from(window(0) * MSS_BYTES).expect("16 bits");
    tracker.segment(&syn(100 * MS, FAR, SYN | ACK, 0, 1000, first));
    tracker.segment(&segment(100 * MS + 1000, NEAR, ACK, 1000, 1, 0));
    let (mut acked, mut sent, mut now) = (0u32, 0u32, 101 * MS);
    let mut sent_at = VecDeque::new();
    while acked < 3000 {
        while sent < 3000 && sent - acked < (10 + acked).min(max_cwnd).min(window(acked)) {
            let seq = 1000 + sent * MSS_BYTES;
            now += 1000;
            tracker.segment(&segment(now, NEAR, ACK, seq, 1, MSS_BYTES));
            sent_at.push_back(now);
            sent += 1;
        }
        now = (now + MS).max(sent_at.pop_front().expect("in flight") + 100 * MS);
        acked += 1;
        let field = u16::try_from((window(acked) * MSS_BYTES) >> SCALE).expect("16 bits");
        let ack = 1000 + acked * MSS_BYTES;
        tracker.segment(&Segment { window: field, ..segment(now, FAR, ACK, 1, ack, 0) });
    }
    let ended = tracker.end(FlowSlot(0)).expect("the flow");
    let mut times = LimitTimes::default();
    for interval in ended.limits(NEAR).expect("data").intervals {
        times.add(interval.limit, interval.to_us - interval.from_us);
    }
    times
}

/// The window of the SYN is not scaled: read as if it were, it is larger than all later ones, as if
/// data had arrived that the program did not read.
#[test]
fn a_window_that_remains_as_it_was_is_no_slow_readers() {
    // A segment more than 16 does not fit.
    let times = limits(|_| 16, 1000);
    assert!(times.share(Limit::ReceiverWindow) > 0.9, "{:?}", times.ranked());
    assert_eq!(times.share(Limit::SlowReader), 0.0, "{:?}", times.ranked());
}

/// The receiver enlarges its buffer faster than the congestion window grows, once it has received
/// some segments. The window is fullest before, and at that moment, it has room.
#[test]
fn a_window_that_grows_with_the_flight_does_not_limit() {
    let times = limits(|acked| 48 + 3 * acked.saturating_sub(30).min(100), 80);
    assert_eq!(times.share(Limit::SlowReader), 0.0, "{:?}", times.ranked());
    assert_eq!(times.share(Limit::ReceiverWindow), 0.0, "{:?}", times.ranked());
}
