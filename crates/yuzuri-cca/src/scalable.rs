//! Scalable TCP (T. Kelly, "Scalable TCP: improving performance in highspeed wide area networks",
//! 2003; `tcp_scalable.c`): above 100 segments the window grows by 1 % per round trip, and a loss
//! multiplies it by 7/8.
//!
//! Characteristics: up to 100 segments growth equals Reno's, above that it is exponential. The time
//! between losses then does not depend on the window.

use crate::{CongestionControl, Window};

/// Maximum number of acknowledged segments per segment of growth (`TCP_SCALABLE_AI_CNT`).
pub(crate) const ACKED_PER_STEP: u32 = 100;
/// The same before Linux 5.7, which counted ACKs: "50 instead of 100 to account for delayed ack".
const ACKS_PER_STEP: u32 = 50;
/// A loss removes 1/2^n of the window (`TCP_SCALABLE_MD_SCALE`).
const DECREASE_SHIFT: u32 = 3;

/// Scalable TCP, which has no state.
#[derive(Clone, Copy, Debug)]
pub struct Scalable {
    per_step: u32,
}

impl Default for Scalable {
    fn default() -> Scalable {
        Scalable { per_step: ACKED_PER_STEP }
    }
}

impl Scalable {
    /// Scalable TCP of Linux before 5.7 ("tcp: fix stretch ACK bugs in Scalable"), for
    /// callers that pass one segment per ACK.
    pub fn counting_acks() -> Scalable {
        Scalable { per_step: ACKS_PER_STEP }
    }
}

impl CongestionControl for Scalable {
    fn name(&self) -> &'static str {
        "scalable"
    }

    fn ssthresh(&mut self, window: &mut Window) -> u32 {
        (window.cwnd - (window.cwnd >> DECREASE_SHIFT)).max(2)
    }

    fn cong_avoid(&mut self, window: &mut Window, acked: u32) {
        if !window.is_cwnd_limited() {
            return;
        }
        let left = if window.in_slow_start() { window.slow_start(acked) } else { acked };
        if left > 0 {
            window.additive_increase(window.cwnd.min(self.per_step), left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(cwnd: u32) -> Window {
        let mut window = Window::new(250, 1448, false);
        (window.cwnd, window.ssthresh, window.cwnd_limited) = (cwnd, 2, true);
        window
    }

    #[test]
    fn large_windows_grow_by_one_in_a_hundred_small_ones_as_reno() {
        for (cwnd, after) in [(50, 51), (400, 404)] {
            let mut w = window(cwnd);
            for _ in 0..cwnd {
                Scalable::default().cong_avoid(&mut w, 1);
            }
            assert_eq!(w.cwnd, after);
        }
        assert_eq!(Scalable::default().ssthresh(&mut window(160)), 140);
    }

    #[test]
    fn before_linux_5_7_a_segment_of_growth_took_fifty_acks() {
        for (cwnd, acks, after) in [(30, 30, 31), (80, 40, 80), (80, 50, 81), (400, 200, 404)] {
            let mut w = window(cwnd);
            (0..acks).for_each(|_| Scalable::counting_acks().cong_avoid(&mut w, 1));
            assert_eq!(w.cwnd, after, "{cwnd}");
        }
    }
}
