//! YeAH (A. Baiocchi, A. Castellani, F. Vacirca, "YeAH-TCP: yet another highspeed TCP", 2007;
//! `tcp_yeah.c`): Scalable TCP while the queue is short, Reno while it is long, and an early
//! decrease before the buffer overflows.
//!
//! Characteristics: with more than 80 queued segments the window is reduced by the queue (at most
//! by half) without a loss. A loss removes the last estimate of the queue, at least 1/8, or half of
//! the window if competing flows kept the queue long for 16 round trips.

use crate::scalable::ACKED_PER_STEP;
use crate::vegas::{DelayRounds, SAMPLES};
use crate::{AckSample, CaState, CongestionControl, CwndEvent, Window};

/// Maximum tolerated queue, segments (`TCP_YEAH_ALPHA`).
const QUEUE: u32 = 80;
/// Maximum tolerated queueing delay: 1/n of the minimum RTT (`TCP_YEAH_PHY`).
const DELAY_SHARE: u64 = 8;
/// Maximum early decrease: 1/2^n (`TCP_YEAH_EPSILON`).
const EARLY_SHIFT: u32 = 1;
/// Minimum decrease on loss: 1/2^n (`TCP_YEAH_DELTA`).
const LOSS_SHIFT: u32 = 3;
/// Consecutive round trips in Reno mode after which competing flows are assumed (`TCP_YEAH_RHO`).
const COMPETING_ROUNDS: u32 = 16;
/// Round trips in fast mode after which the estimate of a competing Reno flow is reset
/// (`TCP_YEAH_ZETA`).
const FAST_ROUNDS: u32 = 50;

/// State of YeAH.
#[derive(Clone, Debug)]
pub struct Yeah {
    rounds: DelayRounds,
    last_queue: u32,
    /// Consecutive round trips in Reno mode.
    as_reno: u32,
    /// Estimated window of a competing Reno flow, segments.
    reno_cwnd: u32,
    fast_rounds: u32,
    /// As before Linux 5.7: in Reno mode an ACK counts as one segment, and in fast mode segments
    /// are counted by what the last ACK acknowledged.
    counts_acks: bool,
    /// Segments of the last ACK, for that count.
    acked: u32,
}

impl Default for Yeah {
    fn default() -> Yeah {
        Yeah {
            rounds: DelayRounds::default(),
            last_queue: 0,
            as_reno: 0,
            reno_cwnd: 2,
            fast_rounds: 0,
            counts_acks: false,
            acked: 1,
        }
    }
}

impl Yeah {
    /// YeAH of Linux before 5.7 ("tcp: fix stretch ACK bugs in Yeah").
    pub fn counting_acks() -> Yeah {
        Yeah { counts_acks: true, ..Yeah::default() }
    }

    /// Growth after slow start.
    fn grow(&mut self, window: &mut Window, acked: u32) {
        let fast = window.cwnd.min(ACKED_PER_STEP);
        match (self.as_reno == 0, self.counts_acks) {
            (true, false) => window.additive_increase(fast, acked),
            (false, false) => window.additive_increase(window.cwnd, acked),
            (false, true) => window.additive_increase(window.cwnd, 1),
            (true, true) => {
                window.cwnd_cnt += self.acked;
                if window.cwnd_cnt > fast {
                    window.cwnd += 1;
                    window.cwnd_cnt = 0;
                }
                self.acked = 1;
            }
        }
    }

    /// Selects the mode once per round trip.
    fn adjust(&mut self, window: &mut Window) {
        let (rtt_us, base_us) = (self.rounds.min_us, self.rounds.base_us);
        let queue = (u64::from(window.cwnd) * (rtt_us - base_us) / rtt_us) as u32;
        self.last_queue = queue;
        if queue <= QUEUE && rtt_us - base_us <= base_us / DELAY_SHARE {
            self.fast_rounds += 1;
            if self.fast_rounds > FAST_ROUNDS {
                self.reno_cwnd = 2;
                self.fast_rounds = 0;
            }
            self.as_reno = 0;
            return;
        }
        if queue > QUEUE && window.cwnd > self.reno_cwnd {
            let cut = queue.min(window.cwnd >> EARLY_SHIFT);
            window.cwnd = (window.cwnd - cut).max(self.reno_cwnd);
            window.ssthresh = window.cwnd;
        }
        self.reno_cwnd = if self.reno_cwnd <= 2 { window.half() } else { self.reno_cwnd + 1 };
        self.as_reno = self.as_reno.saturating_add(1);
    }
}

