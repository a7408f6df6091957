//! A TCP segment as the simulation represents it.

use yuzuri_netmodel::{Packet, Time};

/// Payload of a full segment, bytes: an MTU of 1500 minus 20 for IPv4 and 32 for TCP with
/// timestamps.
pub const MSS_BYTES: u16 = 1448;

/// Ethernet (14), IPv4 (20) and TCP with timestamps (32), bytes.
const HEADER_BYTES: u32 = 66;

/// SACK blocks that fit next to the timestamp option (RFC 2018, section 3).
pub const SACK_BLOCKS: usize = 3;

/// A half-open range of segment numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// First segment.
    pub start: u32,
    /// One past the last segment.
    pub end: u32,
}

/// The kind of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Opens the half-connection; travels with the data.
    Syn,
    /// Answers [`Kind::Syn`]; travels against the data.
    SynAck,
    /// Carries payload; travels with the data.
    Data,
    /// Acknowledges data; travels against the data.
    Ack,
}

/// A TCP segment. Data is numbered in segments, not bytes: segment `n` is the `n`th one written.
/// Only the last segment of a write may be shorter than [`MSS_BYTES`].
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// The half-connection (one sender, one receiver) of the segment.
    pub connection: u32,
    /// The kind of the segment.
    pub kind: Kind,
    /// Payload, bytes; 0 for all kinds except [`Kind::Data`].
    pub payload_bytes: u16,
    /// Number of SACK blocks in use; the most recent block is first.
    pub blocks: u8,
    /// Data: its segment number. ACK: the segment number expected next.
    pub number: u32,
    /// SACK blocks (RFC 2018).
    pub sack: [Block; SACK_BLOCKS],
    /// A segment received twice (RFC 2883).
    pub dsack: Option<u32>,
    /// Data: ECN-capable transport (ECT); a queue may mark it instead of dropping it (RFC 3168).
    pub ect: bool,
    /// Data: a queue marked it (CE, "congestion experienced").
    pub ce: bool,
    /// ACK: echoes marks (ECE) with the accuracy of a DCTCP receiver (RFC 8257, section 3.2).
    pub ece: bool,
    /// ACK: receive window, in segments from `number`.
    pub window: u32,
    /// Timestamp option: send time (TSval, RFC 7323).
    pub sent_at: Time,
    /// Timestamp option: `sent_at` of the segment that it answers (TSecr).
    pub echo: Time,
}

impl Segment {
    /// Creates a segment without SACK blocks.
    pub fn new(connection: u32, kind: Kind, number: u32, sent_at: Time, echo: Time) -> Segment {
        Segment {
            connection,
            kind,
            payload_bytes: 0,
            blocks: 0,
            number,
            sack: [Block::default(); SACK_BLOCKS],
            dsack: None,
            ect: false,
            ce: false,
            ece: false,
            window: u32::MAX,
            sent_at,
            echo,
        }
    }

    /// The SACK blocks in use.
    pub fn sacked(&self) -> &[Block] {
        &self.sack[..usize::from(self.blocks).min(SACK_BLOCKS)]
    }
}

impl Packet for Segment {
    fn bytes(&self) -> u32 {
        match self.kind {
            Kind::Syn | Kind::SynAck => HEADER_BYTES + 8,
            Kind::Data => HEADER_BYTES + u32::from(self.payload_bytes),
            Kind::Ack => {
                let blocks = u32::from(self.blocks) + u32::from(self.dsack.is_some());
                HEADER_BYTES + if blocks == 0 { 0 } else { 4 + 8 * blocks }
            }
        }
    }

    fn ecn_capable(&self) -> bool {
        self.ect
    }

    fn mark_ce(&mut self) {
        self.ce = true;
    }

    fn flow(&self) -> u64 {
        // SplitMix64's finalizer: neighbouring connections hash to unrelated queues, and the two
        // directions to different ones.
        let against = matches!(self.kind, Kind::Ack | Kind::SynAck);
        let mut x =
            (u64::from(self.connection) << 1 | u64::from(against)).wrapping_add(0x9e37_79b9_7f4a_7c15);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_those_of_the_wire() {
        let mut segment = Segment::new(0, Kind::Data, 0, Time::ZERO, Time::ZERO);
        segment.payload_bytes = MSS_BYTES;
        assert_eq!(segment.bytes(), 1514);
        let mut ack = Segment::new(0, Kind::Ack, 0, Time::ZERO, Time::ZERO);
        assert_eq!(ack.bytes(), 66);
        ack.blocks = 3;
        assert_eq!(ack.bytes(), 66 + 28);
        assert_ne!(segment.flow(), ack.flow());
    }
}
