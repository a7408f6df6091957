//! Capacity and shares on an ideal path: no clock, no noise.

use std::time::{Duration, Instant};
use yuzuri_policy::{Capacity, Destination, Moment, Objective, Phase, RadioHint, Report, Summary};

const HERE: Destination = Destination(7);
const BASE_US: u32 = 64_000;
/// The target queue of `balanced`.
const AIMED_AT_US: u32 = 20_000;

fn at(seconds: f64) -> Moment {
    Moment::at(Duration::from_secs_f64(seconds))
}

fn report(rate_bps: f64, alone_bps: f64) -> Report {
    Report {
        rate_bps: rate_bps as u64,
        alone_bps: alone_bps as u64,
        flows: 1,
        elastic: true,
        queue_us: AIMED_AT_US,
        srtt_us: BASE_US + AIMED_AT_US,
        lost_permille: 0,
        destinations: vec![(HERE, BASE_US)],
    }
}

/// Runs the group for some seconds; returns the last summary.
fn group(capacity: &mut Capacity, from_s: f64, to_s: f64, reports: &[Report]) -> Summary {
    let mut summary = Summary::default();
    for tick in (from_s * 2.0) as u32..(to_s * 2.0) as u32 {
        summary = capacity.sum(at(f64::from(tick) / 2.0), reports.len() as u16, reports);
    }
    summary
}

#[test]
fn start_up_lasts_while_the_total_rate_grows() {
    let mut capacity = Capacity::new(Objective::Balanced);
    let mut summary = Summary::default();
    for tick in 0..20 {
        let rate_bps = 1e6 * 1.3_f64.powi(tick);
        summary = capacity.sum(at(f64::from(tick) / 2.0), 1, &[report(rate_bps, 0.0)]);
        assert_eq!(summary.phase, Phase::StartUp, "at {tick}");
    }
    let rate_bps = summary.capacity_bps as f64;
    summary = group(&mut capacity, 10.0, 13.0, &[report(rate_bps, 0.0)]);
    assert_eq!(summary.phase, Phase::Hold);
}

#[test]
fn a_standing_queue_ends_start_up() {
    let mut capacity = Capacity::new(Objective::Balanced);
    let queued = Report { srtt_us: BASE_US + 200_000, ..report(10e6, 0.0) };
    // Growth is not measurable yet after two seconds.
    let mut phases = Vec::new();
    for tick in 0..4 {
        let faster = Report { rate_bps: 10_000_000 + 3_000_000 * tick, ..queued.clone() };
        phases.push(capacity.sum(at(tick as f64 / 2.0), 1, &[faster]).phase);
    }
    assert_eq!(phases[0], Phase::StartUp);
    assert_eq!(phases[3], Phase::Hold);
}

#[test]
fn equal_members_share_evenly_and_a_newcomer_is_counted_at_once() {
    let mut capacity = Capacity::new(Objective::Balanced);
    let summary = group(&mut capacity, 0.0, 3.5, &vec![report(10e6, 0.0); 4]);
    assert_eq!((summary.senders, summary.share_bps), (4, 10_000_000));
    let mut five = vec![report(10e6, 0.0); 4];
    five.push(report(0.1e6, 0.0));
    let summary = capacity.sum(at(3.5), 5, &five);
    // 40.1 Mbit/s is the best now.
    assert_eq!((summary.senders, summary.share_bps), (5, 8_020_000));
}

/// A sender that was suspended, or used plain congestion control before, already fills the path. It
/// has not received a summary, so the announced windows do not limit its rate.
#[test]
fn a_new_sender_that_fills_the_path_is_not_limited_by_earlier_announcements() {
    let mut capacity = Capacity::new(Objective::Balanced);
    group(&mut capacity, 0.0, 10.0, &[report(5e6, 0.0)]);
    let queued = |rate| Report { queue_us: 150_000, srtt_us: BASE_US + 150_000, ..report(rate, 0.0) };
    // The current rate is the mean of two ticks.
    for (seconds, share_bps) in [(10.0, 6_250_000), (10.5, 10_000_000)] {
        let summary = capacity.sum(at(seconds), 2, &[queued(5e6), queued(15e6)]);
        assert_eq!((summary.senders, summary.phase, summary.share_bps), (2, Phase::Hold, share_bps));
    }
}

