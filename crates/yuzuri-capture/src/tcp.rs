//! The TCP header (RFC 9293 section 3.1) and its options.

use crate::checksum;
use crate::facts::Skip;
use crate::ip::IpPacket;
use crate::segment::{Checksum, Flags, SackBlocks, Segment, TcpOptions};

/// The least needed of the header: up to the window.
const MIN: usize = 16;

/// Decodes the header without its options into `segment` and returns its length; ports go to
/// `ports`, source first.
#[inline(always)]
pub(crate) fn decode(ip: &IpPacket<'_>, segment: &mut Segment, ports: &mut (u16, u16)) -> Result<u32, Skip> {
    if ip.tcp_bytes < 20 {
        return Err(Skip::BadHeader);
    }
    let fixed: &[u8; MIN] = ip.tcp.first_chunk().ok_or(Skip::Cut)?;
    let header_bytes = u32::from(fixed[12] >> 4) * 4;
    if header_bytes < 20 || header_bytes > ip.tcp_bytes {
        return Err(Skip::BadHeader);
    }
    let short = |at: usize| u16::from_be_bytes([fixed[at], fixed[at + 1]]);
    let long = |at: usize| u32::from_be_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]]);
    *ports = (short(0), short(2));
    segment.seq = long(4);
    segment.ack = long(8);
    segment.flags = Flags(short(12) & 0x1ff);
    segment.window = short(14);
    segment.payload_bytes = ip.tcp_bytes - header_bytes;
    Ok(header_bytes)
}

/// Decodes the options of a segment with a header of `header_bytes`.
#[inline(always)]
pub(crate) fn decode_options(segment: &[u8], header_bytes: u32, options: &mut TcpOptions) {
    options.clear();
    match segment.get(20..header_bytes as usize) {
        Some([]) => {}
        // Nearly every segment of a connection with timestamps has these (RFC 7323 appendix A).
        Some(&[k, l, m, n, a, b, c, d, e, f, g, h]) if [k, l, m, n] == [1, 1, 8, 10] => {
            options.timestamps = Some((u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h])));
        }
        Some(bytes) => decode_any(bytes, options),
        None => {
            options.cut = true;
            decode_any(segment.get(20..).unwrap_or_default(), options);
        }
    }
}

#[inline(never)]
fn decode_any(mut bytes: &[u8], options: &mut TcpOptions) {
    loop {
        let (kind, length) = match *bytes {
            [] | [0, ..] => return,
            [1, ref rest @ ..] => {
                bytes = rest;
                continue;
            }
            [kind, length, ..] => (kind, length),
            [_] => {
                options.malformed = !options.cut;
                return;
            }
        };
        let Some((option, rest)) = bytes.split_at_checked(usize::from(length).max(1)) else {
            options.malformed = !options.cut;
            // Blocks that were captured whole remain valid.
            if let (true, 5, [_, _, blocks @ ..]) = (options.cut && length % 8 == 2, kind, bytes) {
                decode_sack(blocks, &mut options.sack);
            }
            return;
        };
        let body = option.get(2..);
        let known = match (kind, body) {
            (_, None) => false,
            (2, Some(&[a, b])) => {
                options.mss = Some(u16::from_be_bytes([a, b]));
                true
            }
            (3, Some(&[shift])) => {
                options.window_scale = Some(shift);
                true
            }
            (4, Some(&[])) => {
                options.sack_permitted = true;
                true
            }
            (5, Some(blocks)) if length % 8 == 2 && length > 2 => {
                decode_sack(blocks, &mut options.sack);
                true
            }
            (8, Some(&[a, b, c, d, e, f, g, h])) => {
                let value = u32::from_be_bytes([a, b, c, d]);
                options.timestamps = Some((value, u32::from_be_bytes([e, f, g, h])));
                true
            }
            (2..=5 | 8, _) => false,
            _ => true,
        };
        if !known {
            options.malformed = true;
            return;
        }
        bytes = rest;
    }
}

/// Decodes all complete blocks.
fn decode_sack(bytes: &[u8], sack: &mut SackBlocks) {
    for &[a, b, c, d, e, f, g, h] in bytes.as_chunks().0 {
        sack.push(u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]));
    }
}

