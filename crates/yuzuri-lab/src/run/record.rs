//! The results of a run: the figures, and everything needed to assess and reproduce them.

use super::{CallRecord, GateRecord, ShareRecord};
use crate::LabError;
use crate::driver::{Lateness, Snapshot};
use serde::{Deserialize, Serialize};
use std::path::Path;
use yuzuri_netmodel::Time;
use yuzuri_netmodel::radio::{CellAccount, NodeAccount};
use yuzuri_netmodel::wire::LineAccount;
use yuzuri_scenario::Label;

/// Format version of `run.json`.
pub const FORMAT: u32 = 1;
/// Its file name.
pub const FILE: &str = "run.json";

/// The clock of a run, and with it the TCP implementation: the kernel's in real or virtual time, or
/// the simulator's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Clock {
    /// Real time. The host's load can affect the figures.
    Real,
    /// Virtual time. A seed reproduces the figures.
    Virtual,
    /// Simulated senders and receivers instead of the kernel's. A seed reproduces the figures.
    Simulated,
}

impl Clock {
    /// Whether the run used the kernel's TCP.
    pub fn is_kernels(self) -> bool {
        self != Clock::Simulated
    }

    /// The name in results.
    pub fn name(self) -> &'static str {
        match self {
            Clock::Real => "real",
            Clock::Virtual => "virtual",
            Clock::Simulated => "simulated",
        }
    }
}

/// What to run in addition to the scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// The name of the point.
    pub point: String,
    /// The varied fields with their values.
    pub labels: Vec<Label>,
    /// The kind of terminal that runs alone, if any.
    pub alone: Option<String>,
    /// Random seed.
    pub seed: u64,
    /// The clock.
    pub clock: Clock,
}

/// The contents of `run.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Format version.
    pub format: u32,
    /// The task.
    pub task: Task,
    /// The scenario's title.
    pub title: String,
    /// Yuzuri's version.
    pub yuzuri: String,
    /// The machine; for a simulated run, the machine that simulated it.
    pub host: HostRecord,
    /// Wall-clock time at the start, nanoseconds since the Unix epoch.
    pub started_unix_ns: i64,
    /// `CLOCK_MONOTONIC` at the scenario's time zero, nanoseconds.
    pub origin_mono_ns: u64,
    /// Whether the run is valid.
    pub valid: bool,
    /// Why it is not valid.
    pub invalid_because: Vec<String>,
    /// Problems that do not make the run invalid.
    pub notes: Vec<String>,
    /// Whether the driver kept up.
    pub lateness: Lateness,
    /// The monitor's record counts.
    pub watched: Watched,
    /// CPU time of the driver's thread, seconds.
    pub driver_cpu_s: f64,
    /// CPU time of the whole process during the run, seconds; includes concurrent runs.
    pub process_cpu_s: f64,
    /// Time from building the network to its removal, seconds.
    pub wall_s: f64,
    /// Start of the evaluated part, seconds.
    pub from_s: f64,
    /// End of the evaluated part, seconds.
    pub to_s: f64,
    /// Totals over all terminals.
    pub totals: Totals,
    /// By terminal.
    pub terminals: Vec<TerminalRecord>,
    /// The results of the access point's daemon; absent: it did not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<GateRecord>,
    /// The access point's radio.
    pub ap: RadioRecord,
    /// Fraction of time in which the channel was busy with frames or collisions, 0 to 1.
    pub busy: f64,
    /// The same for the second cell; absent: there was one cell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_second: Option<f64>,
    /// The direction to the server.
    pub wire_up: LineRecord,
    /// The direction from the server.
    pub wire_down: LineRecord,
}

/// The machine of a run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HostRecord {
    /// Its name.
    pub name: String,
    /// Kernel release and version.
    pub kernel: String,
    /// Processor architecture.
    pub machine: String,
    /// Number of processors.
    pub cpus: usize,
}

/// Record counts of the monitor: `seen = kept + lost`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Watched {
    /// Records generated.
    pub seen: u64,
    /// Records in the recording.
    pub kept: u64,
    /// Records lost.
    pub lost: u64,
}

/// Totals over all terminals.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Totals {
    /// Sum over the terminals, Mbit/s.
    pub throughput_mbps: f64,
    /// Jain's index, 0 to 1, of the terminals that are neither idle nor in a call; `None` if there
    /// are none.
    pub jain: Option<f64>,
    /// Time-weighted mean of the smoothed round-trip times, ms; `None` without a measurement.
    pub rtt_mean_ms: Option<f64>,
    /// 95th percentile of the smoothed round-trip time by time, ms.
    pub rtt_p95_ms: Option<f64>,
    /// Retransmitted segments.
    pub retransmissions: u64,
    /// Packets dropped by queues, lost on the path, or given up by the radio.
    pub drops: u64,
}

/// The results of one terminal.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TerminalRecord {
    /// Its name.
    pub name: String,
    /// The name of its kind.
    pub kind: String,
    /// Congestion control of its flows, by its kernel name.
    pub control: String,
    /// Number of its TCP flows and of its connections over QUIC.
    pub flows: usize,
    /// Payload in both directions, Mbit/s.
    pub throughput_mbps: f64,
    /// Time-weighted mean of the smoothed round-trip time, ms.
    pub rtt_mean_ms: Option<f64>,
    /// 95th percentile of the smoothed round-trip time by time, ms.
    pub rtt_p95_ms: Option<f64>,
    /// Minimum round-trip time, ms.
    pub rtt_min_ms: Option<f64>,
    /// Time-weighted mean of the congestion window, segments.
    pub cwnd_mean: Option<f64>,
    /// Retransmitted segments.
    pub retransmissions: u64,
    /// Entries into fast recovery.
    pub recoveries: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Number of buffers, if the workload records them.
    pub buffers: usize,
    /// Median duration of an exchange, ms, if the workload has exchanges.
    pub exchange_median_ms: Option<f64>,
    /// Its call; absent if it had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallRecord>,
    /// Its sharing; absent if it did not share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<ShareRecord>,
    /// Its radio.
    pub radio: RadioRecord,
}