#[test]
fn a_member_that_wants_less_leaves_the_rest_to_the_others() {
    let mut capacity = Capacity::new(Objective::Balanced);
    group(&mut capacity, 0.0, 3.5, &vec![report(10e6, 0.0); 4]);
    let modest = Report { elastic: false, rate_bps: 1_000_000, ..report(0.0, 0.0) };
    let summary =
        capacity.sum(at(3.5), 4, &[modest, report(10e6, 0.0), report(10e6, 0.0), report(10e6, 0.0)]);
    assert_eq!(summary.share_bps, 13_000_000);
}

#[test]
fn slow_radios_get_their_share_of_airtime_and_no_more() {
    let mut capacity = Capacity::new(Objective::Balanced);
    let cell = [report(70e6, 280e6), report(70e6, 280e6), report(13e6, 52e6), report(13e6, 52e6)];
    let summary = group(&mut capacity, 0.0, 8.0, &cell);
    // A quarter of the air each.
    assert_eq!(summary.air_share_ppm, 250_000);
    assert_eq!(summary.alone_max_bps, 0);
}

#[test]
fn a_wire_is_distinguished_from_idle_air() {
    let mut capacity = Capacity::new(Objective::Balanced);
    let cell = [report(30e6, 280e6), report(30e6, 280e6), report(5e6, 52e6), report(5e6, 52e6)];
    let summary = group(&mut capacity, 0.0, 8.0, &cell);
    assert_eq!(summary.alone_max_bps, 70_000_000);
    // Each gets the same fraction of its rate alone over that wire: a quarter of 30 / 70 + 30 /
    // 70 + 5 / 52 + 5 / 52.
    assert!(summary.air_share_ppm.abs_diff(262_362) <= 1, "{}", summary.air_share_ppm);
}

/// A slow radio that is ahead in start-up uses much of the air. If the same rate then needs less
/// of it, with a queue as before, the air was not full. Full air would carry another rate.
#[test]
fn who_is_ahead_does_not_make_a_wire_look_like_air() {
    let said = |capacity: &mut Capacity, from_s: f64, to_s: f64, mbps: [f64; 4]| {
        let alone = [280e6, 280e6, 52e6, 52e6];
        let rates = mbps.iter().zip(alone);
        let cell: Vec<Report> = rates.map(|(mbps, alone_bps)| report(mbps * 1e6, alone_bps)).collect();
        group(capacity, from_s, to_s, &cell)
    };
    let mut capacity = Capacity::new(Objective::Balanced);
    assert_eq!(said(&mut capacity, 0.0, 4.0, [6.0, 6.0, 4.0, 34.0]).alone_max_bps, 0);
    let wire = said(&mut capacity, 4.0, 5.0, [18.0, 18.0, 5.0, 9.0]);
    assert_eq!((wire.phase, wire.alone_max_bps), (Phase::Hold, 50_000_000));
    let share_bps = |alone_bps| wire.share_of(RadioHint { alone_bps, aggregate_segments: 0 });
    assert_eq!(share_bps(280_000_000), share_bps(52_000_000));

    let mut capacity = Capacity::new(Objective::Balanced);
    said(&mut capacity, 0.0, 4.0, [10.0, 10.0, 20.0, 24.0]);
    let air = said(&mut capacity, 4.0, 5.0, [50.0, 50.0, 12.0, 12.0]);
    assert_eq!((air.phase, air.alone_max_bps), (Phase::Hold, 0));
}

