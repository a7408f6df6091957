//! Where and how a stream of items was recorded.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The source of items.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// BPF programs in the kernel: a record at each event.
    Events,
    /// `sock_diag` polling: changes between two polls are visible only as a difference.
    Sampled,
}

/// How many samples each flow produces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Density {
    /// One at every ACK.
    EveryAck,
    /// At most one in this many nanoseconds, plus every change of state, ssthresh or congestion
    /// control.
    Interval {
        /// The interval.
        ns: u64,
    },
}

impl Default for Density {
    fn default() -> Self {
        Density::Interval { ns: 1_000_000 }
    }
}

impl Density {
    /// The minimum time between two samples of a flow; zero for every ACK.
    pub fn interval(self) -> Duration {
        match self {
            Density::EveryAck => Duration::ZERO,
            Density::Interval { ns } => Duration::from_nanos(ns),
        }
    }
}

impl std::fmt::Display for Density {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Density::EveryAck => f.write_str("every ACK"),
            Density::Interval { ns } => write!(f, "{:?}", Duration::from_nanos(*ns)),
        }
    }
}

/// Whether a hook is in use.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HookState {
    /// Attached.
    Used,
    /// Not attached.
    Missing {
        /// The reason, in the kernel's or our own words.
        why: String,
        /// What provides the same information instead, or what is missing without it.
        instead: String,
    },
}

/// An interface of the kernel that the observation uses, or would use.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Hook {
    /// Its name, such as `tp_btf/tcp_probe`.
    pub name: String,
    /// What it observes.
    // The key in recordings of format 1.
    #[serde(rename = "tells")]
    pub provides: String,
    /// Whether it is in use.
    pub state: HookState,
}

/// Where and how a stream was recorded: the head of each recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// Version of Yuzuri.
    pub yuzuri: String,
    /// Host name.
    pub host: String,
    /// Kernel release and version (`uname -rv`).
    pub kernel: String,
    /// Processor architecture (`uname -m`).
    pub machine: String,
    /// Events or polling.
    pub source: Source,
    /// Samples per flow at the start.
    pub density: Density,
    /// The filter at the start, as text; empty for all flows.
    pub filter: String,
    /// The hooks in use, and those that could not be attached.
    pub hooks: Vec<Hook>,
    /// Wall time at the start, nanoseconds since the Unix epoch.
    pub started_unix_ns: i64,
    /// `CLOCK_MONOTONIC` at the start, nanoseconds.
    pub started_mono_ns: u64,
}

impl Session {
    /// Wall time minus monotonic time at the start, nanoseconds.
    pub fn wall_offset_ns(&self) -> i64 {
        self.started_unix_ns.wrapping_sub(self.started_mono_ns as i64)
    }
}

/// A change of filter or density during the observation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// When it took effect, `CLOCK_MONOTONIC`, nanoseconds.
    pub mono_ns: u64,
    /// The filter as text; empty for all flows.
    pub filter: String,
    /// Samples per flow.
    pub density: Density,
}
