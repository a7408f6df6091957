//! CUBIC (RFC 9438) with the integer arithmetic and tick clock of `tcp_cubic.c`. Linux uses
//! C = 410/1024 and beta = 717/1024.
//!
//! Linux differs from the RFC in these points: the minimum RTT is added to the time since the
//! reduction; the Reno-friendly estimate advances by counted ACKs (one segment per
//! `cwnd * 15 / 8`); the window grows by at most half a segment per acknowledged segment; and alpha
//! does not change once the estimate has reached the former window.
//!
//! Characteristics: growth depends on the time since the reduction and on the former window, not on
//! the RTT.

use crate::hystart::Hystart;
use crate::{AckSample, CaState, CongestionControl, CwndEvent, SlowStartExit, Window};
use serde::{Deserialize, Serialize};

const SCALE: u64 = 1024;
/// log2 of the ticks per second of CUBIC's clock (`BICTCP_HZ`).
const CLOCK_BITS: u32 = 10;

/// Constants that distinguish the CUBIC variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CubicConstants {
    /// C in units of 1/1024 segments per second cubed (`bic_scale` times 10).
    pub c_1024: u32,
    /// Multiplicative decrease factor, in units of 1/1024 (`beta`).
    pub beta_1024: u32,
    /// Fast convergence: a flow reduced below its former W_max sets W_max to this multiple of its
    /// window, in units of 1/2048 (RFC 9438, section 4.7; `fast_convergence`). `None`: W_max is the
    /// window itself.
    pub fast_convergence_2048: Option<u32>,
    /// Reno-friendly region: CUBIC grows at least as fast as a Reno flow that adds one segment per
    /// this many eighths of its window acknowledged (RFC 9438, section 4.3; `tcp_friendliness`,
    /// `beta_scale`). `None`: disabled.
    pub friendly_eighths: Option<u32>,
}

impl CubicConstants {
    /// Linux: C = 0.4 and beta = 0.7. The Reno-friendly estimate uses 8 (1 + 0.7) / 3 / (1 - 0.7)
    /// eighths.
    pub const LINUX: CubicConstants = CubicConstants {
        c_1024: 410,
        beta_1024: 717,
        fast_convergence_2048: Some(1024 + 717),
        friendly_eighths: Some(15),
    };
    /// Apple's systems with `net.inet.tcp.cubic_rfc_compliant` (XNU, `tcp_cubic.c`): C = 0.4,
    /// beta = 0.7 and fast convergence to 0.85, as in Linux.
    pub const APPLE: CubicConstants = CubicConstants::LINUX;
    /// Apple's systems without that setting: C = 0.4, beta = 0.8, fast convergence to 0.875, and a
    /// Reno estimate of one segment per window.
    pub const APPLE_OLD: CubicConstants = CubicConstants {
        beta_1024: 819,
        fast_convergence_2048: Some(1792),
        friendly_eighths: Some(8),
        ..CubicConstants::LINUX
    };
    /// CUBIC with beta = 0.8 and otherwise as in RFC 9438: the Reno estimate grows by 3 (1 - 0.8) /
    /// (1 + 0.8) = 1/3 segment per round trip, and fast convergence is to (1 + 0.8) / 2.
    pub const BETA_EIGHT_TENTHS: CubicConstants = CubicConstants {
        beta_1024: 819,
        fast_convergence_2048: Some(1024 + 819),
        friendly_eighths: Some(24),
        ..CubicConstants::LINUX
    };
    /// The iPhone measured by Hozumi (2017): C = 0.25 and beta = 0.8. XNU added fast convergence
    /// later, and its Reno-friendly region mattered only when the windows at losses varied.
    pub const IPHONE_2017: CubicConstants =
        CubicConstants { c_1024: 256, beta_1024: 819, fast_convergence_2048: None, friendly_eighths: None };
}

/// State between two reductions (`struct bictcp`).
#[derive(Clone, Debug)]
pub struct Cubic {
    constants: CubicConstants,
    /// Acknowledged segments per segment of growth.
    cnt: u32,
    last_max_cwnd: u32,
    last_cwnd: u32,
    last_time: u64,
    origin: u32,
    /// K in units of 1/1024 s.
    k: u64,
    delay_min_us: u64,
    /// Start of the epoch in ticks; 0 means that no epoch has started.
    epoch_start: u64,
    ack_cnt: u64,
    tcp_cwnd: u32,
    hystart: Hystart,
}

impl Cubic {
    /// Creates CUBIC with Linux's constants in its initial state.
    pub fn new(exit: SlowStartExit) -> Cubic {
        Cubic::with(CubicConstants::LINUX, exit)
    }

    /// Creates CUBIC with other constants in its initial state.
    pub fn with(constants: CubicConstants, exit: SlowStartExit) -> Cubic {
        Cubic {
            constants,
            cnt: 0,
            last_max_cwnd: 0,
            last_cwnd: 0,
            last_time: 0,
            origin: 0,
            k: 0,
            delay_min_us: 0,
            epoch_start: 0,
            ack_cnt: 0,
            tcp_cwnd: 0,
            hystart: Hystart::new(exit),
        }
    }

