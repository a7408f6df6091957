//! Veno (C. P. Fu, S. C. Liew, "TCP Veno: TCP enhancement for transmission over wireless access
//! networks", 2003; `tcp_veno.c`): Reno that uses Vegas's estimate of the queue to distinguish
//! congestion losses from wireless losses.
//!
//! Characteristics: with at least three queued segments the window grows every second round trip
//! and a loss halves it. With fewer it grows like Reno's and a loss multiplies it by 4/5. Growth
//! has a knee where the queue starts.

use crate::{AckSample, CaState, CongestionControl, CwndEvent, Window};

/// Queue that indicates congestion (`beta`), in half segments.
const CONGESTED: u64 = 3 << 1;
/// No RTT sample yet, µs.
const NO_RTT: u64 = 0x7fff_ffff;
/// Samples required for an estimate.
const SAMPLES: u32 = 3;

/// State of Veno.
#[derive(Clone, Debug)]
pub struct Veno {
    on: bool,
    samples: u32,
    /// Minimum RTT since the last growth, and overall, µs.
    min_us: u64,
    base_us: u64,
    /// Whether the window grows in the next round trip.
    grows: bool,
    /// Estimated queue, in half segments.
    queued: u64,
}

impl Default for Veno {
    fn default() -> Veno {
        Veno { on: true, samples: 0, min_us: NO_RTT, base_us: NO_RTT, grows: true, queued: 0 }
    }
}

impl Veno {
    fn start(&mut self) {
        self.on = true;
        self.min_us = NO_RTT;
    }

    fn restart(&mut self) {
        self.base_us = NO_RTT;
        self.grows = true;
        self.start();
    }

    fn grow(&mut self, window: &mut Window, acked: u32) {
        let cwnd = u64::from(window.cwnd);
        self.queued = (cwnd << 1) - ((cwnd * self.base_us) << 1) / self.min_us;
        let left = if window.in_slow_start() { window.slow_start(acked) } else { acked };
        if left == 0 {
            return;
        }
        if self.queued < CONGESTED {
            window.additive_increase(window.cwnd, left);
        } else if window.cwnd_cnt >= window.cwnd {
            window.cwnd += u32::from(self.grows);
            self.grows = !self.grows;
            window.cwnd_cnt = 0;
        } else {
            window.cwnd_cnt += left;
        }
    }
}

impl CongestionControl for Veno {
    fn name(&self) -> &'static str {
        "veno"
    }

    fn init(&mut self, _window: &mut Window) {
        self.restart();
    }

    fn ssthresh(&mut self, window: &mut Window) -> u32 {
        if self.queued < CONGESTED { (window.cwnd * 4 / 5).max(2) } else { window.half() }
    }

    fn cong_avoid(&mut self, window: &mut Window, acked: u32) {
        if !self.on {
            window.grow_as_reno(acked);
            return;
        }
        if !window.is_cwnd_limited() {
            return;
        }
        if self.samples < SAMPLES {
            window.grow_as_reno(acked);
        } else {
            self.grow(window, acked);
            window.cwnd = window.cwnd.max(2);
        }
        self.min_us = NO_RTT;
    }

    fn pkts_acked(&mut self, _window: &mut Window, sample: &AckSample) {
        let Some(rtt_us) = sample.rtt_us else { return };
        let rtt_us = rtt_us + 1;
        self.base_us = self.base_us.min(rtt_us);
        self.min_us = self.min_us.min(rtt_us);
        self.samples = self.samples.saturating_add(1);
    }

    fn set_state(&mut self, _window: &mut Window, state: CaState) {
        if state == CaState::Open {
            self.start();
        } else {
            self.on = false;
        }
    }

    fn cwnd_event(&mut self, _window: &mut Window, event: CwndEvent) {
        if matches!(event, CwndEvent::Restart | CwndEvent::TxStart { .. }) {
            self.restart();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_of_three_halves_growth_and_sets_beta() {
        for (queued_us, per_round, beta) in [(500, 1.0, 0.8), (5000, 0.5, 0.5)] {
            let mut veno = Veno::default();
            let mut w = Window::new(250, 1448, false);
            (w.cwnd, w.ssthresh, w.cwnd_limited) = (100, 50, true);
            let at_base = AckSample { rtt_us: Some(50_000), ..AckSample::default() };
            (0..3).for_each(|_| veno.pkts_acked(&mut w, &at_base));
            for _ in 0..20 {
                for _ in 0..w.cwnd {
                    let sample = AckSample { rtt_us: Some(50_000 + queued_us), ..AckSample::default() };
                    veno.pkts_acked(&mut w, &sample);
                    veno.cong_avoid(&mut w, 1);
                }
            }
            let grown = f64::from(w.cwnd - 100) / 20.0;
            assert!((grown - per_round).abs() <= 0.1, "{queued_us} us: {grown} per round trip");
            w.cwnd = 100;
            assert_eq!(f64::from(veno.ssthresh(&mut w)), 100.0 * beta);
        }
    }
}
