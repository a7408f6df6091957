//! IPv4 and IPv6 headers (RFC 791, RFC 8200).

use crate::checksum;
use crate::facts::Skip;

/// Maximum number of extension headers followed in one IPv6 packet.
const MAX_EXTENSIONS: usize = 16;

const TCP: u8 = 6;

/// The fields of an IP packet that carries TCP.
///
/// They are filled in one by one, here and in `header_prediction`, so that they stay in registers
/// on the path that nearly all packets take; a returned structure would be copied.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IpPacket<'a> {
    /// Not IPv4.
    pub v6: bool,
    /// Addresses in two halves; IPv4 in the lowest 32 bits.
    pub source: (u64, u64),
    pub destination: (u64, u64),
    /// The captured bytes of the TCP segment.
    pub tcp: &'a [u8],
    /// Length of the TCP segment on the wire.
    pub tcp_bytes: u32,
    /// Length of the IP packet on the wire.
    pub wire_bytes: u32,
    /// The ECN field, in the lowest two bits.
    pub ecn_bits: u8,
    /// Identification of an IPv4 packet; 0 for IPv6.
    pub id: u16,
    /// Whether it is the first of several fragments.
    pub fragment: bool,
    /// The sum of the addresses, for the checksum.
    pub address_sum: u64,
    /// The destination is not the one in the sender's checksum.
    pub routed: bool,
}

impl IpPacket<'_> {
    pub(crate) const EMPTY: IpPacket<'static> = IpPacket {
        v6: false,
        source: (0, 0),
        destination: (0, 0),
        tcp: &[],
        tcp_bytes: 0,
        wire_bytes: 0,
        ecn_bits: 0,
        id: 0,
        fragment: false,
        address_sum: 0,
        routed: false,
    };
}

/// Decodes the IP packet at the start of `bytes`. `on_wire` is its length on the wire, including
/// padding; it is used only if the packet itself does not give a length.
#[inline(always)]
pub(crate) fn decode<'a>(bytes: &'a [u8], on_wire: u32, ip: &mut IpPacket<'a>) -> Result<(), Skip> {
    match bytes.first().ok_or(Skip::Cut)? >> 4 {
        4 => v4(bytes, on_wire, ip),
        6 => {
            let mut other = IpPacket::EMPTY;
            v6(bytes, on_wire, &mut other)?;
            *ip = other;
            Ok(())
        }
        _ => Err(Skip::BadHeader),
    }
}

#[inline(always)]
fn v4<'a>(bytes: &'a [u8], on_wire: u32, ip: &mut IpPacket<'a>) -> Result<(), Skip> {
    let fixed: &[u8; 20] = bytes.first_chunk().ok_or(Skip::Cut)?;
    let header_bytes = usize::from(fixed[0] & 0xf) * 4;
    // A packet before segmentation offload may be longer than the field can hold.
    let wire_bytes = match u16::from_be_bytes([fixed[2], fixed[3]]) {
        0 => on_wire,
        length => u32::from(length),
    };
    if header_bytes < 20 || wire_bytes < header_bytes as u32 {
        return Err(Skip::BadHeader);
    }
    let fragment = u16::from_be_bytes([fixed[6], fixed[7]]) & 0x3fff;
    if fragment & 0x1fff != 0 {
        return Err(Skip::Fragment);
    }
    if fixed[9] != TCP {
        return Err(Skip::NotTcp);
    }
    let captured = bytes.get(..wire_bytes as usize).unwrap_or(bytes);
    let word = |at: usize| u32::from_be_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]]);
    ip.tcp = captured.get(header_bytes..).ok_or(Skip::Cut)?;
    ip.v6 = false;
    ip.source = (0, u64::from(word(12)));
    ip.destination = (0, u64::from(word(16)));
    ip.tcp_bytes = wire_bytes - header_bytes as u32;
    ip.wire_bytes = wire_bytes;
    ip.ecn_bits = fixed[1] & 3;
    ip.id = u16::from_be_bytes([fixed[4], fixed[5]]);
    ip.fragment = fragment != 0;
    ip.address_sum = u64::from(word(12).to_be()) + u64::from(word(16).to_be());
    ip.routed = false;
    Ok(())
}

