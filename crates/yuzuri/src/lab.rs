//! `yuzuri lab`: experiments over an emulated wireless cell.

use crate::signals;
use anyhow::{Context, bail};
use clap::{Args, Subcommand, ValueEnum};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use yuzuri_lab::batch::{self, Event, Executor, Here, OutLock, Planned, State};
use yuzuri_lab::guest::{self, InGuest};
use yuzuri_lab::run::{Clock, RunRecord};
use yuzuri_lab::scenario::Document;
use yuzuri_lab::{net, report};

#[derive(Debug, Args)]
pub struct LabArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show the scenarios of a folder
    List {
        /// The folder
        #[arg(default_value = "scenarios")]
        folder: PathBuf,
    },
    /// Say what is wrong with scenarios, or what they would do
    Check {
        /// The scenarios
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Run a scenario as it is, without what it varies
    Run(RunArgs),
    /// Run all that a scenario varies, with all repetitions; what is finished is not repeated
    Sweep(SweepArgs),
    /// Make the report of a folder of results
    Report {
        /// The folder
        folder: PathBuf,
    },
    /// Remove what killed runs left on this host; live runs are not touched
    Clean,
    /// What a guest does
    #[command(hide = true)]
    Inside { scenario: PathBuf, task: PathBuf, results: PathBuf },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ClockWord {
    /// On this host: quick, but its load can change the figures
    Real,
    /// In a guest (QEMU) whose clock counts instructions: the load of this host changes nothing
    Virtual,
}

#[derive(Debug, Args)]
struct CommonArgs {
    /// The scenario
    file: PathBuf,

    /// Folder of the results [default: lab-results/NAME]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,

    /// Another value of a field: path.rtt_ms=64, terminal.phone.window=50
    #[arg(long, value_name = "FIELD=VALUE")]
    set: Vec<String>,

    /// The guest's kernel with --clock virtual
    #[arg(long, default_value = "6.12", value_parser = |text: &str| text.parse::<guest::Kernel>())]
    kernel: guest::Kernel,

    /// Make no report
    #[arg(long)]
    no_report: bool,
}

#[derive(Debug, Args)]
struct RunArgs {
    #[command(flatten)]
    common: CommonArgs,

    /// Which clock
    #[arg(long, value_enum, default_value_t = ClockWord::Real)]
    clock: ClockWord,
}

#[derive(Debug, Args)]
struct SweepArgs {
    #[command(flatten)]
    common: CommonArgs,

    /// Which clock
    #[arg(long, value_enum, default_value_t = ClockWord::Virtual)]
    clock: ClockWord,

    /// Runs side by side [default: one in real time for each two cores, one in virtual time for each core]
    #[arg(long)]
    jobs: Option<usize>,
}

/// Does it.
pub fn run(args: LabArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        Command::List { folder } => list(&folder),
        Command::Check { files } => check(&files),
        Command::Run(args) => {
            let mut document = open(&args.common)?;
            let fields: Vec<String> = document.sweep().keys().cloned().collect();
            document = document.without_variation();
            if !fields.is_empty() {
                eprintln!("yuzuri: not varied here: {}; `yuzuri lab sweep` runs them all", fields.join(", "));
            }
            runs(&document, &args.common, args.clock, Some(1), true)
        }
        Command::Sweep(args) => {
            let document = open(&args.common)?;
            runs(&document, &args.common, args.clock, args.jobs, false)
        }
        Command::Report { folder } => {
            println!("{}", report::write(&folder)?.display());
            Ok(ExitCode::SUCCESS)
        }
        Command::Clean => {
            let cleaned = net::clean()?;
            cleaned.namespaces.iter().for_each(|name| println!("removed {name}"));
            if cleaned.live_runs > 0 {
                println!("{} live runs were left alone", cleaned.live_runs);
            }
            Ok(ExitCode::SUCCESS)
        }
        Command::Inside { scenario, task, results } => {
            let stop = signals::stop_flag()?;
            guest::inside(&scenario, &task, &results, &stop)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn open(args: &CommonArgs) -> anyhow::Result<Document> {
    let document = Document::open(&args.file).map_err(yuzuri_lab::LabError::Scenario)?;
    let pair = |words: &String| {
        let (field, text) =
            words.split_once('=').with_context(|| format!("--set {words}: FIELD=VALUE is wanted"))?;
        Ok((field.to_owned(), Document::value(text)))
    };
    let values = args.set.iter().map(pair).collect::<anyhow::Result<Vec<_>>>()?;
    if values.is_empty() {
        return Ok(document);
    }
    Ok(document.with(&values).map_err(yuzuri_lab::LabError::Scenario)?)
}

fn list(folder: &Path) -> anyhow::Result<ExitCode> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("{}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    files.retain(|file| file.extension().is_some_and(|e| e == "toml"));
    files.sort();
    let mut bad = false;
    for file in &files {
        match Document::open(file) {
            Ok(document) => {
                let planned = batch::plan(&document, Clock::Virtual, Path::new(""));
                let runs = planned.map_err(yuzuri_lab::LabError::Scenario)?.len();
                println!("{:24} {:4} runs  {}", document.name, runs, document.base().title);
            }
            Err(problems) => {
                bad = true;
                println!("{problems}");
            }
        }
    }
    if files.is_empty() {
        bail!("there are no scenarios (*.toml) in {}", folder.display());
    }
    Ok(if bad { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn check(files: &[PathBuf]) -> anyhow::Result<ExitCode> {
    let mut bad = false;
    for file in files {
        match Document::open(file) {
            Ok(document) => {
                let planned = batch::plan(&document, Clock::Virtual, Path::new(""));
                let planned = planned.map_err(yuzuri_lab::LabError::Scenario)?;
                let seconds: f64 = planned.iter().map(|p| p.scenario.duration_s).sum();
                println!("{}: good; {} runs, {:.0} s of experiment", file.display(), planned.len(), seconds);
            }
            Err(problems) => {
                bad = true;
                println!("{problems}");
            }
        }
    }
    Ok(if bad { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn runs(
    document: &Document,
    args: &CommonArgs,
    word: ClockWord,
    jobs: Option<usize>,
    again: bool,
) -> anyhow::Result<ExitCode> {
    let stop = signals::stop_flag()?;
    let out = args.out.clone().unwrap_or_else(|| Path::new("lab-results").join(&document.name));
    let clock = match word {
        ClockWord::Real => Clock::Real,
        ClockWord::Virtual => Clock::Virtual,
    };
    let all = batch::plan(document, clock, &out).map_err(yuzuri_lab::LabError::Scenario)?;
    let _lock = OutLock::claim(&out)?;
    if clock == Clock::Real {
        let cleaned = net::clean()?;
        if !cleaned.namespaces.is_empty() {
            eprintln!("yuzuri: removed {} namespaces that a killed run left", cleaned.namespaces.len());
        }
    }
    let (todo, there): (Vec<Planned>, Vec<Planned>) =
        all.into_iter().partition(|p| again || p.state() != State::Finished);
    if !there.is_empty() {
        eprintln!("yuzuri: {} runs are finished and not repeated", there.len());
    }
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let jobs = jobs.unwrap_or(if clock == Clock::Real { cores / 2 } else { cores }).max(1);
    let in_guest;
    let executor: &dyn Executor = match clock {
        Clock::Real => &Here,
        Clock::Virtual => {
            let program = std::env::current_exe().context("finding this program, which the guest runs")?;
            in_guest = InGuest { program, kernel: args.kernel, memory_mb: 2048 };
            &in_guest
        }
    };
    let screen =
        Screen { begun: Instant::now(), last: Mutex::new(None), live: std::io::stderr().is_terminal() };
    let outcome = batch::execute(&todo, executor, jobs, &stop, &|event| screen.show(&event));
    screen.clear();
    for (name, error) in &outcome.failed {
        eprintln!("yuzuri: {name}: {error}");
    }
    if outcome.invalid > 0 {
        eprintln!(
            "yuzuri: {} of {} runs are NOT VALID (their run.json says why); another sweep repeats them",
            outcome.invalid, outcome.done
        );
    }
    if outcome.stopped {
        eprintln!(
            "yuzuri: stopped; {} of {} runs are finished and kept in {}",
            outcome.done + there.len(),
            todo.len() + there.len(),
            out.display()
        );
        return Ok(ExitCode::from(130));
    }
    if !args.no_report && outcome.done + there.len() > 0 {
        println!("{}", report::write(&out)?.display());
    }
    let good = outcome.failed.is_empty() && outcome.invalid == 0;
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Progress on standard error: a line that is rewritten on a terminal, now and then a line elsewhere.
struct Screen {
    begun: Instant,
    last: Mutex<Option<Instant>>,
    live: bool,
}

impl Screen {
    fn show(&self, event: &Event<'_>) {
        match event {
            Event::Begun(_) => {}
            Event::Progress { done, of, part } => {
                let every = Duration::from_millis(if self.live { 200 } else { 10_000 });
                let mut last = self.last.lock().unwrap_or_else(|e| e.into_inner());
                if last.is_some_and(|last| last.elapsed() < every) {
                    return;
                }
                *last = Some(Instant::now());
                let gone = self.begun.elapsed().as_secs_f64();
                let left = if *part > 0.01 {
                    format!(", about {} left", span(gone / part - gone))
                } else {
                    String::new()
                };
                let text = format!("{done} of {of} runs, {:.0} %{left}", part * 100.0);
                if self.live {
                    eprint!("\r\x1b[K{text}");
                    let _ = std::io::stderr().flush();
                } else {
                    eprintln!("yuzuri: {text}");
                }
            }
            Event::Done(planned, record) => {
                self.clear();
                println!("{}", line(planned, record));
            }
            Event::Failed(planned, error) => {
                self.clear();
                println!("{}: FAILED: {error}", planned.name());
            }
        }
    }

    fn clear(&self) {
        if self.live {
            eprint!("\r\x1b[K");
        }
    }
}

fn span(seconds: f64) -> String {
    let seconds = seconds.max(0.0) as u64;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, m, s) => format!("{m} min {s} s"),
        (h, m, _) => format!("{h} h {m} min"),
    }
}

/// A run in one line, and its terminals.
fn line(planned: &Planned, record: &RunRecord) -> String {
    let totals = &record.totals;
    let ms = |value: Option<f64>| value.map_or("-".into(), |v| format!("{v:.1}"));
    let mut text = format!(
        "{}: total {:.2} Mbit/s, Jain {}, RTT mean {} ms, p95 {} ms, {} retransmissions, {} drops; seen {} = kept {} + lost {}; late {:.2} %",
        planned.name(),
        totals.throughput_mbps,
        totals.jain.map_or("-".into(), |j| format!("{j:.3}")),
        ms(totals.rtt_mean_ms),
        ms(totals.rtt_p95_ms),
        totals.retransmissions,
        totals.drops,
        record.watched.seen,
        record.watched.kept,
        record.watched.lost,
        record.lateness.share() * 100.0
    );
    for terminal in &record.terminals {
        text += &format!(
            "\n    {:16} {:8.2} Mbit/s  cwnd {:>7}  RTT {:>7} ms  {:5} retransmissions  air {:4.1} %  {}",
            terminal.name,
            terminal.throughput_mbps,
            terminal.cwnd_mean.map_or("-".into(), |w| format!("{w:.1}")),
            ms(terminal.rtt_mean_ms),
            terminal.retransmissions,
            terminal.radio.airtime * 100.0,
            terminal.control
        );
    }
    for why in &record.invalid_because {
        text += &format!("\n    NOT VALID: {why}");
    }
    for note in &record.notes {
        text += &format!("\n    note: {note}");
    }
    text
}
