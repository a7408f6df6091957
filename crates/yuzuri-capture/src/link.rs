//! Finds the IP packet in a frame.

use crate::facts::Skip;
use crate::file::erf;

/// Maximum number of VLAN tags followed in one frame.
const MAX_TAGS: usize = 8;
/// Maximum number of MPLS labels followed in one frame.
const MAX_LABELS: usize = 16;

/// `LINKTYPE_ERF`: Endace's records, each with its own link layer.
pub(crate) const LINK_ERF: u32 = 197;

/// Supported link layers. The numbers are tcpdump.org's `LINKTYPE_` values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Link {
    Ethernet,
    /// IP without anything before it.
    Raw,
    /// The address family in 4 bytes, in the byte order of the capturing machine.
    Loopback,
    /// Linux "any" interface.
    Sll,
    /// The same, version 2.
    Sll2,
    Ppp,
    Ieee80211,
    Radiotap,
    Erf,
    Unknown,
}

impl Link {
    pub(crate) fn from_number(link_type: u32) -> Link {
        match link_type {
            1 => Link::Ethernet,
            12 | 14 | 101 | 228 | 229 => Link::Raw,
            0 | 108 => Link::Loopback,
            9 | 50 => Link::Ppp,
            105 => Link::Ieee80211,
            113 => Link::Sll,
            127 => Link::Radiotap,
            LINK_ERF => Link::Erf,
            276 => Link::Sll2,
            _ => Link::Unknown,
        }
    }

    /// Length of the headers before the IP packet.
    #[inline(always)]
    pub(crate) fn header_bytes(self, frame: &[u8]) -> Result<usize, Skip> {
        match self {
            Link::Ethernet => ether_type(frame, 12, 14),
            Link::Raw => Ok(0),
            _ => self.other_header_bytes(frame),
        }
    }

    fn other_header_bytes(self, frame: &[u8]) -> Result<usize, Skip> {
        match self {
            Link::Ethernet => ether_type(frame, 12, 14),
            Link::Raw => Ok(0),
            Link::Loopback => loopback(frame),
            Link::Sll => ether_type(frame, 14, 16),
            Link::Sll2 => ether_type(frame, 0, 20),
            Link::Ppp => ppp(frame),
            Link::Ieee80211 => ieee80211(frame),
            Link::Radiotap => {
                let length = usize::from(u16::from_le_bytes(*chunk(frame, 2)?));
                Ok(length + ieee80211(frame.get(length..).ok_or(Skip::Cut)?)?)
            }
            Link::Erf => endace(frame),
            Link::Unknown => Err(Skip::UnknownLinkType),
        }
    }
}

/// The bytes at an offset, if they were captured.
#[inline]
fn chunk<const N: usize>(frame: &[u8], offset: usize) -> Result<&[u8; N], Skip> {
    frame.get(offset..).and_then(<[u8]>::first_chunk).ok_or(Skip::Cut)
}

/// EtherType at `offset`, its payload at `rest`; VLAN tags (IEEE 802.1Q, 802.1ad) may lie in
/// between.
#[inline(always)]
pub(crate) fn ether_type(frame: &[u8], offset: usize, rest: usize) -> Result<usize, Skip> {
    match *chunk(frame, offset)? {
        [0x08, 0x00] | [0x86, 0xdd] => Ok(rest),
        kind => tagged(frame, kind, rest),
    }
}

fn tagged(frame: &[u8], mut kind: [u8; 2], mut rest: usize) -> Result<usize, Skip> {
    for _ in 0..=MAX_TAGS {
        match u16::from_be_bytes(kind) {
            0x0800 | 0x86dd => return Ok(rest),
            0x8100 | 0x88a8 | 0x9100 | 0x9200 => kind = *chunk(frame, rest + 2)?,
            0x8847 => return labelled(frame, rest),
            0x8864 => return pppoe(frame, rest),
            _ => return Err(Skip::NotIp),
        }
        rest += 4;
    }
    Err(Skip::TooDeep)
}

/// MPLS (RFC 3032): labels up to the bottom of the stack, then a packet whose version its first
/// bits give.
fn labelled(frame: &[u8], rest: usize) -> Result<usize, Skip> {
    for label in 0..MAX_LABELS {
        let last = chunk::<4>(frame, rest + 4 * label)?[2] & 1 != 0;
        if last {
            let packet = rest + 4 * (label + 1);
            let first = chunk::<1>(frame, packet)?[0];
            return if matches!(first >> 4, 4 | 6) { Ok(packet) } else { Err(Skip::NotIp) };
        }
    }
    Err(Skip::TooDeep)
}

