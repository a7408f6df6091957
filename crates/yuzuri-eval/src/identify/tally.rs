//! Counts how often the right name is found. Prints a line for each capture, the confusion matrix,
//! the fractions of right answers, the calibration of the probabilities, and the difference of the
//! windows from the kernel's own.

use super::largest::{ReadSettings, largest};
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use yuzuri_cca::{Algorithm, CcaKind};
use yuzuri_infer::identify;
use yuzuri_infer::verdict::{Answer, Verdict};
use yuzuri_infer::window_trace::{CapturePoint, WindowTrace};
use yuzuri_stats::lower_quantile;

/// Windows of the kernel: unix time in ns, segments.
type Truth = Vec<(i64, u32)>;

#[derive(clap::Args)]
pub struct Args {
    /// Only print the tables, not a line for each capture
    #[arg(long)]
    quiet: bool,
    /// As a host with TSO and GRO would have captured it: super-segments
    #[arg(long)]
    merged: bool,
    /// As if captured in the middle of the path
    #[arg(long)]
    middle: bool,
    /// Without TCP timestamps
    #[arg(long)]
    without_timestamps: bool,
    /// Folders of laboratory runs with captures at both ends (scenarios/identify)
    #[arg(required = true, value_name = "FOLDER")]
    folders: Vec<PathBuf>,
}

/// Prints the tables.
pub fn run(args: &Args) -> Result<()> {
    let mut runs = Vec::new();
    for folder in &args.folders {
        find(folder, &mut runs)?;
    }
    let mut read_settings = ReadSettings {
        merged: args.merged,
        without_timestamps: args.without_timestamps,
        capture_point_shift_ns: 0,
    };
    runs.sort();
    let mut tally = Tally::default();
    for run in &runs {
        let label = label(run)?;
        let truth = truth(run).unwrap_or_default();
        for side in ["sender", "server"] {
            let file = run.join(format!("{side}.pcap.zst"));
            if args.middle {
                // A third of the way from either end, as the bottleneck's queue may be on either
                // side.
                read_settings.capture_point_shift_ns = capture_point_shift_ns(&file, side == "sender")?;
            }
            if let Some(opening) = verdict(&file, OPENING_PACKETS, read_settings)? {
                tally.openings.0 += u32::from(matches!(opening.answer, Answer::Unknown { .. }));
                tally.openings.1 += 1;
            }
            let Some(verdict) = verdict(&file, u64::MAX, read_settings)? else { continue };
            tally.count(&label, side, &verdict, &truth, run, args.quiet);
        }
    }
    tally.print();
    Ok(())
}

fn find(folder: &Path, runs: &mut Vec<PathBuf>) -> Result<()> {
    let there = |name: &str| folder.join(name).exists();
    if ["sender.pcap.zst", "server.pcap.zst", "run.json", "scenario.toml"].into_iter().all(there) {
        runs.push(folder.to_owned());
        return Ok(());
    }
    for entry in std::fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            find(&path, runs)?;
        }
    }
    Ok(())
}

/// Suffix in the names of algorithms with the code of Linux 5.6
/// (`yuzuri_kernel::before_5_7`).
const BEFORE_5_7_SUFFIX: &str = "_5_6";

/// The algorithm of a run's sender.
fn label(run: &Path) -> Result<String> {
    let scenario: toml::Table = std::fs::read_to_string(run.join("scenario.toml"))?.parse()?;
    let terminal = scenario.get("terminal").and_then(|t| t.get(0)).context("no terminal")?;
    let control = terminal.get("control").and_then(|c| c.as_str());
    // An older kernel's version counts as the same algorithm.
    let control =
        control.map(|control| control.strip_suffix(BEFORE_5_7_SUFFIX).unwrap_or(control).to_owned());
    Ok(control.unwrap_or_else(|| "cubic_apple_old".into()))
}

fn truth(run: &Path) -> Result<Truth> {
    let record: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(run.join("run.json"))?)?;
    let unix = record["started_unix_ns"].as_i64().context("no start")?;
    let mono = record["origin_mono_ns"].as_i64().context("no origin")?;
    let reader = yuzuri_trace::recording::Reader::open(&run.join("recording.arrows"))?;
    let mut truth = Vec::new();
    for item in reader.items() {
        if let yuzuri_trace::Item::Event(event) = item? {
            truth.push((event.mono_ns as i64 - mono + unix, event.snapshot.cwnd));
        }
    }
    Ok(truth)
}

/// Packets of a flow that has just opened: handshake, initial window, its acknowledgements.
const OPENING_PACKETS: u64 = 24;

