//! The classifier on senders with a known limit, and invariants for any sequence of observations.
#![allow(missing_docs)]

mod sender;
use sender::*;

use proptest::prelude::*;
use yuzuri_cca::CaState;
use yuzuri_cca::CcaKind;
use yuzuri_limits::{Limit, LimitTimes, Moment, Observation, Reduction};

#[test]
fn a_round_that_takes_longer_than_the_rtt_is_no_pause() {
    // Nothing is unsent at the end of each round, and it is unknown who waits. Away from the sender
    // the RTT lacks the time in which the sender's own burst left.
    let round = |n: u64, moment| Observation {
        moment,
        unsent_bytes: Some(0),
        send_memory_bytes: None,
        send_buffer_bytes: None,
        rttvar_us: 0,
        ..roomy(n * 25_000)
    };
    let rounds = |moment| classified(&(0..40).map(|n| round(n, moment)).collect::<Vec<_>>()).0;
    assert_eq!(rounds(Moment::RoundEnd).share(Limit::Unknown), 1.0);
    // A segment that arrives late shows that nothing was outstanding before.
    let arrivals = rounds(Moment::Arrival);
    assert!((arrivals.share(Limit::Application) - 0.2).abs() < 0.01, "{:?}", arrivals.ranked());
}

#[test]
fn an_idle_application_is_distinguished_from_a_full_send_buffer() {
    let sent = |memory, buffer| {
        move |t| Observation {
            unsent_bytes: Some(0),
            send_memory_bytes: memory,
            send_buffer_bytes: buffer,
            ..roomy(t)
        }
    };
    assert_eq!(steady(sent(Some(20_000), Some(87_040))), Limit::Application);
    assert_eq!(steady(sent(Some(85_000), Some(87_040))), Limit::SendBuffer);
    // Neither full nor empty enough to wake a waiting writer: the last distinct state decides, for
    // two round trips.
    let between: Vec<_> = (0..=1000).map(|n| sent(Some(70_000), Some(87_040))(n * 1000)).collect();
    assert!(classified(&between).0.share(Limit::Application) > 0.95);
    assert_eq!(classified(&between[..40]).0.share(Limit::Unknown), 1.0);
    let after = |memory| {
        let mut observations = vec![sent(Some(memory), Some(87_040))(0)];
        observations.extend(&between[1..40]);
        classified(&observations).0
    };
    assert_eq!(after(86_000).share(Limit::SendBuffer), 1.0);
    assert_eq!(after(20_000).share(Limit::Application), 1.0);
    // Most polls find the data of a waiting writer in flight, until it is unlikely that the buffer
    // still fills.
    let polled: Vec<_> = (0..2000u64)
        .map(|n| {
            let memory = if n < 300 && n % 15 == 0 { 86_000 } else { 70_000 };
            Observation { moment: Moment::Polled, ..sent(Some(memory), Some(87_040))(n * 10_000) }
        })
        .collect();
    assert_eq!(classified(&polled[..300]).0.share(Limit::SendBuffer), 1.0);
    let later = classified(&polled).0;
    assert!(later.share(Limit::Unknown) > 0.7, "{:?}", later.ranked());
    // Once the writer was woken and did not write, the application limits.
    let idle = |n: u64| Observation {
        moment: Moment::Polled,
        ..sent(Some(20_000), Some(87_040))((2000 + n) * 10_000)
    };
    let idle = classified(&polled.into_iter().chain((0..2000).map(idle)).collect::<Vec<_>>()).0;
    assert!(idle.share(Limit::Application) > 0.45, "{:?}", idle.ranked());
    // An observer that does not know the buffer's size cannot decide.
    assert_eq!(steady(sent(Some(20_000), None)), Limit::Unknown);
    assert_eq!(steady(sent(None, Some(87_040))), Limit::Unknown);
    let mut observations = vec![roomy(0)];
    observations.extend((1..=100).map(|n| sent(Some(20_000), None)(n * 1000)));
    // The buffer is known to have been larger than its present content, so no writer waits for
    // room.
    assert_eq!(classified(&observations).0.share(Limit::Application), 1.0);
}

#[test]
fn a_silence_is_the_applications_until_a_round_trip_before_the_next_ack() {
    let last =
        Observation { unsent_bytes: Some(0), outstanding_bytes: 1448, in_flight_segments: 1, ..roomy(0) };
    let (times, intervals) = classified(&[last, full_cwnd(100_000)]);
    assert_eq!(times.time_us(Limit::Application), 100_000 - 22_000);
    assert_eq!(intervals.last().map(|s| s.limit), Some(Limit::CongestionAvoidance));
}