/// PPP over Ethernet in its session stage (RFC 2516): six bytes, then PPP's protocol.
fn pppoe(frame: &[u8], rest: usize) -> Result<usize, Skip> {
    let [version_and_type, code] = *chunk(frame, rest)?;
    if (version_and_type, code) != (0x11, 0) {
        return Err(Skip::NotIp);
    }
    let ppp_bytes = ppp(frame.get(rest + 6..).ok_or(Skip::Cut)?)?;
    Ok(rest + 6 + ppp_bytes)
}

/// An Endace record; its type gives its content.
fn endace(record: &[u8]) -> Result<usize, Skip> {
    const HDLC_POS: u8 = 1;
    const IP: [u8; 2] = [22, 23];
    let (kind, before) = erf::kind(record).zip(erf::header_bytes(record)).ok_or(Skip::Cut)?;
    let frame = record.get(before..).ok_or(Skip::Cut)?;
    let header_bytes = match kind {
        _ if erf::is_ethernet(kind) => ether_type(frame, 12, 14)?,
        // PPP, or Cisco's HDLC, whose address is 15 or 143.
        HDLC_POS if matches!(chunk::<1>(frame, 0)?[0], 0x0f | 0x8f) => ether_type(frame, 2, 4)?,
        HDLC_POS => ppp(frame)?,
        _ if IP.contains(&kind) => 0,
        _ => return Err(Skip::UnknownLinkType),
    };
    Ok(before + header_bytes)
}

/// BSD loopback: AF_INET is 2 everywhere, AF_INET6 differs from system to system.
fn loopback(frame: &[u8]) -> Result<usize, Skip> {
    let family = u32::from_le_bytes(*chunk(frame, 0)?);
    match family.min(family.swap_bytes()) {
        2 | 10 | 24 | 28 | 30 => Ok(4),
        _ => Err(Skip::NotIp),
    }
}

/// RFC 1661 and RFC 1662: address and control may be omitted, and so may the protocol's first byte.
fn ppp(frame: &[u8]) -> Result<usize, Skip> {
    let start = if frame.starts_with(&[0xff, 0x03]) { 2 } else { 0 };
    let first = chunk::<1>(frame, start)?[0];
    let (protocol, rest) = match first & 1 {
        1 => (u16::from(first), start + 1),
        _ => (u16::from_be_bytes(*chunk(frame, start)?), start + 2),
    };
    match protocol {
        0x0021 | 0x0057 => Ok(rest),
        _ => Err(Skip::NotIp),
    }
}

