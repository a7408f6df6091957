//! What a capture does not show: which data an acknowledgement triggered if the sender then paused,
//! when an ECN-Echo was answered, and options that were cut off.
#![allow(missing_docs)]

mod made_up;

use made_up::{ACK, SYN, segment};
use yuzuri_capture::{End, Flags, FlowSlot, Segment};
use yuzuri_infer::packets::{Ended, Tracker};
use yuzuri_infer::window_trace::{Cause, WindowTrace};
use yuzuri_limits::Limit;

const MS: i64 = 1_000_000;
const NEAR: End = End::Lower;
const FAR: End = End::Higher;
const ECE: u16 = Flags::ECE.0;
const CWR: u16 = Flags::CWR.0;

fn data(at_us: i64, number: u32, stamps: (u32, u32)) -> Segment {
    let mut data = segment(at_us * 1000, NEAR, ACK, 100 + 1000 * number, 500, 1000);
    data.options.timestamps = Some(stamps);
    data
}

fn acknowledgement(at_us: i64, number: u32, stamps: (u32, u32)) -> Segment {
    let mut answer = segment(at_us * 1000, FAR, ACK, 500, 100 + 1000 * number, 0);
    answer.options.timestamps = Some(stamps);
    answer
}

/// A flow whose handshake takes 40 ms, observed at its receiver or at its sender.
fn shaken(at_receiver: bool, change: impl Fn(&mut Segment)) -> Tracker {
    let mut tracker = Tracker::new();
    let answered = if at_receiver { 0 } else { 40 };
    for mut syn in [segment(0, NEAR, SYN, 99, 0, 0), segment(answered * MS, FAR, SYN | ACK, 499, 100, 0)] {
        (syn.options.sack_permitted, syn.options.window_scale) = (true, Some(7));
        // Of which timestamps take 12.
        syn.options.mss = Some(1012);
        change(&mut syn);
        tracker.segment(&syn);
    }
    tracker.segment(&segment(40 * MS, NEAR, ACK, 100, 500, 0));
    tracker
}

fn ended(mut tracker: Tracker) -> (Ended, WindowTrace) {
    let ended = tracker.end(FlowSlot(0)).expect("the flow");
    let trace = ended.window_traces[0].clone().expect("a window trace");
    (ended, trace)
}

/// Three bursts of ten segments, a round trip of 40 ms apart; then two seconds of nothing.
#[test]
fn a_pause_does_not_count_as_a_round_trip_at_the_receiver() {
    let mut tracker = shaken(true, |_| {});
    let (mut number, mut seen) = (0, 1000);
    for burst in 0..4_i64 {
        for round in 0..3_i64 {
            let at_us = 50_000 + burst * 2_000_000 + round * 40_000;
            // The sender's timestamps are 20 ms earlier: its data took that long.
            for _ in 0..10 {
                tracker.segment(&data(at_us, number, (at_us as u32 / 1000 - 20, seen)));
                number += 1;
            }
            seen = 1000 + at_us as u32 / 1000;
            tracker.segment(&acknowledgement(at_us + 100, number, (seen, at_us as u32 / 1000 - 20)));
        }
    }
    let (_, trace) = ended(tracker);
    let longest_us = trace.rounds.iter().map(|round| round.rtt_max_us).max();
    assert!(longest_us <= Some(41_000), "{longest_us:?}");
    let rounds: Vec<_> = trace.rounds.iter().filter(|round| round.idle_us > 0).collect();
    assert_eq!(rounds.len(), 3, "{:?}", trace.rounds);
    assert!(rounds.iter().all(|round| round.idle_us > 1_800_000));
    let longest_ns = trace.rounds.iter().map(|round| round.end_ns - round.start_ns).max();
    assert!(longest_ns <= Some(100 * MS), "a pause is between two rounds: {longest_ns:?}");
}

