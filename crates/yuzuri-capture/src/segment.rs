//! One TCP segment as on the wire.

use crate::flows::FlowSlot;
use serde::{Deserialize, Serialize};

/// One TCP segment whose headers were captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// When it was captured: ns since 1970-01-01 UTC. May be earlier than the previous packet's
    /// time.
    pub time_ns: i64,
    /// Its flow; [`Capture::key`](crate::Capture::key) returns the addresses.
    pub flow: FlowSlot,
    /// Sequence number of the first byte (of the SYN, if set). RFC 9293 section 3.1.
    pub seq: u32,
    /// Acknowledgement number; only valid with [`Flags::ACK`].
    pub ack: u32,
    /// Bytes of payload by the IP header's length, captured or not. SYN and FIN do not count.
    pub payload_bytes: u32,
    /// Length of the IP packet on the wire, with its headers.
    pub wire_bytes: u32,
    /// The window field, not scaled.
    pub window: u16,
    /// Identification of the IPv4 packet, which most senders increment from packet to packet; 0 for
    /// IPv6. RFC 6864.
    pub ip_id: u16,
    /// Flags.
    pub flags: Flags,
    /// Options.
    pub options: TcpOptions,
    /// Which endpoint of the flow's key sent it.
    pub from: End,
    /// ECN field of the IP header.
    pub ecn: Ecn,
    /// The state of the TCP checksum.
    pub checksum: Checksum,
    /// Whether it is the first segment of its flow.
    pub first: bool,
    /// Whether it is the first fragment of an IP packet. The payload in later fragments is not
    /// read, and `payload_bytes` does not include it.
    pub fragment: bool,
}

impl Segment {
    /// An empty segment.
    pub(crate) const EMPTY: Segment = Segment {
        time_ns: 0,
        flow: FlowSlot(0),
        seq: 0,
        ack: 0,
        payload_bytes: 0,
        wire_bytes: 0,
        window: 0,
        ip_id: 0,
        flags: Flags(0),
        options: TcpOptions {
            timestamps: None,
            mss: None,
            window_scale: None,
            sack_permitted: false,
            malformed: false,
            cut: false,
            sack: SackBlocks { blocks: [(0, 0); 4], count: 0 },
        },
        from: End::Lower,
        ecn: Ecn::NotEct,
        checksum: Checksum::Unknown,
        first: false,
        fragment: false,
    };
}

/// One of the two endpoints of a [`FlowKey`](crate::FlowKey).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    /// The one with the lower address, or with the lower port of the same address.
    Lower,
    /// The other one.
    Higher,
}

impl End {
    /// The other end.
    pub fn other(self) -> End {
        match self {
            End::Lower => End::Higher,
            End::Higher => End::Lower,
        }
    }

    /// 0 for the lower, 1 for the higher end.
    pub fn index(self) -> usize {
        self as usize
    }
}

/// Flags of the TCP header. RFC 9293 section 3.1, RFC 3168 section 6.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Flags(pub u16);

impl Flags {
    /// The sender has no more data.
    pub const FIN: Flags = Flags(0x001);
    /// Sequence numbers begin here.
    pub const SYN: Flags = Flags(0x002);
    /// The connection is reset.
    pub const RST: Flags = Flags(0x004);
    /// The data is to be pushed to the application.
    pub const PSH: Flags = Flags(0x008);
    /// The acknowledgement number is valid.
    pub const ACK: Flags = Flags(0x010);
    /// The urgent pointer is valid.
    pub const URG: Flags = Flags(0x020);
    /// ECN-Echo: a mark arrived.
    pub const ECE: Flags = Flags(0x040);
    /// Congestion window reduced.
    pub const CWR: Flags = Flags(0x080);
    /// Accurate ECN (RFC 9768), formerly the nonce sum (RFC 3540).
    pub const AE: Flags = Flags(0x100);

    /// Whether all of `other` is set.
    pub const fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any of `other` is set.
    pub const fn intersects(self, other: Flags) -> bool {
        self.0 & other.0 != 0
    }
}

