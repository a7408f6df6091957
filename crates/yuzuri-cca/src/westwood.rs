//! Westwood+ (L. Grieco, S. Mascolo, "Performance evaluation and comparison of Westwood+, New Reno,
//! and Vegas TCP congestion control", 2004; `tcp_westwood.c`): Reno's growth; after a loss the
//! window is the estimated bandwidth times the minimum RTT.
//!
//! Characteristics: the window is reduced to what the path holds without a queue, whatever it was
//! before. During recovery it approaches Reno's half; the estimate replaces it at the end. The tick
//! clock makes the product coarse on short paths.

use crate::{AckEvent, AckSample, CongestionControl, CwndEvent, Window};

/// Minimum duration of a bandwidth sample: 1/n s (`TCP_WESTWOOD_RTT_MIN`).
const MIN_SAMPLE: u64 = 20;
/// RTT before the first sample, s (`TCP_WESTWOOD_INIT_RTT`).
const INITIAL_RTT_S: u64 = 20;

/// State of Westwood+; times in ticks, bandwidths in bytes per tick.
#[derive(Clone, Debug, Default)]
pub struct Westwood {
    /// Bandwidth after one and two smoothing steps.
    smoothed: u64,
    bandwidth: u64,
    sample_since: u64,
    sample_bytes: u64,
    snd_una: u32,
    /// Segments already counted because of duplicate ACKs, which a later ACK will cover.
    accounted: u32,
    rtt: u64,
    min_rtt: u64,
    forget_min_rtt: bool,
    first_ack: bool,
}

/// Exponential average with weight 1/8 for the new value.
fn smooth(old: u64, new: u64) -> u64 {
    (7 * old + new) >> 3
}

impl Westwood {
    /// `westwood_update_window`
    fn end_sample(&mut self, window: &Window) {
        let now = window.jiffies();
        let time = now - self.sample_since;
        if self.first_ack {
            self.snd_una = window.snd_una;
            self.first_ack = false;
        }
        if self.rtt == 0 || time <= self.rtt.max(u64::from(window.hz) / MIN_SAMPLE) {
            return;
        }
        let rate = self.sample_bytes / time;
        if self.smoothed == 0 && self.bandwidth == 0 {
            (self.smoothed, self.bandwidth) = (rate, rate);
        } else {
            self.smoothed = smooth(self.smoothed, rate);
            self.bandwidth = smooth(self.bandwidth, self.smoothed);
        }
        self.sample_bytes = 0;
        self.sample_since = now;
    }

    /// Number of segments that this ACK shows as received (`westwood_acked_count`).
    fn count(&mut self, window: &Window) -> u32 {
        let mut acked = window.snd_una.wrapping_sub(self.snd_una);
        if acked == 0 {
            self.accounted += 1;
            acked = 1;
        } else if acked > 1 {
            if self.accounted >= acked {
                self.accounted -= acked;
                acked = 1;
            } else {
                acked -= self.accounted;
                self.accounted = 0;
            }
        }
        acked
    }

    /// Estimated bandwidth-delay product, segments (`tcp_westwood_bw_rttmin`).
    fn bdp(&self, window: &Window) -> u32 {
        ((self.bandwidth * self.min_rtt / u64::from(window.mss_bytes)) as u32).max(2)
    }
}

impl CongestionControl for Westwood {
    fn name(&self) -> &'static str {
        "westwood"
    }

    fn init(&mut self, window: &mut Window) {
        let initial = INITIAL_RTT_S * u64::from(window.hz);
        *self = Westwood {
            rtt: initial,
            min_rtt: initial,
            forget_min_rtt: true,
            first_ack: true,
            sample_since: window.jiffies(),
            snd_una: window.snd_una,
            ..Westwood::default()
        };
    }

    fn ssthresh(&mut self, window: &mut Window) -> u32 {
        window.half()
    }

    fn cong_avoid(&mut self, window: &mut Window, acked: u32) {
        window.grow_as_reno(acked);
    }

    fn pkts_acked(&mut self, window: &mut Window, sample: &AckSample) {
        if let Some(rtt_us) = sample.rtt_us.filter(|rtt_us| *rtt_us > 0) {
            self.rtt = window.ticks_of_micros(rtt_us);
        }
    }

    /// `tcp_westwood_ack`
    fn in_ack_event(&mut self, window: &mut Window, event: AckEvent) {
        self.end_sample(window);
        let acked =
            if event.slow_path { self.count(window) } else { window.snd_una.wrapping_sub(self.snd_una) };
        self.snd_una = window.snd_una;
        self.sample_bytes += u64::from(acked) * u64::from(window.mss_bytes);
        self.min_rtt = if self.forget_min_rtt { self.rtt } else { self.min_rtt.min(self.rtt) };
        self.forget_min_rtt = false;
    }

    fn cwnd_event(&mut self, window: &mut Window, event: CwndEvent) {
        match event {
            CwndEvent::Reduced => {
                window.ssthresh = self.bdp(window);
                window.cwnd = window.ssthresh;
            }
            CwndEvent::Loss => {
                window.ssthresh = self.bdp(window);
                self.forget_min_rtt = true;
            }
            CwndEvent::TxStart { .. } | CwndEvent::Restart | CwndEvent::ProbeRepaired => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::MILLISECOND;

    #[test]
    fn a_reduction_ends_at_the_bandwidth_delay_product() {
        // One segment per ms and 60 ms make 60 segments.
        let mut w = Window::new(1000, 1448, false);
        let mut westwood = Westwood::default();
        westwood.init(&mut w);
        for ms in 1..5000_u32 {
            w.now_ns = u64::from(ms) * MILLISECOND;
            w.snd_una = ms;
            westwood
                .pkts_acked(&mut w, &AckSample { acked: 1, rtt_us: Some(60_000), ..AckSample::default() });
            westwood.in_ack_event(&mut w, AckEvent::default());
        }
        w.cwnd = 200;
        assert_eq!(westwood.ssthresh(&mut w), 100);
        westwood.cwnd_event(&mut w, CwndEvent::Reduced);
        assert!(w.cwnd.abs_diff(60) <= 1, "{}", w.cwnd);
    }

    #[test]
    fn duplicates_are_counted_once() {
        let mut westwood = Westwood { snd_una: 10, ..Westwood::default() };
        let mut w = Window::new(1000, 1448, false);
        w.snd_una = 10;
        let counted: u32 = (0..3).map(|_| westwood.count(&w)).sum();
        assert_eq!((counted, westwood.accounted), (3, 3));
        w.snd_una = 15;
        assert_eq!((westwood.count(&w), westwood.accounted), (2, 0));
    }
}
