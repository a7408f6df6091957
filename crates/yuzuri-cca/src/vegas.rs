//! Vegas (L. Brakmo, L. Peterson, "TCP Vegas: end to end congestion avoidance on a global
//! internet", 1995; `tcp_vegas.c`). Once per round trip it compares the window with the one that
//! the minimum RTT would require, and keeps two to four segments in the queue.
//!
//! Characteristics: only the delay changes the window, by at most one segment per round trip.
//! Without competing flows the window is constant and nothing is lost. A loss halves it as in Reno.

use crate::{AckSample, CaState, CongestionControl, CwndEvent, Window};

/// Queued segments below which the window grows, above which it shrinks, and above which slow start
/// ends.
const ALPHA: u64 = 2;
const BETA: u64 = 4;
const GAMMA: u64 = 1;
/// No RTT sample yet, µs.
const NO_RTT: u64 = 0x7fff_ffff;
/// Minimum number of samples per round. Fewer may all be from delayed ACKs.
pub(crate) const SAMPLES: u32 = 3;

/// RTTs of the current round and overall.
#[derive(Clone, Debug)]
pub(crate) struct DelayRounds {
    /// Whether RTTs are measured; off from a congestion signal until the state is Open again.
    pub(crate) on: bool,
    pub(crate) end: u32,
    pub(crate) samples: u32,
    pub(crate) min_us: u64,
    pub(crate) base_us: u64,
}

impl Default for DelayRounds {
    fn default() -> DelayRounds {
        DelayRounds { on: true, end: 0, samples: 0, min_us: NO_RTT, base_us: NO_RTT }
    }
}

impl DelayRounds {
    fn start(&mut self, window: &Window) {
        self.on = true;
        self.next(window);
    }

    /// `tcp_vegas_init`
    pub(crate) fn restart(&mut self, window: &Window) {
        self.base_us = NO_RTT;
        self.start(window);
    }

    /// Starts the next round.
    pub(crate) fn next(&mut self, window: &Window) {
        self.end = window.snd_nxt;
        self.samples = 0;
        self.min_us = NO_RTT;
    }

    pub(crate) fn is_over(&self, window: &Window) -> bool {
        window.snd_una > self.end
    }

    /// `tcp_vegas_pkts_acked`
    pub(crate) fn sample(&mut self, sample: &AckSample) {
        let Some(rtt_us) = sample.rtt_us else { return };
        let rtt_us = rtt_us + 1;
        self.base_us = self.base_us.min(rtt_us);
        self.min_us = self.min_us.min(rtt_us);
        self.samples += 1;
    }

    /// `tcp_vegas_state`
    pub(crate) fn state(&mut self, window: &Window, state: CaState) {
        if state == CaState::Open {
            self.start(window);
        } else {
            self.on = false;
        }
    }

    /// `tcp_vegas_cwnd_event`
    pub(crate) fn event(&mut self, window: &Window, event: CwndEvent) {
        if matches!(event, CwndEvent::Restart | CwndEvent::TxStart { .. }) {
            self.restart(window);
        }
    }
}

/// State of Vegas.
#[derive(Clone, Debug, Default)]
pub struct Vegas {
    rounds: DelayRounds,
}

impl Vegas {
    /// Adjusts the window once per round trip.
    fn adjust(&mut self, window: &mut Window, acked: u32) {
        let (base_us, rtt_us, cwnd) = (self.rounds.base_us, self.rounds.min_us, u64::from(window.cwnd));
        let queued = cwnd * (rtt_us - base_us) / base_us;
        let slow_start = window.in_slow_start();
        if slow_start && queued > GAMMA {
            // Reduces the window to the achieved rate, plus one segment because the division rounds
            // down.
            let target = (cwnd * base_us / rtt_us) as u32;
            window.cwnd = window.cwnd.min(target + 1);
            window.ssthresh = window.ssthresh.min(window.cwnd);
        } else if slow_start {
            window.slow_start(acked);
        } else if queued > BETA {
            window.cwnd -= 1;
            window.ssthresh = window.ssthresh.min(window.cwnd);
        } else if queued < ALPHA {
            window.cwnd += 1;
        }
        window.cwnd = window.cwnd.max(2);
        window.ssthresh = window.current_ssthresh();
    }
}

impl CongestionControl for Vegas {
    fn name(&self) -> &'static str {
        "vegas"
    }

    fn init(&mut self, window: &mut Window) {
        self.rounds.restart(window);
    }

    fn ssthresh(&mut self, window: &mut Window) -> u32 {
        window.half()
    }

    fn cong_avoid(&mut self, window: &mut Window, acked: u32) {
        if !self.rounds.on {
            window.grow_as_reno(acked);
        } else if self.rounds.is_over(window) {
            if self.rounds.samples < SAMPLES {
                window.grow_as_reno(acked);
            } else {
                self.adjust(window, acked);
            }
            self.rounds.next(window);
        } else if window.in_slow_start() {
            window.slow_start(acked);
        }
    }

    fn pkts_acked(&mut self, _window: &mut Window, sample: &AckSample) {
        self.rounds.sample(sample);
    }

    fn set_state(&mut self, window: &mut Window, state: CaState) {
        self.rounds.state(window, state);
    }

    fn cwnd_event(&mut self, window: &mut Window, event: CwndEvent) {
        self.rounds.event(window, event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_to_four_segments_stay_in_the_queue() {
        // At 50 ms and a window of 100, a queued segment adds 0.5 ms.
        for (queued_us, after) in [(400, 101), (1100, 100), (2200, 100), (2600, 99)] {
            let mut w = Window::new(250, 1448, false);
            (w.cwnd, w.ssthresh) = (100, 50);
            let mut vegas = Vegas::default();
            (vegas.rounds.base_us, vegas.rounds.min_us) = (50_000, 50_000 + queued_us);
            vegas.adjust(&mut w, 1);
            assert_eq!(w.cwnd, after, "{queued_us} us");
        }
    }

    #[test]
    fn slow_start_ends_at_the_delivered_rate() {
        let mut w = Window::new(250, 1448, false);
        w.cwnd = 100;
        let mut vegas = Vegas::default();
        (vegas.rounds.base_us, vegas.rounds.min_us) = (50_000, 62_500);
        vegas.adjust(&mut w, 1);
        assert_eq!((w.cwnd, w.ssthresh), (81, 81));
    }
}
