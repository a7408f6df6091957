//! BBR version 1, after `tcp_bbr.c`. Rates are floating-point segments per µs; the kernel uses
//! fixed point with 24 fraction bits.

use crate::time::{MILLISECOND, SECOND, micros_between};
use crate::{CaState, CongestionControl, CwndEvent, INITIAL_WINDOW, NO_SSTHRESH, RateSample, Window};
use rand_core::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg32;
use std::collections::VecDeque;

/// Gain of Startup: 2/ln 2 (`bbr_high_gain`).
const HIGH_GAIN: f64 = 739.0 / 256.0;
const DRAIN_GAIN: f64 = 88.0 / 256.0;
const CWND_GAIN: f64 = 2.0;
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// Length of the bandwidth filter, rounds (`bbr_bw_rtts`).
const BW_ROUNDS: u64 = 10;
const MIN_RTT_WINDOW: u64 = 10 * SECOND;
const PROBE_RTT: u64 = 200 * MILLISECOND;
const MIN_CWND: u32 = 4;
/// Rate below which one segment is scheduled at a time, bytes/s (`bbr_min_tso_rate`).
const MIN_TSO_RATE: u64 = 1_200_000 / 8;
/// Ratio of the pacing rate to the estimated bandwidth: 1 % below it (`bbr_pacing_margin_percent`).
const PACING_MARGIN: f64 = 0.99;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Startup,
    Drain,
    ProbeBw,
    ProbeRtt,
}

/// Detection of traffic policers: two intervals with the same rate and at least 20 % loss
/// (`bbr_lt_bw_sampling`).
#[derive(Clone, Copy, Debug, Default)]
struct PolicerDetection {
    sampling: bool,
    in_use: bool,
    rate: f64,
    rounds: u32,
    since_ns: u64,
    delivered: u64,
    lost: u64,
}

/// State of BBR version 1.
#[derive(Clone, Debug)]
pub struct Bbr {
    random: Pcg32,
    mode: Mode,
    prev_state: CaState,
    max_bw: VecDeque<(u64, f64)>,
    round: u64,
    round_start: bool,
    next_round_delivered: u64,
    full_bw: f64,
    full_bw_rounds: u32,
    full_bw_reached: bool,
    min_rtt_us: Option<u64>,
    min_rtt_at_ns: u64,
    probe_rtt_done_ns: Option<u64>,
    probe_rtt_round_done: bool,
    idle_restart: bool,
    cycle: usize,
    cycle_at_ns: u64,
    packet_conservation: bool,
    prior_cwnd: u32,
    pacing_gain: f64,
    cwnd_gain: f64,
    policer_detection: PolicerDetection,
    extra_acked: [f64; 2],
    extra_acked_slot: usize,
    extra_acked_rounds: u32,
    ack_epoch_at_ns: u64,
    ack_epoch_acked: u64,
    seen_rtt: bool,
}

impl Bbr {
    /// Creates BBR in its initial state. `seed` determines the phase of the gain cycle in which
    /// PROBE_BW starts.
    pub fn new(seed: u64) -> Bbr {
        Bbr {
            random: Pcg32::seed_from_u64(seed),
            mode: Mode::Startup,
            prev_state: CaState::Open,
            max_bw: VecDeque::new(),
            round: 0,
            round_start: false,
            next_round_delivered: 0,
            full_bw: 0.0,
            full_bw_rounds: 0,
            full_bw_reached: false,
            min_rtt_us: None,
            min_rtt_at_ns: 0,
            probe_rtt_done_ns: None,
            probe_rtt_round_done: false,
            idle_restart: false,
            cycle: 0,
            cycle_at_ns: 0,
            packet_conservation: false,
            prior_cwnd: 0,
            pacing_gain: HIGH_GAIN,
            cwnd_gain: HIGH_GAIN,
            policer_detection: PolicerDetection::default(),
            extra_acked: [0.0; 2],
            extra_acked_slot: 0,
            extra_acked_rounds: 0,
            ack_epoch_at_ns: 0,
            ack_epoch_acked: 0,
            seen_rtt: false,
        }
    }

