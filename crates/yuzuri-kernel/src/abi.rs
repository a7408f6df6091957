//! The records as the kernel writes them. `bpf/event.h` is their only definition; the build derives
//! types and enumerators from it.

#![expect(unsafe_code, reason = "the kernel's records are unions")]

pub(crate) use crate::skel::monitor::types::{config, event_record, flow_record, owner, ring_control};
use crate::skel::monitor::types::{hook, mark, record_kind, role};
use yuzuri_trace::Marks;

/// A slot of a ring buffer.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) union Record {
    pub(crate) event: event_record,
    pub(crate) flow: flow_record,
}

/// Bytes of a record, `RECORD_BYTES` of `event.h`.
pub(crate) const RECORD_BYTES: usize = size_of::<Record>();

const _: () = assert!(size_of::<event_record>() == RECORD_BYTES && size_of::<flow_record>() == RECORD_BYTES);
const _: () = assert!(size_of::<ring_control>() == 320);
const _: () = assert!(std::mem::offset_of!(event_record, kind) == std::mem::offset_of!(flow_record, kind));
const _: () = assert!(std::mem::offset_of!(event_record, seq) == std::mem::offset_of!(flow_record, seq));

impl Record {
    /// A record made of these bytes, as they might appear in a ring buffer.
    #[cfg(test)]
    pub(crate) fn from_bytes(bytes: [u8; RECORD_BYTES]) -> Record {
        // SAFETY: both variants are integers without padding: every bit pattern is valid.
        unsafe { std::mem::transmute(bytes) }
    }

    pub(crate) fn event(&self) -> &event_record {
        // SAFETY: both variants are integers throughout: every bit pattern is valid.
        unsafe { &self.event }
    }

    pub(crate) fn flow(&self) -> &flow_record {
        // SAFETY: as above.
        unsafe { &self.flow }
    }
}

#[cfg(test)]
pub(crate) const RECORD_ACK: u8 = record_kind::RECORD_ACK.0 as u8;
pub(crate) const RECORD_STATE: u8 = record_kind::RECORD_STATE.0 as u8;
pub(crate) const RECORD_RETRANSMIT: u8 = record_kind::RECORD_RETRANSMIT.0 as u8;
pub(crate) const RECORD_OPEN: u8 = record_kind::RECORD_OPEN.0 as u8;
pub(crate) const RECORD_CLOSE: u8 = record_kind::RECORD_CLOSE.0 as u8;
pub(crate) const RECORD_FLOW: u8 = record_kind::RECORD_FLOW.0 as u8;
pub(crate) const RECORD_MARK: u8 = record_kind::RECORD_MARK.0 as u8;
pub(crate) const HOOKS: usize = hook::HOOKS.0 as usize;
pub(crate) const MARK_AT_BOUND: u16 = mark::MARK_AT_BOUND.0 as u16;
pub(crate) const MARK_REPORTS_BOUND: u16 = mark::MARK_REPORTS_BOUND.0 as u16;
pub(crate) const MARK_UNDO: u16 = mark::MARK_UNDO.0 as u16;
pub(crate) const MARK_REORDERING: u16 = mark::MARK_REORDERING.0 as u16;
pub(crate) const MARK_CONTROL: u16 = mark::MARK_CONTROL.0 as u16;
pub(crate) const MARK_AFTER_RTO: u16 = mark::MARK_AFTER_RTO.0 as u16;
pub(crate) const MARK_RENEGING: u16 = mark::MARK_RENEGING.0 as u16;
pub(crate) const MARK_NO_SPACE: u16 = mark::MARK_NO_SPACE.0 as u16;
pub(crate) const MARK_CWND_LIMITED: u16 = mark::MARK_CWND_LIMITED.0 as u16;
pub(crate) const MARK_THROTTLED: u16 = mark::MARK_THROTTLED.0 as u16;
pub(crate) const ROLE_OPENED: u8 = role::ROLE_OPENED.0 as u8;
pub(crate) const ROLE_ACCEPTED: u8 = role::ROLE_ACCEPTED.0 as u8;
pub(crate) const NO_STACK: u32 = u32::MAX;

/// The bits that also exist in `yuzuri_trace::Marks`.
pub(crate) const MARKS_SHARED: u16 = Marks::DUP_ACK.0
    | Marks::SACK.0
    | Marks::DSACK.0
    | Marks::ECE.0
    | Marks::APP_LIMITED.0
    | Marks::SSTHRESH.0;
const _: () = assert!(
    mark::MARK_DUP_ACK.0 == Marks::DUP_ACK.0 as u32
        && mark::MARK_SACK.0 == Marks::SACK.0 as u32
        && mark::MARK_DSACK.0 == Marks::DSACK.0 as u32
        && mark::MARK_ECE.0 == Marks::ECE.0 as u32
        && mark::MARK_APP_LIMITED.0 == Marks::APP_LIMITED.0 as u32
        && mark::MARK_SSTHRESH.0 == Marks::SSTHRESH.0 as u32
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_table_has_room_for_all_terms_of_a_filter() {
        assert_eq!(config::default().port.len(), yuzuri_trace::Filter::MAX_TERMS);
    }
}
