//! No leader, whatever it says, keeps an honest flow below half of its fair share for longer than five seconds. `LIES=250` draws so many (60 are drawn
//! otherwise); with `--nocapture` it prints how long each of them did that takes longer than three.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::collections::BTreeMap;
use yuzuri_netmodel::Time;
use yuzuri_netmodel::radio::Phy;
use yuzuri_policy::{Moment, Phase, PolicyConfig, RadioHint, Summary};
use yuzuri_sim::cc::Bounds;
use yuzuri_sim::{NoSteer, Observation, Scenario, Sharing, Steer, Terminal, hint_of, path, run};

const TERMINALS: usize = 4;
const SECONDS: u64 = 40;
/// A fair share is learnt first: nobody lies before.
const LIES_FROM_S: f64 = 10.0;
const LONGEST_S: f64 = 5.0;
/// So many lies are drawn where LIES does not say how many.
const DRAWN: usize = 60;

/// One way to lie.
#[derive(Clone, Debug)]
struct Falsehood {
    share: f64,
    senders: u16,
    base: f64,
    queue: f64,
    phase: Phase,
    paced: bool,
    /// The lie holds for so many of ten half seconds; otherwise the leader speaks the truth.
    ticks: u32,
}

fn falsehood() -> impl Strategy<Value = Falsehood> {
    let phases =
        prop::sample::select(vec![Phase::StartUp, Phase::Hold, Phase::Probe, Phase::Contend, Phase::Off]);
    let small = prop_oneof![Just(0.0), 0.0..1.0_f64, 1.0..3.0_f64];
    (small.clone(), 0..2000_u16, small.clone(), small, phases, any::<bool>(), 1..11_u32).prop_map(
        |(share, senders, base, queue, phase, paced, ticks)| Falsehood {
            share,
            senders,
            base,
            queue,
            phase,
            paced,
            ticks,
        },
    )
}

impl Falsehood {
    fn tell(&self, tick: u32, summary: &mut Summary) {
        if tick % 10 >= self.ticks {
            return;
        }
        summary.share_bps = (summary.share_bps as f64 * self.share) as u64;
        summary.air_share_ppm = (f64::from(summary.air_share_ppm) * self.share) as u32;
        summary.queue_us = (f64::from(summary.queue_us) * self.queue) as u32;
        for (_, base_us) in &mut summary.destinations {
            *base_us = (f64::from(*base_us) * self.base) as u32;
        }
        summary.senders = self.senders;
        summary.phase = self.phase;
        summary.paced = self.paced;
    }
}

/// Notes how long each honest flow was below a rate.
struct Judge {
    /// `None`: plain CUBIC.
    sharing: Option<Sharing>,
    honest: usize,
    min_bps: f64,
    delivered: Vec<Vec<u64>>,
    below_s: Vec<f64>,
    longest_s: f64,
}

impl Steer for Judge {
    fn steer(&mut self, now: Time, terminals: &[Option<Observation>], bounds: &mut [Bounds]) {
        if let Some(sharing) = &mut self.sharing {
            sharing.steer(now, terminals, bounds);
        }
        for (number, seen) in terminals.iter().enumerate().take(self.honest) {
            let delivered = &mut self.delivered[number];
            delivered.push(seen.map_or(0, |s| s.delivered));
            // Over two seconds: contention for the air is uneven from one half second to the next.
            let before = delivered.len().checked_sub(5).map_or(0, |at| delivered[at]);
            let rate_bps = (delivered[delivered.len() - 1] - before) as f64 * 1448.0 * 8.0 / 2.0;
            let below = rate_bps < self.min_bps && now.as_secs_f64() > LIES_FROM_S;
            self.below_s[number] = if below { self.below_s[number] + 0.5 } else { 0.0 };
            self.longest_s = self.longest_s.max(self.below_s[number]);
        }
    }
}

/// A cell in which lies are told.
struct Cell {
    phy: Phy,
    scenario: Scenario,
    /// Half of what a flow gets on average with plain CUBIC, bit/s.
    min_bps: f64,
    /// The longest time that plain CUBIC, which starves flows by itself, leaves one below that, s.
    plain_s: f64,
}

