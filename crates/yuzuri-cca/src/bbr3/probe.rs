//! Cycle of bandwidth probing: DOWN, CRUISE, REFILL, UP.

use super::{Bbr3, Mode, UNBOUNDED};
use crate::time::micros_between;
use crate::{RateSample, Window};
use rand_core::Rng as _;

/// Wait before the next probe: minimum and random part, µs (`bbr_bw_probe_base_us`,
/// `bbr_bw_probe_rand_us`).
const WAIT_US: u64 = 2_000_000;
const PROBE_WAIT_RANDOM_US: u64 = 1_000_000;
/// Alternative wait: as many rounds as Reno would need with this window, up to a maximum
/// (`bbr_bw_probe_max_rounds`), minus a random part (`bbr_bw_probe_rand_rounds`).
const WAIT_ROUNDS: u32 = 63;
const PROBE_WAIT_RANDOM_ROUNDS: u64 = 2;
/// Maximum number of doublings of the growth in UP.
const MAX_UP_ROUNDS: u32 = 30;

/// Phases of `PROBE_BW`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Up,
    Down,
    Cruise,
    Refill,
}

impl Phase {
    /// `bbr_pacing_gain`, in units of 1/256 as in the module.
    pub(super) fn pacing_gain(self) -> f64 {
        match self {
            Phase::Up => 1.25,
            Phase::Down => 232.0 / 256.0,
            Phase::Cruise | Phase::Refill => 1.0,
        }
    }
}

/// Which part of a probe the current ACKs reflect (`bbr_ack_phase`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AckPhase {
    Init,
    Refilling,
    ProbeStarting,
    ProbeFeedback,
    ProbeStopping,
}

impl Bbr3 {
    pub(super) fn is_probing(&self) -> bool {
        match self.mode {
            Mode::Startup => true,
            Mode::ProbeBw => matches!(self.phase, Phase::Refill | Phase::Up),
            Mode::Drain | Mode::ProbeRtt => false,
        }
    }

    fn draw(&mut self, below: u64) -> u64 {
        (u64::from(self.random.next_u32()) * below) >> 32
    }

    pub(super) fn start_down(&mut self, window: &Window) {
        self.reset_congestion_signals();
        self.up_per = UNBOUNDED;
        self.rounds_since_probe = self.draw(PROBE_WAIT_RANDOM_ROUNDS) as u32;
        self.probe_wait_us = WAIT_US + self.draw(PROBE_WAIT_RANDOM_US);
        self.cycle_at_ns = window.now_ns;
        self.ack_phase = AckPhase::ProbeStopping;
        self.next_round_delivered = window.delivered;
        self.phase = Phase::Down;
    }

    pub(super) fn start_cruise(&mut self) {
        if self.bounds.inflight_lo != UNBOUNDED {
            self.bounds.inflight_lo = self.bounds.inflight_lo.min(self.bounds.inflight_hi);
        }
        self.phase = Phase::Cruise;
    }

    fn start_refill(&mut self, window: &Window) {
        self.reset_short_term_bounds();
        self.up_rounds = 0;
        self.up_acked = 0;
        self.stopped_risky_probe = false;
        self.ack_phase = AckPhase::Refilling;
        self.next_round_delivered = window.delivered;
        self.phase = Phase::Refill;
    }

    fn start_up(&mut self, window: &Window, rate: f64) {
        self.ack_phase = AckPhase::ProbeStarting;
        self.next_round_delivered = window.delivered;
        self.cycle_at_ns = window.now_ns;
        self.reset_full_bw();
        self.full_bw = rate;
        self.phase = Phase::Up;
        self.raise_slope(window);
    }

    /// Doubles the growth per round of UP.
    fn raise_slope(&mut self, window: &Window) {
        let growth = 1 << self.up_rounds;
        self.up_rounds = (self.up_rounds + 1).min(MAX_UP_ROUNDS);
        self.up_per = (window.cwnd / growth).max(1);
    }

    /// `bbr_probe_inflight_hi_upward`
    fn raise_inflight_hi(&mut self, window: &Window, sample: &RateSample) {
        if !window.cwnd_limited || window.cwnd < self.bounds.inflight_hi {
            return;
        }
        self.up_acked += sample.acked;
        if self.up_acked >= self.up_per {
            let more = self.up_acked / self.up_per;
            self.up_acked -= more * self.up_per;
            self.bounds.inflight_hi = self.bounds.inflight_hi.saturating_add(more);
        }
        if self.round_start {
            self.raise_slope(window);
        }
    }

