//! Which flows of a capture are given, where several read it.

use crate::flows::FlowSlot;

/// A share of a capture's flows. Each of several that read the same capture has one of its own: all of them see all packets and know all flows, and each
/// gives the segments and the ends of its own, in slots of its own. What they do not give costs them little.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Partition {
    number: u32,
    /// At least 1.
    of: u32,
}

impl Partition {
    /// All flows.
    pub const ALL: Partition = Partition { number: 0, of: 1 };

    /// So many shares (at least one), which together are all flows: dealt out in the order in which the flows come.
    pub fn each(of: u32) -> impl Iterator<Item = Partition> {
        let of = of.max(1);
        (0..of).map(move |number| Partition { number, of })
    }

    /// What slot a flow of the table has in this share; `None` if it is another's.
    #[inline(always)]
    pub(crate) fn own(self, slot: FlowSlot) -> Option<FlowSlot> {
        if self.of == 1 {
            return Some(slot);
        }
        (slot.0 % self.of == self.number).then(|| FlowSlot(slot.0 / self.of))
    }

    /// What slot in the table a flow of this share has; `None` if none can have it.
    pub(crate) fn slot(self, own: FlowSlot) -> Option<FlowSlot> {
        Some(FlowSlot(own.0.checked_mul(self.of)?.checked_add(self.number)?))
    }
}
