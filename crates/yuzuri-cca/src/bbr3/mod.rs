//! BBR version 3 (draft-ietf-ccwg-bbr; the module `tcp_bbr.c` in branch v3 of
//! github.com/google/bbr). Rates are floating-point segments per µs.
//!
//! Differences from version 1: losses bound the model. A short-term bound (`bw_lo`, `inflight_lo`)
//! is multiplied by 0.7 per round trip with losses outside probing; a long-term bound
//! (`inflight_hi`) is set when probing loses more than 2 %. Probing occurs every 2 to 3 s, or after
//! as many round trips as Reno would need with this window: REFILL, UP at 1.25, DOWN at 0.91,
//! CRUISE. Startup paces at 2.77 and also ends after six loss events above 2 % in a round. Every 5
//! s the window is reduced to half the bandwidth-delay product, instead of to four segments every
//! 10 s.
//!
//! Not implemented: ECN, PLB (protective load balancing), and the fast path for application-limited
//! senders (`bbr_run_fast_path`), which only saves CPU time.

mod model;
mod probe;

use crate::congestion_control::LostSegment;
use crate::time::{MILLISECOND, SECOND, micros_between};
use crate::{CaState, CongestionControl, CwndEvent, INITIAL_WINDOW, NO_SSTHRESH, RateSample, Window};
use probe::{AckPhase, Phase};
use rand_core::SeedableRng as _;
use rand_pcg::Pcg32;

/// Gains of Startup and Drain (`bbr_startup_pacing_gain`, `bbr_startup_cwnd_gain`,
/// `bbr_drain_gain`), in units of 1/256 as in the module.
const STARTUP_PACING_GAIN: f64 = 710.0 / 256.0;
const STARTUP_CWND_GAIN: f64 = 2.0;
const DRAIN_GAIN: f64 = 88.0 / 256.0;
/// Window as a multiple of the bandwidth-delay product (`bbr_cwnd_gain`), and during probing
/// (`bbr_bw_probe_cwnd_gain`).
const CWND_GAIN: f64 = 2.0;
const UP_CWND_GAIN: f64 = 2.25;
/// Ratio of the pacing rate to the estimated bandwidth: 1 % below it (`bbr_pacing_margin_percent`).
const PACING_MARGIN: f64 = 0.99;
/// Minimum window (`bbr_cwnd_min_target`), segments.
const MIN_CWND: u32 = 4;
/// Lifetime of the minimum RTT (`bbr_min_rtt_win_sec`), and interval at which the path is drained
/// to measure it (`bbr_probe_rtt_win_ms`).
const MIN_RTT_WINDOW: u64 = 10 * SECOND;
const PROBE_RTT_WINDOW: u64 = 5 * SECOND;
/// Duration of PROBE_RTT (`bbr_probe_rtt_mode_ms`), and its window as a fraction of the
/// bandwidth-delay product (`bbr_probe_rtt_cwnd_gain`).
const PROBE_RTT: u64 = 200 * MILLISECOND;
const PROBE_RTT_CWND_GAIN: f64 = 0.5;
/// Burst size: the pacing rate times 1/2^n s, plus 64 KiB halved for each 2^n µs of RTT
/// (`bbr_tso_rtt_shift`).
const PACING_SHIFT: u32 = 10;
const BURST_RTT_SHIFT: u32 = 9;
const BURST_BYTES: u64 = 65_536;
const MIN_BURST: u32 = 2;
/// Length of each half of the ACK aggregation filter, rounds (`bbr_extra_acked_win_rtts`), and its
/// maximum, µs.
const EXTRA_ACKED_ROUNDS: u32 = 5;
const MAX_EXTRA_ACKED_US: f64 = 100_000.0;
/// No bound (`~0U`).
const UNBOUNDED: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Startup,
    Drain,
    ProbeBw,
    ProbeRtt,
}

/// Bounds set by losses. They are saved so that a spurious recovery can be undone.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// Short-term bounds.
    bw_lo: f64,
    inflight_lo: u32,
    /// Long-term bound.
    inflight_hi: u32,
}

const NO_BOUNDS: Bounds = Bounds { bw_lo: f64::INFINITY, inflight_lo: UNBOUNDED, inflight_hi: UNBOUNDED };

