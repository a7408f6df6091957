//! Drives an algorithm with the ACKs of a kernel trace and records both windows.
//!
//! A row contains what was acknowledged and what was outstanding. A segment was sent at the time of
//! the first row in which it is outstanding, so its ACK yields an RTT sample. During recovery there
//! is none, because the rows do not contain retransmissions. Between recoveries the window is
//! computed by the algorithm alone; during a recovery and at its end it is taken from the kernel.

use super::common::{Ack, Trace};
use yuzuri_cca::{
    AckEvent, AckSample, Algorithm, CaState, CongestionControl, CwndEvent, RateSample, SlowStartExit,
    Timestamps, Window,
};

const MSS: u32 = 1448;
/// Tick frequency of Debian's kernel, Hz.
const HZ: u32 = 250;
/// Initial time, which keeps the kernel's clock away from its origin, µs.
const ORIGIN_US: u64 = 5_000_000;

/// The interval between two reductions.
#[derive(Clone, Copy, Debug)]
pub struct Epoch {
    pub start_s: f64,
    pub end_s: f64,
    /// Window of the algorithm and of the kernel at the end.
    pub ours: u32,
    pub theirs: u32,
    /// Maximum and mean difference of the windows, segments.
    pub max_difference: u32,
    pub mean: f64,
    /// ssthresh at the end, computed from the kernel's window: the algorithm's and the kernel's.
    pub threshold: Option<(u32, u32)>,
}

/// Result of a replay.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Initial window of the algorithm.
    pub initial: u32,
    pub epochs: Vec<Epoch>,
    /// Reductions requested by the algorithm.
    pub cwr_requests: u32,
    /// Windows after each recovery that the algorithm determines: the algorithm's and the kernel's.
    pub windows_after_recovery: Vec<(u32, u32)>,
}

struct Replay {
    cca: Box<dyn CongestionControl>,
    window: Window,
    /// When each segment was sent, µs (0 if it may have been retransmitted), and the delivered
    /// count at that time.
    sent: Vec<(u64, u64)>,
    srtt_eighths: u64,
    usage_end: u32,
}

/// Replays a trace with `algorithm`.
pub fn replay(algorithm: Algorithm, trace: &Trace) -> Outcome {
    let mut window = Window::new(HZ, MSS, false);
    window.now_ns = ORIGIN_US * 1000;
    // The RTT sample of the handshake.
    window.srtt_us = trace.lead_us;
    window.min_rtt_us = Some(trace.lead_us);
    let cca = algorithm.make(SlowStartExit::Hystart, 1);
    let mut replay = Replay { cca, window, sent: Vec::new(), srtt_eighths: trace.lead_us * 8, usage_end: 0 };
    replay.cca.init(&mut replay.window);
    let mut outcome = Outcome { initial: replay.window.cwnd, ..Outcome::default() };
    let mut path = Distance::default();
    let start_us = ORIGIN_US + trace.lead_us;
    for (ack, following) in trace.acks.iter().zip(&trace.acks[1..]) {
        let window = &replay.window;
        if matches!(window.state, CaState::Open | CaState::Disorder) {
            path.note(window.cwnd.abs_diff(ack.cwnd));
        }
        let before = window.state;
        let reduces = ack.state >= CaState::Cwr && before <= CaState::Disorder;
        let algorithm_cwnd = window.cwnd;
        let threshold = replay.acknowledge(ack, following, start_us);
        outcome.cwr_requests += u32::from(std::mem::take(&mut replay.window.cwr_wanted));
        if reduces {
            outcome.epochs.push(Epoch {
                start_s: path.start_s,
                end_s: ack.t_us as f64 / 1e6,
                ours: algorithm_cwnd,
                theirs: ack.cwnd,
                max_difference: path.max_difference,
                mean: path.sum / f64::from(path.count.max(1)),
                threshold: threshold.zip(ack.ssthresh),
            });
        }
        if before >= CaState::Cwr {
            if ack.state <= CaState::Disorder {
                outcome.windows_after_recovery.push((replay.window.cwnd, following.cwnd));
                path = Distance { start_s: ack.t_us as f64 / 1e6, ..Distance::default() };
            }
            replay.window.cwnd = following.cwnd;
        } else if ack.state >= CaState::Cwr {
            replay.window.cwnd = following.cwnd;
        }
    }
    if path.count > 0 {
        let last = trace.acks[trace.acks.len() - 1];
        outcome.epochs.push(Epoch {
            start_s: path.start_s,
            end_s: last.t_us as f64 / 1e6,
            ours: replay.window.cwnd,
            theirs: last.cwnd,
            max_difference: path.max_difference,
            mean: path.sum / f64::from(path.count),
            threshold: None,
        });
    }
    outcome
}

#[derive(Default)]
struct Distance {
    start_s: f64,
    max_difference: u32,
    sum: f64,
    count: u32,
}

impl Distance {
    fn note(&mut self, distance: u32) {
        self.max_difference = self.max_difference.max(distance);
        self.sum += f64::from(distance);
        self.count += 1;
    }
}

