//! Sharing at the access point, in simulation: fixed and random settings, with CUBIC, BBR,
//! FQ-CoDel with airtime fairness, the daemon on the terminals, and the gate. The gate's window
//! clamp and the daemon's decisions are the code that runs at an access point.

mod bucket;
mod contender;
mod figures;
mod gate;
mod oracle;
mod random_settings;
mod setting;
mod steering;
mod table;

use crate::sharing::{each, watched};
use contender::Contender;
use figures::Figures;
use std::path::PathBuf;
use table::Row;
use yuzuri_policy::Objective;

#[derive(clap::Args)]
pub struct Args {
    /// Only run settings whose table and name ("half run Yuzuri: 8 n, 16 ms") contain TEXT; may be
    /// repeated
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,
    /// Only run these contenders (cubic, bbr, fq-codel, daemon, gate, thinned)
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    contenders: Vec<String>,
    /// Seeds per setting and contender; medians are shown
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Number of parallel runs [default: number of cores]
    #[arg(long)]
    jobs: Option<usize>,
    /// Print what the gate does in one setting, twice per simulated second: for each connection its
    /// bound, the window advertised to it and its flight size, in segments; for QUIC its rate
    #[arg(long)]
    trace: bool,
    /// Print a row per setting, too
    #[arg(long)]
    rows: bool,
    /// Instead, draw this many settings at random
    #[arg(long, value_name = "SETTINGS", value_parser = clap::value_parser!(u64).range(1..))]
    random: Option<u64>,
    /// In random settings, let each terminal use QUIC with a probability of one half
    #[arg(long, requires = "random")]
    quic: bool,
    /// Instead, move stations between two radios as the daemon requests, and print the effect on
    /// each
    #[arg(long)]
    steering: bool,
    /// Objective of gate and daemon: throughput, balanced or latency
    #[arg(long, value_name = "OBJECTIVE", default_value = "balanced")]
    objective: Objective,
    /// Instead, search for the best constant window of each setting with equal radios: what is
    /// possible for a gate that knows the path
    #[arg(long)]
    oracle: bool,
    /// Seed of the random settings, of a trace, or of moves; the first one of the others
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Also write all figures to this file, as JSON lines
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Prints the tables.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let names = || Contender::ALL.map(Contender::name);
    if let Some(unknown) = args.contenders.iter().find(|name| !names().contains(&name.as_str())) {
        anyhow::bail!("there is no contender '{unknown}': choose one of {}", names().join(", "));
    }
    let is_chosen =
        |c: &Contender| args.contenders.is_empty() || args.contenders.iter().any(|name| c.name() == name);
    let contenders: Vec<Contender> = Contender::ALL.into_iter().filter(is_chosen).collect();
    if args.steering {
        return steering::run(args.seed);
    }
    if let Some(settings) = args.random {
        return random_settings::run(args, settings, &contenders);
    }
    let is_wanted = |one: &setting::Setting| {
        let name = format!("{}: {}", one.group.title(), one.name());
        args.only.is_empty() || args.only.iter().any(|text| name.contains(text))
    };
    let mut settings: Vec<_> = setting::all().into_iter().filter(is_wanted).collect();
    settings.iter_mut().for_each(|setting| setting.objective = args.objective);
    anyhow::ensure!(!settings.is_empty(), "no setting contains {:?}", args.only);
    if args.trace {
        let gate = contenders.iter().find(|contender| contender.rules().is_some());
        gate.unwrap_or(&Contender::Gate).run(&settings[0], args.seed, true)?;
        return Ok(());
    }
    if args.oracle {
        return oracle::run(args, &settings);
    }
    let mut runs = Vec::new();
    for setting in &settings {
        for contender in &contenders {
            runs.extend((0..args.seeds).map(|n| (setting, *contender, args.seed.wrapping_add(n))));
        }
    }
    let all = watched(args.jobs, |jobs, stop, progress| {
        each(&runs, jobs, stop, progress, |(setting, contender, seed)| {
            Figures::run(*contender, setting, *seed)
        })
    })?;
    let mut all = all.chunks(args.seeds as usize).map(Figures::median);
    let rows: Vec<Row> = settings
        .iter()
        .map(|setting| Row {
            setting: setting.clone(),
            figures: contenders.iter().copied().zip(all.by_ref().take(contenders.len())).collect(),
        })
        .collect();
    if let Some(path) = &args.json {
        let line = |row: &Row| {
            let figures: Vec<_> = row.figures.iter().map(|(one, figures)| (one.name(), figures)).collect();
            serde_json::json!({"setting": row.setting.name(), "group": row.setting.group.title(), "figures": figures})
        };
        crate::sharing::write_lines(Some(path), &rows.iter().map(line).collect::<Vec<_>>())?;
    }
    if args.rows {
        print!("{}", table::rows(&rows));
    }
    print!("{}", table::summary(&rows));
    print!("{}", table::verdicts(&rows));
    Ok(())
}
