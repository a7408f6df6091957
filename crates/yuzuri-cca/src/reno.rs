//! Reno (RFC 5681) as in `tcp_cong.c`: the window grows by one segment per round trip and is halved
//! on loss.
//!
//! The reference for the other algorithms: growth does not depend on time, delay or the former
//! window.

use crate::{CongestionControl, Window};

/// Reno: slow start, then one segment per window; halved on loss.
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
