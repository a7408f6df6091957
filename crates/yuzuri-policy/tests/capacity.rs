//! The leader's evaluation of reports, on a path with a fixed rate: no clock, no noise.

use std::time::{Duration, Instant};
use yuzuri_policy::{Capacity, Destination, Moment, Objective, Phase, Report, Summary};

const HERE: Destination = Destination(7);
const BASE_US: u32 = 64_000;

fn at(seconds: f64) -> Moment {
    Moment::at(Duration::from_secs_f64(seconds))
}

fn report(rate_bps: f64, alone_bps: f64) -> Report {
    Report {
        rate_bps: rate_bps as u64,
        alone_bps: alone_bps as u64,
        flows: 1,
        elastic: true,
        queue_us: 10_000,
        srtt_us: BASE_US + 10_000,
        lost_permille: 0,
        destinations: vec![(HERE, BASE_US)],
    }
}

/// Runs the group for some seconds; returns the last summary.
fn group(capacity: &mut Capacity, from_s: f64, to_s: f64, reports: &[Report]) -> Summary {
    let mut said = Summary::default();
    for tick in (from_s * 2.0) as u32..(to_s * 2.0) as u32 {
        said = capacity.sum(at(f64::from(tick) / 2.0), reports.len() as u16, reports);
    }
    said
}

#[test]
fn start_up_lasts_while_more_and_more_is_carried() {
    let mut capacity = Capacity::new(Objective::Balanced);
    let mut said = Summary::default();
    for tick in 0..20 {
        let rate_bps = 1e6 * 1.3_f64.powi(tick);
        said = capacity.sum(at(f64::from(tick) / 2.0), 1, &[report(rate_bps, 0.0)]);
        assert_eq!(said.phase, Phase::StartUp, "at {tick}");
    }
    let rate_bps = said.capacity_bps as f64;
    said = group(&mut capacity, 10.0, 13.0, &[report(rate_bps, 0.0)]);
    assert_eq!(said.phase, Phase::Hold);
}

#[test]
fn a_queue_that_stays_ends_the_start_up() {
    let mut capacity = Capacity::new(Objective::Balanced);
    let queued = Report { srtt_us: BASE_US + 200_000, ..report(10e6, 0.0) };
    // Two seconds show no growth yet.
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
    let said = group(&mut capacity, 0.0, 4.0, &vec![report(10e6, 0.0); 4]);
    assert_eq!((said.senders, said.share_bps), (4, 10_000_000));
    let mut five = vec![report(10e6, 0.0); 4];
    five.push(report(0.1e6, 0.0));
    let said = capacity.sum(at(4.0), 5, &five);
    // 40.1 Mbit/s is the best now.
    assert_eq!((said.senders, said.share_bps), (5, 8_020_000));
}

#[test]
fn who_wants_less_leaves_the_rest_to_the_others() {
    let mut capacity = Capacity::new(Objective::Balanced);
    group(&mut capacity, 0.0, 4.0, &vec![report(10e6, 0.0); 4]);
    let modest = Report { elastic: false, rate_bps: 1_000_000, ..report(0.0, 0.0) };
    let said = capacity.sum(at(4.0), 4, &[modest, report(10e6, 0.0), report(10e6, 0.0), report(10e6, 0.0)]);
    assert_eq!(said.share_bps, 13_000_000);
}

#[test]
fn slow_radios_get_their_part_of_the_air_and_no_more() {
    let mut capacity = Capacity::new(Objective::Balanced);
    let cell = [report(70e6, 280e6), report(70e6, 280e6), report(13e6, 52e6), report(13e6, 52e6)];
    let said = group(&mut capacity, 0.0, 8.0, &cell);
    // A quarter of the air each.
    assert_eq!(said.air_share_ppm, 250_000);
    assert_eq!(said.alone_max_bps, 0);
}

