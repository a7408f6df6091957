//! Compares the windows of two recordings round trip by round trip. The sender of each recording is
//! the flow with the most acknowledged bytes; time starts at its first sample.

use anyhow::{Context, bail};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use yuzuri_stats::lower_quantile;
use yuzuri_trace::recording::Reader;
use yuzuri_trace::{FlowId, Item};

/// A congestion window and its time since the flow's first sample.
#[derive(Clone, Copy)]
struct Sample {
    since_ns: u64,
    cwnd: u32,
}

struct Sender {
    samples: Vec<Sample>,
    min_rtt_us: u32,
}

fn sender(path: &Path) -> anyhow::Result<Sender> {
    let reader = Reader::open(path).with_context(|| format!("opening {}", path.display()))?;
    let mut flows: HashMap<FlowId, (u64, u32, Vec<Sample>)> = HashMap::new();
    let mut begins: HashMap<FlowId, u64> = HashMap::new();
    for item in reader.items() {
        let Item::Event(event) = item.with_context(|| format!("reading {}", path.display()))? else {
            continue;
        };
        let begin = *begins.entry(event.flow).or_insert(event.mono_ns);
        let flow = flows.entry(event.flow).or_insert((0, u32::MAX, Vec::new()));
        flow.0 = flow.0.max(event.snapshot.bytes_acked);
        if event.snapshot.min_rtt_us > 0 {
            flow.1 = flow.1.min(event.snapshot.min_rtt_us);
        }
        flow.2.push(Sample { since_ns: event.mono_ns.saturating_sub(begin), cwnd: event.snapshot.cwnd });
    }
    let most = flows.into_values().max_by_key(|(acked, _, _)| *acked);
    let Some((_, min_rtt_us, samples)) = most.filter(|(_, rtt, _)| *rtt < u32::MAX) else {
        bail!("{}: no flow has sent data", path.display())
    };
    Ok(Sender { samples, min_rtt_us })
}

/// The window at a given time.
fn at(sender: &Sender, since_ns: u64) -> u32 {
    let next = sender.samples.partition_point(|s| s.since_ns <= since_ns);
    sender.samples[next.saturating_sub(1)].cwnd
}

#[derive(clap::Args)]
pub struct Args {
    /// Two recordings (.arrows)
    one: PathBuf,
    other: PathBuf,
}

/// Prints the differences between the windows, in segments.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let (one, other) = (sender(&args.one)?, sender(&args.other)?);
    let round_trip_ns = u64::from(one.min_rtt_us) * 1000;
    let last = |s: &Sender| s.samples.last().map_or(0, |s| s.since_ns);
    let end_ns = last(&one).min(last(&other));
    let mut apart: Vec<(u32, u64)> = Vec::new();
    let mut now_ns = round_trip_ns;
    while now_ns < end_ns {
        apart.push((at(&one, now_ns).abs_diff(at(&other, now_ns)), now_ns));
        now_ns += round_trip_ns;
    }
    let first = apart.iter().find(|(d, _)| *d > 1).map(|(_, ns)| *ns as f64 / 1e9);
    let within = apart.iter().filter(|(d, _)| *d <= 1).count();
    let mut sorted: Vec<u32> = apart.iter().map(|(d, _)| *d).collect();
    sorted.sort_unstable();
    let quantile = |part: f64| lower_quantile(&sorted, part).unwrap_or(0);
    println!(
        "{} round trips of {:.1} ms: {:.1} % within 1 segment, median {}, 95th percentile {}, most {}; first beyond 1 at {}",
        apart.len(),
        round_trip_ns as f64 / 1e6,
        100.0 * within as f64 / apart.len().max(1) as f64,
        quantile(0.5),
        quantile(0.95),
        quantile(1.0),
        first.map_or("no time".to_owned(), |s| format!("{s:.2} s")),
    );
    Ok(())
}
