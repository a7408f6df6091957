//! What the leader makes of reports, with a path that carries what it carries: no clock, no noise.

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

/// The group for some seconds; what was said last.
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
    // Two seconds tell nothing of growth yet.
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
    // To each the same part of what it would get alone over that wire: 94 / (94 + 94 + 52 + 52).
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
    // All of what it would get alone over this wire, and a quarter more.
    assert!((1_240_000..1_260_000).contains(&air_share_ppm), "{air_share_ppm}");
}

#[test]
fn capacity_that_falls_is_noticed() {
    let mut capacity = Capacity::new(Objective::Balanced);
    group(&mut capacity, 0.0, 10.0, &vec![report(10e6, 0.0); 4]);
    // Half of it is gone; windows as they were make a queue.
    let less = Report { srtt_us: 3 * BASE_US, ..report(5e6, 0.0) };
    let said = group(&mut capacity, 10.0, 17.0, &vec![less; 4]);
    assert_eq!(said.capacity_bps, 20_000_000);
}

#[test]
fn a_group_that_gives_way_in_vain_stands_off_and_tries_again() {
    let mut capacity = Capacity::new(Objective::Balanced);
    group(&mut capacity, 0.0, 10.0, &vec![report(10e6, 0.0); 4]);
    let pushed = |mbps: f64| Report { srtt_us: 4 * BASE_US, ..report(mbps * 1e6, 0.0) };
    group(&mut capacity, 10.0, 16.0, &vec![pushed(5.0); 4]);
    let said = group(&mut capacity, 16.0, 24.0, &vec![pushed(2.0); 4]);
    assert_eq!(said.phase, Phase::Off);
    let said = group(&mut capacity, 24.0, 60.0, &vec![report(10e6, 0.0); 4]);
    assert_ne!(said.phase, Phase::Off);
}

/// Four members that know their radios, after so much time of sharing.
fn settled(capacity: &mut Capacity, to_s: f64) {
    let said = group(capacity, 0.0, to_s, &vec![report(10e6, 50e6); 4]);
    assert_eq!(said.phase, Phase::Hold);
}

fn queued(rate_bps: f64, alone_bps: f64) -> Report {
    Report { srtt_us: 4 * BASE_US, ..report(rate_bps, alone_bps) }
}

#[test]
fn who_loses_ground_to_others_takes_it_back_and_stands_off() {
    let mut capacity = Capacity::new(Objective::Balanced);
    settled(&mut capacity, 10.0);
    let mut phases = Vec::new();
    for tick in 20..40 {
        let said = capacity.sum(at(f64::from(tick) / 2.0), 4, &vec![queued(6e6, 50e6); 4]);
        if phases.last() != Some(&said.phase) {
            phases.push(said.phase);
        }
        // Windows are to carry what was shared out before, not what others leave of it.
        assert!(said.phase != Phase::Contend || said.share_bps > 9_000_000, "{said:?}");
    }
    phases.retain(|phase| *phase != Phase::Probe);
    assert_eq!(phases, [Phase::Hold, Phase::Contend, Phase::Off]);
}

#[test]
fn windows_of_before_are_nobody_elses_queue() {
    let mut capacity = Capacity::new(Objective::Balanced);
    settled(&mut capacity, 10.0);
    // What they hold in flight is more than shares allow: members whose windows still shrink.
    let holding = Report { srtt_us: 20 * BASE_US, ..report(6e6, 50e6) };
    for tick in 20..30 {
        let said = capacity.sum(at(f64::from(tick) / 2.0), 4, &vec![holding.clone(); 4]);
        assert!(matches!(said.phase, Phase::Hold | Phase::Probe), "{said:?} at {tick}");
    }
}

#[test]
fn ground_that_is_lost_with_pauses_is_lost_all_the_same() {
    let mut capacity = Capacity::new(Objective::Balanced);
    settled(&mut capacity, 10.0);
    let off = (20..60).any(|tick| {
        // Others' queue lets the members through now and then.
        let rate_bps = if tick % 3 == 2 { 9e6 } else { 6e6 };
        let said = capacity.sum(at(f64::from(tick) / 2.0), 4, &vec![queued(rate_bps, 50e6); 4]);
        said.phase == Phase::Off
    });
    assert!(off);
}

