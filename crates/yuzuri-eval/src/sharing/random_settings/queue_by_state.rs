//! The composition of a long queue: when it arises, and which part of it smaller windows cannot
//! remove.

use super::draw::Drawn;
use super::figures::LONG_MS;
use super::{Figures, Outcome};
use serde::Serialize;
use std::fmt::Write as _;
use yuzuri_netmodel::Time;
use yuzuri_policy::Phase;
use yuzuri_sim::cc::Bounds;
use yuzuri_sim::{FixedBounds, ScenarioError};
use yuzuri_stats::quantile;

/// The smallest window that the policy sets, segments: with a smaller one, delayed ACKs stall a
/// flow.
const MIN_WINDOW: u32 = 4;
/// A queue within this time after a change of the wire or of a radio is attributed to the change.
const CHANGES_FOR_MS: u64 = 5_000;

/// The parts of a mean queue, ms, by the state of the group at the time.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct QueueByState {
    /// In start-up.
    pub start_up_ms: f64,
    /// In the 5 s after the wire or radios changed.
    pub change_ms: f64,
    /// Behind a queue that the leader attributes to senders outside the group.
    pub standing_ms: f64,
    /// At all other times.
    pub held_ms: f64,
}

/// Sums of queues over samples.
pub struct Sums {
    from: Time,
    changes: Vec<Time>,
    sum: QueueByState,
    samples: usize,
}

impl Sums {
    pub fn of(drawn: &Drawn) -> Sums {
        let at = |ms: u64| Time::from_nanos(ms * 1_000_000);
        Sums {
            from: at(drawn.scenario.warm_up_ms),
            changes: drawn.scenario.changes.iter().map(|change| at(change.at_ms)).collect(),
            sum: QueueByState::default(),
            samples: 0,
        }
    }

    /// Adds the queues of the evaluated members, ms, in this phase of the group.
    pub fn add(&mut self, now: Time, phase: Phase, queues_ms: &[f64]) {
        if now < self.from {
            return;
        }
        let since_ns = |at: &Time| now.as_nanos().checked_sub(at.as_nanos());
        let changed = |at| since_ns(at).is_some_and(|ns| ns < CHANGES_FOR_MS * 1_000_000);
        let part = match phase {
            Phase::StartUp => &mut self.sum.start_up_ms,
            _ if self.changes.iter().any(changed) => &mut self.sum.change_ms,
            Phase::Contend | Phase::Off => &mut self.sum.standing_ms,
            Phase::Hold | Phase::Probe => &mut self.sum.held_ms,
        };
        *part += queues_ms.iter().sum::<f64>();
        self.samples += queues_ms.len();
    }

    pub fn mean(&self) -> QueueByState {
        let of = |sum: f64| sum / self.samples.max(1) as f64;
        QueueByState {
            start_up_ms: of(self.sum.start_up_ms),
            change_ms: of(self.sum.change_ms),
            standing_ms: of(self.sum.standing_ms),
            held_ms: of(self.sum.held_ms),
        }
    }
}

/// The results if the members have the smallest windows all the time. The remaining queue consists
/// of these windows, of traffic that is not bounded (outsiders, downloads, exchanges), and of the
/// channel access delay.
///
/// # Errors
/// None for drawn settings.
pub fn with_min_windows(drawn: &Drawn) -> Result<Figures, ScenarioError> {
    let bounds = Bounds { upper: Some(MIN_WINDOW), ..Bounds::default() };
    let mut least = FixedBounds(vec![bounds; drawn.phys.len() - drawn.outsider_count]);
    Figures::of(drawn, &drawn.scenario, &mut least)
}

