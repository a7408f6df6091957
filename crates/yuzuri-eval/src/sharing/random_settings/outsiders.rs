//! Beside outsiders: in which state of the group its members get less than an equal part, and
//! beside which outsiders.

use super::Outcome;
use super::draw::Drawn;
use serde::Serialize;
use std::fmt::Write as _;
use yuzuri_netmodel::Time;
use yuzuri_policy::Phase;
use yuzuri_sim::cc::Algorithm;
use yuzuri_sim::{Observation, hint_of};
use yuzuri_stats::quantile;

/// Members below this fraction of an equal part count as low.
const LOW_RATIO: f64 = 0.8;
/// Radios count as different if one rate alone is this multiple of the other.
const FASTER_RATIO: f64 = 1.3;

/// The state of a group at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    StartUp,
    /// Upper bounds, and no queue has been found to be others' so far.
    Undetected,
    /// Behind a queue that the leader attributes to others.
    Standing,
    /// Upper bounds after such a queue.
    Held,
    /// A member doubts its leader or does not follow it.
    Doubt,
}

impl State {
    const ALL: [State; 5] = [State::StartUp, State::Undetected, State::Standing, State::Held, State::Doubt];

    fn name(self) -> &'static str {
        match self {
            State::StartUp => "start-up",
            State::Undetected => "before others are found",
            State::Standing => "others' queue",
            State::Held => "after it",
            State::Doubt => "doubt",
        }
    }
}

/// The time in a state, and what it cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct TimeAndLoss {
    /// The time, seconds.
    pub seconds: f64,
    /// The part of an equal part that members lost in this state. All states together add up to
    /// what their part is less than 1.
    pub lost: f64,
}

/// What a setting with outsiders shows.
#[derive(Clone, Debug, Serialize)]
pub struct BesideOutsiders {
    /// The kinds of outsiders that the setting belongs to.
    pub kinds: Vec<&'static str>,
    /// By state, in the order of [`State::ALL`].
    pub costs: [TimeAndLoss; 5],
}

/// What determines the kinds of a setting's outsiders.
struct Features {
    /// Whether members download.
    downloads: bool,
    /// The mean rate alone of the outsiders over that of the members.
    rate_ratio: f64,
    /// The outsiders' fraction of all terminals.
    fraction: f64,
    /// Whether an outsider has an algorithm that leaves little to CUBIC.
    aggressive: bool,
    /// Whether members get little with CUBIC, too.
    cubic_is_low: bool,
}

/// Whether a setting belongs to a kind.
type Condition = fn(&Features) -> bool;

/// The kinds, in the order of the table, and the settings that belong to each.
const KINDS: [(&str, Condition); 9] = [
    ("all", |_| true),
    ("members download", |f| f.downloads),
    ("no member downloads", |f| !f.downloads),
    ("outsiders with faster radios", |f| f.rate_ratio >= FASTER_RATIO),
    ("outsiders with slower radios", |f| f.rate_ratio <= 1.0 / FASTER_RATIO),
    ("at least 0.3 of the terminals", |f| f.fraction >= 0.3),
    ("less than 0.1 of the terminals", |f| f.fraction < 0.1),
    ("BBR, BIC or Scalable outside", |f| f.aggressive),
    ("plain CUBIC is low, too", |f| f.cubic_is_low),
];

/// Sums over the ticks of a run.
pub struct Sums {
    from: Time,
    last: Time,
    /// By terminal: its rate alone, bit/s, if it is judged.
    alone_bps: Vec<Option<f64>>,
    member_count: usize,
    delivered: Vec<u64>,
    found: bool,
    seconds: [f64; 5],
    /// By state: what members and all terminals delivered over their rates alone.
    inside: [f64; 5],
    all: [f64; 5],
}