    fn max_bw(&self) -> f64 {
        self.max_bw.front().map_or(0.0, |(_, rate)| *rate)
    }

    fn bw(&self) -> f64 {
        if self.policer_detection.in_use { self.policer_detection.rate } else { self.max_bw() }
    }

    fn bdp(&self, rate: f64, gain: f64) -> u32 {
        self.min_rtt_us.map_or(INITIAL_WINDOW, |rtt_us| (rate * rtt_us as f64 * gain).ceil() as u32)
    }

    /// `bbr_quantization_budget`: adds allowances for the host's queues, delayed ACKs and probing.
    fn quantized(&self, window: &Window, cwnd: u32) -> u32 {
        // Without segmentation offload a burst is one or two segments (`bbr_tso_segs_goal`).
        let burst = if window.pacing_rate < MIN_TSO_RATE { 1 } else { 2 };
        let burst = burst.max(((window.pacing_rate >> 10) as u32 / window.mss_bytes).min(127));
        let even = cwnd.saturating_add(3 * burst + 1) & !1;
        even.saturating_add(if self.mode == Mode::ProbeBw && self.cycle == 0 { 2 } else { 0 })
    }

    fn inflight(&self, window: &Window, rate: f64, gain: f64) -> u32 {
        self.quantized(window, self.bdp(rate, gain))
    }

    fn save_cwnd(&mut self, window: &Window) {
        self.prior_cwnd = if self.prev_state < CaState::Recovery && self.mode != Mode::ProbeRtt {
            window.cwnd
        } else {
            self.prior_cwnd.max(window.cwnd)
        };
    }

    fn set_pacing_rate(&mut self, window: &mut Window, rate: f64, gain: f64) {
        if !self.seen_rtt && window.srtt_us > 0 {
            self.seen_rtt = true;
            window.pacing_rate = self.initial_pacing_rate(window);
        }
        let bytes = (rate * 1e6 * f64::from(window.mss_bytes) * gain * PACING_MARGIN) as u64;
        if self.full_bw_reached || bytes > window.pacing_rate {
            window.pacing_rate = bytes;
        }
    }

    /// `bbr_init_pacing_rate_from_rtt`
    fn initial_pacing_rate(&self, window: &Window) -> u64 {
        let rtt_us = if window.srtt_us > 0 { window.srtt_us } else { 1000 };
        let rate = f64::from(window.cwnd) / rtt_us as f64;
        (rate * 1e6 * f64::from(window.mss_bytes) * HIGH_GAIN * PACING_MARGIN) as u64
    }

    fn update_bw(&mut self, window: &Window, sample: &RateSample) {
        self.round_start = false;
        let Some(delivered) = sample.delivered.filter(|_| sample.interval_us > 0) else { return };
        if sample.prior_delivered >= self.next_round_delivered {
            self.next_round_delivered = window.delivered;
            self.round += 1;
            self.round_start = true;
            self.packet_conservation = false;
        }
        self.sample_long_term(window, sample);
        let rate = delivered as f64 / sample.interval_us as f64;
        if !sample.app_limited || rate >= self.max_bw() {
            while self.max_bw.back().is_some_and(|(_, lower)| *lower <= rate) {
                self.max_bw.pop_back();
            }
            self.max_bw.push_back((self.round, rate));
        }
        while self.max_bw.len() > 1
            && self.max_bw.front().is_some_and(|(round, _)| round + BW_ROUNDS < self.round)
        {
            self.max_bw.pop_front();
        }
    }

    fn restart_long_term(&mut self, window: &Window) {
        let kept = self.policer_detection;
        self.policer_detection = PolicerDetection {
            since_ns: window.delivered_at_ns,
            delivered: window.delivered,
            lost: window.lost,
            rounds: 0,
            ..kept
        };
    }

    fn stop_long_term(&mut self, window: &Window) {
        self.policer_detection = PolicerDetection::default();
        self.restart_long_term(window);
    }

