//! Captures made in memory, and the items read from them.
#![allow(dead_code, reason = "each test uses some of it")]

pub mod odd;
pub mod wrapped;

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use yuzuri_capture::{
    Capture, FileFacts, FlowKey, FlowSlot, Framing, Item, NewSegment, Options, Partition, PcapWriter, Segment,
};

/// 2023-11-14, 22:13:20 UTC.
pub const START_NS: i64 = 1_700_000_000_000_000_000;

/// An item read from a capture.
#[derive(Debug, Clone, PartialEq)]
pub enum Captured {
    Segment(Segment, FlowKey),
    Ended(FlowSlot, FlowKey),
}

/// Reads everything.
pub fn read(bytes: &[u8]) -> (Vec<Captured>, FileFacts) {
    read_with(bytes, &Options::default())
}

pub fn read_with(bytes: &[u8], options: &Options) -> (Vec<Captured>, FileFacts) {
    read_from(bytes, options)
}

pub fn read_from(reader: impl std::io::Read, options: &Options) -> (Vec<Captured>, FileFacts) {
    let mut capture = Capture::new(reader, "test", options).expect("a capture");
    let mut of_part = Vec::new();
    while let Some(item) = capture.next_item().expect("no error of the source") {
        of_part.push(match item {
            Item::Segment(&segment) => {
                Captured::Segment(segment, capture.key(segment.flow).expect("its flow"))
            }
            Item::Ended(flow) => Captured::Ended(flow, capture.key(flow).expect("its flow")),
        });
    }
    assert_eq!(capture.next_item().expect("no error"), None, "the end stays the end");
    (of_part, capture.facts().clone())
}

/// Reads the same with `of` readers, each with its own partition. Together they must return what
/// one reader returned, each in its order, and agree about the file.
pub fn check_shares(bytes: &[u8], options: &Options, of: u32, (whole, facts): &(Vec<Captured>, FileFacts)) {
    let shares = Partition::each(of).map(|partition| read_with(bytes, &Options { partition, ..*options }));
    let (of_part, mut known): (Vec<_>, Vec<FileFacts>) = shares.unzip();
    for (number, of_part) in (0..of).zip(of_part) {
        let slot = |flow: FlowSlot| (flow.0 % of == number).then_some(FlowSlot(flow.0 / of));
        let own = whole.iter().filter_map(|one| match one {
            Captured::Segment(segment, key) => {
                Some(Captured::Segment(Segment { flow: slot(segment.flow)?, ..*segment }, *key))
            }
            Captured::Ended(flow, key) => Some(Captured::Ended(slot(*flow)?, *key)),
        });
        assert_eq!(of_part, own.collect::<Vec<_>>(), "share {number} of {of}");
    }
    let mut all = known.remove(0);
    known.iter().for_each(|partition| all.add_share(partition));
    assert_eq!(all, *facts, "{of} shares");
}

/// Only the segments.
pub fn segments(bytes: &[u8]) -> Vec<Segment> {
    let of = |of_part| match of_part {
        Captured::Segment(segment, _) => Some(segment),
        Captured::Ended(..) => None,
    };
    read(bytes).0.into_iter().filter_map(of).collect()
}

/// An endpoint, 10.0.0.`host`.
pub fn end(host: u8, port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, host)), port)
}

/// A whole frame.
pub fn frame(segment: &NewSegment, framing: Framing) -> Vec<u8> {
    let mut frame = Vec::new();
    let wire_bytes = segment.encode(framing, &mut frame);
    frame.resize(wire_bytes as usize, 0);
    frame
}

/// A pcap file of segments, Ethernet, whole packets.
pub fn pcap(segments: &[(i64, NewSegment)]) -> Vec<u8> {
    pcap_of_frames(segments.iter().map(|(time_ns, segment)| (*time_ns, frame(segment, Framing::Ethernet))))
}

/// A pcap file of Ethernet frames.
pub fn pcap_of_frames(frames: impl IntoIterator<Item = (i64, Vec<u8>)>) -> Vec<u8> {
    let mut writer = PcapWriter::new(Vec::new(), Framing::Ethernet, 1 << 18).expect("memory");
    for (time_ns, frame) in frames {
        writer.write(time_ns, &frame, frame.len() as u32).expect("memory");
    }
    writer.into_inner()
}

/// The header of a pcap file in either byte order.
pub fn pcap_header(big_endian: bool, magic: u32, link_type: u32) -> Vec<u8> {
    let number = numbers(big_endian);
    [number(magic), number(0x0004_0002).into_iter().collect(), vec![0; 8], number(65535), number(link_type)]
        .concat()
}