/// State of BBR version 3.
#[derive(Clone, Debug)]
pub struct Bbr3 {
    random: Pcg32,
    mode: Mode,
    phase: Phase,
    prev_state: CaState,
    prior_cwnd: u32,
    pacing_gain: f64,
    cwnd_gain: f64,
    seen_rtt: bool,
    idle_restart: bool,
    /// Round counting by delivered segments.
    next_round_delivered: u64,
    round_start: bool,
    /// Maximum rate in the current probing cycle and in the previous one.
    max_bw: [f64; 2],
    bounds: Bounds,
    undo: Bounds,
    /// Maximum rate and volume delivered in the latest round.
    bw_latest: f64,
    inflight_latest: u32,
    /// Rounds that start with a loss.
    loss_round_delivered: u64,
    loss_round_start: bool,
    loss_in_round: bool,
    loss_events_in_round: u32,
    /// Detection of a bandwidth plateau.
    full_bw: f64,
    full_bw_rounds: u32,
    full_bw_now: bool,
    full_bw_reached: bool,
    min_rtt_us: Option<u64>,
    min_rtt_at_ns: u64,
    probe_rtt_min_us: Option<u64>,
    probe_rtt_min_at_ns: u64,
    probe_rtt_done_ns: Option<u64>,
    probe_rtt_round_done: bool,
    /// Probing state, see `probe.rs`.
    ack_phase: AckPhase,
    cycle_at_ns: u64,
    probe_wait_us: u64,
    rounds_since_probe: u32,
    samples_of_probe: bool,
    prev_probe_too_high: bool,
    stopped_risky_probe: bool,
    up_rounds: u32,
    up_acked: u32,
    up_per: u32,
    /// ACK aggregation filter.
    extra_acked: [u32; 2],
    extra_acked_slot: usize,
    extra_acked_rounds: u32,
    ack_epoch_at_ns: u64,
    ack_epoch_acked: u32,
}

impl Bbr3 {
    /// Creates BBR in its initial state. `seed` determines the times of probing.
    pub fn new(seed: u64) -> Bbr3 {
        Bbr3 {
            random: Pcg32::seed_from_u64(seed),
            mode: Mode::Startup,
            phase: Phase::Up,
            prev_state: CaState::Open,
            prior_cwnd: 0,
            pacing_gain: STARTUP_PACING_GAIN,
            cwnd_gain: STARTUP_CWND_GAIN,
            seen_rtt: false,
            idle_restart: false,
            next_round_delivered: 0,
            round_start: false,
            max_bw: [0.0; 2],
            bounds: NO_BOUNDS,
            undo: Bounds { bw_lo: 0.0, inflight_lo: 0, inflight_hi: 0 },
            bw_latest: 0.0,
            inflight_latest: 0,
            loss_round_delivered: 1,
            loss_round_start: false,
            loss_in_round: false,
            loss_events_in_round: 0,
            full_bw: 0.0,
            full_bw_rounds: 0,
            full_bw_now: false,
            full_bw_reached: false,
            min_rtt_us: None,
            min_rtt_at_ns: 0,
            probe_rtt_min_us: None,
            probe_rtt_min_at_ns: 0,
            probe_rtt_done_ns: None,
            probe_rtt_round_done: false,
            ack_phase: AckPhase::Init,
            cycle_at_ns: 0,
            probe_wait_us: 0,
            rounds_since_probe: 0,
            samples_of_probe: false,
            prev_probe_too_high: false,
            stopped_risky_probe: false,
            up_rounds: 0,
            up_acked: 0,
            up_per: UNBOUNDED,
            extra_acked: [0; 2],
            extra_acked_slot: 0,
            extra_acked_rounds: 0,
            ack_epoch_at_ns: 0,
            ack_epoch_acked: 0,
        }
    }

    fn max_bw(&self) -> f64 {
        self.max_bw[0].max(self.max_bw[1])
    }

    fn bw(&self) -> f64 {
        self.max_bw().min(self.bounds.bw_lo)
    }

