//! One direction of a flow: the sender's knowledge at each transmission, reconstructed from the
//! packets at the capture point.
//!
//! Near the sender an acknowledgement acts when it is seen. Elsewhere it acts when the data sent in
//! response passes: data echoes the timestamp of the last acknowledgement that its sender saw (RFC
//! 7323), so acknowledgements wait until they are echoed.

mod acknowledged;
mod segment_size;
mod sent;

use super::capture_point::{Delays, as_sent};
use super::loss_trace::Collector;
use super::observations::{SenderObservations, SenderObserver};
use super::pieces::Pieces;
use super::scoreboard::Scoreboard;
use super::sender_clock::{SenderClock, TickTally};
use super::waiting::Waiting;
use crate::window_trace::{CapturePoint, Reduction, Round, RttTally, WindowTrace};
use segment_size::SegmentSize;
use sent::EqualSegments;

/// The position of the first byte, so that older bytes have a position, too.
const ORIGIN: u64 = 1 << 32;
/// Data within this time after an acknowledgement, or after the previous segment, was sent in
/// response to it.
const AT_ONCE_NS: i64 = 200_000;

/// The current round.
#[derive(Clone, Copy, Debug, Default)]
struct Open {
    round: Round,
    flight_bytes: u64,
    acked_bytes: u64,
    /// Bytes of these that were acknowledged in order.
    advanced_bytes: u64,
    /// The number of acknowledgements for them.
    advances: u32,
    rtts: RttTally,
    ticks: TickTally,
    small: u32,
    /// The round ends when this position is acknowledged.
    until: u64,
    receiver_full: bool,
    /// Whether the segment that completed the largest flight was not full: the sender had no more.
    ran_out: bool,
}

impl Open {
    /// A round that starts now, and ends when this position is acknowledged.
    fn starting(start_ns: i64, until: u64) -> Open {
        Open { round: Round { start_ns, ..Round::default() }, until, ..Open::default() }
    }
}

/// A reduction in progress.
#[derive(Clone, Copy, Debug)]
struct Repair {
    reduction: Reduction,
    until: u64,
    /// Bytes retransmitted since the last acknowledgement of new data.
    again_bytes: u64,
}

/// A completed reduction: the window after it is being measured.
#[derive(Clone, Copy, Debug)]
struct AfterReduction {
    reduction: usize,
    /// Position up to which the window was measured provisionally, and the flight size then.
    from: u64,
    from_flight_bytes: u64,
    flight_bytes: u64,
    /// An acknowledgement has arrived since: everything that could be sent immediately has been
    /// sent.
    acted: bool,
    /// Acknowledgements since data was last sent.
    drew_nothing: u32,
}

impl AfterReduction {
    /// Whether enough was sent, up to this position, to measure the window. Only the first segments
    /// count: fast algorithms grow by a tenth in a round.
    fn is_read(&self, nxt: u64) -> bool {
        nxt > self.from + self.flight_bytes / 12
    }
}

/// One direction.
#[derive(Clone, Debug, Default)]
pub(super) struct Direction {
    started: bool,
    /// The 32-bit sequence number at [`ORIGIN`].
    base: u32,
    board: Scoreboard,
    waiting: Waiting,
    capture_point: CapturePoint,
    mss_bytes: u32,
    /// The other end's window scale; `None`: its SYN was not seen.
    scale: Option<u8>,
    window_end: u64,
    duplicates: u32,
    /// Whether both ends agreed to selective acknowledgements; `None`: a SYN was not seen.
    sack: Option<bool>,
    /// A selective acknowledgement was seen.
    selective: bool,
    /// Without them: segments whose arrival duplicate acknowledgements indicated, and that no later
    /// one has covered yet (`tcp_add_reno_sack`).
    by_duplicates: u64,
    /// The last segment was not full: nothing was left to send.
    ran_out: bool,
    last_sent_ns: i64,
    /// The sender's timestamp then.
    last_sent_stamp: u32,
    last_acted_ns: i64,
    /// The highest acknowledgement that took effect. If a flow is observed from its middle, the
    /// first ones acknowledge earlier data.
    acted_to: u64,
    /// The last segment was not sent in response to an acknowledgement.
    by_clock: bool,
    srtt_us: f64,
    open: Open,
    /// Flight when data was last sent without a disturbance; 0 since a reduction.
    window_bytes: u64,
    repair: Option<Repair>,
    after: Option<AfterReduction>,
    dsacks: u32,
    /// An acknowledgement with ECN-Echo took effect, and no segment with CWR has answered it.
    ece_unanswered: bool,
    delays: Delays,
    clock: SenderClock,
    fin: bool,
    /// The last segments, as far as they had the same size.
    equal: EqualSegments,
    /// Estimates the segment size from what packets are multiples of.
    sizes: SegmentSize,
    observations: SenderObserver,
    /// When the acknowledgement that last took effect passed the capture, and whether it had no
    /// data.
    acted_passed: (i64, bool),
    /// What is visible of the window away from the sender and without timestamps.
    loss_trace: Option<Box<Collector>>,
    /// Its rounds, until it is finished.
    rounds: Pieces<Round>,
    window_trace: WindowTrace,
}

impl Direction {
    pub(super) fn new() -> Direction {
        Direction { window_end: u64::MAX, ..Direction::default() }
    }

    /// From both SYNs: the segment size that both accept (0: unknown), whether both support
    /// selective acknowledgements, and the receiving end's window scale.
    pub(super) fn set_handshake_options(&mut self, mss_bytes: u32, sack: Option<bool>, scale: Option<u8>) {
        self.mss_bytes = mss_bytes;
        self.sack = sack;
        self.scale = scale.or(self.scale);
    }

    /// From the handshake's times: where the capture is, and a round-trip time.
    pub(super) fn set_handshake_times(&mut self, capture_point: CapturePoint, rtt_us: u32) {
        self.capture_point = capture_point;
        self.window_trace.handshake_rtt_us = Some(rtt_us);
    }

    /// Where the capture is, if the handshake's times did not show it.
    pub(super) fn captured_at(&mut self, capture_point: CapturePoint) {
        if self.window_trace.handshake_rtt_us.is_none() {
            self.settle_at(capture_point);
        }
    }

    /// Whether any data was sent.
    pub(super) fn has_data(&self) -> bool {
        self.window_trace.segments > 0
    }

    fn place(&self, seq: u32) -> u64 {
        let nxt = self.board.nxt();
        let number = self.base.wrapping_add(nxt.wrapping_sub(ORIGIN) as u32);
        nxt.wrapping_add_signed(i64::from(seq.wrapping_sub(number) as i32))
    }

    fn begin(&mut self, seq: u32) {
        self.started = true;
        self.base = seq;
        self.board.begin(ORIGIN);
    }

    /// Number of rounds so far.
    pub(super) fn rounds(&self) -> usize {
        self.rounds.len()
    }

    /// The window trace, at the end of the capture.
    pub(super) fn finish(mut self) -> (WindowTrace, SenderObservations) {
        self.read_after();
        self.window_trace.rounds = self.rounds.into_vec();
        self.window_trace.capture_point = self.capture_point;
        self.window_trace.loss_trace = self.loss_trace.take().map(|loss_trace| Box::new(loss_trace.finish()));
        if self.capture_point == CapturePoint::Receiver {
            as_sent(&mut self.window_trace);
        }
        if self.capture_point != CapturePoint::Sender {
            self.clock.set(&mut self.window_trace);
        }
        let observations = self.observations.finish(self.scale);
        (self.window_trace, observations)
    }
}
