//! Polled logs: what their rows show of round-trip times and of the flight.
#![allow(missing_docs)]

use yuzuri_infer::samples::{Rounds, Sample};

/// Two segments that one acknowledgement covers: nothing is left in flight.
#[test]
fn a_single_acknowledgement_of_all_that_was_in_flight_begins_a_round() {
    let sample = |n: u64, acks: u32, acked: u64, flight: u32| Sample {
        at_ns: n as i64 * 80_000_000,
        cwnd: 2,
        srtt_us: 250_000,
        acked_bytes: acked * 1448,
        flight: Some(flight),
        acks,
        mss_bytes: 1448,
        ..Sample::default()
    };
    let idle = |samples: &[(u64, u32, u64, u32)]| {
        let mut rounds = Rounds::default();
        samples.iter().for_each(|s| rounds.push(&sample(s.0, s.1, s.2, s.3)));
        let window_trace = rounds.finish();
        assert!(window_trace.polled);
        window_trace.rounds.iter().map(|round| round.idle_us).collect::<Vec<_>>()
    };
    // The rows: number, acknowledgements, segments acknowledged so far, in flight.
    assert_eq!(idle(&[(0, 0, 10, 2), (1, 1, 12, 2), (5, 1, 13, 2), (9, 1, 14, 2)]), [0, 250_000, 0]);
    assert_eq!(idle(&[(0, 0, 10, 2), (1, 2, 12, 2), (5, 1, 13, 2), (9, 1, 14, 2)]), [0, 0]);
}

/// The smoothed RTT of the first row is that of earlier measurements, if these were of data.
#[test]
fn the_first_rows_round_trip_time_counts() {
    let least = |acked: u64| {
        let mut rounds = Rounds::default();
        for n in 0..6 {
            rounds.push(&Sample {
                at_ns: n * 100_000_000,
                cwnd: 10,
                srtt_us: if n == 0 { 30_000 } else { 90_000 },
                acked_bytes: acked + n.max(1) as u64 * 1448,
                acks: 1,
                mss_bytes: 1448,
                ..Sample::default()
            });
        }
        let window_trace = rounds.finish();
        (window_trace.rounds[0].rtt_min_us, window_trace.min_rtt_us)
    };
    assert_eq!(least(1448), (30_000, 30_000));
    assert!(least(0).1 > 30_000, "an opening message of less than a segment is no data");
}

/// A poll of a sender whose window is full.
fn poll(n: u64, cwnd: u32) -> Sample {
    Sample {
        at_ns: n as i64 * 80_000_000,
        cwnd,
        srtt_us: 330_000,
        acked_bytes: n * 4 * 1448,
        flight: Some(cwnd),
        acks: 2,
        retransmitted: Some(0),
        mss_bytes: 1448,
        ..Sample::default()
    }
}

#[test]
fn a_window_that_falls_for_less_than_a_round_is_kept() {
    let mut rounds = Rounds::default();
    (0..100).for_each(|n| rounds.push(&poll(n, if (41..44).contains(&n) { 4 } else { 14 })));
    let window_trace = rounds.finish();
    assert!(window_trace.filled && window_trace.rounds.iter().all(|round| round.window == 14.0));
    assert_eq!(window_trace.least_windows.len(), window_trace.rounds.len());
    assert_eq!(window_trace.least_windows.iter().filter(|least| **least == 4).count(), 1);
}

/// The first loss of Vegas: its window left slow start and was halved between two polls.
#[test]
fn the_window_before_a_loss_between_two_polls_in_slow_start_is_unknown() {
    let before = |ssthresh: Option<u32>| {
        let mut rounds = Rounds::default();
        (0..10).for_each(|n| rounds.push(&Sample { ssthresh, ..poll(n, 42) }));
        for n in 10..20 {
            let lost = Sample { ssthresh: Some(7), retransmitted: Some(3), ..poll(n, 7) };
            rounds.push(&Sample { repairing: n < 14, signs: u32::from(n == 10), ..lost });
        }
        rounds.finish().reductions.first().map(|reduction| (reduction.before, reduction.after))
    };
    assert_eq!(before(None), Some((0.0, 7.0)));
    assert_eq!(before(Some(30)), Some((42.0, 7.0)));
}
