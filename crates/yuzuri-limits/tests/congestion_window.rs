//! Senders that the congestion window limits: by slow start, growth, losses or a bound.
#![allow(missing_docs)]

mod sender;
use sender::*;

use yuzuri_cca::CcaKind;
use yuzuri_limits::{Limit, Moment, Observation, Reduction, came_before};

#[test]
fn a_full_congestion_window_is_classified_by_its_cause() {
    assert_eq!(steady(|t| Observation { ssthresh_segments: None, ..full_cwnd(t) }), Limit::SlowStart);
    assert_eq!(steady(full_cwnd), Limit::CongestionAvoidance);
    assert_eq!(steady(|t| Observation { srtt_us: Some(60_000), ..full_cwnd(t) }), Limit::Path);
    let jitter = |t| Observation { srtt_us: Some(60_000), rttvar_us: 20_000, ..full_cwnd(t) };
    assert_eq!(steady(jitter), Limit::CongestionAvoidance);
    // Single late ACKs raise the mean; a queue delays all of them.
    let least = |round_min_rtt_us| {
        steady(|t| Observation {
            srtt_us: Some(60_000),
            round_min_rtt_us: Some(round_min_rtt_us),
            ..full_cwnd(t)
        })
    };
    assert_eq!((least(20_500), least(50_000)), (Limit::CongestionAvoidance, Limit::Path));
    // Reduced from 40 segments: held by that until it has grown back.
    let entered = |by| Observation {
        cwnd_segments: 40,
        in_flight_segments: 40,
        moment: Moment::Processing,
        reduction: Some(by),
        ..roomy(1000)
    };
    let of = |by, cwnd_segments| {
        let after = Observation { cwnd_segments, in_flight_segments: cwnd_segments, ..full_cwnd(2000) };
        classified(&[full_cwnd(0), entered(by), after]).1.last().map(|s| s.limit)
    };
    assert_eq!(of(Reduction::Path, 28), Some(Limit::Loss));
    assert_eq!(of(Reduction::OwnDevice, 28), Some(Limit::OwnDevice));
    assert_eq!(of(Reduction::Cwr, 28), Some(Limit::Unknown));
    assert_eq!(of(Reduction::Undone, 28), Some(Limit::CongestionAvoidance));
    // It has grown back. A single loss in the first 3 kB: with 99 %, another comes within 99 times
    // that distance.
    let after = |time_us, acked_bytes| {
        let of = |cwnd_segments, time_us| Observation {
            cwnd_segments,
            in_flight_segments: cwnd_segments,
            acked_bytes,
            ..full_cwnd(time_us)
        };
        let (_, intervals) =
            classified(&[full_cwnd(0), entered(Reduction::Path), of(40, time_us), of(41, time_us + 1000)]);
        intervals.last().map(|s| s.limit)
    };
    assert_eq!(after(2000, 1_017_000), Some(Limit::Loss));
    assert_eq!(after(20_000, 1_020_000), Some(Limit::Loss));
    assert_eq!(after(400_000, 1_400_000), Some(Limit::CongestionAvoidance));
}

/// A window that has grown back after losses at a steady distance: they count as continuing as long
/// as the next one may still come with a probability of 1 %. The fewer losses there were, the
/// longer this takes.
#[test]
fn few_losses_predict_the_next_one_less_than_many() {
    const DISTANCE: u64 = 1_000_000;
    let lasts = |losses: u64| {
        let of = |number: u64, time_us: u64| Observation {
            acked_bytes: number,
            reduction: None,
            moment: Moment::Arrival,
            ..Observation { in_flight_segments: 20, ..full_cwnd(time_us) }
        };
        let mut observations = vec![of(0, 0)];
        for n in 1..=losses {
            let lost =
                Observation { cwnd_segments: 15, moment: Moment::Processing, ..of(n * DISTANCE, n * 1000) };
            observations.push(Observation { reduction: Some(Reduction::Path), ..lost });
        }
        let latest_us = losses * 1000;
        let still = |distances: f64| {
            let bytes = losses * DISTANCE + (distances * DISTANCE as f64) as u64;
            let after = [of(bytes, latest_us + 1000), of(bytes, latest_us + 2000)];
            let all: Vec<_> = observations.iter().chain(&after).copied().collect();
            classified(&all).1.last().map(|interval| interval.limit) == Some(Limit::Loss)
        };
        (1..).map(|tenths| f64::from(tenths) / 10.0).find(|distances| !still(*distances)).unwrap_or(0.0)
    };
    let expected = |losses: f64| losses * (100f64.powf(1.0 / losses) - 1.0);
    for losses in [1, 2, 5, 50] {
        let (lasts, expected) = (lasts(losses), expected(losses as f64));
        assert!((lasts - expected).abs() < 0.05 * expected + 0.2, "{losses}: {lasts}, expected {expected}");
    }
}