    /// `bictcp_update`
    fn update(&mut self, window: &Window, acked: u32) {
        let cwnd = window.cwnd;
        let now = window.jiffies();
        self.ack_cnt += u64::from(acked);
        if self.last_cwnd == cwnd && now - self.last_time <= u64::from(window.hz) / 32 {
            return;
        }
        // The cubic function is evaluated once per tick, and at the start of an epoch.
        if self.epoch_start == 0 || now != self.last_time {
            self.evaluate(window, acked, now);
        }
        if let Some(eighths) = self.constants.friendly_eighths {
            let per = (u64::from(cwnd) * u64::from(eighths)) >> 3;
            while self.ack_cnt > per {
                self.ack_cnt -= per;
                self.tcp_cwnd += 1;
            }
            if self.tcp_cwnd > cwnd {
                self.cnt = self.cnt.min(cwnd / (self.tcp_cwnd - cwnd));
            }
        }
        self.cnt = self.cnt.max(2);
    }

    fn evaluate(&mut self, window: &Window, acked: u32, now: u64) {
        let (cwnd, c) = (window.cwnd, u64::from(self.constants.c_1024));
        self.last_cwnd = cwnd;
        self.last_time = now;
        if self.epoch_start == 0 {
            self.epoch_start = now;
            self.ack_cnt = u64::from(acked);
            self.tcp_cwnd = cwnd;
            if self.last_max_cwnd <= cwnd {
                self.k = 0;
                self.origin = cwnd;
            } else {
                // K = cbrt((Wmax - W) / C) in 1/1024 s: the argument is scaled by 2^40 / 1024 C.
                let scaled = ((1_u64 << 40) / c) as f64 * f64::from(self.last_max_cwnd - cwnd);
                self.k = scaled.cbrt() as u64;
                self.origin = self.last_max_cwnd;
            }
        }
        let hz = u64::from(window.hz);
        let delay = (self.delay_min_us * hz).div_ceil(1_000_000);
        let t = ((now - self.epoch_start + delay) << CLOCK_BITS) / hz;
        let offset = t.abs_diff(self.k);
        let delta = (u128::from(c) * u128::from(offset).pow(3)) >> (10 + 3 * CLOCK_BITS);
        let delta = u32::try_from(delta).unwrap_or(u32::MAX);
        let target =
            if t < self.k { self.origin.saturating_sub(delta) } else { self.origin.saturating_add(delta) };
        self.cnt = if target > cwnd { cwnd / (target - cwnd) } else { cwnd.saturating_mul(100) };
        if self.last_max_cwnd == 0 && self.cnt > 20 {
            // Before the first loss the window grows by 5 % per round trip.
            self.cnt = 20;
        }
    }
}

