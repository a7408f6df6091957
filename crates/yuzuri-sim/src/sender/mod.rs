//! The sending half of a connection as a state machine: Linux's TCP between the application and the
//! interface queue.
//!
//! The driver passes in ACKs ([`on_segment`](Sender::on_segment)), time
//! ([`on_timer`](Sender::on_timer)) and data ([`write`](Sender::write)). After each call it takes
//! segments with [`poll_transmit`](Sender::poll_transmit) until none is left.

mod ack;
mod state;
mod timer;
mod transmit;

pub use transmit::LocalQueue;

use crate::cc::{
    Algorithm, Bounds, CaState, CongestionControl, Cubic, CubicConstants, SlowStartExit, Timestamps, Window,
};
use crate::recovery::prr::Prr;
use crate::recovery::rack::Rack;
use crate::recovery::rtt::{RttEstimator, TimeoutRule};
use crate::recovery::scoreboard::Scoreboard;
use crate::segment::{Block, Kind, MSS_BYTES, SACK_BLOCKS, Segment};
use crate::units::{MICROSECOND, MILLISECOND, micros_between};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use timer::Timer;
use yuzuri_netmodel::Time;

/// Configuration of a sender; the default is Linux 6.x on a device whose interface has a FIFO or
/// fair queue.
#[derive(Clone, Debug, PartialEq)]
pub struct SenderConfig {
    /// The congestion control algorithm.
    pub algorithm: Algorithm,
    /// Use CUBIC with these constants instead of `algorithm`.
    pub cubic: Option<CubicConstants>,
    /// How CUBIC exits slow start.
    pub slow_start_exit: SlowStartExit,
    /// Pace with the `fq` queueing discipline. BBR always paces.
    pub paced_by_fq: bool,
    /// Maximum unacknowledged payload, bytes: the smaller of send buffer and receive window.
    pub window_bytes: u64,
    /// Kernel ticks per second: 250 (Debian), 1000 (Ubuntu since 24.10), 300 (Android).
    pub hz: u32,
    /// TCP small queues: the local queue may hold what the pacing rate sends in 1/2^n s
    /// (`sk_pacing_shift`: 10; with mac80211, 7 or 8). Absent (the default): no limit, as on
    /// devices that release packets at once (TAP, in the laboratory). The default is what was
    /// validated against the kernel.
    pub small_queue_shift: Option<u32>,
    /// RACK and tail-loss probes (RFC 8985). If false, losses are detected by SACK only (RFC 6675)
    /// and lost retransmissions by RTO only (`net.ipv4.tcp_recovery` and `tcp_early_retrans` of 0;
    /// ns-3).
    pub rack: bool,
    /// Undo spurious reductions: Eifel (RFC 3522), F-RTO (RFC 5682), DSACK (RFC 2883). If false, as
    /// in ns-3, every spurious RTO reduces the window and retransmits segments that had arrived.
    pub undo: bool,
    /// How the RTO is computed from RTT samples.
    pub timeout: TimeoutRule,
    /// An RTO during recovery reduces ssthresh again, and the algorithm keeps its state (ns-3). If
    /// false, as in Linux, ssthresh is reduced once per window of data (`tcp_enter_loss`), and the
    /// algorithm is reset (`bictcp_state`).
    pub timeout_reduces_again: bool,
    /// Shrink a window that the application does not use, and restart from the initial window after
    /// idle periods (`tcp_slow_start_after_idle`; the goal of RFC 7661).
    pub slow_start_after_idle: bool,
}

impl Default for SenderConfig {
    fn default() -> SenderConfig {
        SenderConfig {
            algorithm: Algorithm::Cubic,
            cubic: None,
            slow_start_exit: SlowStartExit::Hystart,
            paced_by_fq: false,
            window_bytes: 4 << 20,
            hz: 250,
            small_queue_shift: None,
            rack: true,
            undo: true,
            timeout: TimeoutRule::Linux,
            timeout_reduces_again: false,
            slow_start_after_idle: true,
        }
    }
}

