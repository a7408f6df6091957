//! What an observer knows about a sender at one moment.

use yuzuri_cca::{CaState, CcaKind};

/// The least number of segments that TCP passes to the device at a time, if it has as many
/// (`tcp_min_tso_segs`).
const MIN_TSO_SEGMENTS: u64 = 2;
/// The most that TCP passes to the device at a time (`sk_gso_max_size`: GSO_LEGACY_MAX_SIZE without
/// MAX_TCP_HEADER and one byte).
const MAX_GSO_BYTES: u64 = 65_536 - 321;
/// The part of it on short paths halves with each 512 µs of the minimum RTT (`tcp_tso_rtt_log`).
const TSO_RTT_LOG: u32 = 9;

/// When, within TCP's processing, the observation was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Moment {
    /// A segment has arrived and is not processed yet. Since the previous segment, the sender has
    /// sent all it could: something kept it from sending the rest.
    #[default]
    Arrival,
    /// Any moment: the sender was polled (`TCP_INFO`), repeatedly until something had changed.
    Polled,
    /// During the processing of a segment. The window may have room only because it is not used
    /// yet.
    Processing,
    /// The retransmission timer has expired.
    Timeout,
    /// The end of a round trip, reconstructed from packets: as with an arrival, what the sender
    /// could send is sent. Something was outstanding all the time since the previous observation.
    RoundEnd,
}

/// The cause of a reduction, if the observation shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// A loss, or a mark of congestion from the path (ECN).
    Path,
    /// The queue of the sender's own device refused a segment.
    OwnDevice,
    /// CWR without a loss: ECN or the device's own queue. The observer does not know which.
    Cwr,
    /// A reduction was undone.
    Undone,
}