/// Reduced from 80 segments, and once more on the way back, long ago.
#[test]
fn a_loss_on_the_way_back_does_not_end_what_the_first_one_does() {
    let of = |time_us: u64, cwnd: u32, prior: u32| Observation {
        cwnd_segments: cwnd,
        in_flight_segments: cwnd,
        prior_cwnd_segments: Some(prior),
        acked_bytes: time_us,
        ..full_cwnd(time_us)
    };
    let reduced = |time_us, cwnd, prior| Observation {
        reduction: Some(Reduction::Path),
        moment: Moment::Processing,
        ..of(time_us, cwnd, prior)
    };
    let last = |cwnd| {
        let observations = [
            of(0, 80, 0),
            reduced(1000, 80, 80),
            of(2000, 41, 80),
            reduced(3000, 41, 41),
            of(10_000_000, 42, 41),
            of(10_001_000, cwnd, 41),
            of(10_002_000, cwnd, 41),
        ];
        classified(&observations).1.last().map(|interval| interval.limit)
    };
    assert_eq!(last(60), Some(Limit::Loss));
    assert_eq!(last(80), Some(Limit::CongestionAvoidance));
}

/// Observations from packets: neither the algorithm nor the minimum RTT is known.
#[test]
fn an_observer_without_the_algorithm_must_see_window_growth_and_a_free_path() {
    let seen = |begins, path_is_full, grows: u64| {
        let of = |n: u64| {
            let cwnd_segments = 20 + (n * grows / 40) as u32;
            let window =
                Observation { cwnd_segments, in_flight_segments: cwnd_segments, ..full_cwnd(n * 1000) };
            seen_in_packets(Observation { path_is_full, begins: begins && n == 0, ..window })
        };
        classified(&(0..=1000).map(of).collect::<Vec<_>>()).1.last().map(|s| s.limit)
    };
    // A segment every second round trip, after the first.
    assert_eq!(seen(true, Some(false), 1), Some(Limit::CongestionAvoidance));
    // Whether losses came before is unknown.
    assert_eq!(seen(false, Some(false), 1), Some(Limit::Unknown));
    assert_eq!(seen(true, Some(false), 0), Some(Limit::Unknown));
    assert_eq!(seen(true, None, 1), Some(Limit::Unknown));
    assert_eq!(seen(true, Some(true), 1), Some(Limit::Path));
    assert_eq!(
        seen(true, Some(true), 0),
        Some(Limit::Path),
        "whatever holds it, a larger one would carry no more"
    );
}

/// Losses at a steady rate have no direction in time: if they come later, they came before, too.
#[test]
fn losses_that_came_later_hold_the_window_of_a_flow_seen_from_its_middle() {
    let seen = |begins, losses_later| {
        let of = |n: u64| {
            let cwnd_segments = 20 + (n / 40) as u32;
            let window =
                Observation { cwnd_segments, in_flight_segments: cwnd_segments, ..full_cwnd(n * 1000) };
            let path_is_full = Some(false);
            seen_in_packets(Observation { path_is_full, losses_later, begins: begins && n == 0, ..window })
        };
        classified(&(0..=1000).map(of).collect::<Vec<_>>()).1.last().map(|s| s.limit)
    };
    assert_eq!(seen(false, Some(true)), Some(Limit::Loss));
    assert_eq!(seen(false, Some(false)), Some(Limit::Unknown));
    assert_eq!(seen(true, Some(true)), Some(Limit::CongestionAvoidance), "there was no loss before");
    // Two losses within 1 MB: 18 MB before the first, another one would have come.
    assert!(came_before(2, 1_000_000, 8_900_000) && !came_before(2, 1_000_000, 9_100_000));
    assert!(!came_before(0, 1_000_000, 0));
}

