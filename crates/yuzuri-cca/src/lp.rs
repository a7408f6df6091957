//! TCP-LP (A. Kuzmanovic, E. Knightly, "TCP-LP: low-priority service via end-point congestion
//! control", 2006; `tcp_lp.c`): Reno that backs off when the one-way delay, measured by timestamps,
//! exceeds 15 % of its range.
//!
//! Characteristics: the first early congestion indication halves the window, a further one within
//! three round trips sets it to one segment, and the window does not grow in the meantime. An
//! indication resets the range to the smoothed delay itself, which contains the clock offset of the
//! two hosts. Linux randomises that offset, so that most connections see at most one early
//! indication and otherwise behave like Reno.

use crate::time::MILLISECOND;
use crate::{AckSample, CongestionControl, Timestamps, Window};

/// Frequency of the timestamp clock, Hz (`TCP_TS_HZ`, `LP_RESOL`).
const CLOCK_HZ: u32 = 1000;
/// Percentage of the delay range above which the path counts as congested.
const THRESHOLD_PERCENT: u32 = 15;
/// Length of the inference phase, round trips. The window does not grow during this phase.
const INFERENCE_ROUNDS: u32 = 3;

/// State of TCP-LP. Delays are differences of two clocks, modulo 2^32 ms as in the kernel.
#[derive(Clone, Debug)]
pub struct Lp {
    valid: bool,
    inferring: bool,
    /// Smoothed one-way delay in units of 1/8 ms.
    smoothed: u32,
    min: u32,
    max: u32,
    /// The largest delay, not yet used as the maximum.
    max_reserved: u32,
    remote_hz: u32,
    reference: Option<Timestamps>,
    last_drop_ms: Option<u32>,
    inference_ms: u32,
}

impl Default for Lp {
    fn default() -> Lp {
        Lp {
            valid: false,
            inferring: false,
            smoothed: 0,
            min: u32::MAX,
            max: 0,
            max_reserved: 0,
            remote_hz: 0,
            reference: None,
            last_drop_ms: None,
            inference_ms: 0,
        }
    }
}

impl Lp {
    /// `tcp_lp_remote_hz_estimator`: frequency of the peer's timestamp clock.
    fn estimate_remote_hz(&mut self, now: Timestamps) {
        let before = self.reference.replace(now);
        let Some(before) = before.filter(|b| b.value_ms != now.value_ms && b.echo_ms != now.echo_ms) else {
            return;
        };
        let theirs = now.value_ms.wrapping_sub(before.value_ms);
        let ours = now.echo_ms.wrapping_sub(before.echo_ms);
        let measured = i64::from(CLOCK_HZ.wrapping_mul(theirs) / ours);
        let mut smoothed = i64::from(self.remote_hz << 6);
        smoothed = if smoothed > 0 { smoothed + measured - (smoothed >> 6) } else { measured << 6 };
        self.remote_hz = (smoothed >> 6) as u32;
    }

    /// `tcp_lp_owd_calculator`: one-way delay in ms, including the clock offset.
    fn one_way_delay(&mut self, now: Timestamps) -> Option<u32> {
        self.estimate_remote_hz(now);
        self.valid = false;
        let per_tick = CLOCK_HZ.checked_div(self.remote_hz)?;
        let delay = now.value_ms.wrapping_mul(per_tick).wrapping_sub(now.echo_ms);
        self.valid = delay > 0;
        self.valid.then_some(delay)
    }

    /// `tcp_lp_rtt_sample`
    fn sample(&mut self, now: Timestamps) {
        let Some(delay) = self.one_way_delay(now) else { return };
        self.min = self.min.min(delay);
        // The largest sample is held in reserve; the second largest becomes the maximum.
        if delay > self.max {
            if delay > self.max_reserved {
                self.max = if self.max_reserved == 0 { delay } else { self.max_reserved };
                self.max_reserved = delay;
            } else {
                self.max = delay;
            }
        }
        self.smoothed = if self.smoothed == 0 {
            delay << 3
        } else {
            self.smoothed.wrapping_add(delay).wrapping_sub(self.smoothed >> 3)
        };
    }

    fn is_congested(&self) -> bool {
        let range = self.max.wrapping_sub(self.min);
        let threshold = self.min.wrapping_add(THRESHOLD_PERCENT.wrapping_mul(range) / 100);
        self.smoothed >> 3 >= threshold
    }
}

impl CongestionControl for Lp {
    fn name(&self) -> &'static str {
        "lp"
    }

    fn init(&mut self, _window: &mut Window) {
        *self = Lp::default();
    }

    fn ssthresh(&mut self, window: &mut Window) -> u32 {
        window.half()
    }

    fn cong_avoid(&mut self, window: &mut Window, acked: u32) {
        if !self.inferring {
            window.grow_as_reno(acked);
        }
    }

    /// `tcp_lp_pkts_acked`
    fn pkts_acked(&mut self, window: &mut Window, sample: &AckSample) {
        let Some(stamps) = sample.timestamps else { return };
        if sample.rtt_us.is_some_and(|rtt_us| rtt_us > 0) {
            self.sample(stamps);
        }
        let now_ms = (window.now_ns / MILLISECOND) as u32;
        let since_echo = now_ms.wrapping_sub(stamps.echo_ms);
        if (since_echo as i32) > 0 {
            self.inference_ms = INFERENCE_ROUNDS * since_echo;
        }
        self.inferring = self.last_drop_ms.is_some_and(|last| now_ms.wrapping_sub(last) < self.inference_ms);
        if !self.is_congested() {
            return;
        }
        self.min = self.smoothed >> 3;
        self.max = self.smoothed >> 2;
        self.max_reserved = self.smoothed >> 2;
        window.cwnd = if self.inferring { 1 } else { (window.cwnd >> 1).max(1) };
        self.last_drop_ms = Some(now_ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The delay rises by 1 ms every 10 ms, and the clocks differ by `offset_ms`. Returns the
    /// window after each ACK.
    fn windows(offset_ms: u32) -> Vec<u32> {
        let mut w = Window::new(250, 1448, false);
        (w.cwnd, w.ssthresh, w.cwnd_limited) = (100, 50, true);
        let mut lp = Lp::default();
        (1..200_u32)
            .map(|n| {
                let (sent, delay) = (1000 + 10 * n, 20 + n);
                w.now_ns = u64::from(sent + delay + 20) * MILLISECOND;
                let stamps = Timestamps { value_ms: offset_ms.wrapping_add(sent + delay), echo_ms: sent };
                let sample = AckSample {
                    acked: 1,
                    rtt_us: Some(u64::from(delay + 20) * 1000),
                    timestamps: Some(stamps),
                    ..AckSample::default()
                };
                lp.remote_hz = CLOCK_HZ;
                lp.pkts_acked(&mut w, &sample);
                lp.cong_avoid(&mut w, 1);
                w.cwnd
            })
            .collect()
    }

    #[test]
    fn a_rising_delay_halves_the_window() {
        assert!(windows(0).contains(&50));
    }

    #[test]
    fn lp_does_not_back_off_if_the_clocks_offset_overflows_the_smoothed_delay() {
        // Delays of 2^29 ms and more overflow the smoothed delay, as in the kernel.
        assert!(windows(1 << 31).iter().all(|cwnd| *cwnd >= 100));
    }
}
