//! From packets to window traces: windows rebuilt from what passed a capture.

mod brief;
mod capture_point;
mod copies;
mod flow;
mod half;
mod limits;
mod look;
mod readers;
mod scoreboard;
mod sender_clock;
mod spread;
mod unseen;
mod waiting;

pub use flow::{Ended, Oddities, Seen};
pub use limits::{PacketLimits, packet_limits};
pub use look::{Look, Looks};
pub use readers::{MAX_READERS, read_each};
pub use spread::{Part, spread};

use flow::Flow;
use yuzuri_capture::{FlowSlot, Segment};

/// Follows all flows of a capture.
#[derive(Debug, Default)]
pub struct Tracker {
    flows: Vec<Option<Box<Flow>>>,
}

impl Tracker {
    /// A tracker without flows.
    pub fn new() -> Tracker {
        Tracker::default()
    }

    /// A segment of a flow.
    #[inline]
    pub fn segment(&mut self, segment: &Segment) {
        let slot = segment.flow.index();
        if slot >= self.flows.len() {
            self.flows.resize_with(slot + 1, || None);
        }
        self.flows[slot].get_or_insert_with(|| Box::new(Flow::new())).segment(segment);
    }

    /// A flow is over: what became of it.
    pub fn end(&mut self, slot: FlowSlot) -> Option<Ended> {
        Some(self.flows.get_mut(slot.index())?.take()?.finish())
    }

    /// What a flow is as far as it goes; it goes on.
    pub fn now(&self, slot: FlowSlot) -> Option<Ended> {
        Some(self.flows.get(slot.index())?.as_deref()?.clone().finish())
    }

    /// By end, lower first: the rounds of the data it sent that are over.
    pub fn rounds(&self, slot: FlowSlot) -> [usize; 2] {
        self.flows.get(slot.index()).and_then(|flow| flow.as_deref()).map_or([0; 2], Flow::rounds)
    }

    /// The flows that are still followed.
    pub fn live(&self) -> impl Iterator<Item = FlowSlot> + use<> {
        let live: Vec<_> = (0..)
            .zip(&self.flows)
            .filter(|(_, flow)| flow.is_some())
            .map(|(slot, _)| FlowSlot(slot))
            .collect();
        live.into_iter()
    }
}
