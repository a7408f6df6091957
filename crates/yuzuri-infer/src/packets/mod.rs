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

/// Segments kept of a flow before it is tracked: a capture may have a hundred thousand flows open,
/// and most flows of scans and short requests never send more. Tracking a flow takes twenty times
/// as much memory as a segment.
const YOUNG: usize = 6;

/// A flow with few segments, or a tracked one.
#[derive(Clone, Debug)]
enum Stage {
    /// Its segments, not evaluated yet.
    Young(Vec<Segment>),
    Followed(Box<Flow>),
}

impl Stage {
    fn new() -> Stage {
        Stage::Young(Vec::new())
    }

    #[inline]
    fn segment(&mut self, segment: &Segment) {
        match self {
            Stage::Followed(flow) => flow.segment(segment),
            Stage::Young(segments) => {
                if segments.len() < YOUNG {
                    segments.reserve_exact(1);
                    segments.push(*segment);
                } else {
                    let mut flow = followed(segments);
                    flow.segment(segment);
                    *self = Stage::Followed(flow);
                }
            }
        }
    }

    fn finish(self) -> Ended {
        match self {
            Stage::Followed(flow) => flow.finish(),
            Stage::Young(segments) => followed(&segments).finish(),
        }
    }
}

/// Starts tracking a flow that began with these segments.
#[cold]
fn followed(segments: &[Segment]) -> Box<Flow> {
    let mut flow = Box::new(Flow::new());
    for segment in segments {
        flow.segment(segment);
    }
    flow
}

/// Tracks all flows of a capture.
#[derive(Debug, Default)]
pub struct Tracker {
    flows: Vec<Option<Stage>>,
}

impl Tracker {
    /// A tracker without flows.
    pub fn new() -> Tracker {
        Tracker::default()
    }

    /// Processes a segment of a flow.
    #[inline]
    pub fn segment(&mut self, segment: &Segment) {
        let slot = segment.flow.index();
        if slot >= self.flows.len() {
            self.flows.resize_with(slot + 1, || None);
        }
        self.flows[slot].get_or_insert_with(Stage::new).segment(segment);
    }

    /// Ends a flow; returns its results.
    pub fn end(&mut self, slot: FlowSlot) -> Option<Ended> {
        Some(self.flows.get_mut(slot.index())?.take()?.finish())
    }

    /// A flow's results so far; tracking continues.
    pub fn now(&self, slot: FlowSlot) -> Option<Ended> {
        Some(self.flows.get(slot.index())?.as_ref()?.clone().finish())
    }

    /// By end, lower first: the number of completed rounds of its data.
    pub fn rounds(&self, slot: FlowSlot) -> [usize; 2] {
        match self.flows.get(slot.index()) {
            Some(Some(Stage::Followed(flow))) => flow.rounds(),
            _ => [0; 2],
        }
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
    fn a_flow_stored_as_segments_ends_like_one_that_was_followed() {
        for count in 1..=3 * YOUNG as u32 {
            let (mut tracker, mut flow) = (Tracker::new(), Flow::new());
            for segment in (0..count).map(segment) {
                tracker.segment(&segment);
                flow.segment(&segment);
            }
            let slot = FlowSlot(0);
            let as_it_stands = tracker.now(slot).map(|ended| format!("{ended:?}"));
            let ended = tracker.end(slot).map(|ended| format!("{ended:?}"));
            assert_eq!(ended, Some(format!("{:?}", flow.finish())), "{count} segments");
            assert_eq!(as_it_stands, ended);
            assert_eq!(tracker.live().count(), 0);
        }
    }
}
