//! Congestion windows of the real kernel and of the simulation on the same path.

pub mod command;
#[cfg(test)]
mod tests;

use super::sawtooth::sawtooth;
use std::fmt;
use yuzuri_netmodel::queue::QueueConfig;
use yuzuri_netmodel::wire::{LineConfig, WireConfig};
use yuzuri_sim::cc::Algorithm;
use yuzuri_sim::{NoBounds, Scenario, SenderConfig, Terminal, run};

/// The sender's state at one instant.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub t_s: f64,
    pub cwnd: f64,
    pub ssthresh: f64,
    pub srtt_us: f64,
}

/// The figures that are compared.
#[derive(Clone, Debug)]
pub struct Summary {
    pub goodput_mbps: f64,
    /// Largest window of the first two seconds.
    pub start_peak: f64,
    /// From 5 s on: mean window, mean window before and after a reduction, and seconds between
    /// reductions.
    pub mean: f64,
    pub peak: f64,
    pub trough: f64,
    pub period_s: f64,
    pub reductions: usize,
    pub srtt_mean_ms: f64,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.3} Mbit/s, start-up peak {:.0}, window mean {:.1}, peak {:.1}, trough {:.1}, {} reductions, one per {:.2} s, srtt {:.1} ms",
            self.goodput_mbps,
            self.start_peak,
            self.mean,
            self.peak,
            self.trough,
            self.reductions,
            self.period_s,
            self.srtt_mean_ms
        )
    }
}

/// Measures the sawtooth from 5 s on. A reduction is a fall by more than 10 % below the running
/// maximum, compared with the next minimum. The window is sampled once per round trip, so a
/// reduction that PRR spreads over a round trip counts once.
fn summarize(rows: &[Row], goodput_mbps: f64) -> Summary {
    let start_peak = rows.iter().filter(|row| row.t_s < 2.0).map(|row| row.cwnd).fold(0.0, f64::max);
    let steady: Vec<&Row> = rows.iter().filter(|row| row.t_s >= 5.0).collect();
    let weighted = |value: fn(&Row) -> f64| {
        let (mut sum, mut time) = (0.0, 0.0);
        for pair in steady.windows(2) {
            sum += value(pair[0]) * (pair[1].t_s - pair[0].t_s);
            time += pair[1].t_s - pair[0].t_s;
        }
        sum / time
    };
    let windows: Vec<(f64, f64)> = steady.iter().map(|row| (row.t_s, row.cwnd)).collect();
    let sawtooth = sawtooth(&windows, 0.9);
    Summary {
        goodput_mbps,
        start_peak,
        mean: weighted(|row| row.cwnd),
        peak: sawtooth.peak,
        trough: sawtooth.trough,
        period_s: sawtooth.period_s,
        reductions: sawtooth.reductions,
        srtt_mean_ms: weighted(|row| row.srtt_us) / 1e3,
    }
}

/// A trace of Linux 6.1.
pub struct Kernel {
    pub rows: Vec<Row>,
    pub summary: Summary,
}

impl Kernel {
    pub fn read(name: &str) -> Kernel {
        let path = format!("{}/data/{name}_20M_50ms_100p.csv", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("reading {path}: {error}"));
        let cells: Vec<Vec<f64>> = text
            .lines()
            .skip(1)
            .map(|line| line.split(',').map(|cell| cell.parse().expect("a number")).collect())
            .collect();
        let rows: Vec<Row> =
            cells.iter().map(|r| Row { t_s: r[0], cwnd: r[2], ssthresh: r[3], srtt_us: r[5] }).collect();
        let (first, last) = (&cells[0], &cells[cells.len() - 1]);
        let goodput = (last[1] - first[1]) * 1448.0 * 8.0 / 1e6 / (last[0] - first[0]);
        Kernel { summary: summarize(&rows, goodput), rows }
    }
}

/// A trace of the simulated sender.
pub struct Simulation {
    pub rows: Vec<Row>,
    pub summary: Summary,
    pub cpu_s: f64,
}

pub fn simulated(algorithm: Algorithm) -> Simulation {
    // netem: the limit of 100 includes the packet in transmission; the whole delay is on the return
    // path. HZ is Debian's.
    let wire = WireConfig {
        up: LineConfig {
            rate_bps: Some(20_000_000),
            overhead_bytes: 0,
            queue: QueueConfig::drop_tail(99),
            ..LineConfig::default()
        },
        down: LineConfig { delay_us: 50_000, ..LineConfig::default() },
    };
    let sender = SenderConfig { algorithm, hz: 250, ..SenderConfig::default() };
    let mut scenario = Scenario::wired(wire, vec![Terminal::uploading().with_sender(sender)], 60_000);
    scenario.warm_up_ms = 100;
    scenario.trace_every_ms = Some(50);
    let results = run(&scenario, &mut NoBounds).expect("a consistent scenario");
    let terminal = &results.terminals[0];
    // Time starts with the first segment, one round trip after the SYN.
    let rows: Vec<Row> = terminal
        .trace
        .iter()
        .map(|p| Row {
            t_s: p.at_s - 0.05,
            cwnd: p.cwnd.into(),
            ssthresh: p.ssthresh.into(),
            srtt_us: p.srtt_us as f64,
        })
        .collect();
    Simulation { summary: summarize(&rows, terminal.goodput_mbps), rows, cpu_s: results.cpu_s }
}
