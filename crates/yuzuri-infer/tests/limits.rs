//! What limited a sender, determined from its packets.
#![allow(missing_docs)]

mod made_up;

use made_up::{ACK, SYN, segment};
use proptest::prelude::*;
use std::collections::VecDeque;
use yuzuri_capture::{Checksum, End, FlowSlot, Segment};
use yuzuri_infer::packets::{Ended, PacketLimits, RoundObservations, Tracker};
use yuzuri_limits::{Limit, LimitTimes};

const MS: i64 = 1_000_000;
const PSH: u16 = 8;
const NEAR: End = End::Lower;
const FAR: End = End::Higher;

/// Segments of a flow whose handshake took 20 ms, seen at its sender.
fn tracked(window: u16, segments: impl IntoIterator<Item = Segment>) -> Ended {
    let mut tracker = Tracker::new();
    tracker.segment(&segment(0, NEAR, SYN, 999, 0, 0));
    tracker.segment(&Segment { window, ..segment(20 * MS, FAR, SYN | ACK, 0, 1000, 0) });
    tracker.segment(&segment(20 * MS + 1000, NEAR, ACK, 1000, 1, 0));
    segments.into_iter().for_each(|segment| tracker.segment(&segment));
    tracker.end(FlowSlot(0)).expect("the flow")
}

/// What limited the sender of such a flow.
fn classified(window: u16, segments: impl IntoIterator<Item = Segment>) -> PacketLimits {
    let ended = tracked(window, segments);
    let limits = ended.limits(NEAR).expect("data");
    let rounds = ended.window_traces[NEAR.index()].as_ref().expect("data").rounds.len();
    assert_eq!(limits.rounds.len(), rounds);
    for pair in limits.intervals.windows(2) {
        assert_eq!(pair[0].to_us, pair[1].from_us, "no time without a limit");
    }
    limits
}

fn shares(limits: &PacketLimits) -> LimitTimes {
    let mut times = LimitTimes::default();
    limits.intervals.iter().for_each(|s| times.add(s.limit, s.to_us - s.from_us));
    times
}

/// The shares of a flow's sender, of these segments in the order of their times.
fn shares_of(mut segments: Vec<Segment>) -> LimitTimes {
    segments.sort_by_key(|segment| segment.time_ns);
    let mut tracker = Tracker::new();
    segments.iter().for_each(|segment| tracker.segment(segment));
    let ended = tracker.end(FlowSlot(0)).expect("the flow");
    shares(&ended.limits(NEAR).expect("data"))
}

/// Flights of these sizes, each sent `rest` after the acknowledgement of the previous one, with a
/// round trip of 19 ms.
fn flights(sizes: impl Fn(u32) -> u32, last_bytes: u32, window: u16, rest: i64) -> PacketLimits {
    let (mut segments, mut seq, mut at) = (Vec::new(), 1000u32, 21 * MS);
    for flight in 0..40 {
        let count = sizes(flight);
        for n in 0..count {
            let bytes = if n == count - 1 { last_bytes } else { 1000 };
            segments.push(segment(at + i64::from(n) * 10_000, NEAR, ACK, seq, 1, bytes));
            seq += bytes;
        }
        at += 19 * MS;
        segments.push(Segment { window, ..segment(at, FAR, ACK, 1, seq, 0) });
        at += rest;
    }
    classified(window, segments)
}

#[test]
fn a_full_window_of_the_receiver_is_its_window() {
    let times = shares(&flights(|_| 10, 1000, 10_000, 50_000));
    assert!(times.share(Limit::ReceiverWindow) > 0.9, "{:?}", times.ranked());
    // With more room it is something else.
    let times = shares(&flights(|_| 10, 1000, 65_535, 50_000));
    assert_eq!(times.share(Limit::ReceiverWindow), 0.0);
}