fn verdict(path: &Path, max_packets: u64, read_settings: ReadSettings) -> Result<Option<Verdict>> {
    let Some(ended) = largest(path, max_packets, read_settings)? else { return Ok(None) };
    let window_trace = ended.main().map(|(_, window_trace)| window_trace.clone());
    Ok(window_trace.map(|window_trace| identify(window_trace, Some(ended.seen), None, None)))
}

/// The maximum distance by which a capture is moved: a third of the minimum RTT.
fn capture_point_shift_ns(path: &Path, at_sender: bool) -> Result<i64> {
    let Some(ended) = largest(path, u64::MAX, ReadSettings::default())? else { return Ok(0) };
    let third_ns = ended.main().map_or(0, |(_, window_trace)| i64::from(window_trace.min_rtt_us) * 1000 / 3);
    Ok(if at_sender { third_ns } else { -third_ns })
}

#[derive(Default)]
struct Tally {
    confusion: BTreeMap<String, BTreeMap<String, u32>>,
    flows: u32,
    strict: u32,
    within: u32,
    unknown: u32,
    set_sizes: usize,
    /// By tenth of the stated probability of the set: sum, right, count.
    calibration: [(f64, u32, u32); 10],
    with_epochs: u32,
    unknown_with_epochs: u32,
    errors: BTreeMap<String, Vec<f64>>,
    /// Captures cut after the first window: unknown, all.
    openings: (u32, u32),
    /// For CUBIC flows with three full epochs: relative error of C, error of beta, and whether the
    /// 95 % interval contains C.
    constants: Vec<(f64, f64, bool)>,
}

impl Tally {
    fn count(&mut self, label: &str, side: &str, verdict: &Verdict, truth: &Truth, run: &Path, quiet: bool) {
        self.flows += 1;
        let (name, set) = match &verdict.answer {
            Answer::Named { name, set } => (name.clone(), set.clone()),
            Answer::Unknown { .. } => ("unknown".into(), Vec::new()),
        };
        let strict = name == label;
        let within = set.iter().any(|other| other == label);
        self.strict += u32::from(strict);
        self.within += u32::from(within);
        self.unknown += u32::from(set.is_empty());
        self.set_sizes += set.len();
        let epochs = verdict.window_trace.reductions.iter().filter(|reduction| !reduction.undone).count();
        if epochs >= 5 {
            self.with_epochs += 1;
            self.unknown_with_epochs += u32::from(set.is_empty());
        }
        if !set.is_empty() {
            let stated: f64 = verdict.ranked.iter().filter(|r| r.name == name).map(|r| r.probability).sum();
            let cell = &mut self.calibration[((stated * 10.0) as usize).min(9)];
            *cell = (cell.0 + stated, cell.1 + u32::from(strict), cell.2 + 1);
        }
        *self.confusion.entry(label.to_owned()).or_default().entry(name.clone()).or_default() += 1;
        let mut errors = window_errors(&verdict.window_trace, truth);
        let (median, high) = quantiles(&mut errors);
        if CcaKind::of(label) == Some(CcaKind::Model) {
            // Pacing limits its flight to half of its window: it is not window-limited.
            errors.clear();
        }
        self.errors.entry(side.to_owned()).or_default().extend(errors);
        let constants = &verdict.constants;
        let truth = Algorithm::named(label).and_then(Algorithm::cubic_constants);
        let words = match (constants.cubic_c_replayed, constants.beta, truth) {
            (Some((c, error)), Some(beta), Some(truth)) => {
                let (true_c, true_beta) =
                    (f64::from(truth.c_1024) / 1024.0, f64::from(truth.beta_1024) / 1024.0);
                let epochs = yuzuri_infer::cubic::epochs(&verdict.window_trace)
                    .iter()
                    .filter(|epoch| epoch.whole)
                    .count();
                if epochs >= 3 {
                    let held = (c - true_c).abs() <= 1.96 * error;
                    self.constants.push(((c / true_c - 1.0).abs(), (beta.median - true_beta).abs(), held));
                }
                let fitted = constants.cubic_c.map_or(f64::NAN, |c| c.median);
                let paper = constants.cubic_c_paper.map_or(f64::NAN, |c| c.median);
                format!(
                    "C {c:.3}+-{error:.3} fitted {fitted:.3} paper {paper:.3} ({epochs}) kept {:.3} ",
                    beta.median
                )
            }
            _ => String::new(),
        };
        if !quiet {
            let mark = if strict {
                "ok"
            } else if within {
                "in"
            } else {
                "--"
            };
            let path = run
                .parent()
                .and_then(Path::file_name)
                .map(|n| n.to_string_lossy().into_owned())
                .unwrap_or_default();
            let path = path.rsplit(',').next().unwrap_or_default().to_owned();
            let ranked: Vec<String> = verdict
                .ranked
                .iter()
                .take(4)
                .map(|r| {
                    let s = r.score;
                    format!(
                        "{} {:.2} (g{:.0} k{:.0} c{:.0} p{:.0} m{:.1})",
                        r.name, r.probability, s.growth, s.backoff, s.cuts, s.probes, s.residual
                    )
                })
                .collect();
            let because = if let Answer::Unknown { because } = &verdict.answer {
                because.clone()
            } else {
                String::new()
            };
            println!(
                "{mark} {label:10} {path} {side:6} {:?} epochs {epochs:3} rounds {:4} err {:4.1}/{:4.1}%  {words}{} {because}",
                verdict.capture_point,
                verdict.window_trace.rounds.len(),
                100.0 * median,
                100.0 * high,
                ranked.join("  ")
            );
        }
    }