#[test]
fn a_wire_is_told_from_the_air_that_nobody_takes() {
    let mut capacity = Capacity::new(Objective::Balanced);
    let cell = [report(40e6, 280e6), report(40e6, 280e6), report(7e6, 52e6), report(7e6, 52e6)];
    let said = group(&mut capacity, 0.0, 8.0, &cell);
    assert_eq!(said.alone_max_bps, 94_000_000);
    // The same fraction for each of its rate alone over that wire: 94 / (94 + 94 + 52 + 52).
    assert_eq!(said.air_share_ppm, 321_917);
}

#[test]
fn losses_without_queues_spread_windows_and_queues_with_losses_do_not() {
    for (queue_us, paced) in [(2_000, true), (100_000, false)] {
        let mut capacity = Capacity::new(Objective::Balanced);
        let lossy = Report { lost_permille: 5, srtt_us: BASE_US + queue_us, ..report(20e6, 280e6) };
        let said = group(&mut capacity, 0.0, 8.0, &vec![lossy; 2]);
        assert_eq!(said.paced, paced, "{queue_us}");
    }
}

#[test]
fn probes_come_while_there_is_more() {
    let mut capacity = Capacity::new(Objective::Balanced);
    group(&mut capacity, 0.0, 4.0, &[report(10e6, 20e6)]);
    let mut probed = 0;
    let (mut share_bps, mut air_share_ppm) = (0.0_f64, 0);
    for tick in 8..48 {
        let said = capacity.sum(at(f64::from(tick) / 2.0), 1, &[report(10e6, 20e6)]);
        probed += u32::from(said.phase == Phase::Probe);
        share_bps = share_bps.max(said.share_bps as f64);
        air_share_ppm = air_share_ppm.max(said.air_share_ppm);
    }
    assert!((2..10).contains(&probed), "{probed}");
    assert!((12.4e6..12.6e6).contains(&share_bps), "{share_bps}");
    // Its whole rate alone over this wire, and a quarter more.
    assert!((1_240_000..1_260_000).contains(&air_share_ppm), "{air_share_ppm}");
}

/// Four members that know their radios, after some time of sharing.
fn settled(capacity: &mut Capacity, to_s: f64) {
    let said = group(capacity, 0.0, to_s, &vec![report(10e6, 50e6); 4]);
    assert_eq!(said.phase, Phase::Hold);
}

fn queued(rate_bps: f64, alone_bps: f64) -> Report {
    Report { srtt_us: 4 * BASE_US, ..report(rate_bps, alone_bps) }
}

/// A path: its rate, bit/s; others' queue on it, seconds; anything beyond that is lost.
struct Path {
    carries_bps: f64,
    others_s: f64,
}

const HOLDS_S: f64 = 0.400;

const BASE_S: f64 = BASE_US as f64 / 1e6;

/// Runs four members on a path for some seconds: windows follow the leader, and the path carries
/// them. Returns the phases, and updates the last summary.
fn on_path(capacity: &mut Capacity, said: &mut Summary, path: &Path, from_s: f64, to_s: f64) -> Vec<Phase> {
    let (mut phases, mut rtt_s) = (Vec::new(), BASE_S + path.others_s);
    for tick in (from_s * 2.0) as u32..(to_s * 2.0) as u32 {
        let share_bps = f64::from(said.air_share_ppm) / 1e6 * 50e6;
        let window = match said.phase {
            Phase::Contend => share_bps * rtt_s,
            _ => share_bps * (BASE_S + f64::from(said.queue_us) / 1e6),
        };
        let empty_s = BASE_S + path.others_s;
        let rate_bps = (window / empty_s).min(path.carries_bps / 4.0);
        rtt_s = (window / rate_bps).clamp(empty_s, empty_s + HOLDS_S);
        let member = Report { srtt_us: (rtt_s * 1e6) as u32, ..report(rate_bps, 50e6) };
        *said = capacity.sum(at(f64::from(tick) / 2.0), 4, &vec![member; 4]);
        if phases.last() != Some(&said.phase) {
            phases.push(said.phase);
        }
    }
    phases.retain(|phase| *phase != Phase::Probe);
    phases.dedup();
    phases
}

