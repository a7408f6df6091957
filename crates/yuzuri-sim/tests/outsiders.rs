//! Sharing terminals keep most of an equal share next to terminals that do not share, and the total
//! does not drop.
#![allow(clippy::unwrap_used)]

use yuzuri_netmodel::radio::Phy;
use yuzuri_policy::PolicyConfig;
use yuzuri_sim::{NoBounds, Results, Scenario, Sharing, Steer, Terminal, hint_of, path, run};

const TERMINALS: usize = 8;

fn cell(seed: u64) -> Scenario {
    let wire = path(1_000_000_000, 1000, 64_000);
    let terminals = vec![Terminal::uploading(); TERMINALS];
    let mut scenario = Scenario::wireless(&[Phy::n(20, 1, 7); TERMINALS], wire, terminals, 40_000);
    scenario.warm_up_ms = 10_000;
    scenario.seeded(seed)
}

fn steered(seed: u64, steer: &mut dyn Steer) -> Results {
    run(&cell(seed), steer).unwrap()
}

#[test]
fn sharing_terminals_get_most_of_an_equal_share_next_to_outsiders() {
    for (outside, seed) in [(4, 1), (4, 2), (4, 3), (1, 1)] {
        let hint = hint_of(Phy::n(20, 1, 7));
        let radios: Vec<_> = (0..TERMINALS).map(|n| (n < TERMINALS - outside).then_some(hint)).collect();
        let shared = steered(seed, &mut Sharing::new(PolicyConfig::default(), &radios));
        let rates = shared.goodputs();
        let inside = &rates[..TERMINALS - outside];
        let equal_share = shared.total_mbps() / TERMINALS as f64;
        let ratio = inside.iter().sum::<f64>() / inside.len() as f64 / equal_share;
        assert!(
            ratio > 0.75,
            "{ratio:.2} of an equal share with {outside} outside, seed {seed}: {rates:.1?}"
        );
        let plain = steered(seed, &mut NoBounds).total_mbps();
        assert!(shared.total_mbps() > 0.95 * plain, "{} of {plain}", shared.total_mbps());
    }
}
