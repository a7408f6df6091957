//! What is known of a sender at one moment.

use yuzuri_cca::{CaState, CcaKind};

/// When, in the course of what TCP does, something was observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Moment {
    /// A segment has arrived and is not yet processed. The sender did what it could since the segment before:
    /// what it did not send then, something kept it from sending.
    #[default]
    Arrival,
    /// Any moment: the sender was asked (`TCP_INFO`), and asked again until something had changed.
    Polled,
    /// In the midst of processing a segment. The window may have room only because it is not yet used.
    Processing,
    /// The retransmission timer has expired.
    Timeout,
}

/// Why the window was reduced, where an observation tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// A loss, or a mark of congestion from the path (ECN).
    Path,
    /// The queue of the sender's own device refused a segment.
    OwnDevice,
    /// One of both without a loss (CWR), and who observes does not know which.
    Cwr,
    /// A reduction was taken back.
    Undone,
}

/// What is known of a sender at one moment. `None`: whoever observed does not know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Observation {
    /// When, microseconds of any clock that does not jump.
    pub time_us: u64,
    /// When, in the course of what TCP does.
    pub moment: Moment,
    /// The connection was established at this moment.
    pub begins: bool,
    /// State of the congestion machine until now.
    pub state: CaState,
    /// What its congestion control does with the window.
    pub cca: Option<CcaKind>,
    /// A reduction that this moment tells of.
    pub reduction: Option<Reduction>,
    /// Congestion window, segments.
    pub cwnd_segments: u32,
    /// Slow start threshold, segments; `None`: no reduction so far, infinite.
    pub ssthresh_segments: Option<u32>,
    /// Segments in flight (RFC 6675's pipe).
    pub in_flight_segments: u32,
    /// Bytes sent and not cumulatively acknowledged, also those that are SACKed or lost.
    pub outstanding_bytes: u64,
    /// Maximum segment size, bytes; 0 where unknown.
    pub mss_bytes: u32,
    /// The window that the receiver advertises, bytes.
    pub receive_window_bytes: Option<u64>,
    /// Bytes that the application has written and TCP has not sent.
    pub unsent_bytes: Option<u64>,
    /// Memory of the send queue, bytes, with the kernel's overhead (`sk_wmem_queued`).
    pub send_memory_bytes: Option<u64>,
    /// What that memory is limited to, bytes (`sk_sndbuf`).
    pub send_buffer_bytes: Option<u64>,
    /// The application waits for room in it (SOCK_NOSPACE).
    pub writer_waits: Option<bool>,
    /// The largest window that the receiver ever advertised, bytes (`max_window`).
    pub largest_window_bytes: Option<u64>,
    /// The receiver's window opened although nothing was acknowledged: what had filled it was not read
    /// before.
    pub window_updates: Option<bool>,
    /// The receiver's program reads what arrives at once: acknowledgements tell the same window, and not a
    /// smaller one.
    pub reads_at_once: Option<bool>,
    /// The RTT grows as the flight does: the path carries no more, whatever its least RTT may be.
    pub path_is_full: Option<bool>,
    /// Congestion window before the last reduction, segments, 0 before the first (`prior_cwnd`).
    pub prior_cwnd_segments: Option<u32>,
    /// For how long pacing still holds the next segment, microseconds (`tcp_wstamp_ns`).
    pub pacing_wait_us: Option<u32>,
    /// What is sent leaves at a rate of the sender's own, and who observes does not know whether pacing or
    /// the device makes it.
    pub own_rate: Option<bool>,
    /// The congestion window was full within the last round trip (`is_cwnd_limited`).
    pub cwnd_limited: Option<bool>,
    /// The bound of a sharing group holds the congestion window: its congestion control tells.
    pub at_bound: Option<bool>,
    /// Enough of what was sent still lies in the device's queue (TCP small queues, TSQ_THROTTLED).
    pub device_full: Option<bool>,
    /// Memory of what lies in the device and its queueing discipline, bytes (`sk_wmem_alloc`).
    pub device_memory_bytes: Option<u64>,
    /// Smoothed RTT, microseconds.
    pub srtt_us: Option<u32>,
    /// The least RTT of the last round trip, microseconds: a queue that stands holds every segment (as CoDel
    /// judges), while a late ACK makes single ones late.
    pub least_rtt_us: Option<u32>,
    /// Mean deviation of the RTT, microseconds.
    pub rttvar_us: u32,
    /// Minimum RTT, microseconds.
    pub min_rtt_us: Option<u32>,
    /// Pacing rate, bits per second; `None`: unlimited.
    pub pacing_rate_bps: Option<u64>,
    /// Bytes acknowledged since the connection began.
    pub acked_bytes: u64,
    /// Segments that were ever retransmitted.
    pub retransmitted_segments: u32,
}

impl Observation {
    /// Bytes sent since the connection began, as far as they are acknowledged or outstanding.
    pub fn sent_bytes(&self) -> u64 {
        self.acked_bytes.saturating_add(self.outstanding_bytes)
    }

    /// The congestion window, bytes.
    pub fn cwnd_bytes(&self) -> u64 {
        u64::from(self.cwnd_segments) * u64::from(self.mss_bytes)
    }

    /// Bytes that the congestion window has room for.
    pub fn cwnd_room_bytes(&self) -> u64 {
        let segments = self.cwnd_segments.saturating_sub(self.in_flight_segments);
        u64::from(segments) * u64::from(self.mss_bytes)
    }

    /// Whether TCP small queues hold segments back. Who does not know the kernel's mark knows what they go
    /// by: more lies in the device than the pacing rate sends in 1 ms (`sk_pacing_shift`), and more than two
    /// segments.
    pub fn device_is_full(&self) -> bool {
        self.device_full.unwrap_or_else(|| {
            let (Some(memory_bytes), Some(rate_bps)) = (self.device_memory_bytes, self.pacing_rate_bps)
            else {
                return false;
            };
            memory_bytes > (rate_bps / 8 / 1024).max(2 * u64::from(self.mss_bytes))
        })
    }

    /// Bytes that the receiver's window has room for.
    pub fn receiver_room_bytes(&self) -> Option<u64> {
        Some(self.receive_window_bytes?.saturating_sub(self.outstanding_bytes))
    }

    /// How long a queue on the path holds a segment, microseconds: by how much the RTT stands above its
    /// minimum, where that is more than its variation explains, and as much as tells a queue in RFC 9406 (an
    /// eighth of the minimum, but 4 ms to 16 ms) or as the minimum itself, and at least one segment of a
    /// window of so many is in the queue.
    pub fn standing_queue_us(&self, window_segments: u64) -> Option<u32> {
        let (srtt_us, min_rtt_us) = (self.least_rtt_us.or(self.srtt_us)?, self.min_rtt_us?);
        let queue_us = srtt_us.saturating_sub(min_rtt_us);
        let tells_us = (min_rtt_us / 8).clamp(4_000, 16_000).min(min_rtt_us);
        let segments = window_segments.saturating_mul(queue_us.into()) / u64::from(srtt_us.max(1));
        let varies = self.least_rtt_us.is_none() && u64::from(queue_us) <= 2 * u64::from(self.rttvar_us);
        (!varies && queue_us >= tells_us && segments >= 1).then_some(queue_us)
    }
}
