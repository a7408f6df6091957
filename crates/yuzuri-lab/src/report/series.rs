//! The time series of a run, reduced for plotting: window, state and throughput of each terminal,
//! and the queues.

use super::limits::Lanes;
use crate::LabError;
use crate::run::{QUEUES_FILE, RECORDING_FILE, RunRecord, SHARE_FILE, Weighted, flows};
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::path::Path;
use yuzuri_plot::limits::Piece;
use yuzuri_trace::recording::Reader;
use yuzuri_trace::{CaState, Event, Flow, FlowId, Item, Kind};

/// Maximum number of points per line; a plot has no more pixels than that.
const MAX_POINTS: usize = 700;

/// The time series of one terminal; times in seconds since the scenario's time zero.
#[derive(Debug, Clone, Default)]
pub struct TerminalSeries {
    /// Its name.
    pub name: String,
    /// Congestion window, segments, summed over its flows.
    pub cwnd: Vec<(f64, f64)>,
    /// Throughput in Mbit/s of each interval, at its middle.
    pub throughput: Vec<(f64, f64)>,
    /// Smoothed round-trip time, ms.
    pub srtt: Vec<(f64, f64)>,
    /// Bounds of the window set by a daemon, segments, each with its start and end; summed over the
    /// terminal's flows.
    pub bounds: Vec<(f64, f64, f64)>,
    /// The intervals in which the congestion avoidance state was not Open.
    pub states: Vec<(f64, f64, CaState)>,
    /// The times of retransmission timeouts.
    pub timeouts: Vec<f64>,
    /// What limited its senders.
    pub limits: Vec<Piece>,
}

/// A queue over time.
#[derive(Debug, Clone)]
pub struct QueueSeries {
    /// Its owner.
    pub name: String,
    /// Time in seconds and the maximum number of packets in each interval.
    pub packets: Vec<(f64, f64)>,
}

#[derive(Default)]
struct FlowState {
    terminal: usize,
    cwnd: f64,
    bytes: u64,
    state: Option<(f64, CaState)>,
}

/// A bound is shown until the daemon's next tick, seconds.
const TICK_S: f64 = 0.5;

/// Reads the bounds of a run whose terminals shared.
fn bounds(folder: &Path, record: &RunRecord, series: &mut [TerminalSeries]) -> Result<(), LabError> {
    let path = folder.join(SHARE_FILE);
    let text = match std::fs::read_to_string(&path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        text => text.map_err(LabError::file(&path))?,
    };
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let columns = lines.next().unwrap_or_default();
    let wanted = ["time_s", "terminal", "lower", "upper"].map(|name| columns.iter().position(|c| *c == name));
    let [Some(time), Some(name), Some(lower), Some(upper)] = wanted else {
        return Err(LabError::Results { path, why: "it lacks columns that are needed".into() });
    };
    let mut ticks: BTreeMap<(&str, &str), [f64; 2]> = BTreeMap::new();
    for cells in lines.filter(|cells| cells.len() == columns.len()) {
        let sums = ticks.entry((cells[name], cells[time])).or_default();
        for (sum, column) in sums.iter_mut().zip([lower, upper]) {
            *sum += cells[column].parse().unwrap_or(0.0);
        }
    }
    for ((name, time), sums) in ticks {
        let Some(of) = series.iter_mut().find(|s| s.name == name) else { continue };
        let Ok(from) = time.parse::<f64>() else { continue };
        let to = (from + TICK_S).min(record.to_s);
        of.bounds.extend(
            sums.iter().filter(|sum| **sum > 0.0 && to > from.max(0.0)).map(|sum| (from.max(0.0), to, *sum)),
        );
    }
    Ok(())
}

