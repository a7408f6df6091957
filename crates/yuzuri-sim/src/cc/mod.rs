//! Congestion control: the window and the laws that move it.

mod bbr;
mod cubic;
mod hystart;
mod reno;

pub use bbr::Bbr;
pub use cubic::Cubic;
pub use hystart::SlowStartExit;
pub use reno::Reno;

use crate::units::{SECOND, nanos_between};
use serde::{Deserialize, Serialize};
use yuzuri_medium::Time;

/// "No slow-start threshold yet" (`TCP_INFINITE_SSTHRESH`).
pub const NO_SSTHRESH: u32 = 0x7fff_ffff;
/// Initial window in segments (RFC 6928, `TCP_INIT_CWND`).
pub const INITIAL_WINDOW: u32 = 10;

/// Which congestion control a sender uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Algorithm {
    /// CUBIC as `tcp_cubic.c` has it (RFC 9438 with Linux's constants).
    Cubic,
    /// Reno (RFC 5681, `tcp_cong.c`).
    Reno,
    /// BBR, version 1 (`tcp_bbr.c`).
    Bbr,
}

/// State of the sender (`enum tcp_ca_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CaState {
    /// Nothing unusual.
    Open,
    /// Segments arrived out of order, none is known to be lost.
    Disorder,
    /// The window is being reduced without a loss: the local queue was full, or a tail-loss probe repaired one.
    Cwr,
    /// Fast recovery.
    Recovery,
    /// After a retransmission timeout.
    Loss,
}

/// Bounds a policy sets on a window, in segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    /// Reached by growth with each acknowledgement, in state Open only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lower: Option<u32>,
    /// Growth stops here; a window above it shrinks by what is acknowledged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upper: Option<u32>,
    /// Neither window nor threshold is cut on a sign of loss (the mode of the kernel monitor's paper).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_decrease: bool,
    /// Segments leave at the pacing rate, so many at once (`min_tso_segs`), instead of whenever the window lets them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
}

/// What the laws read and write; names and units as in `struct tcp_sock`, counts in segments.
#[derive(Clone, Debug)]
pub struct Window {
    /// The present.
    pub now: Time,
    /// Ticks per second (`HZ`): the grain of CUBIC's clock.
    pub hz: u32,
    /// Payload of a full segment, bytes.
    pub mss_bytes: u32,
    /// Congestion window.
    pub cwnd: u32,
    /// Acknowledged segments that have not yet made the window grow.
    pub cwnd_cnt: u32,
    /// Slow-start threshold.
    pub ssthresh: u32,
    /// The window before the present reduction.
    pub prior_cwnd: u32,
    /// State.
    pub state: CaState,
    /// Whether the window held the sender back (RFC 7661, `is_cwnd_limited`).
    pub cwnd_limited: bool,
    /// Most segments outstanding in the last window.
    pub max_packets_out: u32,
    /// First segment not acknowledged.
    pub snd_una: u32,
    /// The segment sent next.
    pub snd_nxt: u32,
    /// Segments believed to be in the network (`tcp_packets_in_flight`).
    pub in_flight: u32,
    /// Smoothed round-trip time, µs; 0 before the first sample.
    pub srtt_us: u64,
    /// Least round-trip time, µs.
    pub min_rtt_us: Option<u64>,
    /// Pacing rate, bytes per second; 0 if not known.
    pub pacing_rate: u64,
    /// Whether segments leave at the pacing rate.
    pub paced: bool,
    /// Segments delivered.
    pub delivered: u64,
    /// When the last of them was.
    pub delivered_at: Time,
    /// Segments marked lost, in all.
    pub lost: u64,
    /// Not 0: until so many are delivered, rate samples are limited by the application.
    pub app_limited: u64,
    /// Bounds set from outside.
    pub bounds: Bounds,
}

impl Window {
    pub(crate) fn new(hz: u32, mss_bytes: u32, paced: bool) -> Window {
        Window {
            now: Time::ZERO,
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
            srtt_us: 0,
            min_rtt_us: None,
            pacing_rate: 0,
            paced,
            delivered: 0,
            delivered_at: Time::ZERO,
            lost: 0,
            app_limited: 0,
            bounds: Bounds::default(),
        }
    }

    /// Whether the window is below the threshold (`tcp_in_slow_start`).
    pub fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Whether growth is justified (`tcp_is_cwnd_limited`): the window was used, or half of it in slow start.
    pub fn is_cwnd_limited(&self) -> bool {
        self.cwnd_limited || (self.in_slow_start() && self.cwnd < 2 * self.max_packets_out)
    }

    /// The present in ticks (`tcp_jiffies32`), beginning at one second so that 0 can mean "never".
    pub fn jiffies(&self) -> u64 {
        u64::from(self.hz)
            + (u128::from(self.now.as_nanos()) * u128::from(self.hz) / u128::from(SECOND)) as u64
    }

    /// `tcp_slow_start`: grows up to the threshold and returns what is left of `acked`.
    pub fn slow_start(&mut self, acked: u32) -> u32 {
        let grown = self.cwnd.saturating_add(acked).min(self.ssthresh);
        let left = acked - (grown - self.cwnd);
        self.cwnd = grown;
        left
    }