impl std::ops::BitOr for Flags {
    type Output = Flags;
    fn bitor(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

impl std::fmt::Display for Flags {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = ["FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR", "AE"];
        let mut set = names.iter().enumerate().filter(|(bit, _)| self.0 >> bit & 1 == 1);
        if let Some((_, first)) = set.next() {
            f.write_str(first)?;
        }
        set.try_for_each(|(_, name)| write!(f, " {name}"))
    }
}

/// The ECN field of an IP header. RFC 3168 section 5.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ecn {
    /// 00: not ECN-capable.
    #[default]
    NotEct,
    /// 01: ECN-capable; by RFC 9331, a sender that responds to each mark.
    Ect1,
    /// 10: ECN-capable.
    Ect0,
    /// 11: marked by a queue.
    Ce,
}

impl Ecn {
    /// From the lowest two bits of the traffic class.
    pub const fn from_bits(traffic_class: u8) -> Ecn {
        match traffic_class & 3 {
            0 => Ecn::NotEct,
            1 => Ecn::Ect1,
            2 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }
}

/// The state of a segment's TCP checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Checksum {
    /// Not verified: the packet was not captured whole, it is a fragment, or the caller did not ask
    /// for it.
    #[default]
    Unknown,
    /// Correct.
    Valid,
    /// Only the sum of the pseudo-header is filled in: the packet was captured at its sender,
    /// before the network card completed it (`CHECKSUM_PARTIAL` in Linux). One of 30,000 truncated
    /// packets looks like this by chance.
    Partial,
    /// Incorrect: the packet is damaged, forged, or was altered after it was captured.
    Invalid,
}

/// The options of a TCP header that matter to the sender's behaviour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TcpOptions {
    /// Timestamps: value and echo reply. RFC 7323 section 3.
    pub timestamps: Option<(u32, u32)>,
    /// The largest segment that the option's sender accepts, bytes. RFC 9293 section 3.7.1.
    pub mss: Option<u16>,
    /// Bits by which this sender's later windows are to be shifted, as on the wire: more than 14
    /// means 14. RFC 7323 section 2.
    pub window_scale: Option<u8>,
    /// Whether SACK is offered. RFC 2018 section 2.
    pub sack_permitted: bool,
    /// Whether the options are invalid: a length of 0 or 1, past the header's end, or wrong for the
    /// option. Options before the first invalid one were read.
    pub malformed: bool,
    /// Whether the captured bytes end within the options. Options before that were read, and SACK
    /// blocks one by one.
    pub cut: bool,
    /// SACK blocks, RFC 2018 section 3; the first may report a duplicate, RFC 2883.
    pub sack: SackBlocks,
}

impl TcpOptions {
    /// Removes all options.
    #[inline(always)]
    pub(crate) fn clear(&mut self) {
        let TcpOptions { timestamps, mss, window_scale, sack_permitted, malformed, cut, sack } = self;
        (*timestamps, *mss, *window_scale) = (None, None, None);
        (*sack_permitted, *malformed, *cut) = (false, false, false);
        // The blocks are half of the structure, and usually empty already.
        if !sack.is_empty() {
            *sack = SackBlocks::default();
        }
    }
}

/// Up to four SACK blocks, in wire order. Dereferences to a slice of (left edge, right edge).
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct SackBlocks {
    blocks: [(u32, u32); 4],
    count: u8,
}

impl SackBlocks {
    /// Adds a block. A fifth block is ignored, since no header can hold it.
    pub fn push(&mut self, left: u32, right: u32) {
        if let Some(block) = self.blocks.get_mut(usize::from(self.count)) {
            *block = (left, right);
            self.count += 1;
        }
    }
}

impl std::ops::Deref for SackBlocks {
    type Target = [(u32, u32)];
    #[inline]
    fn deref(&self) -> &[(u32, u32)] {
        &self.blocks[..usize::from(self.count & 7).min(4)]
    }
}

impl std::fmt::Debug for SackBlocks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
