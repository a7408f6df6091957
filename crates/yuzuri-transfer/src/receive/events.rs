//! Events of the receiver.

use serde::Serialize;
use std::net::SocketAddr;

/// An event of the receiver. With `--json`, each event is one line of JSON with its kind under
/// `type`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum ReceiveEvent {
    /// The receiver is listening.
    Listening {
        /// Listening address.
        address: SocketAddr,
        /// Limit of bytes per connection.
        max_bytes: Option<u64>,
        /// Limit of bytes over all connections.
        max_total_bytes: Option<u64>,
    },
    /// A connection was accepted.
    Accepted {
        /// Number of the connection, from 0.
        connection: u64,
        /// Address of the sender.
        peer: SocketAddr,
        /// Local address.
        local: SocketAddr,
        /// The kernel's socket cookie, which identifies the flow in recordings.
        cookie: u64,
        /// Number of connections now open.
        open: usize,
    },
    /// A connection was refused.
    Refused {
        /// Address of the sender.
        peer: SocketAddr,
        /// The reason, in one line. The sender receives the same text.
        reason: String,
    },
    /// A connection is over.
    Closed(Received),
    /// Progress of the receiver.
    Progress {
        /// Number of open connections.
        open: usize,
        /// Bytes received, and sent in reverse, on all connections since the start.
        bytes: u64,
        /// Rate since the previous progress event, bits per second.
        rate_bps: u64,
    },
    /// A failure that does not end the receiver.
    Note {
        /// The failure, in one line.
        text: String,
    },
    /// The receiver has ended.
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
    /// The connection was idle for the idle timeout.
    Idle,
    /// The connection reached its limit of bytes.
    Limit,
    /// The connection reached its time limit.
    TimeLimit,
    /// All connections together reached the receiver's limit of bytes.
    TotalLimit,
    /// The receiver was stopped.
    Stopped,
    /// In reverse: all that was asked for was sent.
    Sent,
    /// The other end asked for a transfer in reverse that is not made.
    NotReversed,
}

impl End {
    /// The text used in reports.
    pub fn description(self) -> &'static str {
        match self {
            End::Closed => "closed by the sender",
            End::Failed => "reset or failed",
            End::Idle => "idle for too long",
            End::Limit => "closed: byte limit per connection reached",
            End::TimeLimit => "closed: time limit per connection reached",
            End::TotalLimit => "closed: total byte limit reached",
            End::Stopped => "receiver stopped",
            End::Sent => "sent the requested data in reverse",
            End::NotReversed => "requested a transfer in reverse, which was refused",
        }
    }
}

/// Result of one connection.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Received {
    /// Number of the connection, from 0.
    pub connection: u64,
    /// Address of the sender.
    pub peer: SocketAddr,
    /// Bytes received.
    pub bytes: u64,
    /// Bytes sent in reverse, as far as the kernel has accepted them.
    pub sent_bytes: u64,
    /// Time from the first to the last byte, as read or written by this process, nanoseconds.
    pub duration_ns: u64,
    /// (`bytes` + `sent_bytes`) × 8 / `duration_ns`, bits per second; 0 if all bytes were read at
    /// once.
    pub throughput_bps: u64,
    /// Why the connection is over.
    pub end: End,
}

/// Result of the receiver.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct ReceiveSummary {
    /// Connections accepted.
    pub accepted: u64,
    /// Connections refused.
    pub refused: u64,
    /// Bytes received on all connections.
    pub bytes: u64,
    /// Bytes sent in reverse on all connections.
    pub sent_bytes: u64,
    /// From the first to the last byte on any connection, nanoseconds.
    pub duration_ns: u64,
    /// (`bytes` + `sent_bytes`) × 8 / `duration_ns`, bits per second.
    pub throughput_bps: u64,
    /// Whether [`ReceiveOptions::max_total_bytes`](crate::ReceiveOptions::max_total_bytes) ended
    /// the receiver.
    pub limit_reached: bool,
}