#[inline(never)]
fn v6<'a>(bytes: &'a [u8], on_wire: u32, ip: &mut IpPacket<'a>) -> Result<(), Skip> {
    let fixed: &[u8; 40] = bytes.first_chunk().ok_or(Skip::Cut)?;
    let wire_bytes = match u16::from_be_bytes([fixed[4], fixed[5]]) {
        // A jumbogram (RFC 2675), or a packet before segmentation offload.
        0 => on_wire.max(40),
        length => u32::from(length) + 40,
    };
    let captured = bytes.get(..wire_bytes as usize).unwrap_or(bytes);
    let extended = extensions(captured, fixed[6])?;
    if extended.next != TCP {
        return Err(Skip::NotTcp);
    }
    let offset = extended.offset;
    ip.fragment = extended.fragment;
    ip.routed = extended.routed;
    ip.tcp_bytes = wire_bytes.checked_sub(offset as u32).ok_or(Skip::BadHeader)?;
    ip.tcp = captured.get(offset..).ok_or(Skip::Cut)?;
    let halves = fixed[8..].as_chunks().0;
    let half = |place: usize| u64::from_be_bytes(halves[place]);
    ip.v6 = true;
    ip.source = (half(0), half(1));
    ip.destination = (half(2), half(3));
    ip.wire_bytes = wire_bytes;
    ip.ecn_bits = fixed[1] >> 4 & 3;
    ip.id = 0;
    ip.address_sum = checksum::sum(&fixed[8..40]);
    Ok(())
}

/// The result of following an IPv6 packet's extension headers.
struct Extended {
    /// The protocol after them.
    next: u8,
    /// Its offset.
    offset: usize,
    fragment: bool,
    routed: bool,
}

fn extensions(captured: &[u8], first: u8) -> Result<Extended, Skip> {
    let (mut fragment, mut routed) = (false, false);
    let mut next = first;
    let mut offset = 40;
    let mut extensions = 0;
    loop {
        if !matches!(next, 0 | 43 | 44 | 51 | 60) {
            return Ok(Extended { next, offset, fragment, routed });
        }
        extensions += 1;
        let length = |unit: usize, fixed: usize, more: u8| (usize::from(more) + fixed) * unit;
        let extension = captured.get(offset..).ok_or(Skip::Cut)?;
        let head = || extension.first_chunk::<8>().ok_or(Skip::Cut);
        offset += match next {
            // Hop-by-hop, destination options.
            0 | 60 => length(8, 1, head()?[1]),
            // Routing: with segments left, the header does not hold the last destination.
            43 => {
                routed |= head()?[3] != 0;
                length(8, 1, head()?[1])
            }
            // Fragment.
            44 => {
                let place = u16::from_be_bytes([head()?[2], head()?[3]]);
                if place & 0xfff8 != 0 {
                    return Err(Skip::Fragment);
                }
                fragment |= place & 1 != 0;
                8
            }
            // Authentication header (RFC 4302).
            _ => length(4, 2, head()?[1]),
        };
        next = head()?[0];
        if extensions > MAX_EXTENSIONS {
            return Err(Skip::TooDeep);
        }
    }
}

/// The payload of an IP packet.
pub(crate) struct Payload<'a> {
    pub protocol: u8,
    /// Its captured bytes.
    pub bytes: &'a [u8],
    /// Its length on the wire.
    pub wire_bytes: u32,
}

