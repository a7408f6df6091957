//! Events of a transfer. With `--json`, each event is one line of JSON with its kind under `type`.
//! Fields and types may be added but do not change; readers must ignore those they do not know.

use crate::FailureKind;
use serde::Serialize;
use std::net::SocketAddr;

/// An event of the sender.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum SendEvent {
    /// A connection was opened.
    Connected(Connected),
    /// All bytes of a buffer were acknowledged.
    Buffer(Buffer),
    /// Progress of the transfer.
    Progress(Progress),
    /// A remark that affects how the figures are to be read.
    Note(Note),
    /// The transfer is over. Also reported after an error if connections had been opened.
    Summary(SendSummary),
    /// A function that runs in parallel to the transfer failed; the transfer continues.
    /// [`send`](crate::send) itself never reports this. The program that records or shares
    /// alongside it does.
    Warning {
        /// The function that failed.
        kind: WarningKind,
        /// The reason, in one line.
        message: String,
    },
    /// Summary of sharing the interface, reported at the end by the program that shares alongside
    /// the transfer.
    Shared(Shared),
    /// The transfer did not take place or ended early. [`send`](crate::send) returns the same
    /// error.
    Failed {
        /// Kind of the failure.
        kind: FailureKind,
        /// The error message, in one line.
        message: String,
    },
}

/// Functions that can fail independently of the transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WarningKind {
    /// The recording could not be started or is incomplete. Reported once.
    Recording,
    /// The transfer does not share, or no longer does.
    Sharing,
}

/// How a transfer shared one interface with other devices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Shared {
    /// Name of the interface.
    pub interface: String,
    /// Maximum number of other devices present at the same time.
    pub others: u64,
    /// Duration of sharing, nanoseconds.
    pub duration_ns: u64,
    /// Part of `duration_ns` during which at least one connection was bounded, nanoseconds.
    pub bounded_ns: u64,
    /// Messages received.
    pub messages: u64,
    /// Messages that passed verification.
    pub messages_believed: u64,
}

/// A connection that was opened.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Connected {
    /// Number of the connection, from 0.
    pub connection: u32,
    /// The kernel's socket cookie, which identifies the flow in recordings.
    pub cookie: u64,
    /// Local address.
    pub local: SocketAddr,
    /// Address of the peer.
    pub peer: SocketAddr,
    /// The congestion control in use.
    pub congestion_control: String,
    /// Source of the times and windows of its buffers.
    pub source: BufferSource,
}

/// Source of the times and windows of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BufferSource {
    /// The kernel timestamped the buffer's last packet when it was sent and when it was
    /// acknowledged.
    Timestamps,
    /// `TCP_INFO` was polled. Times are late by up to one polling interval, and windows were read
    /// equally late.
    TcpInfo,
}

impl BufferSource {
    /// The name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            BufferSource::Timestamps => "timestamps",
            BufferSource::TcpInfo => "tcp-info",
        }
    }
}

/// One buffer, from its first write to its last acknowledgement. Times are `CLOCK_MONOTONIC` unless
/// the name says `unix`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Buffer {
    /// Number of the connection.
    pub connection: u32,
    /// Number of the buffer on its connection, from 0.
    pub index: u64,
    /// Length of the buffer, bytes.
    pub bytes: u64,
    /// Whether the buffer has its full length. `false` if the time limit expired or the stop flag
    /// was set while it was being written.
    pub complete: bool,
    /// When its first byte was written to the socket, nanoseconds.
    pub first_write_mono_ns: u64,
    /// The same moment in `CLOCK_REALTIME`, nanoseconds since the Unix epoch.
    pub first_write_unix_ns: i64,
    /// When TCP first passed its last packet to the device queue, nanoseconds; `None` if this was
    /// not observed.
    pub sent_mono_ns: Option<u64>,
    /// When the device driver accepted that packet, nanoseconds; `None` if the driver does not
    /// report it.
    pub wire_mono_ns: Option<u64>,
    /// When its last byte was acknowledged, nanoseconds.
    pub acked_mono_ns: u64,
    /// `bytes` × 8 / (last acknowledgement − first write), bits per second: the throughput as the
    /// visualizer defines it.
    pub throughput_bps: u64,
    /// Throughput of the whole connection over the same interval, bits per second.
    ///
    /// While a buffer is in flight, so are the end of the previous buffer and the beginning of the
    /// next one. `throughput_bps` is therefore lower than the rate of the path, by the equivalent
    /// of one round trip. This value counts all bytes acknowledged in the interval. With `wait_ack`
    /// both values are equal.
    pub carried_bps: u64,
    /// Congestion window when the last packet was sent, segments.
    pub cwnd: u32,
    /// Slow start threshold at that moment, segments; `None` before the first reduction.
    pub ssthresh: Option<u32>,
    /// Smoothed round-trip time at that moment, microseconds; `None` before the first measurement.
    pub srtt_us: Option<u32>,
    /// Minimum round-trip time at that moment, microseconds; `None` before the first measurement.
    pub min_rtt_us: Option<u32>,
    /// Congestion state (`enum tcp_ca_state`) at that moment: open, disorder, cwr, recovery or
    /// loss.
    pub ca_state: &'static str,
    /// The kernel's estimate of the delivery rate at that moment, bits per second.
    pub delivery_rate_bps: u64,
    /// Segments that the connection had retransmitted by that moment.
    pub total_retrans: u64,
    /// Source of the times and windows.
    pub source: BufferSource,
    /// Whether the system time was set while the buffer was in flight. The kernel's timestamps use
    /// this clock and may then be wrong.
    pub clock_stepped: bool,
}

