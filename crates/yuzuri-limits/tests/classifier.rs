//! The classifier on senders with a known limit, and invariants for any sequence of observations.
#![allow(missing_docs)]

use proptest::prelude::*;
use yuzuri_cca::CaState;
use yuzuri_cca::CcaKind;
use yuzuri_limits::{Classifier, Limit, LimitTimes, Moment, Observation, Reduction, Stretch, came_before};

const MSS: u32 = 1448;

/// A sender that has room everywhere, and much to send.
fn roomy(time_us: u64) -> Observation {
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

fn full_cwnd(time_us: u64) -> Observation {
    Observation { cwnd_segments: 20, ssthresh_segments: Some(10), ..roomy(time_us) }
}

fn classified(observations: &[Observation]) -> (LimitTimes, Vec<Stretch>) {
    let (mut classifier, mut times, mut stretches) =
        (Classifier::default(), LimitTimes::default(), Vec::new());
    for observation in observations {
        classifier.observe(observation, |stretch| {
            times.add(stretch.limit, stretch.to_us - stretch.from_us);
            stretches.push(stretch);
        });
    }
    (times, stretches)
}

/// The limit of a steady sender, seen each millisecond for a second.
fn steady(of: impl Fn(u64) -> Observation) -> Limit {
    let observations: Vec<_> = (0..=1000).map(|n| of(n * 1000)).collect();
    let ranked = classified(&observations).0.ranked();
    assert_eq!(ranked.len(), 1, "{ranked:?}");
    ranked[0].0
}

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
    // Observed from its middle it may be a reader that reads at intervals, however many ACKs
    // advertise the same window: Linux sends an ACK only once that is so.
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
    // Behind the path's queue no data would wait to be read.
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
        classified(&(0..=300).map(of).collect::<Vec<_>>()).1.last().map(|stretch| stretch.limit)
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
    // It is the application's once the writer was woken and did not write.
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
    // But it was larger than its present content.
    assert_eq!(classified(&observations).0.share(Limit::Application), 1.0);
}

#[test]
fn a_silence_is_the_applications_until_a_round_trip_before_the_next_ack() {
    let last =
        Observation { unsent_bytes: Some(0), outstanding_bytes: 1448, in_flight_segments: 1, ..roomy(0) };
    let (times, stretches) = classified(&[last, full_cwnd(100_000)]);
    assert_eq!(times.time_us(Limit::Application), 100_000 - 22_000);
    assert_eq!(stretches.last().map(|s| s.limit), Some(Limit::CongestionAvoidance));
}

#[test]
fn a_full_congestion_window_is_classified_by_its_cause() {
    assert_eq!(steady(|t| Observation { ssthresh_segments: None, ..full_cwnd(t) }), Limit::SlowStart);
    assert_eq!(steady(full_cwnd), Limit::CongestionAvoidance);
    assert_eq!(steady(|t| Observation { srtt_us: Some(60_000), ..full_cwnd(t) }), Limit::Path);
    let jitter = |t| Observation { srtt_us: Some(60_000), rttvar_us: 20_000, ..full_cwnd(t) };
    assert_eq!(steady(jitter), Limit::CongestionAvoidance);
    // Single late ACKs raise the mean; a queue delays all of them.
    let least = |least_rtt_us| {
        steady(|t| Observation { srtt_us: Some(60_000), least_rtt_us: Some(least_rtt_us), ..full_cwnd(t) })
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
        let (_, stretches) =
            classified(&[full_cwnd(0), entered(Reduction::Path), of(40, time_us), of(41, time_us + 1000)]);
        stretches.last().map(|s| s.limit)
    };
    assert_eq!(after(2000, 1_017_000), Some(Limit::Loss));
    assert_eq!(after(20_000, 1_020_000), Some(Limit::Loss));
    assert_eq!(after(400_000, 1_400_000), Some(Limit::CongestionAvoidance));
}