/// The four of [`settled`], and their summary.
fn settled_and_said(capacity: &mut Capacity) -> Summary {
    group(capacity, 0.0, 10.0, &vec![report(10e6, 50e6); 4])
}

#[test]
fn behind_others_queue_windows_stay_wide_for_half_a_minute() {
    let mut capacity = Capacity::new(Objective::Balanced);
    let mut said = settled_and_said(&mut capacity);
    let others = Path { carries_bps: 40e6, others_s: 0.250 };
    let phases = on_path(&mut capacity, &mut said, &others, 10.0, 40.0);
    assert_eq!(phases, [Phase::Hold, Phase::Contend]);
    // The shares are unchanged, and not what the others left.
    assert!(said.air_share_ppm > 180_000, "{said:?}");
    // They leave.
    let phases = on_path(&mut capacity, &mut said, &Path { others_s: 0.0, ..others }, 40.0, 60.0);
    assert_eq!(phases, [Phase::Contend, Phase::StartUp, Phase::Hold]);
}

#[test]
fn capacity_that_falls_is_noticed_and_wider_windows_are_given_up() {
    let mut capacity = Capacity::new(Objective::Balanced);
    let mut said = settled_and_said(&mut capacity);
    // Half of the capacity is gone; unchanged windows cause a queue.
    let phases = on_path(&mut capacity, &mut said, &Path { carries_bps: 20e6, others_s: 0.0 }, 10.0, 30.0);
    assert_eq!(phases, [Phase::Hold, Phase::Contend, Phase::Hold]);
    assert_eq!((said.capacity_bps, said.queue_us), (20_000_000, 20_000));
}

#[test]
fn what_is_missing_with_pauses_is_missing_all_the_same() {
    let mut capacity = Capacity::new(Objective::Balanced);
    settled(&mut capacity, 10.0);
    let widened = (20..60).any(|tick| {
        // Others' queue lets the members through at times.
        let rate_bps = if tick % 3 == 2 { 9e6 } else { 6e6 };
        let said = capacity.sum(at(f64::from(tick) / 2.0), 4, &vec![queued(rate_bps, 50e6); 4]);
        said.phase == Phase::Contend
    });
    assert!(widened);
}

#[test]
fn who_carries_nothing_sees_no_queue() {
    let mut capacity = Capacity::new(Objective::Balanced);
    settled(&mut capacity, 10.0);
    for tick in 20..28 {
        let said = capacity.sum(at(f64::from(tick) / 2.0), 4, &vec![queued(0.0, 50e6); 4]);
        assert!(matches!(said.phase, Phase::Hold | Phase::Probe), "{said:?} at {tick}");
    }
}

/// A member's share after half a minute in which 0.8 of start-up's rate is carried behind a queue
/// of 50 ms.
fn share_behind_a_queue(base_us: u32) -> u64 {
    let on = |rate_bps: f64, queue_us: u32| Report {
        queue_us,
        srtt_us: base_us + queue_us,
        destinations: vec![(HERE, base_us)],
        ..report(rate_bps, 50e6)
    };
    let mut capacity = Capacity::new(Objective::Balanced);
    group(&mut capacity, 0.0, 10.0, &vec![on(10e6, 10_000); 4]);
    group(&mut capacity, 10.0, 35.0, &vec![on(8e6, 50_000); 4]).share_bps
}

#[test]
fn a_queue_that_start_up_leaves_on_a_long_path_is_drained() {
    assert!(share_behind_a_queue(512_000) < 9_000_000);
    // On a short path radio aggregates account for that much.
    assert!(share_behind_a_queue(BASE_US) > 9_500_000);
}