    /// `bbr_adapt_upper_bounds`. Returns true if it changed the phase.
    fn adapt_long_term_bound(&mut self, window: &Window, sample: &RateSample) -> bool {
        if self.ack_phase == AckPhase::ProbeStarting && self.round_start {
            self.ack_phase = AckPhase::ProbeFeedback;
        }
        if self.ack_phase == AckPhase::ProbeStopping && self.round_start {
            self.samples_of_probe = false;
            self.ack_phase = AckPhase::Init;
            if self.mode == Mode::ProbeBw {
                if !sample.app_limited && self.max_bw[1] > 0.0 {
                    self.max_bw = [self.max_bw[1], 0.0];
                }
                if self.stopped_risky_probe && !self.prev_probe_too_high {
                    // The probe reached the old bound without excessive loss: probe again and
                    // beyond it.
                    self.start_refill(window);
                    return true;
                }
            }
        }
        if super::model::is_too_high(sample) {
            if self.samples_of_probe {
                self.probed_too_high(window, sample);
            }
        } else if self.bounds.inflight_hi != UNBOUNDED {
            self.bounds.inflight_hi = self.bounds.inflight_hi.max(sample.tx_in_flight);
            if self.mode == Mode::ProbeBw && self.phase == Phase::Up {
                self.raise_inflight_hi(window, sample);
            }
        }
        false
    }

    /// `bbr_check_time_to_probe_bw`
    fn is_time_to_probe(&self, window: &Window) -> bool {
        micros_between(window.now_ns, self.cycle_at_ns) > self.probe_wait_us
            || self.rounds_since_probe >= self.target_inflight(window).min(WAIT_ROUNDS)
    }

    /// `bbr_update_cycle_phase`
    pub(super) fn update_phase(&mut self, window: &Window, sample: &RateSample, rate: f64) {
        if !self.full_bw_reached || self.adapt_long_term_bound(window, sample) || self.mode != Mode::ProbeBw {
            return;
        }
        let in_flight = self.in_flight_at_departure(window, sample.prior_in_flight);
        match self.phase {
            Phase::Cruise => {
                if self.is_time_to_probe(window) {
                    self.start_refill(window);
                }
            }
            Phase::Refill => {
                if self.round_start {
                    self.samples_of_probe = true;
                    self.start_up(window, rate);
                }
            }
            Phase::Up => {
                let risky = self.prev_probe_too_high && in_flight >= self.bounds.inflight_hi;
                if risky {
                    self.stopped_risky_probe = true;
                } else if window.cwnd_limited && window.cwnd >= self.bounds.inflight_hi {
                    // `inflight_hi` limits the rate, not the path.
                    self.reset_full_bw();
                    self.full_bw = rate;
                }
                if risky || self.full_bw_now {
                    self.prev_probe_too_high = false;
                    self.start_down(window);
                }
            }
            Phase::Down => {
                if self.is_time_to_probe(window) {
                    self.start_refill(window);
                } else if in_flight <= self.with_headroom()
                    && in_flight <= self.inflight(window, self.max_bw(), 1.0)
                {
                    self.start_cruise();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_come_every_two_to_three_seconds() {
        let window = Window::new(250, 1448, true);
        let mut bbr = Bbr3::new(3);
        let waits: Vec<u64> = (0..100)
            .map(|_| {
                bbr.start_down(&window);
                assert!(bbr.rounds_since_probe < 2);
                bbr.probe_wait_us
            })
            .collect();
        assert!(waits.iter().all(|wait| (2_000_000..3_000_000).contains(wait)));
        assert!(waits.iter().max() > waits.iter().min());
    }

    #[test]
    fn probing_up_adds_one_then_two_then_four_per_window() {
        let mut w = Window::new(250, 1448, true);
        (w.cwnd, w.cwnd_limited) = (100, true);
        let mut bbr = Bbr3::new(1);
        bbr.bounds.inflight_hi = 100;
        bbr.start_up(&w, 1.0);
        let mut grown = Vec::new();
        for _ in 0..3 {
            let before = bbr.bounds.inflight_hi;
            for n in 0..100 {
                bbr.round_start = n == 99;
                w.cwnd = bbr.bounds.inflight_hi;
                bbr.raise_inflight_hi(&w, &RateSample { acked: 1, ..RateSample::default() });
            }
            grown.push(bbr.bounds.inflight_hi - before);
        }
        assert_eq!(grown, [1, 2, 4]);
    }
}
