//! Facts about a capture as a whole.

use serde::{Deserialize, Serialize};

/// What is known about a capture so far; complete once
/// [`Capture::next_item`](crate::Capture::next_item) has returned `None`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileFacts {
    /// File format.
    pub format: Format,
    /// How the file is compressed.
    pub compression: Compression,
    /// Packets read, including skipped ones.
    pub packets: u64,
    /// Captured bytes of these packets.
    pub captured_bytes: u64,
    /// Their bytes on the wire including link-layer headers, as far as the capturing program
    /// counted them.
    pub wire_bytes: u64,
    /// Packets that yielded a TCP segment.
    pub segments: u64,
    /// Packets that were captured only in part.
    pub cut_packets: u64,
    /// Packets that yielded no segment, by reason.
    pub skipped: Skipped,
    /// Fragments of IP packets, including first fragments.
    pub fragments: u64,
    /// Segments with invalid options ([`TcpOptions::malformed`](crate::TcpOptions::malformed)), in
    /// the reader's own [`Partition`](crate::Partition).
    pub malformed_options: u64,
    /// Segments by the state of their checksum, in the reader's own partition.
    pub checksums: Checksums,
    /// Segments that arrived in a tunnel, by its outermost kind.
    #[serde(default)]
    pub tunnels: Tunnels,
    /// Flows.
    pub flows: FlowCounts,
    /// Timestamps.
    pub clock: Clock,
    /// Interfaces described in the file (all sections); 1 for formats that describe none.
    pub interfaces: u64,
    /// Link types of the interfaces, with counts; the first 64.
    pub link_types: Vec<LinkTypeCount>,
    /// Sections of a pcapng file; 1 for other formats.
    pub sections: u64,
    /// Blocks of a pcapng file that carry no packet and are not needed, such as names and comments.
    pub other_blocks: u64,
    /// Packets dropped by the capturing machine, if the file reports them: interface statistics of
    /// pcapng (`isb_ifdrop`), or the counts that snoop and ERF store with each packet.
    pub capture_drops: Option<u64>,
    /// How the file ended.
    pub ending: Ending,
}

impl FileFacts {
    /// Merges the facts that another reader of the same capture has about its own partition.
    pub fn add_share(&mut self, other: &FileFacts) {
        self.malformed_options += other.malformed_options;
        let Checksums { unknown, valid, partial, invalid } = other.checksums;
        self.checksums.unknown += unknown;
        self.checksums.valid += valid;
        self.checksums.partial += partial;
        self.checksums.invalid += invalid;
    }
}

/// Format of a capture file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// pcap with timestamps in microseconds.
    PcapMicro,
    /// pcap with timestamps in nanoseconds.
    PcapNano,
    /// pcap with longer packet headers, as once patched into libpcap (`a1b2cd34`).
    PcapModified,
    /// pcapng.
    PcapNg,
    /// snoop of Solaris (RFC 1761).
    Snoop,
    /// Records of Endace (ERF).
    Erf,
}

/// Compression of a capture file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Compression {
    /// None.
    #[default]
    None,
    /// gzip (RFC 1952).
    Gzip,
    /// Zstandard (RFC 8878).
    Zstd,
    /// xz.
    Xz,
}

/// Packets that yielded no segment, by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Skipped {
    /// Neither IPv4 nor IPv6, such as ARP.
    pub not_ip: u64,
    /// IP, but not TCP.
    pub not_tcp: u64,
    /// A fragment of an IP packet that does not begin with the TCP header.
    pub fragment: u64,
    /// Fewer bytes were captured than are needed: the TCP header up to its window.
    pub cut: u64,
    /// Headers that contradict themselves.
    pub bad_header: u64,
    /// More VLAN tags or IPv6 extension headers than are read.
    pub too_deep: u64,
    /// A link type that is not supported; [`FileFacts::link_types`] shows which.
    pub unknown_link_type: u64,
    /// pcapng: the packet names an interface that the file does not describe.
    pub no_interface: u64,
}

impl Skipped {
    /// All of them.
    pub fn total(&self) -> u64 {
        let Skipped { not_ip, not_tcp, fragment, cut, bad_header, too_deep, unknown_link_type, no_interface } =
            *self;
        not_ip + not_tcp + fragment + cut + bad_header + too_deep + unknown_link_type + no_interface
    }

