//! An Ethernet frame that passes through the models, in a buffer from a pool.

use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use yuzuri_netmodel::Packet;

/// Maximum frame size: MTU 1500, the Ethernet header, and one VLAN tag.
pub const FRAME_BYTES: usize = yuzuri_scenario::Scenario::MAX_CAPTURE_BYTES as usize;
const HEADER: usize = 14;
/// Maximum number of unused buffers per thread; more than the queues of a cell usually hold.
const MAX_POOLED: usize = 20_000;

#[derive(Debug)]
struct Buffer {
    bytes: [u8; FRAME_BYTES],
}

thread_local! {
    // The boxes themselves move between the pool and the frames.
    #[allow(clippy::vec_box)]
    static POOL: RefCell<Vec<Box<Buffer>>> = const { RefCell::new(Vec::new()) };
}

/// A frame. On drop its buffer returns to the thread's pool, so that the steady state needs no
/// allocation.
#[derive(Debug)]
pub struct Frame {
    buffer: Option<Box<Buffer>>,
    len: u16,
    flow: u64,
}

impl Frame {
    /// An empty frame, to be filled by [`Frame::fill`].
    pub fn from_pool() -> Frame {
        let from_pool = POOL.with_borrow_mut(Vec::pop);
        let buffer = from_pool.unwrap_or_else(|| Box::new(Buffer { bytes: [0; FRAME_BYTES] }));
        Frame { buffer: Some(buffer), len: 0, flow: 0 }
    }

    /// Lets `read` write to the frame's buffer. `read` returns the number of bytes written, or
    /// `None` if there was no frame.
    pub fn fill<E>(&mut self, read: impl FnOnce(&mut [u8]) -> Result<Option<usize>, E>) -> Result<bool, E> {
        let Some(buffer) = &mut self.buffer else { return Ok(false) };
        let Some(len) = read(&mut buffer.bytes)? else { return Ok(false) };
        self.len = len.min(FRAME_BYTES) as u16;
        self.flow = flow_hash(self.bytes());
        Ok(true)
    }

    /// The frame from the destination MAC address on.
    pub fn bytes(&self) -> &[u8] {
        self.buffer.as_ref().map_or(&[], |buffer| &buffer.bytes[..self.len as usize])
    }

    /// The destination MAC address; `None` if the frame is too short.
    pub fn destination(&self) -> Option<[u8; 6]> {
        self.bytes().first_chunk().copied()
    }

    /// The destination address of an IP packet.
    pub fn ip_destination(&self) -> Option<IpAddr> {
        let packet = self.bytes().get(HEADER..)?;
        match ethertype(self.bytes())? {
            IPV4 => Some(Ipv4Addr::from(*packet.get(16..20)?.first_chunk()?).into()),
            IPV6 => Some(Ipv6Addr::from(*packet.get(24..40)?.first_chunk()?).into()),
            _ => None,
        }
    }

    /// Forwards an IP packet like a router (RFC 1812, section 5.2): sets new MAC addresses and
    /// decrements the TTL or hop limit. Returns false and changes nothing if the packet needs more
    /// than that: an expired TTL, IPv4 options, a damaged header.
    pub fn forward(&mut self, to: [u8; 6], from: [u8; 6]) -> bool {
        let frame = self.bytes_mut();
        match ethertype(frame) {
            Some(IPV4) if frame.len() >= HEADER + 20 && frame[HEADER] == 0x45 && frame[HEADER + 8] > 1 => {
                change_v4_header(frame, 8, |header| header[8] -= 1);
            }
            Some(IPV6) if frame.len() >= HEADER + 40 && frame[HEADER + 7] > 1 => frame[HEADER + 7] -= 1,
            _ => return false,
        }
        frame[..6].copy_from_slice(&to);
        frame[6..12].copy_from_slice(&from);
        true
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self.buffer.as_mut().map_or(&mut [], |buffer| &mut buffer.bytes[..self.len as usize])
    }
}

impl Clone for Frame {
    fn clone(&self) -> Frame {
        let mut copy = Frame::from_pool();
        let bytes = self.bytes();
        if let Some(buffer) = &mut copy.buffer {
            buffer.bytes[..bytes.len()].copy_from_slice(bytes);
        }
        (copy.len, copy.flow) = (self.len, self.flow);
        copy
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            // When a thread ends, its pool may already be gone.
            let _ = POOL.try_with(|from_pool| {
                let mut from_pool = from_pool.borrow_mut();
                if from_pool.len() < MAX_POOLED {
                    from_pool.push(buffer);
                }
            });
        }
    }
}

impl Packet for Frame {
    fn bytes(&self) -> u32 {
        u32::from(self.len)
    }