    fn sample_long_term(&mut self, window: &Window, sample: &RateSample) {
        if self.policer_detection.in_use {
            if self.mode == Mode::ProbeBw && self.round_start {
                self.policer_detection.rounds += 1;
                if self.policer_detection.rounds >= 48 {
                    self.stop_long_term(window);
                    self.enter_probe_bw(window);
                }
            }
            return;
        }
        if !self.policer_detection.sampling {
            if sample.losses == 0 {
                return;
            }
            self.restart_long_term(window);
            self.policer_detection.sampling = true;
        }
        if sample.app_limited {
            return self.stop_long_term(window);
        }
        self.policer_detection.rounds += u32::from(self.round_start);
        if self.policer_detection.rounds < 4 {
            return;
        }
        if self.policer_detection.rounds > 16 {
            return self.stop_long_term(window);
        }
        if sample.losses == 0 {
            return;
        }
        let delivered = window.delivered - self.policer_detection.delivered;
        let lost = window.lost - self.policer_detection.lost;
        if delivered == 0 || lost * 256 < 50 * delivered {
            return;
        }
        let micros = micros_between(window.delivered_at_ns, self.policer_detection.since_ns);
        if micros < 1000 {
            return;
        }
        let rate = delivered as f64 / micros as f64;
        let before = self.policer_detection.rate;
        let apart = (rate - before).abs();
        // 4 kbit/s in segments per µs.
        let close = 4000.0 / 8.0 / 1e6 / f64::from(window.mss_bytes);
        if before > 0.0 && (apart <= before / 8.0 || apart <= close) {
            self.policer_detection.rate = (rate + before) / 2.0;
            self.policer_detection.in_use = true;
            self.policer_detection.rounds = 0;
            self.pacing_gain = 1.0;
            return;
        }
        self.policer_detection.rate = rate;
        self.restart_long_term(window);
    }

    fn update_ack_aggregation(&mut self, window: &Window, sample: &RateSample) {
        if sample.acked == 0 || sample.delivered.is_none() || sample.interval_us == 0 {
            return;
        }
        if self.round_start {
            self.extra_acked_rounds += 1;
            if self.extra_acked_rounds >= 5 {
                self.extra_acked_rounds = 0;
                self.extra_acked_slot ^= 1;
                self.extra_acked[self.extra_acked_slot] = 0.0;
            }
        }
        let mut expected = self.bw() * micros_between(window.delivered_at_ns, self.ack_epoch_at_ns) as f64;
        if self.ack_epoch_acked as f64 <= expected
            || self.ack_epoch_acked + u64::from(sample.acked) >= 1 << 20
        {
            self.ack_epoch_acked = 0;
            self.ack_epoch_at_ns = window.delivered_at_ns;
            expected = 0.0;
        }
        self.ack_epoch_acked += u64::from(sample.acked);
        let extra = (self.ack_epoch_acked as f64 - expected).min(f64::from(window.cwnd));
        let slot = &mut self.extra_acked[self.extra_acked_slot];
        *slot = slot.max(extra);
    }

    fn update_cycle(&mut self, window: &Window, sample: &RateSample) {
        if self.mode != Mode::ProbeBw {
            return;
        }
        let full_length = Some(micros_between(window.delivered_at_ns, self.cycle_at_ns)) > self.min_rtt_us;
        let rate = self.max_bw();
        let next = if self.pacing_gain == 1.0 {
            full_length
        } else if self.pacing_gain > 1.0 {
            let filled = sample.prior_in_flight >= self.inflight(window, rate, self.pacing_gain);
            full_length && (sample.losses > 0 || filled)
        } else {
            full_length || sample.prior_in_flight <= self.inflight(window, rate, 1.0)
        };
        if next {
            self.cycle = (self.cycle + 1) % CYCLE.len();
            self.cycle_at_ns = window.delivered_at_ns;
        }
    }

    fn enter_probe_bw(&mut self, window: &Window) {
        self.mode = Mode::ProbeBw;
        // Any phase except the draining one.
        let drawn = ((u64::from(self.random.next_u32()) * 7) >> 32) as usize;
        self.cycle = (CYCLE.len() - drawn) % CYCLE.len();
        self.cycle_at_ns = window.delivered_at_ns;
    }