impl CongestionControl for Cubic {
    fn name(&self) -> &'static str {
        "cubic"
    }

    /// `cubictcp_recalc_ssthresh`, with fast convergence (RFC 9438, section 4.7).
    fn ssthresh(&mut self, window: &mut Window) -> u32 {
        self.epoch_start = 0;
        let (cwnd, beta) = (u64::from(window.cwnd), u64::from(self.constants.beta_1024));
        self.last_max_cwnd = match self.constants.fast_convergence_2048 {
            Some(convergence_2048) if window.cwnd < self.last_max_cwnd => {
                (cwnd * u64::from(convergence_2048) / 2048) as u32
            }
            _ => window.cwnd,
        };
        ((cwnd * beta / SCALE) as u32).max(2)
    }

    /// `cubictcp_cong_avoid`
    fn cong_avoid(&mut self, window: &mut Window, acked: u32) {
        if !window.is_cwnd_limited() {
            return;
        }
        let mut left = acked;
        if window.in_slow_start() {
            left = window.slow_start(self.hystart.growth(acked));
        }
        if left > 0 && !window.in_slow_start() {
            self.update(window, left);
            window.additive_increase(self.cnt, left);
        }
    }

    /// `cubictcp_acked`
    fn pkts_acked(&mut self, window: &mut Window, sample: &AckSample) {
        let Some(rtt_us) = sample.rtt_us else { return };
        // Just after a reduction the delay does not reflect the standing queue.
        if self.epoch_start > 0
            && window.jiffies() - self.epoch_start.min(window.jiffies()) < u64::from(window.hz)
        {
            return;
        }
        let rtt_us = rtt_us.max(1);
        if self.delay_min_us == 0 || rtt_us < self.delay_min_us {
            self.delay_min_us = rtt_us;
        }
        if window.in_slow_start() {
            self.hystart.update(window, rtt_us, self.delay_min_us);
        }
    }

    /// `cubictcp_state`
    fn set_state(&mut self, window: &mut Window, state: CaState) {
        if state == CaState::Loss {
            let mut hystart = self.hystart.clone();
            hystart.restart(window);
            *self = Cubic { hystart, ..Cubic::with(self.constants, SlowStartExit::Loss) };
        }
    }

    /// Ends the epoch. The next one starts when the bound no longer limits the window.
    fn held(&mut self) {
        self.epoch_start = 0;
    }

    /// `cubictcp_init`
    fn init(&mut self, window: &mut Window) {
        self.hystart.reset(window);
    }

    /// `cubictcp_cwnd_event`: excludes idle time from the epoch.
    fn cwnd_event(&mut self, window: &mut Window, event: CwndEvent) {
        if let CwndEvent::TxStart { last_sent_ns } = event
            && self.epoch_start > 0
        {
            let idle =
                (u128::from(window.nanos_since(last_sent_ns)) * u128::from(window.hz) / 1_000_000_000) as u64;
            self.epoch_start = (self.epoch_start + idle).min(window.jiffies());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::MILLISECOND;

    fn window(cwnd: u32) -> Window {
        let mut window = Window::new(1000, 1448, false);
        window.cwnd = cwnd;
        window.cwnd_limited = true;
        window
    }

    /// RFC 9438, figure 1: W(t) = C (t - K)^3 + Wmax, K = cbrt((Wmax - cwnd) / C).
    fn w_cubic(t: f64, w_max: f64, start: f64) -> f64 {
        let k = ((w_max - start) / 0.4).cbrt();
        0.4 * (t - k).powi(3) + w_max
    }

    #[test]
    fn between_losses_the_window_is_w_cubic_within_one_segment() {
        for (w_max, rtt_ms) in [(1000_u32, 100_u64), (400, 50), (2000, 200)] {
            let mut cubic = Cubic::new(SlowStartExit::Hystart);
            let mut w = window(w_max);
            w.ssthresh = w_max;
            w.cwnd = cubic.ssthresh(&mut w);
            w.ssthresh = w.cwnd;
            assert_eq!(w.cwnd, w_max * 717 / 1024);
            let start = f64::from(w.cwnd);
            cubic.delay_min_us = rtt_ms * 1000;
            let mut t_ms = 0_u64;
            // ACKs arrive evenly, one window per round trip.
            let mut owed = 0.0;
            let k = ((f64::from(w_max) - start) / 0.4).cbrt();
            while (t_ms as f64) < k * 1.5 * 1000.0 {
                w.now_ns += MILLISECOND;
                t_ms += 1;
                owed += f64::from(w.cwnd) / rtt_ms as f64;
                let acked = owed as u32;
                owed -= f64::from(acked);
                if acked > 0 {
                    cubic.cong_avoid(&mut w, acked);
                }
                // The algorithm aims at W(t + RTT) and reaches it one round trip later.
                let t = t_ms as f64 / 1000.0;
                let slack = 1.0 + w_cubic(t + rtt_ms as f64 / 1000.0, f64::from(w_max), start)
                    - w_cubic(t, f64::from(w_max), start);
                let expected = w_cubic(t, f64::from(w_max), start);
                assert!(
                    f64::from(w.cwnd) > expected - 1.5 && f64::from(w.cwnd) < expected + slack,
                    "Wmax {w_max}, RTT {rtt_ms} ms, t {t}: {} instead of {expected:.1}",
                    w.cwnd
                );
            }
        }
    }

    #[test]
    fn fast_convergence_lowers_w_max() {
        let mut cubic = Cubic::new(SlowStartExit::Hystart);
        assert_eq!(cubic.ssthresh(&mut window(200)), 140);
        assert_eq!(cubic.last_max_cwnd, 200);
        assert_eq!(cubic.ssthresh(&mut window(150)), 105);
        assert_eq!(cubic.last_max_cwnd, 150 * 1741 / 2048);
        assert_eq!(cubic.ssthresh(&mut window(1)), 2);
    }

    #[test]
    fn small_windows_grow_as_reno_would() {
        // RFC 9438, section 4.3: alpha = 3 (1 - 0.7) / (1 + 0.7) = 0.53 segments per round trip;
        // Linux uses 8/15.
        let mut cubic = Cubic::new(SlowStartExit::Hystart);
        let mut w = window(20);
        w.cwnd = cubic.ssthresh(&mut w);
        w.ssthresh = w.cwnd;
        cubic.delay_min_us = 2000;
        let (start, rounds) = (w.cwnd, 200);
        for _ in 0..rounds {
            for _ in 0..w.cwnd {
                w.now_ns += 2 * MILLISECOND / u64::from(w.cwnd);
                cubic.cong_avoid(&mut w, 1);
            }
        }
        let per_round = f64::from(w.cwnd - start) / f64::from(rounds);
        assert!((per_round - 8.0 / 15.0).abs() < 0.05, "{per_round}");
    }

    #[test]
    fn a_timeout_resets_everything_but_the_kind_of_slow_start_exit() {
        let mut cubic = Cubic::new(SlowStartExit::Hystart);
        cubic.ssthresh(&mut window(200));
        cubic.set_state(&mut window(1), CaState::Loss);
        assert_eq!((cubic.last_max_cwnd, cubic.epoch_start, cubic.delay_min_us), (0, 0, 0));
    }
}