/// The best possible results by class, and the composition of each long queue.
pub fn table(outcomes: &[Outcome]) -> String {
    let mut text = String::from(
        "\nThe best possible results: an oracle knows each member's possible rate at each moment; the least windows are always 4 segments per member.\n\n\
         | class | queue p90, ms: CUBIC | ours | oracle | least windows | above 400 ms: ours | oracle | least windows | \
         total over CUBIC p5: ours | oracle |\n|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for class in ["no outsiders", "outsiders"] {
        let of: Vec<&Outcome> = outcomes.iter().filter(|o| o.classes.contains(&class)).collect();
        if of.is_empty() {
            continue;
        }
        let queues = |figures: fn(&Outcome) -> &Figures| -> Vec<f64> {
            of.iter().map(|o| figures(o).queue_ms).collect()
        };
        let p90 = |figures| format!("{:.0}", quantile(&queues(figures), 0.9));
        let long = |figures| queues(figures).iter().filter(|ms| **ms > LONG_MS).count().to_string();
        let p5 = |figures: fn(&Outcome) -> &Figures| {
            let ratios: Vec<f64> =
                of.iter().map(|o| figures(o).total_mbps / o.cubic.total_mbps.max(1e-9)).collect();
            format!("{:.3}", quantile(&ratios, 0.05))
        };
        let columns = [
            p90(|o| &o.cubic),
            p90(|o| &o.shared),
            p90(|o| &o.oracle),
            p90(|o| &o.min_windows),
            long(|o| &o.shared),
            long(|o| &o.oracle),
            long(|o| &o.min_windows),
            p5(|o| &o.shared),
            p5(|o| &o.oracle),
        ];
        let _ = writeln!(text, "| {class} | {} |", columns.join(" | "));
    }
    text += "\nQueues of more than 400 ms without outsiders, ms: the part that no window reduces, the oracle's queue, and when ours occurs.\n\n\
         | setting | CUBIC | ours | oracle | least windows | in start-up | after a change | standing | held | description |\n\
         |---|---|---|---|---|---|---|---|---|---|\n";
    let mut long: Vec<&Outcome> = outcomes
        .iter()
        .filter(|o| o.shared.queue_ms > LONG_MS && o.classes.contains(&"no outsiders"))
        .collect();
    long.sort_by(|a, b| b.shared.queue_ms.total_cmp(&a.shared.queue_ms));
    for outcome in long {
        let queue_by_state = outcome.queue_by_state;
        let numbers = [
            outcome.cubic.queue_ms,
            outcome.shared.queue_ms,
            outcome.oracle.queue_ms,
            outcome.min_windows.queue_ms,
            queue_by_state.start_up_ms,
            queue_by_state.change_ms,
            queue_by_state.standing_ms,
            queue_by_state.held_ms,
        ];
        let numbers = numbers.map(|ms| format!("{ms:.0}")).join(" | ");
        let downloads = if outcome.classes.contains(&"downloads") { ", downloads" } else { "" };
        let _ = writeln!(text, "| {} | {numbers} | {}{downloads} |", outcome.number, outcome.description);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_attributed_to_the_phase_that_caused_it() {
        let at = |ms: u64| Time::from_nanos(ms * 1_000_000);
        let mut sums =
            Sums { from: at(5_000), changes: vec![at(10_000)], sum: QueueByState::default(), samples: 0 };
        sums.add(at(4_500), Phase::StartUp, &[999.0]);
        sums.add(at(5_000), Phase::StartUp, &[100.0]);
        sums.add(at(9_500), Phase::Hold, &[10.0]);
        sums.add(at(10_000), Phase::Contend, &[200.0]);
        sums.add(at(14_999), Phase::Hold, &[40.0]);
        sums.add(at(15_000), Phase::Contend, &[50.0]);
        sums.add(at(20_000), Phase::Contend, &[]);
        let queue_by_state = sums.mean();
        assert_eq!(
            [
                queue_by_state.start_up_ms,
                queue_by_state.change_ms,
                queue_by_state.standing_ms,
                queue_by_state.held_ms
            ],
            [20.0, 48.0, 10.0, 2.0]
        );
    }
}
