//! File formats: from a stream of bytes to packets.

pub(crate) mod erf;
pub(crate) mod pcap;
pub(crate) mod pcapng;
pub(crate) mod snoop;

use crate::buffer::Buffer;
use crate::facts::{Ending, FileFacts, LinkTypeCount, Skip};
use crate::link::Link;
use std::io::{self, Read};

/// Link types that are counted separately.
const MAX_LINK_TYPES: usize = 64;

/// A packet's header in the file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PacketHeader {
    /// ns since 1970-01-01 UTC; `None` if the packet has no timestamp.
    pub time_ns: Option<i64>,
    /// Length of the whole frame, without its check sequence.
    pub on_wire: u32,
    pub link: Link,
    /// The link type's index in [`FileFacts::link_types`], or past its end.
    pub link_place: u32,
}

/// The link layer of an interface.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InterfaceLink {
    pub link: Link,
    /// Its index in [`FileFacts::link_types`], or past its end.
    pub place: u32,
    /// Bytes of the check sequence at the end of each frame.
    pub fcs_bytes: u32,
}

impl InterfaceLink {
    /// Registers an interface with that link type.
    pub(crate) fn new(link_type: u32, fcs_bytes: u32, facts: &mut FileFacts) -> InterfaceLink {
        let link = Link::from_number(link_type);
        facts.interfaces += 1;
        let types = &mut facts.link_types;
        let place = types.iter().position(|count| count.link_type == link_type).unwrap_or(types.len());
        if place == types.len() && place < MAX_LINK_TYPES {
            types.push(LinkTypeCount {
                link_type,
                interfaces: 0,
                packets: 0,
                readable: link != Link::Unknown,
            });
        }
        if let Some(count) = types.get_mut(place) {
            count.interfaces += 1;
        }
        InterfaceLink { link, place: place as u32, fcs_bytes }
    }
}

/// The next item of a file.
pub(crate) enum Step<'a> {
    /// The captured bytes of a packet; the caller's [`PacketHeader`] holds the rest.
    Packet(&'a [u8]),
    /// A packet that cannot be read.
    Skipped(Skip),
    End(Ending),
}

/// A file format, with its state between packets.
pub(crate) enum Format {
    Pcap(pcap::Pcap),
    PcapNg(pcapng::PcapNg),
    Snoop(snoop::Snoop),
    Erf(erf::Erf),
}

impl Format {
    #[inline(always)]
    pub(crate) fn next<'a, S: Read>(
        &mut self,
        buffer: &'a mut Buffer<S>,
        facts: &mut FileFacts,
        head: &mut PacketHeader,
    ) -> io::Result<Step<'a>> {
        match self {
            Format::Pcap(pcap) => pcap.next(buffer, head),
            others => {
                // In a variable of its own, so that the header of a pcap file's packet stays in
                // registers.
                let mut other = PacketHeader::EMPTY;
                let step = others.next_of_others(buffer, facts, &mut other);
                *head = other;
                step
            }
        }
    }

    #[inline(never)]
    fn next_of_others<'a, S: Read>(
        &mut self,
        buffer: &'a mut Buffer<S>,
        facts: &mut FileFacts,
        head: &mut PacketHeader,
    ) -> io::Result<Step<'a>> {
        match self {
            Format::PcapNg(pcapng) => pcapng.next(buffer, facts, head),
            Format::Snoop(snoop) => snoop.next(buffer, facts, head),
            Format::Erf(erf) => erf.next(buffer, facts, head),
            Format::Pcap(pcap) => pcap.next(buffer, head),
        }
    }
}

impl PacketHeader {
    /// An empty header.
    pub(crate) const EMPTY: PacketHeader =
        PacketHeader { time_ns: None, on_wire: 0, link: Link::Unknown, link_place: 0 };

    #[inline(always)]
    fn set(&mut self, time_ns: Option<i64>, on_wire: u32, link: &InterfaceLink) {
        self.time_ns = time_ns;
        self.on_wire = on_wire.saturating_sub(link.fcs_bytes);
        self.link = link.link;
        self.link_place = link.place;
    }
}

/// How a stream ended that holds no further complete packet or block.
pub(crate) fn ending<S: Read>(buffer: &Buffer<S>) -> Ending {
    if buffer.unsound() {
        Ending::BadCompression { offset_bytes: buffer.offset() + buffer.ready().len() as u64 }
    } else if buffer.ready().is_empty() {
        Ending::Whole
    } else {
        Ending::Cut { offset_bytes: buffer.offset() }
    }
}

/// Four bytes as a number, in the file's byte order.
#[inline]
fn word(bytes: &[u8], at: usize, swapped: bool) -> u32 {
    let word = u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    if swapped { word.swap_bytes() } else { word }
}