#[test]
fn a_full_window_that_does_not_grow_is_at_a_bound_only_where_there_are_bounds() {
    let flat =
        |cca, ssthresh_segments| move |t| Observation { cca: Some(cca), ssthresh_segments, ..full_cwnd(t) };
    let times = |of: &dyn Fn(u64) -> Observation, ms| {
        classified(&(0..=ms).map(|n| of(n * 1000)).collect::<Vec<_>>()).0
    };
    // In slow start a window doubles with what it sends: 29 kB, 10 ms here.
    let slow_start = times(&flat(CcaKind::Bounded, None), 1000);
    assert!(slow_start.share(Limit::Sharing) > 0.98, "{:?}", slow_start.ranked());
    assert_eq!(times(&flat(CcaKind::Grows, None), 1000).share(Limit::SlowStart), 1.0);
    // An unknown algorithm gets no such answer.
    let unknown = times(&|t| Observation { cca: None, ssthresh_segments: None, ..full_cwnd(t) }, 1000);
    assert!(unknown.share(Limit::Unknown) > 0.98, "{:?}", unknown.ranked());
    // In congestion avoidance the Reno-friendly window would have grown beyond it after 7 / 0.53
    // round trips of 20 ms.
    let avoids = times(&flat(CcaKind::Bounded, Some(10)), 1000);
    assert!((0.7..0.75).contains(&avoids.share(Limit::Sharing)), "{:?}", avoids.ranked());
    assert!(avoids.share(Limit::CongestionAvoidance) < 0.05);
    // A window that shrinks without a reduction is immediately at its bound, and one that grows is
    // at none.
    let to = |segments| {
        let after = Observation { cwnd_segments: segments, in_flight_segments: segments, ..full_cwnd(1000) };
        let cca = Some(CcaKind::Bounded);
        classified(&[
            Observation { cca, ..full_cwnd(0) },
            Observation { cca, ..full_cwnd(500) },
            Observation { cca, ..after },
            Observation { cca, time_us: 2000, ..after },
        ])
        .1
        .last()
        .map(|s| s.limit)
    };
    assert_eq!(to(15), Some(Limit::Sharing));
    assert_eq!(to(21), Some(Limit::CongestionAvoidance));
}

#[test]
fn a_bound_reported_by_the_control_needs_no_rule() {
    let bounded = |at_bound, cwnd_segments| {
        move |t| Observation {
            cca: Some(CcaKind::Bounded),
            at_bound: Some(at_bound),
            cwnd_segments,
            in_flight_segments: cwnd_segments,
            outstanding_bytes: u64::from(cwnd_segments) * 1448,
            ..full_cwnd(t)
        }
    };
    // A bound that rises by a segment each 100 ms: the window is never constant for long enough.
    let rising: Vec<_> = (0..1000).map(|n| bounded(true, 20 + n as u32 / 100)(n * 1000)).collect();
    assert_eq!(classified(&rising).0.share(Limit::Sharing), 1.0);
    let known_by_rule: Vec<_> = rising.iter().map(|o| Observation { at_bound: None, ..*o }).collect();
    assert!(classified(&known_by_rule).0.share(Limit::Sharing) < 0.5);
    // A plateau of CUBIC's below the bound.
    let plateau: Vec<_> = (0..1000).map(|n| bounded(false, 20)(n * 1000)).collect();
    assert_eq!(classified(&plateau).0.share(Limit::CongestionAvoidance), 1.0);
    // At its bound, but with nothing to send.
    let idle: Vec<_> =
        (0..1000).map(|n| Observation { unsent_bytes: Some(0), ..bounded(true, 20)(n * 1000) }).collect();
    assert_eq!(classified(&idle).0.share(Limit::Sharing), 0.0);
}
