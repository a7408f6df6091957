//! Hybla (C. Caini, R. Firrincieli, "TCP Hybla: a TCP enhancement for heterogeneous networks",
//! 2004; `tcp_hybla.c`): grows like Reno with an RTT of 25 ms, whatever the actual RTT.
//!
//! Characteristics: rho = RTT / 25 ms. Per ACK, the window grows by 2^rho - 1 segments in slow
//! start and by rho^2 / W in congestion avoidance. The initial window is rho. A loss halves the
//! window as in Reno.

use crate::{CaState, CongestionControl, Window};

/// Reference RTT, µs (`rtt0`).
const REFERENCE_RTT_US: u64 = 25_000;
/// 1 with 7 fraction bits.
const ONE: u32 = 128;
/// 2^(n/8) with 7 fraction bits.
const EIGHTH_POWERS: [u32; 8] = [128, 139, 152, 165, 181, 197, 215, 234];
/// Maximum power of two that slow start adds.
const MAX_POWER: u32 = 16;
/// Maximum window (`snd_cwnd_clamp`), segments.
const CLAMP: u32 = 65_535;

/// State of Hybla.
#[derive(Clone, Debug, Default)]
pub struct Hybla {
    enabled: bool,
    /// Accumulated growth below one segment, with 7 fraction bits.
    fraction: u32,
    /// rho in units of 1/8, at least 1.
    rho_eighths: u32,
    min_srtt_us: u64,
}

impl Hybla {
    fn measure(&mut self, window: &Window) {
        self.rho_eighths = ((window.srtt_us * 8 / REFERENCE_RTT_US) as u32).max(8);
    }

    fn rho(&self) -> u32 {
        self.rho_eighths >> 3
    }

    /// rho^2 with 7 fraction bits.
    fn rho_squared(&self) -> u32 {
        self.rho_eighths.saturating_mul(self.rho_eighths).saturating_mul(2)
    }
}

impl CongestionControl for Hybla {
    fn name(&self) -> &'static str {
        "hybla"
    }

    fn init(&mut self, window: &mut Window) {
        *self = Hybla { enabled: true, min_srtt_us: window.srtt_us, ..Hybla::default() };
        self.measure(window);
        window.cwnd = self.rho();
    }

    fn ssthresh(&mut self, window: &mut Window) -> u32 {
        window.half()
    }

    fn cong_avoid(&mut self, window: &mut Window, acked: u32) {
        if window.srtt_us < self.min_srtt_us {
            self.measure(window);
            self.min_srtt_us = window.srtt_us;
        }
        if !window.is_cwnd_limited() {
            return;
        }
        if !self.enabled {
            window.grow_as_reno(acked);
            return;
        }
        if self.rho() == 0 {
            self.measure(window);
        }
        let slow_start = window.in_slow_start();
        let increment = if slow_start {
            let eighths = (self.rho_eighths & 7) as usize;
            (1 << self.rho().min(MAX_POWER)) * EIGHTH_POWERS[eighths] - ONE
        } else {
            let increment = self.rho_squared() / window.cwnd.max(1);
            if increment < ONE {
                window.cwnd_cnt += 1;
            }
            increment
        };
        let odd = increment % ONE;
        window.cwnd = window.cwnd.saturating_add(increment / ONE);
        self.fraction += odd;
        while self.fraction >= ONE {
            window.cwnd += 1;
            self.fraction -= ONE;
            window.cwnd_cnt = 0;
        }
        if increment == 0 && window.cwnd_cnt >= window.cwnd {
            // Above rho^2 * 128 the window grows like Reno's.
            window.cwnd += 1;
            window.cwnd_cnt = 0;
        }
        if slow_start {
            window.cwnd = window.cwnd.min(window.ssthresh);
        }
        window.cwnd = window.cwnd.min(CLAMP);
    }

    fn set_state(&mut self, _window: &mut Window, state: CaState) {
        self.enabled = state == CaState::Open;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_by_rho_squared_per_round_trip() {
        for (srtt_us, per_round) in [(25_000, 1), (50_000, 4), (100_000, 16)] {
            let mut w = Window::new(250, 1448, false);
            (w.srtt_us, w.cwnd_limited) = (srtt_us, true);
            let mut hybla = Hybla::default();
            hybla.init(&mut w);
            assert_eq!(u64::from(w.cwnd), srtt_us / 25_000);
            (w.cwnd, w.ssthresh) = (100, 50);
            for _ in 0..100 {
                hybla.cong_avoid(&mut w, 1);
            }
            assert!(w.cwnd.abs_diff(100 + per_round) <= 2, "{srtt_us} us: {}", w.cwnd);
        }
    }
}