impl Sums {
    pub fn of(drawn: &Drawn) -> Sums {
        let wire_bps = drawn.scenario.wire.up.rate_bps.unwrap_or(u64::MAX) as f64;
        let alone_bps =
            |n: usize| drawn.is_steady(n).then(|| (hint_of(drawn.phys[n]).alone_bps as f64).min(wire_bps));
        Sums {
            from: Time::from_nanos(drawn.scenario.warm_up_ms * 1_000_000),
            last: Time::ZERO,
            alone_bps: (0..drawn.phys.len()).map(alone_bps).collect(),
            member_count: drawn.phys.len() - drawn.outsider_count,
            delivered: vec![0; drawn.phys.len()],
            found: false,
            seconds: [0.0; 5],
            inside: [0.0; 5],
            all: [0.0; 5],
        }
    }

    /// Adds a tick at which the group was in this phase.
    pub fn add(&mut self, now: Time, terminals: &[Option<Observation>], phase: Phase, doubts: bool) {
        self.found |= phase == Phase::Contend;
        let state = match phase {
            _ if doubts => State::Doubt,
            Phase::StartUp => State::StartUp,
            Phase::Contend | Phase::Off => State::Standing,
            Phase::Hold | Phase::Probe if self.found => State::Held,
            Phase::Hold | Phase::Probe => State::Undetected,
        } as usize;
        let seconds = now.as_secs_f64() - self.last.as_secs_f64();
        self.last = now;
        let counts = now > self.from;
        if counts {
            self.seconds[state] += seconds;
        }
        for (number, seen) in terminals.iter().enumerate() {
            let (Some(seen), Some(alone_bps)) = (seen, self.alone_bps[number]) else { continue };
            let before = std::mem::replace(&mut self.delivered[number], seen.delivered);
            if counts {
                let part = seen.delivered.saturating_sub(before) as f64 / alone_bps;
                self.all[state] += part;
                self.inside[state] += if number < self.member_count { part } else { 0.0 };
            }
        }
    }

    fn costs(&self) -> [TimeAndLoss; 5] {
        let judged = |numbers: &[Option<f64>]| numbers.iter().flatten().count().max(1) as f64;
        let equal = judged(&self.alone_bps) / judged(&self.alone_bps[..self.member_count]);
        let total = self.all.iter().sum::<f64>().max(f64::MIN_POSITIVE);
        std::array::from_fn(|state| TimeAndLoss {
            seconds: self.seconds[state],
            lost: (self.all[state] - equal * self.inside[state]) / total,
        })
    }

    /// The result; `None` without outsiders.
    pub fn result(&self, drawn: &Drawn, cubic: Option<f64>) -> Option<BesideOutsiders> {
        let outsider_count = drawn.phys.len() - self.member_count;
        if outsider_count == 0 {
            return None;
        }
        let alone_bps: Vec<f64> = drawn.phys.iter().map(|phy| hint_of(*phy).alone_bps as f64).collect();
        let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len().max(1) as f64;
        let aggressive =
            |algorithm| matches!(algorithm, Algorithm::Bbr | Algorithm::Bic | Algorithm::Scalable);
        let senders = &drawn.scenario.terminals[self.member_count..];
        let features = Features {
            downloads: drawn.classes.contains(&"downloads"),
            rate_ratio: mean(&alone_bps[self.member_count..]) / mean(&alone_bps[..self.member_count]),
            fraction: outsider_count as f64 / drawn.phys.len() as f64,
            aggressive: senders.iter().any(|terminal| aggressive(terminal.sender.algorithm)),
            cubic_is_low: cubic.is_some_and(|inside| inside < LOW_RATIO),
        };
        let kinds = KINDS.iter().filter(|(_, belongs)| belongs(&features)).map(|(kind, _)| *kind).collect();
        Some(BesideOutsiders { kinds, costs: self.costs() })
    }
}

