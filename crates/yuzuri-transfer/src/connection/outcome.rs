//! How a connection ends, and its summary.

use super::Connection;
use crate::clock::mono_ns;
use crate::events::{ConnectionSummary, ThroughputSpread, rate_bps};
use crate::ledger::Polled;
use crate::sys;
use crate::throughput_histogram::RateHistogram;
use std::io;
use std::time::Duration;

/// How a connection ended.
pub(crate) struct Outcome {
    pub summary: ConnectionSummary,
    pub first_write_mono_ns: Option<u64>,
    pub last_ack_mono_ns: Option<u64>,
    pub failure: Option<Failure>,
}

/// Why a connection ended early.
pub(crate) enum Failure {
    Closed { source: io::Error, peer_text: Option<String> },
    Stalled { silent_for: Duration, window_closed: bool },
    Network(io::Error),
}

impl Connection<'_> {
    pub(super) fn close(mut self, failure: Option<Failure>) -> Outcome {
        // Final reading: the kernel keeps its counters and the timestamps after a reset.
        let info = sys::tcp_info(&self.socket).unwrap_or_default();
        let polled = Polled { info, mono_ns: mono_ns(), sent: None, acked: self.acked_in(&info) };
        let _ = self.read_stamps();
        let finished = self.ledger.poll(&polled, &self.clock);
        self.finish(finished);
        let acked = self.ledger.acked();
        let congestion_control = sys::congestion_control(&self.socket)
            .ok()
            .filter(|name| !name.is_empty())
            .unwrap_or_else(|| self.connected.congestion_control.clone());
        if acked < self.written {
            // The data is abandoned. Closing with a reset discards it; otherwise the kernel would
            // continue to send it.
            let _ = self.socket.set_linger(Some(Duration::ZERO));
        } else {
            // Closing a socket with unread input sends a reset.
            while self.input_open && sys::discard(&self.socket, 1 << 20).is_ok_and(|count| count > 0) {}
            let _ = self.socket.shutdown(std::net::Shutdown::Write);
        }
        let duration_ns = match (self.first_write_mono_ns, self.ledger.last_ack_mono_ns()) {
            (Some(first), Some(last)) => last.saturating_sub(first),
            _ => 0,
        };
        let summary = ConnectionSummary {
            connection: self.number,
            cookie: self.connected.cookie,
            local: self.connected.local,
            peer: self.connected.peer,
            congestion_control,
            bytes_acked: acked,
            bytes_unacknowledged: self.written - acked,
            buffers: self.buffers,
            buffers_by_tcp_info: self.buffers_by_tcp_info,
            duration_ns,
            throughput_bps: rate_bps(acked, duration_ns),
            per_buffer: throughput_spread(&self.throughput_histogram),
            total_retrans: info.total_retrans.into(),
            bytes_retrans: info.bytes_retrans,
            srtt_us: Some(info.srtt_us).filter(|&us| us > 0),
            min_rtt_us: Some(info.min_rtt_us).filter(|&us| us > 0 && us < u32::MAX),
            mss: info.mss,
            busy_us: info.busy_us,
            rwnd_limited_us: info.rwnd_limited_us,
            sndbuf_limited_us: info.sndbuf_limited_us,
        };
        Outcome {
            summary,
            first_write_mono_ns: self.first_write_mono_ns,
            last_ack_mono_ns: self.ledger.last_ack_mono_ns(),
            failure,
        }
    }
}

/// Converts the spread to the type used in reports.
pub(crate) fn throughput_spread(throughput_histogram: &RateHistogram) -> Option<ThroughputSpread> {
    let (min_bps, median_bps, max_bps) = throughput_histogram.min_median_max()?;
    Some(ThroughputSpread { min_bps, median_bps, max_bps })
}
