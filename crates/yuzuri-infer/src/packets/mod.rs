//! From packets to window traces: reconstructs windows from the packets at a capture point.

mod bursts;
mod capture_point;
mod clocking;
mod compact_segment;
mod copies;
mod direction;
mod flow;
mod later_rounds;
mod limits;
mod loss_trace;
mod observations;
mod pieces;
mod readers;
mod recent;
mod scoreboard;
mod sender_clock;
mod spread;
mod waiting;

pub use clocking::AckClocking;
pub use flow::{Anomalies, Ended, Seen};
pub use limits::{PacketLimits, packet_limits};
pub use observations::{RoundObservations, SenderObservations};
pub use readers::{MAX_READERS, read_each};
pub use spread::{Part, spread};

use flow::Flow;
use yuzuri_capture::{FlowSlot, Segment};

/// Segments of a flow that wait to be evaluated together. A flow's state takes 60 lines of the
/// processor's cache, and thousands of flows do not fit into it: so the state is fetched once for
/// all of these segments, and not once for each few.
const BATCH: usize = 32;
/// A flow with at most this many segments has no state even if it is asked for its rounds: a
/// capture may have a hundred thousand flows open, and most flows of scans and short requests never
/// send more. The state takes twenty times as much memory as a segment.
const YOUNG: usize = 6;

/// A flow: its state, and its latest segments.
#[derive(Clone, Debug, Default)]
struct Tracked {
    /// The segments before these; `None`: there are none.
    flow: Option<Box<Flow>>,
    waiting: Vec<Segment>,
}

impl Tracked {
    #[inline(always)]
    fn segment(&mut self, segment: &Segment) {
        if self.waiting.len() == self.waiting.capacity() {
            self.grow();
        }
        self.waiting.push(*segment);
        if self.waiting.len() == BATCH {
            self.catch_up();
        }
    }

    /// Makes room for another segment.
    #[cold]
    fn grow(&mut self) {
        let count = self.waiting.len();
        let more = if count < YOUNG { 1 } else { count };
        self.waiting.reserve_exact(more.min(BATCH - count));
    }

    /// Evaluates the segments that wait.
    #[inline(never)]
    fn catch_up(&mut self) {
        let flow = self.flow.get_or_insert_with(|| Box::new(Flow::new()));
        for segment in &self.waiting {
            flow.segment(segment);
        }
        self.waiting.clear();
    }

    fn rounds(&mut self) -> [usize; 2] {
        if self.flow.is_some() || self.waiting.len() > YOUNG {
            self.catch_up();
        }
        self.flow.as_ref().map_or([0; 2], |flow| flow.rounds())
    }

    fn finish(mut self) -> Ended {
        self.catch_up();
        self.flow.unwrap_or_else(|| Box::new(Flow::new())).finish()
    }
}

/// Tracks all flows of a capture.
#[derive(Debug, Default)]
pub struct Tracker {
    flows: Vec<Option<Tracked>>,
}

impl Tracker {
    /// A tracker without flows.
    pub fn new() -> Tracker {
        Tracker::default()
    }

    /// Takes a segment of a flow.
    #[inline]
    pub fn segment(&mut self, segment: &Segment) {
        let slot = segment.flow.index();
        if slot >= self.flows.len() {
            self.flows.resize_with(slot + 1, || None);
        }
        self.flows[slot].get_or_insert_default().segment(segment);
    }

    /// Ends a flow; returns its results.
    pub fn end(&mut self, slot: FlowSlot) -> Option<Ended> {
        Some(self.flows.get_mut(slot.index())?.take()?.finish())
    }

    /// A flow's results so far; tracking continues.
    pub fn now(&self, slot: FlowSlot) -> Option<Ended> {
        Some(self.flows.get(slot.index())?.as_ref()?.clone().finish())
    }

    /// By end, lower first: the number of completed rounds of its data. A caller that asks after
    /// each segment has each segment evaluated by itself.
    pub fn rounds(&mut self, slot: FlowSlot) -> [usize; 2] {
        self.flows.get_mut(slot.index()).and_then(Option::as_mut).map_or([0; 2], Tracked::rounds)
    }

    /// The flows still tracked.
    pub fn live(&self) -> impl Iterator<Item = FlowSlot> + use<> {
        let live: Vec<_> = (0..)
            .zip(&self.flows)
            .filter(|(_, flow)| flow.is_some())
            .map(|(slot, _)| FlowSlot(slot))
            .collect();
        live.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use yuzuri_capture::{Checksum, Ecn, End, Flags, TcpOptions};

    /// Data, and its acknowledgement a millisecond later, alternately.
    fn segment(number: u32) -> Segment {
        let (from, payload_bytes) =
            if number.is_multiple_of(2) { (End::Lower, 1000) } else { (End::Higher, 0) };
        let sent = (number / 2) * 1000;
        let (seq, ack) = if from == End::Lower { (sent, 1) } else { (1, sent + 1000) };
        Segment {
            time_ns: i64::from(number) * 1_000_000,
            flow: FlowSlot(0),
            seq,
            ack,
            payload_bytes,
            wire_bytes: payload_bytes + 54,
            window: 60_000,
            ip_id: number as u16,
            flags: Flags::ACK,
            options: TcpOptions::default(),
            from,
            ecn: Ecn::NotEct,
            checksum: Checksum::Valid,
            first: false,
            fragment: false,
        }
    }

    #[test]
    fn a_flow_whose_segments_waited_ends_like_one_without_waiting() {
        for count in 1..=3 * BATCH as u32 {
            let (mut tracker, mut asked, mut flow) = (Tracker::new(), Tracker::new(), Flow::new());
            for segment in (0..count).map(segment) {
                tracker.segment(&segment);
                asked.segment(&segment);
                asked.rounds(FlowSlot(0));
                flow.segment(&segment);
            }
            let slot = FlowSlot(0);
            let as_it_stands = tracker.now(slot).map(|ended| format!("{ended:?}"));
            let ended = tracker.end(slot).map(|ended| format!("{ended:?}"));
            if count > YOUNG as u32 {
                assert_eq!(asked.rounds(slot), flow.rounds(), "{count} segments");
            }
            assert_eq!(asked.end(slot).map(|ended| format!("{ended:?}")), ended);
            assert_eq!(ended, Some(format!("{:?}", flow.finish())), "{count} segments");
            assert_eq!(as_it_stands, ended);
            assert_eq!(tracker.live().count(), 0);
        }
    }
}
