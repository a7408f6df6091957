//! H-TCP (D. Leith, R. Shorten, "H-TCP: TCP for high-speed and long-distance networks", 2004;
//! `tcp_htcp.c`). Growth depends on the time since the last reduction; the decrease factor depends
//! on the ratio of minimum to maximum RTT.
//!
//! Characteristics: H-TCP behaves like Reno (scaled by the RTT) for one second and then grows
//! faster as a quadratic function of time. The decrease factor is between 0.5 and 0.8, and 0.5 if
//! the throughput has changed by a fifth since the last reduction.

use crate::{AckSample, CaState, CongestionControl, Window};

/// 1 with 7 fraction bits (`ALPHA_BASE`).
const ONE: u32 = 1 << 7;
/// Minimum and maximum decrease factor, with 7 fraction bits (`BETA_MIN`, `BETA_MAX`).
const BETA_MIN: u32 = 1 << 6;
const BETA_MAX: u32 = 102;
/// Maximum step by which the maximum RTT follows larger samples, ms.
const MAX_RTT_STEP_MS: u64 = 20;
/// Minimum RTT up to which the RTT ratio is not used, ms.
const MIN_RTT_MS: u64 = 10;
/// Round trips after a reduction during which the throughput is not smoothed.
const SETTLING_ROUNDS: u64 = 3;
/// Percentage of the difference between maximum and minimum RTT that remains after a reduction.
const REMEMBERED_PERCENT: u64 = 95;

/// State that is restored when a reduction was spurious.
#[derive(Clone, Copy, Debug)]
struct Undo {
    reduced_at: u64,
    max_rtt: u64,
    old_max_rate: u64,
}

/// State of H-TCP; times in ticks, rates in segments per second.
#[derive(Clone, Debug)]
pub struct Htcp {
    alpha: u32,
    beta: u32,
    /// Whether the RTT ratio may be used, which requires a previous reduction.
    adaptive: bool,
    acked: u32,
    counted: u32,
    min_rtt: u64,
    max_rtt: u64,
    reduced_at: u64,
    undo: Option<Undo>,
    min_rate: u64,
    max_rate: u64,
    old_max_rate: u64,
    rate: u64,
    counted_since: u64,
    /// Whether no rate has been measured yet. The kernel's clock then yields a rate of 0.
    first_count: bool,
}

impl Default for Htcp {
    fn default() -> Htcp {
        Htcp {
            alpha: ONE,
            beta: BETA_MIN,
            adaptive: false,
            acked: 1,
            counted: 0,
            min_rtt: 0,
            max_rtt: 0,
            reduced_at: 0,
            undo: None,
            min_rate: 0,
            max_rate: 0,
            old_max_rate: 0,
            rate: 0,
            counted_since: 0,
            first_count: true,
        }
    }
}

impl Htcp {
    fn measure_rtt(&mut self, window: &Window, rtt_us: u64) {
        let rtt = window.ticks_of_micros(rtt_us);
        if self.min_rtt == 0 || rtt < self.min_rtt {
            self.min_rtt = rtt;
        }
        if window.state == CaState::Open {
            self.max_rtt = self.max_rtt.max(self.min_rtt);
            if rtt > self.max_rtt && rtt <= self.max_rtt + window.ticks_of_micros(MAX_RTT_STEP_MS * 1000) {
                self.max_rtt = rtt;
            }
        }
    }

    /// `measure_achieved_throughput`: segments per second over about one window.
    fn measure_rate(&mut self, window: &Window, acked: u32) {
        let now = window.jiffies();
        if window.state > CaState::Disorder {
            self.counted = 0;
            self.counted_since = now;
            self.first_count = false;
            return;
        }
        self.counted += acked;
        let whole = window.cwnd.wrapping_sub((self.alpha >> 7).max(1));
        let time = now - self.counted_since;
        if self.counted < whole || self.min_rtt == 0 || (time < self.min_rtt && !self.first_count) {
            return;
        }
        let rate =
            if self.first_count { 0 } else { u64::from(self.counted) * u64::from(window.hz) / time.max(1) };
        if (now - self.reduced_at) / self.min_rtt <= SETTLING_ROUNDS {
            (self.min_rate, self.max_rate, self.rate) = (rate, rate, rate);
        } else {
            self.rate = (3 * self.rate + rate) / 4;
            self.max_rate = self.max_rate.max(self.rate);
            self.min_rate = self.min_rate.min(self.max_rate);
        }
        self.counted = 0;
        self.counted_since = now;
        self.first_count = false;
    }

    /// `htcp_beta_update`
    fn update_beta(&mut self, window: &Window) {
        let old = std::mem::replace(&mut self.old_max_rate, self.max_rate);
        if !(4 * old..=6 * old).contains(&(5 * self.max_rate)) {
            self.beta = BETA_MIN;
            self.adaptive = false;
        } else if self.adaptive
            && self.min_rtt > window.ticks_of_micros(MIN_RTT_MS * 1000)
            && self.max_rtt > 0
        {
            self.beta = (((self.min_rtt << 7) / self.max_rtt) as u32).clamp(BETA_MIN, BETA_MAX);
        } else {
            self.beta = BETA_MIN;
            self.adaptive = true;
        }
    }

