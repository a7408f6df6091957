//! The records as the kernel writes them: `bpf/event.h` is their one definition, the build derives the types.

#![expect(unsafe_code, reason = "the kernel's records are unions")]

pub(crate) use crate::skel::monitor::types::{config, event_record, flow_record, owner, ring_control};

/// A slot of a ring.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) union Record {
    pub(crate) event: event_record,
    pub(crate) flow: flow_record,
}

const _: () = assert!(size_of::<Record>() == 152);
const _: () = assert!(size_of::<event_record>() == 152 && size_of::<flow_record>() == 152);
const _: () = assert!(size_of::<ring_control>() == 320);
const _: () = assert!(std::mem::offset_of!(event_record, kind) == std::mem::offset_of!(flow_record, kind));
const _: () = assert!(std::mem::offset_of!(event_record, seq) == std::mem::offset_of!(flow_record, seq));

impl Record {
    /// A record of these bytes, as they might lie in a ring.
    #[cfg(test)]
    pub(crate) fn from_bytes(bytes: [u8; 152]) -> Record {
        // SAFETY: both variants are 152 bytes of integers without padding: every bit pattern is valid.
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

// `enum`s of the header; the test below reads them there.
#[cfg(test)]
pub(crate) const RECORD_ACK: u8 = 1;
pub(crate) const RECORD_STATE: u8 = 2;
pub(crate) const RECORD_RETRANSMIT: u8 = 3;
pub(crate) const RECORD_OPEN: u8 = 4;
pub(crate) const RECORD_CLOSE: u8 = 5;
pub(crate) const RECORD_FLOW: u8 = 6;
pub(crate) const RECORD_NOTE: u8 = 7;
pub(crate) const HOOKS: usize = 5;
pub(crate) const MARK_UNDO: u16 = 0x100;
pub(crate) const MARK_REORDERING: u16 = 0x200;
pub(crate) const MARK_CONTROL: u16 = 0x400;
pub(crate) const MARK_AFTER_RTO: u16 = 0x800;
pub(crate) const MARK_RENEGING: u16 = 0x1000;
pub(crate) const MARK_NO_SPACE: u16 = 0x2000;
pub(crate) const MARK_CWND_LIMITED: u16 = 0x4000;
pub(crate) const MARK_THROTTLED: u16 = 0x8000;
pub(crate) const ROLE_OPENED: u8 = 1;
pub(crate) const ROLE_ACCEPTED: u8 = 2;
pub(crate) const NO_STACK: u32 = u32::MAX;

/// The bits that `yuzuri_trace::Marks` has, too.
pub(crate) const MARKS_SHARED: u16 = 0x3f;

#[cfg(test)]
mod tests {
    use super::*;
    use yuzuri_trace::{Filter, Marks};

    /// Values of the enumerators in the header.
    fn header() -> std::collections::HashMap<String, u32> {
        let mut values = std::collections::HashMap::new();
        let mut next = 0;
        for line in include_str!("../bpf/event.h").lines() {
            let line = line.split("/*").next().unwrap_or("").trim();
            if line.starts_with("enum") {
                next = 0;
            }
            let Some(item) = line.strip_suffix(',') else { continue };
            let (name, value) = match item.split_once('=') {
                Some((name, value)) => (name.trim(), value.trim()),
                None => (item.trim(), ""),
            };
            if !name.chars().all(|c| c.is_ascii_uppercase() || c == '_') {
                continue;
            }
            let parsed = match value.strip_prefix("0x") {
                Some(hex) => u32::from_str_radix(hex, 16).ok(),
                None => value.parse().ok(),
            };
            next = parsed.unwrap_or(next);
            values.insert(name.to_owned(), next);
            next += 1;
        }
        values
    }

    #[test]
    fn constants_are_the_headers() {
        let header = header();
        for (name, value) in [
            ("RECORD_ACK", RECORD_ACK as u32),
            ("RECORD_STATE", RECORD_STATE as u32),
            ("RECORD_RETRANSMIT", RECORD_RETRANSMIT as u32),
            ("RECORD_OPEN", RECORD_OPEN as u32),
            ("RECORD_CLOSE", RECORD_CLOSE as u32),
            ("RECORD_FLOW", RECORD_FLOW as u32),
            ("RECORD_NOTE", RECORD_NOTE as u32),
            ("HOOKS", HOOKS as u32),
            ("MARK_DUP_ACK", Marks::DUP_ACK.0 as u32),
            ("MARK_SACK", Marks::SACK.0 as u32),
            ("MARK_DSACK", Marks::DSACK.0 as u32),
            ("MARK_ECE", Marks::ECE.0 as u32),
            ("MARK_APP_LIMITED", Marks::APP_LIMITED.0 as u32),
            ("MARK_SSTHRESH", Marks::SSTHRESH.0 as u32),
            ("MARK_UNDO", MARK_UNDO as u32),
            ("MARK_REORDERING", MARK_REORDERING as u32),
            ("MARK_CONTROL", MARK_CONTROL as u32),
            ("MARK_AFTER_RTO", MARK_AFTER_RTO as u32),
            ("MARK_RENEGING", MARK_RENEGING as u32),
            ("MARK_NO_SPACE", MARK_NO_SPACE as u32),
            ("MARK_CWND_LIMITED", MARK_CWND_LIMITED as u32),
            ("MARK_THROTTLED", MARK_THROTTLED as u32),
            ("ROLE_OPENED", ROLE_OPENED as u32),
            ("ROLE_ACCEPTED", ROLE_ACCEPTED as u32),
        ] {
            assert_eq!(header.get(name), Some(&value), "{name}");
        }
        assert_eq!(config::default().port.len(), Filter::MAX_TERMS);
    }
}
