//! Header prediction (Jacobson, "4BSD Header Prediction", 1990): nearly all packets of a capture
//! have the same headers: Ethernet, IPv4 without options, and TCP with timestamps alone (RFC 7323,
//! appendix A). Such a packet is recognised by a few comparisons, and its fields are at fixed
//! offsets. All others are decoded step by step (`link`, `ip`, `tcp`), which has the same result.

use crate::ip::IpPacket;
use crate::link::Link;

/// Offsets of the IP packet, of the TCP segment, and of the end of its options.
const IP: usize = 14;
const TCP: usize = 34;
const END: usize = 66;
/// Bytes of the IP and TCP headers.
const HEADER_BYTES: u32 = (END - IP) as u32;

/// The fields of a packet with such headers that are not in [`IpPacket`].
pub(crate) struct Predicted {
    /// Source and destination.
    pub ports: (u16, u16),
    pub seq: u32,
    pub ack: u32,
    pub flags: u16,
    pub window: u16,
    pub payload_bytes: u32,
    pub timestamps: (u32, u32),
}

/// The fields of a packet with such headers; `None` if it has others.
#[inline(always)]
pub(crate) fn decode<'a>(frame: &'a [u8], link: Link, ip: &mut IpPacket<'a>) -> Option<Predicted> {
    let fixed: &[u8; END] = frame.first_chunk()?;
    let short = |at: usize| u16::from_be_bytes([fixed[at], fixed[at + 1]]);
    let long = |at: usize| u32::from_be_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]]);
    let wire_bytes = u32::from(short(IP + 2));
    // EtherType, version and length of the IP header; not a fragment, protocol; length of the TCP
    // header; options.
    let is_predicted = link == Link::Ethernet
        && long(IP - 2) & 0xffff_ff00 == 0x0800_4500
        && long(IP + 6) & 0x3fff_00ff == 6
        && fixed[TCP + 12] & 0xf0 == 0x80
        && long(TCP + 20) == 0x0101_080a
        && wire_bytes >= HEADER_BYTES;
    if !is_predicted {
        return None;
    }
    ip.tcp = &frame[TCP..frame.len().min(IP + wire_bytes as usize)];
    ip.v6 = false;
    ip.source = (0, u64::from(long(IP + 12)));
    ip.destination = (0, u64::from(long(IP + 16)));
    ip.tcp_bytes = wire_bytes - (TCP - IP) as u32;
    ip.wire_bytes = wire_bytes;
    ip.ecn_bits = fixed[IP + 1] & 3;
    ip.id = short(IP + 4);
    ip.fragment = false;
    ip.address_sum = u64::from(long(IP + 12).to_be()) + u64::from(long(IP + 16).to_be());
    ip.routed = false;
    Some(Predicted {
        ports: (short(TCP), short(TCP + 2)),
        seq: long(TCP + 4),
        ack: long(TCP + 8),
        flags: short(TCP + 12) & 0x1ff,
        window: short(TCP + 14),
        payload_bytes: wire_bytes - HEADER_BYTES,
        timestamps: (long(TCP + 24), long(TCP + 28)),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::segment::{Flags, Segment, TcpOptions};
    use crate::{ip, tcp};
    use proptest::prelude::*;

    /// Such a packet, with this many bytes of data.
    fn packet(payload_bytes: u16) -> Vec<u8> {
        let mut frame = vec![7; 12];
        frame.extend([8, 0, 0x45, 2, 0, 0, 0x12, 0x34, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame[IP + 2..IP + 4].copy_from_slice(&(HEADER_BYTES as u16 + payload_bytes).to_be_bytes());
        frame.extend([1, 187, 0x80, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0x80, 0x18, 9, 10, 0, 0, 0, 0]);
        frame.extend([1, 1, 8, 10, 11, 12, 13, 14, 15, 16, 17, 18]);
        frame.extend((0..payload_bytes).map(|byte| byte as u8));
        frame
    }

    /// The result step by step.
    fn step_by_step(frame: &[u8]) -> Option<(String, (u16, u16), Segment)> {
        let header_bytes = Link::Ethernet.header_bytes(frame).ok()?;
        let mut ip = IpPacket::EMPTY;
        ip::decode(&frame[header_bytes..], (frame.len() - header_bytes) as u32, &mut ip).ok()?;
        let (mut segment, mut ports) = (Segment::EMPTY, (0, 0));
        let tcp_header_bytes = tcp::decode(&ip, &mut segment, &mut ports).ok()?;
        tcp::decode_options(ip.tcp, tcp_header_bytes, &mut segment.options);
        Some((format!("{ip:?}"), ports, segment))
    }

    fn predicted(frame: &[u8]) -> Option<(String, (u16, u16), Segment)> {
        let mut ip = IpPacket::EMPTY;
        let found = decode(frame, Link::Ethernet, &mut ip)?;
        let options = TcpOptions { timestamps: Some(found.timestamps), ..TcpOptions::default() };
        let segment = Segment {
            seq: found.seq,
            ack: found.ack,
            payload_bytes: found.payload_bytes,
            window: found.window,
            flags: Flags(found.flags),
            options,
            ..Segment::EMPTY
        };
        Some((format!("{ip:?}"), found.ports, segment))
    }

    #[test]
    fn usual_packets_are_predicted() {
        for payload_bytes in [0, 1, 1448] {
            let frame = packet(payload_bytes);
            assert_eq!(predicted(&frame), step_by_step(&frame));
            assert!(predicted(&frame).is_some_and(|(_, _, segment)| segment.seq == 0x0102_0304));
            // Truncated, and padded.
            assert!(predicted(&frame[..END]).is_some());
            assert!(predicted(&[&frame[..], &[0; 9]].concat()).is_some());
        }
        assert!(predicted(&packet(0)[..END - 1]).is_none());
        let mut ip = IpPacket::EMPTY;
        assert!(decode(&packet(0), Link::Raw, &mut ip).is_none());
    }

    proptest! {
        /// Whatever is predicted, step by step the result is the same.
        #[test]
        fn as_step_by_step(
            payload_bytes in 0u16..40,
            changes in proptest::collection::vec((12usize..END, any::<u8>()), 0..4),
            length in END - 20..END + 60,
        ) {
            let mut frame = packet(payload_bytes);
            changes.iter().for_each(|(place, value)| frame[*place] = *value);
            frame.resize(length, 0);
            if let Some(found) = predicted(&frame) {
                prop_assert_eq!(Some(found), step_by_step(&frame));
            }
        }
    }
}
