//! What a transfer tells while it runs. Each event is one JSON line of `--json`, its kind under `type`. Fields and types are added, not
//! changed: who reads the lines passes over what he does not know.

use crate::FailureKind;
use serde::Serialize;
use std::net::SocketAddr;

/// Something the sender has to tell.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum SendEvent {
    /// A connection was opened.
    Connected(Connected),
    /// All bytes of a buffer were acknowledged.
    Buffer(Buffer),
    /// How far the transfer is.
    Progress(Progress),
    /// Something the reader of the figures should know.
    Note(Note),
    /// The transfer is over, also after an error once connections were open.
    Summary(SendSummary),
    /// Something beside the transfer does not work; the transfer goes on. [`send`](crate::send) itself tells none: whoever records
    /// or shares beside it does.
    Warning {
        /// What does not work.
        kind: WarningKind,
        /// Why, in one line.
        message: String,
    },
    /// How the transfer gave way to others on one interface, told at the end by whoever shares beside it.
    Shared(Shared),
    /// The transfer did not take place or ended early. The same error is returned by [`send`](crate::send).
    Failed {
        /// Which sort of failure.
        kind: FailureKind,
        /// The error in one line.
        message: String,
    },
}

/// What does not work beside a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WarningKind {
    /// The recording could not be begun, or lacks something. Told once.
    Recording,
    /// The transfer does not give way, or not any more.
    Sharing,
}

/// How a transfer gave way to others on one interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Shared {
    /// Its name.
    pub interface: String,
    /// The most other devices that there were at a time.
    pub others: u64,
    /// For how long it was shared, nanoseconds.
    pub duration_ns: u64,
    /// For how much of that a connection was bounded, nanoseconds.
    pub bounded_ns: u64,
    /// Messages that came.
    pub messages: u64,
    /// Those of them that were believed.
    pub messages_believed: u64,
}

/// A connection that was opened.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Connected {
    /// Its number, from 0.
    pub connection: u32,
    /// The kernel's socket cookie: the flow's id in recordings.
    pub cookie: u64,
    /// This end.
    pub local: SocketAddr,
    /// The other end.
    pub peer: SocketAddr,
    /// The congestion control in use.
    pub congestion_control: String,
    /// Where the times and windows of its buffers come from.
    pub source: BufferSource,
}

/// Where the times and windows of a buffer come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BufferSource {
    /// The kernel stamped the buffer's last packet as it was sent and as it was acknowledged.
    Timestamps,
    /// `TCP_INFO` was polled: times are late by up to the polling interval, and windows as old.
    TcpInfo,
}

impl BufferSource {
    /// The word used in reports.
    pub fn name(self) -> &'static str {
        match self {
            BufferSource::Timestamps => "timestamps",
            BufferSource::TcpInfo => "tcp-info",
        }
    }
}

/// One buffer, from its first write to its last acknowledgement. Times are `CLOCK_MONOTONIC`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Buffer {
    /// Number of the connection.
    pub connection: u32,
    /// Number of the buffer on its connection, from 0.
    pub index: u64,
    /// Its bytes.
    pub bytes: u64,
    /// Whether it is as long as it was meant to be; `false` where the time was over or the stop flag was set while it was
    /// being written.
    pub complete: bool,
    /// When its first byte was given to the kernel, nanoseconds.
    pub first_write_mono_ns: u64,
    /// The same, nanoseconds since the Unix epoch.
    pub first_write_unix_ns: i64,
    /// When TCP sent its last packet (handed it to the device's queue) for the first time, nanoseconds; `None` where that was
    /// not seen.
    pub sent_mono_ns: Option<u64>,
    /// When the device's driver took that packet, nanoseconds; `None` for drivers that do not say.
    pub wire_mono_ns: Option<u64>,
    /// When its last byte was acknowledged, nanoseconds.
    pub acked_mono_ns: u64,
    /// `bytes` × 8 / (last acknowledgement − first write), bits per second: the throughput of the visualizer.
    pub throughput_bps: u64,
    /// What the whole connection had acknowledged between the same two moments, bits per second.
    ///
    /// While a buffer is under way, the end of the one before it and the beginning of the one after it are too, so
    /// that one buffer's own throughput is less than what the path carried: by one round trip's worth. This is
    /// what it carried. With `wait_ack` both are the same.
    pub carried_bps: u64,
    /// Congestion window when its last packet was sent, segments.
    pub cwnd: u32,
    /// Slow start threshold at that moment, segments; `None` before the first reduction.
    pub ssthresh: Option<u32>,
    /// Smoothed round-trip time at that moment, microseconds; `None` before the first measurement.
    pub srtt_us: Option<u32>,
    /// Minimum round-trip time at that moment, microseconds; `None` before the first measurement.
    pub min_rtt_us: Option<u32>,
    /// State of the congestion machine at that moment: open, disorder, cwr, recovery or loss.
    pub ca_state: &'static str,
    /// The kernel's estimate of the delivery rate at that moment, bits per second.
    pub delivery_rate_bps: u64,
    /// Segments the connection had retransmitted until then.
    pub total_retrans: u64,
    /// Where times and windows come from.
    pub source: BufferSource,
    /// Whether somebody set the system's time while the buffer was under way: the kernel stamps in that time, so that
    /// the stamps may be off.
    pub clock_stepped: bool,
}