/// Bursts of three round trips, the last of which waits for 80 ms in a queue; the next burst finds
/// none. So the sender was silent for longer than the receiver.
#[test]
fn a_pause_is_as_long_as_the_senders_clock_says() {
    let mut tracker = shaken(true, |_| {});
    let (mut number, mut seen) = (0, 1000);
    for burst in 0..4_i64 {
        for round in 0..3_i64 {
            let sent_us = 50_000 + burst * 2_000_000 + round * 40_000;
            let at_us = sent_us + if round == 2 { 80_000 } else { 0 };
            for _ in 0..10 {
                tracker.segment(&data(at_us, number, (sent_us as u32 / 1000, seen)));
                number += 1;
            }
            seen = 1000 + at_us as u32 / 1000;
            tracker.segment(&acknowledgement(at_us + 100, number, (seen, sent_us as u32 / 1000)));
        }
    }
    let (_, trace) = ended(tracker);
    let idle_us: Vec<u32> =
        trace.rounds.iter().map(|round| round.idle_us).filter(|idle_us| *idle_us > 1_000_000).collect();
    assert_eq!(idle_us.len(), 3, "{:?}", trace.rounds);
    assert!(idle_us.iter().all(|idle_us| idle_us.abs_diff(1_920_000) < 2_000), "{idle_us:?}");
}

/// 16 segments of which the second half is marked. The acknowledgement of the first marked one is
/// the last of a round, and the segment with CWR comes in the next one, when the flight has fallen.
#[test]
fn an_ecn_echo_is_answered_a_round_later() {
    let mut tracker = shaken(false, |_| {});
    for number in 0..16 {
        tracker.segment(&data(50_000, number, (50, 0)));
    }
    // A segment begins the next round, and is the last one before the mark.
    tracker.segment(&acknowledgement(90_000, 1, (90, 50)));
    tracker.segment(&data(90_010, 16, (90, 90)));
    for number in 2..8 {
        let answer = acknowledgement(90_000 + i64::from(number) * 1000, number, (90, 50));
        tracker.segment(&Segment { flags: Flags(ACK | ECE), ..answer });
    }
    let answer = data(98_000, 17, (98, 97));
    tracker.segment(&Segment { flags: Flags(ACK | CWR), ..answer });
    for number in 8..=17 {
        tracker.segment(&acknowledgement(98_000 + i64::from(number) * 1000, number, (110, 90)));
        if number > 12 {
            tracker.segment(&data(98_010 + i64::from(number) * 1000, number + 5, (111, 110)));
        }
    }
    for number in 18..40 {
        tracker.segment(&acknowledgement(140_000 + i64::from(number) * 1000, number, (140, 100)));
        tracker.segment(&data(140_010 + i64::from(number) * 1000, number + 5, (141, 140)));
    }
    let (_, trace) = ended(tracker);
    let found: Vec<_> = trace.reductions.iter().map(|r| (r.cause, r.before, r.undone)).collect();
    assert_eq!(found, [(Cause::Ecn, 16.0, false)], "{:?}", trace.reductions);
}

/// The first 68 bytes of a SYN do not contain the window scale: it is unknown, not absent.
#[test]
fn options_that_were_cut_off_are_unknown() {
    for (cut, scale) in [(false, Some(0)), (true, None)] {
        let mut tracker = shaken(false, |syn| {
            (syn.options.window_scale, syn.options.cut) = (None, cut);
        });
        for round in 0..40_i64 {
            let (from, at_us) = (round as u32 * 10, 50_000 + round * 40_000);
            for number in from..from + 10 {
                tracker.segment(&data(at_us, number, (at_us as u32 / 1000, 0)));
            }
            for number in from + 1..=from + 10 {
                let answer = acknowledgement(at_us + 39_000, number, (1, at_us as u32 / 1000));
                tracker.segment(&Segment { window: 502, ..answer });
            }
        }
        let (ended, trace) = ended(tracker);
        assert_eq!(trace.mss_bytes, 1000, "the SYN still has the size");
        let limits = ended.limits(NEAR).expect("limits");
        assert_eq!(limits.window_scale, scale);
        let receiver = |limit: &&Limit| matches!(limit, Limit::ReceiverWindow | Limit::SlowReader);
        let limited = limits.rounds.iter().filter(receiver).count();
        assert_eq!(limited == 0, cut, "{limited} of {}", limits.rounds.len());
    }
}
