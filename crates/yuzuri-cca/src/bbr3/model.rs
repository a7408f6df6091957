//! BBR's model of the path: rates, losses and the bounds they set.

use super::{Bbr3, EXTRA_ACKED_ROUNDS, MIN_CWND, Mode, NO_BOUNDS, UNBOUNDED};
use crate::congestion_control::LostSegment;
use crate::time::micros_between;
use crate::{CaState, RateSample, Window};

/// Loss ratio above which in-flight data is too high (`bbr_loss_thresh`), in units of 1/256 as in
/// the module.
const LOSS_THRESHOLD_256: u64 = 256 * 2 / 100;
/// Factor by which losses reduce a bound: 1 - `bbr_beta`, in units of 1/256.
const LOSS_BETA_256: u64 = 256 - 256 * 30 / 100;
/// Fraction of `inflight_hi` that stays unused outside probing (`bbr_inflight_headroom`), in units
/// of 1/256.
const HEADROOM_256: u64 = 256 * 15 / 100;
/// ACKs with losses in one round that end Startup (`bbr_full_loss_cnt`).
const STARTUP_LOSSES: u32 = 6;
/// Growth that counts as an increase of bandwidth (`bbr_full_bw_thresh`), and rounds without it
/// after which the pipe is full (`bbr_full_bw_cnt`).
const FULL_BW_GROWTH: f64 = 1.25;
const FULL_BW_ROUNDS: u32 = 3;
/// Maximum length of an ACK aggregation epoch, segments.
const MAX_ACK_EPOCH: u32 = 1 << 20;

/// Whether the losses exceed the tolerance for the data in flight (`bbr_is_inflight_too_high`).
pub(super) fn is_too_high(sample: &RateSample) -> bool {
    let tolerable = (u64::from(sample.tx_in_flight) * LOSS_THRESHOLD_256) >> 8;
    sample.lost > 0 && sample.tx_in_flight > 0 && sample.lost > tolerable
}

/// Data in flight at which the loss ratio exceeded the threshold, if the loss of this segment
/// caused that (`bbr_inflight_hi_from_lost_skb`).
fn in_flight_at_threshold(tx_in_flight: u32, lost: u64) -> u32 {
    let (before, lost_before) = (u64::from(tx_in_flight.saturating_sub(1)), lost.saturating_sub(1));
    let budget = (before * LOSS_THRESHOLD_256 + 255) >> 8;
    let prefix = (budget.saturating_sub(lost_before) << 8) / (256 - LOSS_THRESHOLD_256);
    (before + prefix) as u32
}

impl Bbr3 {
    pub(super) fn update_round(&mut self, window: &Window, sample: &RateSample) {
        self.round_start = sample.delivered.is_some()
            && sample.interval_us > 0
            && sample.prior_delivered >= self.next_round_delivered;
        if self.round_start {
            self.next_round_delivered = window.delivered;
            self.rounds_since_probe = (self.rounds_since_probe + 1).min(255);
        }
    }

    /// `bbr_update_latest_delivery_signals`
    pub(super) fn update_latest(&mut self, window: &Window, sample: &RateSample, rate: f64) {
        self.loss_round_start = false;
        let Some(delivered) = valid(sample) else { return };
        self.bw_latest = self.bw_latest.max(rate);
        self.inflight_latest = self.inflight_latest.max(delivered);
        if sample.prior_delivered >= self.loss_round_delivered {
            self.loss_round_delivered = window.delivered;
            self.loss_round_start = true;
        }
    }

    /// `bbr_advance_latest_delivery_signals`
    pub(super) fn advance_latest(&mut self, sample: &RateSample, rate: f64) {
        if self.loss_round_start {
            self.bw_latest = rate;
            self.inflight_latest = sample.delivered.unwrap_or(0) as u32;
        }
    }

    /// `bbr_update_congestion_signals`
    pub(super) fn update_congestion_signals(&mut self, window: &Window, sample: &RateSample, rate: f64) {
        if valid(sample).is_none() {
            return;
        }
        if !sample.app_limited || rate >= self.max_bw() {
            self.max_bw[1] = self.max_bw[1].max(rate);
        }
        self.loss_in_round |= sample.losses > 0;
        if self.loss_round_start {
            self.adapt_short_term_bounds(window);
            self.loss_in_round = false;
        }
    }

