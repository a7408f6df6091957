//! Compares the simulation with the kernel on the same scenario files, which `yuzuri lab sweep`
//! runs with the kernel's TCP.
//!
//! Each point is simulated with the seeds of the kernel's runs. `scripts/compare-simulation.sh`
//! runs both sides.

use super::{Figures, JAIN_LIMIT, Setting, TOTAL_LIMIT, points};
use anyhow::{Context, anyhow};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use yuzuri_lab::batch::{self, State};
use yuzuri_lab::run::{Clock, RunRecord};
use yuzuri_scenario::Document;

#[derive(clap::Args)]
pub struct Args {
    /// Folder whose subfolder NAME holds the laboratory's results of NAME.toml
    #[arg(long, value_name = "FOLDER", default_value = "lab-results/check")]
    results: PathBuf,
    /// Seeds over which Jain's index of the simulation is averaged, at least
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Also write the kernel's figures to this file
    #[arg(long, value_name = "CSV")]
    save: Option<PathBuf>,
    /// Scenario files
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// The kernel's figures of one run.
fn figures(record: &RunRecord) -> Figures {
    let terminals = &record.terminals;
    let sum =
        |value: fn(&yuzuri_lab::run::TerminalRecord) -> u64| terminals.iter().map(value).sum::<u64>() as f64;
    let cwnd = terminals.iter().filter_map(|terminal| terminal.cwnd_mean).sum::<f64>();
    Figures {
        total_mbps: record.totals.throughput_mbps,
        jain: record.totals.jain.unwrap_or(f64::NAN),
        rtt_ms: record.totals.rtt_mean_ms.unwrap_or(f64::NAN),
        cwnd: cwnd / terminals.len() as f64,
        retransmissions: sum(|terminal| terminal.retransmissions),
        recoveries: sum(|terminal| terminal.recoveries),
        timeouts: sum(|terminal| terminal.timeouts),
    }
}

/// Counts of compared settings, and the kernel's figures for `--save`.
#[derive(Default)]
struct Outcome {
    within: usize,
    outside: usize,
    missing: usize,
    saved: String,
}

fn compare(file: &Path, args: &Args, outcome: &mut Outcome) -> anyhow::Result<()> {
    let document = Document::open(file).map_err(|problems| anyhow!("{problems}"))?;
    let planned = batch::plan(&document, Clock::Virtual, &args.results.join(&document.name))
        .map_err(|problems| anyhow!("{problems}"))?;
    for point in points(&document) {
        let mut kernel = Vec::new();
        for run in planned.iter().filter(|run| run.task.point == point.name) {
            if run.state() != State::Finished {
                continue;
            }
            let record = RunRecord::open(&run.folder)?;
            let figures = figures(&record);
            let cells = figures.cells().map(|cell| format!("{cell:.5}")).join(",");
            let (name, point, seed) = (&document.name, &point.name, run.task.seed);
            let _ = writeln!(outcome.saved, "{name},\"{point}\",{},{seed},{cells}", record.host.kernel);
            kernel.push((run.task.seed, figures));
        }
        let name = format!("{} {}", document.name, point.name.replace("terminal.", ""));
        if kernel.is_empty() {
            println!("{name:42} | no valid kernel run");
            outcome.missing += 1;
            continue;
        }
        let setting = Setting::of(&point.scenario, &kernel, args.seeds)?;
        let (k, o) = (&setting.kernel, &setting.simulation);
        let within = setting.is_within_limits();
        println!(
            "{name:42} {} | {:6.2} {:6.2} {:+6.1} % | {:.3} {:.3} {:+.3} ({:.2} {:.2}) | {:6.1} {:6.1} | {:6.1} {:6.1} | {:5.0} {:5.0} | {:4.1} {:4.1} | {:4.1} {:4.1} | {}",
            kernel.len(),
            k.total_mbps,
            o.total_mbps,
            setting.total_error() * 100.0,
            k.jain,
            o.jain,
            setting.jain_error(),
            setting.jain_spread.0,
            setting.jain_spread.1,
            k.rtt_ms,
            o.rtt_ms,
            k.cwnd,
            o.cwnd,
            k.retransmissions,
            o.retransmissions,
            k.recoveries,
            o.recoveries,
            k.timeouts,
            o.timeouts,
            if within { "pass" } else { "MISS" }
        );
        *(if within { &mut outcome.within } else { &mut outcome.outside }) += 1;
    }
    Ok(())
}

/// Prints a row for each setting.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    println!(
        "setting, kernel runs | total, Mbit/s: kernel, simulation, difference | Jain: kernel, simulation, difference (range over the seeds: kernel, simulation) | \
         mean smoothed RTT, ms | mean window | retransmissions | recoveries | timeouts | within {:.0} % and {:.2}",
        TOTAL_LIMIT * 100.0,
        JAIN_LIMIT
    );
    let mut outcome = Outcome::default();
    for file in &args.files {
        compare(file, args, &mut outcome).with_context(|| format!("comparing {}", file.display()))?;
    }
    let Outcome { within, outside, missing, saved } = outcome;
    println!("{within} settings within the limits, {outside} outside, {missing} without a kernel run");
    if let Some(path) = &args.save {
        let head = "file,point,kernel,seed,total_mbps,jain,rtt_ms,cwnd,retransmissions,recoveries,timeouts\n";
        std::fs::write(path, format!("{head}{saved}"))
            .with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(if outside + missing == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
