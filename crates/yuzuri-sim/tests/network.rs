//! Whole scenarios: radio, wire, workloads and policy together.

use yuzuri_netmodel::Time;
use yuzuri_netmodel::radio::Phy;
use yuzuri_sim::cc::Bounds;
use yuzuri_sim::{
    Direction, FixedBounds, NoBounds, Observation, Scenario, ScenarioError, Steer, Terminal, Traffic, path,
    run,
};

fn wifi(terminals: Vec<Terminal>, duration_ms: u64) -> Scenario {
    let phys = vec![Phy::n(20, 1, 7); terminals.len()];
    Scenario::wireless(&phys, path(100_000_000, 1000, 20_000), terminals, duration_ms)
}

#[test]
fn a_seed_determines_the_result() {
    let scenario = wifi(vec![Terminal::uploading(); 5], 5_000);
    let first = run(&scenario, &mut NoBounds).expect("a run");
    let second = run(&scenario, &mut NoBounds).expect("a run");
    assert_eq!(first.terminals, second.terminals);
    assert_eq!((first.cell, first.wire, first.events), (second.cell, second.wire, second.events));
    let other = run(&scenario.seeded(2), &mut NoBounds).expect("a run");
    assert_ne!(first.terminals, other.terminals);
}

#[test]
fn uploads_and_downloads_share_the_airtime() {
    let mut terminals = vec![Terminal::uploading(); 2];
    terminals.extend(vec![Terminal::downloading(); 2]);
    let results = run(&wifi(terminals, 10_000), &mut NoBounds).expect("a run");
    let each = results.goodputs();
    assert!(each.iter().all(|mbps| *mbps > 0.3), "{each:?}");
    // 65 Mbit/s of 802.11n carry at most 57 of payload; two directions fill the air as well as one.
    assert!(results.total_mbps() > 30.0 && results.total_mbps() < 57.0, "{each:?}");
    let cell = results.cell.expect("a cell");
    let airtime_ns: u64 = cell.nodes().map(|node| node.airtime.total_ns()).sum();
    assert!(airtime_ns > 7_000_000_000, "{airtime_ns} ns of airtime in 10 s");
}

#[test]
fn a_transfer_of_limited_size_delivers_every_byte() {
    for direction in [Direction::Up, Direction::Down] {
        let terminal = Terminal::new(Traffic::Bulk { direction, bytes: Some(1_000_003) });
        let results = run(&wifi(vec![terminal; 3], 20_000), &mut NoBounds).expect("a run");
        for terminal in &results.terminals {
            assert_eq!(terminal.received_bytes, 1_000_003);
            assert!(terminal.finished_s.is_some_and(|at| at < 10.0), "{:?}", terminal.finished_s);
        }
    }
}

#[test]
fn requests_get_responses() {
    let traffic = Traffic::RequestResponse { request_bytes: 300, response_bytes: 20_000, think_ms: 100 };
    let results = run(&wifi(vec![Terminal::new(traffic)], 10_000), &mut NoBounds).expect("a run");
    let terminal = &results.terminals[0];
    let exchange_ms = terminal.exchange_ms.expect("exchanges");
    // One to two round trips of 20 ms for 14 segments, once both connections are established.
    assert!(exchange_ms > 20.0 && exchange_ms < 70.0, "{exchange_ms} ms");
    let expected = 10_000.0 / (100.0 + exchange_ms);
    assert!((terminal.exchanges as f64 - expected).abs() < 8.0, "{} of {expected:.0}", terminal.exchanges);
    // One more exchange may be in progress.
    let whole = terminal.exchanges * 20_300;
    assert!(terminal.received_bytes >= whole && terminal.received_bytes <= whole + 20_300);
}

#[test]
fn on_off_traffic_pauses() {
    let traffic = Traffic::OnOff { direction: Direction::Up, on_ms: 500, off_ms: 500 };
    let half = run(&wifi(vec![Terminal::new(traffic)], 10_000), &mut NoBounds).expect("a run").total_mbps();
    let full = run(&wifi(vec![Terminal::uploading()], 10_000), &mut NoBounds).expect("a run").total_mbps();
    assert!(half > 0.25 * full && half < 0.6 * full, "{half:.1} of {full:.1} Mbit/s");
}