    fn flow(&self) -> u64 {
        self.flow
    }

    fn is_voice(&self) -> bool {
        traffic_class(self.bytes()).is_some_and(|class| class >> 5 >= VOICE_PRECEDENCE)
    }

    fn ecn_capable(&self) -> bool {
        matches!(ecn(self.bytes()), Some(ECT_0 | ECT_1 | CE))
    }

    fn mark_ce(&mut self) {
        mark_ce(self.bytes_mut());
    }
}

/// User priorities 6 and 7 belong to AC_VO (IEEE 802.11-2020, table 10-1).
const VOICE_PRECEDENCE: u8 = 6;
const ECT_1: u8 = 1;
const ECT_0: u8 = 2;
const CE: u8 = 3;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const TCP: u8 = 6;
const UDP: u8 = 17;

fn ethertype(frame: &[u8]) -> Option<u16> {
    Some(u16::from_be_bytes(*frame.get(12..14)?.first_chunk()?))
}

/// The DSCP and ECN fields of an IP packet (RFC 2474, section 3).
fn traffic_class(frame: &[u8]) -> Option<u8> {
    match ethertype(frame)? {
        IPV4 => frame.get(HEADER + 1).copied(),
        IPV6 => Some(frame.get(HEADER)? << 4 | frame.get(HEADER + 1)? >> 4),
        _ => None,
    }
}

/// The ECN field of an IP packet (RFC 3168, section 5).
fn ecn(frame: &[u8]) -> Option<u8> {
    Some(traffic_class(frame)? & 3)
}

/// Sets Congestion Experienced; for IPv4 also updates the header checksum (RFC 1624).
fn mark_ce(frame: &mut [u8]) {
    match ethertype(frame) {
        Some(IPV4) if frame.len() >= HEADER + 20 => {
            change_v4_header(frame, 0, |header| header[1] |= CE);
        }
        Some(IPV6) if frame.len() > HEADER + 1 => frame[HEADER + 1] |= CE << 4,
        _ => {}
    }
}