#[test]
fn a_window_without_its_scale_is_relied_on_if_it_is_full_to_the_last_byte() {
    let of = |window: u16| {
        let (mut segments, mut seq, mut at) = (Vec::new(), 1000u32, 21 * MS);
        for _ in 0..200 {
            for n in 0..3 {
                segments.push(segment(at + n * 10_000, NEAR, ACK, seq, 1, 1000));
                seq += 1000;
            }
            at += 19 * MS;
            segments.push(Segment { window, ..segment(at, FAR, ACK, 1, seq, 0) });
            at += 50_000;
        }
        shares_of(segments)
    };
    assert!(of(3000).share(Limit::ReceiverWindow) > 0.8, "{:?}", of(3000).ranked());
    // Three segments may be just below it by chance.
    assert_eq!(of(3400).share(Limit::ReceiverWindow), 0.0, "{:?}", of(3400).ranked());
}

#[test]
fn a_sender_idle_with_nothing_outstanding_is_application_limited() {
    let times = shares(&flights(|_| 5, 400, 65_535, 80 * MS));
    assert!(times.share(Limit::Application) > 0.95, "{:?}", times.ranked());
}

/// A window of 7.5 kB closes when all is acknowledged, and opens again after 35 ms. It cuts the
/// last segment, which shows nothing of the sender's queue.
#[test]
fn a_pause_after_a_segment_that_the_window_cut_is_the_readers() {
    let of = |last_bytes: u32, acked_window: u16| {
        let (mut segments, mut seq, mut at) = (Vec::new(), 1000u32, 21 * MS);
        for _ in 0..60 {
            for n in 0..8u32 {
                let bytes = if n == 7 { last_bytes } else { 1000 };
                segments.push(segment(at + i64::from(n) * 10_000, NEAR, ACK, seq, 1, bytes));
                seq += bytes;
            }
            at += 19 * MS;
            segments.push(Segment { window: acked_window, ..segment(at, FAR, ACK, 1, seq, 0) });
            at += 35 * MS;
            segments.push(Segment { window: 7_500, ..segment(at, FAR, ACK, 1, seq, 0) });
            at += 10_000;
        }
        shares_of(segments)
    };
    let cut = of(500, 0);
    assert!(cut.share(Limit::SlowReader) > 0.9, "{:?}", cut.ranked());
    // One that ends before the edge was the last one to send.
    let ran_out = of(400, 7_500);
    assert!(ran_out.share(Limit::Application) > 0.5, "{:?}", ran_out.ranked());
}

/// Twenty segments every 100 ms, the last of which has this size. Acknowledgements come one by one
/// over 19 ms, so that all is acknowledged long before the next ten.
fn drained(last_bytes: u32) -> Ended {
    let (mut segments, mut seq, mut at) = (Vec::new(), 1000u32, 21 * MS);
    for _ in 0..40 {
        for n in 0..20u32 {
            let bytes = if n == 19 { last_bytes } else { 1000 };
            segments.push(segment(at + i64::from(n) * 10_000, NEAR, ACK, seq, 1, bytes));
            seq += bytes;
            let acknowledged = segment(at + 20 * MS + i64::from(n) * MS, FAR, ACK, 1, seq, 0);
            segments.push(acknowledged);
        }
        at += 100 * MS;
    }
    segments.sort_by_key(|segment| segment.time_ns);
    tracked(65_535, segments)
}

#[test]
fn acks_after_a_short_segment_are_no_recovery() {
    let ended = drained(400);
    let trace = ended.window_traces[NEAR.index()].as_ref().expect("data");
    assert!(trace.rounds.iter().all(|round| !round.limits.recovery));
    let times = shares(&ended.limits(NEAR).expect("data"));
    assert!(times.share(Limit::Application) > 0.9, "{:?}", times.ranked());
}

#[test]
fn a_pause_after_a_full_segment_is_not_the_applications() {
    // As of a sender that paces super-segments.
    let times = shares(&drained(1000).limits(NEAR).expect("data"));
    assert!(times.share(Limit::Application) < 0.05, "{:?}", times.ranked());
}

