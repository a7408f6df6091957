//! The results of a run.

use crate::histogram::Histogram;
use crate::sender::SenderCounts;
use serde::Serialize;
use yuzuri_netmodel::radio::CellAccount;
use yuzuri_netmodel::wire::WireAccount;
use yuzuri_scenario::fairness::{jain, jain_of_alone};

/// RTT samples of the senders after warm-up, ms; `None` without a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct RttSummary {
    /// Number of samples.
    pub samples: u64,
    /// Minimum.
    pub min_ms: Option<f64>,
    /// Mean.
    pub mean_ms: Option<f64>,
    /// Median.
    pub p50_ms: Option<f64>,
    /// 95th percentile.
    pub p95_ms: Option<f64>,
}

impl RttSummary {
    pub(crate) fn of(rtt_us: &Histogram) -> RttSummary {
        RttSummary {
            samples: rtt_us.samples(),
            min_ms: rtt_us.min().map(|min| min as f64 / 1e3),
            mean_ms: rtt_us.mean().map(|mean| mean / 1e3),
            p50_ms: rtt_us.quantile(0.5).map(|value| value / 1e3),
            p95_ms: rtt_us.quantile(0.95).map(|value| value / 1e3),
        }
    }
}

/// The sender's state at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TracePoint {
    /// Seconds since the start.
    pub at_s: f64,
    /// Congestion window, segments.
    pub cwnd: u32,
    /// Slow-start threshold, segments.
    pub ssthresh: u32,
    /// Segments in flight.
    pub in_flight: u32,
    /// Smoothed round-trip time, µs.
    pub srtt_us: u64,
}

/// The results of one terminal.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TerminalResult {
    /// Payload received by the terminal or its peer after warm-up, Mbit/s.
    pub goodput_mbps: f64,
    /// Goodput from the start of the run, Mbit/s.
    pub goodput_total_mbps: f64,
    /// Payload received, bytes.
    pub received_bytes: u64,
    /// Counters of its senders, including the server's sender towards it.
    pub counts: SenderCounts,
    /// The same counters, after warm-up only.
    pub counts_warm: SenderCounts,
    /// Round-trip times.
    pub rtt: RttSummary,
    /// Mean congestion window of its main sender after warm-up, segments, sampled every 10 ms.
    pub cwnd_mean: f64,
    /// Mean smoothed RTT of its main sender after warm-up, ms, sampled every 10 ms: an average over
    /// time, not over ACKs.
    pub srtt_mean_ms: f64,
    /// The window over time, if the scenario requests it.
    pub trace: Vec<TracePoint>,
    /// When a transfer of limited size was fully acknowledged, seconds.
    pub finished_s: Option<f64>,
    /// Responses received.
    pub exchanges: u64,
    /// Mean time from a request to its response, ms.
    pub exchange_ms: Option<f64>,
    /// The 99th percentile of that time after warm-up, ms.
    pub exchange_p99_ms: Option<f64>,
}

/// The results of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Results {
    /// The terminals, in the order of the scenario.
    pub terminals: Vec<TerminalResult>,
    /// The radio, from the start of the run: airtime, queues, drops.
    pub cell: Option<CellAccount>,
    /// The wire, from the start of the run.
    #[serde(skip)]
    pub wire: WireAccount,
    /// Mean length of the access point's queue after warm-up, packets.
    pub ap_queue_mean: f64,
    /// Mean length of a station's queue after warm-up, packets.
    pub station_queue_mean: f64,
    /// Simulated time, seconds.
    pub simulated_s: f64,
    /// Wall-clock time of the run, seconds.
    pub wall_s: f64,
    /// CPU time of the run, seconds.
    pub cpu_s: f64,
    /// Iterations of the event loop.
    pub events: u64,
}

impl Results {
    /// Sum of goodputs after warm-up, Mbit/s.
    pub fn total_mbps(&self) -> f64 {
        self.goodputs().iter().sum()
    }

    /// Goodputs after warm-up, Mbit/s.
    pub fn goodputs(&self) -> Vec<f64> {
        self.terminals.iter().map(|terminal| terminal.goodput_mbps).collect()
    }

    /// Goodputs from the start of the run, Mbit/s.
    pub fn goodputs_total(&self) -> Vec<f64> {
        self.terminals.iter().map(|terminal| terminal.goodput_total_mbps).collect()
    }

    /// Jain's index of the goodputs after warm-up; 1 if no terminal received anything.
    pub fn jain(&self) -> f64 {
        jain(self.goodputs()).unwrap_or(1.0)
    }

    /// Jain's index of each goodput divided by the goodput that the terminal would get alone.
    pub fn jain_of_alone(&self, alone_mbps: &[f64]) -> f64 {
        jain_of_alone(&self.goodputs(), alone_mbps).unwrap_or(1.0)
    }

    /// Mean round-trip time over all samples, ms.
    pub fn rtt_mean_ms(&self) -> Option<f64> {
        let samples: u64 = self.terminals.iter().map(|t| t.rtt.samples).sum();
        let sum: f64 =
            self.terminals.iter().map(|t| t.rtt.mean_ms.unwrap_or(0.0) * t.rtt.samples as f64).sum();
        (samples > 0).then(|| sum / samples as f64)
    }

    /// Retransmissions divided by segments sent.
    pub fn retransmitted_share(&self) -> f64 {
        let (retransmitted, sent) = self.terminals.iter().fold((0, 0), |(retransmitted, sent), terminal| {
            (retransmitted + terminal.counts.retransmissions, sent + terminal.counts.segments)
        });
        if sent == 0 { 0.0 } else { retransmitted as f64 / sent as f64 }
    }

    /// Retransmission timeouts of all terminals.
    pub fn timeouts(&self) -> u64 {
        self.terminals.iter().map(|terminal| terminal.counts.timeouts).sum()
    }
}
