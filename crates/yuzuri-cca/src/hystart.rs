//! Detection of the end of slow start before a loss: HyStart as in Linux, or HyStart++ (RFC 9406).

use crate::Window;
use crate::time::{MICROSECOND, MILLISECOND};
use serde::{Deserialize, Serialize};

/// How CUBIC leaves slow start before a loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SlowStartExit {
    /// Slow start ends only on loss.
    Loss,
    /// HyStart with ACK train and delay detection (`hystart_update` in `tcp_cubic.c`).
    #[default]
    Hystart,
    /// HyStart++ (RFC 9406).
    HystartPlusPlus,
}

/// Minimum window for HyStart, segments (`hystart_low_window`).
const LOW_WINDOW: u32 = 16;
/// RTT samples per round (`HYSTART_MIN_SAMPLES`, `N_RTT_SAMPLE` in RFC 9406).
const SAMPLES: u32 = 8;
/// Maximum gap between ACKs of a train, ns (`hystart_ack_delta_us`).
const TRAIN_GAP: u64 = 2 * MILLISECOND;
/// `CSS_GROWTH_DIVISOR` of RFC 9406.
const CSS_GROWTH_DIVISOR: u32 = 4;
/// `CSS_ROUNDS` of RFC 9406.
const CSS_ROUNDS: u32 = 5;

/// Delay that indicates a queue, µs: an eighth of the minimum RTT, clamped to 4 to 16 ms
/// (`HYSTART_DELAY_THRESH`, RFC 9406).
fn delay_threshold_us(base_us: u64) -> u64 {
    (base_us >> 3).clamp(4000, 16_000)
}

/// State of HyStart.
#[derive(Clone, Debug)]
pub(crate) struct Hystart {
    kind: SlowStartExit,
    found: bool,
    end: u32,
    round_start_ns: u64,
    last_ack_ns: u64,
    round_rtt_us: u64,
    samples: u32,
    last_round_rtt_us: u64,
    /// Conservative slow start: RTT at entry and number of rounds.
    css: Option<(u64, u32)>,
    css_acked: u32,
}

impl Hystart {
    pub(crate) fn new(kind: SlowStartExit) -> Hystart {
        Hystart {
            kind,
            found: false,
            end: 0,
            round_start_ns: 0,
            last_ack_ns: 0,
            round_rtt_us: u64::MAX,
            samples: 0,
            last_round_rtt_us: u64::MAX,
            css: None,
            css_acked: 0,
        }
    }

    /// Starts a round (`bictcp_hystart_reset`).
    pub(crate) fn reset(&mut self, window: &Window) {
        self.round_start_ns = window.now_ns;
        self.last_ack_ns = window.now_ns;
        self.end = window.snd_nxt;
        self.last_round_rtt_us = self.round_rtt_us;
        self.round_rtt_us = u64::MAX;
        self.samples = 0;
    }

    /// Restarts after a retransmission timeout (`bictcp_reset`).
    pub(crate) fn restart(&mut self, window: &Window) {
        *self = Hystart::new(self.kind);
        self.reset(window);
    }

    /// Number of segments by which slow start may grow for `acked` acknowledged ones.
    pub(crate) fn growth(&mut self, acked: u32) -> u32 {
        if self.css.is_none() {
            return acked;
        }
        self.css_acked += acked;
        let growth = self.css_acked / CSS_GROWTH_DIVISOR;
        self.css_acked %= CSS_GROWTH_DIVISOR;
        growth
    }

    /// Processes an RTT sample in slow start. Sets ssthresh to the window when slow start should
    /// end.
    pub(crate) fn update(&mut self, window: &mut Window, rtt_us: u64, delay_min_us: u64) {
        if self.found {
            return;
        }
        // Rounds are counted from the first ACK on, whatever the window, as in the kernel's traces.
        let round_ended = window.snd_una > self.end;
        if round_ended {
            self.reset(window);
        }
        match self.kind {
            SlowStartExit::Loss => {}
            SlowStartExit::Hystart => self.update_linux(window, rtt_us, delay_min_us),
            SlowStartExit::HystartPlusPlus => self.update_plus_plus(round_ended, rtt_us),
        }
        if self.found {
            window.ssthresh = window.cwnd;
        }
    }

    fn update_linux(&mut self, window: &Window, rtt_us: u64, delay_min_us: u64) {
        if window.cwnd < LOW_WINDOW {
            return;
        }
        if window.now_ns <= self.last_ack_ns.saturating_add(TRAIN_GAP) {
            self.last_ack_ns = window.now_ns;
            // `hystart_ack_delay`: four super-segments of the maximum size (64 KiB) at the pacing
            // rate, at most 1 ms.
            let ack_delay_us = (4 * 65_536 * 1_000_000_u64)
                .checked_div(window.pacing_rate)
                .map_or(0, |delay_us| delay_us.min(1000));
            let mut threshold_us = delay_min_us + ack_delay_us;
            if !window.paced {
                threshold_us >>= 1;
            }
            if window.nanos_since(self.round_start_ns) / MICROSECOND > threshold_us {
                self.found = true;
            }
        }
        self.round_rtt_us = self.round_rtt_us.min(rtt_us);
        if self.samples < SAMPLES {
            self.samples += 1;
        } else if self.round_rtt_us > delay_min_us + delay_threshold_us(delay_min_us) {
            self.found = true;
        }
    }

    fn update_plus_plus(&mut self, round_ended: bool, rtt_us: u64) {
        if round_ended && let Some((_, rounds)) = &mut self.css {
            *rounds += 1;
            self.found = *rounds >= CSS_ROUNDS;
        }
        self.round_rtt_us = self.round_rtt_us.min(rtt_us);
        self.samples += 1;
        if self.samples < SAMPLES || self.last_round_rtt_us == u64::MAX {
            return;
        }
        match self.css {
            None if self.round_rtt_us
                >= self.last_round_rtt_us + delay_threshold_us(self.last_round_rtt_us) =>
            {
                self.css = Some((self.round_rtt_us, 0));
            }
            Some((baseline, _)) if self.round_rtt_us < baseline => self.css = None,
            _ => {}
        }
    }
}