#[test]
fn a_pause_of_the_application_is_no_information_about_the_path() {
    let sums = |ended: Ended| {
        let rounds = &ended.observations[NEAR.index()].rounds;
        let sum = |of: &dyn Fn(&RoundObservations) -> f32| rounds.iter().map(of).sum::<f32>();
        (sum(&|observations| observations.gaps_ms), sum(&|observations| observations.busy.0))
    };
    let (all_ms, busy_ms) = sums(drained(400));
    assert!(all_ms > 3000.0 && busy_ms < 100.0, "{all_ms} {busy_ms}");
    let (all_ms, busy_ms) = sums(drained(1000));
    assert_eq!(all_ms, busy_ms);
}

#[test]
fn segments_that_a_host_joined_show_no_time_between_them() {
    let sums = |ended: Ended| {
        let rounds = &ended.observations[NEAR.index()].rounds;
        let sum = |of: &dyn Fn(&RoundObservations) -> u32| rounds.iter().map(of).sum::<u32>();
        (sum(&|observations| observations.segments), sum(&|observations| observations.further))
    };
    let joined = (0..40u32).flat_map(|n| {
        let at = 21 * MS + i64::from(n) * 20 * MS;
        [
            segment(at, NEAR, ACK, 1000 + n * 4000, 1, 4000),
            segment(at + 19 * MS, FAR, ACK, 1, 5000 + n * 4000, 0),
        ]
    });
    assert_eq!(sums(tracked(65_535, joined)), (160, 0));
    assert_eq!(sums(drained(1000)), (800, 760));
}

#[test]
fn a_burst_that_leaves_in_parts_is_the_applications_for_as_long_as_nothing_is_left_to_send() {
    // 16 segments in four bursts of 1 ms, the last of which is not full, then 36 ms until the next
    // burst. The window has room for more.
    let (mut segments, mut seq, mut at) = (Vec::new(), 1000u32, 21 * MS);
    for _ in 0..40 {
        for n in 0..16u32 {
            let bytes = if n == 15 { 400 } else { 1000 };
            segments.push(segment(at + i64::from(n / 4) * MS, NEAR, ACK, seq, 1, bytes));
            seq += bytes;
            if n % 2 == 1 {
                segments.push(segment(at + i64::from(n / 4) * MS + 20 * MS, FAR, ACK, 1, seq, 0));
            }
        }
        at += 40 * MS;
    }
    segments.sort_by_key(|segment| segment.time_ns);
    let times = shares(&classified(65_535, segments));
    assert!(times.share(Limit::Application) > 0.95, "{:?}", times.ranked());
}

#[test]
fn a_window_that_shrinks_at_many_acknowledgements_is_a_slow_readers() {
    // The window is full each time; it has 10 kB or 8 kB. A reader that reads immediately always
    // has the same.
    let of = |windows: [u16; 2]| {
        let (mut segments, mut seq, mut at) = (Vec::new(), 1000u32, 21 * MS);
        let mut window = 10_000u16;
        for flight in 0..60 {
            let count = window / 1000;
            for n in 0..count {
                segments.push(segment(at + i64::from(n) * 10_000, NEAR, ACK, seq, 1, 1000));
                seq += 1000;
            }
            at += 19 * MS;
            window = windows[flight % 2];
            segments.push(Segment { window, ..segment(at, FAR, ACK, 1, seq, 0) });
            at += 50_000;
        }
        shares(&classified(10_000, segments))
    };
    let steady = of([10_000, 10_000]);
    assert!(steady.share(Limit::ReceiverWindow) > 0.9, "{:?}", steady.ranked());
    let varies = of([8_000, 10_000]);
    assert!(varies.share(Limit::SlowReader) > 0.8, "{:?}", varies.ranked());
}

