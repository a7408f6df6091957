//! A path whose delay varies by more than the target queue does not starve a group.
#![allow(clippy::unwrap_used)]

use yuzuri_netmodel::radio::Phy;
use yuzuri_policy::PolicyConfig;
use yuzuri_sim::{
    Change, ChangeKind, NoBounds, Results, Scenario, Sharing, Steer, Terminal, hint_of, path, run,
};

const TERMINALS: usize = 2;

/// Two terminals behind a mobile network of 50 ms. Its rate doubles after 15 s if `doubles`.
fn setting(jitter_ms: u64, doubles: bool) -> Scenario {
    let mut wire = path(10_000_000, 400, 50_000);
    wire.up.jitter_us = jitter_ms * 1000;
    wire.down.jitter_us = jitter_ms * 1000;
    let terminals = vec![Terminal::uploading(); TERMINALS];
    let mut scenario = Scenario::wireless(&[Phy::ac(80, 1, 9); TERMINALS], wire, terminals, 60_000);
    if doubles {
        scenario.changes = vec![Change { at_ms: 15_000, what: ChangeKind::Wire { rate_bps: 20_000_000 } }];
    }
    scenario.warm_up_ms = 20_000;
    scenario
}

fn steered(scenario: &Scenario, steer: &mut dyn Steer) -> Results {
    run(scenario, steer).unwrap()
}

fn mean_rtt_ms(results: &Results) -> f64 {
    results.terminals.iter().map(|t| t.srtt_mean_ms).sum::<f64>() / results.terminals.len() as f64
}

/// Up to 10 ms of jitter each way change nothing. More than that hides the target queue: some of a
/// rate that rises later may remain unused (`docs/sharing.md`, other access networks).
#[test]
fn jitter_does_not_starve_a_group() {
    for doubles in [false, true] {
        for jitter_ms in [0, 2, 5, 10, 15, 20, 25, 30] {
            let scenario = setting(jitter_ms, doubles);
            let hint = Some(hint_of(Phy::ac(80, 1, 9)));
            let shared = steered(&scenario, &mut Sharing::new(PolicyConfig::default(), &[hint; TERMINALS]));
            let plain = steered(&scenario, &mut NoBounds);
            let part = shared.total_mbps() / plain.total_mbps();
            let [rtt_ms, plain_ms] = [&shared, &plain].map(mean_rtt_ms);
            println!(
                "{jitter_ms} ms, doubles: {doubles}: {part:.3} of CUBIC, {rtt_ms:.0} of {plain_ms:.0} ms"
            );
            let least = if jitter_ms <= 10 { 0.98 } else { 0.6 };
            assert!(part >= least, "{jitter_ms} ms, doubles: {doubles}: {part:.3} of CUBIC's total");
            assert!(jitter_ms > 10 || rtt_ms < 50.0 + 40.0, "{jitter_ms} ms: RTT of {rtt_ms:.0} ms");
        }
    }
}
