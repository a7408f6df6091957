//! Reads captures and prints what is in them and how fast it was read: `count [--no-checksums] [--repeat N] FILE...`
//! (`-` is standard input). With `--segments`, one line for each segment in the words of `tshark -T fields`.

use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;
use yuzuri_capture::{Capture, Item, Options};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let mut options = Options::default();
    let (mut repeat, mut segments, mut files) = (1, false, Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--no-checksums" => options.checksums = false,
            "--repeat" => repeat = arguments.next().ok_or("--repeat wants a number")?.parse()?,
            "--segments" => segments = true,
            _ => files.push(argument),
        }
    }
    for file in files {
        if segments {
            print_segments(&file, &options)?;
            continue;
        }
        let mut rates = Vec::new();
        for turn in 0..repeat {
            let begin = Instant::now();
            let mut capture = Capture::open(&file, &options)?;
            let (payload_bytes, mix) = capture.fold((0u64, 0u64), |(payload, sums), item, _| match item {
                // Every field is touched, so that none is left undecoded.
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
        rates.sort_by(f64::total_cmp);
        let best = rates.last().copied().unwrap_or_default();
        println!("packets_per_s {:.0} (median of {repeat}; the best {best:.0})", rates[rates.len() / 2]);
    }
    Ok(())
}

/// Time, addresses, ports, sequence and acknowledgement number, payload, flags, window and options.
fn print_segments(file: &str, options: &Options) -> Result<(), Box<dyn std::error::Error>> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut capture = Capture::open(file, options)?;
    while let Some(item) = capture.next_item()? {
        let Item::Segment(&s) = item else { continue };
        let key = capture.key(s.flow).ok_or("a flow without key")?;
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