/// Counters of a sender since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SenderCounts {
    /// Data segments sent, including retransmissions.
    pub segments: u64,
    /// Retransmissions.
    pub retransmissions: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Fast recoveries.
    pub recoveries: u64,
    /// Tail-loss probes.
    pub probes: u64,
    /// Retransmissions found lost by RACK.
    pub lost_retransmissions: u64,
    /// Reductions undone.
    pub undone: u64,
    /// Times that the local queue was full.
    pub local_congestion: u64,
    /// Segments marked lost.
    pub lost: u64,
}

impl SenderCounts {
    fn with(self, other: SenderCounts, both: impl Fn(u64, u64) -> u64) -> SenderCounts {
        SenderCounts {
            segments: both(self.segments, other.segments),
            retransmissions: both(self.retransmissions, other.retransmissions),
            timeouts: both(self.timeouts, other.timeouts),
            recoveries: both(self.recoveries, other.recoveries),
            probes: both(self.probes, other.probes),
            lost_retransmissions: both(self.lost_retransmissions, other.lost_retransmissions),
            undone: both(self.undone, other.undone),
            local_congestion: both(self.local_congestion, other.local_congestion),
            lost: both(self.lost, other.lost),
        }
    }
}

impl std::ops::Add for SenderCounts {
    type Output = SenderCounts;
    fn add(self, other: SenderCounts) -> SenderCounts {
        self.with(other, |a, b| a + b)
    }
}

impl std::ops::Sub for SenderCounts {
    type Output = SenderCounts;
    fn sub(self, other: SenderCounts) -> SenderCounts {
        self.with(other, |a, b| a - b)
    }
}

/// What may be transmitted after an ACK (`REXMIT_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Retransmit {
    No,
    Lost,
    /// F-RTO: send new data first.
    NewFirst,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Handshake {
    Closed,
    SynDue,
    SynSent,
    Established,
}

/// The data that the application has written.
#[derive(Clone, Debug, Default)]
struct Stream {
    /// Segments written.
    end: u32,
    /// The application writes without limit.
    endless: bool,
    /// Unacknowledged segments that are not full: number and payload.
    short: VecDeque<(u32, u16)>,
}

impl Stream {
    fn payload(&self, number: u32) -> u16 {
        let at = self.short.partition_point(|(n, _)| *n < number);
        self.short.get(at).filter(|(n, _)| *n == number).map_or(MSS_BYTES, |(_, bytes)| *bytes)
    }

    /// Payload from segment `number` to the last one written, bytes.
    fn bytes_from(&self, number: u32) -> u64 {
        let segments = u64::from(self.end.saturating_sub(number));
        let at = self.short.partition_point(|(n, _)| *n < number);
        let missing = self.short.iter().skip(at).map(|(_, bytes)| u64::from(MSS_BYTES - bytes)).sum::<u64>();
        segments * u64::from(MSS_BYTES) - missing
    }
}

