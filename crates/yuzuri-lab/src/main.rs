//! The program `yuzuri-lab`, which `yuzuri lab` runs: experiments over an emulated wireless
//! network.

mod args;
mod screen;

use anyhow::{Context, bail};
use args::{Command, CommonArgs, DemoArgs, Lab};
use clap::{CommandFactory, Parser};
use screen::Screen;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use yuzuri_exit::{UsageError, stop_flag};
use yuzuri_lab::batch::{self, Executor, OutLock, Planned, RealTimeExecutor, State};
use yuzuri_lab::guest::{self, GuestExecutor};
use yuzuri_lab::run::{Clock, Simulated, Statuses, check_built};
use yuzuri_lab::{demo, net, report};
use yuzuri_manual::ManualError;
use yuzuri_scenario::Document;
use yuzuri_share::{ControlSocket, ControlSocketOptions};
use yuzuri_stats::counted;

fn main() -> ExitCode {
    run(Lab::parse().command).unwrap_or_else(|error| yuzuri_exit::failed("yuzuri-lab", error.as_ref()))
}

fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::List { folder } => list(&folder),
        Command::Check { files } => check(&files),
        Command::Run(args) => {
            let document = read(&args.common)?;
            let fields: Vec<String> = document.sweep().keys().cloned().collect();
            if !fields.is_empty() {
                yuzuri_exit::note!(
                    "yuzuri-lab: this run ignores the variations of {}; `yuzuri lab sweep` runs them all",
                    fields.join(", ")
                );
            }
            // The overrides need not be compatible with the variations, which are ignored.
            let document = set(document.without_variation(), &args.common)?;
            runs(&document, &args.common, args.flags.or(args.clock), Some(1), &[], true)
        }
        Command::Sweep(args) => {
            let document = set(read(&args.common)?, &args.common)?;
            runs(&document, &args.common, args.flags.or(args.clock), args.jobs, &args.only, false)
        }
        Command::Report { folder } => {
            println!("{}", report::write(&folder)?.display());
            Ok(ExitCode::SUCCESS)
        }
        Command::Compare { one, other, out } => {
            let page = report::compare(&one, &other)?;
            std::fs::write(&out, page).with_context(|| format!("writing {}", out.display()))?;
            println!("{}", out.display());
            Ok(ExitCode::SUCCESS)
        }
        Command::Table { folder, figure, across, beside, median } => {
            let middle = if median { report::Average::Median } else { report::Average::Mean };
            let summary = report::read(&folder)?;
            print!("{}", summary.table(&figure, across.as_deref(), beside.as_ref(), middle)?);
            Ok(ExitCode::SUCCESS)
        }
        Command::Demo(args) => show(&args),
        Command::Clean => {
            let cleaned = net::clean()?;
            cleaned.namespaces.iter().for_each(|name| println!("removed {name}"));
            if cleaned.live_runs > 0 {
                println!("{} running experiments were not touched", cleaned.live_runs);
            }
            Ok(ExitCode::SUCCESS)
        }
        Command::Completions { shell } => {
            yuzuri_manual::print(&yuzuri_manual::completions(Lab::command(), shell))?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Man { folder: Some(folder), .. } => {
            yuzuri_manual::write(&yuzuri_manual::pages(Lab::command(), &[]), &folder)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Man { command, folder: None } => match yuzuri_manual::page(Lab::command(), &command) {
            Ok(page) => {
                yuzuri_manual::show(&page)?;
                Ok(ExitCode::SUCCESS)
            }
            Err(error @ ManualError::UnknownCommand { .. }) => Err(UsageError::new(error.to_string()).into()),
            Err(error) => Err(error.into()),
        },
        Command::Inside { scenario, task, results } => {
            let stop = stop_flag()?;
            guest::inside(&scenario, &task, &results, &stop)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// A temporary folder, removed on drop.
struct TemporaryFolder(PathBuf);

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn show(args: &DemoArgs) -> anyhow::Result<ExitCode> {
    demo::check()?;
    if args.check {
        return Ok(ExitCode::SUCCESS);
    }
    if !(args.half >= 2.0 && args.half <= 10_000.0) {
        bail!("--half {}: choose 2 to 10000 seconds", args.half);
    }
    let stop = stop_flag()?;
    let document = Document::open(&args.file).map_err(yuzuri_lab::LabError::Scenario)?;
    let mut scenario = demo::scenario(document.base(), args.half, args.endless);
    if args.access_point {
        scenario = demo::at_access_point(scenario);
    }
    let folder =
        TemporaryFolder(std::env::temp_dir().join(format!("yuzuri-lab-demo-{}", std::process::id())));
    std::fs::create_dir_all(&folder.0).with_context(|| format!("creating {}", folder.0.display()))?;
    let begins_in = |seconds: f64| format!("sharing begins in {:.0} s", seconds.max(0.0).ceil());
    let statuses = Statuses::starting(begins_in(args.half));
    // The socket accepts no commands: the receiver is dropped.
    let requests = std::sync::mpsc::channel().0;
    let socket = args.share_socket.as_ref().map(|socket| {
        let options = ControlSocketOptions { socket: socket.clone(), metrics: None };
        ControlSocket::open(&options, statuses.cell(), requests)
    });
    let _socket = socket.transpose()?;
    let mut write_result = Ok(());
    let mut built = |names: &[&str]| {
        if let Some(file) = &args.names {
            // Rename into place, so that a reader that waits for the file sees all of it.
            let new = file.with_extension("new");
            let text = names.join("\n") + "\n";
            write_result = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, file));
        }
        yuzuri_exit::note!(
            "demo: {}, each in a network namespace: {} ...",
            counted(names.len(), "terminal"),
            names.first().unwrap_or(&"")
        );
        yuzuri_exit::note!("demo: without sharing for {} s", args.half);
    };
    let mut announced = false;
    let mut progress = |seconds: f64| {
        if seconds < args.half {
            statuses.waiting(begins_in(args.half - seconds));
        }
        if seconds >= args.half && !announced {
            announced = true;
            if args.access_point {
                statuses.waiting("the terminals run nothing: the access point shares for them".into());
            }
            let by = if args.access_point { " by the access point" } else { "" };
            match args.endless {
                true => yuzuri_exit::note!("demo: sharing{by} until Ctrl-C"),
                false => yuzuri_exit::note!("demo: sharing{by} for {} s", args.half),
            }
        }
    };
    let compared = demo::run(&scenario, &folder.0, &stop, &mut progress, &mut built, Some(&statuses))?;
    if let (Some(file), Err(error)) = (&args.names, write_result) {
        bail!("{}: {error}", file.display());
    }
    print!("{compared}");
    Ok(ExitCode::SUCCESS)
}

fn read(args: &CommonArgs) -> anyhow::Result<Document> {
    Ok(Document::open(&args.file).map_err(yuzuri_lab::LabError::Scenario)?)
}

/// Applies the overrides of the command line.
fn set(document: Document, args: &CommonArgs) -> anyhow::Result<Document> {
    let pair = |setting: &String| {
        let (field, text) =
            setting.split_once('=').with_context(|| format!("--set {setting}: give FIELD=VALUE"))?;
        Ok((field.to_owned(), Document::value(text)))
    };
    let values = args.set.iter().map(pair).collect::<anyhow::Result<Vec<_>>>()?;
    if values.is_empty() {
        return Ok(document);
    }
    Ok(document.with(&values).map_err(yuzuri_lab::LabError::Scenario)?)
}

/// The scenarios in a folder and its subfolders.
fn scenarios(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("{}", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    paths.sort();
    // Files before subfolders.
    let (folders, mut files): (Vec<PathBuf>, Vec<PathBuf>) =
        paths.into_iter().partition(|path| path.is_dir());
    files.retain(|file| file.extension().is_some_and(|e| e == "toml"));
    for folder in &folders {
        files.extend(scenarios(folder)?);
    }
    Ok(files)
}

fn list(folder: &Path) -> anyhow::Result<ExitCode> {
    let files = scenarios(folder)?;
    let mut bad = false;
    for file in &files {
        match Document::open(file) {
            Ok(document) => {
                let planned = batch::plan(&document, Clock::Virtual, Path::new(""));
                let runs = planned.map_err(yuzuri_lab::LabError::Scenario)?.len();
                let name = file.strip_prefix(folder).unwrap_or(file).with_extension("");
                println!("{:24} {:>9}  {}", name.display(), counted(runs, "run"), document.base().title);
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
                println!(
                    "{}: valid; {}, {seconds:.0} s of experiment",
                    file.display(),
                    counted(planned.len(), "run")
                );
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
    clock: Clock,
    jobs: Option<usize>,
    only: &[String],
    again: bool,
) -> anyhow::Result<ExitCode> {
    let stop = stop_flag()?;
    let ending = if clock.is_kernels() { "" } else { "-simulated" };
    let name = format!("{}{ending}", document.name);
    let out = args.out.clone().unwrap_or_else(|| Path::new("lab-results").join(name));
    let mut all = batch::plan(document, clock, &out).map_err(yuzuri_lab::LabError::Scenario)?;
    if !only.is_empty() {
        let planned = all.len();
        all.retain(|planned| only.iter().any(|word| planned.name().contains(word)));
        match all.len() {
            0 => bail!(
                "no run name contains any of: {}; planned: {}, and `yuzuri lab list` shows their names",
                only.join(", "),
                counted(planned, "run")
            ),
            selected => yuzuri_exit::note!("yuzuri-lab: selected {selected} of {}", counted(planned, "run")),
        }
    }
    if clock == Clock::Simulated {
        let points: HashSet<&str> = all.iter().map(|planned| planned.task.point.as_str()).collect();
        let checked = document.check_points(&|point| points.contains(point), &yuzuri_sim::refused);
        checked.map_err(yuzuri_lab::LabError::Scenario)?;
    }
    // A guest runs this same program.
    all.iter().try_for_each(|planned| check_built(&planned.scenario))?;
    let _lock = OutLock::claim(&out)?;
    batch::refuse_mixed_executors(&out, clock)?;
    if clock == Clock::Real {
        let cleaned = net::clean()?;
        if !cleaned.namespaces.is_empty() {
            yuzuri_exit::note!(
                "yuzuri-lab: removed {} that a killed run left",
                counted(cleaned.namespaces.len(), "namespace")
            );
        }
    }
    let (todo, finished): (Vec<Planned>, Vec<Planned>) =
        all.into_iter().partition(|p| again || p.state() != State::Finished);
    if !finished.is_empty() {
        yuzuri_exit::note!("yuzuri-lab: finished, and not repeated: {}", counted(finished.len(), "run"));
    }
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let jobs = jobs.unwrap_or(if clock == Clock::Real { cores / 2 } else { cores }).max(1);
    let in_guest;
    let executor: &dyn Executor = match clock {
        Clock::Real => &RealTimeExecutor,
        Clock::Virtual => {
            let program = std::env::current_exe().context("finding this program, which the guest runs")?;
            in_guest = GuestExecutor { program, kernel: args.kernel, memory_mb: 2048 };
            &in_guest
        }
        Clock::Simulated => &Simulated,
    };
    let screen = Screen::new();
    let outcome = batch::execute(&todo, executor, jobs, &stop, &|event| screen.show(&event));
    screen.clear();
    for (name, error) in &outcome.failed {
        yuzuri_exit::note!("yuzuri-lab: {name}: {error}");
    }
    if outcome.invalid > 0 {
        yuzuri_exit::note!(
            "yuzuri-lab: NOT VALID (run.json says why): {} of {}; the next sweep repeats what is not valid",
            outcome.invalid,
            counted(outcome.done, "run")
        );
    }
    if outcome.stopped {
        yuzuri_exit::note!(
            "yuzuri-lab: stopped; finished, and kept in {2}: {0} of {1}",
            outcome.done + finished.len(),
            counted(todo.len() + finished.len(), "run"),
            out.display()
        );
        return Ok(ExitCode::from(130));
    }
    if !args.no_report && outcome.done + finished.len() > 0 {
        println!("{}", report::write(&out)?.display());
    }
    let good = outcome.failed.is_empty() && outcome.invalid == 0;
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(test)]
#[path = "../../../tests/docs.rs"]
mod docs;

#[cfg(test)]
mod documented {
    use super::*;

    /// With the arguments as `yuzuri lab` passes them on.
    #[test]
    fn every_command_line_in_the_documentation_is_accepted() {
        docs::assert_accepted::<Lab>(Some("lab"), 5);
    }
}
