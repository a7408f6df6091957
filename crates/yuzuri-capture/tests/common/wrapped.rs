//! The short download of `odd` inside tunnels and in other file formats.

use super::odd::{download, frames};
use super::{frame, pcap_of_frames};
use yuzuri_capture::Framing;

/// Sends a packet through a tunnel; returns the outer frame.
type Wrap = fn(&[u8]) -> Vec<u8>;

/// Every supported kind of tunnel, with all optional parts of its header.
pub const TUNNELS: [(&str, Wrap); 13] = [
    ("VXLAN", |inner| udp(4789, &[&[0x08, 0, 0, 0, 0, 0, 7, 0], inner].concat())),
    ("VXLAN as Linux had it", |inner| udp(8472, &[&[0x08, 0, 0, 0, 0, 0, 7, 0], inner].concat())),
    ("VXLAN-GPE", |inner| udp(4790, &[&[0x0c, 0, 0, 1, 0, 0, 7, 0], &inner[14..]].concat())),
    ("GENEVE with two options", |inner| {
        udp(6081, &[&[2, 0, 0x65, 0x58, 0, 0, 7, 0], &[1, 2, 3, 0, 1, 2, 3, 0], inner].concat())
    }),
    ("GTP-U", |inner| udp(2152, &[&gtp(0x30, inner.len() - 14)[..], &inner[14..]].concat())),
    ("GTP-U with the container of a 5G session", |inner| {
        let extension = [0, 0, 0, 0x85, 1, 0x10, 9, 0];
        udp(2152, &[&gtp(0x34, inner.len() - 14 + 8)[..], &extension, &inner[14..]].concat())
    }),
    ("GRE", |inner| outside(47, &[&[0, 0, 8, 0], &inner[14..]].concat())),
    ("GRE with key and number", |inner| {
        outside(47, &[&[0x30, 0, 8, 0, 0, 0, 0, 7, 0, 0, 0, 9], &inner[14..]].concat())
    }),
    ("NVGRE", |inner| outside(47, &[&[0x20, 0, 0x65, 0x58, 0, 0, 7, 0], inner].concat())),
    ("ERSPAN I", |inner| outside(47, &[&[0, 0, 0x88, 0xbe], inner].concat())),
    ("ERSPAN II", |inner| {
        outside(47, &[&[0x10, 0, 0x88, 0xbe, 0, 0, 0, 9][..], &[0x10, 7, 0, 7, 0, 0, 0, 0], inner].concat())
    }),
    ("ERSPAN III", |inner| {
        let header = [0x20, 7, 0, 7, 0, 0, 0, 1, 0, 0, 0, 1];
        outside(47, &[&[0x10, 0, 0x22, 0xeb, 0, 0, 0, 9], &header[..], &[0; 8], inner].concat())
    }),
    ("IP in IP", |inner| outside(4, &inner[14..])),
];

/// PPP over Ethernet, in two VLAN tags; and two MPLS labels.
pub const BELOW_IP: [(&str, Wrap); 2] = [
    ("PPPoE in QinQ", |inner| {
        let length = (inner.len() - 14 + 2) as u16;
        let head = [&[0x88, 0xa8, 0, 7, 0x81, 0, 0, 9, 0x88, 0x64, 0x11, 0, 0, 1][..], &length.to_be_bytes()];
        [&inner[..12], &head.concat(), &[0, 0x21], &inner[14..]].concat()
    }),
    ("MPLS", |inner| [&inner[..12], &[0x88, 0x47, 0, 1, 0x10, 64, 0, 2, 0x11, 64], &inner[14..]].concat()),
];

/// A GTP-U header without optional fields.
fn gtp(flags: u8, payload_bytes: usize) -> [u8; 8] {
    let [a, b] = (payload_bytes as u16).to_be_bytes();
    [flags, 255, a, b, 0, 0, 0, 7]
}

/// An IPv4 frame that carries `payload`, with a correct header checksum.
pub fn outside(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let length = (20 + payload.len()) as u16;
    let [a, b] = length.to_be_bytes();
    let mut header = [0x45, 0, a, b, 0, 9, 0x40, 0, 64, protocol, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2];
    let checksum = yuzuri_capture::checksum::of(&[&header]);
    header[10..12].copy_from_slice(&checksum);
    [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0], &header[..], payload].concat()
}

/// The same with a UDP header to this port, without checksum, as IPv4 tunnels may have it.
pub fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    let ([a, b], [c, d]) = (port.to_be_bytes(), ((8 + payload.len()) as u16).to_be_bytes());
    outside(17, &[&[0xc0, 1, a, b, c, d, 0, 0], payload].concat())
}

/// The download through each tunnel, one after the other.
pub fn tunnels() -> Vec<u8> {
    let wraps = TUNNELS.iter().chain(&BELOW_IP);
    pcap_of_frames(wraps.zip(0_i64..).map(|((_, wrap), number)| {
        let (time_ns, segment) = &download()[number as usize % 10];
        (*time_ns + number * 1_000_000_000, wrap(&frame(segment, Framing::Ethernet)))
    }))
}

/// The download as snoop writes it; two packets were dropped before the fourth.
pub fn snoop() -> Vec<u8> {
    let mut file = [&b"snoop\0\0\0"[..], &2u32.to_be_bytes(), &4u32.to_be_bytes()].concat();
    for (place, (time_ns, frame)) in frames().into_iter().enumerate() {
        let padded = frame.len().next_multiple_of(4);
        let drops = if place < 3 { 0 } else { 2 };
        let fields = [
            frame.len() as u32,
            frame.len() as u32,
            24 + padded as u32,
            drops,
            (time_ns / 1_000_000_000) as u32,
            (time_ns % 1_000_000_000 / 1000) as u32,
        ];
        file.extend(fields.into_iter().flat_map(u32::to_be_bytes));
        file.extend(frame);
        file.resize(file.len().next_multiple_of(4), 0);
    }
    file
}

/// The download as Endace's cards write it: Ethernet, from the sixth packet on with an extension
/// header.
pub fn erf() -> Vec<u8> {
    let mut file = Vec::new();
    for (place, (time_ns, frame)) in frames().into_iter().enumerate() {
        let extension: &[u8] = if place < 5 { &[] } else { &[5, 0, 0, 0, 0, 0, 0, 1] };
        let kind = 2 | if place < 5 { 0 } else { 0x80 };
        // Four bytes of check sequence follow the frame, and zeros up to a multiple of eight.
        let length = (16 + extension.len() + 2 + frame.len() + 4).next_multiple_of(8);
        let fraction = ((time_ns % 1_000_000_000) as u64) << 32;
        let start = file.len();
        file.extend((fraction.div_ceil(1_000_000_000) as u32).to_le_bytes());
        file.extend(((time_ns / 1_000_000_000) as u32).to_le_bytes());
        file.extend([kind, 4]);
        for short in [length, 0, frame.len() + 4] {
            file.extend((short as u16).to_be_bytes());
        }
        file.extend(extension);
        file.extend([0, 0]);
        file.extend(frame);
        file.extend([9; 4]);
        file.resize(start + length, 0);
    }
    file
}