/// The sending half of a connection.
pub struct Sender {
    connection: u32,
    config: SenderConfig,
    window: Window,
    bounds: Bounds,
    cca: Box<dyn CongestionControl>,
    scoreboard: Scoreboard,
    rack: Rack,
    rtt: RttEstimator,
    prr: Prr,
    /// Current time.
    now: Time,
    /// Time of the last delivery (`delivered_mstamp`).
    delivered_at: Time,
    handshake: Handshake,
    syn_sent_at: Time,
    stream: Stream,
    counts: SenderCounts,
    retransmit: Retransmit,
    timer: Option<(Time, Timer)>,
    /// Earliest departure time of the next segment by pacing.
    departure: Time,
    /// Segments that may still leave in the current paced burst.
    burst_left: u32,
    held_by_pacing: bool,
    /// `high_seq`: the current state ends when this segment is acknowledged.
    high_seq: u32,
    prior_ssthresh: u32,
    undo_marker: Option<u32>,
    undo_retransmissions: i64,
    /// Send time of the first retransmission in the current episode (`retrans_stamp`).
    retrans_stamp: Option<Time>,
    frto: bool,
    /// Consecutive RTOs without progress (`icsk_retransmits`).
    consecutive_timeouts: u32,
    /// A tail-loss probe is outstanding: the segment that ends its episode, and whether the probe
    /// was a retransmission (`tlp_high_seq`).
    tlp_high_seq: Option<(u32, bool)>,
    /// A tail-loss probe is due, and whether it is a retransmission.
    tlp_due: Option<bool>,
    /// `cwnd_usage_seq`, `snd_cwnd_used`, `snd_cwnd_stamp`: for window validation.
    cwnd_usage_seq: u32,
    cwnd_used: u32,
    cwnd_stamp: Time,
    /// Segments were sent since the queue was last found empty or blocked (`sent_pkts` in
    /// `tcp_write_xmit`).
    sent_pkts: bool,
    /// ACKs and timers handled so far (the send epoch).
    events_handled: u64,
    last_sent: Option<Time>,
    first_sent_at: Time,
    /// Timestamp of the newest segment from the peer (`ts_recent`).
    ts_recent: Time,
    /// Offset of the peer's timestamp clock, ms: random, as Linux chooses it per pair of hosts
    /// (`secure_tcp_ts_off`).
    ts_offset_ms: u32,
    /// Right edge of the receive window: one past the last segment that the receiver has room for
    /// (`tcp_wnd_end`).
    wnd_end: u32,
    acked_bytes: u64,
    last_rtt_us: Option<u64>,
    /// Timestamps of the last ACK (`rcv_tsval`, `rcv_tsecr`).
    last_timestamps: Option<Timestamps>,
    /// SACK blocks of the last ACK (`recv_sack_cache`).
    recv_sack_cache: [Block; SACK_BLOCKS],
}

impl Sender {
    /// Creates the sender of half-connection `connection`; `seed` is for randomized algorithms.
    pub fn new(connection: u32, config: SenderConfig, seed: u64) -> Sender {
        let cca: Box<dyn CongestionControl> = match config.cubic {
            Some(constants) => Box::new(Cubic::with(constants, config.slow_start_exit)),
            None => config.algorithm.make(config.slow_start_exit, seed),
        };
        let paced = config.paced_by_fq || cca.controls_all();
        Sender {
            connection,
            window: Window::new(config.hz.max(1), MSS_BYTES.into(), paced),
            bounds: Bounds::default(),
            cca,
            scoreboard: Scoreboard::default(),
            rack: Rack::new(),
            rtt: RttEstimator::new(config.timeout),
            prr: Prr::default(),
            now: Time::ZERO,
            delivered_at: Time::ZERO,
            handshake: Handshake::Closed,
            syn_sent_at: Time::ZERO,
            stream: Stream::default(),
            counts: SenderCounts::default(),
            retransmit: Retransmit::No,
            timer: None,
            departure: Time::ZERO,
            burst_left: 0,
            held_by_pacing: false,
            high_seq: 0,
            prior_ssthresh: 0,
            undo_marker: None,
            undo_retransmissions: -1,
            retrans_stamp: None,
            frto: false,
            consecutive_timeouts: 0,
            tlp_high_seq: None,
            tlp_due: None,
            cwnd_usage_seq: 0,
            cwnd_used: 0,
            cwnd_stamp: Time::ZERO,
            sent_pkts: false,
            events_handled: 0,
            last_sent: None,
            first_sent_at: Time::ZERO,
            ts_recent: Time::ZERO,
            ts_offset_ms: (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32,
            wnd_end: 0,
            acked_bytes: 0,
            last_rtt_us: None,
            last_timestamps: None,
            recv_sack_cache: [Block::default(); SACK_BLOCKS],
            config,
        }
    }

    /// Opens the connection: the next segment is a SYN.
    pub fn open(&mut self) {
        if self.handshake == Handshake::Closed {
            self.handshake = Handshake::SynDue;
        }
    }

    /// The application writes `bytes`. The last segment of a write may be short; writes do not
    /// share segments (as with `TCP_NODELAY`).
    pub fn write(&mut self, bytes: u64) {
        let mss = u64::from(MSS_BYTES);
        let segments = u32::try_from(bytes.div_ceil(mss)).unwrap_or(u32::MAX - self.stream.end);
        self.stream.end += segments;
        let rest = (bytes % mss) as u16;
        if rest > 0 {
            self.stream.short.push_back((self.stream.end - 1, rest));
        }
    }

    /// Starts or stops unlimited writing.
    pub fn write_endlessly(&mut self, endless: bool) {
        if self.stream.endless && !endless {
            // Segments already sent remain; unsent ones are withdrawn.
            self.stream.end = self.scoreboard.snd_nxt().max(self.stream.end);
        }
        self.stream.endless = endless;
    }

    /// Sets the window bounds, effective from the next ACK.
    pub fn set_bounds(&mut self, bounds: Bounds) {
        self.bounds = bounds;
        self.window.paced = self.config.paced_by_fq || self.cca.controls_all() || bounds.burst.is_some();
    }

    /// The window and the other state visible to algorithms.
    pub fn window(&self) -> &Window {
        &self.window
    }

    /// Name of the algorithm as in Linux.
    pub fn algorithm(&self) -> &'static str {
        self.cca.name()
    }