/// The state of the segment's checksum, as far as the packet was captured.
#[inline(always)]
pub(crate) fn checksum(ip: &IpPacket<'_>) -> Checksum {
    let Some(field) = ip.tcp.get(16..18) else { return Checksum::Unknown };
    if ip.fragment || ip.routed {
        return Checksum::Unknown;
    }
    let pseudo = ip.address_sum + checksum::length_and_protocol(ip.tcp_bytes);
    let whole = ip.tcp.len() == ip.tcp_bytes as usize;
    if whole && checksum::fold(pseudo + checksum::sum(ip.tcp)) == 0xffff {
        return Checksum::Valid;
    }
    // With the segment's length (Linux), or without it (as Windows passes it to network cards).
    let field = u16::from_ne_bytes([field[0], field[1]]);
    let without_length = ip.address_sum + checksum::length_and_protocol(0);
    if field == checksum::fold(pseudo) || field == checksum::fold(without_length) {
        return Checksum::Partial;
    }
    if whole { Checksum::Invalid } else { Checksum::Unknown }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use proptest::prelude::*;

    /// Options of a segment of which `missing` bytes were not captured.
    fn read(options: &[u8], missing: usize) -> TcpOptions {
        let segment = [&[0; 20], options].concat();
        let mut found = TcpOptions::default();
        decode_options(&segment[..segment.len() - missing], segment.len() as u32, &mut found);
        found
    }

    #[test]
    fn reads_each_option() {
        let syn = read(&[2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 9, 0, 0, 0, 8, 1, 3, 3, 14], 0);
        assert_eq!(syn.mss, Some(1460));
        assert_eq!(syn.window_scale, Some(14));
        assert_eq!(syn.timestamps, Some((9, 8)));
        assert!(syn.sack_permitted && !syn.malformed && !syn.cut);
        assert_eq!(read(&[1, 1, 8, 10, 0, 0, 0, 9, 0, 0, 0, 8], 0).timestamps, Some((9, 8)));
        let blocks: Vec<u8> = (0..32).collect();
        let sack = read(&[&[1, 1, 5, 34], &blocks[..]].concat(), 0).sack;
        assert_eq!(
            *sack,
            [
                (0x0001_0203, 0x0405_0607),
                (0x0809_0a0b, 0x0c0d_0e0f),
                (0x1011_1213, 0x1415_1617),
                (0x1819_1a1b, 0x1c1d_1e1f)
            ]
        );
        // Unknown options are skipped, and anything after the end of the list is ignored.
        let other = read(&[30, 4, 9, 9, 254, 2, 2, 4, 0, 99, 0, 3, 3, 7], 0);
        assert_eq!((other.mss, other.window_scale, other.malformed), (Some(99), None, false));
    }

    #[test]
    fn notes_options_that_cannot_be() {
        for bytes in [
            // Lengths of 0 and 1, past the end, none at all.
            &[3, 0, 7, 0][..],
            &[99, 1, 0, 0],
            &[1, 1, 8, 11, 0, 0, 0, 9, 0, 0, 0, 8],
            &[1, 1, 1, 3],
            // Wrong for the option.
            &[2, 3, 9, 0],
            &[3, 4, 9, 9],
            &[4, 3, 9, 0],
            &[8, 4, 9, 9],
            &[5, 2, 1, 1],
            &[5, 6, 0, 0, 0, 1, 1, 1],
        ] {
            let options = read(&[&[2, 4, 5, 0xb4], bytes].concat(), 0);
            assert!(options.malformed && !options.cut, "{bytes:?}");
            // Options before it count.
            let before = TcpOptions { mss: Some(1460), malformed: true, ..TcpOptions::default() };
            assert_eq!(options, before, "{bytes:?}");
        }
    }

    #[test]
    fn reads_what_was_captured_of_options() {
        let bytes = [&[1, 1, 8, 10, 0, 0, 0, 9, 0, 0, 0, 8, 1, 1, 5, 18], &[3; 16][..]].concat();
        for missing in 1..bytes.len() {
            let options = read(&bytes, missing);
            assert!(options.cut && !options.malformed, "{missing}");
            assert_eq!(options.timestamps.is_some(), missing <= 20, "{missing}");
            assert_eq!(options.sack.len(), usize::from(missing <= 8), "{missing}");
        }
    }

    #[test]
    fn wants_the_header_up_to_its_window() {
        let mut bytes = vec![0, 80, 0x12, 0x34, 1, 2, 3, 4, 5, 6, 7, 8, 0x51, 0x12, 0xab, 0xcd, 0, 0, 0, 0];
        bytes.extend([7; 5]);
        let read = |tcp: &[u8], tcp_bytes: u32| {
            let (mut segment, mut ports) = (Segment::EMPTY, (0, 0));
            let ip = IpPacket { tcp, tcp_bytes, ..IpPacket::EMPTY };
            decode(&ip, &mut segment, &mut ports).map(|header_bytes| (segment, ports, header_bytes))
        };
        let (segment, ports, header_bytes) = read(&bytes[..16], 25).unwrap();
        assert_eq!((ports, header_bytes, segment.payload_bytes), ((80, 0x1234), 20, 5));
        assert_eq!((segment.seq, segment.ack, segment.window), (0x0102_0304, 0x0506_0708, 0xabcd));
        assert_eq!(segment.flags, Flags::AE | Flags::ACK | Flags::SYN);
        assert_eq!(segment.flags.to_string(), "SYN ACK AE");
        assert_eq!(read(&bytes[..15], 25).unwrap_err(), Skip::Cut);
        assert_eq!(read(&bytes, 19).unwrap_err(), Skip::BadHeader);
        for (offset, expected) in [(0x41, Err(Skip::BadHeader)), (0x61, Ok(24)), (0x71, Err(Skip::BadHeader))]
        {
            bytes[12] = offset;
            assert_eq!(read(&bytes, 25).map(|(_, _, header_bytes)| header_bytes), expected, "{offset:x}");
        }
    }

    #[test]
    fn checksums_are_distinguished() {
        let addresses = [10, 0, 0, 1, 10, 0, 0, 2];
        let check = |tcp: &[u8], tcp_bytes: u32, change: fn(&mut IpPacket<'_>)| {
            let address_sum = checksum::sum(&addresses);
            let mut ip = IpPacket { tcp, tcp_bytes, address_sum, ..IpPacket::EMPTY };
            change(&mut ip);
            super::checksum(&ip)
        };
        let mut tcp: Vec<u8> = (0..33).collect();
        let pseudo = |length: u32| checksum::sum(&addresses) + checksum::length_and_protocol(length);
        tcp[16..18].fill(0);
        let right = !checksum::fold(pseudo(33) + checksum::sum(&tcp));
        let partial = checksum::fold(pseudo(33));
        let lengthless = checksum::fold(pseudo(0));
        for (field, whole, cut) in [
            (right, Checksum::Valid, Checksum::Unknown),
            (partial, Checksum::Partial, Checksum::Partial),
            (lengthless, Checksum::Partial, Checksum::Partial),
            (right ^ 0x100, Checksum::Invalid, Checksum::Unknown),
        ] {
            tcp[16..18].copy_from_slice(&field.to_ne_bytes());
            assert_eq!(check(&tcp, 33, |_| ()), whole, "{field:x}");
            assert_eq!(check(&tcp[..30], 33, |_| ()), cut, "{field:x}");
            assert_eq!(check(&tcp[..17], 33, |_| ()), Checksum::Unknown);
            assert_eq!(check(&tcp, 33, |ip| ip.fragment = true), Checksum::Unknown);
            assert_eq!(check(&tcp, 33, |ip| ip.routed = true), Checksum::Unknown);
        }
    }

    proptest! {
        /// Any bytes terminate, and yield no more than they hold.
        #[test]
        fn any_options_come_to_an_end(bytes in proptest::collection::vec(0u8..12, 0..40), missing in 0usize..40) {
            let options = read(&bytes, missing.min(bytes.len()));
            prop_assert!(options.sack.len() * 8 <= bytes.len());
            prop_assert!(!(options.cut && missing == 0));
        }

        /// Options survive a round trip.
        #[test]
        fn written_options_are_read(
            timestamps in any::<Option<(u32, u32)>>(),
            mss in any::<Option<u16>>(),
            window_scale in any::<Option<u8>>(),
            sack_permitted: bool,
            blocks in proptest::collection::vec(any::<(u32, u32)>(), 0..4),
        ) {
            let mut options =
                TcpOptions { timestamps, mss, window_scale, sack_permitted, ..TcpOptions::default() };
            let mut bytes = Vec::new();
            options.encode(&mut bytes);
            let room = (40 - bytes.len()).saturating_sub(4) / 8;
            blocks.iter().take(room).for_each(|(left, right)| options.sack.push(*left, *right));
            bytes.clear();
            options.encode(&mut bytes);
            prop_assert!(bytes.len() <= 40 && bytes.len() % 4 == 0);
            prop_assert_eq!(read(&bytes, 0), options);
        }
    }
}
