//! Parses a frame as a TCP segment, as `bpf/packet.h` does: an independent implementation, so that
//! a test can compare the two.

use crate::{Direction, FlowKey};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

pub(crate) const SYN: u8 = 2;
pub(crate) const RST: u8 = 4;
pub(crate) const ACK: u8 = 16;
pub(crate) const ECE: u8 = 64;

/// A TCP segment in a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment<'a> {
    pub(crate) key: FlowKey,
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) window: u16,
    pub(crate) flags: u8,
    pub(crate) options: &'a [u8],
    pub(crate) payload: u32,
    /// Where the TCP header begins in the frame.
    pub(crate) at: usize,
    /// Options besides timestamps at their usual place.
    pub(crate) has_more: bool,
    /// An ACK without any information but the acknowledgement number and the window.
    pub(crate) is_plain: bool,
}

/// The options of a SYN.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SynOptions {
    pub(crate) scale: Option<u8>,
    pub(crate) mptcp: bool,
    pub(crate) is_signed: bool,
    pub(crate) broken: bool,
    pub(crate) mss: u16,
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

impl<'a> Segment<'a> {
    /// The segment in a frame that has not been merged; `None` if the frame is not completely
    /// understood.
    pub(crate) fn read(frame: &'a [u8], direction: Direction) -> Option<Segment<'a>> {
        let mut kind = u16_at(frame, 12)?;
        let mut at = 14;
        for _ in 0..2 {
            if kind == 0x8100 || kind == 0x88a8 {
                kind = u16_at(frame, at + 2)?;
                at += 4;
            }
        }
        let mut packet = frame.get(at..)?;
        if kind == 0x8864 {
            let length = usize::from(u16_at(packet, 4)?);
            kind = match u16_at(packet, 6)? {
                0x0021 => 0x0800,
                0x0057 => 0x86dd,
                _ => return None,
            };
            if packet[..2] != [0x11, 0] {
                return None;
            }
            packet = packet.get(8..6 + length)?;
            at += 8;
        }
        let (source, destination, tcp, header) = match kind {
            0x0800 => ipv4(packet)?,
            0x86dd => ipv6(packet)?,
            _ => return None,
        };
        let is_marked = if kind == 0x0800 { packet[1] & 3 == 3 } else { packet[1] >> 4 & 3 == 3 };
        let offset = usize::from(*tcp.get(12)? >> 4) * 4;
        let options = tcp.get(20..offset)?;
        let from = SocketAddr::new(source, u16_at(tcp, 0)?);
        let to = SocketAddr::new(destination, u16_at(tcp, 2)?);
        let (station, server) = match direction {
            Direction::Down => (to, from),
            Direction::Up => (from, to),
        };
        let has_more = !(options.is_empty() || options.len() == 12 && options.starts_with(&[1, 1, 8, 10]));
        let payload = (tcp.len() - offset) as u32;
        Some(Segment {
            has_more,
            is_plain: !has_more && !is_marked && payload == 0 && tcp[13] == ACK && tcp[12] & 15 == 0,
            key: FlowKey::of_wire(station, server),
            seq: u32_at(tcp, 4)?,
            ack: u32_at(tcp, 8)?,
            window: u16_at(tcp, 14)?,
            flags: tcp[13],
            options,
            payload,
            at: at + header,
        })
    }

    /// Its options.
    pub(crate) fn syn_options(&self) -> SynOptions {
        const MAX_OPTIONS: usize = 24;
        const MAX_SCALE: u8 = 14;
        let mut syn_options = SynOptions::default();
        let mut rest = self.options;
        for _ in 0..MAX_OPTIONS {
            let (&kind, length) = match rest {
                [] | [0, ..] => return syn_options,
                [1, after @ ..] => {
                    rest = after;
                    continue;
                }
                [kind, length, ..] => (kind, usize::from(*length)),
                [_] => break,
            };
            if length < 2 || length > rest.len() {
                break;
            }
            let (option, after) = rest.split_at(length);
            match (kind, &option[2..]) {
                // The last option of a kind counts, even if its size is wrong.
                (3, [scale]) => syn_options.scale = Some((*scale).min(MAX_SCALE)),
                (3, _) => syn_options.scale = None,
                (2, [high, low]) => syn_options.mss = u16::from_be_bytes([*high, *low]),
                (2, _) => syn_options.mss = 0,
                (19 | 29, _) => syn_options.is_signed = true,
                (30, _) => syn_options.mptcp = true,
                _ => {}
            }
            rest = after;
        }
        SynOptions { broken: true, ..SynOptions::default() }
    }
}

/// Source, destination, the TCP part, and how long the header is.
type Ip<'a> = (IpAddr, IpAddr, &'a [u8], usize);

fn ipv4(packet: &[u8]) -> Option<Ip<'_>> {
    let header = usize::from(packet.first()? & 15) * 4;
    let fixed: &[u8; 20] = packet.first_chunk()?;
    let is_fragment = u16::from_be_bytes([fixed[6], fixed[7]]) & 0x3fff != 0;
    if fixed[0] >> 4 != 4 || header < 20 || fixed[9] != 6 || is_fragment {
        return None;
    }
    let total = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
    let address = |at: usize| Some(Ipv4Addr::from(u32_at(fixed, at)?).into());
    Some((address(12)?, address(16)?, packet.get(header..total)?, header))
}

fn ipv6(packet: &[u8]) -> Option<Ip<'_>> {
    let fixed: &[u8; 40] = packet.first_chunk()?;
    if fixed[0] >> 4 != 6 || fixed[6] != 6 {
        return None;
    }
    let length = usize::from(u16::from_be_bytes([fixed[4], fixed[5]]));
    let address = |at: usize| {
        let octets: [u8; 16] = fixed[at..at + 16].try_into().unwrap_or_default();
        IpAddr::from(Ipv6Addr::from(octets))
    };
    Some((address(8), address(24), packet.get(40..40 + length)?, 40))
}
