//! In a group of honest members no member doubts the summaries (`Rule::Doubt`) or stops following
//! them (`Rule::Mistrust`). The exception is a wire whose rate drops by more than half: then some
//! members do so for a second or two, and the test prints the figures. Settings are random:
//! `CASES=300 SEED=7` sets their number and the seed, and `SECONDS=600` how long each lasts (40 s).
//! With `--nocapture` each setting is printed with its total, its Jain's index and the figures of
//! plain CUBIC. There are no outsiders and no liars.
//!
//! The distribution:
//!
//! - 2 to 40 terminals, log-uniform; one standard for all, or one per terminal; g at 6 to 54
//!   Mbit/s; n, ac and ax at any rate.
//! - A path of 2 to 300 ms and 5 to 900 Mbit/s behind drop-tail, CoDel or FQ-CoDel; loss of 0, 1e-4
//!   or 1e-3.
//! - An access point with 100 to 1000 packets, or with airtime fairness.
//! - One setting in four each has terminals that join and leave, several destinations, one or all
//!   radios that change, or a wire that changes.
//! - Two of three terminals upload all the time; the others pause, exchange messages or upload 1
//!   MB.
#![allow(clippy::unwrap_used)]

use rand_core::SeedableRng;
use rand_pcg::Pcg32;
use yuzuri_netmodel::Random;
use yuzuri_netmodel::Time;
use yuzuri_netmodel::queue::{CodelConfig, FqCodelConfig, QueueConfig};
use yuzuri_netmodel::radio::{Phy, Standard};
use yuzuri_netmodel::wire::LossConfig;
use yuzuri_policy::{PolicyConfig, RadioHint, Rule};
use yuzuri_scenario::fairness::jain_of_alone;
use yuzuri_sim::cc::Bounds;
use yuzuri_sim::{
    Change, ChangeKind, Direction, NoBounds, Observation, Scenario, Sharing, Steer, Terminal, Traffic,
    hint_of, path, run,
};
use yuzuri_stats::lower_quantile;

const DEFAULT_CASES: u64 = 8;
const DEFAULT_SECONDS: u64 = 40;
const WARM_UP_S: u64 = 5;

/// Draws random settings.
struct Generator(Random);

impl Generator {
    fn traffic(&mut self) -> Traffic {
        match self.0.uniform_index(9) {
            6 => Traffic::OnOff {
                direction: Direction::Up,
                on_ms: self.0.log_uniform(500.0, 8000.0) as u64,
                off_ms: self.0.log_uniform(500.0, 8000.0) as u64,
            },
            7 => Traffic::RequestResponse {
                request_bytes: self.0.log_uniform(200.0, 200_000.0) as u64,
                response_bytes: 2_000,
                think_ms: self.0.log_uniform(10.0, 2000.0) as u64,
            },
            8 => Traffic::Bulk { direction: Direction::Up, bytes: Some(1_000_000) },
            _ => Traffic::Bulk { direction: Direction::Up, bytes: None },
        }
    }

