//! The window trace of a flow: its window round by round, and its reductions. It contains
//! everything that inference needs, whatever the source.

use crate::ssthresh::SsthreshChanges;
use serde::{Deserialize, Serialize};
use yuzuri_limits::Limit;

/// What limited a sender in a round, other than its congestion window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// The application had no more to send.
    pub application: bool,
    /// The receiver's window was full.
    pub receiver: bool,
    /// The sender was in loss recovery.
    pub recovery: bool,
}

impl Limits {
    /// Whether the flight of such a round is no evidence for the congestion window.
    pub fn any(self) -> bool {
        self.application || self.receiver || self.recovery
    }
}

/// Growth of a round below which slow start is over.
pub(crate) const SLOW_START_GROWTH: f32 = 1.3;

/// One round: from sending a byte to the acknowledgement of that byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// Its start, nanoseconds of the capture's clock.
    pub start_ns: i64,
    /// Its end.
    pub end_ns: i64,
    /// The largest flight, segments: the congestion window if nothing else limited.
    pub window: f32,
    /// Segments newly acknowledged or selectively acknowledged.
    pub acked: f32,
    /// Acknowledgements that did so.
    pub acks: u32,
    /// Round-trip time of the first measurement, µs; 0 without any.
    pub rtt_first_us: u32,
    /// The least, µs.
    pub rtt_min_us: u32,
    /// The greatest, µs.
    pub rtt_max_us: u32,
    /// The last, µs.
    pub rtt_last_us: u32,
    /// The mean, µs.
    pub rtt_mean_us: u32,
    /// Segments sent for the first time.
    pub sent: u32,
    /// Segments retransmitted.
    pub retransmitted: u32,
    /// Acknowledgements with ECN-Echo (RFC 3168).
    pub ece: u32,
    /// Of the new segments, those not sent in response to an acknowledgement: sent a while after
    /// the last one and after the previous segment.
    #[serde(default)]
    pub by_clock: u32,
    /// Whether segments were far enough apart for [`Round::by_clock`] to be meaningful.
    #[serde(default)]
    pub spaced: bool,
    /// If it begins with nothing outstanding: how long its sender had sent nothing, µs.
    /// Otherwise 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub idle_us: u32,
    /// What limited it, other than its congestion window.
    pub limits: Limits,
    /// What limited its sender, in the terms of `yuzuri why`; `None` if that was not determined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<Limit>,
    /// What limited its sender in the time before it, in which nothing was outstanding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_by: Option<Limit>,
}

impl Round {
    /// Its length, seconds.
    pub fn seconds(&self) -> f64 {
        (self.end_ns - self.start_ns).max(0) as f64 / 1e9
    }

    /// A round of which only the round-trip times are known.
    pub(crate) fn with_rtts_only(self) -> Round {
        Round {
            rtt_first_us: self.rtt_first_us,
            rtt_min_us: self.rtt_min_us,
            rtt_max_us: self.rtt_max_us,
            rtt_last_us: self.rtt_last_us,
            rtt_mean_us: self.rtt_mean_us,
            ..Round::default()
        }
    }

    /// Whether only the congestion window limited it, so that its flight is the window.
    pub fn is_cwnd_limited(&self) -> bool {
        !self.limits.any() && self.acks > 0
    }
}

/// Most rounds begin with data outstanding.
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// The round-trip times of the current round.
#[derive(Clone, Copy, Debug, Default)]
pub struct RttTally {
    sum_us: u64,
    count: u32,
}

impl RttTally {
    /// Adds a measurement to the round and to the flow's minimum.
    pub fn add(&mut self, rtt_us: u32, round: &mut Round, min_us: &mut u32) {
        if self.count == 0 {
            (round.rtt_first_us, round.rtt_min_us, round.rtt_max_us) = (rtt_us, rtt_us, rtt_us);
        }
        round.rtt_min_us = round.rtt_min_us.min(rtt_us);
        round.rtt_max_us = round.rtt_max_us.max(rtt_us);
        round.rtt_last_us = rtt_us;
        self.sum_us += u64::from(rtt_us);
        self.count += 1;
        *min_us = if *min_us == 0 { rtt_us } else { (*min_us).min(rtt_us) };
    }

