//! The results of a setting, with CUBIC and with the policy.

use super::alone::Alone;
use super::draw::Drawn;
use super::oracle;
use super::outsiders::{self, BesideOutsiders};
use super::queue_by_state::{self, QueueByState};
use super::queue_delays::{QueueDelays, Sums};
use serde::Serialize;
use yuzuri_netmodel::Time;
use yuzuri_policy::{Phase, PolicyConfig, Rule};
use yuzuri_scenario::fairness::{jain, jain_of_alone};
use yuzuri_sim::cc::Bounds;
use yuzuri_sim::{
    Messages, NoBounds, Observation, Results, Scenario, ScenarioError, Sharing, Steer, Traffic, hint_of, run,
};

/// A long queue, ms: nine in ten settings should stay below.
pub const LONG_MS: f64 = 400.0;

/// The results of one contender.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// Payload of all terminals after 5 s, Mbit/s.
    pub total_mbps: f64,
    /// Jain's index on rate over initial rate alone, among those that upload from beginning to end.
    pub jain: f64,
    /// The same on rate over rate alone at each moment.
    pub jain_now: f64,
    /// With outsiders: the rate of those that share relative to an equal share, among the same
    /// terminals and in the same unit.
    pub inside: Option<f64>,
    /// Mean time above the path's minimum round-trip time, ms, over the same terminals.
    pub queue_ms: f64,
    /// The duration of each upload of 1 MB, seconds; an unfinished one counts until the end of the
    /// run.
    pub uploads_s: Vec<f64>,
    /// Mean duration of an exchange of each terminal that sends requests and waits for answers, ms.
    pub exchanges_ms: Vec<f64>,
}

/// The states of the group, as fractions of all ticks in which one of its terminals sent.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct GroupStates {
    /// In start-up.
    pub start_up: f64,
    /// Fraction of ticks with larger windows: in a step up, or behind a queue of other senders.
    pub wide: f64,
    /// Fraction of ticks with a member that doubts its leader or does not follow it.
    pub doubt: f64,
}

/// A setting, and its results.
#[derive(Serialize)]
pub struct Outcome {
    /// Number within the seed.
    pub number: u64,
    /// Its description.
    pub description: String,
    /// The classes it belongs to.
    pub classes: Vec<&'static str>,
    /// Result with CUBIC.
    pub cubic: Figures,
    /// Result with the policy.
    pub shared: Figures,
    /// The fractions of time in each state of the group.
    pub time_in_state: GroupStates,
    /// The queueing delays of its members by location.
    pub queue_delays: QueueDelays,
    /// Their queue by the state of the group.
    pub queue_by_state: QueueByState,
    /// Where its members lose their part of an equal part; `None` without outsiders.
    pub outsiders: Option<BesideOutsiders>,
    /// Result with an oracle instead of the leader.
    pub oracle: Figures,
    /// Result with the smallest windows that the policy sets.
    pub min_windows: Figures,
}

impl Outcome {
    /// Runs a setting.
    ///
    /// # Errors
    /// None for settings that are drawn.
    pub fn of(drawn: Drawn) -> Result<Outcome, ScenarioError> {
        let mut watched = Watched::of(&drawn, sharing(&drawn));
        let shared = Figures::of(&drawn, &drawn.scenario, &mut watched)?;
        let cubic = Figures::of(&drawn, &drawn.scenario, &mut NoBounds)?;
        let mut knowing = sharing(&drawn).with_oracle(oracle::of(&drawn));
        let oracle = Figures::of(&drawn, &drawn.scenario, &mut knowing)?;
        let min_windows = queue_by_state::with_min_windows(&drawn)?;
        let (time_in_state, queue_delays, queue_by_state) =
            (watched.time_in_state(), watched.queue_delays.mean(), watched.queue_by_state.mean());
        let outsiders = watched.outsiders.result(&drawn, cubic.inside);
        Ok(Outcome {
            number: drawn.number,
            description: drawn.description,
            classes: drawn.classes,
            cubic,
            shared,
            time_in_state,
            queue_delays,
            queue_by_state,
            outsiders,
            oracle,
            min_windows,
        })
    }

