//! Measurements taken during a run.

use super::endpoint::Connection;
use crate::histogram::Histogram;
use crate::results::{Results, RttSummary, TerminalResult, TracePoint};
use crate::scenario::Scenario;
use crate::sender::SenderCounts;
use crate::units::{MILLISECOND, nanos_between};
use crate::workload::Workload;
use yuzuri_netmodel::Time;
use yuzuri_netmodel::radio::CellAccount;
use yuzuri_netmodel::wire::WireAccount;

#[derive(Clone, Default)]
struct TerminalMeasurements {
    rtt_us: Histogram,
    cwnd_sum: u64,
    srtt_us_sum: u64,
    samples: u64,
    counts_before: SenderCounts,
    trace: Vec<TracePoint>,
    received_before: u64,
}

pub(super) struct Measurements {
    terminals: Vec<TerminalMeasurements>,
    warm: bool,
    warm_up_ms: u64,
    /// Packet-nanoseconds spent in the queues of access point and stations before warm-up ended.
    queues_before: (u128, u128),
}

impl Measurements {
    pub(super) fn new(scenario: &Scenario) -> Measurements {
        Measurements {
            terminals: vec![TerminalMeasurements::default(); scenario.terminals.len()],
            warm: false,
            warm_up_ms: scenario.warm_up_ms,
            queues_before: (0, 0),
        }
    }

    pub(super) fn rtt(&mut self, terminal: usize, rtt_us: u64) {
        if self.warm {
            self.terminals[terminal].rtt_us.add(rtt_us);
        }
    }

    pub(super) fn sample(&mut self, connections: &[Connection], ranges: &[(usize, usize)]) {
        if !self.warm {
            return;
        }
        for (terminal, main) in self.terminals.iter_mut().zip(main_connections(connections, ranges)) {
            if let Some(main) = main {
                let window = main.sender.window();
                terminal.cwnd_sum += u64::from(window.cwnd);
                terminal.srtt_us_sum += window.srtt_us;
                terminal.samples += 1;
            }
        }
    }

    pub(super) fn trace(&mut self, now: Time, connections: &[Connection], ranges: &[(usize, usize)]) {
        for (terminal, main) in self.terminals.iter_mut().zip(main_connections(connections, ranges)) {
            if let Some(main) = main {
                let window = main.sender.window();
                terminal.trace.push(TracePoint {
                    at_s: now.as_secs_f64(),
                    cwnd: window.cwnd,
                    ssthresh: window.ssthresh,
                    in_flight: window.in_flight,
                    srtt_us: window.srtt_us,
                });
            }
        }
    }

    pub(super) fn warmed_up(&mut self, now: Time, connections: &[Connection], cell: Option<&CellAccount>) {
        self.warm = true;
        for connection in connections {
            let terminal = &mut self.terminals[connection.terminal];
            terminal.received_before += connection.receiver.received_bytes();
            terminal.counts_before = terminal.counts_before + *connection.sender.counts();
        }
        self.queues_before = cell.map_or((0, 0), |cell| queues(cell, now));
    }

    pub(super) fn finish(
        self,
        now: Time,
        connections: &[Connection],
        workloads: &[Workload],
        cell: Option<CellAccount>,
        wire: WireAccount,
    ) -> Results {
        let simulated_s = now.as_secs_f64();
        let warm_s = nanos_between(now, Time::from_nanos(self.warm_up_ms * MILLISECOND)) as f64 / 1e9;
        let (ap, stations) = cell.as_ref().map_or((0, 0), |cell| queues(cell, now));
        let per_warm_ns = 1.0 / (warm_s * 1e9);
        let count = self.terminals.len().max(1) as f64;
        let terminals = self.terminals.into_iter().enumerate().map(|(number, measured)| {
            let own_connections =
                || connections.iter().filter(move |connection| connection.terminal == number);
            let received: u64 =
                own_connections().map(|connection| connection.receiver.received_bytes()).sum();
            let counts = own_connections()
                .fold(SenderCounts::default(), |sum, connection| sum + *connection.sender.counts());
            let mean = |sum: u64| sum as f64 / measured.samples.max(1) as f64;
            TerminalResult {
                goodput_mbps: (received - measured.received_before) as f64 * 8.0 / 1e6 / warm_s,
                goodput_total_mbps: received as f64 * 8.0 / 1e6 / simulated_s,
                received_bytes: received,
                counts,
                counts_warm: counts - measured.counts_before,
                rtt: RttSummary::of(&measured.rtt_us),
                cwnd_mean: mean(measured.cwnd_sum),
                srtt_mean_ms: mean(measured.srtt_us_sum) / 1e3,
                trace: measured.trace,
                finished_s: workloads[number].finished_at().map(Time::as_secs_f64),
                exchanges: workloads[number].exchanges(),
                exchange_ms: workloads[number].exchange_mean_ms(),
                exchange_p99_ms: workloads[number].exchange_p99_ms(),
            }
        });
        Results {
            terminals: terminals.collect(),
            ap_queue_mean: (ap - self.queues_before.0) as f64 * per_warm_ns,
            station_queue_mean: (stations - self.queues_before.1) as f64 * per_warm_ns / count,
            cell,
            wire,
            simulated_s,
            wall_s: 0.0,
            cpu_s: 0.0,
            events: 0,
        }
    }
}

/// The sender whose window represents the terminal: the last one, which for request-response is the
/// server's.
fn main_connections<'a>(
    connections: &'a [Connection],
    ranges: &'a [(usize, usize)],
) -> impl Iterator<Item = Option<&'a Connection>> {
    ranges.iter().map(|&(first, last)| connections[first..last].iter().rfind(|connection| connection.opened))
}

fn queues(cell: &CellAccount, now: Time) -> (u128, u128) {
    (cell.ap.queue.packet_ns(now), cell.stations.iter().map(|station| station.queue.packet_ns(now)).sum())
}
