//! Divides a capture's flows among several readers.

use crate::flows::FlowSlot;

/// A part of a capture's flows. Each reader of the same capture has its own. All readers see all
/// packets and know all flows, and each returns the segments and ends of its own flows, in its own
/// slots. Flows of other partitions cost a reader little.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Partition {
    number: u32,
    /// At least 1.
    of: u32,
}

impl Partition {
    /// All flows.
    pub const ALL: Partition = Partition { number: 0, of: 1 };

    /// Divides all flows into `of` partitions (at least one): flows are dealt out in the order in
    /// which they begin.
    pub fn each(of: u32) -> impl Iterator<Item = Partition> {
        let of = of.max(1);
        (0..of).map(move |number| Partition { number, of })
    }

    /// The slot in this partition of a flow of the table; `None` if the flow is another's.
    #[inline(always)]
    pub(crate) fn own(self, slot: FlowSlot) -> Option<FlowSlot> {
        if self.of == 1 {
            return Some(slot);
        }
        (slot.0 % self.of == self.number).then(|| FlowSlot(slot.0 / self.of))
    }

    /// The slot in the table of a flow of this partition; `None` if there can be none.
    pub(crate) fn slot(self, own: FlowSlot) -> Option<FlowSlot> {
        Some(FlowSlot(own.0.checked_mul(self.of)?.checked_add(self.number)?))
    }
}