    /// Timestamps of the last ACK; `None` before the first.
    pub fn timestamps(&self) -> Option<Timestamps> {
        self.last_timestamps
    }

    /// Counters since the start.
    pub fn counts(&self) -> &SenderCounts {
        &self.counts
    }

    /// Payload acknowledged cumulatively, bytes.
    pub fn acked_bytes(&self) -> u64 {
        self.acked_bytes
    }

    /// Segments outstanding (`packets_out`).
    pub fn outstanding(&self) -> u32 {
        self.scoreboard.packets_out()
    }

    /// Bytes that the application has written and TCP has not sent (`write_seq - snd_nxt`).
    ///
    /// An endless writer fills [`SenderConfig::window_bytes`]. Once that much is unacknowledged,
    /// the number is unknown: a full send buffer has no unsent data, a full receive window has.
    pub fn unsent_bytes(&self) -> Option<u64> {
        if !self.stream.endless {
            return Some(self.stream.bytes_from(self.scoreboard.snd_nxt()));
        }
        let mss = u64::from(MSS_BYTES);
        let room =
            (self.config.window_bytes / mss).max(1).saturating_sub(self.scoreboard.packets_out().into());
        (room > 0).then_some(room * mss)
    }

    /// Whether the congestion window is at the upper bound, or above one that was lowered; `None`
    /// without an upper bound.
    pub fn is_at_upper_bound(&self) -> Option<bool> {
        Some(self.window.cwnd >= self.bounds.effective_upper(self.cca.controls_all())?)
    }

    /// Segments marked lost (`lost_out`).
    pub fn lost_out(&self) -> u32 {
        self.scoreboard.lost_out
    }

    /// Retransmitted segments outstanding (`retrans_out`).
    pub fn retrans_out(&self) -> u32 {
        self.scoreboard.retrans_out
    }

    /// Mean deviation of the RTT, µs (`mdev_us`).
    pub fn rttvar_us(&self) -> u64 {
        self.rtt.rttvar_us()
    }

    /// The receiver's window, bytes (`snd_wnd`); `None` where the receiver's window never limits.
    pub fn snd_wnd_bytes(&self) -> Option<u64> {
        let window = self.wnd_end.saturating_sub(self.scoreboard.snd_una());
        (self.wnd_end < u32::MAX).then_some(u64::from(window) * u64::from(MSS_BYTES))
    }