    fn bdp(&self, rate: f64, gain: f64) -> u32 {
        self.min_rtt_us.map_or(INITIAL_WINDOW, |rtt_us| (rate * rtt_us as f64 * gain).ceil() as u32)
    }

    /// Segments per burst (`bbr_tso_segs_goal`).
    fn burst(&self, window: &Window) -> u32 {
        let halvings = self.min_rtt_us.unwrap_or(u64::MAX) >> BURST_RTT_SHIFT;
        let by_rtt = if halvings < 32 { BURST_BYTES >> halvings } else { 0 };
        let bytes = ((window.pacing_rate >> PACING_SHIFT) + by_rtt).min(BURST_BYTES - 1);
        ((bytes / u64::from(window.mss_bytes)) as u32).max(MIN_BURST)
    }

    /// `bbr_quantization_budget`: at least three bursts.
    fn quantized(&self, window: &Window, cwnd: u32) -> u32 {
        let up = self.mode == Mode::ProbeBw && self.phase == Phase::Up;
        cwnd.max(3 * self.burst(window)).max(MIN_CWND).saturating_add(if up { 2 } else { 0 })
    }

    fn inflight(&self, window: &Window, rate: f64, gain: f64) -> u32 {
        self.quantized(window, self.bdp(rate, gain))
    }

    /// `bbr_packets_in_net_at_edt`: segments in flight at the earliest departure time of the next
    /// segment.
    fn in_flight_at_departure(&self, window: &Window, in_flight: u32) -> u32 {
        let wait_us = micros_between(window.departure_ns, window.now_ns);
        let delivered = (self.bw() * wait_us as f64) as u32;
        let burst = if self.pacing_gain > 1.0 { self.burst(window) } else { 0 };
        (in_flight + burst).saturating_sub(delivered)
    }

    fn probe_rtt_cwnd(&self) -> u32 {
        self.bdp(self.bw(), PROBE_RTT_CWND_GAIN).max(MIN_CWND)
    }

    fn save_cwnd(&mut self, window: &Window) {
        self.prior_cwnd = if self.prev_state < CaState::Recovery && self.mode != Mode::ProbeRtt {
            window.cwnd
        } else {
            self.prior_cwnd.max(window.cwnd)
        };
    }

    fn start_pacing(&mut self, window: &mut Window) {
        self.seen_rtt = window.srtt_us > 0;
        let rtt_us = if self.seen_rtt { window.srtt_us } else { 1000 };
        let rate = f64::from(window.cwnd) / rtt_us as f64;
        window.pacing_rate = pacing_rate(window, rate, STARTUP_PACING_GAIN);
    }

    fn set_pacing_rate(&mut self, window: &mut Window, rate: f64, gain: f64) {
        let bytes = pacing_rate(window, rate, gain);
        if !self.seen_rtt && window.srtt_us > 0 {
            self.start_pacing(window);
        }
        if self.full_bw_reached || bytes > window.pacing_rate {
            window.pacing_rate = bytes;
        }
    }

    fn check_drain(&mut self, window: &mut Window) {
        let drained = self.inflight(window, self.max_bw(), 1.0);
        if self.mode == Mode::Startup && self.full_bw_reached {
            self.mode = Mode::Drain;
            window.ssthresh = drained;
            self.reset_congestion_signals();
        }
        if self.mode == Mode::Drain && self.in_flight_at_departure(window, window.in_flight) <= drained {
            self.mode = Mode::ProbeBw;
            self.start_down(window);
        }
    }

