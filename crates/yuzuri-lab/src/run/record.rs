//! What a run leaves: the figures and everything that is needed to judge and to repeat them.

use super::ShareRecord;
use crate::LabError;
use crate::driver::{Lateness, Snapshot};
use serde::{Deserialize, Serialize};
use std::path::Path;
use yuzuri_netmodel::Time;
use yuzuri_netmodel::radio::NodeAccount;
use yuzuri_netmodel::wire::LineAccount;
use yuzuri_scenario::Label;

/// Version of the form of `run.json`.
pub const FORMAT: u32 = 1;
/// Name of the file.
pub const FILE: &str = "run.json";

/// Which clock a run had, and with it which TCP: the kernel's in real or virtual time, or the simulator's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Clock {
    /// The load of the host can change the figures.
    Real,
    /// A seed repeats the figures.
    Virtual,
    /// Simulated senders and receivers instead of the kernel's. A seed repeats the figures.
    Simulated,
}

impl Clock {
    /// Whether the run had the kernel's TCP.
    pub fn is_kernels(self) -> bool {
        self != Clock::Simulated
    }

    /// The word for it in results.
    pub fn name(self) -> &'static str {
        match self {
            Clock::Real => "real",
            Clock::Virtual => "virtual",
            Clock::Simulated => "simulated",
        }
    }
}

/// What is to be run, beside the scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// Name of the point.
    pub point: String,
    /// What is varied, and its value here.
    pub labels: Vec<Label>,
    /// Which kind of terminal is alone, if one is.
    pub alone: Option<String>,
    /// Seed of everything random.
    pub seed: u64,
    /// The clock.
    pub clock: Clock,
}

/// `run.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Version of this form.
    pub format: u32,
    /// What was run.
    pub task: Task,
    /// The scenario's title.
    pub title: String,
    /// Version of Yuzuri.
    pub yuzuri: String,
    /// The machine; of a simulated run the one that simulated it.
    pub host: HostRecord,
    /// Wall time at the start, nanoseconds since the Unix epoch.
    pub started_unix_ns: i64,
    /// `CLOCK_MONOTONIC` at the scenario's time zero, nanoseconds.
    pub origin_mono_ns: u64,
    /// Whether the figures may be believed.
    pub valid: bool,
    /// Why not.
    pub invalid_because: Vec<String>,
    /// What went wrong without making the run invalid.
    pub notes: Vec<String>,
    /// How well the driver kept time.
    pub lateness: Lateness,
    /// What the monitor saw, kept and lost.
    pub watched: Watched,
    /// CPU time of the driver's thread, seconds.
    pub driver_cpu_s: f64,
    /// CPU time of the whole process while it ran, seconds; with other runs in it where they went on side by side.
    pub process_cpu_s: f64,
    /// From the building of the network to its removal, seconds.
    pub wall_s: f64,
    /// Beginning of the part that counts, seconds.
    pub from_s: f64,
    /// End of the part that counts, seconds.
    pub to_s: f64,
    /// Over all terminals.
    pub totals: Totals,
    /// By terminal.
    pub terminals: Vec<TerminalRecord>,
    /// The access point's radio.
    pub ap: RadioRecord,
    /// Part of the time the channel was busy with collisions or frames, 0 to 1.
    pub busy: f64,
    /// The way to the server.
    pub wire_up: LineRecord,
    /// The way from the server.
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
    /// Processors.
    pub cpus: usize,
}

/// `seen = kept + lost`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Watched {
    /// Records that were due.
    pub seen: u64,
    /// Records in the recording.
    pub kept: u64,
    /// Records that are not.
    pub lost: u64,
}

/// Over all terminals.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Totals {
    /// Sum of what terminals got acknowledged, Mbit/s.
    pub throughput_mbps: f64,
    /// Jain's index of the terminals that sent, 0 to 1; `None` without any.
    pub jain: Option<f64>,
    /// Mean of the smoothed round-trip times, by time, milliseconds; `None` without a measurement.
    pub rtt_mean_ms: Option<f64>,
    /// The smoothed round-trip time that was exceeded in 5 % of the time, milliseconds.
    pub rtt_p95_ms: Option<f64>,
    /// Segments sent again.
    pub retransmissions: u64,
    /// Packets dropped by queues, lost on the path, or given up by the radio.
    pub drops: u64,
}

