//! Polled logs: what their rows show of round-trip times and of the flight.
#![allow(missing_docs)]

use yuzuri_infer::samples::{Rounds, Sample};
use yuzuri_infer::window_trace::{CapturePoint, Round, WindowTrace};

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

/// Reno in a long queue loses segments in slow start, and more of them while it retransmits these:
/// its window is halved twice, from 320 segments to 80.
#[test]
fn a_reduction_from_an_unknown_window_is_not_scored() {
    let mut rounds = Rounds::default();
    let mut acked_bytes = 0;
    for n in 0..360 {
        let repairing = (32..40).contains(&n);
        let cwnd: u32 = match n {
            0..32 => 10 << (n / 6),
            32..36 => 160,
            36..40 => 80,
            _ => 80 + (n as u32 - 40) / 4,
        };
        acked_bytes += u64::from(cwnd) / 4 * 1448;
        rounds.push(&Sample {
            cwnd,
            ssthresh: match n {
                0..32 => None,
                32..36 => Some(160),
                _ => Some(80),
            },
            acked_bytes,
            flight: Some(cwnd),
            acks: cwnd / 4,
            retransmitted: Some(if n < 32 { 0 } else { 160 }),
            repairing,
            loss_signs: u32::from(n == 32) * 160,
            ..poll(n, cwnd)
        });
    }
    let verdict = yuzuri_infer::identify(rounds.finish(), None, None, None);
    let reno = verdict.ranked.iter().find(|ranked| ranked.name == "reno").map(|ranked| ranked.score);
    let score = reno.unwrap_or_default();
    assert_eq!(score.reductions, 0, "{score:?}");
    assert!(score.growth > -1.0, "{score:?}");
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
    assert_eq!(window_trace.least_windows.iter().filter(|least| least.segments == 4).count(), 1);
}

/// The first loss of Vegas: its window left slow start and was halved between two polls.
#[test]
fn the_window_before_a_loss_between_two_polls_in_slow_start_is_unknown() {
    let before = |ssthresh: Option<u32>| {
        let mut rounds = Rounds::default();
        (0..10).for_each(|n| rounds.push(&Sample { ssthresh, ..poll(n, 42) }));
        for n in 10..20 {
            let lost = Sample { ssthresh: Some(7), retransmitted: Some(3), ..poll(n, 7) };
            rounds.push(&Sample { repairing: n < 14, loss_signs: u32::from(n == 10), ..lost });
        }
        let reductions = rounds.finish().reductions;
        reductions.first().map(|reduction| (reduction.before, reduction.after, reduction.undone))
    };
    assert_eq!(before(None), Some((0.0, 7.0, false)));
    assert_eq!(before(Some(30)), Some((42.0, 7.0, false)));
}

/// BBR in a queue that loses segments all the time: PROBE_RTT every 10.32 s.
#[test]
fn a_fall_to_four_segments_in_loss_recovery_is_bbrs_if_ssthresh_stays() {
    let interval_s = |ssthresh: fn(u64) -> u32| {
        let mut rounds = Rounds::default();
        for n in 0..600 {
            let cwnd = if n % 129 > 124 { 4 } else { 40 };
            let lost =
                Sample { repairing: n % 10 > 2, loss_signs: 1, retransmitted: Some(n), ..poll(n, cwnd) };
            rounds.push(&Sample { ssthresh: Some(ssthresh(n)), ..lost });
        }
        yuzuri_infer::identify(rounds.finish(), None, None, None).constants.probe_rtt_interval_s
    };
    let kept = interval_s(|_| 30);
    assert!(kept.is_some_and(|interval_s| (interval_s - 10.32).abs() < 0.1), "{kept:?}");
    // A reduction of the window sets it, at the beginning of each recovery.
    assert_eq!(interval_s(|n| 20 + ((n + 7) / 10 % 2) as u32), None);
}

