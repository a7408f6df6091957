//! Every congestion control algorithm on two paths: Linux 6.1 and the simulation.

pub mod command;
#[cfg(test)]
mod tests;

use super::sawtooth::sawtooth;
use yuzuri_netmodel::queue::QueueConfig;
use yuzuri_netmodel::wire::{LineConfig, WireConfig};
use yuzuri_sim::cc::Algorithm;
use yuzuri_sim::{NoBounds, ReceiverConfig, Scenario, SenderConfig, Terminal, run};

/// The traced algorithms, by their Linux names.
pub const TRACED_ALGORITHMS: [Algorithm; 17] = [
    Algorithm::Reno,
    Algorithm::Cubic,
    Algorithm::Bic,
    Algorithm::Htcp,
    Algorithm::Highspeed,
    Algorithm::Scalable,
    Algorithm::Hybla,
    Algorithm::Illinois,
    Algorithm::Westwood,
    Algorithm::Veno,
    Algorithm::Vegas,
    Algorithm::Yeah,
    Algorithm::Lp,
    Algorithm::Nv,
    Algorithm::Cdg,
    Algorithm::Dctcp,
    Algorithm::Bbr,
];

/// A traced path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// Name, as in the trace files.
    pub name: &'static str,
    pub rate_bps: u64,
    pub delay_us: u64,
    /// Queue length, packets, including the one in transmission.
    pub queue: u32,
    pub duration_s: u64,
}

/// Both traced paths.
pub const PATHS: [Path; 2] = [
    Path { name: "20M_50ms_100p", rate_bps: 20_000_000, delay_us: 50_000, queue: 100, duration_s: 60 },
    Path { name: "10M_100ms_100p", rate_bps: 10_000_000, delay_us: 100_000, queue: 100, duration_s: 80 },
];

/// Start of the evaluation, s: slow start and its losses are excluded.
pub const FROM_S: f64 = 5.0;
/// Sampling interval of the window, s.
const STEP_S: f64 = 0.05;

/// Window and RTT every [`STEP_S`]; time starts with the first data segment.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub t_s: f64,
    pub cwnd: f64,
    pub srtt_ms: f64,
}

/// The figures that are compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Goodput over the whole run, Mbit/s.
    pub goodput_mbps: f64,
    /// Largest window of the first two seconds.
    pub start_peak: f64,
    /// Mean window. This and the following fields start at [`FROM_S`].
    pub cwnd_mean: f64,
    /// Number of falls of the window by more than 5 % of its running maximum.
    pub reductions: f64,
    /// Mean time between reductions, s; NaN for fewer than three.
    pub period_s: f64,
    /// Mean window before and after a reduction; NaN without any.
    pub peak: f64,
    pub trough: f64,
    /// Mean smoothed RTT, ms.
    pub srtt_ms: f64,
    /// Over the whole run: fast recoveries, timeouts, retransmissions.
    pub recoveries: f64,
    pub timeouts: f64,
    pub retransmissions: f64,
}

impl Figures {
    pub const NAMES: [&'static str; 11] = [
        "goodput_mbps",
        "start_peak",
        "cwnd_mean",
        "reductions",
        "period_s",
        "peak",
        "trough",
        "srtt_ms",
        "recoveries",
        "timeouts",
        "retransmissions",
    ];

    pub fn cells(&self) -> [f64; 11] {
        [
            self.goodput_mbps,
            self.start_peak,
            self.cwnd_mean,
            self.reductions,
            self.period_s,
            self.peak,
            self.trough,
            self.srtt_ms,
            self.recoveries,
            self.timeouts,
            self.retransmissions,
        ]
    }

    pub fn of_cells(cells: [f64; 11]) -> Figures {
        Figures {
            goodput_mbps: cells[0],
            start_peak: cells[1],
            cwnd_mean: cells[2],
            reductions: cells[3],
            period_s: cells[4],
            peak: cells[5],
            trough: cells[6],
            srtt_ms: cells[7],
            recoveries: cells[8],
            timeouts: cells[9],
            retransmissions: cells[10],
        }
    }

    /// Fraction of the window that remains after a reduction (beta).
    pub fn beta(&self) -> f64 {
        self.trough / self.peak
    }

    /// Computes the figures from windows; recoveries, timeouts and retransmissions are 0.
    pub fn of_rows(rows: &[Row], goodput_mbps: f64) -> Figures {
        let start_peak = rows.iter().filter(|row| row.t_s < 2.0).map(|row| row.cwnd).fold(0.0, f64::max);
        let steady: Vec<&Row> = rows.iter().filter(|row| row.t_s >= FROM_S).collect();
        let mean =
            |value: fn(&Row) -> f64| steady.iter().map(|row| value(row)).sum::<f64>() / steady.len() as f64;
        let windows: Vec<(f64, f64)> = steady.iter().map(|row| (row.t_s, row.cwnd)).collect();
        let sawtooth = sawtooth(&windows, 0.95);
        Figures {
            goodput_mbps,
            start_peak,
            cwnd_mean: mean(|row| row.cwnd),
            reductions: sawtooth.reductions as f64,
            period_s: sawtooth.period_s,
            peak: sawtooth.peak,
            trough: sawtooth.trough,
            srtt_ms: mean(|row| row.srtt_ms),
            recoveries: 0.0,
            timeouts: 0.0,
            retransmissions: 0.0,
        }
    }
}