    pub(crate) fn count(&mut self, skip: Skip) {
        *match skip {
            Skip::NotIp => &mut self.not_ip,
            Skip::NotTcp => &mut self.not_tcp,
            Skip::Fragment => &mut self.fragment,
            Skip::Cut => &mut self.cut,
            Skip::BadHeader => &mut self.bad_header,
            Skip::TooDeep => &mut self.too_deep,
            Skip::UnknownLinkType => &mut self.unknown_link_type,
            Skip::NoInterface => &mut self.no_interface,
        } += 1;
    }
}

/// Why a packet yields no segment; see the fields of [`Skipped`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Skip {
    NotIp,
    NotTcp,
    Fragment,
    Cut,
    BadHeader,
    TooDeep,
    UnknownLinkType,
    NoInterface,
}

/// Segments by the state of their [`Checksum`](crate::Checksum).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Checksums {
    /// Not checked.
    pub unknown: u64,
    /// Correct.
    pub valid: u64,
    /// Left to the sender's network card.
    pub partial: u64,
    /// Incorrect.
    pub invalid: u64,
}

/// Segments of packets inside other packets. Their flows are the inner ones, by the inner
/// addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Tunnels {
    /// VXLAN (RFC 7348) and VXLAN-GPE.
    pub vxlan: u64,
    /// GENEVE (RFC 8926).
    pub geneve: u64,
    /// GTP-U of mobile networks (3GPP TS 29.281).
    pub gtp_u: u64,
    /// GRE (RFC 2784) with IP or Ethernet in it.
    pub gre: u64,
    /// ERSPAN: frames mirrored by a switch.
    pub erspan: u64,
    /// IP in IP (RFC 2003, RFC 2473, RFC 4213).
    pub ip_in_ip: u64,
}

impl Tunnels {
    /// All of them.
    pub fn total(&self) -> u64 {
        let Tunnels { vxlan, geneve, gtp_u, gre, erspan, ip_in_ip } = *self;
        vxlan + geneve + gtp_u + gre + erspan + ip_in_ip
    }
}

/// Flows of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FlowCounts {
    /// All flows seen.
    pub seen: u64,
    /// Evicted because of [`Options::max_flows`](crate::Options::max_flows). If such a flow
    /// continues, it counts as a new one.
    pub evicted: u64,
    /// Ended because a new connection took over their addresses and ports.
    pub superseded: u64,
    /// SYNs with another initial sequence number in the middle of a live flow; they stay in that
    /// flow.
    pub stray_syns: u64,
}

/// Timestamps of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Clock {
    /// Time of the first packet, ns since 1970-01-01 UTC.
    pub first_ns: Option<i64>,
    /// Time of the last packet in the file, ns since 1970-01-01 UTC.
    pub last_ns: Option<i64>,
    /// Packets stamped earlier than the packet before them.
    pub steps_back: u64,
    /// The largest such step, ns.
    pub largest_step_back_ns: u64,
    /// Packets without a timestamp of their own (pcapng Simple Packet Blocks): they get the
    /// previous packet's.
    pub unstamped: u64,
}

/// Counts for the interfaces of one link type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkTypeCount {
    /// Its number in tcpdump.org's list (`LINKTYPE_...`). For a snoop type without counterpart
    /// there: its snoop number plus 0xffff_0000.
    pub link_type: u32,
    /// Interfaces.
    pub interfaces: u64,
    /// Packets.
    pub packets: u64,
    /// Whether packets of this type can be read.
    pub readable: bool,
}

/// How a file ended. Offsets are in the uncompressed stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "how")]
pub enum Ending {
    /// The end has not been reached yet.
    #[default]
    Open,
    /// After a complete packet or block.
    Whole,
    /// The file ends within a packet or block that begins at `offset_bytes`: the writing program
    /// was stopped, or the copy is incomplete. All earlier packets were read.
    Cut {
        /// Where the incomplete packet or block begins.
        offset_bytes: u64,
    },
    /// The compressed data is truncated or damaged; everything that could be decompressed was read.
    BadCompression {
        /// Uncompressed bytes recovered.
        offset_bytes: u64,
    },
    /// At an invalid packet or block: nothing after it could be read.
    Damaged {
        /// Where it begins.
        offset_bytes: u64,
        /// The kind of damage.
        damage: Damage,
    },
}

/// Why a packet or block is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Damage {
    /// Longer than 16 MiB, which no capturing program writes.
    TooLong,
    /// Shorter than its mandatory content.
    TooShort,
    /// The two lengths of a block, at its beginning and at its end, differ.
    LengthsDiffer,
    /// A section begins with neither byte order.
    ByteOrder,
}