    /// Total with the policy relative to CUBIC's.
    pub fn total_ratio(&self) -> f64 {
        self.shared.total_mbps / self.cubic.total_mbps.max(1e-9)
    }

    /// The worst change relative to CUBIC, from 0 (none) to 1, and its reason as text.
    pub fn harm(&self) -> (f64, String) {
        let (ours, cubic) = (&self.shared, &self.cubic);
        let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len().max(1) as f64;
        let (upload_s, before_s) = (mean(&ours.uploads_s), mean(&cubic.uploads_s));
        // Windows may hold a queue of 20 ms.
        const HELD_MS: f64 = 20.0;
        let mut harms = vec![
            (
                1.0 - self.total_ratio(),
                format!("total {:.1} Mbit/s (CUBIC {:.1})", ours.total_mbps, cubic.total_mbps),
            ),
            (
                1.0 - (cubic.queue_ms + HELD_MS) / (ours.queue_ms + HELD_MS),
                format!("queue {:.0} ms (CUBIC {:.0})", ours.queue_ms, cubic.queue_ms),
            ),
        ];
        match ours.inside {
            Some(inside) => harms.push((1.0 - inside, format!("{inside:.2} of an equal share"))),
            None => harms
                .push((cubic.jain - ours.jain, format!("Jain {:.3} (CUBIC {:.3})", ours.jain, cubic.jain))),
        }
        if upload_s > 0.0 {
            let text = format!("1 MB in {upload_s:.1} s (CUBIC {before_s:.1})");
            harms.push((1.0 - before_s / upload_s, text));
        }
        let worst = harms.into_iter().max_by(|a, b| a.0.total_cmp(&b.0));
        worst.map_or_else(Default::default, |(harm, text)| (harm.max(0.0), text))
    }

    /// Whether no figure is worse than CUBIC's by more than a tenth, and one is better by as much.
    pub fn wins(&self) -> bool {
        let (ours, cubic) = (&self.shared, &self.cubic);
        !self.loses()
            && (self.total_ratio() > 1.1
                || ours.jain > cubic.jain + 0.1
                || ours.queue_ms < 0.9 * cubic.queue_ms)
    }

    /// Whether a figure is worse than CUBIC's by more than a tenth.
    pub fn loses(&self) -> bool {
        self.harm().0 > 0.1
    }
}

/// The group of a setting.
pub fn sharing(drawn: &Drawn) -> Sharing {
    let member_count = drawn.phys.len() - drawn.outsider_count;
    let radios: Vec<_> = drawn
        .phys
        .iter()
        .enumerate()
        .map(|(number, phy)| (number < member_count).then(|| hint_of(*phy)))
        .collect();
    Sharing::new(PolicyConfig::default(), &radios)
        .with_changes_of(&drawn.scenario)
        .with_messages(Messages { loss: drawn.message_loss, seed: drawn.number })
}

impl Figures {
    /// Runs `scenario`, which may differ from the setting's in queues and algorithms.
    ///
    /// # Errors
    /// None for settings that are drawn.
    pub fn of(drawn: &Drawn, scenario: &Scenario, steer: &mut dyn Steer) -> Result<Figures, ScenarioError> {
        let mut alone = Alone::of(drawn, steer);
        let results = run(scenario, &mut alone)?;
        Ok(Figures::of_results(drawn, &results, alone.alone_s()))
    }