/// The payload of the IP packet at the start of `bytes`, of any protocol. A later fragment has
/// none.
pub(crate) fn payload(bytes: &[u8], on_wire: u32) -> Result<Payload<'_>, Skip> {
    let first = *bytes.first().ok_or(Skip::Cut)?;
    let (protocol, offset, wire_bytes) = if first >> 4 == 4 {
        let fixed: &[u8; 20] = bytes.first_chunk().ok_or(Skip::Cut)?;
        let wire_bytes = match u16::from_be_bytes([fixed[2], fixed[3]]) {
            0 => on_wire,
            length => u32::from(length),
        };
        (fixed[9], usize::from(first & 0xf) * 4, wire_bytes)
    } else {
        let fixed: &[u8; 40] = bytes.first_chunk().ok_or(Skip::Cut)?;
        let wire_bytes = match u16::from_be_bytes([fixed[4], fixed[5]]) {
            0 => on_wire.max(40),
            length => u32::from(length) + 40,
        };
        let extended = extensions(bytes.get(..wire_bytes as usize).unwrap_or(bytes), fixed[6])?;
        (extended.next, extended.offset, wire_bytes)
    };
    let captured = bytes.get(..wire_bytes as usize).unwrap_or(bytes);
    let wire_bytes = wire_bytes.checked_sub(offset as u32).ok_or(Skip::BadHeader)?;
    Ok(Payload { protocol, bytes: captured.get(offset..).ok_or(Skip::Cut)?, wire_bytes })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn read(bytes: &[u8], on_wire: u32) -> Result<IpPacket<'_>, Skip> {
        let mut ip = IpPacket::EMPTY;
        decode(bytes, on_wire, &mut ip).map(|()| ip)
    }

    /// An IPv4 header followed by `options` and `rest`, with a matching length.
    fn v4_packet(options: &[u8], rest: &[u8]) -> Vec<u8> {
        let length = (20 + options.len() + rest.len()) as u16;
        let mut bytes = vec![0x45 + (options.len() / 4) as u8, 0xb9, 0, 0, 0, 0, 0x40, 0, 64, TCP, 0, 0];
        bytes[2..4].copy_from_slice(&length.to_be_bytes());
        bytes.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        bytes.extend(options);
        bytes.extend(rest);
        bytes
    }

    /// An IPv6 packet with extension headers, each as its number and its bytes from the second one
    /// on.
    fn v6_packet(extensions: &[(u8, &[u8])], rest: &[u8]) -> Vec<u8> {
        let numbers: Vec<u8> = extensions.iter().map(|(number, _)| *number).chain([TCP]).collect();
        let mut body = Vec::new();
        for ((_, bytes), next) in extensions.iter().zip(&numbers[1..]) {
            body.push(*next);
            body.extend(*bytes);
        }
        body.extend(rest);
        let mut bytes = vec![0x6b, 0x90, 0, 0, 0, 0, numbers[0], 64];
        bytes[4..6].copy_from_slice(&(body.len() as u16).to_be_bytes());
        bytes.extend((1..=32).collect::<Vec<u8>>());
        bytes.extend(body);
        bytes
    }

    #[test]
    fn reads_version_4() {
        let packet = v4_packet(&[], &[7; 30]);
        // Padding after the packet is not part of it.
        let padded = [&packet[..], &[0; 6]].concat();
        let ip = read(&padded, padded.len() as u32).unwrap();
        assert_eq!((ip.source, ip.destination), ((0, 0x0a00_0001), (0, 0x0a00_0002)));
        assert_eq!((ip.tcp, ip.tcp_bytes, ip.wire_bytes), (&[7; 30][..], 30, 50));
        assert_eq!((ip.ecn_bits, ip.fragment, ip.v6), (1, false, false));
        let options = v4_packet(&[1; 40], &[7; 30]);
        let ip = read(&options, 0).unwrap();
        assert_eq!((ip.tcp, ip.tcp_bytes, ip.wire_bytes), (&[7; 30][..], 30, 90));
        // Truncated: the length on the wire stays.
        let ip = read(&packet[..25], 50).unwrap();
        assert_eq!((ip.tcp, ip.tcp_bytes), (&[7; 5][..], 30));
        assert_eq!(read(&packet[..19], 50).unwrap_err(), Skip::Cut);
        assert_eq!(read(&options[..59], 90).unwrap_err(), Skip::Cut);
        assert_eq!(read(&[], 50).unwrap_err(), Skip::Cut);
    }

    #[test]
    fn takes_the_length_from_the_frame_where_the_packet_has_none() {
        let mut packet = v4_packet(&[], &[7; 30]);
        packet[2..4].fill(0);
        let ip = read(&packet, 70_000).unwrap();
        assert_eq!((ip.tcp_bytes, ip.wire_bytes, ip.tcp.len()), (69_980, 70_000, 30));
        let mut packet = v6_packet(&[], &[7; 30]);
        packet[4..6].fill(0);
        let ip = read(&packet, 70_000).unwrap();
        assert_eq!((ip.tcp_bytes, ip.wire_bytes, ip.tcp.len()), (69_960, 70_000, 30));
    }

    #[test]
    fn refuses_headers_that_contradict_themselves() {
        let good = v4_packet(&[], &[7; 30]);
        let with = |place: usize, value: u8| {
            let mut packet = good.clone();
            packet[place] = value;
            read(&packet, 50).map(|ip| ip.tcp_bytes)
        };
        assert_eq!(with(0, 0x44), Err(Skip::BadHeader), "a header of 16 bytes");
        assert_eq!(with(3, 19), Err(Skip::BadHeader), "a packet shorter than its header");
        assert_eq!(with(0, 0x55), Err(Skip::BadHeader), "version 5");
        assert_eq!(with(9, 17), Err(Skip::NotTcp));
        // More fragments follow; a later fragment; the bit that forbids them.
        assert_eq!(with(6, 0x20), Ok(30));
        assert_eq!(with(7, 1), Err(Skip::Fragment));
        assert_eq!(with(6, 0x1f), Err(Skip::Fragment));
        let mut first = good.clone();
        first[6] = 0x20;
        assert!(read(&first, 50).unwrap().fragment);
        let mut long = v6_packet(&[(60, &[9, 0, 0, 0, 0, 0, 0])], &[7; 100]);
        long[5] = 20;
        assert_eq!(read(&long, 200).unwrap_err(), Skip::BadHeader, "the extension ends behind the packet");
    }

    #[test]
    fn passes_over_extension_headers_of_version_6() {
        let bytes = v6_packet(
            &[
                (0, &[0, 0, 0, 0, 0, 0, 0]),
                (43, &[1, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
                (44, &[0, 0, 0, 0, 0, 0, 1]),
                (51, &[2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
                (60, &[0, 0, 0, 0, 0, 0, 0]),
            ],
            &[7; 30],
        );
        let ip = read(&bytes, 0).unwrap();
        assert_eq!((ip.tcp, ip.tcp_bytes, ip.wire_bytes), (&[7; 30][..], 30, bytes.len() as u32));
        assert_eq!(ip.source, (0x0102_0304_0506_0708, 0x090a_0b0c_0d0e_0f10));
        assert_eq!(ip.destination, (0x1112_1314_1516_1718, 0x191a_1b1c_1d1e_1f20));
        assert_eq!((ip.ecn_bits, ip.fragment, ip.routed, ip.v6), (1, false, false, true));
        for length in 0..bytes.len() - 30 {
            assert_eq!(read(&bytes[..length], 0).unwrap_err(), Skip::Cut, "{length}");
        }
        let fragment = |place: [u8; 2]| {
            let bytes = v6_packet(&[(44, &[0, place[0], place[1], 0, 0, 0, 1])], &[7; 30]);
            read(&bytes, 0).map(|ip| ip.fragment)
        };
        assert_eq!(fragment([0, 1]), Ok(true));
        assert_eq!(fragment([0, 9]), Err(Skip::Fragment));
        let routed = v6_packet(&[(43, &[0, 4, 1, 0, 0, 0, 0])], &[7; 30]);
        assert!(read(&routed, 0).unwrap().routed);
        let mut other = v6_packet(&[], &[7; 30]);
        for number in [17, 50, 58, 59] {
            other[6] = number;
            assert_eq!(read(&other, 0).unwrap_err(), Skip::NotTcp, "{number}");
        }
    }

    #[test]
    fn ends_with_too_many_extension_headers() {
        let option: (u8, &[u8]) = (60, &[0, 1, 4, 0, 0, 0, 0]);
        assert!(read(&v6_packet(&vec![option; MAX_EXTENSIONS], &[7; 30]), 0).is_ok());
        assert_eq!(read(&v6_packet(&[option; 100], &[7; 30]), 0).unwrap_err(), Skip::TooDeep);
    }
}