#[test]
fn a_more_distant_server_has_a_longer_round_trip() {
    let mut terminals =
        vec![Terminal::new(Traffic::Bulk { direction: Direction::Up, bytes: Some(14_480) }); 2];
    terminals[1].extra_rtt_us = 100_000;
    let mut scenario = Scenario::wired(path(100_000_000, 1000, 20_000), terminals, 5_000);
    scenario.warm_up_ms = 1;
    let results = run(&scenario, &mut NoBounds).expect("a run");
    let min_rtt_ms = |n: usize| results.terminals[n].rtt.min_ms.expect("samples");
    assert!((min_rtt_ms(1) - min_rtt_ms(0) - 100.0).abs() < 2.0, "{} and {}", min_rtt_ms(0), min_rtt_ms(1));
}

#[test]
fn fixed_bounds_keep_the_queue_short() {
    let scenario = wifi(vec![Terminal::uploading(); 4], 10_000);
    let unbounded = run(&scenario, &mut NoBounds).expect("a run");
    let bound = Bounds { upper: Some(40), ..Bounds::default() };
    let bounded = run(&scenario, &mut FixedBounds(vec![bound; 4])).expect("a run");
    assert!(bounded.terminals.iter().all(|terminal| terminal.cwnd_mean <= 40.0));
    let (unbounded_ms, bounded_ms) =
        (unbounded.rtt_mean_ms().expect("samples"), bounded.rtt_mean_ms().expect("samples"));
    assert!(bounded_ms < 0.5 * unbounded_ms, "{bounded_ms:.0} of {unbounded_ms:.0} ms");
    assert!(bounded.jain() > 0.95, "{}", bounded.jain());
    assert!(bounded.total_mbps() > 0.9 * unbounded.total_mbps());
}

/// Records its observations.
#[derive(Default)]
struct RecordingSteer(Vec<(Time, Vec<Option<Observation>>)>);

impl Steer for RecordingSteer {
    fn steer(&mut self, now: Time, terminals: &[Option<Observation>], _bounds: &mut [Bounds]) {
        self.0.push((now, terminals.to_vec()));
    }
}

#[test]
fn a_policy_sees_uploads_twice_a_second() {
    let mut steer = RecordingSteer::default();
    let mut terminals = vec![Terminal::uploading(), Terminal::downloading(), Terminal::uploading()];
    terminals[2].start_ms = 3_000;
    let results = run(&wifi(terminals, 10_000), &mut steer).expect("a run");
    assert_eq!(steer.0.len(), 20);
    assert!(steer.0.windows(2).all(|pair| (pair[1].0 - pair[0].0).as_millis() == 500));
    let (_, last) = steer.0.last().expect("twenty");
    let first = last[0].expect("an upload");
    assert!(first.acked_bytes > 0 && first.acked_bytes <= results.terminals[0].received_bytes);
    assert!(first.min_rtt_us >= 20_000 && first.srtt_us >= first.min_rtt_us);
    assert!(last[1].is_none(), "the policy does not bound downloads");
    assert!(steer.0[3].1[2].is_none() && last[2].is_some());
}

#[test]
fn inconsistent_scenarios_are_refused() {
    let mut scenario = wifi(vec![Terminal::uploading(); 2], 1_000);
    scenario.terminals.pop();
    assert!(matches!(
        run(&scenario, &mut NoBounds),
        Err(ScenarioError::Stations { stations: 2, terminals: 1 })
    ));
    let mut scenario = wifi(vec![Terminal::uploading()], 1_000);
    scenario.warm_up_ms = 1_000;
    assert!(matches!(run(&scenario, &mut NoBounds), Err(ScenarioError::Range { field: "warm_up_ms", .. })));
}

#[test]
fn a_thousand_terminals_run() {
    let phys = vec![Phy::ac(80, 1, 9); 1000];
    let scenario = Scenario::wireless(
        &phys,
        path(1_000_000_000, 1000, 20_000),
        vec![Terminal::uploading(); 1000],
        2_000,
    );
    let results = run(&scenario, &mut NoBounds).expect("a run");
    assert_eq!(results.terminals.len(), 1000);
    assert!(results.goodputs_total().iter().sum::<f64>() > 10.0);
}