    /// Whether the connection is established.
    pub fn is_established(&self) -> bool {
        self.handshake == Handshake::Established
    }

    /// Whether all written data has been acknowledged.
    pub fn is_finished(&self) -> bool {
        !self.stream.endless && self.scoreboard.snd_una() >= self.stream.end
    }

    /// Takes the RTT sample of the last ACK, µs.
    pub fn take_rtt_us(&mut self) -> Option<u64> {
        self.last_rtt_us.take()
    }

    /// Whether reordering has been observed (`reord_seen`); RACK then waits longer.
    pub fn reordering_seen(&self) -> bool {
        self.rack.reordering_seen
    }

    /// The current RTO, µs.
    pub fn rto_us(&self) -> u64 {
        self.rtt.rto_us()
    }

    /// Processes a segment from the peer: [`Kind::SynAck`] or [`Kind::Ack`].
    pub fn on_segment(&mut self, now: Time, segment: &Segment) {
        self.set_now(now);
        self.events_handled += 1;
        self.ts_recent = segment.sent_at;
        self.wnd_end = self.wnd_end.max(segment.number.saturating_add(segment.window));
        match (segment.kind, self.handshake) {
            (Kind::SynAck, Handshake::SynSent) => self.establish(now),
            (Kind::Ack, Handshake::Established) => self.on_ack(now, segment),
            _ => {}
        }
    }

    fn establish(&mut self, now: Time) {
        self.handshake = Handshake::Established;
        self.timer = None;
        // A retransmitted SYN gives no sample, because it is unknown which SYN was answered.
        if self.consecutive_timeouts == 0 {
            let rtt_us = micros_between(now, self.syn_sent_at).max(1);
            self.rtt.sample(rtt_us, 0, 0);
            self.window.min_rtt_us = Some(rtt_us);
            self.window.srtt_us = self.rtt.srtt_us();
        }
        self.consecutive_timeouts = 0;
        self.cwnd_stamp = now;
        // The peer is assumed to negotiate ECN (tcp_ecn of 1 or 2).
        self.window.ecn = self.config.cubic.is_none() && self.config.algorithm.facts().needs_ecn;
        self.cca.init(&mut self.window);
        self.update_pacing_rate();
    }

    fn set_now(&mut self, now: Time) {
        self.now = now;
        self.window.now_ns = now.as_nanos();
    }

    fn sync_window(&mut self) {
        self.window.snd_una = self.scoreboard.snd_una();
        self.window.snd_nxt = self.scoreboard.snd_nxt();
        self.window.in_flight = self.scoreboard.in_flight();
        self.window.sacked_out = self.scoreboard.sacked_out;
    }

    fn set_state(&mut self, state: CaState) {
        self.cca.set_state(&mut self.window, state);
        self.window.state = state;
    }

    /// `tcp_update_pacing_rate`
    fn update_pacing_rate(&mut self) {
        if self.cca.controls_all() {
            return;
        }
        let window = &mut self.window;
        let percent = if window.cwnd < window.ssthresh / 2 { 200 } else { 120 };
        let amount = u64::from(window.cwnd.max(self.scoreboard.packets_out())) * u64::from(window.mss_bytes);
        window.pacing_rate = (amount * percent * 10_000).checked_div(window.srtt_us).unwrap_or(0);
    }

    /// RTT of a retransmitted segment, from timestamps in whole ms (`tcp_rtt_tsopt_us`).
    fn rtt_by_timestamps_us(now: Time, tsecr: Time) -> u64 {
        let ms = (now.as_nanos() / MILLISECOND).saturating_sub(tsecr.as_nanos() / MILLISECOND);
        ms.max(1) * MILLISECOND / MICROSECOND
    }

    /// Compares timestamps in ms, as on the wire.
    fn tsecr_before(tsecr: Time, stamp: Time) -> bool {
        tsecr.as_nanos() / MILLISECOND < stamp.as_nanos() / MILLISECOND
    }
}