/// Reads a run's recording. Flows are assigned to terminals by their addresses, which contain the
/// terminal's number.
pub fn terminals(folder: &Path, record: &RunRecord) -> Result<Vec<TerminalSeries>, LabError> {
    let path = folder.join(RECORDING_FILE);
    let wrong =
        |e: yuzuri_trace::recording::ReadError| LabError::Results { path: path.clone(), why: e.to_string() };
    let mut reader = Reader::open(&path).map_err(wrong)?;
    let mut series: Vec<TerminalSeries> = record
        .terminals
        .iter()
        .map(|t| TerminalSeries { name: t.name.clone(), ..TerminalSeries::default() })
        .collect();
    let bin_s = (record.to_s / 120.0).max(0.1);
    let bins = (record.to_s / bin_s).ceil() as usize;
    let mut bytes = vec![vec![0u64; bins]; series.len()];
    let mut flows: HashMap<FlowId, FlowState> = HashMap::new();
    let mut lanes = Lanes::new(record.origin_mono_ns, record.to_s);
    let step_s = record.to_s / MAX_POINTS as f64;
    let mut last = vec![f64::NEG_INFINITY; series.len()];
    while let Some(items) = reader.next_batch().map_err(wrong)? {
        for item in items {
            match item {
                Item::Flow(flow) => {
                    let of = crate::net::terminal_number(flow.local.ip())
                        .or_else(|| crate::net::terminal_number(flow.remote.ip()));
                    if let Some(terminal) = of.filter(|t| *t < series.len()) {
                        flows.entry(flow.id).or_insert(FlowState { terminal, ..FlowState::default() });
                        lanes.flow(&flow, terminal);
                    }
                }
                // A close that was inferred, not observed, has no socket variables.
                Item::Event(event) if !event.has_snapshot() => {}
                Item::Event(event) => {
                    let t = (event.mono_ns as f64 - record.origin_mono_ns as f64) / 1e9;
                    if t > record.to_s {
                        continue;
                    }
                    lanes.event(&event);
                    let Some(flow) = flows.get_mut(&event.flow) else { continue };
                    let terminal = flow.terminal;
                    flow.take(&event, t, &mut series[terminal], &mut bytes[terminal], bin_s);
                    let changed = event.kind != Kind::Sample;
                    if t - last[terminal] >= step_s || changed && t - last[terminal] >= step_s / 4.0 {
                        last[terminal] = t;
                        let sum: f64 =
                            flows.values().filter(|f| f.terminal == terminal).map(|f| f.cwnd).sum();
                        series[terminal].cwnd.push((t, sum));
                        if let Some(srtt) = event.snapshot.measured_srtt_us() {
                            series[terminal].srtt.push((t, f64::from(srtt) / 1000.0));
                        }
                    }
                }
                Item::Account(_) | Item::Setting(_) => {}
            }
        }
    }
    for flow in flows.values() {
        if let Some((since, state)) = flow.state {
            series[flow.terminal].states.push((since, record.to_s, state));
        }
    }
    for (terminal, (series, bytes)) in series.iter_mut().zip(bytes).enumerate() {
        series.limits = lanes.pieces(terminal);
        let middle = |n: usize| (n as f64 + 0.5) * bin_s;
        series.throughput =
            bytes.iter().enumerate().map(|(n, b)| (middle(n), *b as f64 * 8e-6 / bin_s)).collect();
    }
    bounds(folder, record, &mut series)?;
    Ok(series)
}

impl FlowState {
    fn take(&mut self, event: &Event, t: f64, series: &mut TerminalSeries, bytes: &mut [u64], bin_s: f64) {
        self.cwnd = if event.kind == Kind::Close { 0.0 } else { f64::from(event.snapshot.cwnd) };
        let acked = event.snapshot.bytes_acked.saturating_sub(self.bytes);
        self.bytes = event.snapshot.bytes_acked.max(self.bytes);
        if let Some(bin) = bytes.get_mut((t.max(0.0) / bin_s) as usize) {
            *bin += acked;
        }
        if event.kind == Kind::Timeout {
            series.timeouts.push(t);
        }
        if self.state.is_none_or(|(_, state)| state != event.ca_state) {
            if let Some((since, state)) = self.state.take() {
                series.states.push((since, t, state));
            }
            self.state = (event.ca_state != CaState::Open).then_some((t, event.ca_state));
        }
    }
}

/// The smoothed round-trip times of all terminals in the evaluated part, microseconds, each
/// weighted by its duration.
pub fn rtts(folder: &Path, record: &RunRecord) -> Result<Weighted, LabError> {
    let ns = |s: f64| record.origin_mono_ns.saturating_add((s * 1e9) as u64);
    let terminal_of = |flow: &Flow| {
        let number = |address: IpAddr| crate::net::terminal_number(address);
        number(flow.local.ip()).or_else(|| number(flow.remote.ip()))
    };
    let figures = flows::read(&folder.join(RECORDING_FILE), ns(record.from_s), ns(record.to_s), terminal_of)?;
    let mut all = Weighted::default();
    figures.iter().for_each(|flow| all.extend(&flow.srtt));
    Ok(all)
}

/// Reads a run's queue lengths.
pub fn queues(folder: &Path, record: &RunRecord) -> Result<Vec<QueueSeries>, LabError> {
    let path = folder.join(QUEUES_FILE);
    let text = std::fs::read_to_string(&path).map_err(LabError::file(&path))?;
    let mut lines = text.lines();
    let names = lines.next().unwrap_or_default().split(',').skip(1);
    let mut series: Vec<QueueSeries> =
        names.map(|name| QueueSeries { name: name.to_owned(), packets: Vec::new() }).collect();
    let step_s = record.to_s / MAX_POINTS as f64;
    for line in lines {
        let mut columns = line.split(',').map(|c| c.parse::<f64>().unwrap_or(0.0));
        let t = columns.next().unwrap_or(0.0);
        if t > record.to_s {
            break;
        }
        for (series, packets) in series.iter_mut().zip(columns) {
            match series.packets.last_mut() {
                Some((at, most)) if t - *at < step_s => *most = most.max(packets),
                _ => series.packets.push((t, packets)),
            }
        }
    }
    Ok(series)
}