impl Replay {
    /// Processes an ACK like `tcp_ack`. Returns the algorithm's ssthresh if a reduction starts.
    fn acknowledge(&mut self, ack: &Ack, following: &Ack, start_us: u64) -> Option<u32> {
        let now_us = start_us + ack.t_us;
        self.window.now_ns = now_us * 1000;
        // Segments sent since the previous ACK were sent at that ACK, and the first flight at the
        // start.
        if self.sent.is_empty() {
            self.sent.resize(ack.snd_nxt as usize, (ORIGIN_US, 0));
        }
        let acked = following.snd_una - ack.snd_una;
        let recovering = self.window.state >= CaState::Cwr;
        let newest = following.snd_una.checked_sub(1).filter(|_| acked > 0);
        let rtt = |number: u32| {
            let (sent_us, _) = self.sent.get(number as usize).filter(|(sent_us, _)| *sent_us > 0)?;
            Some(now_us - sent_us)
        };
        let clean = !recovering || self.window.state == CaState::Cwr;
        let rtt_us = newest.and_then(rtt).filter(|_| clean);
        let first_rtt_us = newest.and_then(|_| rtt(ack.snd_una)).filter(|_| clean);
        let prior_delivered =
            newest.and_then(|number| self.sent.get(number as usize)).map_or(0, |sent| sent.1);

        self.window.snd_una = following.snd_una;
        self.window.snd_nxt = ack.snd_nxt;
        let delivered_before = self.window.delivered;
        self.window.delivered = u64::from(following.snd_una);
        self.window.delivered_at_ns = self.window.now_ns;
        if let Some(first_us) = first_rtt_us {
            self.srtt_eighths = self.srtt_eighths + first_us - (self.srtt_eighths >> 3);
            self.window.srtt_us = self.srtt_eighths >> 3;
            self.window.min_rtt_us = self.window.min_rtt_us.map(|least| least.min(first_us));
        }
        self.window.in_flight = ack.snd_nxt - following.snd_una;
        let sample = AckSample {
            acked,
            rtt_us,
            in_flight: (self.window.delivered - prior_delivered) as u32,
            // Both hosts share one clock. The timestamp offset is random and usually large.
            timestamps: Some(Timestamps {
                value_ms: ((now_us / 1000) as u32).wrapping_add(1 << 31),
                echo_ms: ((now_us - rtt_us.unwrap_or(0)) / 1000) as u32,
            }),
        };
        self.cca.pkts_acked(&mut self.window, &sample);
        let slow_path = acked == 0 || self.window.state != CaState::Open;
        self.cca.in_ack_event(&mut self.window, AckEvent { slow_path, ece: false });
        let threshold = self.change_state(ack);
        if matches!(ack.state, CaState::Cwr | CaState::Recovery) {
            self.window.ssthresh = ack.ssthresh.unwrap_or(self.window.ssthresh);
        } else if acked > 0 {
            if self.cca.controls_all() {
                self.cca.cong_control(&mut self.window, &RateSample::default());
            } else {
                // Most of what the last ACK of a recovery covers was SACKed before.
                let newly = (self.window.delivered - delivered_before) as u32;
                self.cca.cong_avoid(&mut self.window, if recovering { newly.min(1) } else { newly });
            }
        }
        self.sent(following, now_us);
        threshold
    }

    /// `tcp_enter_recovery`, `tcp_enter_cwr`, `tcp_try_undo_recovery` with
    /// `tcp_end_cwnd_reduction`.
    fn change_state(&mut self, ack: &Ack) -> Option<u32> {
        let (before, state) = (self.window.state, ack.state);
        if state == before {
            return None;
        }
        let mut threshold = None;
        if state >= CaState::Cwr && before <= CaState::Disorder {
            // The following behaviour depends on the window at the reduction, so the kernel's
            // window is used from here.
            self.window.cwnd = ack.cwnd;
            self.window.cwnd_cnt = 0;
            self.window.prior_cwnd = ack.cwnd;
            let reduced = self.cca.ssthresh(&mut self.window);
            self.window.ssthresh = reduced;
            threshold = Some(reduced);
        }
        self.cca.set_state(&mut self.window, state);
        self.window.state = state;
        if before >= CaState::Cwr && state <= CaState::Disorder {
            self.window.cwnd = self.window.ssthresh;
            self.cca.cwnd_event(&mut self.window, CwndEvent::Reduced);
        }
        threshold
    }

    /// Records what was sent after this ACK and whether the window limited the sender
    /// (`tcp_cwnd_validate`).
    fn sent(&mut self, following: &Ack, now_us: u64) {
        self.sent.resize(following.snd_nxt as usize, (now_us, self.window.delivered));
        let out = following.snd_nxt - following.snd_una;
        let limited = out >= following.cwnd;
        if following.snd_una >= self.usage_end
            || limited
            || (!self.window.cwnd_limited && out > self.window.max_packets_out)
        {
            self.window.cwnd_limited = limited;
            self.window.max_packets_out = out;
            self.usage_end = following.snd_nxt;
        }
    }
}