    /// `tcp_cong_avoid_ai`: one segment for each `per` acknowledged.
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

    /// `tcp_current_ssthresh`: three quarters of the window are believed to be safe.
    pub(crate) fn current_ssthresh(&self) -> u32 {
        if matches!(self.state, CaState::Cwr | CaState::Recovery) {
            self.ssthresh
        } else {
            self.ssthresh.max((self.cwnd >> 1) + (self.cwnd >> 2))
        }
    }

    /// Nanoseconds since `earlier`.
    pub(crate) fn nanos_since(&self, earlier: Time) -> u64 {
        nanos_between(self.now, earlier)
    }
}

/// A delivery-rate sample of one acknowledgement (`struct rate_sample`, draft-cheng-iccrg-delivery-rate-estimation).
#[derive(Clone, Copy, Debug, Default)]
pub struct RateSample {
    /// Segments delivered over the interval; `None` if the sample is not valid.
    pub delivered: Option<u64>,
    /// The interval, µs.
    pub interval_us: u64,
    /// `delivered` when the sampled segment was sent.
    pub prior_delivered: u64,
    /// Segments newly acknowledged by this acknowledgement.
    pub acked: u32,
    /// Segments newly marked lost.
    pub losses: u32,
    /// In flight before this acknowledgement.
    pub prior_in_flight: u32,
    /// Round-trip time of the segment sent last among those acknowledged, µs.
    pub rtt_us: Option<u64>,
    /// Whether the application held the sender back.
    pub app_limited: bool,
}

/// A congestion-control law, called as the kernel calls its modules (`struct tcp_congestion_ops`).
pub trait CongestionControl: Send {
    /// Its name as Linux writes it.
    fn name(&self) -> &'static str;

    /// The threshold after a loss (`ssthresh`).
    fn ssthresh(&mut self, window: &mut Window) -> u32;

    /// The window grows by `acked` delivered segments (`cong_avoid`).
    fn cong_avoid(&mut self, window: &mut Window, acked: u32);

    /// Segments were acknowledged; `rtt_us` is that of the one sent last (`pkts_acked`).
    fn pkts_acked(&mut self, _window: &mut Window, _rtt_us: Option<u64>) {}

    /// The state is about to become `state` (`set_state`).
    fn set_state(&mut self, _window: &mut Window, _state: CaState) {}

    /// Sending begins with nothing in flight; the last segment was sent at `last_sent` (`CA_EVENT_TX_START`).
    fn tx_start(&mut self, _window: &mut Window, _last_sent: Option<Time>) {}

    /// The window after a reduction that turned out to be unfounded (`undo_cwnd`).
    fn undo_cwnd(&mut self, window: &Window) -> u32 {
        window.cwnd.max(window.prior_cwnd)
    }

    /// The window stands at the upper bound: growth must not be saved up for later.
    fn held(&mut self) {}

    /// Whether it sets window and pacing rate by itself in [`cong_control`](CongestionControl::cong_control), instead of `cong_avoid` and PRR.
    fn controls_all(&self) -> bool {
        false
    }

    /// After each acknowledgement, if it [controls all](CongestionControl::controls_all) (`cong_control`).
    fn cong_control(&mut self, _window: &mut Window, _sample: &RateSample) {}
}

/// `cong_avoid` under bounds: above the upper one the window shrinks by what is acknowledged, below the lower one it grows by it in state
/// Open, and between them the law rules.
pub(crate) fn cong_avoid_bounded(law: &mut dyn CongestionControl, window: &mut Window, acked: u32) {
    let upper = window.bounds.upper.map_or(u32::MAX, |upper| upper.max(2));
    let lower = window.bounds.lower.unwrap_or(0).min(upper);
    if window.cwnd > upper {
        window.cwnd = window.cwnd.saturating_sub(acked).max(upper);
        window.cwnd_cnt = 0;
        law.held();
        return;
    }
    if window.cwnd < lower && window.state == CaState::Open {
        if window.is_cwnd_limited() {
            window.cwnd = window.cwnd.saturating_add(acked).min(lower);
        }
        return;
    }
    if window.cwnd == upper {
        window.cwnd_cnt = 0;
        law.held();
        return;
    }
    law.cong_avoid(window, acked);
    if window.cwnd > upper {
        window.cwnd = upper;
    }
}

/// `ssthresh` under bounds: without decrease the law hears of the loss, and the threshold stays at the window.
pub(crate) fn ssthresh_bounded(law: &mut dyn CongestionControl, window: &mut Window) -> u32 {
    let reduced = law.ssthresh(window);
    if window.bounds.no_decrease { window.cwnd.max(2) } else { reduced }
}

/// The law `algorithm` names; `seed` is for the laws that draw lots.
pub(crate) fn make(algorithm: Algorithm, exit: SlowStartExit, seed: u64) -> Box<dyn CongestionControl> {
    match algorithm {
        Algorithm::Cubic => Box::new(Cubic::new(exit)),
        Algorithm::Reno => Box::new(Reno),
        Algorithm::Bbr => Box::new(Bbr::new(seed)),
    }
}