    /// `bbr_adapt_lower_bounds`: reacts to losses outside probing.
    fn adapt_short_term_bounds(&mut self, window: &Window) {
        if self.is_probing() || !self.loss_in_round {
            return;
        }
        if self.bounds.bw_lo.is_infinite() {
            self.bounds.bw_lo = self.max_bw();
        }
        if self.bounds.inflight_lo == UNBOUNDED {
            self.bounds.inflight_lo = window.cwnd;
        }
        let reduced = (u64::from(self.bounds.inflight_lo) * LOSS_BETA_256) >> 8;
        self.bounds.bw_lo = self.bw_latest.max(self.bounds.bw_lo * LOSS_BETA_256 as f64 / 256.0);
        self.bounds.inflight_lo = self.inflight_latest.max(reduced as u32);
    }

    pub(super) fn reset_short_term_bounds(&mut self) {
        self.bounds.bw_lo = NO_BOUNDS.bw_lo;
        self.bounds.inflight_lo = NO_BOUNDS.inflight_lo;
    }

    pub(super) fn reset_congestion_signals(&mut self) {
        self.loss_in_round = false;
        self.bw_latest = 0.0;
        self.inflight_latest = 0;
    }

    pub(super) fn reset_full_bw(&mut self) {
        self.full_bw = 0.0;
        self.full_bw_rounds = 0;
        self.full_bw_now = false;
    }

    /// `bbr_check_full_bw_reached`: the rate has not grown by a quarter for three rounds.
    pub(super) fn check_full_bw(&mut self, sample: &RateSample, rate: f64) {
        if self.full_bw_now || sample.app_limited {
            return;
        }
        if rate >= self.full_bw * FULL_BW_GROWTH {
            self.reset_full_bw();
            self.full_bw = rate;
            return;
        }
        if self.round_start {
            self.full_bw_rounds += 1;
            self.full_bw_now = self.full_bw_rounds >= FULL_BW_ROUNDS;
            self.full_bw_reached |= self.full_bw_now;
        }
    }

    /// `bbr_check_loss_too_high_in_startup`
    pub(super) fn check_startup_losses(&mut self, window: &Window, sample: &RateSample) {
        if self.full_bw_reached {
            return;
        }
        self.loss_events_in_round += u32::from(sample.losses > 0);
        if !self.loss_round_start {
            return;
        }
        if window.state == CaState::Recovery
            && self.loss_events_in_round >= STARTUP_LOSSES
            && is_too_high(sample)
        {
            self.full_bw_reached = true;
            self.bounds.inflight_hi = self.inflight(window, self.max_bw(), 1.0).max(self.inflight_latest);
        } else {
            self.loss_events_in_round = 0;
        }
    }

    /// `bbr_update_ack_aggregation`
    pub(super) fn update_ack_aggregation(&mut self, window: &Window, sample: &RateSample) {
        if valid(sample).is_none() {
            return;
        }
        if self.round_start {
            self.extra_acked_rounds += 1;
            if self.extra_acked_rounds >= if self.full_bw_reached { EXTRA_ACKED_ROUNDS } else { 1 } {
                self.extra_acked_rounds = 0;
                self.extra_acked_slot ^= 1;
                self.extra_acked[self.extra_acked_slot] = 0;
            }
        }
        let epoch_us = micros_between(window.delivered_at_ns, self.ack_epoch_at_ns);
        let mut expected = (self.bw() * epoch_us as f64) as u32;
        if self.ack_epoch_acked <= expected || self.ack_epoch_acked + sample.acked >= MAX_ACK_EPOCH {
            self.ack_epoch_acked = 0;
            self.ack_epoch_at_ns = window.delivered_at_ns;
            expected = 0;
        }
        self.ack_epoch_acked += sample.acked;
        let slot = &mut self.extra_acked[self.extra_acked_slot];
        *slot = (*slot).max((self.ack_epoch_acked - expected).min(window.cwnd));
    }