/// Between wire and air the weights are interpolated: no share jumps as the rate changes.
#[test]
fn between_wire_and_air_shares_do_not_jump() {
    let share_bps = |fast_bps: f64| {
        let cell = [report(fast_bps, 280e6), report(fast_bps, 280e6), report(9e6, 52e6), report(9e6, 52e6)];
        let summary = group(&mut Capacity::new(Objective::Balanced), 0.0, 8.0, &cell);
        summary.share_of(RadioHint { alone_bps: 280_000_000, aggregate_segments: 0 })
    };
    let mut before_bps = share_bps(10e6);
    for mbps in 11..90 {
        let now_bps = share_bps(f64::from(mbps) * 1e6);
        assert!((0.95..1.2).contains(&(now_bps / before_bps)), "{mbps} Mbit/s: {before_bps} {now_bps}");
        before_bps = now_bps;
    }
}

#[test]
fn losses_pace_windows_only_without_a_queue() {
    for (queue_us, paced) in [(2_000, true), (100_000, false)] {
        let mut capacity = Capacity::new(Objective::Balanced);
        let lossy = Report { lost_permille: 5, srtt_us: BASE_US + queue_us, ..report(20e6, 280e6) };
        let summary = group(&mut capacity, 0.0, 8.0, &vec![lossy; 2]);
        assert_eq!(summary.paced, paced, "{queue_us}");
    }
}

#[test]
fn windows_grow_until_there_is_a_queue() {
    let on = |queue_us: u32| Report { queue_us, srtt_us: BASE_US + queue_us, ..report(10e6, 0.0) };
    let share_bps =
        |queue_us: u32| group(&mut Capacity::new(Objective::Balanced), 0.0, 8.0, &[on(queue_us)]).share_bps;
    // By a quarter at most, by half of that at half of the target queue, and not at all at the
    // target.
    assert_eq!((share_bps(0), share_bps(10_000), share_bps(20_000)), (12_500_000, 11_250_000, 10_000_000));
}

/// On a slow path two segments take longer than the target queue: one in transmission and one that
/// waits are no queue. At 600 kbit/s they take 39 ms.
#[test]
fn two_segments_are_no_queue() {
    let share_bps = |rate_bps: f64| {
        let seen = Report { lost_permille: 5, srtt_us: BASE_US + 15_000, ..report(rate_bps, 0.0) };
        let summary = group(&mut Capacity::new(Objective::Balanced), 0.0, 8.0, &[seen]);
        assert!(summary.paced);
        summary.share_bps as f64 / rate_bps
    };
    assert!(share_bps(600e3) > 1.05, "{}", share_bps(600e3));
    assert!(share_bps(20e6) <= 1.0, "{}", share_bps(20e6));
}

/// A path: its capacity, bit/s, and the queue of other senders, seconds. Data beyond its buffer is
/// lost.
#[derive(Clone, Copy)]
struct Path {
    carries_bps: f64,
    others_s: f64,
}

const HOLDS_S: f64 = 2.0;
const BASE_S: f64 = BASE_US as f64 / 1e6;
const MEMBERS: usize = 4;

/// Runs members on a path for some seconds: they apply the announced windows one tick later.
/// Returns the phases, and the last summary in `summary`.
fn on_path(capacity: &mut Capacity, summary: &mut Summary, path: Path, from_s: f64, to_s: f64) -> Vec<Phase> {
    let mut phases = Vec::new();
    for tick in (from_s * 2.0) as u32..(to_s * 2.0) as u32 {
        let share_bps = summary.share_of(RadioHint { alone_bps: 50_000_000, aggregate_segments: 0 });
        let window = share_bps * (BASE_S + f64::from(summary.queue_us) / 1e6);
        let empty_s = BASE_S + path.others_s;
        let rate_bps = (window / empty_s).min(path.carries_bps / MEMBERS as f64);
        let rtt_s = (window / rate_bps).clamp(empty_s, empty_s + HOLDS_S);
        let member = Report { srtt_us: (rtt_s * 1e6) as u32, ..report(rate_bps, 50e6) };
        *summary = capacity.sum(at(f64::from(tick) / 2.0), MEMBERS as u16, &vec![member; MEMBERS]);
        if phases.last() != Some(&summary.phase) {
            phases.push(summary.phase);
        }
    }
    phases
}

