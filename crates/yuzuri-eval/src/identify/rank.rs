//! The ranking of each capture's largest flow in a folder.

use super::largest::{ReadSettings, largest};
use anyhow::{Context, Result};
use std::path::PathBuf;
use yuzuri_cca::Algorithm;
use yuzuri_infer::name;

#[derive(clap::Args)]
pub struct Args {
    /// Folder of captures, each named ALGORITHM_... or ALGORITHM.pcap
    folder: PathBuf,
    /// Only captures whose name begins with this; shows all candidates
    prefix: Option<String>,
    /// Show the replay of this algorithm beside the observed windows
    #[arg(value_name = "ALGORITHM")]
    replayed: Option<String>,
}

/// Prints a line for each capture, and the number of right answers.
pub fn run(args: &Args) -> Result<()> {
    let (folder, prefix, cca) = (&args.folder, &args.prefix, &args.replayed);
    let mut names: Vec<_> = std::fs::read_dir(folder)
        .with_context(|| format!("reading {}", folder.display()))?
        .filter_map(|e| e.ok()?.file_name().into_string().ok())
        .collect();
    names.sort();
    let mut right = 0;
    let mut all = 0;
    for name in names.iter().filter(|n| n.contains(".pcap")) {
        if prefix.as_ref().is_some_and(|p| !name.starts_with(p.as_str())) {
            continue;
        }
        let Some(ended) = largest(&folder.join(name), u64::MAX, ReadSettings::default())? else {
            continue;
        };
        let Some((_, window_trace)) = ended.main() else { continue };
        if let Some(cca) = cca.as_deref().and_then(Algorithm::named) {
            let (ranked, replay) = name::rank(window_trace, &[cca])
                .candidates
                .into_iter()
                .next()
                .context("no form of this algorithm")?;
            for f in &replay.rounds {
                let r = window_trace.rounds[f.round];
                println!(
                    "{:4} e{:3} {:8.3} algorithm {:7.1} seen {:7.1} {} acked {:6.1}/{} rtt {} {} {} {} {:?}",
                    f.round,
                    f.epoch,
                    r.start_ns as f64 / 1e9 % 1e4,
                    f.predicted,
                    f.seen,
                    if f.counts { '+' } else { ' ' },
                    r.acked,
                    r.acks,
                    r.rtt_first_us,
                    r.rtt_min_us,
                    r.rtt_max_us,
                    r.rtt_last_us,
                    r.limits
                );
            }
            for k in &replay.backoff {
                println!(
                    "beta reduction {} before {} algorithm {} seen {}",
                    k.reduction, k.before, k.predicted, k.seen
                );
            }
            for c in &replay.cuts {
                println!(
                    "cut round {} before {} algorithm {} seen {}",
                    c.round, c.before, c.predicted, c.seen
                );
            }
            println!("{:?}", ranked.score);
            continue;
        }
        let ranked = name::rank(window_trace, &name::candidates()).candidates;
        let shown = if prefix.is_some() { ranked.len() } else { 4 };
        let words: Vec<String> = ranked
            .iter()
            .take(shown)
            .map(|(r, _)| {
                let s = r.score;
                format!(
                    "{} {:.2} (g{:.0} k{:.0} c{:.0} m{:.1})",
                    r.name, r.probability, s.growth, s.backoff, s.cuts, s.residual
                )
            })
            .collect();
        let truth = name.split(['_', '.']).next().unwrap_or_default();
        all += 1;
        let hit = ranked.first().is_some_and(|(r, _)| r.name == truth);
        right += u32::from(hit);
        println!(
            "{} {name}: {}",
            if hit { "ok" } else { "--" },
            words.join(if prefix.is_some() { "\n    " } else { "  " })
        );
    }
    println!("{right} of {all}");
    Ok(())
}
