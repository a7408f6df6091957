//! Senders that the receive window limits: by the receiver's buffer, or by its application.
#![allow(missing_docs)]

mod sender;
use sender::*;

use yuzuri_limits::{Limit, Moment, Observation};

#[test]
fn a_full_receive_window_is_classified_by_its_history() {
    let full = |bytes| move |t| Observation { receive_window_bytes: Some(bytes), ..roomy(t) };
    assert_eq!(steady(|t| Observation { begins: t == 0, ..full(20 * 1448)(t) }), Limit::ReceiverWindow);
    // Seen from the middle, it may have been larger.
    assert_eq!(steady(full(20 * 1448)), Limit::Receiver);
    let mut observations = vec![roomy(0)];
    observations.extend((1..=100).map(|n| full(20 * 1448)(n * 1000)));
    assert_eq!(classified(&observations).0.share(Limit::SlowReader), 1.0);
    let closed = |t| Observation {
        receive_window_bytes: Some(0),
        outstanding_bytes: 0,
        in_flight_segments: 0,
        ..roomy(t)
    };
    // A window probe is answered each 10 s: silence is no gap here.
    let (times, _) = classified(&[roomy(0), closed(1000), closed(10_000_000)]);
    assert_eq!(times.time_us(Limit::SlowReader), 10_000_000);
}

#[test]
fn a_full_receivers_window_with_late_acks_is_the_path_only_if_it_was_never_larger() {
    let late = |t| Observation {
        receive_window_bytes: Some(20 * 1448),
        begins: t == 0,
        srtt_us: Some(60_000),
        ..roomy(t)
    };
    assert_eq!(steady(late), Limit::Path);
    // In a flow observed from its middle, the program may read at intervals even if all ACKs
    // advertise the same window: Linux delays the ACK until that window is available again.
    let middle = |varies_us| {
        let of = |n: u64| Observation {
            moment: Moment::Polled,
            begins: false,
            acked_bytes: (1 << 30) + n * 1448,
            rttvar_us: varies_us,
            ..late(n * 1000)
        };
        classified(&(0..=200).map(of).collect::<Vec<_>>()).0
    };
    assert_eq!(middle(0).share(Limit::Unknown), 1.0);
    assert_eq!(middle(20_000).share(Limit::Unknown), 1.0);
    // Some observers know where the ACKs come from.
    let seen = steady(|t| Observation { begins: false, reads_at_once: Some(true), ..late(t) });
    assert_eq!(seen, Limit::Path);
    let after_larger = |acked_bytes| {
        let larger = Observation { receive_window_bytes: Some(30 * 1448), acked_bytes, ..late(0) };
        let mut observations = vec![larger];
        observations.extend((1..=30).map(|n| late(n * 1000)));
        classified(&observations).0
    };
    assert_eq!(after_larger(0).share(Limit::Unknown), 1.0);
    // If the queue were on the path, no data would wait to be read.
    assert_eq!(after_larger(1 << 20).share(Limit::SlowReader), 1.0);
}

/// For any observer, at each ACK or by polls, and from the middle: a program that does not read
/// immediately shrinks the window at times. Steady windows are not conclusive: Linux waits with the
/// ACK of a full window until the program reads.
#[test]
fn a_slow_reader_is_recognised_by_windows_that_shrink() {
    let last = |moment, shrinks: &dyn Fn(u64) -> bool| {
        let of = |n: u64| Observation {
            moment,
            receive_window_bytes: Some(if shrinks(n) { 19 } else { 20 } * 1448),
            acked_bytes: (1 << 30) + n * 1448,
            ..roomy(n * 10_000)
        };
        classified(&(0..=300).map(of).collect::<Vec<_>>()).1.last().map(|interval| interval.limit)
    };
    for moment in [Moment::Polled, Moment::Arrival] {
        assert_eq!(last(moment, &|_| false), Some(Limit::Receiver), "{moment:?}");
        // A busy host is late once in two hundred.
        assert_eq!(last(moment, &|n| n % 200 == 150), Some(Limit::Receiver), "{moment:?}");
        assert_eq!(last(moment, &|n| n % 10 == 5), Some(Limit::SlowReader), "{moment:?}");
    }
    // A few polls do not suffice.
    let few = |n: u64| Observation {
        moment: Moment::Polled,
        receive_window_bytes: Some(20 * 1448),
        acked_bytes: (1 << 30) + n * 1448,
        ..roomy(n * 10_000)
    };
    let times = classified(&(0..30).map(few).collect::<Vec<_>>()).0;
    assert_eq!(times.share(Limit::Receiver), 1.0, "{:?}", times.ranked());
}

#[test]
fn a_window_that_opens_without_an_ack_was_not_read_before() {
    let full = |t, bytes| Observation {
        receive_window_bytes: Some(bytes),
        acked_bytes: 1_000_000 + t / 2000,
        ..roomy(t)
    };
    // The window opens, and the data that it admits fills it again.
    let opens = [full(0, 10_000), full(1000, 10_000), full(1500, 28_960)];
    let times =
        classified(&[&opens[..], &(2..50).map(|n| full(n * 1000, 28_960)).collect::<Vec<_>>()].concat()).0;
    assert!(times.share(Limit::SlowReader) > 0.9, "{:?}", times.ranked());
    // With an acknowledgement of data, it is a receiver that lets its window grow.
    let grows = [full(0, 10_000), Observation { acked_bytes: 1_010_000, ..full(1500, 28_960) }];
    assert_eq!(classified(&grows).0.share(Limit::SlowReader), 0.0);
}

/// Windows of 40,000 bytes that stay the same after some of 60,000, `after` this many bytes.
#[test]
fn a_window_below_that_of_a_receiver_that_knew_its_overhead_is_unread_data() {
    let of = |after: u64| {
        let at = |t: u64| Observation {
            receive_window_bytes: Some(if t == 0 { 60_000 } else { 40_000 }),
            begins: t == 0,
            acked_bytes: after + t,
            ..roomy(t)
        };
        classified(&(0..100).map(|n| at(n * 1000)).collect::<Vec<_>>()).0
    };
    assert!(of(100_000).share(Limit::SlowReader) > 0.9, "{:?}", of(100_000).ranked());
    // Before full segments came, it may not have known how much of its buffer they take.
    assert_eq!(of(1000).share(Limit::SlowReader), 0.0, "{:?}", of(1000).ranked());
}

#[test]
fn of_two_full_windows_the_smaller_one_limits() {
    let both =
        |window| move |t| Observation { receive_window_bytes: Some(window), begins: t == 0, ..full_cwnd(t) };
    assert_eq!(steady(both(20 * 1448)), Limit::ReceiverWindow);
    assert_eq!(steady(both(20 * 1448 + 100)), Limit::CongestionAvoidance);
}

#[test]
fn from_the_middle_reads_distinguish_a_small_window_from_a_slow_reader() {
    let of = |reads_at_once| {
        let full =
            |t| Observation { receive_window_bytes: Some(20 * 1448), acked_bytes: 1 << 30, ..roomy(t) };
        steady(|t| seen_in_packets(Observation { reads_at_once, ..full(t) }))
    };
    assert_eq!(of(Some(true)), Limit::ReceiverWindow);
    assert_eq!(of(Some(false)), Limit::SlowReader);
    assert_eq!(of(None), Limit::Receiver);
}

#[test]
fn less_room_than_a_large_segment_is_a_full_window() {
    let almost = |t| Observation { in_flight_segments: 90, outstanding_bytes: 90 * 1448, ..roomy(t) };
    assert_eq!(steady(almost), Limit::CongestionAvoidance);
}