/// What one terminal got.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TerminalRecord {
    /// Its name.
    pub name: String,
    /// The name of its kind.
    pub kind: String,
    /// Congestion control of its flows, as the kernel calls it.
    pub control: String,
    /// TCP flows with it.
    pub flows: usize,
    /// Acknowledged, Mbit/s of payload.
    pub throughput_mbps: f64,
    /// Mean of the smoothed round-trip time, by time, milliseconds.
    pub rtt_mean_ms: Option<f64>,
    /// The smoothed round-trip time that was exceeded in 5 % of the time, milliseconds.
    pub rtt_p95_ms: Option<f64>,
    /// The least round-trip time, milliseconds.
    pub rtt_min_ms: Option<f64>,
    /// Mean of the congestion window, by time, segments.
    pub cwnd_mean: Option<f64>,
    /// Segments sent again.
    pub retransmissions: u64,
    /// Times it entered fast recovery.
    pub recoveries: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Buffers, where the workload counts them.
    pub buffers: usize,
    /// Median time of an exchange, milliseconds, where the workload has them.
    pub exchange_median_ms: Option<f64>,
    /// Its part in sharing; absent where it took none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<ShareRecord>,
    /// Its radio.
    pub radio: RadioRecord,
}

/// What one radio did while it counted.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct RadioRecord {
    /// Part of the time its exchanges held the channel, 0 to 1.
    pub airtime: f64,
    /// Packets the next hop took.
    pub sent: u64,
    /// Packets its queue dropped.
    pub queue_drops: u64,
    /// Packets given up after the last attempt.
    pub retry_drops: u64,
    /// MPDUs sent.
    pub mpdus: u64,
    /// Of these, sent again.
    pub retries: u64,
    /// Accesses that collided.
    pub collisions: u64,
    /// Mean length of its queue, packets.
    pub queue_mean: f64,
    /// Most there was in its queue since the start, packets.
    pub queue_max: u64,
}

/// What one direction of the wire did while it counted.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct LineRecord {
    /// Packets delivered.
    pub delivered: u64,
    /// Packets its queue dropped.
    pub queue_drops: u64,
    /// Packets lost behind the queue.
    pub lost: u64,
    /// Part of the time its transmitter was busy, 0 to 1.
    pub busy: f64,
    /// Most there was in its queue since the start, packets.
    pub queue_max: u64,
}

impl RadioRecord {
    /// The difference of two moments.
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

impl LineRecord {
    /// The difference of two moments.
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

/// Part of the time between two moments in which somebody sent.
pub fn busy_between(a: &Snapshot, b: &Snapshot) -> f64 {
    let idle = |s: &Snapshot| s.cell.idle.contention_ns + s.cell.idle.empty_ns;
    let nanos = (b.at - a.at).as_nanos().max(1) as f64;
    (1.0 - idle(b).saturating_sub(idle(a)) as f64 / nanos).clamp(0.0, 1.0)
}

impl RunRecord {
    /// Reads a run's folder.
    ///
    /// # Errors
    /// Where there is no `run.json` of a form we know.
    pub fn open(folder: &Path) -> Result<RunRecord, LabError> {
        let path = folder.join(FILE);
        let text = std::fs::read(&path).map_err(LabError::file(&path))?;
        let wrong = |why: String| LabError::Results { path: path.clone(), why };
        let record: RunRecord = serde_json::from_slice(&text).map_err(|e| wrong(e.to_string()))?;
        if record.format > FORMAT {
            let why = format!("form {} is of a later version (yuzuri {})", record.format, record.yuzuri);
            return Err(wrong(why));
        }
        Ok(record)
    }

    /// Writes `run.json` into a folder.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn write(&self, folder: &Path) -> Result<(), LabError> {
        let path = folder.join(FILE);
        let text = serde_json::to_vec_pretty(self);
        let text = text.map_err(|e| LabError::Results { path: path.clone(), why: e.to_string() })?;
        std::fs::write(&path, text).map_err(LabError::file(&path))
    }
}
