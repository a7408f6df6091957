//! The gains and costs of sharing, in simulation: every setting of the matrix with every contender,
//! and settings drawn at random.

mod comparison;
mod contender;
mod random_settings;
mod setting;
mod table;
mod trace;

use anyhow::Context;
use clap::Subcommand;
use clap::builder::PossibleValuesParser;
pub use comparison::each;
use contender::Contender;
pub use random_settings::{
    CLASSES, Distribution, Drawn, Figures as RandomSettingFigures, columns, setting as drawn,
    sharing as shared,
};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Only run settings whose table or name contains TEXT; may be repeated
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,
    /// Only run these contenders
    #[arg(long, value_name = "NAME", value_delimiter = ',',
          value_parser = PossibleValuesParser::new(Contender::all().into_iter().map(Contender::name)))]
    contenders: Vec<String>,
    /// Seeds per setting and contender; medians are shown
    #[arg(long, default_value_t = 3)]
    seeds: u64,
    /// Number of parallel runs [default: number of cores]
    #[arg(long)]
    jobs: Option<usize>,
    /// Also write all figures to this file, as JSON lines
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Print the state of a run of one setting and the first of --contenders, twice per simulated
    /// second
    #[arg(long)]
    trace: bool,
    /// List the settings and exit
    #[arg(long)]
    list: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Draw random settings, run each with CUBIC and with Yuzuri's policy, and print tables by
    /// class
    Random(RandomArgs),
}

#[derive(clap::Args)]
struct RandomArgs {
    /// Seed of the random settings
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The distribution of the settings
    #[arg(long, value_enum, default_value_t)]
    from: Distribution,
    /// Number of settings
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..))]
    settings: u64,
    /// Number of parallel runs [default: number of cores]
    #[arg(long)]
    jobs: Option<usize>,
    /// Also write all figures to this file, as JSON lines
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Compare with what a user would do instead: BBR, fq, static limits, FQ-CoDel with airtime
    /// fairness, both
    #[arg(long)]
    alternatives: bool,
    /// Print the state of a run of the setting of this number, twice per simulated second
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["alternatives", "json"])]
    trace: Option<u64>,
}

/// Shows the progress of the runs.
pub type Progress<'a> = &'a (dyn Fn(usize, usize) + Sync);

/// Calls `run` with the number of parallel runs (default: all cores), and shows the progress on a
/// terminal. Ctrl-C ends the program.
pub fn watched<T>(
    jobs: Option<usize>,
    run: impl FnOnce(usize, &AtomicBool, Progress) -> anyhow::Result<Option<T>>,
) -> anyhow::Result<T> {
    let stop = yuzuri_exit::stop_flag().context("handling Ctrl-C")?;
    let jobs = jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get()));
    let shown = std::io::stderr().is_terminal();
    let begun = std::time::Instant::now();
    let progress = |done: usize, all: usize| {
        if shown {
            let left_s = begun.elapsed().as_secs_f64() / done as f64 * (all - done) as f64;
            eprint!("\r{done} of {all} runs, about {left_s:.0} s left   ");
        }
    };
    let Some(out) = run(jobs.max(1), &stop, &progress)? else {
        eprintln!("\nstopped");
        std::process::exit(130);
    };
    if shown {
        eprintln!();
    }
    Ok(out)
}

fn write(path: &Path, text: String) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}

/// Writes each item as a line of JSON, if a file was given.
pub fn write_lines(path: Option<&Path>, of: &[impl serde::Serialize]) -> anyhow::Result<()> {
    let Some(path) = path else { return Ok(()) };
    let lines = of.iter().map(serde_json::to_string).collect::<Result<Vec<_>, _>>()?;
    write(path, lines.join("\n") + "\n")
}

fn random(args: &RandomArgs) -> anyhow::Result<()> {
    if let Some(number) = args.trace {
        return Ok(random_settings::trace(args.from, args.seed, number)?);
    }
    if args.alternatives {
        let compared = watched(args.jobs, |jobs, stop, progress| {
            random_settings::compare(args.from, args.seed, args.settings, jobs, stop, progress)
        })?;
        write_lines(args.json.as_deref(), &compared)?;
        print!("{}", random_settings::alternative_tables(args.seed, &compared));
        return Ok(());
    }
    let outcomes = watched(args.jobs, |jobs, stop, progress| {
        random_settings::run(args.from, args.seed, args.settings, jobs, stop, progress)
    })?;
    write_lines(args.json.as_deref(), &outcomes)?;
    print!("{}", random_settings::tables(args.seed, &outcomes));
    Ok(())
}

/// Prints the tables.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if let Some(Command::Random(args)) = &args.command {
        return random(args);
    }
    let settings: Vec<_> = setting::all()
        .into_iter()
        .filter(|s| {
            args.only.is_empty() || args.only.iter().any(|o| s.name().contains(o) || s.group.contains(o))
        })
        .collect();
    anyhow::ensure!(!settings.is_empty(), "no setting contains {:?}: see --list", args.only);
    if args.list {
        settings.iter().for_each(|s| println!("{}: {}", s.group, s.name()));
        return Ok(());
    }
    let contenders: Vec<Contender> = Contender::all()
        .into_iter()
        .filter(|c| args.contenders.is_empty() || args.contenders.iter().any(|name| c.name() == name))
        .collect();
    if args.trace {
        contenders[0].trace(&settings[0], 1)?;
        return Ok(());
    }
    let rows = watched(args.jobs, |jobs, stop, progress| {
        comparison::comparison(&settings, &contenders, args.seeds, jobs, stop, progress)
    })?;
    if let Some(path) = &args.json {
        write(path, table::json_lines(&rows, &contenders)?)?;
    }
    print!("{}", table::tables(&rows, &contenders));
    print!("{}", table::verdicts(&rows, &contenders));
    Ok(())
}