/// Rows and figures of the simulation.
pub fn simulated(path: Path, algorithm: Algorithm, seed: u64) -> (Vec<Row>, Figures) {
    // netem: the limit includes the packet in transmission; the whole delay is on the return path.
    // HZ is Debian's.
    let wire = WireConfig {
        up: LineConfig {
            rate_bps: Some(path.rate_bps),
            overhead_bytes: 0,
            queue: QueueConfig::drop_tail(path.queue - 1),
            ..LineConfig::default()
        },
        down: LineConfig { delay_us: path.delay_us, ..LineConfig::default() },
    };
    let sender = SenderConfig { algorithm, hz: 250, ..SenderConfig::default() };
    let mut terminal = Terminal::uploading().with_sender(sender);
    terminal.receiver = ReceiverConfig { growing_buffer: true, ..ReceiverConfig::default() };
    let mut scenario = Scenario::wired(wire, vec![terminal], path.duration_s * 1000).seeded(seed);
    scenario.warm_up_ms = 2 * path.delay_us / 1000;
    scenario.trace_every_ms = Some((STEP_S * 1000.0) as u64);
    let results = run(&scenario, &mut NoBounds).expect("a consistent scenario");
    let terminal = &results.terminals[0];
    // Time starts with the first segment, one round trip after the SYN.
    let rows: Vec<Row> = terminal
        .trace
        .iter()
        .map(|point| Row {
            t_s: point.at_s - path.delay_us as f64 / 1e6,
            cwnd: point.cwnd.into(),
            srtt_ms: point.srtt_us as f64 / 1e3,
        })
        .filter(|row| row.t_s >= 0.0)
        .collect();
    let figures = Figures {
        recoveries: terminal.counts.recoveries as f64,
        timeouts: terminal.counts.timeouts as f64,
        retransmissions: terminal.counts.retransmissions as f64,
        ..Figures::of_rows(&rows, terminal.goodput_mbps)
    };
    (rows, figures)
}

/// The mean over seeds for a randomized algorithm, otherwise a single run.
pub fn simulated_mean(path: Path, algorithm: Algorithm) -> Figures {
    let seeds = if algorithm.facts().randomized { 8 } else { 1 };
    let mut sums = [0.0; 11];
    for seed in 1..=seeds {
        let cells = simulated(path, algorithm, seed).1.cells();
        sums.iter_mut().zip(cells).for_each(|(sum, cell)| *sum += cell);
    }
    Figures::of_cells(sums.map(|sum| sum / seeds as f64))
}

/// One ACK in a kernel trace: the connection's state in `tcp:tcp_probe`, before the ACK is
/// processed.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    pub t_us: u64,
    /// In segments, from the start of the connection.
    pub snd_una: u32,
    pub cwnd: u32,
    pub srtt_us: u64,
}

/// The kernel's rows and goodput from its trace.
pub fn kernel_rows(probes: &[Probe]) -> (Vec<Row>, f64) {
    let first_us = first_sent_us(probes);
    let mut rows: Vec<Row> = Vec::new();
    let mut next_s = STEP_S;
    for pair in probes.windows(2) {
        let until_s = (pair[1].t_us - first_us) as f64 / 1e6;
        // The later row shows the window between two ACKs.
        while next_s <= until_s {
            let row = if next_s * 1e6 < (pair[0].t_us - first_us) as f64 { pair[0] } else { pair[1] };
            rows.push(Row { t_s: next_s, cwnd: row.cwnd.into(), srtt_ms: row.srtt_us as f64 / 1e3 });
            next_s += STEP_S;
        }
    }
    let (first, last) = (&probes[0], &probes[probes.len() - 1]);
    let goodput_mbps =
        f64::from(last.snd_una - first.snd_una) * 1448.0 * 8.0 / (last.t_us - first.t_us) as f64;
    (rows, goodput_mbps)
}

/// Send time of the first segment; the change of the smoothed RTT gives the first RTT sample.
pub fn first_sent_us(probes: &[Probe]) -> u64 {
    let (before, after) = (probes[0].srtt_us, probes[1].srtt_us);
    let rtt_us = (8 * (after as i64 - before as i64) + before as i64).max(0) as u64;
    probes[0].t_us - rtt_us
}

/// The saved figures of the kernel: algorithm, path, figures.
pub fn saved() -> Vec<(String, String, Figures)> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/data/kernel_controls.csv");
    let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("reading {file}: {error}"));
    text.lines()
        .skip(1)
        .map(|line| {
            let mut cells = line.split(',');
            let mut name = || cells.next().expect("a name").to_owned();
            let (control, path) = (name(), name());
            let numbers: Vec<f64> = cells.map(|cell| cell.parse().expect("a number")).collect();
            (control, path, Figures::of_cells(numbers.try_into().expect("all figures")))
        })
        .collect()
}