/// How many settings are low by kind of outsiders, and in which state of the group members lose
/// there. Empty without outsiders.
pub fn table(outcomes: &[Outcome]) -> String {
    let beside: Vec<(&Outcome, &BesideOutsiders)> =
        outcomes.iter().filter_map(|o| Some((o, o.outsiders.as_ref()?))).collect();
    if beside.is_empty() {
        return String::new();
    }
    let states = State::ALL.map(State::name).join(" | ");
    let mut text = format!(
        "\nBeside outsiders, members' part of an equal part (CUBIC). Of the settings below {LOW_RATIO}: their queue, and by state of the group\n\
         the mean time, s, and the part that members lost in it:\n\n\
         | outsiders | settings | mean | below {LOW_RATIO} | below 0.7 | queue median, ms | {states} |\n|---|{}\n",
        "---|".repeat(5 + State::ALL.len())
    );
    for (kind, _) in KINDS {
        let of: Vec<_> = beside.iter().filter(|(_, b)| b.kinds.contains(&kind)).collect();
        if of.is_empty() {
            continue;
        }
        let parts: [Vec<f64>; 2] = [
            of.iter().filter_map(|(o, _)| o.shared.inside).collect(),
            of.iter().filter_map(|(o, _)| o.cubic.inside).collect(),
        ];
        let [ours, cubic] = parts.each_ref().map(|of| of.iter().sum::<f64>() / of.len().max(1) as f64);
        let below = |least: f64| {
            let [ours, cubic] = parts.each_ref().map(|of| of.iter().filter(|part| **part < least).count());
            format!("{ours} ({cubic})")
        };
        let low: Vec<_> = of.iter().filter(|(o, _)| o.shared.inside.is_some_and(|i| i < LOW_RATIO)).collect();
        let queues: Vec<f64> = low.iter().map(|(o, _)| o.shared.queue_ms).collect();
        let queue = if low.is_empty() { "-".to_owned() } else { format!("{:.0}", quantile(&queues, 0.5)) };
        let _ = write!(
            text,
            "| {kind} | {} | {ours:.3} ({cubic:.3}) | {} | {} | {queue} |",
            of.len(),
            below(LOW_RATIO),
            below(0.7)
        );
        for state in State::ALL {
            let mean = |value: fn(&TimeAndLoss) -> f64| {
                low.iter().map(|(_, b)| value(&b.costs[state as usize])).sum::<f64>() / low.len() as f64
            };
            let _ = match low.len() {
                0 => write!(text, " - |"),
                _ => write!(text, " {:.1}: {:.3} |", mean(|c| c.seconds), mean(|c| c.lost)),
            };
        }
        text += "\n";
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::draw;
    use super::*;

    /// Members get their part behind others' queue, and half of it before that is found.
    #[test]
    fn the_loss_counts_in_the_state_in_which_it_arose() {
        let drawn = (0..).map(|number| draw::setting(5, number)).find(|d| d.outsider_count > 0).unwrap();
        let mut sums = Sums::of(&drawn);
        let n = drawn.phys.len();
        sums.alone_bps = vec![Some(1.0); n];
        let [members, outsider_count] = [sums.member_count, drawn.outsider_count].map(|count| count as f64);
        let all = |member: u64, other: u64| -> Vec<Option<Observation>> {
            let delivered = |number| if number < sums.member_count { member } else { other };
            let seen = |number| Some(Observation { delivered: delivered(number), ..Observation::default() });
            (0..n).map(seen).collect()
        };
        let ticks = [
            (4_000, all(100, 900), Phase::StartUp, false),
            (6_000, all(200, 1_100), Phase::Hold, false),
            (7_000, all(1_200, 2_100), Phase::Contend, false),
            (8_000, all(2_200, 3_100), Phase::Hold, false),
            (9_000, all(2_200, 3_100), Phase::Contend, true),
        ];
        for (ms, terminals, phase, doubts) in ticks {
            sums.add(Time::from_nanos(ms * 1_000_000), &terminals, phase, doubts);
        }
        let costs = sums.costs();
        assert_eq!(costs.map(|cost| cost.seconds), [0.0, 2.0, 1.0, 1.0, 1.0]);
        assert!([0, 2, 3, 4].into_iter().all(|state| costs[state].lost.abs() < 1e-9), "{costs:?}");
        let total = members * 2_100.0 + outsider_count * 2_200.0;
        let mean = total / (members + outsider_count);
        let lost: f64 = costs.iter().map(|cost| cost.lost).sum();
        assert!((lost - (1.0 - 2_100.0 / mean)).abs() < 1e-9, "{costs:?}");
        assert!(lost > 0.0);
        let result = sums.result(&drawn, Some(0.7)).unwrap();
        assert!(result.kinds.contains(&"all") && result.kinds.contains(&"plain CUBIC is low, too"));
    }
}