/// Changes the 16-bit word at `at` of an IPv4 header and updates the header checksum (RFC 1624).
fn change_v4_header(frame: &mut [u8], at: usize, change: impl FnOnce(&mut [u8])) {
    let header = &mut frame[HEADER..];
    let word = |header: &[u8], at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let before = word(header, at);
    change(header);
    let sum = u32::from(!word(header, 10)) + u32::from(!before) + u32::from(word(header, at));
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    header[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}

/// A hash of addresses, protocol and, if the first fragment of TCP or UDP shows them, ports; for
/// other frames a hash of MAC addresses and EtherType. FNV-1a gives the same result on every
/// machine, so that runs are reproducible.
fn flow_hash(frame: &[u8]) -> u64 {
    let mut hash = Fnv::default();
    if ip_flow(frame, &mut hash).is_none() {
        hash = Fnv::default();
        hash.add(frame.get(..HEADER).unwrap_or(frame));
    }
    hash.0
}

fn ip_flow(frame: &[u8], hash: &mut Fnv) -> Option<()> {
    let packet = frame.get(HEADER..)?;
    let (protocol, addresses, payload) = match ethertype(frame)? {
        IPV4 => {
            let header = usize::from(packet.first()? & 0xf) * 4;
            let fragment = u16::from_be_bytes([*packet.get(6)?, *packet.get(7)?]) & 0x3fff != 0;
            let payload = if fragment { None } else { packet.get(header..) };
            (*packet.get(9)?, packet.get(12..20)?, payload)
        }
        IPV6 => (*packet.get(6)?, packet.get(8..40)?, packet.get(40..)),
        _ => return None,
    };
    hash.add(addresses);
    hash.add(&[protocol]);
    if let (TCP | UDP, Some(ports)) = (protocol, payload.and_then(|p| p.get(..4))) {
        hash.add(ports);
    }
    Some(())
}

struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Fnv {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;
    use yuzuri_capture::checksum;

    impl Frame {
        /// A frame with these bytes.
        pub(in crate::driver) fn of(bytes: &[u8]) -> Frame {
            let mut frame = Frame::from_pool();
            let read = |room: &mut [u8]| {
                room[..bytes.len()].copy_from_slice(bytes);
                Ok::<_, ()>(Some(bytes.len()))
            };
            assert_eq!(frame.fill(read), Ok(true));
            frame
        }
    }

    /// Ethernet, IPv4 10.77.0.10 > 10.78.0.2, TCP 40000 > 4950, ECT(0), with a correct checksum.
    fn ipv4_tcp() -> Vec<u8> {
        let mut bytes = vec![2, 0x79, 0x7a, 1, 0, 1, 2, 0x79, 0x7a, 0, 0, 0, 8, 0];
        bytes.extend([0x45, 2, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 77, 0, 10, 10, 78, 0, 2]);
        let checksum = checksum::of(&[&bytes[14..34]]);
        bytes[24..26].copy_from_slice(&checksum);
        bytes.extend([0x9c, 0x40, 0x13, 0x56]);
        bytes.extend([0; 16]);
        bytes
    }

    #[test]
    fn marking_preserves_the_checksum() {
        let mut marked = Frame::of(&ipv4_tcp());
        assert!(marked.ecn_capable());
        marked.mark_ce();
        assert_eq!(ecn(marked.bytes()), Some(CE));
        assert_eq!(checksum::of(&[&marked.bytes()[14..34]]), [0, 0]);
    }

    #[test]
    fn a_forwarded_packet_has_a_decremented_ttl_and_a_valid_checksum() {
        let mut sent_on = Frame::of(&ipv4_tcp());
        assert_eq!(sent_on.ip_destination(), Some(Ipv4Addr::new(10, 78, 0, 2).into()));
        assert!(sent_on.forward([1; 6], [3; 6]));
        let bytes = sent_on.bytes();
        assert_eq!((&bytes[..6], &bytes[6..12], bytes[22]), (&[1; 6][..], &[3; 6][..], 63));
        assert_eq!(checksum::of(&[&bytes[14..34]]), [0, 0]);
        assert_eq!((&bytes[34..], sent_on.flow()), (&ipv4_tcp()[34..], Frame::of(&ipv4_tcp()).flow()));
    }

    #[test]
    fn packets_that_a_router_must_process_are_not_forwarded() {
        let with = |at: usize, value: u8| {
            let mut bytes = ipv4_tcp();
            bytes[at] = value;
            bytes
        };
        let mut arp = with(13, 6);
        arp[12] = 8;
        // An expired TTL, IPv4 options, not IP, truncated.
        for bytes in [with(22, 1), with(22, 0), with(14, 0x46), arp, ipv4_tcp()[..30].to_vec()] {
            let mut same = Frame::of(&bytes);
            assert!(!same.forward([1; 6], [3; 6]));
            assert_eq!(same.bytes(), bytes);
        }
    }

    #[test]
    fn a_flow_is_identified_by_addresses_and_ports() {
        let bytes = ipv4_tcp();
        let mut other_payload = bytes.clone();
        *other_payload.last_mut().unwrap() = 1;
        let mut other_port = bytes.clone();
        other_port[35] = 1;
        assert_eq!(Frame::of(&bytes).flow(), Frame::of(&other_payload).flow());
        assert_ne!(Frame::of(&bytes).flow(), Frame::of(&other_port).flow());
    }

    #[test]
    fn class_selectors_6_and_7_are_voice() {
        let of = |bytes: &[u8]| Frame::of(bytes).is_voice();
        let mut v6 = vec![0; 54];
        (v6[12], v6[13]) = (0x86, 0xdd);
        for (dscp, voice) in [(0_u8, false), (46, false), (47, false), (48, true), (56, true), (63, true)] {
            let mut v4 = ipv4_tcp();
            v4[15] = dscp << 2;
            (v6[14], v6[15]) = (0x60 | dscp >> 2, dscp << 6);
            assert_eq!((of(&v4), of(&v6)), (voice, voice), "DSCP {dscp}");
        }
        assert!(!of(&[0xff; 14]));
    }

    #[test]
    fn a_copy_is_a_separate_frame() {
        let mut original = Frame::of(&ipv4_tcp());
        let copy = original.clone();
        original.mark_ce();
        assert_eq!((copy.bytes(), Packet::bytes(&copy)), (&ipv4_tcp()[..], 54));
    }

    #[test]
    fn buffers_are_reused() {
        let count = || POOL.with_borrow(Vec::len);
        drop((Frame::of(&[1; 20]), Frame::of(&[2; 20])));
        let before = count();
        drop((Frame::of(&[1; 20]), Frame::of(&[2; 20]).clone()));
        assert!((before..=before + 1).contains(&count()));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..80), ip: bool) {
            if ip && bytes.len() > 14 {
                bytes[12..14].copy_from_slice(&IPV4.to_be_bytes());
            }
            let mut any = Frame::of(&bytes);
            any.mark_ce();
            let _ = (any.ip_destination(), any.forward([1; 6], [3; 6]));
            let ip = matches!(ethertype(&bytes), Some(IPV4 | IPV6));
            prop_assert!(any.flow() == Frame::of(any.bytes()).flow());
            prop_assert!(!any.ecn_capable() || ip);
        }
    }
}