#[test]
fn radios_that_became_slower_miss_nothing() {
    let mut capacity = Capacity::new(Objective::Balanced);
    settled(&mut capacity, 10.0);
    for tick in 20..80 {
        let said = capacity.sum(at(f64::from(tick) / 2.0), 4, &vec![queued(5e6, 25e6); 4]);
        assert!(matches!(said.phase, Phase::Hold | Phase::Probe), "{said:?} at {tick}");
    }
}

#[test]
fn what_queues_let_go_at_once_is_not_missing_later() {
    let mut capacity = Capacity::new(Objective::Balanced);
    settled(&mut capacity, 10.0);
    // One and a half of all available air, once.
    capacity.sum(at(10.0), 4, &vec![queued(20e6, 50e6); 4]);
    for tick in 21..60 {
        let said = capacity.sum(at(f64::from(tick) / 2.0), 4, &vec![queued(10e6, 50e6); 4]);
        assert!(matches!(said.phase, Phase::Hold | Phase::Probe), "{said:?} at {tick}");
    }
}

/// If wide windows become worthwhile only after a while, they stay: half a minute, a minute, two;
/// after a long quiet time half a minute again.
#[test]
fn wide_windows_that_pay_stay_each_time_for_longer() {
    let mut capacity = Capacity::new(Objective::Balanced);
    let mut wide_s = Vec::new();
    let mut began = None;
    let mut tick = 0;
    let mut until = |to_s: u32, others: bool, wide_s: &mut Vec<u32>| {
        while tick < to_s * 2 {
            let each = match began {
                Some(from) if tick - from > 12 => report(10e6, 50e6),
                Some(_) => queued(5e6, 50e6),
                None if others && tick % 40 > 20 => queued(5e6, 50e6),
                None => report(10e6, 50e6),
            };
            let wide = capacity.sum(at(f64::from(tick) / 2.0), 4, &vec![each; 4]).phase == Phase::Contend;
            match began {
                None if wide => began = Some(tick),
                Some(from) if !wide => {
                    wide_s.push((tick - from) / 2);
                    began = None;
                }
                _ => {}
            }
            tick += 1;
        }
    };
    until(400, true, &mut wide_s);
    // Two seconds and eight for the checks, and then the time for which they stay.
    assert_eq!(wide_s[..3], [40, 70, 130]);
    until(1500, false, &mut wide_s);
    let in_peace = wide_s.len();
    until(1600, true, &mut wide_s);
    assert_eq!(wide_s[in_peace], 40, "{wide_s:?}");
}

#[test]
fn a_new_leader_goes_on_where_the_old_one_was() {
    let mut old = Capacity::new(Objective::Balanced);
    let members = vec![report(10e6, 40e6); 4];
    let said = group(&mut old, 0.0, 8.0, &members);
    let mut new = Capacity::resume(at(100.0), &said, Objective::Balanced);
    let next = new.sum(at(100.5), 4, &members);
    assert_eq!(next.phase, Phase::Hold);
    assert_eq!(next.capacity_bps, said.capacity_bps);
    assert!(next.air_share_ppm.abs_diff(said.air_share_ppm) <= 1);
}

#[test]
fn a_new_leader_keeps_wide_windows_where_the_old_one_had_them() {
    let members = vec![queued(6e6, 50e6); 4];
    for phase in [Phase::Contend, Phase::Off] {
        let said = Summary { phase, senders: 4, capacity_bps: 40_000_000, ..Summary::default() };
        let mut new = Capacity::resume(at(100.0), &said, Objective::Balanced);
        assert_eq!(new.sum(at(100.5), 4, &members).phase, Phase::Contend);
        assert_eq!(group(&mut new, 101.0, 131.0, &members).phase, Phase::StartUp);
    }
}

/// Prints the cost of the sum over a thousand members: `cargo test --release -p yuzuri-policy
/// --test capacity -- --ignored --nocapture`.
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
