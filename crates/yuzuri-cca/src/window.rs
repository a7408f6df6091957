//! The window and the other sender state that algorithms access.

use crate::CaState;
use crate::time::SECOND;

/// No slow start threshold yet (`TCP_INFINITE_SSTHRESH`).
pub const NO_SSTHRESH: u32 = 0x7fff_ffff;
/// Initial window, segments (RFC 6928, `TCP_INIT_CWND`).
pub const INITIAL_WINDOW: u32 = 10;

/// Sender state that algorithms read and write. Names and units as in `struct tcp_sock`; counts are
/// in segments.
#[derive(Clone, Debug)]
pub struct Window {
    /// Current time, ns.
    pub now_ns: u64,
    /// Ticks per second (`HZ`), the resolution of the algorithms' clocks.
    pub hz: u32,
    /// Maximum segment size, bytes.
    pub mss_bytes: u32,
    /// Congestion window.
    pub cwnd: u32,
    /// Acknowledged segments that have not yet contributed to growth.
    pub cwnd_cnt: u32,
    /// Slow-start threshold.
    pub ssthresh: u32,
    /// The window before the current reduction.
    pub prior_cwnd: u32,
    /// Congestion state.
    pub state: CaState,
    /// Whether the window limited the sender (RFC 7661, `is_cwnd_limited`).
    pub cwnd_limited: bool,
    /// Maximum number of segments outstanding in the last window.
    pub max_packets_out: u32,
    /// First unacknowledged segment.
    pub snd_una: u32,
    /// Next segment to be sent.
    pub snd_nxt: u32,
    /// Segments estimated to be in the network (`tcp_packets_in_flight`).
    pub in_flight: u32,
    /// Segments SACKed but not yet acknowledged cumulatively.
    pub sacked_out: u32,
    /// Smoothed round-trip time, µs; 0 before the first sample.
    pub srtt_us: u64,
    /// Minimum round-trip time, µs; `None` before the first sample.
    pub min_rtt_us: Option<u64>,
    /// Pacing rate, bytes per second; 0 if unknown.
    pub pacing_rate: u64,
    /// Whether segments are paced.
    pub paced: bool,
    /// Earliest departure time of the next segment under pacing, ns (`tcp_wstamp_ns`).
    pub departure_ns: u64,
    /// Segments delivered so far.
    pub delivered: u64,
    /// Delivered segments whose ACK echoed a congestion mark (`delivered_ce`, RFC 3168).
    pub delivered_ce: u64,
    /// When the last segment was delivered, ns.
    pub delivered_at_ns: u64,
    /// Whether ECN was negotiated (`TCP_ECN_OK`).
    pub ecn: bool,
    /// Set by an algorithm to request a reduction (`tcp_enter_cwr`). The driver performs it just
    /// after the call and clears the flag.
    pub cwr_wanted: bool,
    /// Segments marked lost so far.
    pub lost: u64,
    /// If not 0, rate samples are application-limited until this many segments have been delivered.
    pub app_limited: u64,
}

impl Window {
    /// The state of a new connection on a kernel with `hz` ticks per second and segments of
    /// `mss_bytes`.
    pub fn new(hz: u32, mss_bytes: u32, paced: bool) -> Window {
        Window {
            now_ns: 0,
            hz,
            mss_bytes,
            cwnd: INITIAL_WINDOW,
            cwnd_cnt: 0,
            ssthresh: NO_SSTHRESH,
            prior_cwnd: 0,
            state: CaState::Open,
            cwnd_limited: false,
            max_packets_out: 0,
            snd_una: 0,
            snd_nxt: 0,
            in_flight: 0,
            sacked_out: 0,
            srtt_us: 0,
            min_rtt_us: None,
            pacing_rate: 0,
            paced,
            departure_ns: 0,
            delivered: 0,
            delivered_ce: 0,
            delivered_at_ns: 0,
            ecn: false,
            cwr_wanted: false,
            lost: 0,
            app_limited: 0,
        }
    }

    /// Whether the window is below ssthresh (`tcp_in_slow_start`).
    pub fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Whether the window may grow (`tcp_is_cwnd_limited`): it was fully used, or more than half of
    /// it in slow start.
    pub fn is_cwnd_limited(&self) -> bool {
        self.cwnd_limited || (self.in_slow_start() && self.cwnd < 2 * self.max_packets_out)
    }

    /// Current time in ticks (`tcp_jiffies32`). The clock starts at one second, so that 0 can mean
    /// "never".
    pub fn jiffies(&self) -> u64 {
        u64::from(self.hz) + (u128::from(self.now_ns) * u128::from(self.hz) / u128::from(SECOND)) as u64
    }

    /// Converts microseconds to ticks, rounded up (`usecs_to_jiffies`).
    pub fn ticks_of_micros(&self, micros: u64) -> u64 {
        (micros * u64::from(self.hz)).div_ceil(1_000_000)
    }

    /// `tcp_slow_start`: grows the window up to ssthresh and returns the remainder of `acked`.
    pub fn slow_start(&mut self, acked: u32) -> u32 {
        let grown = self.cwnd.saturating_add(acked).min(self.ssthresh);
        let left = acked - (grown - self.cwnd);
        self.cwnd = grown;
        left
    }

    /// `tcp_cong_avoid_ai`: grows the window by one segment per `per` acknowledged segments.
    pub fn additive_increase(&mut self, per: u32, acked: u32) {
        let per = per.max(1);
        if self.cwnd_cnt >= per {
            self.cwnd_cnt = 0;
            self.cwnd += 1;
        }
        self.cwnd_cnt += acked;
        if self.cwnd_cnt >= per {
            self.cwnd += self.cwnd_cnt / per;
            self.cwnd_cnt %= per;
        }
    }

    /// `tcp_reno_cong_avoid`: slow start, then one segment per window.
    pub fn grow_as_reno(&mut self, acked: u32) {
        if !self.is_cwnd_limited() {
            return;
        }
        let left = if self.in_slow_start() { self.slow_start(acked) } else { acked };
        if left > 0 {
            self.additive_increase(self.cwnd, left);
        }
    }

    /// `tcp_reno_ssthresh`: half of the window, at least two segments.
    pub fn half(&self) -> u32 {
        (self.cwnd >> 1).max(2)
    }

    /// `tcp_current_ssthresh`: at least three quarters of the window, except during a reduction.
    pub fn current_ssthresh(&self) -> u32 {
        if matches!(self.state, CaState::Cwr | CaState::Recovery) {
            self.ssthresh
        } else {
            self.ssthresh.max((self.cwnd >> 1) + (self.cwnd >> 2))
        }
    }

    /// Nanoseconds since `earlier_ns`.
    pub fn nanos_since(&self, earlier_ns: u64) -> u64 {
        self.now_ns.saturating_sub(earlier_ns)
    }
}