    fn check_full_bw(&mut self, sample: &RateSample) {
        if self.full_bw_reached || !self.round_start || sample.app_limited {
            return;
        }
        if self.max_bw() >= self.full_bw * 1.25 {
            self.full_bw = self.max_bw();
            self.full_bw_rounds = 0;
            return;
        }
        self.full_bw_rounds += 1;
        self.full_bw_reached = self.full_bw_rounds >= 3;
    }

    fn check_drain(&mut self, window: &mut Window) {
        let drained = self.inflight(window, self.max_bw(), 1.0);
        if self.mode == Mode::Startup && self.full_bw_reached {
            self.mode = Mode::Drain;
            window.ssthresh = drained;
        }
        if self.mode == Mode::Drain && window.in_flight <= drained {
            self.enter_probe_bw(window);
        }
    }

    fn update_min_rtt(&mut self, window: &mut Window, sample: &RateSample) {
        let expired = window.now_ns > self.min_rtt_at_ns.saturating_add(MIN_RTT_WINDOW);
        if let Some(rtt_us) = sample.rtt_us
            && (expired || self.min_rtt_us.is_none_or(|least| rtt_us < least))
        {
            self.min_rtt_us = Some(rtt_us);
            self.min_rtt_at_ns = window.now_ns;
        }
        if expired && !self.idle_restart && self.mode != Mode::ProbeRtt {
            self.save_cwnd(window);
            self.mode = Mode::ProbeRtt;
            self.probe_rtt_done_ns = None;
        }
        if self.mode == Mode::ProbeRtt {
            window.app_limited = (window.delivered + u64::from(window.in_flight)).max(1);
            if self.probe_rtt_done_ns.is_some() {
                self.probe_rtt_round_done |= self.round_start;
                if self.probe_rtt_round_done {
                    self.check_probe_rtt_done(window);
                }
            } else if window.in_flight <= MIN_CWND {
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
        if self.probe_rtt_done_ns.is_none_or(|done| window.now_ns <= done) {
            return;
        }
        self.min_rtt_at_ns = window.now_ns;
        window.cwnd = window.cwnd.max(self.prior_cwnd);
        if self.full_bw_reached {
            self.enter_probe_bw(window);
        } else {
            self.mode = Mode::Startup;
        }
    }

    fn update_gains(&mut self) {
        (self.pacing_gain, self.cwnd_gain) = match self.mode {
            Mode::Startup => (HIGH_GAIN, HIGH_GAIN),
            Mode::Drain => (DRAIN_GAIN, HIGH_GAIN),
            Mode::ProbeBw => (if self.policer_detection.in_use { 1.0 } else { CYCLE[self.cycle] }, CWND_GAIN),
            Mode::ProbeRtt => (1.0, 1.0),
        };
    }

    /// `bbr_set_cwnd_to_recover_or_restore`. Returns the window and whether packet conservation
    /// applies.
    fn recover_or_restore(&mut self, window: &Window, sample: &RateSample) -> (u32, bool) {
        let mut cwnd = window.cwnd;
        if sample.losses > 0 {
            cwnd = cwnd.saturating_sub(sample.losses).max(1);
        }
        let (before, state) = (self.prev_state, window.state);
        if state == CaState::Recovery && before != CaState::Recovery {
            self.packet_conservation = true;
            self.next_round_delivered = window.delivered;
            cwnd = window.in_flight + sample.acked;
        } else if before >= CaState::Recovery && state < CaState::Recovery {
            cwnd = cwnd.max(self.prior_cwnd);
            self.packet_conservation = false;
        }
        self.prev_state = state;
        if self.packet_conservation {
            return (cwnd.max(window.in_flight + sample.acked), true);
        }
        (cwnd, false)
    }

    fn set_cwnd(&mut self, window: &mut Window, sample: &RateSample, rate: f64) {
        if sample.acked > 0 {
            let (mut cwnd, conserved) = self.recover_or_restore(window, sample);
            if !conserved {
                let mut target = self.bdp(rate, self.cwnd_gain);
                if self.full_bw_reached {
                    let extra = self.extra_acked[0].max(self.extra_acked[1]);
                    target = target.saturating_add(extra.min(rate * 100_000.0) as u32);
                }
                let target = self.quantized(window, target);
                if self.full_bw_reached {
                    cwnd = (cwnd + sample.acked).min(target);
                } else if cwnd < target || window.delivered < u64::from(INITIAL_WINDOW) {
                    cwnd += sample.acked;
                }
                cwnd = cwnd.max(MIN_CWND);
            }
            window.cwnd = cwnd;
        }
        if self.mode == Mode::ProbeRtt {
            window.cwnd = window.cwnd.min(MIN_CWND);
        }
    }
}

impl CongestionControl for Bbr {
    fn name(&self) -> &'static str {
        "bbr"
    }

    /// `bbr_ssthresh`: saves the window without a reduction.
    fn ssthresh(&mut self, window: &mut Window) -> u32 {
        self.save_cwnd(window);
        window.ssthresh
    }

    fn cong_avoid(&mut self, _window: &mut Window, _acked: u32) {}

    fn set_state(&mut self, window: &mut Window, state: CaState) {
        if state == CaState::Loss {
            self.prev_state = CaState::Loss;
            self.full_bw = 0.0;
            self.round_start = true;
            self.sample_long_term(window, &RateSample { losses: 1, ..RateSample::default() });
        }
    }

    /// `bbr_init`
    fn init(&mut self, window: &mut Window) {
        window.ssthresh = NO_SSTHRESH;
        window.pacing_rate = self.initial_pacing_rate(window);
        self.seen_rtt = window.srtt_us > 0;
        self.min_rtt_us = window.min_rtt_us;
        self.min_rtt_at_ns = window.now_ns;
        self.cycle_at_ns = window.now_ns;
        self.ack_epoch_at_ns = window.now_ns;
        self.stop_long_term(window);
    }

    /// `bbr_cwnd_event`
    fn cwnd_event(&mut self, window: &mut Window, event: CwndEvent) {
        if !matches!(event, CwndEvent::TxStart { .. }) || window.app_limited == 0 {
            return;
        }
        self.idle_restart = true;
        self.ack_epoch_at_ns = window.now_ns;
        self.ack_epoch_acked = 0;
        if self.mode == Mode::ProbeBw {
            self.set_pacing_rate(window, self.bw(), 1.0);
        } else if self.mode == Mode::ProbeRtt {
            self.check_probe_rtt_done(window);
        }
    }

    fn undo_cwnd(&mut self, window: &Window) -> u32 {
        self.full_bw = 0.0;
        self.full_bw_rounds = 0;
        self.stop_long_term(window);
        window.cwnd
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

    fn cong_control(&mut self, window: &mut Window, sample: &RateSample) {
        self.update_bw(window, sample);
        self.update_ack_aggregation(window, sample);
        self.update_cycle(window, sample);
        self.check_full_bw(sample);
        self.check_drain(window);
        self.update_min_rtt(window, sample);
        self.update_gains();
        let rate = self.bw();
        self.set_pacing_rate(window, rate, self.pacing_gain);
        self.set_cwnd(window, sample, rate);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_draining_phase_is_never_the_first() {
        let window = Window::new(250, 1448, true);
        let mut bbr = Bbr::new(1);
        let mut seen = [false; 8];
        for _ in 0..200 {
            bbr.enter_probe_bw(&window);
            seen[bbr.cycle] = true;
        }
        assert_eq!(seen, [true, false, true, true, true, true, true, true]);
    }

    #[test]
    fn the_bandwidth_filter_expires_after_ten_rounds() {
        let mut bbr = Bbr::new(1);
        let mut window = Window::new(250, 1448, true);
        let sample = |delivered, prior| RateSample {
            delivered: Some(delivered),
            interval_us: 1000,
            prior_delivered: prior,
            ..RateSample::default()
        };
        window.delivered = 1;
        bbr.update_bw(&window, &sample(100, 0));
        for round in 1..=11_u64 {
            assert_eq!(bbr.max_bw(), 0.1, "round {round}");
            window.delivered = round + 1;
            bbr.update_bw(&window, &sample(10, round));
        }
        assert_eq!(bbr.max_bw(), 0.01);
    }
}
