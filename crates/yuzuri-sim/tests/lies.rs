//! A leader that lies to bound all its members can keep an honest flow below half of its fair share
//! for at most five seconds longer than plain CUBIC may. This is tested in cells where plain CUBIC
//! itself, in the worst of eight runs, does so for at most five seconds: where plain CUBIC starves
//! flows, a lie is indistinguishable from chance.
//!
//! Lies are random: sent by the leader all or part of the time, to all or part of the members, from
//! the start or once a fair share is known; by a member in its reports; by both together; with the
//! liars' own flows bounded or not. `LIES=1000 SEED=7` sets their number and the seed. With
//! `--nocapture` the test prints each lie that takes effect for longer than three seconds. Of the
//! other kinds of lies it only prints how many exceed the limit. Seeds 1, 1001 and 1002 were used
//! while the rules were developed.
#![allow(clippy::unwrap_used)]

use rand_core::SeedableRng;
use rand_pcg::Pcg32;
use yuzuri_netmodel::Random;
use yuzuri_netmodel::Time;
use yuzuri_netmodel::radio::Phy;
use yuzuri_policy::{Moment, Phase, PolicyConfig, RadioHint, Report, Summary};
use yuzuri_sim::cc::Bounds;
use yuzuri_sim::{NoBounds, Observation, Scenario, Sharing, Steer, Terminal, hint_of, path, run};

const TERMINALS: usize = 4;
const SECONDS: u64 = 40;
const MAX_STARVED_S: f64 = 5.0;
/// Default number of lies, and lies per cell.
const DEFAULT_LIES: u64 = 60;
const LIES_PER_CELL: u64 = 20;
const MAX_CELLS: u64 = 12;

fn generator_of(seed: u64) -> Random {
    Pcg32::from_seed(u128::from(seed).to_le_bytes()).into()
}

/// The factor applied to a true value: zero, too small, or too large.
fn factor(generator: &mut Random) -> f64 {
    match generator.choose(&[0, 1, 2, 3]) {
        0 => 0.0,
        1 => generator.uniform(),
        2 => 1.0 + 2.0 * generator.uniform(),
        _ => generator.log_uniform(1e-3, 1e3),
    }
}

/// The lie of a leader.
#[derive(Clone, Debug)]
struct FalseSummary {
    share: f64,
    senders: u16,
    base: f64,
    queue: f64,
    phase: Phase,
    paced: bool,
    /// The honest members that receive the lie.
    recipients: [bool; TERMINALS],
}

impl FalseSummary {
    fn random(generator: &mut Random) -> FalseSummary {
        let phases = [Phase::StartUp, Phase::Hold, Phase::Probe, Phase::Contend, Phase::Off];
        let all = generator.bernoulli(0.5);
        let mut recipients = [false; TERMINALS].map(|_| all || generator.bernoulli(0.5));
        recipients[0] = true;
        FalseSummary {
            share: factor(generator),
            senders: (generator.uniform() * 2000.0) as u16,
            base: factor(generator),
            queue: factor(generator),
            phase: generator.choose(&phases),
            paced: generator.bernoulli(0.5),
            recipients,
        }
    }

    fn falsify(&self, to: usize, summary: &mut Summary) {
        if !self.recipients[to] {
            return;
        }
        let times = |value: u32, factor: f64| (f64::from(value) * factor) as u32;
        summary.share_bps = (summary.share_bps as f64 * self.share) as u64;
        summary.air_share_ppm = times(summary.air_share_ppm, self.share);
        summary.queue_us = times(summary.queue_us, self.queue);
        for (_, base_us) in &mut summary.destinations {
            *base_us = times(*base_us, self.base);
        }
        summary.senders = self.senders;
        summary.phase = self.phase;
        summary.paced = self.paced;
        *summary = summary.clone().bounded();
    }
}

/// The false report of a lying member.
#[derive(Clone, Debug)]
struct FalseReport {
    rate: f64,
    alone: f64,
    base: f64,
    srtt: f64,
    queue: f64,
    elastic: bool,
    lost_permille: u16,
}

impl FalseReport {
    fn random(generator: &mut Random) -> FalseReport {
        FalseReport {
            rate: factor(generator),
            alone: factor(generator),
            base: factor(generator),
            srtt: factor(generator),
            queue: factor(generator),
            elastic: generator.bernoulli(0.5),
            lost_permille: if generator.bernoulli(0.5) { (generator.uniform() * 1000.0) as u16 } else { 0 },
        }
    }

    fn falsify(&self, report: &mut Option<Report>) {
        let Some(report) = report else { return };
        let times = |value: u32, factor: f64| (f64::from(value) * factor) as u32;
        report.rate_bps = (report.rate_bps as f64 * self.rate) as u64;
        report.alone_bps = (report.alone_bps as f64 * self.alone) as u64;
        report.srtt_us = times(report.srtt_us, self.srtt);
        report.queue_us = times(report.queue_us, self.queue);
        for (_, base_us) in &mut report.destinations {
            *base_us = times(*base_us, self.base).max(1);
        }
        report.elastic = self.elastic;
        report.lost_permille = self.lost_permille;
        *report = report.clone().bounded();
    }
}

