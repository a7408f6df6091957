//! Compares the simulation with the kernel on the same scenario files, which `yuzuri lab sweep`
//! runs with the kernel's TCP.
//!
//! `cargo run --release -p yuzuri-sim --example compare -- [--results FOLDER] [--seeds N] [--save
//! CSV] FILE...`
//!
//! `FOLDER/NAME` holds the laboratory's results of `NAME.toml` (`lab-results/check`). Each point is
//! simulated with the seeds of the kernel's runs; Jain's index is averaged over at least N seeds
//! (default 30). `CSV` receives the kernel's figures. `scripts/compare-simulation.sh` runs both
//! sides. The exit status is 1 if a setting exceeds the limits.

#[path = "../tests/common/lab.rs"]
mod lab;

use lab::{Figures, Setting};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use yuzuri_lab::batch::{self, State};
use yuzuri_lab::run::{Clock, RunRecord};
use yuzuri_scenario::Document;

struct Args {
    results: PathBuf,
    seeds: u64,
    save: Option<PathBuf>,
    files: Vec<PathBuf>,
}

fn args() -> Result<Args, String> {
    let mut args = Args { results: "lab-results/check".into(), seeds: 30, save: None, files: Vec::new() };
    let mut argv = std::env::args().skip(1);
    while let Some(arg) = argv.next() {
        let mut value = || argv.next().ok_or(format!("{arg} needs a value"));
        match arg.as_str() {
            "--results" => args.results = value()?.into(),
            "--seeds" => args.seeds = value()?.parse().map_err(|error| format!("--seeds: {error}"))?,
            "--save" => args.save = Some(value()?.into()),
            _ => args.files.push(arg.into()),
        }
    }
    if args.files.is_empty() || args.seeds == 0 {
        return Err("give scenario files, and --seeds of 1 or more".into());
    }
    Ok(args)
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

fn compare(file: &Path, args: &Args, outcome: &mut Outcome) -> Result<(), String> {
    let document = Document::open(file).map_err(|problems| problems.to_string())?;
    let planned = batch::plan(&document, Clock::Virtual, &args.results.join(&document.name))
        .map_err(|problems| problems.to_string())?;
    for point in lab::points(&document) {
        let mut kernel = Vec::new();
        for run in planned.iter().filter(|run| run.task.point == point.name) {
            if run.state() != State::Finished {
                continue;
            }
            let record = RunRecord::open(&run.folder).map_err(|error| error.to_string())?;
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

fn main() -> ExitCode {
    let fail = |what: String| {
        eprintln!("compare: {what}");
        ExitCode::FAILURE
    };
    let args = match args() {
        Ok(args) => args,
        Err(what) => return fail(what),
    };
    println!(
        "setting, kernel runs | total, Mbit/s: kernel, simulation, difference | Jain: kernel, simulation, difference (range over the seeds: kernel, simulation) | \
         mean smoothed RTT, ms | mean window | retransmissions | recoveries | timeouts | within {:.0} % and {:.2}",
        lab::TOTAL_LIMIT * 100.0,
        lab::JAIN_LIMIT
    );
    let mut outcome = Outcome::default();
    for file in &args.files {
        if let Err(what) = compare(file, &args, &mut outcome) {
            return fail(format!("{}: {what}", file.display()));
        }
    }
    let Outcome { within, outside, missing, saved } = outcome;
    println!("{within} settings within the limits, {outside} outside, {missing} without a kernel run");
    if let Some(path) = &args.save {
        let head = "file,point,kernel,seed,total_mbps,jain,rtt_ms,cwnd,retransmissions,recoveries,timeouts\n";
        if let Err(error) = std::fs::write(path, format!("{head}{saved}")) {
            return fail(format!("writing {}: {error}", path.display()));
        }
    }
    if outside + missing == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
