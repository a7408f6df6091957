//! Compares every congestion control algorithm with Linux 6.1 on the same two paths.

use super::{Figures, PATHS, Path, Probe, Row, TRACED_ALGORITHMS, kernel_rows, simulated, simulated_mean};
use anyhow::{Context, bail, ensure};
use std::fs::File;
use std::io::Read;
use std::path::{Path as FilePath, PathBuf};
use yuzuri_capture::Unpacked;
use yuzuri_sim::cc::Algorithm;

/// MSS of the traced connections, bytes.
const MSS: u32 = 1448;

#[derive(clap::Args)]
pub struct Args {
    /// The kernel's traces: NAME_PATH.csv.xz (rows of tcp:tcp_probe) and NAME_PATH.events.txt.xz
    /// (tcp_cong_state_set, tcp_retransmit_skb); without this folder, their saved figures are used
    folder: Option<PathBuf>,
    /// Write the figures to this file (data/kernel_controls.csv)
    #[arg(long, value_name = "CSV")]
    save: Option<PathBuf>,
    /// Only this algorithm
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Print both windows over time as CSV
    #[arg(long, num_args = 2, value_names = ["NAME", "PATH"])]
    rows: Option<Vec<String>>,
}

fn decompressed(file: &FilePath) -> anyhow::Result<String> {
    let reading = || format!("reading {}", file.display());
    let (mut unpacked, _) = File::open(file).and_then(Unpacked::new).with_context(reading)?;
    let mut text = String::new();
    unpacked.read_to_string(&mut text).with_context(reading)?;
    Ok(text)
}

/// The rows of a trace, in segments and µs.
fn probes(text: &str) -> anyhow::Result<Vec<Probe>> {
    let mut base = None;
    let mut probes = Vec::new();
    for line in text.lines().skip(1) {
        let cells: Vec<f64> = line
            .split(',')
            .map(|cell| cell.parse().with_context(|| format!("reading the row {line}")))
            .collect::<Result<_, _>>()?;
        let [t_s, _, snd_una, cwnd, _, _, srtt_us] = cells[..] else {
            bail!("reading the row {line}: seven columns are needed");
        };
        let base = *base.get_or_insert(snd_una as u32);
        probes.push(Probe {
            t_us: (t_s * 1e6).round() as u64,
            snd_una: (snd_una as u32).wrapping_sub(base) / MSS,
            cwnd: cwnd as u32,
            srtt_us: srtt_us as u64,
        });
    }
    ensure!(probes.len() >= 2, "a trace needs two rows");
    Ok(probes)
}

fn kernel(folder: &FilePath, path: Path, algorithm: Algorithm) -> anyhow::Result<(Vec<Row>, Figures)> {
    let name = format!("{}_{}", algorithm.name(), path.name);
    let probes = probes(&decompressed(&folder.join(format!("{name}.csv.xz")))?)?;
    let events = decompressed(&folder.join(format!("{name}.events.txt.xz")))?;
    let count = |what: &str| events.lines().filter(|line| line.contains(what)).count() as f64;
    let (rows, goodput_mbps) = kernel_rows(&probes);
    let figures = Figures {
        recoveries: count("cong_state=3"),
        timeouts: count("cong_state=4"),
        retransmissions: count("tcp_retransmit_skb"),
        ..Figures::of_rows(&rows, goodput_mbps)
    };
    Ok((rows, figures))
}

fn saved(path: Path, algorithm: Algorithm) -> anyhow::Result<Figures> {
    super::saved()
        .into_iter()
        .find(|(control, of, _)| control == algorithm.name() && of == path.name)
        .map(|(_, _, figures)| figures)
        .with_context(|| format!("no figures of {} on {}", algorithm.name(), path.name))
}

fn print(source: &str, f: &Figures) {
    println!(
        "  {source:10} {:7.3} | {:4.0} | {:6.1} | {:3.0} {:6.2} | {:6.1} {:6.1} {:.3} | {:6.1} | {:3.0} {:2.0} {:4.0}",
        f.goodput_mbps,
        f.start_peak,
        f.cwnd_mean,
        f.reductions,
        f.period_s,
        f.peak,
        f.trough,
        f.beta(),
        f.srtt_ms,
        f.recoveries,
        f.timeouts,
        f.retransmissions
    );
}

/// Prints two rows for each algorithm and path.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let mut out = format!("control,path,{}\n", Figures::NAMES.join(","));
    if args.rows.is_none() {
        println!(
            "goodput, Mbit/s | largest window of the start | from 5 s on: mean window | reductions, s between them | before, after, beta | smoothed RTT, ms | \
             whole run: recoveries, timeouts, retransmissions"
        );
    }
    for path in PATHS {
        for algorithm in TRACED_ALGORITHMS {
            if let Some(wanted) = &args.rows {
                if wanted[..] == [algorithm.name(), path.name] {
                    let kernel_rows = match &args.folder {
                        Some(folder) => kernel(folder, path, algorithm)?.0,
                        None => Vec::new(),
                    };
                    println!("source,t_s,cwnd,srtt_ms");
                    for (source, rows) in
                        [("kernel", kernel_rows), ("simulation", simulated(path, algorithm, 1).0)]
                    {
                        for row in rows {
                            println!("{source},{:.3},{},{:.3}", row.t_s, row.cwnd, row.srtt_ms);
                        }
                    }
                }
                continue;
            }
            if args.only.as_ref().is_some_and(|only| only != algorithm.name()) {
                continue;
            }
            let kernel_figures = match &args.folder {
                Some(folder) => kernel(folder, path, algorithm)?.1,
                None => saved(path, algorithm)?,
            };
            let cells = kernel_figures.cells().map(|cell| format!("{cell:.4}")).join(",");
            out.push_str(&format!("{},{},{cells}\n", algorithm.name(), path.name));
            println!("{} {}", algorithm.name(), path.name);
            print("kernel", &kernel_figures);
            print("simulation", &simulated_mean(path, algorithm));
        }
    }
    let untraced = Algorithm::ALL.into_iter().filter(|algorithm| !TRACED_ALGORITHMS.contains(algorithm));
    for algorithm in untraced.filter(|_| args.rows.is_none()) {
        if args.only.as_ref().is_some_and(|only| only != algorithm.name()) {
            continue;
        }
        for path in PATHS {
            println!("{} {}", algorithm.name(), path.name);
            print("simulation", &simulated_mean(path, algorithm));
        }
    }
    if let Some(file) = &args.save {
        std::fs::write(file, out).with_context(|| format!("writing {}", file.display()))?;
    }
    Ok(())
}
