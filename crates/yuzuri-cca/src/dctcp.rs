//! DCTCP (RFC 8257; `tcp_dctcp.c`): Reno whose reductions are proportional to the fraction of
//! marked segments.
//!
//! Characteristics: with marks the window is multiplied by 1 - alpha/2, where alpha is the smoothed
//! fraction of marked segments. A loss halves the window as in Reno. Without ECN, or without marks,
//! DCTCP is identical to Reno.

use crate::{AckEvent, CaState, CongestionControl, CwndEvent, Window};

/// alpha = 1 (`DCTCP_MAX_ALPHA`), also the initial value.
const ONE: u32 = 1 << 10;
/// Weight of a new fraction: g = 1/2^n (`dctcp_shift_g`).
const GAIN_SHIFT: u32 = 4;

/// State of DCTCP.
#[derive(Clone, Debug, Default)]
pub struct Dctcp {
    /// Whether ECN was negotiated. Otherwise the algorithm is Reno.
    on: bool,
    alpha: u32,
    round_end: u32,
    delivered: u64,
    delivered_ce: u64,
    loss_cwnd: u32,
}

impl Dctcp {
    fn start_round(&mut self, window: &Window) {
        self.round_end = window.snd_nxt;
        self.delivered = window.delivered;
        self.delivered_ce = window.delivered_ce;
    }

    fn react_to_loss(&mut self, window: &mut Window) {
        self.loss_cwnd = window.cwnd;
        window.ssthresh = window.half();
    }
}

impl CongestionControl for Dctcp {
    fn name(&self) -> &'static str {
        "dctcp"
    }

    fn init(&mut self, window: &mut Window) {
        *self = Dctcp { on: window.ecn, alpha: ONE, ..Dctcp::default() };
        self.start_round(window);
    }

    fn ssthresh(&mut self, window: &mut Window) -> u32 {
        if !self.on {
            return window.half();
        }
        self.loss_cwnd = window.cwnd;
        let cut = (u64::from(window.cwnd) * u64::from(self.alpha)) >> 11;
        (window.cwnd - cut as u32).max(2)
    }

    fn cong_avoid(&mut self, window: &mut Window, acked: u32) {
        window.grow_as_reno(acked);
    }

    /// `dctcp_update_alpha`: alpha = (1 - g) alpha + g F, once per round trip.
    fn in_ack_event(&mut self, window: &mut Window, _event: AckEvent) {
        if !self.on || window.snd_una < self.round_end {
            return;
        }
        let decay = self.alpha >> GAIN_SHIFT;
        self.alpha -= if decay == 0 { self.alpha } else { decay };
        let marked = window.delivered_ce - self.delivered_ce;
        if marked > 0 {
            let share = (marked << (10 - GAIN_SHIFT)) / (window.delivered - self.delivered).max(1);
            self.alpha = (self.alpha + share as u32).min(ONE);
        }
        self.start_round(window);
    }

    fn set_state(&mut self, window: &mut Window, state: CaState) {
        if self.on && state == CaState::Recovery && window.state != CaState::Recovery {
            self.react_to_loss(window);
        }
    }

    fn cwnd_event(&mut self, window: &mut Window, event: CwndEvent) {
        if self.on && event == CwndEvent::Loss {
            self.react_to_loss(window);
        }
    }

    fn undo_cwnd(&mut self, window: &Window) -> u32 {
        window.cwnd.max(if self.on { self.loss_cwnd } else { window.prior_cwnd })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alpha_follows_the_share_of_marks() {
        let mut w = Window::new(250, 1448, false);
        w.ecn = true;
        let mut dctcp = Dctcp::default();
        dctcp.init(&mut w);
        for _ in 0..200 {
            w.snd_una = w.snd_nxt;
            w.snd_nxt += 100;
            w.delivered += 100;
            w.delivered_ce += 25;
            dctcp.in_ack_event(&mut w, AckEvent::default());
        }
        assert!((0.22..0.28).contains(&(f64::from(dctcp.alpha) / 1024.0)), "{}", dctcp.alpha);
        w.cwnd = 100;
        assert!(dctcp.ssthresh(&mut w).abs_diff(88) <= 2);
        // A loss halves the window.
        dctcp.set_state(&mut w, CaState::Recovery);
        assert_eq!(w.ssthresh, 50);
    }

    #[test]
    fn without_ecn_it_is_reno() {
        let mut w = Window::new(250, 1448, false);
        let mut dctcp = Dctcp::default();
        dctcp.init(&mut w);
        w.cwnd = 100;
        assert_eq!(dctcp.ssthresh(&mut w), 50);
    }
}
