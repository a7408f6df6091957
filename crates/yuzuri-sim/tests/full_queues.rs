//! Sharing that starts among flows that have filled the queues drains them, and does not attribute
//! them to outsiders.
#![allow(clippy::unwrap_used)]

use yuzuri_netmodel::Time;
use yuzuri_netmodel::radio::Phy;
use yuzuri_policy::{Phase, PolicyConfig};
use yuzuri_sim::cc::Bounds;
use yuzuri_sim::{NoBounds, Observation, Scenario, Sharing, Steer, Terminal, hint_of, path, run};

const TERMINALS: usize = 8;
const SHARING_STARTS: Time = Time::from_nanos(10_000_000_000);

/// Records the phase of each summary.
struct PhaseLog {
    sharing: Sharing,
    phases: Vec<Phase>,
}

impl Steer for PhaseLog {
    fn steer(&mut self, now: Time, terminals: &[Option<Observation>], bounds: &mut [Bounds]) {
        self.sharing.steer(now, terminals, bounds);
        self.phases.extend(self.sharing.summary().map(|summary| summary.phase));
    }
}

#[test]
fn existing_queues_drain_and_are_not_attributed_to_outsiders() {
    let radio = Phy::n(20, 1, 7);
    for rtt_us in [2_000, 64_000] {
        for seed in 1..=3 {
            let terminals = vec![Terminal::uploading(); TERMINALS];
            let wire = path(1_000_000_000, 1000, rtt_us);
            let mut cell = Scenario::wireless(&[radio; TERMINALS], wire, terminals, 50_000).seeded(seed);
            cell.warm_up_ms = 30_000;
            let plain = run(&cell, &mut NoBounds).unwrap();
            let radios = [Some(hint_of(radio)); TERMINALS];
            let sharing = Sharing::new(PolicyConfig::default(), &radios).starting_at(SHARING_STARTS);
            let mut log = PhaseLog { sharing, phases: Vec::new() };
            let shared = run(&cell, &mut log).unwrap();
            assert!(!log.phases.is_empty());
            let misattributed =
                log.phases.iter().filter(|phase| matches!(phase, Phase::Contend | Phase::Off)).count();
            assert_eq!(misattributed, 0, "{rtt_us} us, seed {seed}: {:?}", log.phases);
            let (before_ms, after_ms) = (plain.rtt_mean_ms().unwrap(), shared.rtt_mean_ms().unwrap());
            assert!(
                after_ms < before_ms / 4.0,
                "{after_ms} ms after {before_ms} ms, {rtt_us} us, seed {seed}"
            );
            assert!(shared.total_mbps() > 0.95 * plain.total_mbps());
        }
    }
}