/// The account of one radio for the evaluated part.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct RadioRecord {
    /// Fraction of time for which its exchanges occupied the channel, 0 to 1.
    pub airtime: f64,
    /// Packets delivered to the next hop.
    pub sent: u64,
    /// Packets dropped by its queue.
    pub queue_drops: u64,
    /// Packets given up after the last attempt.
    pub retry_drops: u64,
    /// MPDUs sent.
    pub mpdus: u64,
    /// Of these, retransmissions.
    pub retries: u64,
    /// Channel accesses that collided.
    pub collisions: u64,
    /// Mean queue length, packets.
    pub queue_mean: f64,
    /// Maximum queue length since the start, packets.
    pub queue_max: u64,
}

/// The account of one direction of the wire for the evaluated part.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct LineRecord {
    /// Packets delivered.
    pub delivered: u64,
    /// Packets dropped by its queue.
    pub queue_drops: u64,
    /// Packets lost behind the queue.
    pub lost: u64,
    /// Fraction of time in which its transmitter was busy, 0 to 1.
    pub busy: f64,
    /// Maximum queue length since the start, packets.
    pub queue_max: u64,
}

impl RunRecord {
    /// The calls of its terminals.
    pub fn calls(&self) -> impl Iterator<Item = &CallRecord> {
        self.terminals.iter().filter_map(|terminal| terminal.call.as_ref())
    }
}

impl RadioRecord {
    /// The difference between two times.
    pub fn between(a: &NodeAccount, b: &NodeAccount, from: Time, to: Time) -> RadioRecord {
        let nanos = (to - from).as_nanos().max(1) as f64;
        let drops = |n: &NodeAccount| n.drops.overflow + n.drops.aqm + n.group.dropped;
        let packet_ns = b.queue.packet_ns(to).saturating_sub(a.queue.packet_ns(from));
        RadioRecord {
            airtime: b.airtime.total_ns().saturating_sub(a.airtime.total_ns()) as f64 / nanos,
            sent: b.sent.saturating_sub(a.sent),
            queue_drops: drops(b).saturating_sub(drops(a)),
            retry_drops: b.drops.retry.saturating_sub(a.drops.retry),
            mpdus: b.mpdus.saturating_sub(a.mpdus),
            retries: b.retries.saturating_sub(a.retries),
            collisions: b.collisions.saturating_sub(a.collisions),
            queue_mean: packet_ns as f64 / nanos,
            queue_max: b.queue.max,
        }
    }
}

impl RadioRecord {
    /// A terminal's or the access point's radio in both cells together.
    pub fn plus(self, other: &RadioRecord) -> RadioRecord {
        RadioRecord {
            airtime: self.airtime + other.airtime,
            sent: self.sent + other.sent,
            queue_drops: self.queue_drops + other.queue_drops,
            retry_drops: self.retry_drops + other.retry_drops,
            mpdus: self.mpdus + other.mpdus,
            retries: self.retries + other.retries,
            collisions: self.collisions + other.collisions,
            queue_mean: self.queue_mean + other.queue_mean,
            queue_max: self.queue_max.max(other.queue_max),
        }
    }
}

impl LineRecord {
    /// The difference between two times.
    pub fn between(a: &LineAccount, b: &LineAccount, from: Time, to: Time) -> LineRecord {
        let nanos = (to - from).as_nanos().max(1) as f64;
        let drops = |l: &LineAccount| l.drops.overflow + l.drops.aqm;
        LineRecord {
            delivered: b.delivered.saturating_sub(a.delivered),
            queue_drops: drops(b).saturating_sub(drops(a)),
            lost: b.lost.saturating_sub(a.lost),
            busy: b.busy_ns.saturating_sub(a.busy_ns) as f64 / nanos,
            queue_max: b.queued_max,
        }
    }
}

/// Fraction of the time between two snapshots in which the channel was busy; `of`: the cell.
pub fn busy_between(
    a: &Snapshot,
    b: &Snapshot,
    of: impl Fn(&Snapshot) -> Option<&CellAccount>,
) -> Option<f64> {
    let idle = |s: &Snapshot| of(s).map(|cell| cell.idle.contention_ns + cell.idle.empty_ns);
    let nanos = (b.at - a.at).as_nanos().max(1) as f64;
    Some((1.0 - idle(b)?.saturating_sub(idle(a)?) as f64 / nanos).clamp(0.0, 1.0))
}

impl RunRecord {
    /// Reads a run's folder.
    ///
    /// # Errors
    /// If there is no `run.json` in a known format.
    pub fn open(folder: &Path) -> Result<RunRecord, LabError> {
        let path = folder.join(FILE);
        let text = std::fs::read(&path).map_err(LabError::file(&path))?;
        let wrong = |why: String| LabError::Results { path: path.clone(), why };
        let record: RunRecord = serde_json::from_slice(&text).map_err(|e| wrong(e.to_string()))?;
        if record.format > FORMAT {
            let why = format!("format {} is of a later version (yuzuri {})", record.format, record.yuzuri);
            return Err(wrong(why));
        }
        Ok(record)
    }

    /// Writes `run.json` to a folder.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, folder: &Path) -> Result<(), LabError> {
        let path = folder.join(FILE);
        let text = serde_json::to_vec_pretty(self);
        let text = text.map_err(|e| LabError::Results { path: path.clone(), why: e.to_string() })?;
        std::fs::write(&path, text).map_err(LabError::file(&path))
    }
}