impl CongestionControl for Yeah {
    fn name(&self) -> &'static str {
        "yeah"
    }

    fn init(&mut self, window: &mut Window) {
        *self = Yeah { counts_acks: self.counts_acks, ..Yeah::default() };
        self.rounds.restart(window);
    }

    fn competition_detected(&mut self, cwnd: u32) {
        self.reno_cwnd = cwnd.max(2);
        self.as_reno = COMPETING_ROUNDS;
    }

    fn ssthresh(&mut self, window: &mut Window) -> u32 {
        let half = window.half();
        let cut = if self.as_reno < COMPETING_ROUNDS {
            self.last_queue.min(half).max(window.cwnd >> LOSS_SHIFT)
        } else {
            half
        };
        self.fast_rounds = 0;
        self.reno_cwnd = (self.reno_cwnd >> 1).max(2);
        window.cwnd.saturating_sub(cut).max(2)
    }

    fn cong_avoid(&mut self, window: &mut Window, acked: u32) {
        if !window.is_cwnd_limited() {
            return;
        }
        let left = if window.in_slow_start() { window.slow_start(acked) } else { acked };
        if left > 0 {
            self.grow(window, left);
        }
        if self.rounds.is_over(window) {
            if self.rounds.samples >= SAMPLES {
                self.adjust(window);
            }
            self.rounds.next(window);
        }
    }

    fn pkts_acked(&mut self, window: &mut Window, sample: &AckSample) {
        if window.state == CaState::Open {
            self.acked = sample.acked;
        }
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

    fn with_queue(cwnd: u32, queue_us: u64) -> (Yeah, Window) {
        let mut yeah = Yeah::default();
        (yeah.rounds.base_us, yeah.rounds.min_us) = (50_000, 50_000 + queue_us);
        let mut w = Window::new(250, 1448, false);
        (w.cwnd, w.ssthresh, w.cwnd_limited) = (cwnd, 50, true);
        (yeah, w)
    }

    #[test]
    fn a_queue_above_eighty_segments_is_drained() {
        let (mut yeah, mut w) = with_queue(180, 50_000);
        yeah.adjust(&mut w);
        assert_eq!((w.cwnd, w.ssthresh, yeah.as_reno), (90, 90, 1));
        let (mut yeah, mut w) = with_queue(180, 30_000);
        yeah.adjust(&mut w);
        assert_eq!((w.cwnd, yeah.last_queue, yeah.as_reno), (180, 67, 1));
        let (mut yeah, mut w) = with_queue(180, 6_000);
        yeah.adjust(&mut w);
        assert_eq!((w.cwnd, yeah.as_reno), (180, 0));
    }

    #[test]
    fn a_queue_is_drained_to_the_window_of_a_competitor() {
        let (mut yeah, mut w) = with_queue(180, 50_000);
        yeah.competition_detected(165);
        yeah.adjust(&mut w);
        assert_eq!((w.cwnd, yeah.reno_cwnd), (165, 166));
        assert_eq!(yeah.ssthresh(&mut w), 83, "it competes");
    }

    #[test]
    fn ssthresh_of_a_copy_leaves_the_original_unchanged() {
        use crate::CloneControl as _;
        let (mut yeah, mut w) = with_queue(180, 50_000);
        yeah.competition_detected(165);
        assert_eq!(yeah.copied().ssthresh(&mut w.clone()), 90);
        yeah.adjust(&mut w);
        assert_eq!(w.cwnd, 165, "the window of the competitor was not halved");
    }

    #[test]
    fn a_loss_removes_the_queue_at_least_an_eighth_and_half_with_competitors() {
        let (mut yeah, mut w) = with_queue(160, 0);
        yeah.last_queue = 60;
        assert_eq!(yeah.ssthresh(&mut w), 100);
        yeah.last_queue = 5;
        assert_eq!(yeah.ssthresh(&mut w), 140);
        yeah.as_reno = 16;
        assert_eq!(yeah.ssthresh(&mut w), 80);
    }

    #[test]
    fn before_linux_5_7_an_ack_of_two_segments_counted_as_one_in_reno_mode() {
        let grown = |mut yeah: Yeah, as_reno: u32| {
            let mut window = Window::new(250, 1448, false);
            (window.cwnd, window.ssthresh, window.cwnd_limited) = (50, 2, true);
            yeah.init(&mut window);
            yeah.as_reno = as_reno;
            for _ in 0..100 {
                yeah.pkts_acked(&mut window, &AckSample { acked: 2, ..AckSample::default() });
                yeah.grow(&mut window, 2);
            }
            window.cwnd - 50
        };
        assert_eq!((grown(Yeah::default(), 1), grown(Yeah::counting_acks(), 1)), (3, 1));
        // In fast mode both count segments; the older one drops the remainder.
        assert_eq!((grown(Yeah::default(), 0), grown(Yeah::counting_acks(), 0)), (3, 3));
    }
}
