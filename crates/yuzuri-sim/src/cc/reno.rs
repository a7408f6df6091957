//! Reno (RFC 5681) as `tcp_cong.c` has it.

use super::{CongestionControl, Window};

/// Slow start, one segment per window, half after a loss.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reno;

impl CongestionControl for Reno {
    fn name(&self) -> &'static str {
        "reno"
    }

    /// `tcp_reno_ssthresh`
    fn ssthresh(&mut self, window: &mut Window) -> u32 {
        (window.cwnd >> 1).max(2)
    }

    /// `tcp_reno_cong_avoid`
    fn cong_avoid(&mut self, window: &mut Window, acked: u32) {
        if !window.is_cwnd_limited() {
            return;
        }
        let left = if window.in_slow_start() { window.slow_start(acked) } else { acked };
        if left > 0 {
            window.additive_increase(window.cwnd, left);
        }
    }
}