/// Progress of the transfer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Progress {
    /// Time since all connections were open, nanoseconds.
    pub elapsed_ns: u64,
    /// Bytes acknowledged on all connections.
    pub bytes_acked: u64,
    /// Rate of acknowledged bytes since the previous progress event, bits per second.
    pub rate_bps: u64,
    /// Total number of bytes to send; `None` without a limit on buffers or bytes.
    pub total_bytes: Option<u64>,
    /// Estimated time left, nanoseconds: to the deadline or, at the mean rate so far, to the last
    /// byte, whichever is earlier. `None` if neither is known.
    pub left_ns: Option<u64>,
}

/// A remark that affects how the figures are to be read.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Note {
    /// Number of the connection.
    pub connection: u32,
    /// The remark, in one line.
    pub text: String,
}

/// Minimum, median and maximum throughput of complete buffers, bits per second. The median is
/// accurate to 0.8 %.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ThroughputSpread {
    /// Lowest throughput, bits per second.
    pub min_bps: u64,
    /// Median throughput, bits per second.
    pub median_bps: u64,
    /// Highest throughput, bits per second.
    pub max_bps: u64,
}

/// Result of a transfer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SendSummary {
    /// Bytes acknowledged on all connections.
    pub bytes_acked: u64,
    /// Bytes written to the socket but never acknowledged, because of a failure or because `linger`
    /// expired.
    pub bytes_unacknowledged: u64,
    /// Buffers acknowledged.
    pub buffers: u64,
    /// From the first write to the last acknowledgement on any connection, nanoseconds.
    pub duration_ns: u64,
    /// `bytes_acked` × 8 / `duration_ns`, bits per second.
    pub throughput_bps: u64,
    /// Throughput of the buffers of all connections; `None` if no buffer was complete.
    pub per_buffer: Option<ThroughputSpread>,
    /// Segments retransmitted.
    pub total_retrans: u64,
    /// Whether the stop flag ended the transfer.
    pub stopped: bool,
    /// Result of each connection.
    pub connections: Vec<ConnectionSummary>,
}

/// Result of one connection.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ConnectionSummary {
    /// Number of the connection.
    pub connection: u32,
    /// The kernel's socket cookie.
    pub cookie: u64,
    /// Local address.
    pub local: SocketAddr,
    /// Address of the peer.
    pub peer: SocketAddr,
    /// The congestion control in use at the end of the connection.
    pub congestion_control: String,
    /// Bytes acknowledged.
    pub bytes_acked: u64,
    /// Bytes written to the socket but never acknowledged.
    pub bytes_unacknowledged: u64,
    /// Buffers acknowledged.
    pub buffers: u64,
    /// Acknowledged buffers whose times or windows came from `TCP_INFO` instead of kernel
    /// timestamps.
    pub buffers_by_tcp_info: u64,
    /// From the first write to the last acknowledgement, nanoseconds.
    pub duration_ns: u64,
    /// `bytes_acked` × 8 / `duration_ns`, bits per second.
    pub throughput_bps: u64,
    /// Throughput of its buffers; `None` if no buffer was complete.
    pub per_buffer: Option<ThroughputSpread>,
    /// Segments retransmitted.
    pub total_retrans: u64,
    /// Bytes retransmitted; 0 before Linux 4.19.
    pub bytes_retrans: u64,
    /// Smoothed round-trip time at the end of the connection, microseconds; `None` without a
    /// measurement.
    pub srtt_us: Option<u32>,
    /// Minimum round-trip time, microseconds; `None` without a measurement.
    pub min_rtt_us: Option<u32>,
    /// Maximum segment size, bytes.
    pub mss: u32,
    /// Time with data to send or in flight (`tcpi_busy_time`), microseconds.
    pub busy_us: u64,
    /// Part of `busy_us` during which the peer's receive window limited the connection,
    /// microseconds.
    pub rwnd_limited_us: u64,
    /// Part of `busy_us` during which the local send buffer limited the connection, microseconds.
    pub sndbuf_limited_us: u64,
}

/// Rate of `bytes` over `duration_ns`, bits per second; 0 if the duration is 0.
pub(crate) fn rate_bps(bytes: u64, duration_ns: u64) -> u64 {
    if duration_ns == 0 {
        return 0;
    }
    u64::try_from(u128::from(bytes) * 8_000_000_000 / u128::from(duration_ns)).unwrap_or(u64::MAX)
}

/// Name of a congestion state (`enum tcp_ca_state`).
pub(crate) fn ca_state_name(number: u8) -> &'static str {
    match number {
        0 => "open",
        1 => "disorder",
        2 => "cwr",
        3 => "recovery",
        4 => "loss",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_bits_per_byte() {
        // The visualizer's own example: 1 MB in 0.7 s is 11.4 Mbit/s, not the 1.4 that its printed
        // formula gives.
        assert_eq!(rate_bps(1_000_000, 700_000_000), 11_428_571);
        assert_eq!(rate_bps(1, 0), 0);
        assert_eq!(rate_bps(u64::MAX, 1), u64::MAX);
    }
}