/// IEEE 802.11-2020 section 9.2.4: data frames that are neither encrypted nor aggregated, with LLC
/// and SNAP before the packet.
fn ieee80211(frame: &[u8]) -> Result<usize, Skip> {
    const SNAP: [u8; 6] = [0xaa, 0xaa, 0x03, 0, 0, 0];
    let [kind, control] = *chunk(frame, 0)?;
    let data = kind & 0x4c == 0x08;
    let protected = control & 0x40 != 0;
    if !data || protected {
        return Err(Skip::NotIp);
    }
    let mut header = if control & 0x03 == 0x03 { 30 } else { 24 };
    if kind & 0x80 != 0 {
        let aggregated = chunk::<1>(frame, header)?[0] & 0x80 != 0;
        if aggregated {
            return Err(Skip::NotIp);
        }
        header += if control & 0x80 != 0 { 6 } else { 2 };
    }
    // Some network cards pad the header to a multiple of 4.
    let padded = header.next_multiple_of(4);
    let Some(header) =
        [header, padded].into_iter().find(|&header| chunk(frame, header).is_ok_and(|llc| *llc == SNAP))
    else {
        return Err(if frame.len() < padded + SNAP.len() { Skip::Cut } else { Skip::NotIp });
    };
    ether_type(frame, header + 6, header + 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame of these parts, and the length of all parts but the last.
    fn frame(parts: &[&[u8]]) -> (Vec<u8>, usize) {
        let bytes = parts.concat();
        let header_bytes = bytes.len() - parts.last().expect("a part").len();
        (bytes, header_bytes)
    }

    const MAC: [u8; 12] = [2; 12];
    const IP: [u8; 4] = [0x45, 0, 0, 40];
    const SNAP: [u8; 8] = [0xaa, 0xaa, 3, 0, 0, 0, 8, 0];

    #[test]
    fn finds_the_packet_behind_each_header() {
        let tag = [0x81, 0, 0, 7];
        let outer = [0x88, 0xa8, 0, 7];
        let radiotap = [0, 0, 12, 0, 0, 0, 0, 0, 9, 9, 9, 9];
        // QinQ, PPPoE, IPv6 in PPP; two labels of MPLS; Endace with an extension header, Ethernet
        // and Cisco's HDLC.
        let pppoe = [0x88, 0x64, 0x11, 0, 0, 1, 0, 46];
        let labels = [0x88, 0x47, 0, 1, 0x10, 64, 0, 2, 0x11, 64];
        let erf = |kind: u8| [[0; 8], [kind, 4, 0, 80, 0, 0, 0, 64]].concat();
        let cases: [(u32, &[&[u8]]); 29] = [
            (1, &[&MAC, &pppoe, &[0, 0x21], &IP]),
            (1, &[&MAC, &outer, &tag, &pppoe, &[0, 0x57], &IP]),
            (1, &[&MAC, &labels, &IP]),
            (197, &[&erf(2), &[0, 0], &MAC, &[8, 0], &IP]),
            (197, &[&erf(0x80 | 2), &[0; 10], &MAC, &tag, &[8, 0], &IP]),
            (197, &[&erf(1), &[0x0f, 0, 8, 0], &IP]),
            (1, &[&MAC, &[8, 0], &IP]),
            (1, &[&MAC, &[0x86, 0xdd], &IP]),
            (1, &[&MAC, &tag, &[8, 0], &IP]),
            (1, &[&MAC, &outer, &tag, &[0x86, 0xdd], &IP]),
            (12, &[&[], &IP]),
            (14, &[&[], &IP]),
            (101, &[&[], &IP]),
            (228, &[&[], &IP]),
            (229, &[&[], &IP]),
            (0, &[&[2, 0, 0, 0], &IP]),
            (0, &[&[0, 0, 0, 2], &IP]),
            (108, &[&[0, 0, 0, 30], &IP]),
            (108, &[&[24, 0, 0, 0], &IP]),
            (9, &[&[0xff, 3, 0, 0x21], &IP]),
            (9, &[&[0x21], &IP]),
            (50, &[&[0, 0x57], &IP]),
            (113, &[&[0; 14], &[8, 0], &IP]),
            (113, &[&[0; 14], &tag, &[8, 0], &IP]),
            (276, &[&[8, 0], &[0; 18], &IP]),
            (276, &[&[0x81, 0], &[0; 18], &[0, 7, 8, 0], &IP]),
            (105, &[&[8, 1], &[0; 22], &SNAP, &IP]),
            // With QoS; the header is padded to a multiple of 4.
            (127, &[&radiotap, &[0x88, 2], &[0; 22], &[0, 0], &[0, 0], &SNAP, &IP]),
            // From one access point to another, with four addresses.
            (127, &[&radiotap, &[0x88, 3], &[0; 28], &[0, 0], &SNAP, &IP]),
        ];
        for (link_type, parts) in cases {
            let (bytes, header_bytes) = frame(parts);
            let link = Link::from_number(link_type);
            assert_eq!(link.header_bytes(&bytes), Ok(header_bytes), "{link_type}: {bytes:x?}");
            // A truncated frame is reported as truncated, wherever it is cut.
            for length in 0..header_bytes {
                if bytes[..length] == [0xff] {
                    // Alone, this is a protocol in one byte.
                    continue;
                }
                let cut = &bytes[..length];
                let rest =
                    link.header_bytes(cut).and_then(|header_bytes| cut.get(header_bytes..).ok_or(Skip::Cut));
                assert_eq!(rest, Err(Skip::Cut), "{link_type}: {length} of {bytes:x?}");
            }
        }
    }

    #[test]
    fn passes_over_what_is_not_ip() {
        let arp = frame(&[&MAC, &[8, 6], &IP]).0;
        assert_eq!(Link::Ethernet.header_bytes(&arp), Err(Skip::NotIp));
        assert_eq!(Link::Loopback.header_bytes(&[7, 0, 0, 0, 0]), Err(Skip::NotIp));
        assert_eq!(Link::Ppp.header_bytes(&[0xff, 3, 0xc0, 0x21]), Err(Skip::NotIp));
        assert_eq!(Link::from_number(147).header_bytes(&arp), Err(Skip::UnknownLinkType));
        // A beacon, an encrypted frame, an aggregated one, one without payload.
        for control in [[0x80, 0, 0], [8, 0x41, 0], [0x88, 1, 0x80], [0x48, 1, 0]] {
            let wlan = frame(&[&control[..2], &[0; 22], &control[2..], &[0], &SNAP, &IP]).0;
            assert_eq!(Link::Ieee80211.header_bytes(&wlan), Err(Skip::NotIp), "{control:x?}");
        }
    }

    #[test]
    fn ends_with_too_many_tags() {
        let mut tags = MAC.to_vec();
        tags.extend([0x81, 0, 0, 1].repeat(MAX_TAGS));
        let mut just = tags.clone();
        just.extend([8, 0, 0x45]);
        assert_eq!(Link::Ethernet.header_bytes(&just), Ok(14 + 4 * MAX_TAGS));
        tags.extend([0x81, 0, 0, 1, 8, 0, 0x45]);
        assert_eq!(Link::Ethernet.header_bytes(&tags), Err(Skip::TooDeep));
    }
}
