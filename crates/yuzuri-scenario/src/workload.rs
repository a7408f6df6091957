//! What a terminal does.

use serde::{Deserialize, Serialize};

/// Which way the data goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// From the terminal to the server.
    #[default]
    Up,
    /// From the server to the terminal.
    Down,
}

/// What a terminal does while it is there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum WorkloadSpec {
    /// Sends without end.
    Bulk {
        /// Connections side by side; 1.
        #[serde(default = "one")]
        connections: u32,
        /// Which way; up.
        #[serde(default)]
        direction: Direction,
    },
    /// Sends buffers, one after the other, and keeps of each how it went, as the visualizer does.
    Buffers {
        /// Bytes of a buffer; 1,000,000.
        #[serde(default = "megabyte")]
        bytes: u64,
        /// Whether each waits for the last ACK of the one before it; false.
        #[serde(default)]
        wait_ack: bool,
        /// Ends after so many; without end where absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        count: Option<u64>,
    },
    /// Sends for a while on a new connection, pauses, and so on.
    OnOff {
        /// How long it sends, seconds.
        on_s: f64,
        /// How long it pauses, seconds.
        off_s: f64,
    },
    /// Asks, waits for the answer, thinks, asks again, on one connection.
    RequestResponse {
        /// Bytes of a request; 200.
        #[serde(default = "request")]
        request_bytes: u32,
        /// Bytes of an answer; 20,000.
        #[serde(default = "response")]
        response_bytes: u32,
        /// Pause between an answer and the next request, milliseconds; 0.
        #[serde(default)]
        think_ms: f64,
    },
    /// iperf3.
    Iperf3 {
        /// Connections side by side; 1.
        #[serde(default = "one")]
        connections: u32,
        /// Which way; up.
        #[serde(default)]
        direction: Direction,
    },
    /// Nothing: a terminal that is only there.
    Idle {},
}

impl WorkloadSpec {
    /// Most bytes of a buffer.
    pub const MAX_BUFFER_BYTES: u64 = 1 << 30;
    /// Least bytes of a request: it begins with its own length and that of the response.
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

fn request() -> u32 {
    200
}

fn response() -> u32 {
    20_000
}