/// A full window of ten segments, always the same, in bursts of two `apart`, of a flow without its
/// beginning: 15 ms there and 14 ms back. The receiver acknowledges every other run only `waits`
/// after its second segment.
fn steady_window(at_sender: bool, apart: i64, waits: i64) -> LimitTimes {
    let mut segments = Vec::new();
    let mut stamped = |time_ns: i64, from: End, seq: u32, ack: u32, bytes: u32, stamps: (i64, i64)| {
        let mut segment = Segment { window: 10_000, ..segment(time_ns, from, ACK, seq, ack, bytes) };
        segment.options.timestamps = Some(((stamps.0 / MS) as u32, (stamps.1 / MS) as u32));
        segments.push(segment);
    };
    // When the sender may send, and when the acknowledgement that permits it was sent.
    let mut may: Vec<(i64, i64)> = (0..5).map(|n| (n * apart, 0)).collect();
    let mut last_acked = 0;
    for run in 0..600usize {
        let (sent, echo) = may[run];
        let seq = 1 + run as u32 * 2000;
        let arrived = sent + 15 * MS;
        let acked = (arrived + 110_000 + if run % 2 == 1 { waits } else { 0 }).max(last_acked + 300_000);
        last_acked = acked;
        let (data_at, ack_at) = if at_sender { (sent, acked + 14 * MS) } else { (arrived, acked) };
        stamped(data_at, NEAR, seq, 1, 1000, (sent, echo));
        stamped(data_at + 100_000, NEAR, seq + 1000, 1, 1000, (sent, echo));
        stamped(ack_at, FAR, 1, seq + 2000, 0, (acked, sent));
        may.push((acked + 14 * MS + 10_000, acked));
    }
    shares_of(segments)
}

#[test]
fn a_steady_window_is_a_small_buffers_only_if_its_acknowledgements_do_not_wait() {
    for at_sender in [false, true] {
        let prompt = steady_window(at_sender, MS, 0);
        assert!(prompt.share(Limit::ReceiverWindow) > 0.8, "{at_sender}: {:?}", prompt.ranked());
    }
    // Away from the receiver they may wait in a queue.
    let waits = steady_window(true, 6 * MS, 5 * MS);
    assert!(waits.share(Limit::Unknown) > 0.9, "{:?}", waits.ranked());
    let waits = steady_window(false, 6 * MS, 5 * MS);
    assert!(waits.share(Limit::SlowReader) > 0.9, "{:?}", waits.ranked());
    // Spread over the round trip, a program that reads every 6 ms would look the same away from it.
    let near = steady_window(false, 6 * MS, 0);
    assert!(near.share(Limit::ReceiverWindow) > 0.8, "{:?}", near.ranked());
    let away = steady_window(true, 6 * MS, 0);
    assert!(away.share(Limit::Receiver) > 0.8, "{:?}", away.ranked());
}

#[test]
fn segments_without_an_ack_before_them_are_paced_even_behind_cross_traffic() {
    let mut segments = Vec::new();
    for n in 0..400u32 {
        let at = 22 * MS + i64::from(n) * 2 * MS;
        // From the middle on a queue of 12 ms. No acknowledgement comes within half a millisecond
        // before a segment.
        let rtt = if n < 200 { 21 * MS } else { 33 * MS };
        segments.push(segment(at, NEAR, ACK, 1000 + n * 1000, 1, 1000));
        segments.push(segment(at + rtt, FAR, ACK, 1, 2000 + n * 1000, 0));
    }
    segments.sort_by_key(|segment| segment.time_ns);
    let times = shares(&classified(65_535, segments));
    assert!(times.share(Limit::Pacing) > 0.85, "{:?}", times.ranked());
    // One block per round trip is evenly spaced as well, and comes from a window, even on a host
    // that is late.
    let late = shares(&flights(|_| 3, 1000, 65_535, 300_000));
    assert_eq!(late.share(Limit::Pacing), 0.0, "{:?}", late.ranked());
}