    /// `htcp_alpha_update`: 1 + 10 D + (D/2)^2, where D is the time beyond the first second, in
    /// seconds, scaled by the ratio of the RTT to 100 ms.
    fn update_alpha(&mut self, window: &Window) {
        let hz = u64::from(window.hz);
        let time = window.jiffies() - self.reduced_at;
        let mut factor = 1;
        if time > hz {
            let beyond = time - hz;
            factor = 1 + (10 * beyond + (beyond / 2) * (beyond / 2) / hz) / hz;
        }
        if self.min_rtt > 0 {
            let scale = ((hz << 3) / (10 * self.min_rtt)).clamp(1 << 2, 10 << 3);
            factor = ((factor << 3) / scale).max(1);
        }
        self.alpha = (2 * factor * u64::from(ONE - self.beta)) as u32;
        if self.alpha == 0 {
            self.alpha = ONE;
        }
    }
}

impl CongestionControl for Htcp {
    fn name(&self) -> &'static str {
        "htcp"
    }

    fn init(&mut self, window: &mut Window) {
        *self = Htcp { reduced_at: window.jiffies(), ..Htcp::default() };
    }

    /// `htcp_param_update` and `htcp_recalc_ssthresh`
    fn ssthresh(&mut self, window: &mut Window) -> u32 {
        self.update_beta(window);
        self.update_alpha(window);
        if self.min_rtt > 0 && self.max_rtt > self.min_rtt {
            self.max_rtt = self.min_rtt + (self.max_rtt - self.min_rtt) * REMEMBERED_PERCENT / 100;
        }
        ((window.cwnd * self.beta) >> 7).max(2)
    }

    fn cong_avoid(&mut self, window: &mut Window, acked: u32) {
        if !window.is_cwnd_limited() {
            return;
        }
        if window.in_slow_start() {
            window.slow_start(acked);
            return;
        }
        if (u64::from(window.cwnd_cnt) * u64::from(self.alpha)) >> 7 >= u64::from(window.cwnd) {
            window.cwnd += 1;
            window.cwnd_cnt = 0;
            self.update_alpha(window);
        } else {
            window.cwnd_cnt += self.acked;
        }
        self.acked = 1;
    }

    fn pkts_acked(&mut self, window: &mut Window, sample: &AckSample) {
        if window.state == CaState::Open {
            self.acked = sample.acked;
        }
        if let Some(rtt_us) = sample.rtt_us.filter(|rtt_us| *rtt_us > 0) {
            self.measure_rtt(window, rtt_us);
        }
        self.measure_rate(window, sample.acked);
    }

    fn set_state(&mut self, window: &mut Window, state: CaState) {
        match state {
            CaState::Open => {
                if self.undo.take().is_some() {
                    self.reduced_at = window.jiffies();
                }
            }
            CaState::Disorder => {}
            CaState::Cwr | CaState::Recovery | CaState::Loss => {
                self.undo = Some(Undo {
                    reduced_at: self.reduced_at,
                    max_rtt: self.max_rtt,
                    old_max_rate: self.old_max_rate,
                });
                self.reduced_at = window.jiffies();
            }
        }
    }

    fn undo_cwnd(&mut self, window: &Window) -> u32 {
        if let Some(undo) = self.undo.take() {
            self.reduced_at = undo.reduced_at;
            self.max_rtt = undo.max_rtt;
            self.old_max_rate = undo.old_max_rate;
        }
        window.cwnd.max(window.prior_cwnd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::SECOND;

    #[test]
    fn alpha_is_one_for_a_second_and_then_a_parabola() {
        let mut w = Window::new(1000, 1448, false);
        let mut htcp = Htcp::default();
        htcp.init(&mut w);
        htcp.min_rtt = 100;
        for (seconds, factor) in [(0.5, 1.0), (1.0, 1.0), (2.0, 11.25), (5.0, 45.0), (10.0, 111.25)] {
            w.now_ns = (seconds * SECOND as f64) as u64;
            htcp.update_alpha(&w);
            // 2 (1 - beta) = 1 for beta 0.5; the kernel's integers round down.
            let alpha = f64::from(htcp.alpha) / 128.0;
            assert!((alpha - factor).abs() <= 1.0, "{alpha} after {seconds} s");
        }
    }

    #[test]
    fn beta_is_the_ratio_of_round_trip_times_within_bounds() {
        let mut w = Window::new(1000, 1448, false);
        w.cwnd = 100;
        for (max_rtt, expected) in [(100, 79), (200, 63), (400, 50)] {
            let mut htcp = Htcp { adaptive: true, min_rtt: 128, max_rtt, ..Htcp::default() };
            assert_eq!(htcp.ssthresh(&mut w), expected, "{max_rtt}");
        }
        // If the throughput changed by more than a fifth, the factor is 0.5.
        let mut htcp = Htcp {
            adaptive: true,
            min_rtt: 90,
            max_rtt: 100,
            max_rate: 130,
            old_max_rate: 100,
            ..Htcp::default()
        };
        assert_eq!(htcp.ssthresh(&mut w), 50);
    }
}
