//! Observed senders.
#![allow(dead_code, clippy::unwrap_used, missing_docs)]

use yuzuri_cca::CcaKind;
use yuzuri_limits::{Classifier, Limit, LimitInterval, LimitTimes, Observation};

pub const MSS: u32 = 1448;

/// A sender that has room everywhere, and much to send.
pub fn roomy(time_us: u64) -> Observation {
    Observation {
        time_us,
        cca: Some(CcaKind::Grows),
        mss_bytes: MSS,
        cwnd_segments: 100,
        ssthresh_segments: Some(50),
        in_flight_segments: 20,
        outstanding_bytes: 20 * u64::from(MSS),
        receive_window_bytes: Some(1_000_000),
        unsent_bytes: Some(1_000_000),
        send_memory_bytes: Some(1_100_000),
        send_buffer_bytes: Some(2_500_000),
        srtt_us: Some(20_000),
        rttvar_us: 500,
        min_rtt_us: Some(20_000),
        acked_bytes: 1_000_000 + time_us * 3,
        ..Observation::default()
    }
}

pub fn full_cwnd(time_us: u64) -> Observation {
    Observation { cwnd_segments: 20, ssthresh_segments: Some(10), ..roomy(time_us) }
}

pub fn classified(observations: &[Observation]) -> (LimitTimes, Vec<LimitInterval>) {
    let (mut classifier, mut times, mut intervals) =
        (Classifier::default(), LimitTimes::default(), Vec::new());
    for observation in observations {
        classifier.observe(observation, |interval| {
            times.add(interval.limit, interval.to_us - interval.from_us);
            intervals.push(interval);
        });
    }
    (times, intervals)
}

/// The limit of a steady sender, seen each millisecond for a second.
pub fn steady(of: impl Fn(u64) -> Observation) -> Limit {
    let observations: Vec<_> = (0..=1000).map(|n| of(n * 1000)).collect();
    let ranked = classified(&observations).0.ranked();
    assert_eq!(ranked.len(), 1, "{ranked:?}");
    ranked[0].0
}

pub fn seen_in_packets(seen: Observation) -> Observation {
    Observation { cca: None, window_updates: Some(false), ..seen }
}