    /// Their mean, µs; 0 without any.
    pub fn mean_us(self) -> u32 {
        self.sum_us.checked_div(u64::from(self.count)).unwrap_or(0) as u32
    }
}

/// The cause of a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Fast recovery (RFC 6675): duplicate or selective acknowledgements.
    Recovery,
    /// A retransmission timeout (RFC 6298).
    Timeout,
    /// ECN-Echo, answered with CWR (RFC 3168).
    Ecn,
}

/// A reduction of the window with a visible cause.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reduction {
    /// When it was noticed: the first retransmission, nanoseconds of the capture's clock.
    pub at_ns: i64,
    /// When loss recovery ended.
    pub over_ns: i64,
    /// Its cause.
    pub cause: Cause,
    /// The window before it, segments; 0 if it could not be measured because another reduction had
    /// just begun. A flight is a lower bound of the window: the latest growth may not have been
    /// used yet.
    pub before: f32,
    /// Segments acknowledged before it, in order, since the start of the round that it ended: they
    /// may have grown the window unseen.
    #[serde(default)]
    pub acked: f32,
    /// The number of acknowledgements for them.
    #[serde(default)]
    pub acks: u32,
    /// The last round-trip time measured before it, µs; 0 away from the sender, or if there is
    /// none.
    #[serde(default)]
    pub rtt_us: u32,
    /// Segments newly delivered by the acknowledgement that completed recovery: they grow the
    /// window after it.
    #[serde(default)]
    pub completed: f32,
    /// All segments that this acknowledgement removed from the sender's queue, including those
    /// selectively acknowledged before: algorithms that count these see them all together.
    #[serde(default)]
    pub cleared: f32,
    /// The flight at its end, segments: a window that is not larger becomes visible only once an
    /// acknowledgement has grown it.
    #[serde(default)]
    pub left: f32,
    /// Segments that the first acknowledgement after it removed from the sender's queue: from that
    /// number NV decides whether acknowledgements come one by one or once per round trip, and grows
    /// immediately or only after enough of them.
    #[serde(default)]
    pub next: f32,
    /// The window after it, segments; 0 if it could not be measured. After a timeout the rounds
    /// contain the window at which slow start ended.
    pub after: f32,
    /// The first round that began after it, as an index in [`WindowTrace::rounds`].
    pub round: u32,
    /// The sender undid it: the segments had not been lost.
    pub undone: bool,
}

impl Reduction {
    /// A reduction in progress.
    pub fn begun(at_ns: i64, cause: Cause, before: f32) -> Reduction {
        Reduction {
            at_ns,
            over_ns: at_ns,
            cause,
            before,
            acked: 0.0,
            acks: 0,
            rtt_us: 0,
            completed: 0.0,
            cleared: 0.0,
            left: 0.0,
            next: 0.0,
            after: 0.0,
            round: 0,
            undone: false,
        }
    }
}

/// Where the flow was observed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CapturePoint {
    /// Near the sender: an acknowledgement takes effect when it is seen.
    Sender,
    /// Near the receiver: an acknowledgement takes effect a round trip later.
    Receiver,
    /// On the way between them.
    Middle,
    /// In the sender's kernel: windows are its own, not reconstructed.
    Kernel,
    /// Unknown.
    #[default]
    Unknown,
}

/// A loss in a flow without visible windows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ObservedLoss {
    /// When the sender could know of it, except for the return path, nanoseconds of the capture's
    /// clock.
    pub at_ns: i64,
    /// The position of the first lost byte.
    pub hole: u64,
    /// The window before it, segments; 0 if it was not seen.
    pub before: f32,
    /// The cause of the reduction.
    pub cause: Cause,
    /// When recovery was complete.
    pub over_ns: i64,
    /// The acknowledged position at that time.
    pub until: u64,
}

/// The observations away from the sender and without timestamps.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LossTrace {
    /// When the acknowledgement that elicited the first data passed, as estimated from the
    /// handshake's round-trip time, and the position of that data's first byte.
    pub begin: (i64, u64),
    /// The acknowledged positions, each with its time.
    pub acked: Vec<(i64, u64)>,
    /// Losses, in order.
    pub losses: Vec<ObservedLoss>,
}