const ALONE: Path = Path { carries_bps: 40e6, others_s: 0.0 };

/// Members that have shared a path alone for 10 s.
fn settled(capacity: &mut Capacity) -> Summary {
    let mut summary = group(capacity, 0.0, 5.0, &vec![report(10e6, 50e6); MEMBERS]);
    on_path(capacity, &mut summary, ALONE, 5.0, 10.0);
    summary
}

#[test]
fn the_fixed_point_is_the_queue_that_is_aimed_at() {
    let mut capacity = Capacity::new(Objective::Balanced);
    let summary = settled(&mut capacity);
    assert_eq!((summary.phase, summary.queue_us), (Phase::Hold, AIMED_AT_US));
    assert!(summary.air_share_ppm.abs_diff(200_000) < 2_000, "{summary:?}");
}

/// What a step has shown holds while the group carries as much: there are no more steps up, which
/// would lengthen the queue by half of the round trip. They begin again once it carries less.
#[test]
fn a_group_that_carries_all_makes_no_steps_up() {
    let mut capacity = Capacity::new(Objective::Balanced);
    let mut summary = settled(&mut capacity);
    let mut longest_us = 0;
    for tick in 20..240 {
        let now_s = f64::from(tick) / 2.0;
        on_path(&mut capacity, &mut summary, ALONE, now_s, now_s + 0.5);
        longest_us = longest_us.max(summary.srtt_us);
    }
    assert!(longest_us < BASE_US + AIMED_AT_US * 3 / 2, "{longest_us}");
}

#[test]
fn behind_others_queue_the_group_carries_what_it_did() {
    let mut capacity = Capacity::new(Objective::Balanced);
    let mut summary = settled(&mut capacity);
    let others = Path { others_s: 0.250, ..ALONE };
    let phases = on_path(&mut capacity, &mut summary, others, 10.0, 25.0);
    assert_eq!(phases, [Phase::Hold, Phase::Contend]);
    assert!(summary.air_share_ppm > 180_000, "{summary:?}");
    // The other senders leave.
    on_path(&mut capacity, &mut summary, ALONE, 25.0, 100.0);
    assert_eq!((summary.phase, summary.queue_us), (Phase::Hold, AIMED_AT_US));
}

#[test]
fn a_capacity_that_falls_is_not_attributed_to_outsiders() {
    for part in [0.5, 0.2, 0.1] {
        let mut capacity = Capacity::new(Objective::Balanced);
        let mut summary = settled(&mut capacity);
        let phases =
            on_path(&mut capacity, &mut summary, Path { carries_bps: part * 40e6, ..ALONE }, 10.0, 25.0);
        assert_eq!(phases, [Phase::Hold], "{part}");
        let share_bps = summary.share_of(RadioHint { alone_bps: 50_000_000, aggregate_segments: 0 });
        assert!((0.95..1.05).contains(&(share_bps / (part * 10e6))), "{part}: {summary:?}");
        assert!(summary.srtt_us < BASE_US + 2 * AIMED_AT_US, "{part}: {summary:?}");
    }
}