#[test]
fn a_flow_seen_from_its_middle_is_not_guessed() {
    let old = |cwnd_segments| {
        move |t| Observation {
            cwnd_segments,
            in_flight_segments: cwnd_segments,
            ssthresh_segments: Some(20),
            retransmitted_segments: 5,
            ..roomy(t)
        }
    };
    // Five segments were lost in the previous megabyte: five separate losses would be over after
    // 1.5 times that distance without one, a single loss after 99 times.
    let of = |cwnd_segments, megabytes: u64| {
        let later = Observation { acked_bytes: megabytes * 1_000_000, ..old(cwnd_segments)(1_000_000) };
        classified(&[old(cwnd_segments)(0), later]).1.last().map(|interval| interval.limit)
    };
    assert_eq!(steady(|t| Observation { acked_bytes: 1_000_000 + t, ..old(40)(t) }), Limit::Loss);
    assert_eq!([of(25, 2), of(40, 2)], [Some(Limit::Loss); 2]);
    assert_eq!([of(25, 3), of(40, 3)], [Some(Limit::Unknown); 2]);
    let (much, small) = (of(40, 200), of(25, 200));
    assert_eq!((much, small), (Some(Limit::CongestionAvoidance), Some(Limit::Loss)), "by its threshold");
    let known = |prior| {
        let seen = |t| Observation { prior_cwnd_segments: Some(prior), ..old(32)(t) };
        let later = Observation { acked_bytes: 3_000_000, ..seen(1_000_000) };
        classified(&[seen(0), later]).1.last().map(|interval| interval.limit)
    };
    assert_eq!((known(40), known(30)), (Some(Limit::Loss), Some(Limit::Unknown)));
    // A loss soon after the observation began: alone it would be over after 99 times that distance.
    // The previous ones still count.
    let soon = |megabytes: u64| {
        let at = |t, cwnd, acked_bytes| Observation { acked_bytes, ..old(cwnd)(t) };
        let lost = Observation { reduction: Some(Reduction::Path), ..at(1000, 30, 1_010_000) };
        let later = at(1_000_000, 60, megabytes * 1_000_000);
        classified(&[at(0, 30, 1_000_000), lost, later]).1.last().map(|interval| interval.limit)
    };
    assert_eq!([soon(2), soon(3)], [Some(Limit::Loss), Some(Limit::Unknown)]);
}

#[test]
fn recovery_and_timeouts_follow_the_state() {
    assert_eq!(steady(|t| Observation { state: CaState::Recovery, ..roomy(t) }), Limit::Recovery);
    assert_eq!(steady(|t| Observation { state: CaState::Loss, ..roomy(t) }), Limit::Timeout);
    let expired = Observation { moment: Moment::Timeout, state: CaState::Open, ..full_cwnd(250_000) };
    assert_eq!(classified(&[full_cwnd(0), expired]).0.share(Limit::Timeout), 1.0);
}

#[test]
fn room_everywhere_is_pacing_only_where_the_rate_is_the_pacing_rate() {
    // 3 bytes each microsecond: 24 Mbit/s.
    let paced = |pacing_rate_bps| {
        let observations: Vec<_> =
            (0..=1000).map(|n| Observation { pacing_rate_bps, ..roomy(n * 1000) }).collect();
        classified(&observations).0
    };
    assert!(paced(Some(24_000_000)).share(Limit::Pacing) > 0.85);
    assert!(paced(Some(25_000_000)).share(Limit::Pacing) > 0.85);
    assert_eq!(paced(Some(29_000_000)).share(Limit::Unknown), 1.0);
    assert_eq!(paced(None).share(Limit::Unknown), 1.0);
}