    /// A setting, and its description.
    fn setting(&mut self, seed: u64, seconds: u64) -> (Scenario, Vec<Phy>, String) {
        let n = self.0.log_uniform(2.0, 41.0) as usize;
        let standard = self.0.choose(&Standard::ALL);
        let mixed = self.0.uniform() < 0.6;
        let common = standard.random(&mut self.0);
        let standard_of =
            |generator: &mut Generator| if mixed { generator.0.choose(&Standard::ALL) } else { standard };
        let phys: Vec<Phy> = (0..n)
            .map(|_| {
                let standard = standard_of(self);
                standard.random(&mut self.0)
            })
            .collect();
        let phys = if !mixed && self.0.uniform() < 0.5 { vec![common; n] } else { phys };
        let rtt_ms = self.0.log_uniform(2.0, 300.0);
        let wire_mbps = self.0.log_uniform(5.0, 900.0);
        let packets = self.0.log_uniform(50.0, 2000.0) as u32;
        let mut wire = path((wire_mbps * 1e6) as u64, packets, (rtt_ms * 1000.0) as u64);
        let queue = self.0.choose(&["drop-tail", "drop-tail", "CoDel", "FQ-CoDel"]);
        match queue {
            "CoDel" => wire.up.queue = QueueConfig::Codel(CodelConfig::default()),
            "FQ-CoDel" => wire.up.queue = QueueConfig::FqCodel(FqCodelConfig::default()),
            _ => {}
        }
        let loss = self.0.choose(&[0.0, 0.0, 1e-4, 1e-3]);
        if loss > 0.0 {
            wire.up.loss = LossConfig::Random { probability: loss };
        }
        let mut description =
            format!("{wire_mbps:.0} Mbit/s, {rtt_ms:.0} ms, {packets} packets, {queue}, loss {loss}");
        let end_ms = seconds * 1000;
        let (churn, far) = (self.0.uniform() < 0.25, self.0.uniform() < 0.25);
        let distances: Vec<u64> = (0..1 + self.0.uniform_index(6))
            .map(|_| (self.0.log_uniform(1.0, 200.0) * 1000.0) as u64)
            .collect();
        let mut terminals = Vec::new();
        for number in 0..n {
            // At least one terminal sends all the time.
            let traffic = self.traffic();
            let mut terminal = if number == 0 { Terminal::uploading() } else { Terminal::new(traffic) };
            let (joins_ms, leaves_ms) =
                (self.0.uniform() * end_ms as f64 * 0.8, self.0.uniform() * end_ms as f64 * 0.6 + 5000.0);
            if churn && number > 0 {
                match self.0.uniform_index(3) {
                    0 => terminal.start_ms = joins_ms as u64,
                    1 => terminal.stop_ms = Some(leaves_ms as u64),
                    _ => {}
                }
            } else if matches!(terminal.traffic, Traffic::Bulk { bytes: Some(_), .. }) {
                terminal.start_ms = joins_ms as u64;
            }
            terminal.extra_rtt_us = if far { self.0.choose(&distances) } else { 0 };
            terminals.push(terminal);
        }
        let mut scenario = Scenario::wireless(&phys, wire, terminals, end_ms).seeded(seed);
        scenario.warm_up_ms = WARM_UP_S * 1000;
        let ap = self.0.choose(&[100, 400, 400, 1000, 0]);
        if let Some(cell) = &mut scenario.cell {
            if ap == 0 {
                cell.ap.queue = QueueConfig::FqCodel(FqCodelConfig::default());
                cell.ap.airtime_fairness = true;
            } else {
                cell.ap.queue = QueueConfig::drop_tail(ap);
            }
        }
        let at_ms = 10_000 + (self.0.uniform() * 20_000.0) as u64;
        let (change, factor) = (self.0.uniform_index(8), self.0.log_uniform(0.2, 4.0));
        match change {
            0 | 1 => {
                let all = change == 1;
                for (terminal, before) in phys.iter().enumerate() {
                    let phy = before.standard().random(&mut self.0);
                    if all || terminal == 0 {
                        let what = ChangeKind::Radio { terminal: terminal as u16, phy };
                        scenario.changes.push(Change { at_ms, what });
                    }
                }
                description += if all { ", all radios change" } else { ", a radio changes" };
            }
            2 | 3 => {
                let what = ChangeKind::Wire { rate_bps: (wire_mbps * factor * 1e6) as u64 };
                scenario.changes.push(Change { at_ms, what });
                description += &format!(", the wire changes by {factor:.2}");
            }
            _ => {}
        }
        description = format!("{n} terminals, AP {ap}, {description}");
        description += if churn { ", terminals join and leave" } else { "" };
        description += if far { ", several destinations" } else { "" };
        description += if mixed { ", mixed radios" } else { "" };
        (scenario, phys, description)
    }
}

/// Counts members that doubt the summaries, and members that stop following them.
struct DoubtCounter {
    sharing: Sharing,
    doubts: usize,
    leaves: usize,
    doubters: Vec<bool>,
    leavers: Vec<bool>,
}

impl Steer for DoubtCounter {
    fn steer(&mut self, now: Time, terminals: &[Option<Observation>], bounds: &mut [Bounds]) {
        self.sharing.steer(now, terminals, bounds);
        for number in 0..terminals.len() {
            let rule = self.sharing.rule(number);
            let (doubts, leaves) = (is_doubt(rule), rule == Some(Rule::Mistrust));
            self.doubts += usize::from(doubts);
            self.leaves += usize::from(leaves);
            self.doubters[number] |= doubts;
            self.leavers[number] |= leaves;
            if (doubts || leaves) && std::env::var_os("SHOW").is_some() {
                println!("    {:.1} s: terminal {number} {rule:?}", now.as_secs_f64());
            }
        }
    }
}

fn is_doubt(rule: Option<Rule>) -> bool {
    rule == Some(Rule::Doubt)
}

