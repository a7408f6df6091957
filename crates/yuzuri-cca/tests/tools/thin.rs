//! Reduces kernel traces to the fixtures of `tests/replay.rs`.
//!
//! `cargo run --release -p yuzuri-cca --example thin -- FOLDER OUT [SECONDS]`
//!
//! `FOLDER` contains `NAME.csv.xz` (rows of `tcp:tcp_probe`:
//! `t_mono,snd_nxt,snd_una,snd_cwnd,ssthresh,snd_wnd,srtt_us`) and `NAME.events.txt.xz`
//! (`tcp_cong_state_set`). The first `SECONDS` of each trace are written to `OUT/NAME.csv.zst`.

#[path = "../common/mod.rs"]
mod common;

use common::{Ack, Trace, state};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;
use yuzuri_capture::Unpacked;
use yuzuri_cca::CaState;

/// Segment size of the traces, bytes.
const MSS: u32 = 1448;

/// The result of a step, or its error.
type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn unpacked(file: &Path) -> Outcome<String> {
    let read = || -> std::io::Result<String> {
        let (mut content, _) = Unpacked::new(File::open(file)?)?;
        let mut text = String::new();
        content.read_to_string(&mut text)?;
        Ok(text)
    };
    Ok(read().map_err(|error| format!("reading {}: {error}", file.display()))?)
}

/// Times and states of `tcp_cong_state_set`, in µs.
fn states(text: &str) -> Outcome<Vec<(u64, CaState)>> {
    let mut states = Vec::new();
    for line in text.lines().filter(|line| line.contains("tcp_cong_state_set")) {
        let time = line.split_whitespace().find_map(|word| word.strip_suffix(':')?.parse::<f64>().ok());
        let number = line.split("cong_state=").nth(1).and_then(|number| number.trim().parse().ok());
        let (Some(t_s), Some(state)) = (time, number.and_then(state)) else {
            return Err(format!("{line}: a time and cong_state are needed").into());
        };
        states.push(((t_s * 1e6).round() as u64, state));
    }
    Ok(states)
}

fn thinned(rows: &str, events: &str, seconds: f64) -> Outcome<Trace> {
    let states = states(events)?;
    let mut cells: Vec<[f64; 7]> = Vec::new();
    for line in rows.lines().skip(1) {
        let row: Result<Vec<f64>, _> = line.split(',').map(str::parse).collect();
        let row = row.map_err(|error| format!("{line}: {error}"))?;
        cells.push(row.try_into().map_err(|_| format!("{line}: seven columns are needed"))?);
    }
    if cells.len() < 2 {
        return Err("two rows are needed".into());
    }
    let micros = |row: &[f64; 7]| (row[0] * 1e6).round() as u64;
    let (start_us, base) = (micros(&cells[0]), cells[0][2] as u32);
    // The first RTT sample follows from the change of the smoothed RTT.
    let (before, after) = (cells[0][6] as i64, cells[1][6] as i64);
    let lead_us = (8 * (after - before) + before).max(0) as u64;
    let segments = |sequence: f64| f64::from((sequence as u32).wrapping_sub(base)) / f64::from(MSS);
    let (mut acks, mut state, mut next) = (Vec::new(), CaState::Open, 0);
    for (row, following) in cells.iter().zip(&cells[1..]) {
        if row[0] - cells[0][0] > seconds {
            break;
        }
        while states.get(next).is_some_and(|(t_us, _)| *t_us < micros(following)) {
            state = states[next].1;
            next += 1;
        }
        // The effect of an acknowledgement is visible in the probe of the next one.
        let reduced = matches!(state, CaState::Cwr | CaState::Recovery);
        acks.push(Ack {
            t_us: micros(row) - start_us,
            snd_una: segments(row[2]) as u32,
            snd_nxt: segments(row[1]).ceil() as u32,
            cwnd: row[3] as u32,
            ssthresh: reduced.then_some(following[4] as u32),
            state,
        });
    }
    Ok(Trace { lead_us, acks })
}

/// Formats an I/O error with the file that it concerns.
fn in_file(file: &Path) -> impl Fn(std::io::Error) -> String {
    move |error| format!("{}: {error}", file.display())
}

fn thin(folder: &Path, out: &Path, seconds: f64) -> Outcome<()> {
    std::fs::create_dir_all(out).map_err(in_file(out))?;
    let mut names: Vec<String> = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(in_file(folder))? {
        let name = entry.map_err(in_file(folder))?.file_name().to_string_lossy().into_owned();
        names.extend(name.strip_suffix(".csv.xz").map(str::to_owned));
    }
    names.sort();
    for name in names {
        let rows = unpacked(&folder.join(format!("{name}.csv.xz")))?;
        let events = unpacked(&folder.join(format!("{name}.events.txt.xz")))?;
        let text = thinned(&rows, &events, seconds).map_err(|what| format!("{name}: {what}"))?.write();
        let file = out.join(format!("{name}.csv.zst"));
        let packed = zstd::encode_all(text.as_bytes(), 19).map_err(in_file(&file))?;
        println!("{name}: {} bytes, {} compressed", text.len(), packed.len());
        std::fs::write(&file, packed).map_err(in_file(&file))?;
    }
    Ok(())
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let seconds = words.get(2).map_or(Some(f64::INFINITY), |word| word.parse().ok());
    let (Some(folder), Some(out), Some(seconds)) = (words.first(), words.get(1), seconds) else {
        eprintln!("usage: thin FOLDER OUT [SECONDS]");
        return ExitCode::FAILURE;
    };
    match thin(Path::new(folder), Path::new(out), seconds) {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("thin: {what}");
            ExitCode::FAILURE
        }
    }
}