/// Writes of 3400 bytes every 10 ms with a round trip of 19.95 ms, seen at the sender: each write
/// comes 50 us after an acknowledgement. One write in ten is late by 0.1 ms, and so is its
/// acknowledgement; the program keeps its rhythm, while a writer that waits for room would not.
/// Pacing holds the second half of each write for `apart`. Before that, for the time of `bulk`
/// rounds, acknowledgements cause pairs at uneven intervals.
fn late_writes(apart: i64, bulk: u32) -> LimitTimes {
    let mut segments = Vec::new();
    let mut send = |at: i64, seq: u32, sizes: &[u32], apart: i64, rtt: i64| {
        for (n, bytes) in (0u32..).zip(sizes) {
            let late = if n < 2 { 0 } else { apart };
            let from = seq + n * 1000;
            segments.push(segment(at + late + i64::from(n) * 1000, NEAR, ACK | PSH, from, 1, *bytes));
        }
        segments.push(segment(at + rtt, FAR, ACK, 1, seq + sizes.iter().sum::<u32>(), 0));
    };
    for run in 0..3 * bulk {
        let at = 21 * MS + i64::from(run / 3) * 20 * MS + [0, 4, 9][run as usize % 3] * MS;
        send(at, 1000 + run * 2000, &[1000, 1000], 0, 20 * MS - 10_000);
    }
    let (begins, first) = (21 * MS + i64::from(bulk) * 20 * MS, 1000 + 3 * bulk * 2000);
    for write in 0..800u32 {
        let late = if write % 10 == 9 { 100_000 } else { 0 };
        let at = begins + i64::from(write) * 10 * MS + late;
        send(at, first + write * 3400, &[1000, 1000, 1000, 400], apart, 19 * MS + 950_000);
    }
    segments.sort_by_key(|segment| segment.time_ns);
    let mut times = LimitTimes::default();
    for interval in classified(65_535, segments).intervals {
        if interval.from_us as i64 >= begins / 1000 {
            times.add(interval.limit, interval.to_us - interval.from_us);
        }
    }
    times
}

#[test]
fn a_few_late_writes_show_a_rhythm_that_is_even_otherwise() {
    for (apart, bulk) in [(0, 0), (400_000, 0), (0, 100), (400_000, 100)] {
        let times = late_writes(apart, bulk);
        assert!(times.share(Limit::Application) > 0.85, "{apart} {bulk}: {:?}", times.ranked());
        assert!(times.share(Limit::SendBuffer) < 0.12, "{apart} {bulk}: {:?}", times.ranked());
    }
}

/// Runs of two segments every 5 ms, seen at the receiver, which acknowledges each of them, of a
/// flow without its beginning. They take 15 ms each way, with a random delay of up to 0.3 ms. Their
/// cause is either a clock, or acknowledgements.
fn pairs_at_the_receiver(by_clock: bool) -> LimitTimes {
    let (mut segments, mut state) = (Vec::new(), 7u64);
    let mut chance = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as i64 % 300_000
    };
    let mut stamped = |time_ns: i64, from: End, seq: u32, ack: u32, bytes: u32, stamps: (i64, u32)| {
        let mut segment = segment(time_ns, from, ACK, seq, ack, bytes);
        segment.options.timestamps = Some(((stamps.0 / MS) as u32, stamps.1));
        segments.push(segment);
        segment.options.timestamps.map_or(0, |(stamp, _)| stamp)
    };
    // When acknowledgements reach the sender, with their timestamps.
    let mut arrive: Vec<(i64, u32)> = (0..6).map(|n| (n * 5 * MS, 0)).collect();
    for run in 0..1200usize {
        let (arrives, echo) = arrive[run];
        let clock = run as i64 * 5 * MS;
        // A clock sends after the acknowledgement that arrived last.
        let (sent, echo) = if by_clock {
            let last = arrive.iter().rev().find(|(at, _)| *at <= clock);
            (clock, last.map_or(0, |(_, stamp)| *stamp))
        } else {
            (arrives, echo)
        };
        let arrived = sent + 15 * MS + chance();
        let seq = 1 + run as u32 * 2000;
        stamped(arrived, NEAR, seq, 1, 1000, (sent, echo));
        stamped(arrived + 500_000, NEAR, seq + 1000, 1, 1000, (sent, echo));
        let acked = arrived + 510_000;
        let stamp = stamped(acked, FAR, 1, seq + 2000, 0, (acked, (sent / MS) as u32));
        arrive.push((acked + 14 * MS + chance(), stamp));
    }
    shares_of(segments)
}