    /// `bbr_update_min_rtt`, including entry into and exit from `PROBE_RTT`.
    fn update_min_rtt(&mut self, window: &mut Window, sample: &RateSample) {
        let expired = window.now_ns > self.probe_rtt_min_at_ns.saturating_add(PROBE_RTT_WINDOW);
        if let Some(rtt_us) = sample.rtt_us
            && (expired || self.probe_rtt_min_us.is_none_or(|least| rtt_us < least))
        {
            self.probe_rtt_min_us = Some(rtt_us);
            self.probe_rtt_min_at_ns = window.now_ns;
        }
        let forgotten = window.now_ns > self.min_rtt_at_ns.saturating_add(MIN_RTT_WINDOW);
        let lower = match (self.probe_rtt_min_us, self.min_rtt_us) {
            (Some(probed), Some(least)) => probed <= least,
            (probed, None) => probed.is_some(),
            (None, Some(_)) => false,
        };
        if lower || forgotten {
            self.min_rtt_us = self.probe_rtt_min_us;
            self.min_rtt_at_ns = self.probe_rtt_min_at_ns;
        }
        if expired && !self.idle_restart && self.mode != Mode::ProbeRtt {
            self.mode = Mode::ProbeRtt;
            self.save_cwnd(window);
            self.probe_rtt_done_ns = None;
            self.ack_phase = AckPhase::ProbeStopping;
            self.next_round_delivered = window.delivered;
        }
        if self.mode == Mode::ProbeRtt {
            window.app_limited = (window.delivered + u64::from(window.in_flight)).max(1);
            if self.probe_rtt_done_ns.is_some() {
                self.probe_rtt_round_done |= self.round_start;
                if self.probe_rtt_round_done {
                    self.check_probe_rtt_done(window);
                }
            } else if window.in_flight <= self.probe_rtt_cwnd() {
                self.probe_rtt_done_ns = Some(window.now_ns + PROBE_RTT);
                self.probe_rtt_round_done = false;
                self.next_round_delivered = window.delivered;
            }
        }
        if sample.delivered.is_some_and(|delivered| delivered > 0) {
            self.idle_restart = false;
        }
    }

    fn check_probe_rtt_done(&mut self, window: &mut Window) {
        if self.probe_rtt_done_ns.is_none_or(|done_ns| window.now_ns <= done_ns) {
            return;
        }
        self.probe_rtt_min_at_ns = window.now_ns;
        window.cwnd = window.cwnd.max(self.prior_cwnd);
        self.reset_short_term_bounds();
        if self.full_bw_reached {
            self.mode = Mode::ProbeBw;
            self.start_down(window);
            self.start_cruise();
        } else {
            self.mode = Mode::Startup;
        }
    }

    fn update_gains(&mut self) {
        (self.pacing_gain, self.cwnd_gain) = match self.mode {
            Mode::Startup => (STARTUP_PACING_GAIN, STARTUP_CWND_GAIN),
            Mode::Drain => (DRAIN_GAIN, STARTUP_CWND_GAIN),
            Mode::ProbeBw => {
                (self.phase.pacing_gain(), if self.phase == Phase::Up { UP_CWND_GAIN } else { CWND_GAIN })
            }
            Mode::ProbeRtt => (1.0, 1.0),
        };
    }

    fn set_cwnd(&mut self, window: &mut Window, sample: &RateSample, rate: f64) {
        if sample.acked > 0 {
            let extra = f64::from(self.extra_acked[0].max(self.extra_acked[1]));
            let extra = extra.min(rate * MAX_EXTRA_ACKED_US) as u32;
            let target = self.bdp(rate, self.cwnd_gain).saturating_add(extra);
            let target = self.quantized(window, target);
            let mut cwnd = window.cwnd;
            if self.full_bw_reached {
                cwnd = (cwnd + sample.acked).min(target);
            } else if cwnd < target || cwnd < 2 * INITIAL_WINDOW {
                cwnd += sample.acked;
            }
            window.cwnd = cwnd.max(MIN_CWND);
        }
        if self.mode == Mode::ProbeRtt {
            window.cwnd = window.cwnd.min(self.probe_rtt_cwnd());
        }
        let cap = match (self.mode, self.phase) {
            (Mode::ProbeRtt, _) | (Mode::ProbeBw, Phase::Cruise) => self.with_headroom(),
            (Mode::ProbeBw, _) => self.bounds.inflight_hi,
            (Mode::Startup | Mode::Drain, _) => UNBOUNDED,
        };
        window.cwnd = window.cwnd.min(cap.min(self.bounds.inflight_lo).max(MIN_CWND));
    }
}

fn pacing_rate(window: &Window, rate: f64, gain: f64) -> u64 {
    ((rate * 1e6 * f64::from(window.mss_bytes) * gain * PACING_MARGIN) as u64).max(1)
}