/// Total and Jain's index of the terminals that send all the time.
fn figures(scenario: &Scenario, phys: &[Phy], steer: &mut dyn Steer) -> (f64, f64) {
    let results = run(scenario, steer).unwrap();
    let wire_bps = scenario.wire.up.rate_bps.unwrap() as f64;
    let sends_all_the_time =
        |t: &Terminal| t.traffic == Terminal::uploading().traffic && t.start_ms == 0 && t.stop_ms.is_none();
    let (rates, alone): (Vec<f64>, Vec<f64>) = (scenario.terminals.iter().zip(phys))
        .zip(results.goodputs())
        .filter(|((terminal, _), _)| sends_all_the_time(terminal))
        .map(|((_, phy), rate)| (rate, (hint_of(*phy).alone_bps as f64).min(wire_bps)))
        .unzip();
    (results.total_mbps(), jain_of_alone(&rates, &alone).unwrap_or(1.0))
}

#[test]
fn honest_members_do_not_doubt() {
    let env = |name: &str, default: u64| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let (cases, seed) = (env("CASES", DEFAULT_CASES), env("SEED", 1));
    let mut doubted = Vec::new();
    let mut left = Vec::new();
    let (mut ratios, mut jains, mut plain_jains) = (Vec::new(), Vec::new(), Vec::new());
    let first = env("FIRST", 0);
    for case in first..first + cases {
        let mut generator =
            Generator(Pcg32::from_seed(u128::from(seed * 1_000_003 + case).to_le_bytes()).into());
        generator.0.uniform();
        let (scenario, phys, description) = generator.setting(case + 1, env("SECONDS", DEFAULT_SECONDS));
        let radios: Vec<Option<RadioHint>> = phys.iter().map(|phy| Some(hint_of(*phy))).collect();
        let n = radios.len();
        let mut counter = DoubtCounter {
            sharing: Sharing::new(PolicyConfig::default(), &radios).with_changes_of(&scenario),
            doubts: 0,
            leaves: 0,
            doubters: vec![false; n],
            leavers: vec![false; n],
        };
        let (total, jain) = figures(&scenario, &phys, &mut counter);
        let (plain_total, plain_jain) =
            if env("PLAIN", 1) > 0 { figures(&scenario, &phys, &mut NoBounds) } else { (total, jain) };
        let count = |of: &[bool]| of.iter().filter(|flag| **flag).count();
        println!(
            "{case}: {total:.1} Mbit/s (CUBIC {plain_total:.1}), Jain {jain:.3} ({plain_jain:.3}); {} doubt for {} half seconds, {} leave for {}: {description}",
            count(&counter.doubters),
            counter.doubts,
            count(&counter.leavers),
            counter.leaves,
        );
        ratios.push(total / plain_total);
        jains.push(jain);
        plain_jains.push(plain_jain);
        let before_bps = scenario.wire.up.rate_bps.unwrap_or(u64::MAX);
        let wire_halves = scenario
            .changes
            .iter()
            .any(|change| matches!(change.what, ChangeKind::Wire { rate_bps } if rate_bps < before_bps / 2));
        if counter.doubts > 0 {
            doubted.push((case, wire_halves));
        }
        if counter.leaves > 0 {
            left.push((case, wire_halves));
        }
    }
    let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
    let quantile = |of: &[f64], part: f64| {
        let mut of = of.to_vec();
        of.sort_by(f64::total_cmp);
        lower_quantile(&of, part).unwrap_or(f64::NAN)
    };
    println!(
        "{cases} cases (seed {seed}): members doubt in {}, members leave in {}: {left:?}",
        doubted.len(),
        left.len()
    );
    println!(
        "total relative to CUBIC: p5 {:.3}, median {:.3}, mean {:.3}; Jain mean {:.3}, p10 {:.3}, below 0.8: {} (CUBIC mean {:.3}, p10 {:.3})",
        quantile(&ratios, 0.05),
        quantile(&ratios, 0.5),
        mean(&ratios),
        mean(&jains),
        quantile(&jains, 0.1),
        jains.iter().filter(|jain| **jain < 0.8).count(),
        mean(&plain_jains),
        quantile(&plain_jains, 0.1)
    );
    let without_slower_wire = |of: &[(u64, bool)]| of.iter().filter(|(_, halves)| !halves).count();
    assert_eq!(
        without_slower_wire(&left),
        0,
        "members leave: {left:?} (true: the wire rate dropped by more than half)"
    );
    assert_eq!(
        without_slower_wire(&doubted),
        0,
        "members doubt: {doubted:?} (true: the wire rate dropped by more than half)"
    );
}