/// The smallest window of a round, as the sender's kernel reported it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeastWindow {
    /// Its size, segments.
    pub segments: u32,
    /// Whether ssthresh was then the same as before the last loss recovery, and finite. A
    /// reduction sets it to a part of the window (`tcp_init_cwnd_reduction`, `tcp_enter_loss`),
    /// except for BBR (`bbr_ssthresh`).
    pub keeps_ssthresh: bool,
}

/// One direction of a flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WindowTrace {
    /// Where it was observed.
    pub capture_point: CapturePoint,
    /// Bytes of a full segment.
    pub mss_bytes: u32,
    /// Round by round.
    pub rounds: Vec<Round>,
    /// Its reductions.
    pub reductions: Vec<Reduction>,
    /// Rounds dropped because there were too many.
    pub rounds_left_out: u64,
    /// Least round-trip time, µs.
    pub min_rtt_us: u32,
    /// The handshake's round-trip time, µs: the sender's first measurement, and usually the
    /// smallest, because its segments are small and find no queue of their own. `None` if the
    /// handshake was not seen or had to be repeated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handshake_rtt_us: Option<u32>,
    /// It comes from a polled log: its round-trip times are means of several measurements.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub polled: bool,
    /// Of windows that the sender's kernel reported, by round: the smallest one. Empty where
    /// windows are reconstructed: a flight may be smaller than its window at any time.
    #[serde(skip)]
    pub least_windows: Vec<LeastWindow>,
    /// How often its kernel reported a change of ssthresh that no reduction makes; 0 where windows
    /// are reconstructed.
    #[serde(skip)]
    pub ssthresh_changes: SsthreshChanges,
    /// Its rounds have the windows that the sender's kernel reported, and the flight filled them.
    #[serde(skip)]
    pub filled: bool,
    /// The offset of the receiver's timestamp clock from the sender's, less the acknowledgement's
    /// delay, as the option's 32-bit numbers (RFC 7323) give it in ticks: TCP-LP measures delays
    /// with it. `None` without timestamps.
    pub clock_offset_ms: Option<u32>,
    /// Whether its SYN was itself ECN-capable, if it opened the flow and that was seen: only
    /// algorithms that require ECN do this (`tcp_ca_needs_ecn`, RFC 8257; RFC 3168 forbids it to
    /// others).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub syn_ecn_capable: Option<bool>,
    /// Whether it sent data in a packet that is not ECN-capable; `None` if packets were not seen.
    /// An algorithm that requires ECN sends even retransmissions in ECN-capable ones
    /// (`tcp_ecn_send`); if the other end refused ECN, the sender runs Reno instead (`dctcp_reno`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_without_ect: Option<bool>,
    /// If windows are visible only at losses: the losses, and the acknowledgements between them.
    #[serde(skip)]
    pub loss_trace: Option<Box<LossTrace>>,
    /// Payload acknowledged, bytes.
    pub acked_bytes: u64,
    /// Segments sent, including retransmissions.
    pub segments: u64,
    /// Segments retransmitted.
    pub retransmitted: u64,
}

/// Maximum number of rounds kept of a flow: a day at 200 ms has 432,000, which no algorithm needs.
pub(crate) const MAX_ROUNDS: usize = 1 << 16;

impl WindowTrace {
    /// Keeps a round; returns false if there are too many, and the round is only counted.
    pub fn keep(&mut self, round: Round) -> bool {
        let keeps = self.rounds.len() < MAX_ROUNDS;
        if keeps {
            self.rounds.push(round);
        } else {
            self.rounds_left_out += 1;
        }
        keeps
    }

    /// The rounds from the end of a reduction until the next one.
    pub fn epoch(&self, reduction: usize) -> &[Round] {
        let place = |reduction: usize| {
            self.reductions.get(reduction).map_or(self.rounds.len(), |reduction| reduction.round as usize)
        };
        self.rounds.get(place(reduction)..place(reduction + 1)).unwrap_or_default()
    }

    /// From the first to the last round, seconds.
    pub fn seconds(&self) -> f64 {
        match (self.rounds.first(), self.rounds.last()) {
            (Some(first), Some(last)) => (last.end_ns - first.start_ns).max(0) as f64 / 1e9,
            _ => 0.0,
        }
    }
}