impl CongestionControl for Bbr3 {
    fn name(&self) -> &'static str {
        "bbr3"
    }

    fn init(&mut self, window: &mut Window) {
        window.ssthresh = NO_SSTHRESH;
        self.next_round_delivered = window.delivered;
        self.loss_round_delivered = window.delivered + 1;
        self.min_rtt_us = window.min_rtt_us;
        self.probe_rtt_min_us = window.min_rtt_us;
        self.min_rtt_at_ns = window.now_ns;
        self.probe_rtt_min_at_ns = window.now_ns;
        self.ack_epoch_at_ns = window.now_ns;
        self.start_pacing(window);
    }

    /// `bbr_ssthresh`: saves window and bounds without a reduction.
    fn ssthresh(&mut self, window: &mut Window) -> u32 {
        self.save_cwnd(window);
        self.undo = self.bounds;
        window.ssthresh
    }

    fn cong_avoid(&mut self, _window: &mut Window, _acked: u32) {}

    fn set_state(&mut self, window: &mut Window, state: CaState) {
        if state == CaState::Loss {
            self.prev_state = CaState::Loss;
            self.reset_full_bw();
            if !self.is_probing() && self.bounds.inflight_lo == UNBOUNDED {
                self.bounds.inflight_lo = window.cwnd.max(self.prior_cwnd);
            }
        } else if self.prev_state == CaState::Loss {
            window.cwnd = window.cwnd.max(self.prior_cwnd);
        }
    }

    fn cwnd_event(&mut self, window: &mut Window, event: CwndEvent) {
        match event {
            CwndEvent::TxStart { .. } if window.app_limited > 0 => {
                self.idle_restart = true;
                self.ack_epoch_at_ns = window.now_ns;
                self.ack_epoch_acked = 0;
                if self.mode == Mode::ProbeBw {
                    self.set_pacing_rate(window, self.bw(), 1.0);
                } else if self.mode == Mode::ProbeRtt {
                    self.check_probe_rtt_done(window);
                }
            }
            // A tail loss probe repaired the loss of one segment.
            CwndEvent::ProbeRepaired => {
                let tx_in_flight = self.inflight_latest + 1;
                let lost = RateSample {
                    tx_in_flight,
                    lost: 1,
                    app_limited: window.app_limited > 0,
                    ..RateSample::default()
                };
                self.note_loss(window);
                if self.samples_of_probe && model::is_too_high(&lost) {
                    self.probed_too_high(window, &lost);
                }
            }
            _ => {}
        }
    }

    fn segment_lost(&mut self, window: &mut Window, segment: &LostSegment) {
        self.check_lost_segment(window, segment);
    }

    fn undo_cwnd(&mut self, _window: &Window) -> u32 {
        self.reset_full_bw();
        self.loss_in_round = false;
        self.bounds = Bounds {
            bw_lo: self.bounds.bw_lo.max(self.undo.bw_lo),
            inflight_lo: self.bounds.inflight_lo.max(self.undo.inflight_lo),
            inflight_hi: self.bounds.inflight_hi.max(self.undo.inflight_hi),
        };
        self.prior_cwnd
    }

    fn is_draining(&self) -> bool {
        self.mode == Mode::ProbeRtt
    }

    fn bandwidth(&self) -> Option<f64> {
        Some(self.bw())
    }

    fn controls_all(&self) -> bool {
        true
    }

    /// `bbr_main`
    fn cong_control(&mut self, window: &mut Window, sample: &RateSample) {
        self.update_round(window, sample);
        let rate = match sample.delivered {
            Some(delivered) if sample.interval_us > 0 => delivered as f64 / sample.interval_us as f64,
            _ => 0.0,
        };
        self.update_latest(window, sample, rate);
        self.update_congestion_signals(window, sample, rate);
        self.update_ack_aggregation(window, sample);
        self.check_startup_losses(window, sample);
        self.check_full_bw(sample, rate);
        self.check_drain(window);
        self.update_phase(window, sample, rate);
        self.update_min_rtt(window, sample);
        self.update_gains();
        let bw = self.bw();
        self.set_pacing_rate(window, bw, self.pacing_gain);
        self.set_cwnd(window, sample, bw);
        self.advance_latest(sample, rate);
        self.prev_state = window.state;
    }
}