#[test]
fn a_clocked_sender_is_distinguished_from_an_evenly_spaced_window() {
    let clock = pairs_at_the_receiver(true);
    assert!(clock.share(Limit::SenderRate) > 0.9, "{:?}", clock.ranked());
    let window = pairs_at_the_receiver(false);
    let own_rate = window.share(Limit::SenderRate) + window.share(Limit::Pacing);
    assert!(own_rate == 0.0, "{:?}", window.ranked());
}

/// Pairs every 5 ms, seen behind their sender's device, which holds each for 12 ms, of a flow
/// without its beginning. Their acknowledgements come 20 ms later. `own`: the network card fills in
/// the checksums of this end.
fn pairs_behind_the_device(own: Option<End>) -> LimitTimes {
    let mut segments = Vec::new();
    let mut stamped = |time_ns: i64, from: End, seq: u32, ack: u32, bytes: u32, stamps: (i64, i64)| {
        let mut segment = segment(time_ns, from, ACK, seq, ack, bytes);
        segment.options.timestamps = Some(((stamps.0 / MS) as u32, (stamps.1 / MS) as u32));
        if own == Some(from) {
            segment.checksum = Checksum::Partial;
        }
        segments.push(segment);
    };
    for run in 7..600i64 {
        let (at, seq) = (run * 5 * MS, 1 + run as u32 * 2000);
        let sent = at - 12 * MS;
        // The last acknowledgement that had come by then.
        let echo = (run - 7) * 5 * MS + 20 * MS;
        stamped(at, NEAR, seq, 1, 1000, (sent, echo));
        stamped(at + 100_000, NEAR, seq + 1000, 1, 1000, (sent, echo));
        stamped(at + 20 * MS, FAR, 1, seq + 2000, 0, (at + 20 * MS, sent));
    }
    shares_of(segments)
}

#[test]
fn checksums_that_a_network_card_fills_in_show_whose_device_it_is() {
    let unknown = pairs_behind_the_device(None);
    assert_eq!(unknown.share(Limit::OwnDevice), 0.0, "the path, as far as is known: {:?}", unknown.ranked());
    let near = pairs_behind_the_device(Some(NEAR));
    assert!(near.share(Limit::OwnDevice) > 0.9, "{:?}", near.ranked());
    let far = pairs_behind_the_device(Some(FAR));
    assert_eq!(far.share(Limit::OwnDevice), 0.0, "{:?}", far.ranked());
}

/// Writes of this many bytes to a small send buffer, with a full segment of 1000: an
/// acknowledgement of two makes room for two more. Two pairs are in flight.
fn writes_to_a_small_buffer(bytes: u32) -> LimitTimes {
    let mut segments = Vec::new();
    for run in 0..400u32 {
        let at = 21 * MS + i64::from(run / 2) * 20 * MS + i64::from(run % 2) * 4 * MS;
        let seq = 1000 + run * 2 * bytes;
        segments.push(segment(at, NEAR, ACK | PSH, seq, 1, bytes));
        segments.push(segment(at + 10_000, NEAR, ACK | PSH, seq + bytes, 1, bytes));
        segments.push(segment(at + 20 * MS - 10_000, FAR, ACK, 1, seq + 2 * bytes, 0));
    }
    segments.sort_by_key(|segment| segment.time_ns);
    shares(&classified(65_535, segments))
}

#[test]
fn ack_clocked_short_segments_are_a_small_send_buffers() {
    for bytes in [900, 143] {
        let times = writes_to_a_small_buffer(bytes);
        assert!(times.share(Limit::SendBuffer) > 0.9, "{bytes}: {:?}", times.ranked());
    }
}

