//! Reno (RFC 5681) as `tcp_cong.c` has it: one segment per round trip, half after a loss.
//!
//! The yardstick of the others: growth does not depend on time, delay or the former window.

use crate::{CongestionControl, Window};

/// Slow start, one segment per window, half after a loss.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reno;

impl CongestionControl for Reno {
    fn name(&self) -> &'static str {
        "reno"
    }

    fn ssthresh(&mut self, window: &mut Window) -> u32 {
        window.half()
    }

    fn cong_avoid(&mut self, window: &mut Window, acked: u32) {
        window.grow_as_reno(acked);
    }
}