/// Members of several groups share a bottleneck from now on, because a wire became slow. Their
/// rates were still measured on the fast one, and no leader has announced windows to all of them.
/// Their data in flight shows what they send at most: the queue is their own.
#[test]
fn a_new_group_of_known_members_does_not_attribute_its_queue_to_outsiders() {
    for part in [0.5, 0.2, 0.1] {
        let flight_bits = 40e6 * (BASE_S + f64::from(AIMED_AT_US) / 1e6);
        let slow = Path { carries_bps: part * 40e6, ..ALONE };
        let rtt_s = flight_bits / slow.carries_bps;
        let stale = Report { srtt_us: (rtt_s * 1e6) as u32, ..report(10e6, 50e6) };
        let mut capacity = Capacity::regrouped(Objective::Balanced);
        capacity.carries_at_most(Some(flight_bits / rtt_s));
        let stale = vec![stale; MEMBERS];
        let mut summary = capacity.sum(at(0.0), MEMBERS as u16, &stale);
        assert!((0.99..1.01).contains(&(summary.capacity_bps as f64 / slow.carries_bps)), "{summary:?}");
        // The reports of the next tick still cover that time, too.
        capacity.sum(at(0.5), MEMBERS as u16, &stale);
        capacity.carries_at_most(None);
        let phases = on_path(&mut capacity, &mut summary, slow, 1.0, 15.0);
        assert_eq!(phases, [Phase::Hold], "{part}");
        assert!(summary.srtt_us < BASE_US + 2 * AIMED_AT_US, "{part}: {summary:?}");
    }
}

#[test]
fn a_capacity_increase_is_found() {
    let mut capacity = Capacity::new(Objective::Balanced);
    let mut summary = settled(&mut capacity);
    on_path(&mut capacity, &mut summary, Path { carries_bps: 160e6, ..ALONE }, 10.0, 16.0);
    assert!(summary.capacity_bps > 150_000_000, "{summary:?}");
}

#[test]
fn idle_members_report_no_queue() {
    let mut capacity = Capacity::new(Objective::Balanced);
    settled(&mut capacity);
    let silent = Report { srtt_us: 4 * BASE_US, ..report(0.0, 50e6) };
    let summary = group(&mut capacity, 10.0, 14.0, &vec![silent; MEMBERS]);
    assert_eq!(summary.phase, Phase::Hold);
}

#[test]
fn a_new_leader_continues_from_the_last_summary() {
    let mut old = Capacity::new(Objective::Balanced);
    let members = vec![report(10e6, 40e6); 4];
    let summary = group(&mut old, 0.0, 8.0, &members);
    let mut new = Capacity::resume(at(100.0), &summary, Objective::Balanced);
    let next = new.sum(at(100.5), 4, &members);
    assert_eq!(next.phase, Phase::Hold);
    assert_eq!(next.capacity_bps, summary.capacity_bps);
    assert!(next.air_share_ppm.abs_diff(summary.air_share_ppm) <= 1);
}

#[test]
fn a_new_leader_keeps_the_shares_behind_a_standing_queue() {
    let mut old = Capacity::new(Objective::Balanced);
    let mut summary = settled(&mut old);
    let others = Path { others_s: 0.250, ..ALONE };
    on_path(&mut old, &mut summary, others, 10.0, 25.0);
    let mut new = Capacity::resume(at(25.0), &summary, Objective::Balanced);
    let phases = on_path(&mut new, &mut summary, others, 25.0, 30.0);
    assert_eq!(phases, [Phase::Contend]);
    assert!(summary.air_share_ppm > 180_000, "{summary:?}");
}

/// Prints what the sum over a thousand members costs: `cargo test --release -p yuzuri-policy --test
/// capacity -- --ignored --nocapture`.
#[test]
#[ignore = "prints a time"]
fn cost_of_a_thousand_members() {
    let mut capacity = Capacity::new(Objective::Balanced);
    let members = vec![report(1e5, 300e6); 1000];
    let mut times: Vec<Duration> = (0..200)
        .map(|tick| {
            let begun = Instant::now();
            std::hint::black_box(capacity.sum(at(f64::from(tick) / 2.0), 1000, &members));
            begun.elapsed()
        })
        .collect();
    times.sort();
    println!("the sum over 1,000 members: median {:?}, most {:?}", times[100], times[199]);
}
