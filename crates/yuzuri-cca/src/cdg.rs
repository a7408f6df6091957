//! CAIA Delay-Gradient (D. Hayes, G. Armitage, "Revisiting TCP congestion control using delay
//! gradients", 2011; `tcp_cdg.c`). Backs off randomly, with a probability that grows with the
//! gradient of the minimum and maximum RTT from one round trip to the next.
//!
//! Characteristics: no absolute delay is needed. A back-off multiplies the window by 0.707. After
//! five back-offs without effect, the queue is attributed to other flows and CDG waits for a loss.
//! A shadow window tracks the window of a loss-based algorithm. Slow start ends by a variant of
//! HyStart.

use crate::time::MICROSECOND;
use crate::{AckSample, CongestionControl, CwndEvent, Window};
use rand_core::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg32;

/// Number of round trips over which gradients are summed (`window`).
const ROUNDS: usize = 8;
/// Scale of the back-off probability, 1 - exp(-n g / 1 s) for a gradient g (`backoff_factor`).
const BACKOFF_FACTOR: u64 = 42;
/// Number of ineffectual back-offs in a row that are still performed (`use_ineff`).
const INEFFECTUAL: u32 = 5;
/// A gradient below this value shows that a back-off had an effect, µs.
const EFFECT_US: i64 = -32;
/// ACKs closer than this belong to the same train, µs.
const TRAIN_GAP_US: u64 = 3000;
/// Minimum delay threshold of HyStart, µs.
const MIN_THRESHOLD_US: u64 = 125;
/// RTT samples before HyStart evaluates the delay.
const SAMPLES: u32 = 8;
/// Maximum count of the delayed-ACK filter.
const MAX_DELAYED: u32 = 5;

/// Minimum and maximum RTT of a round trip, µs; 0 means no sample.
#[derive(Clone, Copy, Debug, Default)]
struct Range {
    min: i64,
    max: i64,
}

impl Range {
    fn is_empty(self) -> bool {
        self.min == 0 && self.max == 0
    }
}

/// State of CDG.
#[derive(Clone, Debug)]
pub struct Cdg {
    random: Pcg32,
    rtt: Range,
    previous: Range,
    gradients: [Range; ROUNDS],
    sum: Range,
    filled: bool,
    tail: usize,
    backing_off: bool,
    delayed: u32,
    round_end: u32,
    shadow: u32,
    backoffs: u32,
    samples: u32,
    delay_min_us: i64,
    last_ack_us: Option<u64>,
    round_start_us: u64,
}

impl Cdg {
    /// Factor of a back-off, in units of 1/1024 (`backoff_beta`).
    pub const BACKOFF_BETA_1024: u32 = 724;

    /// Creates CDG in its initial state. `seed` determines the random back-offs.
    pub fn new(seed: u64) -> Cdg {
        Cdg {
            random: Pcg32::seed_from_u64(seed),
            rtt: Range::default(),
            previous: Range::default(),
            gradients: [Range::default(); ROUNDS],
            sum: Range::default(),
            filled: false,
            tail: 0,
            backing_off: false,
            delayed: 0,
            round_end: 0,
            shadow: 0,
            backoffs: 0,
            samples: 0,
            delay_min_us: 0,
            last_ack_us: None,
            round_start_us: 0,
        }
    }

    fn restart(&mut self, window: &Window) {
        let random = self.random.clone();
        *self = Cdg { random, round_end: window.snd_nxt, shadow: window.cwnd, ..Cdg::new(0) };
    }

    /// `tcp_cdg_hystart_update`
    fn hystart(&mut self, window: &mut Window) {
        if self.delay_min_us == 0 || (self.rtt.min > 0 && self.rtt.min < self.delay_min_us) {
            self.delay_min_us = self.rtt.min;
        }
        if self.delay_min_us == 0 {
            return;
        }
        let min_us = self.delay_min_us as u64;
        let now_us = window.now_ns / MICROSECOND;
        match self.last_ack_us {
            Some(last_us) if window.is_cwnd_limited() => {
                if now_us < last_us + TRAIN_GAP_US {
                    self.last_ack_us = Some(now_us);
                    if now_us > self.round_start_us + (min_us / 2).max(MIN_THRESHOLD_US) {
                        window.ssthresh = window.cwnd;
                        return;
                    }
                }
            }
            _ => {
                self.last_ack_us = Some(now_us);
                self.round_start_us = now_us;
            }
        }
        if self.samples < SAMPLES {
            self.samples += 1;
        } else if self.rtt.min as u64 > (min_us + min_us / 8).max(MIN_THRESHOLD_US) {
            window.ssthresh = window.cwnd;
        }
    }

    /// Gradient summed over the last rounds, µs (`tcp_cdg_grad`).
    fn gradient(&mut self) -> i64 {
        let new = Range { min: self.rtt.min - self.previous.min, max: self.rtt.max - self.previous.max };
        let old = std::mem::replace(&mut self.gradients[self.tail], new);
        self.sum.min += new.min - old.min;
        self.sum.max += new.max - old.max;
        self.tail = (self.tail + 1) % ROUNDS;
        let mut gradient = if self.sum.min > 0 { self.sum.min } else { self.sum.max };
        if !self.filled {
            if self.tail == 0 {
                self.filled = true;
            } else {
                gradient = gradient * ROUNDS as i64 / self.tail as i64;
            }
        }
        if self.sum.min <= EFFECT_US || self.sum.max <= EFFECT_US {
            self.backoffs = 0;
        }
        gradient
    }

