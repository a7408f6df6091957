//! BIC (L. Xu, K. Harfoush, I. Rhee, "Binary increase congestion control for fast long-distance
//! networks", 2004; `tcp_bic.c`). After a loss the window approaches its former value in steps of a
//! quarter of the remaining distance, at most 16 segments per round trip, and then grows slowly
//! beyond it.
//!
//! Characteristics: steps are per round trip, not per second as in CUBIC. A loss multiplies the
//! window by 0.8, and by Reno's 0.5 up to 14 segments.

use crate::{AckSample, CaState, CongestionControl, Window};

/// Multiplicative decrease factor, in units of 1/1024 (`beta`).
const BETA: u64 = 819;
const BETA_SCALE: u64 = 1024;
/// A search step is 1/n of the distance (`BICTCP_B`).
const SEARCH_DIVISOR: u32 = 4;
/// Maximum growth per round trip, segments (`max_increment`).
const MAX_INCREMENT: u32 = 16;
/// Maximum window at which BIC behaves like Reno (`low_window`), segments.
const LOW_WINDOW: u32 = 14;
/// Round trips of the last search step, times the divisor (`smooth_part`).
const SMOOTH_PART: u32 = 20;
/// Maximum number of acknowledged segments per segment of growth before the first loss: 5 % per
/// round trip.
const UNKNOWN_PATH: u32 = 20;
/// Fraction bits of the ratio of segments to ACKs (`ACK_RATIO_SHIFT`).
const RATIO_BITS: u32 = 4;

/// State of BIC.
#[derive(Clone, Debug)]
pub struct Bic {
    /// Acknowledged segments per segment of growth.
    per: u32,
    last_max_cwnd: u32,
    last_cwnd: u32,
    last_time: u64,
    /// Segments per ACK, with 4 fraction bits.
    ratio: u32,
}

impl Default for Bic {
    fn default() -> Bic {
        Bic { per: 0, last_max_cwnd: 0, last_cwnd: 0, last_time: 0, ratio: 2 << RATIO_BITS }
    }
}

impl Bic {
    /// `bictcp_update`, at most once per window value or 1/32 s.
    fn update(&mut self, window: &Window) {
        let (cwnd, now) = (window.cwnd, window.jiffies());
        if self.last_cwnd == cwnd && now - self.last_time <= u64::from(window.hz / 32) {
            return;
        }
        self.last_cwnd = cwnd;
        self.last_time = now;
        if cwnd <= LOW_WINDOW {
            self.per = cwnd;
            return;
        }
        self.per = self.search(cwnd);
        if self.last_max_cwnd == 0 {
            self.per = self.per.min(UNKNOWN_PATH);
        }
        // An ACK covers several segments, and the algorithm counts ACKs.
        self.per = ((self.per << RATIO_BITS) / self.ratio.max(1)).max(1);
    }

    /// ACKs per segment of growth at `cwnd`.
    fn search(&self, cwnd: u32) -> u32 {
        let slowest = cwnd * SMOOTH_PART / SEARCH_DIVISOR;
        if cwnd < self.last_max_cwnd {
            match (self.last_max_cwnd - cwnd) / SEARCH_DIVISOR {
                0 | 1 => slowest,
                step => cwnd / step.min(MAX_INCREMENT),
            }
        } else {
            let beyond = cwnd - self.last_max_cwnd;
            if beyond < SEARCH_DIVISOR {
                slowest
            } else if beyond < MAX_INCREMENT * (SEARCH_DIVISOR - 1) {
                cwnd * (SEARCH_DIVISOR - 1) / beyond
            } else {
                cwnd / MAX_INCREMENT
            }
        }
    }
}

impl CongestionControl for Bic {
    fn name(&self) -> &'static str {
        "bic"
    }

    /// `bictcp_recalc_ssthresh` with fast convergence: a flow that lost below its former window
    /// releases bandwidth.
    fn ssthresh(&mut self, window: &mut Window) -> u32 {
        let cwnd = u64::from(window.cwnd);
        self.last_max_cwnd = if window.cwnd < self.last_max_cwnd {
            (cwnd * (BETA_SCALE + BETA) / (2 * BETA_SCALE)) as u32
        } else {
            window.cwnd
        };
        if window.cwnd <= LOW_WINDOW { window.half() } else { ((cwnd * BETA / BETA_SCALE) as u32).max(2) }
    }

    fn cong_avoid(&mut self, window: &mut Window, acked: u32) {
        if !window.is_cwnd_limited() {
            return;
        }
        let left = if window.in_slow_start() { window.slow_start(acked) } else { acked };
        if left > 0 {
            self.update(window);
            window.additive_increase(self.per, left);
        }
    }

    fn pkts_acked(&mut self, window: &mut Window, sample: &AckSample) {
        if window.state == CaState::Open {
            self.ratio = self.ratio + sample.acked - (self.ratio >> RATIO_BITS);
        }
    }

    fn set_state(&mut self, _window: &mut Window, state: CaState) {
        if state == CaState::Loss {
            *self = Bic::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_a_quarter_of_the_distance_at_most_sixteen() {
        let bic = Bic { last_max_cwnd: 500, ..Bic::default() };
        // Growth per round trip is cwnd / per.
        assert_eq!(bic.search(400), 400 / 16);
        assert_eq!(bic.search(460), 460 / 10);
        assert_eq!(bic.search(495), 495 * 5);
        assert_eq!(bic.search(502), 502 * 5);
        assert_eq!(bic.search(520), 520 * 3 / 20);
        assert_eq!(bic.search(600), 600 / 16);
    }

    #[test]
    fn small_windows_are_halved_and_beta_of_large_ones_is_four_fifths() {
        let mut w = Window::new(250, 1448, false);
        let mut bic = Bic::default();
        for (cwnd, expected) in [(14, 7), (15, 11), (200, 159)] {
            w.cwnd = cwnd;
            assert_eq!(bic.ssthresh(&mut w), expected);
        }
        w.cwnd = 150;
        bic.ssthresh(&mut w);
        assert_eq!(bic.last_max_cwnd, 150 * 1843 / 2048);
    }
}