#[test]
fn the_kernels_own_values_decide() {
    let sent = |waits| move |t| Observation { unsent_bytes: Some(0), writer_waits: Some(waits), ..roomy(t) };
    assert_eq!(steady(sent(true)), Limit::SendBuffer);
    assert_eq!(steady(sent(false)), Limit::Application);
    let held = |pacing_wait_us, device_full| {
        move |t| Observation {
            pacing_wait_us,
            device_full: Some(device_full),
            cwnd_limited: Some(false),
            ..roomy(t)
        }
    };
    assert_eq!(steady(held(Some(500), true)), Limit::Pacing);
    assert_eq!(steady(held(Some(0), true)), Limit::OwnDevice);
    assert_eq!(steady(held(Some(0), false)), Limit::Unknown);
    let own_rate = move |t| Observation { own_rate: Some(true), ..held(Some(0), false)(t) };
    assert_eq!(steady(own_rate), Limit::SenderRate);
    // A flow seen from its middle.
    let full = |prior| move |t| Observation { prior_cwnd_segments: Some(prior), ..full_cwnd(t) };
    assert_eq!(steady(full(30)), Limit::Loss);
    assert_eq!(steady(full(20)), Limit::CongestionAvoidance);
    assert_eq!(steady(full(0)), Limit::CongestionAvoidance);
    let small = |largest, srtt_us| {
        move |t| Observation {
            receive_window_bytes: Some(20 * 1448),
            largest_window_bytes: Some(largest),
            srtt_us: Some(srtt_us),
            ..roomy(t)
        }
    };
    assert_eq!(steady(small(20 * 1448, 20_000)), Limit::ReceiverWindow);
    assert_eq!(steady(small(60 * 1448, 20_000)), Limit::SlowReader);
    assert_eq!(steady(small(20 * 1448, 60_000)), Limit::Path);
    // TCP waits for room for a larger segment only if the window was full.
    let almost = |limited| {
        move |t| Observation {
            in_flight_segments: 90,
            outstanding_bytes: 90 * 1448,
            cwnd_limited: Some(limited),
            ..roomy(t)
        }
    };
    assert_eq!(steady(almost(true)), Limit::CongestionAvoidance);
    assert_eq!(steady(almost(false)), Limit::Unknown);
}

#[test]
fn a_full_device_is_recognised_by_the_memory_in_it() {
    let polled = |device_memory_bytes, min_rtt_us| {
        move |t| Observation {
            moment: Moment::Polled,
            device_memory_bytes: Some(device_memory_bytes),
            pacing_rate_bps: Some(40_000_000),
            min_rtt_us: Some(min_rtt_us),
            ..roomy(t)
        }
    };
    assert_eq!(steady(polled(10_000, 20_000)), Limit::OwnDevice);
    assert_eq!(steady(polled(0, 20_000)), Limit::Unknown);
    // On a path of 1.2 ms, TCP passes 21 kB to the device at a time: one of these holds nothing
    // back, two do.
    assert_eq!(steady(polled(21_832, 1_178)), Limit::Unknown);
    assert_eq!(steady(polled(43_664, 1_178)), Limit::OwnDevice);
}

#[test]
fn what_was_not_observed_is_unknown() {
    // TCP is never silent for 5 s with data to send.
    assert_eq!(classified(&[full_cwnd(0), full_cwnd(5_000_000)]).0.share(Limit::Unknown), 1.0);
    // An RTT that was measured across a clock's jump contains the jump, whatever seemed unsent.
    let jumped = Observation { srtt_us: Some(4_000_000_000), ..full_cwnd(4_000_000_000) };
    for unsent_bytes in [Some(0), Some(1_000_000)] {
        let before = Observation { unsent_bytes, ..full_cwnd(0) };
        assert_eq!(classified(&[before, jumped]).0.share(Limit::Unknown), 1.0, "{unsent_bytes:?}");
    }
    assert_eq!(steady(|t| Observation { unsent_bytes: None, ..roomy(t) }), Limit::Unknown);
    assert_eq!(steady(|t| Observation { mss_bytes: 0, ..roomy(t) }), Limit::Unknown);
    assert_eq!(classified(&[]).0, LimitTimes::default());
    assert_eq!(classified(&[roomy(5)]).0, LimitTimes::default());
}

#[test]
fn polled_values_hold_until_they_are_found_changed() {
    let polled = |time_us, unsent| Observation {
        time_us,
        moment: Moment::Polled,
        unsent_bytes: Some(unsent),
        ..full_cwnd(time_us)
    };
    let quiet = Observation { outstanding_bytes: 0, in_flight_segments: 0, ..polled(0, 0) };
    let (times, _) = classified(&[quiet, polled(900_000, 50_000), polled(1_000_000, 0)]);
    assert_eq!(times.time_us(Limit::Application), 900_000);
    assert_eq!(times.time_us(Limit::CongestionAvoidance), 100_000);
}