/// The liars, and when they lie.
#[derive(Clone, Debug)]
struct Liars {
    leader: Option<FalseSummary>,
    /// Number of members that report falsely, counted from the last terminal.
    members: usize,
    report: FalseReport,
    from_s: f64,
    /// They lie in this many of every ten half seconds.
    ticks: u64,
    /// Their own flows are unbounded.
    selfish: bool,
}

impl Liars {
    fn random(generator: &mut Random) -> Liars {
        let leader = FalseSummary::random(generator);
        let (leads, members) = generator.choose(&[(true, 0), (true, 0), (false, 1), (true, 1), (false, 2)]);
        Liars {
            leader: Some(leader).filter(|_| leads),
            members,
            report: FalseReport::random(generator),
            from_s: generator.choose(&[0.0, 10.0, 10.0]),
            ticks: generator.choose(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10, 10]),
            selfish: generator.bernoulli(0.5),
        }
    }

    fn lie_at(&self, now: Moment) -> bool {
        let tick = (now.since_beginning().as_secs_f64() * 2.0) as u64;
        now.since_beginning().as_secs_f64() >= self.from_s && tick % 10 < self.ticks
    }

    /// Whether this is a leader's lie that bounds all members: the case that a member's trust must
    /// handle.
    fn is_leader_bounding_all(&self) -> bool {
        let bounds = |lie: &FalseSummary| {
            matches!(lie.phase, Phase::Hold | Phase::Probe) && !lie.recipients.contains(&false)
        };
        self.members == 0 && self.leader.as_ref().is_some_and(bounds)
    }

    /// Number of liars. The leader's terminal is the last one, and joins in lying reports.
    fn count(&self) -> usize {
        self.members.max(1)
    }
}

/// Records how long each honest flow stayed below a rate.
struct StarvationMeter {
    /// `None`: plain CUBIC.
    sharing: Option<Sharing>,
    honest: usize,
    /// The liars' flows are unbounded.
    selfish: bool,
    from_s: f64,
    min_bps: f64,
    delivered: Vec<Vec<u64>>,
    below_s: Vec<f64>,
    longest_s: f64,
}

impl Steer for StarvationMeter {
    fn steer(&mut self, now: Time, terminals: &[Option<Observation>], bounds: &mut [Bounds]) {
        if let Some(sharing) = &mut self.sharing {
            sharing.steer(now, terminals, bounds);
            if self.selfish {
                bounds[self.honest..].fill(Bounds::default());
            }
        }
        for (number, seen) in terminals.iter().enumerate().take(self.honest) {
            let delivered = &mut self.delivered[number];
            delivered.push(seen.map_or(0, |s| s.delivered));
            // Averaged over two seconds: airtime contention is uneven from one half second to the
            // next.
            let before = delivered.len().checked_sub(5).map_or(0, |at| delivered[at]);
            let rate_bps = (delivered[delivered.len() - 1] - before) as f64 * 1448.0 * 8.0 / 2.0;
            let below = rate_bps < self.min_bps && now.as_secs_f64() > self.from_s;
            self.below_s[number] = if below { self.below_s[number] + 0.5 } else { 0.0 };
            self.longest_s = self.longest_s.max(self.below_s[number]);
        }
    }
}

/// A cell in which lies are tested.
struct Cell {
    phy: Phy,
    scenario: Scenario,
    /// Half of a flow's average rate with plain CUBIC, bit/s.
    min_bps: f64,
    /// The longest time that plain CUBIC leaves a flow below that rate, in the worst of several
    /// runs, s.
    plain_s: f64,
    description: String,
}

/// Number of runs of plain CUBIC.
const PLAIN_RUNS: u64 = 8;
/// End of slow start.
const STARTED_S: f64 = 5.0;

impl Cell {
    fn new(phy: Phy, rtt_ms: u64, wire_mbps: u64) -> Cell {
        let wire = path(wire_mbps * 1_000_000, 1000.min(wire_mbps as u32 * 4), rtt_ms * 1000);
        let terminals = vec![Terminal::uploading(); TERMINALS];
        let scenario = Scenario::wireless(&[phy; TERMINALS], wire, terminals, SECONDS * 1000);
        let total = run(&scenario, &mut NoBounds).expect("a valid scenario").total_mbps() * 1e6;
        let description = format!("{phy:?}, {rtt_ms} ms, {wire_mbps} Mbit/s");
        let mut cell =
            Cell { phy, scenario, min_bps: total / TERMINALS as f64 / 2.0, plain_s: 0.0, description };
        let mut plain_s = 0.0_f64;
        for seed in 1..=PLAIN_RUNS {
            cell.scenario.seed = seed;
            plain_s = plain_s.max(cell.longest_s(TERMINALS, false, STARTED_S, None));
        }
        cell.scenario.seed = 1;
        Cell { plain_s, ..cell }
    }

