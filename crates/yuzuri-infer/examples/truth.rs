//! Windows rebuilt from captures beside the kernel's own: `truth FOLDER` for every NAME.pcap.xz with NAME.csv of tcp_probe rows in it.
//! Prints the median and the 95th percentile of the relative error of the window, over rounds that nothing else limited.

use anyhow::{Context, Result};
use std::io::Read;
use std::path::Path;
use yuzuri_capture::{Capture, Item, Options};
use yuzuri_infer::packets::Tracker;

fn main() -> Result<()> {
    let folder = std::env::args().nth(1).context("usage: truth FOLDER")?;
    let verbose = std::env::args().nth(2);
    let mut names: Vec<_> = std::fs::read_dir(&folder)?.filter_map(|e| e.ok()?.file_name().into_string().ok()).collect();
    names.sort();
    println!("{:28} {:>8} {:>6} {:>6} {:>7} {:>7}  turns", "capture", "vantage", "rounds", "usable", "median", "p95");
    for name in names.iter().filter_map(|n| n.strip_suffix(".pcap.xz")) {
        if verbose.as_ref().is_some_and(|v| !name.starts_with(v.as_str())) {
            continue;
        }
        let path = Path::new(&folder).join(format!("{name}.pcap.xz"));
        let mut capture = Capture::open(&path, &Options::default())?;
        let mut tracker = Tracker::new();
        while let Some(item) = capture.next_item()? {
            if let Item::Segment(segment) = item {
                tracker.segment(&segment);
            }
        }
        let mut text = String::new();
        let csv = std::fs::File::open(Path::new(&folder).join(format!("{name}.csv.xz")))?;
        lzma_rust2::XzReader::new(csv, true).read_to_string(&mut text)?;
        // The clocks differ by a constant: matched by sequence numbers instead, which the trace has at each acknowledgement.
        let rows: Vec<(f64, f64)> = text
            .lines()
            .skip(1)
            .filter_map(|line| {
                let f: Vec<&str> = line.split(',').collect();
                Some((f.first()?.parse().ok()?, f.get(3)?.parse().ok()?))
            })
            .collect();
        let Some(ended) = tracker.live().next().and_then(|slot| tracker.end(slot)) else { continue };
        let Some((_, course)) = ended.main() else { continue };
        let first_row = rows.first().map_or(0.0, |r| r.0);
        // The first acknowledgement ends the first round.
        let first_end = course.rounds.first().map_or(0, |r| r.end_ns) as f64 / 1e9;
        let shift = first_end - first_row;
        let mut errors = Vec::new();
        let mut at = 0;
        for round in &course.rounds {
            let (from, to) = (round.start_ns as f64 / 1e9 - shift, round.end_ns as f64 / 1e9 - shift);
            while at < rows.len() && rows[at].0 < from {
                at += 1;
            }
            let truth = rows[at..].iter().take_while(|r| r.0 < to + 1e-4).map(|r| r.1).fold(0.0, f64::max);
            if verbose.is_some() {
                println!("{from:9.3} {:7.1} {truth:7.1} acked {:6.1} rtt {:7} {:?}", round.window, round.acked, round.rtt_mean_us, round.limits);
            }
            if truth > 0.0 && !round.limits.any() {
                errors.push((f64::from(round.window) - truth).abs() / truth);
            }
        }
        errors.sort_by(f64::total_cmp);
        let q = |p: f64| errors.get(((errors.len() as f64 - 1.0) * p) as usize).copied().unwrap_or(f64::NAN);
        let turns: Vec<String> =
            course.turns.iter().take(6).map(|t| format!("{:.0}>{:.0}{}", t.before, t.after, if t.undone { "u" } else { "" })).collect();
        println!(
            "{name:28} {:>8} {:6} {:6} {:6.2}% {:6.2}%  {} {}",
            format!("{:?}", course.vantage),
            course.rounds.len(),
            errors.len(),
            100.0 * q(0.5),
            100.0 * q(0.95),
            course.turns.len(),
            turns.join(" ")
        );
    }
    Ok(())
}