/// A program that writes a little every 10 ms, with Nagle's algorithm: what it wrote during a round
/// trip leaves as one short segment once the one before is acknowledged.
#[test]
fn short_segments_that_wait_for_the_one_before_are_not_the_send_buffers() {
    let mut segments = Vec::new();
    for n in 0..400u32 {
        let (at, seq) = (21 * MS + i64::from(n) * 20 * MS, 1000 + n * 200);
        segments.push(segment(at, NEAR, ACK | PSH, seq, 1, 200));
        segments.push(segment(at + 20 * MS - 10_000, FAR, ACK, 1, seq + 200, 0));
    }
    let times = shares(&classified(65_535, segments));
    assert!(times.share(Limit::Application) > 0.9, "{:?}", times.ranked());
}

/// A program that writes 7400 bytes every 23 ms, seen at its sender. The path carries a segment in
/// a millisecond, so that acknowledgements of two come from 20 ms to 28 ms later, and the next
/// write comes `after` one of them, time after time.
fn writes_after_an_acknowledgement(after: i64) -> LimitTimes {
    let mut segments = Vec::new();
    let every = 23 * MS + after;
    for write in 0..400u32 {
        let (at, seq) = (21 * MS + i64::from(write) * every, 1000 + write * 7400);
        for n in 0..8u32 {
            let (from, bytes) = (seq + n * 1000, if n == 7 { 400 } else { 1000 });
            segments.push(segment(at + i64::from(n) * 1000, NEAR, ACK | PSH, from, 1, bytes));
            if n % 2 == 1 {
                segments.push(segment(at + 20 * MS + i64::from(n) * MS, FAR, ACK, 1, from + bytes, 0));
            }
        }
    }
    segments.sort_by_key(|segment| segment.time_ns);
    shares(&classified(65_535, segments))
}

#[test]
fn writes_that_never_come_at_once_after_an_acknowledgement_were_not_woken_by_it() {
    let woken = writes_after_an_acknowledgement(20_000);
    assert!(woken.share(Limit::SendBuffer) > 0.9, "{:?}", woken.ranked());
    let clock = writes_after_an_acknowledgement(420_000);
    assert!(clock.share(Limit::Application) > 0.9, "{:?}", clock.ranked());
}

/// Pairs every 8 ms with a round trip of 19 ms, seen at their sender: no interval deviates from any
/// other one, and no acknowledgement triggers a pair.
#[test]
fn pairs_without_ack_clocking_are_paced_however_even_they_are() {
    let mut segments = Vec::new();
    for run in 0..300u32 {
        let (at, seq) = (21 * MS + i64::from(run) * 8 * MS, 1000 + run * 2000);
        segments.push(segment(at, NEAR, ACK, seq, 1, 1000));
        segments.push(segment(at + 10_000, NEAR, ACK, seq + 1000, 1, 1000));
        segments.push(segment(at + 19 * MS, FAR, ACK, 1, seq + 2000, 0));
    }
    segments.sort_by_key(|segment| segment.time_ns);
    let times = shares(&classified(65_535, segments.clone()));
    assert!(times.share(Limit::Pacing) > 0.9, "{:?}", times.ranked());
    // Without the beginning no segment shows for how long a device holds the others.
    let middle = shares_of(segments);
    assert_eq!(middle.share(Limit::Pacing), 0.0, "{:?}", middle.ranked());
    assert!(middle.share(Limit::SenderRate) > 0.9, "{:?}", middle.ranked());
}

/// Eight full segments every 40 ms, acknowledged within 20 to 24 ms, seen at their sender: a window
/// that they fill would admit the next ones then, and nothing is outstanding until they come.
#[test]
fn blocks_that_come_while_nothing_is_outstanding_are_paced_though_each_fills_its_round() {
    let mut segments = Vec::new();
    for run in 0..300u32 {
        let at = 21 * MS + i64::from(run) * 40 * MS;
        for n in 0..8u32 {
            let (seq, late) = (1000 + (8 * run + n) * 1000, i64::from(n));
            segments.push(segment(at + late * 10_000, NEAR, ACK, seq, 1, 1000));
            segments.push(segment(at + 20 * MS + late * MS / 2, FAR, ACK, 1, seq + 1000, 0));
        }
    }
    segments.sort_by_key(|segment| segment.time_ns);
    let times = shares(&classified(65_535, segments));
    assert!(times.share(Limit::Pacing) > 0.9, "{:?}", times.ranked());
}