    fn random(generator: &mut Random) -> Cell {
        loop {
            let phy = generator.choose(&[Phy::ac(80, 1, 9), Phy::n(20, 1, 7), Phy::g(54), Phy::ax(20, 1, 9)]);
            let wire_mbps = generator.choose(&[1000, 100, 20]);
            let cell = Cell::new(phy, generator.log_uniform(10.0, 200.0) as u64, wire_mbps);
            if cell.plain_s <= MAX_STARVED_S {
                return cell;
            }
        }
    }

    fn longest_s(&self, honest: usize, selfish: bool, from_s: f64, sharing: Option<Sharing>) -> f64 {
        let mut meter = StarvationMeter {
            sharing,
            honest,
            selfish,
            from_s: from_s.max(STARTED_S),
            min_bps: self.min_bps,
            delivered: vec![Vec::new(); honest],
            below_s: vec![0.0; honest],
            longest_s: 0.0,
        };
        run(&self.scenario, &mut meter).expect("a valid scenario");
        meter.longest_s
    }

    /// The longest time that an honest flow stays below half of its fair share with these liars,
    /// minus the longest with plain CUBIC.
    fn longest_below_s(&self, liars: &Liars) -> f64 {
        let honest = TERMINALS - liars.count();
        let radios: Vec<Option<RadioHint>> = vec![Some(hint_of(self.phy)); TERMINALS];
        let (lying, reporting) = (liars.clone(), liars.clone());
        let lie = move |now: Moment, to: usize, summary: &mut Summary| {
            if let Some(false_summary) = lying.leader.as_ref().filter(|_| to < honest && lying.lie_at(now)) {
                false_summary.falsify(to, summary);
            }
        };
        let false_report = move |now: Moment, from: usize, report: &mut Option<Report>| {
            if reporting.members > 0 && from >= honest && reporting.lie_at(now) {
                reporting.report.falsify(report);
            }
        };
        let sharing = Sharing::new(PolicyConfig::default(), &radios)
            .with_false_summaries(Box::new(lie))
            .with_false_reports(Box::new(false_report));
        self.longest_s(honest, liars.selfish, liars.from_s, Some(sharing)) - self.plain_s
    }
}

#[test]
fn a_leader_that_announces_a_zero_share_is_not_followed_for_long() {
    let zero_share = FalseSummary {
        share: 0.0,
        senders: 1000,
        base: 0.0,
        queue: 0.0,
        phase: Phase::Hold,
        paced: false,
        recipients: [true; TERMINALS],
    };
    for (phy, rtt_ms) in [(Phy::ac(80, 1, 9), 64), (Phy::n(20, 1, 7), 20), (Phy::g(54), 20)] {
        let cell = Cell::new(phy, rtt_ms, 1000);
        for selfish in [false, true] {
            let liars = Liars {
                leader: Some(zero_share.clone()),
                members: 0,
                report: FalseReport::random(&mut generator_of(1)),
                from_s: 10.0,
                ticks: 10,
                selfish,
            };
            let longest_s = cell.longest_below_s(&liars);
            assert!(longest_s <= MAX_STARVED_S, "{phy:?}, selfish {selfish}: {longest_s} s");
        }
    }
}

#[test]
fn no_leader_that_bounds_all_members_starves_an_honest_flow() {
    let env = |name: &str, default: u64| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let (lies, seed) = (env("LIES", DEFAULT_LIES), env("SEED", 1));
    let mut generator = generator_of(seed);
    let cells: Vec<Cell> =
        (0..(lies / LIES_PER_CELL).clamp(1, MAX_CELLS)).map(|_| Cell::random(&mut generator)).collect();
    cells.iter().for_each(|cell| println!("{}: plain CUBIC {} s", cell.description, cell.plain_s));
    let (mut exceeded, mut leader_exceeded) = (Vec::new(), Vec::new());
    for number in 0..lies {
        let at = generator.choose(&(0..cells.len()).collect::<Vec<_>>());
        let liars = Liars::random(&mut generator);
        let longest_s = cells[at].longest_below_s(&liars);
        if longest_s > 3.0 {
            println!("{number}: {longest_s} s in {}: {liars:?}", cells[at].description);
        }
        if longest_s > MAX_STARVED_S {
            exceeded.push(longest_s);
            if liars.is_leader_bounding_all() {
                leader_exceeded.push(longest_s);
            }
        }
    }
    println!(
        "{} of {lies} lies (seed {seed}) starve a flow for more than {MAX_STARVED_S} s: {exceeded:?}",
        exceeded.len()
    );
    // Shares that are too large, and unbounded liars next to members that receive no lie, are up to
    // the controller: they are counted above but not limited yet.
    assert!(leader_exceeded.is_empty(), "{leader_exceeded:?}");
    let lost = format!("in {} a flow starves for more than {MAX_STARVED_S} s", exceeded.len());
    yuzuri_testnet::attack("drawn lies of members and leaders, simulated", lies, "lies", &lost);
}