/// A window that has grown back after losses at a steady distance: they count as continuing as long
/// as the next one is expected within 99 %, which is further away the fewer they were.
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
            classified(&all).1.last().map(|stretch| stretch.limit) == Some(Limit::Loss)
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
        classified(&observations).1.last().map(|stretch| stretch.limit)
    };
    assert_eq!(last(60), Some(Limit::Loss));
    assert_eq!(last(80), Some(Limit::CongestionAvoidance));
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
        classified(&[old(cwnd_segments)(0), later]).1.last().map(|stretch| stretch.limit)
    };
    assert_eq!(steady(|t| Observation { acked_bytes: 1_000_000 + t, ..old(40)(t) }), Limit::Loss);
    assert_eq!([of(25, 2), of(40, 2)], [Some(Limit::Loss); 2]);
    assert_eq!([of(25, 3), of(40, 3)], [Some(Limit::Unknown); 2]);
    let (much, small) = (of(40, 200), of(25, 200));
    assert_eq!((much, small), (Some(Limit::CongestionAvoidance), Some(Limit::Loss)), "by its threshold");
    let known = |prior| {
        let seen = |t| Observation { prior_cwnd_segments: Some(prior), ..old(32)(t) };
        let later = Observation { acked_bytes: 3_000_000, ..seen(1_000_000) };
        classified(&[seen(0), later]).1.last().map(|stretch| stretch.limit)
    };
    assert_eq!((known(40), known(30)), (Some(Limit::Loss), Some(Limit::Unknown)));
    // A loss soon after the observation began: alone it would be over after 99 times that distance.
    // The previous ones still count.
    let soon = |megabytes: u64| {
        let at = |t, cwnd, acked_bytes| Observation { acked_bytes, ..old(cwnd)(t) };
        let lost = Observation { reduction: Some(Reduction::Path), ..at(1000, 30, 1_010_000) };
        let later = at(1_000_000, 60, megabytes * 1_000_000);
        classified(&[at(0, 30, 1_000_000), lost, later]).1.last().map(|stretch| stretch.limit)
    };
    assert_eq!([soon(2), soon(3)], [Some(Limit::Loss), Some(Limit::Unknown)]);
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

/// Losses at a steady rate have no direction: what came later came before, too.
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

fn seen_in_packets(seen: Observation) -> Observation {
    Observation { cca: None, window_updates: Some(false), ..seen }
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
fn less_room_than_a_large_segment_is_a_full_window() {
    let almost = |t| Observation { in_flight_segments: 90, outstanding_bytes: 90 * 1448, ..roomy(t) };
    assert_eq!(steady(almost), Limit::CongestionAvoidance);
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

#[test]
fn a_full_device_is_recognised_by_the_memory_in_it() {
    let polled = |device_memory_bytes| {
        move |t| Observation {
            moment: Moment::Polled,
            device_memory_bytes: Some(device_memory_bytes),
            pacing_rate_bps: Some(40_000_000),
            ..roomy(t)
        }
    };
    assert_eq!(steady(polled(10_000)), Limit::OwnDevice);
    assert_eq!(steady(polled(0)), Limit::Unknown);
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
            least_rtt_us: times.2,
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
        let (times, stretches) = classified(&observations);
        let first_us = observations[0].time_us;
        let latest_us = observations.iter().map(|o| o.time_us).max().unwrap_or(first_us).max(first_us);
        let mut at_us = first_us;
        for stretch in stretches {
            prop_assert_eq!(stretch.from_us, at_us);
            prop_assert!(stretch.to_us > stretch.from_us);
            at_us = stretch.to_us;
        }
        prop_assert_eq!(at_us, latest_us);
        prop_assert_eq!(times.total_us(), latest_us - first_us);
        let sum: f64 = Limit::ALL.iter().map(|&limit| times.share(limit)).sum();
        prop_assert!(times.total_us() == 0 || (sum - 1.0).abs() < 1e-9, "{sum}");
    }

    /// Missing knowledge never turns one limit into another: the answer becomes unknown, or stays.
    #[test]
    fn knowing_less_never_names_another_application_or_buffer(o in any_observation()) {
        let known = Observation { moment: Moment::Arrival, state: CaState::Open, reduction: None, time_us: 0, ..o };
        let of = |o: Observation| classified(&[o, Observation { time_us: 1, ..o }]).1[0].limit;
        let less = Observation { send_buffer_bytes: None, writer_waits: None, ..known };
        prop_assert!(of(less) == of(known) || of(less) == Limit::Unknown, "{} {}", of(less), of(known));
    }
}