    fn print(&mut self) {
        println!("\nconfusion matrix:");
        for (label, row) in &self.confusion {
            let cells: Vec<String> = row.iter().map(|(name, count)| format!("{name} {count}")).collect();
            println!("  {label:16} {}", cells.join(", "));
        }
        let part = |count: u32, all: u32| {
            format!("{count} of {all} ({:.1} %)", 100.0 * f64::from(count) / f64::from(all.max(1)))
        };
        println!("right:                                {}", part(self.strict, self.flows));
        println!("right up to indistinguishable algorithms: {}", part(self.within, self.flows));
        println!(
            "mean size of the sets:                {:.2}",
            self.set_sizes as f64 / f64::from((self.flows - self.unknown).max(1))
        );
        println!("unknown:                              {}", part(self.unknown, self.flows));
        println!(
            "unknown with five or more reductions: {}",
            part(self.unknown_with_epochs, self.with_epochs)
        );
        let named = f64::from(self.flows - self.unknown);
        let calibration: f64 =
            self.calibration.iter().map(|(sum, right, _)| (sum - f64::from(*right)).abs()).sum();
        println!("unknown of those cut in the first window: {}", part(self.openings.0, self.openings.1));
        println!("expected calibration error:           {:.3}", calibration / named.max(1.0));
        for (tenth, (sum, right, count)) in
            self.calibration.iter().enumerate().filter(|(_, (_, _, count))| *count > 0)
        {
            let n = f64::from(*count);
            println!(
                "  stated {:.1} to {:.1}: {count} flows, mean {:.2}, right {:.2}",
                tenth as f64 / 10.0,
                (tenth + 1) as f64 / 10.0,
                sum / n,
                f64::from(*right) / n
            );
        }
        let off = |limit: (f64, f64)| {
            self.constants.iter().filter(|(c, beta, _)| *c > limit.0 || *beta > limit.1).count()
        };
        println!(
            "CUBIC's constants within 5 % and 0.02: {}",
            part((self.constants.len() - off((0.05, 0.02))) as u32, self.constants.len() as u32)
        );
        let held = self.constants.iter().filter(|(c, _, held)| *c <= 0.05 || *held).count();
        println!(
            "C within 5 %, or in its interval of 95 %: {}",
            part(held as u32, self.constants.len() as u32)
        );
        for (side, errors) in &mut self.errors {
            let (median, high) = quantiles(errors);
            println!(
                "window at the {side}: median error {:.2} %, 95th percentile {:.2} %",
                100.0 * median,
                100.0 * high
            );
        }
    }
}

fn quantiles(errors: &mut [f64]) -> (f64, f64) {
    errors.sort_by(f64::total_cmp);
    let at = |part: f64| lower_quantile(errors, part).unwrap_or(f64::NAN);
    (at(0.5), at(0.95))
}

/// Relative errors of the window, over rounds that nothing else limited.
fn window_errors(window_trace: &WindowTrace, truth: &Truth) -> Vec<f64> {
    let mut errors = Vec::new();
    for round in window_trace.rounds.iter().filter(|round| round.is_cwnd_limited()) {
        // Away from the sender, data passes some time after it was sent: in rounds, the queue's
        // part of that time is already subtracted, the path's is not.
        let late_us =
            if window_trace.capture_point == CapturePoint::Sender { 0 } else { window_trace.min_rtt_us / 2 };
        let late_ns = i64::from(late_us) * 1000;
        let from = truth.partition_point(|(at, _)| *at < round.start_ns - late_ns);
        let to = truth.partition_point(|(at, _)| *at <= round.end_ns - late_ns);
        let from = from.saturating_sub(1);
        let Some(most) = truth[from..to.max(from)].iter().map(|(_, cwnd)| *cwnd).max() else { continue };
        errors.push((f64::from(round.window) - f64::from(most)).abs() / f64::from(most.max(1)));
    }
    errors
}