    /// `tcp_cdg_backoff`
    fn backs_off(&mut self, window: &mut Window, gradient_us: i64) -> bool {
        let stays = (-((gradient_us as u64 * BACKOFF_FACTOR) as f64) * 1e-6).exp();
        if f64::from(self.random.next_u32()) <= stays * f64::from(u32::MAX) {
            return false;
        }
        self.backoffs += 1;
        if self.backoffs > INEFFECTUAL {
            return false;
        }
        self.shadow = self.shadow.max(window.cwnd);
        self.backing_off = true;
        window.cwr_wanted = true;
        true
    }
}

impl CongestionControl for Cdg {
    fn name(&self) -> &'static str {
        "cdg"
    }

    fn init(&mut self, window: &mut Window) {
        self.restart(window);
    }

    fn ssthresh(&mut self, window: &mut Window) -> u32 {
        if self.backing_off {
            return ((window.cwnd * Self::BACKOFF_BETA_1024) >> 10).max(2);
        }
        self.shadow = (self.shadow >> 1).min(window.cwnd);
        self.shadow.max(window.half())
    }

    fn cong_avoid(&mut self, window: &mut Window, acked: u32) {
        if window.in_slow_start() {
            self.hystart(window);
        }
        if window.snd_una > self.round_end && !self.rtt.is_empty() {
            let gradient = if self.previous.is_empty() { 0 } else { self.gradient() };
            self.round_end = window.snd_nxt;
            self.previous = std::mem::take(&mut self.rtt);
            self.last_ack_us = None;
            self.samples = 0;
            if gradient > 0 && self.backs_off(window, gradient) {
                return;
            }
        }
        if !window.is_cwnd_limited() {
            self.shadow = self.shadow.min(window.cwnd);
            return;
        }
        let before = window.cwnd;
        window.grow_as_reno(acked);
        self.shadow = self.shadow.saturating_add(window.cwnd - before);
    }

    /// `tcp_cdg_acked`, including the filter for delayed ACKs.
    fn pkts_acked(&mut self, window: &mut Window, sample: &AckSample) {
        let Some(rtt_us) = sample.rtt_us.filter(|rtt_us| *rtt_us > 0) else { return };
        let rtt_us = rtt_us as i64;
        if window.sacked_out == 0 {
            if sample.acked == 1 && self.delayed > 0 {
                self.rtt.min = self.rtt.min.min(rtt_us);
                self.delayed -= 1;
                return;
            }
            if sample.acked > 1 && self.delayed < MAX_DELAYED {
                self.delayed += 1;
            }
        }
        self.rtt.min = if self.rtt.min == 0 { rtt_us } else { self.rtt.min.min(rtt_us) };
        self.rtt.max = self.rtt.max.max(rtt_us);
    }

    fn cwnd_event(&mut self, window: &mut Window, event: CwndEvent) {
        match event {
            CwndEvent::Restart => self.restart(window),
            CwndEvent::Reduced => {
                self.backing_off = false;
                self.round_end = window.snd_nxt;
                self.previous = std::mem::take(&mut self.rtt);
            }
            CwndEvent::TxStart { .. } | CwndEvent::Loss | CwndEvent::ProbeRepaired => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fraction of back-offs at a gradient.
    fn share(gradient_us: i64) -> f64 {
        let mut w = Window::new(250, 1448, false);
        let mut cdg = Cdg::new(7);
        let times = 20_000;
        let backed_off = (0..times).filter(|_| {
            cdg.backoffs = 0;
            cdg.backs_off(&mut w, gradient_us)
        });
        backed_off.count() as f64 / f64::from(times)
    }

    #[test]
    fn backs_off_with_the_gradients_probability() {
        // 1 - exp(-g / G) with G = 1 s / 42 = 23.8 ms, summed over eight rounds.
        for gradient_us in [1000, 5000, 23_810] {
            let expected = 1.0 - (-(gradient_us as f64) / 23_810.0).exp();
            assert!((share(gradient_us) - expected).abs() < 0.01, "{gradient_us}");
        }
    }

    #[test]
    fn after_five_ineffective_backoffs_cdg_ignores_the_gradient() {
        let mut w = Window::new(250, 1448, false);
        w.cwnd = 100;
        let mut cdg = Cdg::new(7);
        let backed_off: Vec<bool> = (0..6).map(|_| cdg.backs_off(&mut w, 1_000_000)).collect();
        assert_eq!(backed_off, [true, true, true, true, true, false]);
        assert_eq!(cdg.ssthresh(&mut w), 70);
        cdg.cwnd_event(&mut w, CwndEvent::Reduced);
        // The shadow window was 100.
        w.cwnd = 40;
        assert_eq!(cdg.ssthresh(&mut w), 40);
    }
}