/// How far the transfer is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Progress {
    /// Since all connections were open, nanoseconds.
    pub elapsed_ns: u64,
    /// Bytes acknowledged on all connections.
    pub bytes_acked: u64,
    /// Rate of the acknowledged bytes since the last progress, bits per second.
    pub rate_bps: u64,
    /// Bytes the transfer will send, where it was given a number.
    pub total_bytes: Option<u64>,
    /// Time left: to the deadline, or at the mean rate so far to the last byte, whichever is earlier; `None`
    /// where neither is known.
    pub left_ns: Option<u64>,
}

/// Something the reader of the figures should know.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Note {
    /// Number of the connection.
    pub connection: u32,
    /// In one line.
    pub text: String,
}

/// Minimum, median and maximum of the throughput of complete buffers, bits per second. The median is within 0.8 %.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ThroughputSpread {
    /// The least.
    pub min_bps: u64,
    /// The middle.
    pub median_bps: u64,
    /// The greatest.
    pub max_bps: u64,
}

/// What the transfer did.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SendSummary {
    /// Bytes acknowledged on all connections.
    pub bytes_acked: u64,
    /// Bytes given to the kernel and never acknowledged, because of a failure or because the time to linger was over.
    pub bytes_unacknowledged: u64,
    /// Buffers acknowledged.
    pub buffers: u64,
    /// From the first write to the last acknowledgement on any connection, nanoseconds.
    pub duration_ns: u64,
    /// `bytes_acked` × 8 / `duration_ns`, bits per second.
    pub throughput_bps: u64,
    /// Over the buffers of all connections; `None` without complete buffers.
    pub per_buffer: Option<ThroughputSpread>,
    /// Segments retransmitted.
    pub total_retrans: u64,
    /// Whether the stop flag ended it.
    pub stopped: bool,
    /// By connection.
    pub connections: Vec<ConnectionSummary>,
}

/// What one connection did.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ConnectionSummary {
    /// Its number.
    pub connection: u32,
    /// The kernel's socket cookie.
    pub cookie: u64,
    /// This end.
    pub local: SocketAddr,
    /// The other end.
    pub peer: SocketAddr,
    /// The congestion control in use at the end.
    pub congestion_control: String,
    /// Bytes acknowledged.
    pub bytes_acked: u64,
    /// Bytes given to the kernel and never acknowledged.
    pub bytes_unacknowledged: u64,
    /// Buffers acknowledged.
    pub buffers: u64,
    /// Of these, buffers for which `TCP_INFO` had to stand in for stamps.
    pub buffers_by_tcp_info: u64,
    /// From the first write to the last acknowledgement, nanoseconds.
    pub duration_ns: u64,
    /// `bytes_acked` × 8 / `duration_ns`, bits per second.
    pub throughput_bps: u64,
    /// Over its buffers; `None` without complete buffers.
    pub per_buffer: Option<ThroughputSpread>,
    /// Segments retransmitted.
    pub total_retrans: u64,
    /// Bytes retransmitted; 0 before Linux 4.19.
    pub bytes_retrans: u64,
    /// Smoothed round-trip time at the end, microseconds; `None` without a measurement.
    pub srtt_us: Option<u32>,
    /// Minimum round-trip time, microseconds; `None` without a measurement.
    pub min_rtt_us: Option<u32>,
    /// Maximum segment size, bytes.
    pub mss: u32,
    /// Time with data to send or in flight, microseconds.
    pub busy_us: u64,
    /// Part of it in which the other end's window was the limit, microseconds.
    pub rwnd_limited_us: u64,
    /// Part of it in which this end's socket buffer was the limit, microseconds.
    pub sndbuf_limited_us: u64,
}

/// Bits per second of `bytes` in `duration_ns`; 0 for no time.
pub(crate) fn rate_bps(bytes: u64, duration_ns: u64) -> u64 {
    if duration_ns == 0 {
        return 0;
    }
    u64::try_from(u128::from(bytes) * 8_000_000_000 / u128::from(duration_ns)).unwrap_or(u64::MAX)
}

/// The word of a state of the congestion machine.
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
        // The visualizer's own case: 1 MB in 0.7 s is 11.4 Mbit/s, not the 1.4 its printed formula gives.
        assert_eq!(rate_bps(1_000_000, 700_000_000), 11_428_571);
        assert_eq!(rate_bps(1, 0), 0);
        assert_eq!(rate_bps(u64::MAX, 1), u64::MAX);
    }
}