#[test]
fn who_has_just_joined_may_hold_the_queue() {
    let mut capacity = Capacity::new(Objective::Balanced);
    settled(&mut capacity, 10.0);
    for tick in 20..32 {
        // Another member's first report every second.
        let senders = 4 + (tick as usize - 18) / 2;
        let said =
            capacity.sum(at(f64::from(tick) / 2.0), 12, &vec![queued(24e6 / senders as f64, 50e6); senders]);
        assert!(matches!(said.phase, Phase::Hold | Phase::Probe), "{said:?} at {tick}");
    }
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

/// What each may take after half a minute in which 0.8 of what start-up saw is carried behind a queue of 50 ms.
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
    // On a short one so much is the radios' aggregates.
    assert!(share_behind_a_queue(BASE_US) > 9_500_000);
}

#[test]
fn radios_that_became_slower_lose_no_ground() {
    let mut capacity = Capacity::new(Objective::Balanced);
    settled(&mut capacity, 10.0);
    for tick in 20..80 {
        let said = capacity.sum(at(f64::from(tick) / 2.0), 4, &vec![queued(5e6, 25e6); 4]);
        assert!(matches!(said.phase, Phase::Hold | Phase::Probe), "{said:?} at {tick}");
    }
}

#[test]
fn what_queues_let_go_at_once_is_no_ground_to_lose() {
    let mut capacity = Capacity::new(Objective::Balanced);
    settled(&mut capacity, 10.0);
    // One and a half of all the air there is, once.
    capacity.sum(at(10.0), 4, &vec![queued(20e6, 50e6); 4]);
    for tick in 21..60 {
        let said = capacity.sum(at(f64::from(tick) / 2.0), 4, &vec![queued(10e6, 50e6); 4]);
        assert!(matches!(said.phase, Phase::Hold | Phase::Probe), "{said:?} at {tick}");
    }
}

/// When the group stood off, second after second: half a minute, a minute, two; after a long peace half a minute again.
#[test]
fn each_time_it_stands_off_longer_and_forgets_that_in_peace() {
    let mut capacity = Capacity::new(Objective::Balanced);
    let mut offs = Vec::new();
    let mut began = None;
    let mut tick = 0;
    let mut until = |to_s: u32, rate_bps: f64, offs: &mut Vec<u32>| {
        while tick < to_s * 2 {
            // While the group shares, others take half of it; as plain CUBIC it has all.
            let taken = began.is_none() && tick % 40 > 20;
            let each = if taken && rate_bps < 10e6 { queued(rate_bps, 50e6) } else { report(10e6, 50e6) };
            let off = capacity.sum(at(f64::from(tick) / 2.0), 4, &vec![each; 4]).phase == Phase::Off;
            match began {
                None if off => began = Some(tick),
                Some(from) if !off => {
                    offs.push((tick - from) / 2);
                    began = None;
                }
                _ => {}
            }
            tick += 1;
        }
    };
    until(300, 5e6, &mut offs);
    assert_eq!(offs, [30, 60, 120]);
    until(1200, 10e6, &mut offs);
    let in_peace = offs.len();
    until(1300, 5e6, &mut offs);
    assert_eq!(offs[in_peace], 30, "{offs:?}");
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
fn a_new_leader_stands_off_where_the_old_one_did() {
    let members = vec![queued(6e6, 50e6); 4];
    for phase in [Phase::Contend, Phase::Off] {
        let said = Summary { phase, senders: 4, capacity_bps: 40_000_000, ..Summary::default() };
        let mut new = Capacity::resume(at(100.0), &said, Objective::Balanced);
        assert_eq!(new.sum(at(100.5), 4, &members).phase, Phase::Off);
        assert_eq!(group(&mut new, 101.0, 131.0, &members).phase, Phase::StartUp);
    }
}

/// Prints what the sum over a thousand members costs: `cargo test --release -p yuzuri-policy --test capacity -- --ignored --nocapture`.
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
