//! TCP-NV (L. Brakmo, "TCP-NV: an update to TCP Vegas", 2010; `tcp_nv.c`). Once per round trip the
//! window is compared with what the maximum observed rate requires at the minimum RTT, plus ten
//! segments.
//!
//! Characteristics: decisions are based on rates instead of delays. The window shrinks only after
//! 60 samples and two round trips, by 30 % of the excess, and then grows only if it is two segments
//! below the target. The minimum RTT expires every 4 to 6 s. A loss multiplies the window by 0.8.

use crate::{AckSample, CaState, CongestionControl, NO_SSTHRESH, Window};
use rand_core::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg32;

/// Segments that may be queued (`nv_pad`), and the margin below that at which growth stops
/// (`nv_pad_buffer`).
const PAD: u64 = 10;
const PAD_BUFFER: u64 = 2;
/// Lifetime of the minimum RTT, s (`nv_reset_period`). A random 384 to 639 512ths of it are used.
const RESET_PERIOD_S: u64 = 5;
/// Time of the first reset of the minimum RTT, s.
const FIRST_RESET_S: u64 = 2;
/// Fraction of the excess that a decrease removes, in units of 1/128: 30 % (`nv_cong_dec_mult`).
const DECREASE: u64 = 30 * 128 / 100;
/// Factor applied on loss, in units of 1/1024 (`nv_loss_dec_factor`).
const LOSS_BETA: u64 = 819;
/// Weight of a new RTT sample, in units of 1/256 (`nv_rtt_factor`).
const RTT_WEIGHT: u64 = 128;
/// Samples needed before the window shrinks, grows, or slow start ends (`nv_*_eval_min_calls`).
const SAMPLES_TO_SHRINK: u32 = 60;
const SAMPLES_TO_GROW: u32 = 20;
const SAMPLES_TO_LEAVE_SLOW_START: u32 = 30;
/// Round trips before a decision (`nv_rtt_min_cnt`), and round trips without a decision after which
/// growth stops (`nv_stop_rtt_cnt`).
const ROUNDS_TO_SHRINK: u32 = 2;
const ROUNDS_OF_GROWTH: u32 = 10;
/// Decisions without congestion per doubling of a growth rate below Reno's
/// (`nv_cwnd_growth_rate_neg`).
const CALM_ROUNDS: u32 = 8;
/// Minimum window (`nv_min_cwnd`), segments.
const MIN_WINDOW: u32 = 2;
/// Minimum window for a decision: initial value, step and maximum (`NV_MIN_CWND`,
/// `NV_MIN_CWND_GROW`, `NV_TSO_CWND_BOUND`), segments.
const FIRST_EVALUATION: u32 = 4;
const EVALUATION_STEP: u32 = 2;
const MAX_EVALUATION: u32 = 81;
/// Minimum growth exponent.
const MIN_GROWTH: i32 = -8;
/// 1 byte/µs in units of 100 bit/s.
const RATE_UNIT: u64 = 80_000;
/// No RTT sample yet, µs.
const NO_RTT: u64 = u32::MAX as u64;

/// State of TCP-NV.
#[derive(Clone, Debug)]
pub struct Nv {
    random: Pcg32,
    /// When the minimum RTT is replaced, ticks.
    reset_at: u64,
    /// Growth exponent n: growth is Reno's times 2^n.
    growth: i32,
    may_grow: bool,
    reset: bool,
    samples: u32,
    evaluated_from: u32,
    rounds: u32,
    last_rtt_us: u64,
    min_rtt_us: u64,
    next_min_rtt_us: u64,
    /// Maximum rate of this round, in units of 100 bit/s.
    max_rate: u64,
    round_end: u32,
    last_una: u32,
    calm: u32,
}

impl Nv {
    /// Creates TCP-NV in its initial state. `seed` determines the random lifetimes of the minimum
    /// RTT.
    pub fn new(seed: u64) -> Nv {
        Nv {
            random: Pcg32::seed_from_u64(seed),
            reset_at: 0,
            growth: 0,
            may_grow: true,
            reset: false,
            samples: 0,
            evaluated_from: FIRST_EVALUATION,
            rounds: 0,
            last_rtt_us: 0,
            min_rtt_us: NO_RTT,
            next_min_rtt_us: NO_RTT,
            max_rate: 0,
            round_end: 0,
            last_una: 0,
            calm: 0,
        }
    }

    /// `tcpnv_reset`
    fn restart(&mut self, window: &Window) {
        self.reset = false;
        self.calm = 0;
        self.rounds = 0;
        self.last_rtt_us = 0;
        self.max_rate = 0;
        self.round_end = window.snd_una;
        self.samples = 0;
        self.last_una = window.snd_una;
    }

    fn average(&mut self, rtt_us: u64) -> u64 {
        let average = if self.last_rtt_us > 0 {
            (rtt_us * RTT_WEIGHT + self.last_rtt_us * (256 - RTT_WEIGHT)) >> 8
        } else {
            self.min_rtt_us = rtt_us << 1;
            rtt_us
        };
        self.last_rtt_us = average;
        average
    }

    fn forget_min_rtt(&mut self, window: &Window) {
        let now = window.jiffies();
        if now < self.reset_at {
            return;
        }
        self.min_rtt_us = self.next_min_rtt_us;
        self.next_min_rtt_us = NO_RTT;
        let drawn = u64::from(self.random.next_u32() >> 24);
        self.reset_at = now + ((RESET_PERIOD_S * (384 + drawn) * u64::from(window.hz)) >> 9);
        self.evaluated_from = (self.evaluated_from / 2).max(FIRST_EVALUATION);
    }

