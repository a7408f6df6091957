//! Artificial segments.

use yuzuri_capture::{Checksum, Ecn, End, Flags, FlowSlot, Segment, TcpOptions};

pub const SYN: u16 = 2;
pub const ACK: u16 = 16;

/// A segment of the only flow, whose full ones have 1000 bytes.
pub fn segment(time_ns: i64, from: End, flags: u16, seq: u32, ack: u32, payload_bytes: u32) -> Segment {
    Segment {
        time_ns,
        flow: FlowSlot(0),
        seq,
        ack,
        payload_bytes,
        wire_bytes: payload_bytes + 52,
        window: 65_535,
        ip_id: 0,
        flags: Flags(flags),
        options: TcpOptions { mss: (flags & SYN != 0).then_some(1000), ..TcpOptions::default() },
        from,
        ecn: Ecn::NotEct,
        checksum: Checksum::Unknown,
        first: false,
        fragment: false,
    }
}