fn any_observation() -> impl Strategy<Value = Observation> {
    let number = || prop_oneof![0u32..50, any::<u32>()];
    let bytes = || prop_oneof![Just(0u64), 0u64..200_000, any::<u64>()];
    let state = prop_oneof![
        Just(CaState::Open),
        Just(CaState::Disorder),
        Just(CaState::Cwr),
        Just(CaState::Recovery),
        Just(CaState::Loss)
    ];
    let moment = prop_oneof![
        4 => Just(Moment::Arrival),
        1 => Just(Moment::Polled),
        1 => Just(Moment::Processing),
        1 => Just(Moment::Timeout)
    ];
    let reduction = prop::option::weighted(
        0.1,
        prop_oneof![
            Just(Reduction::Path),
            Just(Reduction::OwnDevice),
            Just(Reduction::Cwr),
            Just(Reduction::Undone)
        ],
    );
    let sizes = (number(), prop::option::of(number()), number(), bytes(), number());
    let windows = (
        prop::option::of(bytes()),
        prop::option::of(bytes()),
        prop::option::of(bytes()),
        prop::option::of(bytes()),
    );
    let times = (
        prop::option::of(number()),
        number(),
        prop::option::of(number()),
        prop::option::of(bytes()),
        bytes(),
        number(),
    );
    let more = (
        any::<Option<bool>>(),
        prop::option::of(bytes()),
        prop::option::of(number()),
        prop::option::of(number()),
        any::<Option<bool>>(),
        any::<Option<bool>>(),
    );
    (prop_oneof![0u64..5_000_000, any::<u64>()], moment, state, reduction, sizes, windows, times, more)
        .prop_map(|(time_us, moment, state, reduction, sizes, windows, times, more)| Observation {
            time_us,
            moment,
            begins: sizes.4 % 2 == 0,
            state,
            reduction,
            cwnd_segments: sizes.0,
            ssthresh_segments: sizes.1,
            in_flight_segments: sizes.2,
            outstanding_bytes: sizes.3,
            mss_bytes: sizes.4,
            receive_window_bytes: windows.0,
            unsent_bytes: windows.1,
            send_memory_bytes: windows.2,
            send_buffer_bytes: windows.3,
            writer_waits: more.0,
            largest_window_bytes: more.1,
            prior_cwnd_segments: more.2,
            pacing_wait_us: more.3,
            cwnd_limited: more.4,
            device_full: more.5,
            at_bound: more.0,
            own_rate: more.0,
            device_memory_bytes: windows.3,
            window_updates: more.4,
            reads_at_once: more.5,
            answers_late: more.5.map(|at_once| !at_once),
            path_is_full: more.4,
            losses_later: more.5,
            cca: [None, Some(CcaKind::Grows), Some(CcaKind::Bounded), Some(CcaKind::Model)]
                [sizes.2 as usize % 4],
            srtt_us: times.0,
            rttvar_us: times.1,
            round_min_rtt_us: times.2,
            min_rtt_us: times.2,
            pacing_rate_bps: times.3,
            acked_bytes: times.4,
            retransmitted_segments: times.5,
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Clocks that jump, impossible numbers: every microsecond from the first observation to the
    /// latest has exactly one limit.
    #[test]
    fn stretches_follow_each_other_without_gap(observations in prop::collection::vec(any_observation(), 1..40)) {
        let (times, intervals) = classified(&observations);
        let first_us = observations[0].time_us;
        let latest_us = observations.iter().map(|o| o.time_us).max().unwrap_or(first_us).max(first_us);
        let mut at_us = first_us;
        for interval in intervals {
            prop_assert_eq!(interval.from_us, at_us);
            prop_assert!(interval.to_us > interval.from_us);
            at_us = interval.to_us;
        }
        prop_assert_eq!(at_us, latest_us);
        prop_assert_eq!(times.total_us(), latest_us - first_us);
        let sum: f64 = Limit::ALL.iter().map(|&limit| times.share(limit)).sum();
        prop_assert!(times.total_us() == 0 || (sum - 1.0).abs() < 1e-9, "{sum}");
    }

    /// Missing knowledge never turns one limit into another: the answer stays or becomes unknown.
    #[test]
    fn knowing_less_never_names_another_application_or_buffer(o in any_observation()) {
        let known = Observation { moment: Moment::Arrival, state: CaState::Open, reduction: None, time_us: 0, ..o };
        let of = |o: Observation| classified(&[o, Observation { time_us: 1, ..o }]).1[0].limit;
        let less = Observation { send_buffer_bytes: None, writer_waits: None, ..known };
        prop_assert!(of(less) == of(known) || of(less) == Limit::Unknown, "{} {}", of(less), of(known));
    }
}