    /// Decides once per round trip. `acked` is the number of segments since the last ACK with a
    /// sample.
    fn evaluate(&mut self, window: &mut Window, acked: u32) {
        self.round_end = window.snd_nxt;
        self.rounds += 1;
        if self.samples == 1 && acked + 1 >= self.evaluated_from && self.evaluated_from < MAX_EVALUATION {
            // With a single ACK per round trip the window is too small for a decision.
            self.evaluated_from = (self.evaluated_from + EVALUATION_STEP).min(MAX_EVALUATION);
            self.round_end = window.snd_nxt + self.evaluated_from;
            self.samples = 0;
            self.may_grow = true;
            return;
        }
        let needed = self.max_rate * self.min_rtt_us / (RATE_UNIT * u64::from(window.mss_bytes));
        let most = needed + PAD;
        let cwnd = u64::from(window.cwnd);
        if cwnd > most {
            if !self.may_shrink(window) {
                return;
            }
            self.may_grow = false;
            window.ssthresh = most as u32;
            let excess = cwnd - most;
            window.cwnd = if excess > 2 { cwnd - ((excess * DECREASE) >> 7).max(2) } else { most } as u32;
            self.growth = self.growth.min(0);
            self.calm = 0;
        } else if cwnd <= most - PAD_BUFFER {
            if self.samples < SAMPLES_TO_GROW {
                return;
            }
            self.may_grow = true;
            self.calm += 1;
            if self.growth < 0 && self.calm > CALM_ROUNDS {
                self.growth += 1;
                self.calm = 0;
            }
        } else {
            return;
        }
        self.samples = 0;
        self.rounds = 0;
        self.max_rate = 0;
        window.cwnd = window.cwnd.max(MIN_WINDOW);
    }

    /// Whether enough samples and round trips were seen to infer congestion.
    fn may_shrink(&mut self, window: &Window) -> bool {
        if self.rounds < ROUNDS_TO_SHRINK {
            return false;
        }
        if window.ssthresh == NO_SSTHRESH {
            return self.samples >= SAMPLES_TO_LEAVE_SLOW_START;
        }
        if self.samples < SAMPLES_TO_SHRINK {
            if self.rounds > ROUNDS_OF_GROWTH {
                self.may_grow = false;
            }
            return false;
        }
        true
    }
}

impl CongestionControl for Nv {
    fn name(&self) -> &'static str {
        "nv"
    }

    fn init(&mut self, window: &mut Window) {
        self.restart(window);
        self.may_grow = true;
        self.reset_at = window.jiffies() + FIRST_RESET_S * u64::from(window.hz);
        (self.min_rtt_us, self.next_min_rtt_us) = (NO_RTT, NO_RTT);
        self.evaluated_from = FIRST_EVALUATION;
        self.growth = 0;
    }

    fn ssthresh(&mut self, window: &mut Window) -> u32 {
        (((u64::from(window.cwnd) * LOSS_BETA) >> 10) as u32).max(2)
    }

    fn cong_avoid(&mut self, window: &mut Window, acked: u32) {
        if !window.is_cwnd_limited() || !self.may_grow {
            return;
        }
        let left = if window.in_slow_start() { window.slow_start(acked) } else { acked };
        if left == 0 {
            return;
        }
        let per =
            if self.growth < 0 { window.cwnd << -self.growth } else { (window.cwnd >> self.growth).max(4) };
        window.additive_increase(per, left);
    }

    /// `tcpnv_acked`
    fn pkts_acked(&mut self, window: &mut Window, sample: &AckSample) {
        let Some(rtt_us) = sample.rtt_us.filter(|_| window.state <= CaState::Disorder) else { return };
        let acked = window.snd_una.wrapping_sub(self.last_una);
        self.last_una = window.snd_una;
        if sample.in_flight == 0 {
            return;
        }
        let average_us = self.average(rtt_us);
        let bytes = u64::from(sample.in_flight) * u64::from(window.mss_bytes);
        // 32 bits, as in the kernel.
        let rate = (bytes * RATE_UNIT / average_us.max(1)) as u32;
        self.max_rate = self.max_rate.max(rate.into());
        self.samples = (self.samples + 1).min(255);
        self.min_rtt_us = self.min_rtt_us.min(average_us);
        self.next_min_rtt_us = self.next_min_rtt_us.min(average_us);
        self.forget_min_rtt(window);
        if window.snd_una > self.round_end {
            self.evaluate(window, acked);
        }
    }

    fn set_state(&mut self, window: &mut Window, state: CaState) {
        match state {
            CaState::Open if self.reset => self.restart(window),
            CaState::Open | CaState::Disorder => {}
            CaState::Cwr | CaState::Recovery | CaState::Loss => {
                self.reset = true;
                self.may_grow = false;
                if state == CaState::Loss {
                    self.growth = (self.growth.min(0) - 1).max(MIN_GROWTH);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Applies one decision with `samples` samples to a window of `cwnd` on a path of 100 segments
    /// (50 ms at 2 segments per ms).
    fn evaluated(cwnd: u32, samples: u32) -> (u32, bool) {
        let mut w = Window::new(250, 1000, false);
        (w.cwnd, w.ssthresh) = (cwnd, 100);
        let mut nv = Nv::new(1);
        (nv.min_rtt_us, nv.samples, nv.rounds) = (50_000, samples, 3);
        nv.max_rate = 100 * 1000 * RATE_UNIT / 50_000;
        nv.evaluate(&mut w, 2);
        (w.cwnd, nv.may_grow)
    }

    #[test]
    fn ten_segments_may_be_queued() {
        assert_eq!(evaluated(108, 60), (108, true));
        assert_eq!(evaluated(110, 60), (110, true));
        assert_eq!(evaluated(112, 60), (110, false));
        // 30 % of the excess.
        assert_eq!(evaluated(210, 60), (181, false));
        assert_eq!(evaluated(210, 59), (210, true));
    }
}