impl Cell {
    fn new(phy: Phy, rtt_ms: u64) -> Cell {
        let wire = path(1_000_000_000, 1000, rtt_ms * 1000);
        let scenario = Scenario::wireless(
            &[phy; TERMINALS],
            wire,
            vec![Terminal::uploading(); TERMINALS],
            SECONDS * 1000,
        );
        let total = run(&scenario, &mut NoSteer).expect("a valid scenario").total_mbps() * 1e6;
        let mut cell = Cell { phy, scenario, min_bps: total / TERMINALS as f64 / 2.0, plain_s: 0.0 };
        cell.plain_s = cell.longest_s(None);
        cell
    }

    fn longest_s(&self, sharing: Option<Sharing>) -> f64 {
        let honest = TERMINALS - 1;
        let mut judge = Judge {
            sharing,
            honest,
            min_bps: self.min_bps,
            delivered: vec![Vec::new(); honest],
            below_s: vec![0.0; honest],
            longest_s: 0.0,
        };
        run(&self.scenario, &mut judge).expect("a valid scenario");
        judge.longest_s
    }

    /// The longest time that an honest flow is below half of its fair share, while the leader tells `lie`, more than the longest with plain CUBIC; the
    /// leader's own terminal is the last and is plain CUBIC where `selfish`.
    fn longest_below_s(&self, selfish: bool, lie: Falsehood) -> f64 {
        let radios: Vec<Option<RadioHint>> =
            (0..TERMINALS).map(|n| (n + 1 < TERMINALS || !selfish).then(|| hint_of(self.phy))).collect();
        let mut tick = 0;
        let lie = move |now: Moment, summary: &mut Summary| {
            if now.since_beginning().as_secs_f64() >= LIES_FROM_S {
                tick += 1;
                lie.tell(tick, summary);
            }
        };
        let sharing = Sharing::new(PolicyConfig::default(), &radios).lying(Box::new(lie));
        self.longest_s(Some(sharing)) - self.plain_s
    }
}

const STARVE: Falsehood = Falsehood {
    share: 0.0,
    senders: 1000,
    base: 0.0,
    queue: 0.0,
    phase: Phase::Hold,
    paced: false,
    ticks: 10,
};

#[test]
fn a_leader_that_gives_nothing_is_not_obeyed_for_long() {
    for (phy, rtt_ms) in [(Phy::ac(80, 1, 9), 64), (Phy::n(20, 1, 7), 20), (Phy::g(54), 20)] {
        let cell = Cell::new(phy, rtt_ms);
        for selfish in [false, true] {
            let longest_s = cell.longest_below_s(selfish, STARVE);
            assert!(longest_s <= LONGEST_S, "{phy:?}, selfish {selfish}: {longest_s} s");
        }
    }
}

#[test]
fn no_lie_starves_an_honest_flow() {
    let drawn = std::env::var("LIES").map_or(DRAWN, |count| count.parse().unwrap());
    let mut runner =
        TestRunner::new_with_rng(Config::default(), TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]));
    let lies = (falsehood(), any::<bool>(), any::<bool>());
    let mut cells = BTreeMap::new();
    let mut longer = Vec::new();
    for _ in 0..drawn {
        let (lie, selfish, fast) = lies.new_tree(&mut runner).unwrap().current();
        let cell = cells.entry(fast).or_insert_with(|| {
            if fast { Cell::new(Phy::ac(80, 1, 9), 64) } else { Cell::new(Phy::n(20, 1, 7), 20) }
        });
        let longest_s = cell.longest_below_s(selfish, lie.clone());
        if longest_s > 3.0 {
            println!("{longest_s} s: fast {fast}, selfish {selfish}, {lie:?}");
        }
        if longest_s > LONGEST_S {
            longer.push(longest_s);
        }
    }
    println!("{} of {drawn} lies take longer than {LONGEST_S} s: {longer:?}", longer.len());
    assert!(longer.is_empty(), "{longer:?}");
}