    fn of_results(drawn: &Drawn, results: &Results, alone_s: &[f64]) -> Figures {
        let scenario = &drawn.scenario;
        let wire_bps = scenario.wire.up.rate_bps.unwrap_or(u64::MAX) as f64;
        let least_ms = (scenario.wire.up.delay_us + scenario.wire.down.delay_us) as f64 / 1e3;
        let steady: Vec<usize> = (0..drawn.phys.len()).filter(|n| drawn.is_steady(*n)).collect();
        let of = |n: &usize| {
            let alone_bps = (hint_of(drawn.phys[*n]).alone_bps as f64).min(wire_bps);
            (results.terminals[*n].goodput_mbps, alone_bps)
        };
        let (rates, alone): (Vec<f64>, Vec<f64>) = steady.iter().map(of).unzip();
        let member_count = drawn.phys.len() - drawn.outsider_count;
        let mean_part = |limit: usize| {
            let parts: Vec<f64> = (steady.iter().zip(rates.iter().zip(&alone)))
                .filter(|(n, _)| **n < limit)
                .map(|(_, (rate, alone))| rate / alone)
                .collect();
            parts.iter().sum::<f64>() / parts.len().max(1) as f64
        };
        let queue_ms = |n: &usize| {
            let extra_ms = scenario.terminals[*n].extra_rtt_us as f64 / 1e3;
            (results.terminals[*n].srtt_mean_ms - least_ms - extra_ms).max(0.0)
        };
        let uploads_s = (scenario.terminals.iter().zip(&results.terminals))
            .filter(|(terminal, _)| matches!(terminal.traffic, Traffic::Bulk { bytes: Some(_), .. }))
            .map(|(terminal, result)| {
                let end_s = result.finished_s.unwrap_or(results.simulated_s);
                end_s - terminal.start_ms as f64 / 1e3
            });
        Figures {
            total_mbps: results.total_mbps(),
            jain: jain_of_alone(&rates, &alone).unwrap_or(1.0),
            jain_now: jain(steady.iter().map(|n| alone_s[*n])).unwrap_or(1.0),
            inside: (drawn.outsider_count > 0)
                .then(|| mean_part(member_count) / mean_part(drawn.phys.len()).max(1e-12)),
            queue_ms: steady.iter().map(queue_ms).sum::<f64>() / steady.len().max(1) as f64,
            uploads_s: uploads_s.collect(),
            exchanges_ms: results.terminals.iter().filter_map(|result| result.exchange_ms).collect(),
        }
    }
}

/// Counts the ticks in each state of the group.
struct Watched {
    queue_delays: Sums,
    queue_by_state: queue_by_state::Sums,
    outsiders: outsiders::Sums,
    sharing: Sharing,
    ticks: u32,
    start_up: u32,
    wide: u32,
    doubt: u32,
}

impl Watched {
    fn of(drawn: &Drawn, sharing: Sharing) -> Watched {
        let (queue_delays, queue_by_state) = (Sums::of(drawn), queue_by_state::Sums::of(drawn));
        let outsiders = outsiders::Sums::of(drawn);
        Watched { queue_delays, queue_by_state, outsiders, sharing, ticks: 0, start_up: 0, wide: 0, doubt: 0 }
    }

    fn time_in_state(&self) -> GroupStates {
        let part = |ticks: u32| f64::from(ticks) / f64::from(self.ticks.max(1));
        GroupStates { start_up: part(self.start_up), wide: part(self.wide), doubt: part(self.doubt) }
    }
}

impl Steer for Watched {
    fn steer(&mut self, now: Time, terminals: &[Option<Observation>], bounds: &mut [Bounds]) {
        self.sharing.steer(now, terminals, bounds);
        let queues_ms = self.queue_delays.add(now, terminals);
        let doubts = |number| matches!(self.sharing.rule(number), Some(Rule::Doubt | Rule::Mistrust));
        let doubts = (0..terminals.len()).any(doubts);
        let phase = self.sharing.summary().map(|summary| summary.phase).unwrap_or_default();
        self.outsiders.add(now, terminals, phase, doubts);
        let Some(summary) = self.sharing.summary().filter(|summary| summary.senders > 0) else { return };
        self.queue_by_state.add(now, summary.phase, &queues_ms);
        self.ticks += 1;
        self.start_up += u32::from(summary.phase == Phase::StartUp);
        self.wide += u32::from(matches!(summary.phase, Phase::Contend | Phase::Off));
        self.doubt += u32::from(doubts);
    }
}
