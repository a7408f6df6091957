//! Parses as much of the IP and TCP headers of a relayed packet as a test needs to choose packets.

use crate::Side;
use yuzuri_capture::checksum;

/// TCP flag FIN.
pub const FIN: u8 = 1;
/// TCP flag SYN.
pub const SYN: u8 = 2;
/// TCP flag RST.
pub const RST: u8 = 4;
/// TCP flag ECE (ECN echo).
pub const ECE: u8 = 64;

/// A TCP header.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Segment {
    /// Source port.
    pub source: u16,
    /// Destination port.
    pub destination: u16,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgement number.
    pub ack: u32,
    /// Flags ([`FIN`], [`SYN`], ...).
    pub flags: u8,
    /// Window field, not scaled.
    pub window: u16,
    /// Payload bytes.
    pub payload: u32,
    /// SACK blocks (RFC 2018) in the order of the option.
    pub sacks: Vec<(u32, u32)>,
}

impl Segment {
    /// Whether it carries data.
    pub fn is_data(&self) -> bool {
        self.payload > 0
    }

    /// Whether the first SACK block reports a duplicate (RFC 2883, section 4: below the ACK, or
    /// within the second block).
    pub fn is_dsack(&self) -> bool {
        let before = |a: u32, b: u32| (a.wrapping_sub(b) as i32) < 0;
        match self.sacks.as_slice() {
            [] => false,
            [first, ..] if before(first.0, self.ack) => true,
            [first, second, ..] => !before(first.0, second.0) && !before(second.1, first.1),
            _ => false,
        }
    }
}

/// A packet in transit.
#[derive(Debug)]
pub struct Packet<'a> {
    /// The side that sent it.
    pub from: Side,
    /// Its TCP header, if it is TCP.
    pub tcp: Option<Segment>,
    /// The whole packet from the IP header on.
    pub bytes: &'a mut [u8],
}

impl<'a> Packet<'a> {
    pub(crate) fn read(from: Side, bytes: &'a mut [u8]) -> Packet<'a> {
        let tcp = segment(bytes);
        Packet { from, tcp, bytes }
    }

    /// Sets Congestion Experienced if the packet is ECN-capable (RFC 3168); returns whether it is.
    pub fn set_congestion_experienced(&mut self) -> bool {
        const CE: u8 = 3;
        match self.bytes.first().map(|b| b >> 4) {
            Some(4) if self.bytes.len() >= 20 && self.bytes[1] & CE != 0 => {
                self.bytes[1] |= CE;
                self.bytes[10..12].fill(0);
                let checksum = checksum::of(&[&self.bytes[..20]]);
                self.bytes[10..12].copy_from_slice(&checksum);
                true
            }
            Some(6) if self.bytes.len() >= 40 && self.bytes[1] & CE << 4 != 0 => {
                self.bytes[1] |= CE << 4;
                true
            }
            _ => false,
        }
    }
}

fn segment(bytes: &[u8]) -> Option<Segment> {
    let (header, protocol, total) = match bytes.first()? >> 4 {
        4 => {
            let total = u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?]);
            (usize::from(bytes[0] & 15) * 4, *bytes.get(9)?, usize::from(total))
        }
        6 => (40, *bytes.get(6)?, 40 + usize::from(u16::from_be_bytes([*bytes.get(4)?, *bytes.get(5)?]))),
        _ => return None,
    };
    if i32::from(protocol) != libc::IPPROTO_TCP {
        return None;
    }
    let tcp = bytes.get(header..total)?;
    let u16_at = |at: usize| Some(u16::from_be_bytes(tcp.get(at..at + 2)?.try_into().ok()?));
    let u32_at = |at: usize| Some(u32::from_be_bytes(tcp.get(at..at + 4)?.try_into().ok()?));
    let offset = usize::from(*tcp.get(12)? >> 4) * 4;
    let mut options = tcp.get(20..offset)?;
    let mut sacks = Vec::new();
    while let [kind, rest @ ..] = options {
        match (*kind, rest.first()) {
            (0, _) => break,
            (1, _) => options = rest,
            (5, Some(&length)) => {
                let blocks = options.get(2..usize::from(length))?;
                let number = |b: &[u8]| Some(u32::from_be_bytes(b.try_into().ok()?));
                for block in blocks.chunks_exact(8) {
                    sacks.push((number(&block[..4])?, number(&block[4..])?));
                }
                options = options.get(usize::from(length)..)?;
            }
            (_, Some(&length)) if length >= 2 => options = options.get(usize::from(length)..)?,
            _ => break,
        }
    }
    Some(Segment {
        source: u16_at(0)?,
        destination: u16_at(2)?,
        seq: u32_at(4)?,
        ack: u32_at(8)?,
        flags: tcp[13],
        window: u16_at(14)?,
        payload: (tcp.len() - offset) as u32,
        sacks,
    })
}
