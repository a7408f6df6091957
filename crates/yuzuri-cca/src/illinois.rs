//! TCP-Illinois (S. Liu, T. Basar, R. Srikant, "TCP-Illinois: a loss- and delay-based congestion
//! control algorithm for high-speed networks", 2008; `tcp_illinois.c`). Losses trigger reductions;
//! the mean queueing delay of a round trip determines the rate of growth and the size of a
//! reduction.
//!
//! Characteristics: the window grows by 10 segments per round trip while the queue is empty and by
//! as little as 0.3 as it fills (concave growth). A loss removes 1/8 of the window with a short
//! queue and 1/2 with a long one. Below 15 segments the algorithm is Reno.

use crate::{AckSample, CaState, CongestionControl, Window};

/// Growth per round trip: fraction bits, Reno's value, minimum and maximum (`ALPHA_*`).
const ALPHA_BITS: u32 = 7;
const ALPHA_ONE: u64 = 1 << ALPHA_BITS;
const ALPHA_MIN: u64 = 3 * ALPHA_ONE / 10;
const ALPHA_MAX: u64 = 10 * ALPHA_ONE;
/// Fraction of the window removed by a loss: fraction bits, minimum and maximum (`BETA_*`).
const BETA_BITS: u32 = 6;
const BETA_MIN: u64 = (1 << BETA_BITS) / 8;
const BETA_MAX: u64 = (1 << BETA_BITS) / 2;
/// Maximum RTT sample, µs (`RTT_MAX`).
const RTT_MAX_US: u64 = u32::MAX as u64 / ALPHA_MAX;
/// Window below which the algorithm is Reno (`win_thresh`), segments.
const SMALL_WINDOW: u32 = 15;
/// Round trips with an empty queue before growth returns to its maximum (`theta`).
const GOOD_ROUNDS: u32 = 5;

/// State of TCP-Illinois.
#[derive(Clone, Debug)]
pub struct Illinois {
    sum_rtt_us: u64,
    samples: u64,
    base_rtt_us: u64,
    max_rtt_us: u64,
    round_end: u32,
    alpha: u64,
    beta: u64,
    acked: u32,
    /// Whether a queue was seen since growth was last at its maximum.
    queued: bool,
    good_rounds: u32,
}

impl Default for Illinois {
    fn default() -> Illinois {
        Illinois {
            sum_rtt_us: 0,
            samples: 0,
            base_rtt_us: i32::MAX as u64,
            max_rtt_us: 0,
            round_end: 0,
            alpha: ALPHA_MAX,
            beta: BETA_MAX,
            acked: 0,
            queued: false,
            good_rounds: 0,
        }
    }
}

impl Illinois {
    fn start_round(&mut self, window: &Window) {
        self.round_end = window.snd_nxt;
        self.samples = 0;
        self.sum_rtt_us = 0;
    }

    /// Updates the parameters once per round trip (`update_params`).
    fn end_round(&mut self, window: &Window) {
        if window.cwnd < SMALL_WINDOW {
            self.alpha = ALPHA_ONE;
            self.beta = BETA_MAX;
        } else if let Some(mean_us) = self.sum_rtt_us.checked_div(self.samples) {
            let max_us = self.max_rtt_us - self.base_rtt_us;
            let mean_us = mean_us - self.base_rtt_us;
            self.alpha = self.growth(mean_us, max_us);
            self.beta = loss_share(mean_us, max_us);
        }
        self.start_round(window);
    }

    /// Growth for a mean queueing delay, given the maximum so far: k1 / (k2 + delay).
    fn growth(&mut self, mean_us: u64, max_us: u64) -> u64 {
        let empty_us = max_us / 100;
        if mean_us <= empty_us {
            if !self.queued {
                return ALPHA_MAX;
            }
            self.good_rounds += 1;
            if self.good_rounds < GOOD_ROUNDS {
                return self.alpha;
            }
            self.good_rounds = 0;
            self.queued = false;
            return ALPHA_MAX;
        }
        self.queued = true;
        let (max_us, mean_us) = (max_us - empty_us, mean_us - empty_us);
        max_us * ALPHA_MAX / (max_us + mean_us * (ALPHA_MAX - ALPHA_MIN) / ALPHA_MIN)
    }
}

/// Loss fraction: 1/8 up to a tenth of the maximum queueing delay, 1/2 from eight tenths on, and
/// linear in between.
fn loss_share(mean_us: u64, max_us: u64) -> u64 {
    let (low, high) = (max_us / 10, 8 * max_us / 10);
    if mean_us <= low {
        return BETA_MIN;
    }
    if mean_us >= high || high <= low {
        return BETA_MAX;
    }
    (BETA_MIN * (high - mean_us) + BETA_MAX * (mean_us - low)) / (high - low)
}

impl CongestionControl for Illinois {
    fn name(&self) -> &'static str {
        "illinois"
    }

    fn init(&mut self, window: &mut Window) {
        *self = Illinois::default();
        self.start_round(window);
    }

    fn ssthresh(&mut self, window: &mut Window) -> u32 {
        let lost = (u64::from(window.cwnd) * self.beta) >> BETA_BITS;
        (window.cwnd - lost as u32).max(2)
    }

    fn cong_avoid(&mut self, window: &mut Window, acked: u32) {
        if window.snd_una > self.round_end {
            self.end_round(window);
        }
        if !window.is_cwnd_limited() {
            return;
        }
        if window.in_slow_start() {
            window.slow_start(acked);
            return;
        }
        window.cwnd_cnt += self.acked;
        self.acked = 1;
        let grown = (u64::from(window.cwnd_cnt) * self.alpha) >> ALPHA_BITS;
        if grown >= u64::from(window.cwnd) {
            window.cwnd += (grown / u64::from(window.cwnd)) as u32;
            window.cwnd_cnt = 0;
        }
    }

    fn pkts_acked(&mut self, _window: &mut Window, sample: &AckSample) {
        self.acked = sample.acked;
        let Some(rtt_us) = sample.rtt_us else { return };
        let rtt_us = rtt_us.min(RTT_MAX_US);
        self.base_rtt_us = self.base_rtt_us.min(rtt_us);
        self.max_rtt_us = self.max_rtt_us.max(rtt_us);
        self.samples += 1;
        self.sum_rtt_us += rtt_us;
    }

    fn set_state(&mut self, window: &mut Window, state: CaState) {
        if state == CaState::Loss {
            self.alpha = ALPHA_ONE;
            self.beta = BETA_MAX;
            self.good_rounds = 0;
            self.queued = false;
            self.start_round(window);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_falls_from_ten_to_three_tenths_with_the_queue() {
        let mut cca = Illinois::default();
        assert_eq!(cca.growth(0, 100_000), ALPHA_MAX);
        assert!(cca.growth(100_000, 100_000).abs_diff(ALPHA_MIN) <= 1);
        let middle = cca.growth(50_000, 100_000);
        assert!(middle > ALPHA_MIN && middle < ALPHA_ONE, "{middle}");
        // Growth returns to its maximum only after five round trips with an empty queue.
        cca.alpha = middle;
        let rounds: Vec<u64> = (0..5).map(|_| cca.growth(500, 100_000)).collect();
        assert_eq!(rounds, [middle, middle, middle, middle, ALPHA_MAX]);
    }

    #[test]
    fn losses_reduce_the_window_by_an_eighth_to_a_half() {
        let share = |mean_us| loss_share(mean_us, 100_000);
        assert_eq!((share(10_000), share(80_000)), (BETA_MIN, BETA_MAX));
        assert_eq!(share(45_000), (BETA_MIN + BETA_MAX) / 2);
    }
}
