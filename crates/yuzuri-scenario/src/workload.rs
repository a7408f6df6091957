//! The workload of a terminal.

use serde::{Deserialize, Serialize};

/// The direction of the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// From the terminal to the server.
    #[default]
    Up,
    /// From the server to the terminal.
    Down,
}

/// The workload of a terminal while it is present.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum WorkloadSpec {
    /// Unlimited transfer.
    Bulk {
        /// Number of parallel connections; default: 1.
        #[serde(default = "one")]
        connections: u32,
        /// Direction; default: up.
        #[serde(default)]
        direction: Direction,
    },
    /// Sends buffers one after the other and records the timing of each, as the visualizer does.
    Buffers {
        /// Bytes per buffer; default: 1,000,000.
        #[serde(default = "megabyte")]
        bytes: u64,
        /// Whether each buffer waits for the last ACK of the previous one; default: false.
        #[serde(default)]
        wait_ack: bool,
        /// Number of buffers; absent: unlimited.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        count: Option<u64>,
    },
    /// Alternates between sending on a new connection and pausing.
    OnOff {
        /// Sending time, seconds.
        on_s: f64,
        /// Pause, seconds.
        off_s: f64,
    },
    /// Sends a request, waits for the response, pauses, and repeats, on one connection.
    RequestResponse {
        /// Bytes per request; default: 200.
        #[serde(default = "request")]
        request_bytes: u32,
        /// Bytes per response; default: 20,000.
        #[serde(default = "response")]
        response_bytes: u32,
        /// Pause between a response and the next request, ms; default: 0.
        #[serde(default)]
        think_ms: f64,
    },
    /// iperf3.
    Iperf3 {
        /// Number of parallel connections; default: 1.
        #[serde(default = "one")]
        connections: u32,
        /// Direction; default: up.
        #[serde(default)]
        direction: Direction,
    },
    /// Unlimited upload over QUIC, with CUBIC in the program.
    Quic {},
    /// A call: frames over UDP at constant intervals, both ways.
    Call {
        /// Bytes of a frame, without headers; default: 250.
        #[serde(default = "frame")]
        bytes: u32,
        /// From one frame to the next, ms; default: 20.
        #[serde(default = "frame_ms")]
        interval_ms: f64,
    },
    /// No traffic: the terminal is only associated.
    Idle {},
}

impl WorkloadSpec {
    /// Maximum size of a buffer, bytes.
    pub const MAX_BUFFER_BYTES: u64 = 1 << 30;
    /// Minimum size of a request, bytes: it starts with its own length and that of the response.
    pub const MIN_REQUEST_BYTES: u32 = 8;
}

impl Default for WorkloadSpec {
    fn default() -> WorkloadSpec {
        WorkloadSpec::Bulk { connections: 1, direction: Direction::Up }
    }
}

fn one() -> u32 {
    1
}

fn megabyte() -> u64 {
    1_000_000
}

fn frame() -> u32 {
    250
}

fn frame_ms() -> f64 {
    20.0
}

fn request() -> u32 {
    200
}

fn response() -> u32 {
    20_000
}
