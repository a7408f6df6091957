//! Laboratory settings (`scenarios/check`): the kernel's figures and the simulation's.

pub mod command;
#[cfg(test)]
mod tests;

use yuzuri_scenario::fairness::jain;
use yuzuri_scenario::{Document, Point, Scenario as LabScenario};
use yuzuri_sim::{NoBounds, Results, run, simulated};

/// Maximum relative difference of the total.
pub const TOTAL_LIMIT: f64 = 0.05;
/// Maximum difference of Jain's index.
pub const JAIN_LIMIT: f64 = 0.05;

/// Figures after warm-up.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    pub total_mbps: f64,
    pub jain: f64,
    /// Smoothed RTT, mean over time and over all terminals.
    pub rtt_ms: f64,
    /// Mean window, segments.
    pub cwnd: f64,
    pub retransmissions: f64,
    pub recoveries: f64,
    pub timeouts: f64,
}

impl Figures {
    const FIELDS: usize = 7;

    pub fn cells(&self) -> [f64; Figures::FIELDS] {
        let Figures { total_mbps, jain, rtt_ms, cwnd, retransmissions, recoveries, timeouts } = *self;
        [total_mbps, jain, rtt_ms, cwnd, retransmissions, recoveries, timeouts]
    }

    pub fn of_cells(cells: [f64; Figures::FIELDS]) -> Figures {
        let [total_mbps, jain, rtt_ms, cwnd, retransmissions, recoveries, timeouts] = cells;
        Figures { total_mbps, jain, rtt_ms, cwnd, retransmissions, recoveries, timeouts }
    }

    /// The mean over runs.
    pub fn mean(all: &[Figures]) -> Figures {
        let mut sums = [0.0; Figures::FIELDS];
        for figures in all {
            sums.iter_mut().zip(figures.cells()).for_each(|(sum, cell)| *sum += cell);
        }
        Figures::of_cells(sums.map(|sum| sum / all.len() as f64))
    }

    fn of(results: &Results) -> Figures {
        let terminals = &results.terminals;
        let mean = |value: fn(&yuzuri_sim::TerminalResult) -> f64| {
            terminals.iter().map(value).sum::<f64>() / terminals.len() as f64
        };
        let sum = |value: fn(&yuzuri_sim::SenderCounts) -> u64| {
            terminals.iter().map(|terminal| value(&terminal.counts_warm)).sum::<u64>() as f64
        };
        Figures {
            total_mbps: results.total_mbps(),
            jain: jain(results.goodputs()).unwrap_or(1.0),
            rtt_ms: mean(|terminal| terminal.srtt_mean_ms),
            cwnd: mean(|terminal| terminal.cwnd_mean),
            retransmissions: sum(|counts| counts.retransmissions),
            recoveries: sum(|counts| counts.recoveries),
            timeouts: sum(|counts| counts.timeouts),
        }
    }
}

/// The points of a scenario file.
pub fn points(document: &Document) -> Vec<Point> {
    document.points().unwrap_or_else(|problems| panic!("{problems}"))
}

/// The simulation's figures with `seed`.
///
/// # Errors
/// Same as [`simulated`], and errors of the simulation.
pub fn simulated_figures(lab: &LabScenario, seed: u64) -> anyhow::Result<Figures> {
    let scenario = simulated(lab, seed).map_err(|problems| anyhow::anyhow!("{problems:?}"))?;
    let results = run(&scenario, &mut NoBounds)?;
    Ok(Figures::of(&results))
}

/// One setting, run by kernel and simulation.
pub struct Setting {
    pub kernel: Figures,
    pub simulation: Figures,
    /// Range (maximum minus minimum) of Jain's index over the seeds: kernel, simulation.
    pub jain_spread: (f64, f64),
}

impl Setting {
    /// Builds a setting from the kernel's runs by seed. The same seed loses the same packets on the
    /// path, so all figures except Jain's index are averaged over the kernel's seeds. How the flows
    /// divide the total is random for any seed, so Jain's index is averaged over at least `seeds`
    /// runs.
    ///
    /// # Errors
    /// Same as [`simulated_figures`].
    pub fn of(lab: &LabScenario, kernel: &[(u64, Figures)], seeds: u64) -> anyhow::Result<Setting> {
        let kernel_figures: Vec<Figures> = kernel.iter().map(|(_, figures)| *figures).collect();
        let same_seeds =
            kernel.iter().map(|(seed, _)| simulated_figures(lab, *seed)).collect::<Result<Vec<_>, _>>()?;
        let mut all = same_seeds.clone();
        let mut seed = 0;
        while (all.len() as u64) < seeds {
            seed += 1;
            if kernel.iter().all(|(known, _)| *known != seed) {
                all.push(simulated_figures(lab, seed)?);
            }
        }
        let spread = |all: &[Figures]| {
            let values = || all.iter().map(|figures| figures.jain);
            values().fold(f64::MIN, f64::max) - values().fold(f64::MAX, f64::min)
        };
        Ok(Setting {
            kernel: Figures::mean(&kernel_figures),
            simulation: Figures { jain: Figures::mean(&all).jain, ..Figures::mean(&same_seeds) },
            jain_spread: (spread(&kernel_figures), spread(&all)),
        })
    }

    /// Relative error of the simulation's total.
    pub fn total_error(&self) -> f64 {
        self.simulation.total_mbps / self.kernel.total_mbps - 1.0
    }

    /// Error of the simulation's index.
    pub fn jain_error(&self) -> f64 {
        self.simulation.jain - self.kernel.jain
    }

    pub fn is_within_limits(&self) -> bool {
        self.total_error().abs() <= TOTAL_LIMIT && self.jain_error().abs() <= JAIN_LIMIT
    }
}