/// What an observer knows about a sender at one moment. `None`: the observer does not know the
/// value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Observation {
    /// The time, microseconds of any clock that does not jump.
    pub time_us: u64,
    /// The moment within TCP's processing.
    pub moment: Moment,
    /// The connection was established at this moment.
    pub begins: bool,
    /// Congestion state until now.
    pub state: CaState,
    /// The kind of its congestion control algorithm.
    pub cca: Option<CcaKind>,
    /// A reduction reported at this moment.
    pub reduction: Option<Reduction>,
    /// Congestion window, segments.
    pub cwnd_segments: u32,
    /// Slow start threshold, segments; `None`: no reduction so far, infinite.
    pub ssthresh_segments: Option<u32>,
    /// Segments in flight (RFC 6675's pipe).
    pub in_flight_segments: u32,
    /// Bytes sent and not cumulatively acknowledged, including SACKed and lost ones.
    pub outstanding_bytes: u64,
    /// Maximum segment size, bytes; 0 where unknown.
    pub mss_bytes: u32,
    /// The window that the receiver advertises, bytes.
    pub receive_window_bytes: Option<u64>,
    /// Bytes that the application has written and TCP has not sent.
    pub unsent_bytes: Option<u64>,
    /// Memory of the send queue, bytes, with the kernel's overhead (`sk_wmem_queued`).
    pub send_memory_bytes: Option<u64>,
    /// The limit of that memory, bytes (`sk_sndbuf`).
    pub send_buffer_bytes: Option<u64>,
    /// The application waits for room in the send buffer (SOCK_NOSPACE).
    pub writer_waits: Option<bool>,
    /// The largest window that the receiver ever advertised, bytes (`max_window`).
    pub largest_window_bytes: Option<u64>,
    /// The receiver's window opened without an acknowledgement: the data that had filled it was
    /// unread before.
    pub window_updates: Option<bool>,
    /// The receiver's program reads immediately: acknowledgements advertise the same window, not a
    /// smaller one.
    pub reads_at_once: Option<bool>,
    /// Acknowledgements may come late: they wait for the receiver's program, or in a queue.
    pub answers_late: Option<bool>,
    /// The RTT grows with the data in flight: the path carries no more, whatever its minimum RTT
    /// is.
    pub path_is_full: Option<bool>,
    /// Losses came later, at a rate at which they already occurred at this time: see
    /// [`came_before`](crate::came_before).
    pub losses_later: Option<bool>,
    /// Congestion window before the last reduction, segments, 0 before the first (`prior_cwnd`).
    pub prior_cwnd_segments: Option<u32>,
    /// For how long pacing still delays the next segment, microseconds (`tcp_wstamp_ns`).
    pub pacing_wait_us: Option<u32>,
    /// The data leaves at a rate of the sender's own; the observer does not know whether pacing or
    /// the device determines it.
    pub own_rate: Option<bool>,
    /// The congestion window was full within the last round trip (`is_cwnd_limited`).
    pub cwnd_limited: Option<bool>,
    /// The bound of a sharing group holds the congestion window, as reported by its congestion
    /// control.
    pub at_bound: Option<bool>,
    /// Enough of the data sent is still in the device's queue (TCP small queues, TSQ_THROTTLED).
    pub device_full: Option<bool>,
    /// Memory of the segments in the device and its queueing discipline, bytes (`sk_wmem_alloc`).
    pub device_memory_bytes: Option<u64>,
    /// Smoothed RTT, microseconds.
    pub srtt_us: Option<u32>,
    /// The least RTT of the last round trip, microseconds: a standing queue delays every segment
    /// (as CoDel assumes), while late ACKs affect single ones.
    pub round_min_rtt_us: Option<u32>,
    /// Mean deviation of the RTT, microseconds.
    pub rttvar_us: u32,
    /// Minimum RTT, microseconds.
    pub min_rtt_us: Option<u32>,
    /// Pacing rate, bits per second; `None`: unlimited.
    pub pacing_rate_bps: Option<u64>,
    /// Bytes acknowledged since the connection began.
    pub acked_bytes: u64,
    /// Segments retransmitted so far.
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

    /// Room in the congestion window, bytes.
    pub fn cwnd_room_bytes(&self) -> u64 {
        let segments = self.cwnd_segments.saturating_sub(self.in_flight_segments);
        u64::from(segments) * u64::from(self.mss_bytes)
    }

    /// Whether TCP small queues hold segments back. An observer without the kernel's mark applies
    /// its criterion (`tcp_small_queue_check`): the device holds more than the pacing rate sends in
    /// 1 ms (`sk_pacing_shift`), and more than two of the segments that TCP passes to it. `None`:
    /// possibly, since the size of these is not known.
    pub fn device_is_full(&self) -> Option<bool> {
        if self.device_full.is_some() {
            return self.device_full;
        }
        let (Some(memory_bytes), Some(rate_bps)) = (self.device_memory_bytes, self.pacing_rate_bps) else {
            return Some(false);
        };
        let paced_bytes = rate_bps / 8 / 1024;
        let [least_bytes, most_bytes] = self.tso_bytes(paced_bytes).map(|bytes| paced_bytes.max(2 * bytes));
        match memory_bytes {
            _ if memory_bytes > most_bytes => Some(true),
            _ if memory_bytes > least_bytes => None,
            _ => Some(false),
        }
    }

    /// How much TCP passes to the device at a time, least and most (`tcp_tso_autosize`). Since
    /// Linux 5.18 it is more on short paths. `paced_bytes`: what the pacing rate sends in 1 ms.
    fn tso_bytes(&self, paced_bytes: u64) -> [u64; 2] {
        let mss_bytes = u64::from(self.mss_bytes.max(1));
        let halvings = self.min_rtt_us.map_or(u32::MAX, |min_rtt_us| min_rtt_us >> TSO_RTT_LOG);
        let by_rtt_bytes = MAX_GSO_BYTES.checked_shr(halvings).unwrap_or(0);
        let autosize_bytes = (paced_bytes + by_rtt_bytes).min(MAX_GSO_BYTES);
        [1, autosize_bytes / mss_bytes].map(|segments| segments.max(MIN_TSO_SEGMENTS) * mss_bytes)
    }

    /// Room in the receiver's window, bytes.
    pub fn receiver_room_bytes(&self) -> Option<u64> {
        Some(self.receive_window_bytes?.saturating_sub(self.outstanding_bytes))
    }

    /// The delay of a standing queue on the path, microseconds: the RTT above its minimum. It
    /// counts as a queue if it exceeds the RTT's variation, and is at least RFC 9406's threshold
    /// (an eighth of the minimum, within 4 ms to 16 ms) or the minimum itself, and at least one
    /// segment of a window of `window_segments` is in the queue.
    pub fn standing_queue_us(&self, window_segments: u64) -> Option<u32> {
        let (srtt_us, min_rtt_us) = (self.round_min_rtt_us.or(self.srtt_us)?, self.min_rtt_us?);
        let queue_us = srtt_us.saturating_sub(min_rtt_us);
        let significant_us = significant_queue_us(min_rtt_us);
        let segments = window_segments.saturating_mul(queue_us.into()) / u64::from(srtt_us.max(1));
        let varies = self.round_min_rtt_us.is_none() && u64::from(queue_us) <= 2 * u64::from(self.rttvar_us);
        (!varies && queue_us >= significant_us && segments >= 1).then_some(queue_us)
    }

    /// Whether acknowledgements come later than the path needs, on average: they wait in a queue,
    /// or for the receiver's program.
    pub fn answers_wait(&self) -> bool {
        let (Some(srtt_us), Some(min_rtt_us)) = (self.srtt_us, self.min_rtt_us) else { return false };
        srtt_us.saturating_sub(min_rtt_us) >= significant_queue_us(min_rtt_us)
    }
}

/// The least delay that counts as a queue: RFC 9406's threshold (an eighth of the minimum RTT,
/// within 4 ms to 16 ms), or the minimum RTT itself.
pub fn significant_queue_us(min_rtt_us: u32) -> u32 {
    (min_rtt_us / 8).clamp(4_000, 16_000).min(min_rtt_us)
}
