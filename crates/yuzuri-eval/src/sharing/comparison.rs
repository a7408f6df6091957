//! Runs every setting with every contender, in parallel on all cores.

use crate::sharing::contender::{Contender, alone_bps};
use crate::sharing::setting::Setting;
use parking_lot::Mutex;
use serde::Serialize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use yuzuri_sim::{Results, ScenarioError};
use yuzuri_stats::quantile;

/// The results of a contender in a setting: medians over seeds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Figures {
    /// Payload of all terminals from the start of the run, Mbit/s.
    pub total_mbps: f64,
    /// Jain's index on rate over rate alone, after 5 s (for a newcomer: over the last 15 s of its
    /// presence).
    pub jain: f64,
    /// If not all terminals share: the rate of those that do, relative to an equal share of the
    /// total, after 5 s.
    pub inside: f64,
    /// Mean smoothed round-trip time over time and terminals, ms.
    pub rtt_ms: f64,
    /// Fraction of the segments that were retransmitted.
    pub retransmitted: f64,
    /// Retransmission timeouts.
    pub timeouts: f64,
}

impl Figures {
    fn of(setting: &Setting, results: &Results) -> Figures {
        let terminals = results.terminals.len() as f64;
        let rates = results.goodputs();
        let mean = |rates: &[f64]| rates.iter().sum::<f64>() / rates.len() as f64;
        Figures {
            total_mbps: results.goodputs_total().iter().sum(),
            jain: results.jain_of_alone(&alone_bps(setting)),
            inside: mean(&rates[..rates.len() - setting.outsider_count]) / mean(&rates),
            rtt_ms: results.terminals.iter().map(|t| t.srtt_mean_ms).sum::<f64>() / terminals,
            retransmitted: results.retransmitted_share(),
            timeouts: results.timeouts() as f64,
        }
    }

    fn median(all: &[Figures]) -> Figures {
        let median = |of: fn(&Figures) -> f64| {
            let values: Vec<f64> = all.iter().map(of).collect();
            quantile(&values, 0.5)
        };
        Figures {
            total_mbps: median(|f| f.total_mbps),
            jain: median(|f| f.jain),
            inside: median(|f| f.inside),
            rtt_ms: median(|f| f.rtt_ms),
            retransmitted: median(|f| f.retransmitted),
            timeouts: median(|f| f.timeouts),
        }
    }
}

/// A setting and the results of each contender in it.
pub struct Row {
    /// The setting.
    pub setting: Setting,
    /// By contender, in the order of the contenders.
    pub figures: Vec<Figures>,
}

/// Executes all runs; `progress` receives the number of finished runs and of all. `None` if it was
/// stopped.
pub fn comparison(
    settings: &[Setting],
    contenders: &[Contender],
    seeds: u64,
    jobs: usize,
    stop: &AtomicBool,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> anyhow::Result<Option<Vec<Row>>> {
    let mut runs = Vec::new();
    for (s, _) in settings.iter().enumerate() {
        for (c, _) in contenders.iter().enumerate() {
            runs.extend((1..=seeds).map(|seed| (s, c, seed)));
        }
    }
    let figures = |(s, c, seed): &(usize, usize, u64)| {
        let results = contenders[*c].run(&settings[*s], *seed)?;
        Ok(Figures::of(&settings[*s], &results))
    };
    let Some(all) = each(&runs, jobs, stop, progress, figures)? else { return Ok(None) };
    let mut found = vec![vec![Vec::new(); contenders.len()]; settings.len()];
    for ((s, c, _), figures) in runs.iter().zip(all) {
        found[*s][*c].push(figures);
    }
    let row = |(setting, found): (&Setting, Vec<Vec<Figures>>)| Row {
        setting: setting.clone(),
        figures: found.iter().map(|all| Figures::median(all)).collect(),
    };
    Ok(Some(settings.iter().zip(found).map(row).collect()))
}

/// Calls `work` for each of `items` on `jobs` threads, and returns the results in the order of the
/// items; `progress` receives the number of items done and in total. `None` if it was stopped.
///
/// # Errors
/// The first error of `work`.
pub fn each<I: Sync, O: Send>(
    items: &[I],
    jobs: usize,
    stop: &AtomicBool,
    progress: &(dyn Fn(usize, usize) + Sync),
    work: impl Fn(&I) -> Result<O, ScenarioError> + Sync,
) -> anyhow::Result<Option<Vec<O>>> {
    let next = AtomicUsize::new(0);
    let done = AtomicUsize::new(0);
    let found: Mutex<Vec<(usize, O)>> = Mutex::new(Vec::with_capacity(items.len()));
    std::thread::scope(|scope| {
        let take = || -> anyhow::Result<()> {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(item) = items.get(number).filter(|_| !yuzuri_exit::stopped(stop)) else { break };
                let out = work(item)?;
                found.lock().push((number, out));
                progress(done.fetch_add(1, Ordering::Relaxed) + 1, items.len());
            }
            Ok(())
        };
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(take)).collect();
        workers.into_iter().try_for_each(|w| w.join().unwrap_or_else(|p| std::panic::resume_unwind(p)))
    })?;
    if yuzuri_exit::stopped(stop) {
        return Ok(None);
    }
    let mut found = found.into_inner();
    found.sort_by_key(|(number, _)| *number);
    Ok(Some(found.into_iter().map(|(_, out)| out).collect()))
}
