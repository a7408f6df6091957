//! Segments in the form in which they are passed between threads.

use yuzuri_capture::{Checksum, Ecn, End, Flags, FlowSlot, SackBlocks, Segment, TcpOptions};

/// A segment with no option but timestamps, as most are: less than half as large.
#[derive(Clone, Copy, Debug)]
pub(super) struct CompactSegment {
    time_ns: i64,
    flow: FlowSlot,
    seq: u32,
    ack: u32,
    payload_bytes: u32,
    wire_bytes: u32,
    timestamps: (u32, u32),
    window: u16,
    ip_id: u16,
    flags: Flags,
    timed: bool,
    from: End,
    ecn: Ecn,
    checksum: Checksum,
    fragment: bool,
}

impl CompactSegment {
    /// The compact form, with the flow's slot at the receiving thread; `None` if the segment has
    /// more than that.
    #[inline(always)]
    pub(super) fn of(segment: &Segment, flow: FlowSlot) -> Option<CompactSegment> {
        let Segment {
            time_ns,
            flow: _,
            seq,
            ack,
            payload_bytes,
            wire_bytes,
            window,
            ip_id,
            flags,
            options:
                TcpOptions {
                    timestamps,
                    mss: None,
                    window_scale: None,
                    sack_permitted: false,
                    malformed: false,
                    cut: false,
                    ref sack,
                },
            from,
            ecn,
            checksum,
            first: false,
            fragment,
        } = *segment
        else {
            return None;
        };
        sack.is_empty().then(|| CompactSegment {
            time_ns,
            flow,
            seq,
            ack,
            payload_bytes,
            wire_bytes,
            timestamps: timestamps.unwrap_or_default(),
            window,
            ip_id,
            flags,
            timed: timestamps.is_some(),
            from,
            ecn,
            checksum,
            fragment,
        })
    }

    /// The original segment.
    #[inline(always)]
    pub(super) fn segment(&self) -> Segment {
        let options = TcpOptions {
            timestamps: self.timed.then_some(self.timestamps),
            mss: None,
            window_scale: None,
            sack_permitted: false,
            malformed: false,
            cut: false,
            sack: SackBlocks::default(),
        };
        Segment {
            time_ns: self.time_ns,
            flow: self.flow,
            seq: self.seq,
            ack: self.ack,
            payload_bytes: self.payload_bytes,
            wire_bytes: self.wire_bytes,
            window: self.window,
            ip_id: self.ip_id,
            flags: self.flags,
            options,
            from: self.from,
            ecn: self.ecn,
            checksum: self.checksum,
            first: false,
            fragment: self.fragment,
        }
    }
}