/// A window of three segments, of which the third is sent alone and ends a write.
#[test]
fn a_write_that_ends_in_a_full_window_does_not_show_an_empty_queue() {
    let (mut segments, mut seq, mut at) = (Vec::new(), 1000u32, 21 * MS);
    for _ in 0..100 {
        segments.push(segment(at, NEAR, ACK, seq, 1, 1000));
        segments.push(segment(at + 10_000, NEAR, ACK, seq + 1000, 1, 1000));
        segments.push(segment(at + 5 * MS, NEAR, ACK | PSH, seq + 2000, 1, 1000));
        segments.push(segment(at + 19 * MS - 1000, FAR, ACK, 1, seq + 2000, 0));
        segments.push(segment(at + 24 * MS - 1000, FAR, ACK, 1, seq + 3000, 0));
        (seq, at) = (seq + 3000, at + 19 * MS);
    }
    segments.sort_by_key(|segment| segment.time_ns);
    let times = shares(&classified(65_535, segments));
    assert!(times.share(Limit::Application) < 0.01, "{:?}", times.ranked());
}

#[test]
fn a_window_that_doubles_is_slow_start_and_a_constant_one_is_unknown() {
    let doubles = flights(|flight| 2 << flight.min(5), 1000, 65_535, 50_000);
    assert_eq!(doubles.rounds.get(2), Some(&Limit::SlowStart), "{:?}", doubles.rounds);
    let stays = flights(|_| 10, 1000, 65_535, 50_000);
    assert_eq!(stays.rounds.last(), Some(&Limit::Unknown), "{:?}", stays.rounds);
}

#[test]
fn a_window_limited_by_a_queue_is_the_paths() {
    // The path carries a segment in a millisecond, and holds 20. Each acknowledgement admits a
    // segment, and the first one of each round admits two: beyond the 20 they wait.
    let (mut segments, mut free_at, mut seq) = (Vec::new(), 0, 1000u32);
    let mut admitted: VecDeque<(i64, u32)> = (0..20).map(|_| (21 * MS, 1)).collect();
    let mut until = 0;
    while let Some((at, count)) = admitted.pop_front().filter(|_| seq < 1_600_000) {
        let grows = u32::from(seq >= until);
        if grows > 0 {
            until = seq + 1000 * (admitted.len() as u32 + 1);
        }
        for n in 0..count + grows {
            segments.push(segment(at + i64::from(n) * 1000, NEAR, ACK, seq, 1, 1000));
            seq += 1000;
            free_at = (at + 10 * MS).max(free_at) + MS;
            segments.push(segment(free_at + 9 * MS, FAR, ACK, 1, seq, 0));
            admitted.push_back((free_at + 9 * MS + 5_000, 1));
        }
    }
    segments.sort_by_key(|segment| segment.time_ns);
    let limits = classified(65_535, segments);
    assert_eq!(limits.rounds.last(), Some(&Limit::Path), "{:?}", limits.rounds);
}

proptest! {
    /// Segments that no host would send: every moment has one limit, and each round has one.
    #[test]
    fn any_segments_have_limits_without_a_gap(
        any in prop::collection::vec((any::<bool>(), 0i64..50_000_000, 0u32..40_000, 0u32..40_000, 0u32..3000, any::<u16>(), any::<u32>()), 1..80)
    ) {
        let mut now = 21 * MS;
        let data = segment(now, NEAR, ACK, 1000, 1, 1000);
        let segments = any.into_iter().map(|(near, later, seq, ack, bytes, window, stamp)| {
            now += later;
            let (from, payload) = if near { (NEAR, bytes) } else { (FAR, 0) };
            let mut segment = Segment { window, ..segment(now, from, ACK, seq, ack, payload) };
            segment.options.timestamps = Some((stamp, stamp.wrapping_mul(7)));
            segment
        });
        classified(65_535, std::iter::once(data).chain(segments));
    }
}
