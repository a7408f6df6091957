//! What the receiver tells.

use serde::Serialize;
use std::net::SocketAddr;

/// Something the receiver has to tell. Each is one JSON line of `--json`, its kind under `type`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum ReceiveEvent {
    /// It listens.
    Listening {
        /// Where.
        address: SocketAddr,
        /// A connection is closed after so many bytes.
        max_bytes: Option<u64>,
        /// The receiver ends after so many bytes on all connections.
        max_total_bytes: Option<u64>,
    },
    /// A connection was accepted.
    Accepted {
        /// Its number, from 0.
        connection: u64,
        /// The sender.
        peer: SocketAddr,
        /// This end.
        local: SocketAddr,
        /// The kernel's socket cookie: the flow's id in recordings.
        cookie: u64,
        /// Connections now open.
        open: usize,
    },
    /// A connection was turned away.
    Refused {
        /// The sender.
        peer: SocketAddr,
        /// Why, in one line; the sender is told the same.
        reason: String,
    },
    /// A connection is over.
    Closed(Received),
    /// How it goes.
    Progress {
        /// Connections open.
        open: usize,
        /// Bytes received on all connections since the start.
        bytes: u64,
        /// Rate since the last progress, bits per second.
        rate_bps: u64,
    },
    /// Something went wrong that does not end the receiver.
    Note {
        /// In one line.
        text: String,
    },
    /// The receiver ends.
    Summary(ReceiveSummary),
}

/// Why a connection is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// The sender closed it.
    Closed,
    /// The sender reset it, or the network did.
    Failed,
    /// Nothing came for the idle timeout.
    Idle,
    /// It reached the limit of bytes of a connection.
    Limit,
    /// It reached the limit of time of a connection.
    TimeLimit,
    /// All connections together reached the limit of bytes of the receiver.
    TotalLimit,
    /// The receiver was stopped.
    Stopped,
}

impl End {
    /// The words used in reports.
    pub fn words(self) -> &'static str {
        match self {
            End::Closed => "closed by the sender",
            End::Failed => "reset or failed",
            End::Idle => "idle for too long",
            End::Limit => "closed: limit of bytes of a connection reached",
            End::TimeLimit => "closed: limit of time of a connection reached",
            End::TotalLimit => "closed: limit of bytes of all connections reached",
            End::Stopped => "receiver stopped",
        }
    }
}

/// What came over one connection.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Received {
    /// Its number, from 0.
    pub connection: u64,
    /// The sender.
    pub peer: SocketAddr,
    /// Bytes.
    pub bytes: u64,
    /// From the first to the last byte as read by this process, nanoseconds.
    pub duration_ns: u64,
    /// `bytes` × 8 / `duration_ns`, bits per second; 0 where all bytes came at once.
    pub throughput_bps: u64,
    /// Why it is over.
    pub end: End,
}

/// What the receiver did.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct ReceiveSummary {
    /// Connections accepted.
    pub accepted: u64,
    /// Connections turned away.
    pub refused: u64,
    /// Bytes received on all connections.
    pub bytes: u64,
    /// From the first to the last byte on any connection, nanoseconds.
    pub duration_ns: u64,
    /// `bytes` × 8 / `duration_ns`, bits per second.
    pub throughput_bps: u64,
    /// It ended because as many bytes had come over all connections as it was to take.
    pub limit_reached: bool,
}