    /// `bbr_note_loss`: starts a loss round at the first loss.
    pub(super) fn note_loss(&mut self, window: &Window) {
        if !self.loss_in_round {
            self.loss_round_delivered = window.delivered;
        }
        self.loss_in_round = true;
    }

    /// `bbr_skb_marked_lost`
    pub(super) fn check_lost_segment(&mut self, window: &Window, segment: &LostSegment) {
        self.note_loss(window);
        if !self.samples_of_probe {
            return;
        }
        let mut sample = RateSample {
            tx_in_flight: segment.tx_in_flight,
            lost: window.lost - segment.lost_before,
            app_limited: segment.app_limited,
            ..RateSample::default()
        };
        if is_too_high(&sample) {
            sample.tx_in_flight = in_flight_at_threshold(sample.tx_in_flight, sample.lost);
            self.probed_too_high(window, &sample);
        }
    }

    /// `bbr_handle_inflight_too_high`, at most once per probe.
    pub(super) fn probed_too_high(&mut self, window: &Window, sample: &RateSample) {
        self.prev_probe_too_high = true;
        self.samples_of_probe = false;
        if !sample.app_limited {
            let target = self.target_inflight(window);
            let reduced = (u64::from(target) * LOSS_BETA_256) >> 8;
            self.bounds.inflight_hi = sample.tx_in_flight.max(reduced as u32);
        }
        if self.mode == Mode::ProbeBw && self.phase == super::Phase::Up {
            self.start_down(window);
        }
    }

    /// `bbr_target_inflight`
    pub(super) fn target_inflight(&self, window: &Window) -> u32 {
        self.inflight(window, self.bw(), 1.0).min(window.cwnd)
    }

    /// `bbr_inflight_with_headroom`
    pub(super) fn with_headroom(&self) -> u32 {
        let high = self.bounds.inflight_hi;
        if high == UNBOUNDED {
            return UNBOUNDED;
        }
        let headroom = ((u64::from(high) * HEADROOM_256) >> 8).max(1);
        high.saturating_sub(headroom as u32).max(MIN_CWND)
    }
}

/// Segments delivered over the interval; `None` if the sample is invalid.
fn valid(sample: &RateSample) -> Option<u32> {
    sample.delivered.filter(|_| sample.interval_us > 0 && sample.acked > 0).map(|delivered| delivered as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_two_percent_are_too_many() {
        let sample = |lost| RateSample { tx_in_flight: 1000, lost, ..RateSample::default() };
        assert!(!is_too_high(&sample(0)) && !is_too_high(&sample(19)));
        // The module's integers make it 5/256.
        assert!(is_too_high(&sample(20)));
    }

    #[test]
    fn the_bound_is_where_losses_became_too_many() {
        // With 1000 in flight, the 20th loss itself crossed 5/256. If all earlier segments had been
        // lost, the data in flight before this one counts.
        assert_eq!(in_flight_at_threshold(1000, 20), 1000);
        assert_eq!(in_flight_at_threshold(1000, 100), 999);
    }

    #[test]
    fn losses_while_cruising_leave_seven_tenths() {
        let mut w = Window::new(250, 1448, true);
        w.cwnd = 200;
        let mut bbr = Bbr3::new(1);
        (bbr.mode, bbr.phase) = (Mode::ProbeBw, super::super::Phase::Cruise);
        bbr.max_bw = [0.0, 1.0];
        for (bw, inflight) in [(0.7, 140), (0.49, 98), (0.35, 68)] {
            bbr.loss_in_round = true;
            bbr.adapt_short_term_bounds(&w);
            assert!((bbr.bounds.bw_lo - bw).abs() < 0.01, "{}", bbr.bounds.bw_lo);
            assert!(bbr.bounds.inflight_lo.abs_diff(inflight) <= 2, "{}", bbr.bounds.inflight_lo);
        }
        // The bounds do not fall below what is still delivered.
        (bbr.loss_in_round, bbr.bw_latest, bbr.inflight_latest) = (true, 0.9, 150);
        bbr.adapt_short_term_bounds(&w);
        assert_eq!((bbr.bounds.bw_lo, bbr.bounds.inflight_lo), (0.9, 150));
    }
}
