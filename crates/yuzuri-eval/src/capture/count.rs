//! Prints the content of a capture, and how fast it is read.

use anyhow::Context;
use std::io::Write;
use std::time::Instant;
use yuzuri_capture::{Capture, Item, Options};
use yuzuri_stats::upper_median_by;

#[derive(clap::Args)]
pub struct Args {
    /// Do not check checksums
    #[arg(long)]
    no_checksums: bool,
    /// Read each file N times
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Print a line for each segment, as `tshark -T fields` does
    #[arg(long)]
    segments: bool,
    /// Captures; - is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<String>,
}

/// Prints the content of each file and the rate at which it was read.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let options = Options { checksums: !args.no_checksums, ..Options::default() };
    for file in &args.files {
        if args.segments {
            print_segments(file, &options)?;
            continue;
        }
        let mut rates = Vec::new();
        for turn in 0..args.repeat {
            let begin = Instant::now();
            let mut capture = Capture::open(file, &options)?;
            let (payload_bytes, mix) = capture.fold((0u64, 0u64), |(payload, sums), item, _| match item {
                // Use every field, so that all are decoded.
                Item::Segment(s) => (
                    payload + u64::from(s.payload_bytes),
                    sums.wrapping_add(u64::from(s.seq ^ s.ack) ^ u64::from(s.window) ^ u64::from(s.flow.0)),
                ),
                Item::Ended(_) => (payload, sums),
            })?;
            let elapsed_s = begin.elapsed().as_secs_f64();
            let facts = capture.facts();
            rates.push(facts.packets as f64 / elapsed_s);
            if turn == 0 {
                println!(
                    "{file}: payload_bytes {payload_bytes}, mix {mix:x}, live flows {}",
                    capture.live_flows()
                );
                println!("{facts:#?}");
            }
        }
        let best = rates.iter().copied().max_by(f64::total_cmp).unwrap_or_default();
        println!(
            "packets_per_s {:.0} (median of {}; the best {best:.0})",
            upper_median_by(&mut rates, f64::total_cmp).unwrap_or_default(),
            args.repeat
        );
    }
    Ok(())
}

/// Time, addresses, ports, sequence and acknowledgement number, payload, flags, window and options.
fn print_segments(file: &str, options: &Options) -> anyhow::Result<()> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut capture = Capture::open(file, options)?;
    while let Some(item) = capture.next_item()? {
        let Item::Segment(&s) = item else { continue };
        let key = capture.key(s.flow).context("a flow without key")?;
        let (from, to) = (key.end(s.from), key.end(s.from.other()));
        let (seconds, rest) = (s.time_ns.div_euclid(1_000_000_000), s.time_ns.rem_euclid(1_000_000_000));
        let (value, echo) = s
            .options
            .timestamps
            .map_or((String::new(), String::new()), |(value, echo)| (value.to_string(), echo.to_string()));
        let edges = |edge: fn(&(u32, u32)) -> u32| {
            s.options.sack.iter().map(|block| edge(block).to_string()).collect::<Vec<_>>().join(",")
        };
        writeln!(
            out,
            "{seconds}.{rest:09}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t0x{:04x}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}",
            from.ip(),
            from.port(),
            to.ip(),
            to.port(),
            s.seq,
            s.ack,
            s.payload_bytes,
            s.flags.0,
            s.window,
            s.options.mss.map_or(String::new(), |mss| mss.to_string()),
            s.options.window_scale.map_or(String::new(), |shift| shift.to_string()),
            value,
            echo,
            edges(|block| block.0),
            edges(|block| block.1),
            s.ecn as u8,
        )?;
    }
    out.flush()?;
    Ok(())
}
