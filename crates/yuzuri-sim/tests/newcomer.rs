//! A terminal that joins a sharing cell reaches its share within three seconds, and does not take
//! more because it has never seen the path without a queue.
#![allow(clippy::unwrap_used)]

use yuzuri_netmodel::Time;
use yuzuri_netmodel::radio::Phy;
use yuzuri_policy::PolicyConfig;
use yuzuri_sim::cc::Bounds;
use yuzuri_sim::{Observation, Scenario, Sharing, Steer, Terminal, hint_of, path, run};

const TERMINALS: usize = 6;
const JOINS_MS: u64 = 8_000;
/// The share is measured from three seconds after joining, over two seconds.
const MEASURED_S: [f64; 2] = [11.0, 13.0];

/// Shares, and counts the segments that each terminal delivers in that period.
struct DeliveredCounter {
    sharing: Sharing,
    delivered: [Vec<u64>; 2],
}

impl Steer for DeliveredCounter {
    fn steer(&mut self, now: Time, terminals: &[Option<Observation>], bounds: &mut [Bounds]) {
        self.sharing.steer(now, terminals, bounds);
        for (at_s, delivered) in MEASURED_S.iter().zip(&mut self.delivered) {
            if delivered.is_empty() && now.as_secs_f64() >= *at_s {
                *delivered = terminals.iter().map(|seen| seen.map_or(0, |seen| seen.delivered)).collect();
            }
        }
    }
}

#[test]
fn a_new_terminal_reaches_its_share_within_three_seconds() {
    for (phy, rtt_us) in [(Phy::ac(80, 1, 9), 2_000), (Phy::ac(80, 1, 9), 64_000), (Phy::g(54), 64_000)] {
        for seed in 1..4 {
            let mut terminals = vec![Terminal::uploading(); TERMINALS];
            terminals[TERMINALS - 1].start_ms = JOINS_MS;
            let wire = path(1_000_000_000, 1000, rtt_us);
            let scenario =
                Scenario::wireless(&[phy; TERMINALS], wire, terminals, JOINS_MS + 6_000).seeded(seed);
            let sharing = Sharing::new(PolicyConfig::default(), &[Some(hint_of(phy)); TERMINALS]);
            let mut counter = DeliveredCounter { sharing, delivered: [Vec::new(), Vec::new()] };
            run(&scenario, &mut counter).unwrap();
            let [before, after] = &counter.delivered;
            let delivered: Vec<u64> = after.iter().zip(before).map(|(a, b)| a - b).collect();
            let equal_share = delivered.iter().sum::<u64>() as f64 / TERMINALS as f64;
            let ratio = delivered[TERMINALS - 1] as f64 / equal_share;
            assert!(
                (0.75..1.5).contains(&ratio),
                "{ratio:.2} of an equal share, {phy:?}, seed {seed}: {delivered:?}"
            );
        }
    }
}

/// Its minimum RTT contains the others' queue, so that its path looks empty to it.
#[test]
fn a_latecomer_that_has_only_seen_a_full_path_takes_no_more_than_its_share() {
    for (phy, rtt_us, count) in [
        (None, 2_000, 4),
        (None, 10_000, 4),
        (None, 10_000, 8),
        (Some(Phy::ac(80, 1, 9)), 2_000, 4),
        (Some(Phy::ac(80, 1, 9)), 10_000, 4),
    ] {
        for seed in 1..4 {
            let mut terminals = vec![Terminal::uploading(); count];
            terminals[count - 1].start_ms = JOINS_MS + 137 * seed;
            let wire = path(50_000_000, 833, rtt_us);
            let scenario = match phy {
                None => Scenario::wired(wire, terminals, 40_000),
                Some(phy) => Scenario::wireless(&vec![phy; count], wire, terminals, 40_000),
            };
            let mut scenario = scenario.seeded(seed);
            scenario.warm_up_ms = 20_000;
            let radio = phy.map(hint_of).unwrap_or_default();
            let mut sharing = Sharing::new(PolicyConfig::default(), &vec![Some(radio); count]);
            let goodputs = run(&scenario, &mut sharing).unwrap().goodputs();
            let ratio = goodputs[count - 1] * count as f64 / goodputs.iter().sum::<f64>();
            assert!(
                (0.75..1.5).contains(&ratio),
                "{ratio:.2} of an equal share, {phy:?}, {rtt_us} µs, seed {seed}: {goodputs:.1?} Mbit/s"
            );
        }
    }
}