/// A packet of a pcap file in either byte order, with all of its header's fields.
pub fn pcap_record(big_endian: bool, fields: [u32; 4], captured: &[u8]) -> Vec<u8> {
    let mut bytes: Vec<u8> = fields.into_iter().flat_map(numbers(big_endian)).collect();
    bytes.extend(captured);
    bytes
}

fn numbers(big_endian: bool) -> impl Fn(u32) -> Vec<u8> + Copy {
    move |number| if big_endian { number.to_be_bytes().to_vec() } else { number.to_le_bytes().to_vec() }
}

/// Builds a pcapng file.
pub struct PcapNg {
    pub big_endian: bool,
    pub bytes: Vec<u8>,
}

impl PcapNg {
    /// Begins with a section.
    pub fn new(big_endian: bool) -> PcapNg {
        let mut file = PcapNg { big_endian, bytes: Vec::new() };
        file.section();
        file
    }

    pub fn number(&self, number: u32) -> Vec<u8> {
        numbers(self.big_endian)(number)
    }

    pub fn short(&self, short: u16) -> Vec<u8> {
        if self.big_endian { short.to_be_bytes().to_vec() } else { short.to_le_bytes().to_vec() }
    }

    pub fn long(&self, long: u64) -> Vec<u8> {
        if self.big_endian { long.to_be_bytes().to_vec() } else { long.to_le_bytes().to_vec() }
    }

    pub fn block(&mut self, kind: u32, body: &[u8]) {
        let padded = body.len().next_multiple_of(4);
        let length = self.number(12 + padded as u32);
        let kind = self.number(kind);
        self.bytes.extend([&kind, &length, body, &vec![0; padded - body.len()], &length].concat());
    }

    pub fn section(&mut self) {
        let body = [self.number(0x1a2b_3c4d), self.short(1), self.short(0), vec![0xff; 8]].concat();
        self.block(0x0a0d_0d0a, &body);
    }

    pub fn option(&self, code: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = [self.short(code), self.short(value.len() as u16), value.to_vec()].concat();
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    /// An interface without options.
    pub fn interface(&mut self, link_type: u16, snaplen: u32) {
        self.interface_with(link_type, snaplen, &[]);
    }

    /// An interface with clock options: `if_tsresol`, `if_tsoffset`.
    pub fn clock(&mut self, link_type: u16, resolution: u8, offset_s: i64) {
        let options = [
            self.option(2, b"name"),
            self.option(9, &[resolution]),
            self.option(14, &self.long(offset_s as u64)),
            self.option(0, &[]),
        ];
        self.interface_with(link_type, 0, &options.concat());
    }

    pub fn interface_with(&mut self, link_type: u16, snaplen: u32, options: &[u8]) {
        let body = [self.short(link_type), self.short(0), self.number(snaplen), options.to_vec()].concat();
        self.block(1, &body);
    }

    pub fn enhanced(&mut self, interface: u32, ticks: u64, captured: &[u8], on_wire: u32) {
        let fields = [interface, (ticks >> 32) as u32, ticks as u32, captured.len() as u32, on_wire];
        let mut body: Vec<u8> = fields.into_iter().flat_map(|field| self.number(field)).collect();
        body.extend(captured);
        body.resize(body.len().next_multiple_of(4), 0);
        // A comment after the packet.
        body.extend(self.option(1, b"seen"));
        self.block(6, &body);
    }

    pub fn simple(&mut self, captured: &[u8], on_wire: u32) {
        let body = [self.number(on_wire), captured.to_vec()].concat();
        self.block(3, &body);
    }

    pub fn obsolete(&mut self, interface: u16, ticks: u64, captured: &[u8], on_wire: u32) {
        let fields = [(ticks >> 32) as u32, ticks as u32, captured.len() as u32, on_wire];
        let mut body = [self.short(interface), self.short(3)].concat();
        body.extend(fields.into_iter().flat_map(|field| self.number(field)));
        body.extend(captured);
        self.block(2, &body);
    }
}

/// How a file is compressed in a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    Gzip,
    Zstd,
    Xz,
}

/// Compresses: one member, frame or stream.
pub fn pack(packing: Packing, bytes: &[u8]) -> Vec<u8> {
    match packing {
        Packing::Gzip => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
            encoder.write_all(bytes).expect("memory");
            encoder.finish().expect("memory")
        }
        Packing::Zstd => zstd::encode_all(bytes, 3).expect("memory"),
        Packing::Xz => {
            let options = lzma_rust2::XzOptions::with_preset(6);
            let mut encoder = lzma_rust2::XzWriter::new(Vec::new(), options).expect("options");
            encoder.write_all(bytes).expect("memory");
            encoder.finish().expect("memory")
        }
    }
}