/// Vegas holds its window by the least RTT of each round, and a polled log has means. NV may hold
/// its window, too.
#[test]
fn vegas_in_a_polled_log_may_hold_its_window() {
    // Window, segments acknowledged, acknowledgements, least and greatest RTT, milliseconds.
    let rows = [
        (7, 7, 7, 302, 302),
        (7, 10, 10, 266, 290),
        (8, 9, 7, 266, 278),
        (9, 11, 6, 284, 312),
        (11, 10, 6, 254, 315),
        (12, 11, 6, 254, 303),
        (12, 12, 6, 281, 300),
        (13, 21, 11, 263, 313),
        (14, 16, 8, 266, 286),
        (15, 16, 9, 254, 273),
        (16, 18, 9, 266, 276),
        (18, 22, 11, 241, 287),
        (18, 25, 13, 296, 308),
        (18, 24, 13, 316, 318),
        (18, 20, 10, 290, 326),
        (17, 18, 9, 278, 296),
        (18, 19, 10, 270, 284),
        (18, 20, 10, 290, 302),
        (18, 20, 10, 290, 302),
        (17, 20, 10, 294, 314),
        (17, 20, 10, 273, 297),
        (19, 24, 12, 256, 278),
        (19, 20, 10, 262, 299),
        (19, 28, 14, 300, 322),
        (19, 23, 12, 320, 324),
        (18, 19, 10, 326, 332),
        (17, 28, 14, 266, 288),
        (19, 24, 12, 254, 262),
        (19, 20, 10, 254, 314),
        (19, 17, 9, 314, 331),
        (19, 24, 12, 317, 351),
        (17, 24, 12, 287, 308),
        (17, 18, 9, 266, 267),
        (19, 26, 13, 269, 274),
        (19, 21, 11, 314, 326),
        (19, 48, 24, 284, 300),
        (18, 24, 12, 286, 312),
        (18, 18, 9, 302, 314),
        (17, 20, 10, 287, 298),
        (18, 28, 14, 263, 278),
        (19, 18, 9, 257, 261),
        (19, 21, 11, 302, 325),
        (19, 24, 12, 305, 339),
        (18, 23, 12, 301, 336),
        (18, 22, 11, 260, 277),
        (18, 24, 12, 261, 266),
        (18, 24, 12, 270, 294),
        (18, 22, 11, 292, 302),
        (17, 24, 12, 278, 290),
        (19, 24, 12, 264, 266),
        (19, 21, 11, 278, 319),
        (19, 26, 13, 299, 327),
        (18, 21, 11, 305, 316),
        (18, 24, 12, 275, 287),
        (18, 22, 11, 259, 274),
        (18, 18, 9, 266, 278),
        (18, 20, 10, 283, 296),
        (18, 20, 10, 290, 302),
        (17, 18, 9, 290, 302),
        (18, 22, 11, 274, 290),
    ];
    let mut now_ns = 0;
    let rounds = rows.map(|(window, acked, acks, min_ms, max_ms): (u8, u8, u32, u32, u32)| {
        let start_ns = now_ns;
        now_ns += i64::from(min_ms + max_ms) * 500_000;
        Round {
            start_ns,
            end_ns: now_ns,
            window: window.into(),
            acked: acked.into(),
            acks,
            rtt_first_us: min_ms * 1000,
            rtt_min_us: min_ms * 1000,
            rtt_max_us: max_ms * 1000,
            rtt_last_us: max_ms * 1000,
            rtt_mean_us: (min_ms + max_ms) * 500,
            ..Round::default()
        }
    });
    let trace = WindowTrace {
        capture_point: CapturePoint::Kernel,
        mss_bytes: 1448,
        min_rtt_us: 254_000,
        rounds: rounds.to_vec(),
        ..WindowTrace::default()
    };
    let nv = |polled: bool| {
        let verdict = yuzuri_infer::identify(WindowTrace { polled, ..trace.clone() }, None, None, None);
        verdict.ranked.iter().find(|ranked| ranked.name == "nv").map_or(0.0, |nv| nv.probability)
    };
    assert!(nv(true) < 0.9 && nv(false) > nv(true), "{} {}", nv(true), nv(false));
}

/// Vegas in windows of two to four segments: a constant window explains these as well, but nothing
/// else sets ssthresh to one segment.
#[test]
fn an_ssthresh_of_one_segment_is_vegas() {
    let probabilities = |least: u32| {
        let mut rounds = Rounds::default();
        for n in 0..400 {
            // Reno's growth by a segment in a round trip, as with few samples, and then a fall by
            // one in each.
            let cwnd = [2, 2, 3, 4, 4, 3][n as usize / 4 % 6];
            let ssthresh = Some(if n % 24 < 12 { least } else { 3 });
            rounds.push(&Sample { ssthresh, acked_bytes: n * 1448, acks: 1, ..poll(n, cwnd) });
        }
        let verdict = yuzuri_infer::identify(rounds.finish(), None, None, None);
        let vegas = verdict.ranked.iter().find(|ranked| ranked.name == "vegas");
        (vegas.map_or(0.0, |vegas| vegas.probability), verdict.none.probability)
    };
    let (one, two) = (probabilities(1), probabilities(2));
    assert!(one.0 > 10.0 * one.1, "{one:?}");
    assert!(one.0 / one.1 > 1000.0 * two.0 / two.1, "{one:?} {two:?}");
}
