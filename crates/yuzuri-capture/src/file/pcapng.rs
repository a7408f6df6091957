//! Wireshark's format: sections of blocks. draft-ietf-opsawg-pcapng.

use super::{InterfaceLink, PacketHeader, Step, ending, word};
use crate::buffer::{Buffer, MAX_BYTES};
use crate::facts::{Damage, Ending, FileFacts, Skip};
use std::io::{self, Read};

/// Interfaces kept per section; packets of further ones count as packets without interface.
const MAX_INTERFACES: usize = 1 << 16;

/// Begins a section; it reads the same in both byte orders.
pub(crate) const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const OBSOLETE_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const STATISTICS: u32 = 5;
const ENHANCED_PACKET: u32 = 6;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;

/// Type, length, and the length again.
const FRAME_BYTES: usize = 12;
/// Type, length, interface, time, captured and original length of an enhanced packet block.
const ENHANCED_HEADER_BYTES: usize = 28;

#[derive(Default)]
pub(crate) struct PcapNg {
    /// The section is big endian.
    swapped: bool,
    interfaces: Vec<Interface>,
}

struct Interface {
    link: InterfaceLink,
    snaplen: u32,
    resolution: Resolution,
    offset_ns: i64,
    /// Packets that the interface dropped, by its latest statistics.
    drops: u64,
}

impl Interface {
    #[inline(always)]
    fn time_ns(&self, ticks: u64) -> i64 {
        self.resolution.to_ns(ticks).saturating_add(self.offset_ns)
    }
}

/// The length of one tick of an interface's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Resolution {
    /// This many ns.
    Times(u64),
    /// 1 ns divided by this.
    Parts(u64),
    /// 2^-n s.
    Binary(u32),
}

impl Resolution {
    /// From the option `if_tsresol`.
    fn new(option: u8) -> Resolution {
        let exponent = u32::from(option & 0x7f);
        if option & 0x80 != 0 {
            return Resolution::Binary(exponent);
        }
        match 9u32.checked_sub(exponent) {
            Some(zeros) => Resolution::Times(10u64.pow(zeros)),
            // So fine that 2^64 ticks are less than a nanosecond: all times are zero.
            None => 10u64.checked_pow(exponent - 9).map_or(Resolution::Times(0), Resolution::Parts),
        }
    }

    #[inline]
    fn to_ns(self, ticks: u64) -> i64 {
        let ns = match self {
            Resolution::Times(ns) => ticks.saturating_mul(ns),
            Resolution::Parts(parts) => ticks / parts,
            Resolution::Binary(bits) => {
                u64::try_from((u128::from(ticks) * 1_000_000_000) >> bits).unwrap_or(u64::MAX)
            }
        };
        i64::try_from(ns).unwrap_or(i64::MAX)
    }
}

impl PcapNg {
    /// A packet whose enhanced packet block begins here and is buffered whole, with the number of
    /// bytes to the block's end; `None` if [`PcapNg::next`] must be called.
    #[inline(always)]
    pub(crate) fn buffered<'a>(&self, ready: &'a [u8], head: &mut PacketHeader) -> Option<(&'a [u8], usize)> {
        let fixed: &[u8; ENHANCED_HEADER_BYTES] = ready.first_chunk()?;
        if self.swapped || word(fixed, 0, false) != ENHANCED_PACKET {
            return None;
        }
        let length = word(fixed, 4, false) as usize;
        if !length.is_multiple_of(4) || length > MAX_BYTES {
            return None;
        }
        let (body, again) = ready.get(..length)?.split_last_chunk()?;
        if u32::from_le_bytes(*again) as usize != length {
            return None;
        }
        let interface = self.interfaces.get(word(fixed, 8, false) as usize)?;
        let captured = body.get(ENHANCED_HEADER_BYTES..)?.get(..word(fixed, 20, false) as usize)?;
        let ticks = u64::from(word(fixed, 12, false)) << 32 | u64::from(word(fixed, 16, false));
        head.set(Some(interface.time_ns(ticks)), word(fixed, 24, false), &interface.link);
        Some((captured, length))
    }

    #[inline(always)]
    pub(crate) fn next<'a, S: Read>(
        &mut self,
        buffer: &'a mut Buffer<S>,
        facts: &mut FileFacts,
        head: &mut PacketHeader,
    ) -> io::Result<Step<'a>> {
        loop {
            if !buffer.has(FRAME_BYTES)? {
                return Ok(Step::End(ending(buffer)));
            }
            let frame = &buffer.ready()[..FRAME_BYTES];
            let mut kind = word(frame, 0, self.swapped);
            if kind == SECTION {
                let damaged = |damage| Step::End(Ending::Damaged { offset_bytes: buffer.offset(), damage });
                match word(frame, 8, false) {
                    BYTE_ORDER => self.swapped = false,
                    order if order.swap_bytes() == BYTE_ORDER => self.swapped = true,
                    _ => return Ok(damaged(Damage::ByteOrder)),
                }
                kind = SECTION;
            }
            let stated = word(frame, 4, self.swapped);
            // Some programs do not pad, yet the next block begins at a multiple of 4.
            let length = (stated as usize).next_multiple_of(4);
            let damage = match length {
                0..FRAME_BYTES => Some(Damage::TooShort),
                _ if length > MAX_BYTES => Some(Damage::TooLong),
                _ => None,
            };
            if let Some(damage) = damage {
                return Ok(Step::End(Ending::Damaged { offset_bytes: buffer.offset(), damage }));
            }
            if !buffer.has(length)? {
                return Ok(Step::End(ending(buffer)));
            }
            if word(&buffer.ready()[..length], length - 4, self.swapped) != stated {
                let damage = Damage::LengthsDiffer;
                return Ok(Step::End(Ending::Damaged { offset_bytes: buffer.offset(), damage }));
            }
            if let ENHANCED_PACKET | SIMPLE_PACKET | OBSOLETE_PACKET = kind {
                let body = &buffer.take(length)[8..length - 4];
                return Ok(self.packet(kind, body, head).map_or_else(Step::Skipped, Step::Packet));
            }
            let body = &buffer.take(length)[8..length - 4];
            match kind {
                SECTION => {
                    self.interfaces.clear();
                    facts.sections += 1;
                }
                INTERFACE => self.interface(body, facts),
                STATISTICS => self.statistics(body, facts),
                _ => facts.other_blocks += 1,
            }
        }
    }

    /// Decodes a block that holds a packet.
    #[inline(always)]
    fn packet<'a>(&self, kind: u32, body: &'a [u8], head: &mut PacketHeader) -> Result<&'a [u8], Skip> {
        let swapped = self.swapped;
        if kind == SIMPLE_PACKET {
            return self.simple_packet(body, head);
        }
        let (fixed, rest) = body.split_at_checked(20).ok_or(Skip::BadHeader)?;
        let number = match (kind, swapped) {
            (ENHANCED_PACKET, _) => word(fixed, 0, swapped),
            (_, false) => word(fixed, 0, false) & 0xffff,
            (_, true) => word(fixed, 0, true) >> 16,
        };
        let interface = self.interfaces.get(number as usize).ok_or(Skip::NoInterface)?;
        let captured = rest.get(..word(fixed, 12, swapped) as usize).ok_or(Skip::BadHeader)?;
        let ticks = u64::from(word(fixed, 4, swapped)) << 32 | u64::from(word(fixed, 8, swapped));
        head.set(Some(interface.time_ns(ticks)), word(fixed, 16, swapped), &interface.link);
        Ok(captured)
    }

    /// A packet of the first interface, without time: its length is bounded by the block, the
    /// packet and the interface's limit.
    fn simple_packet<'a>(&self, body: &'a [u8], head: &mut PacketHeader) -> Result<&'a [u8], Skip> {
        let (fixed, rest) = body.split_at_checked(4).ok_or(Skip::BadHeader)?;
        let interface = self.interfaces.first().ok_or(Skip::NoInterface)?;
        let on_wire = word(fixed, 0, self.swapped);
        let most = if interface.snaplen == 0 { on_wire } else { on_wire.min(interface.snaplen) };
        head.set(None, on_wire, &interface.link);
        Ok(rest.get(..most as usize).unwrap_or(rest))
    }

    fn interface(&mut self, body: &[u8], facts: &mut FileFacts) {
        let Some((fixed, options)) = body.split_at_checked(8) else {
            facts.other_blocks += 1;
            return;
        };
        let link_type = self.short(fixed, 0);
        let (mut resolution, mut offset_ns, mut fcs_bytes) = (Resolution::new(6), 0i64, 0);
        for (code, value) in self.options(options) {
            match (code, value) {
                (9, [option, ..]) => resolution = Resolution::new(*option),
                (13, [length, ..]) => fcs_bytes = u32::from(*length),
                (14, value) => {
                    offset_ns = self.long(value).map_or(0, |s| s.cast_signed()).saturating_mul(1_000_000_000)
                }
                _ => {}
            }
        }
        if self.interfaces.len() < MAX_INTERFACES {
            let link = InterfaceLink::new(link_type, fcs_bytes, facts);
            let snaplen = word(fixed, 4, self.swapped);
            self.interfaces.push(Interface { link, snaplen, resolution, offset_ns, drops: 0 });
        }
    }

    fn statistics(&mut self, body: &[u8], facts: &mut FileFacts) {
        const DROPPED_BY_INTERFACE: u16 = 5;
        let Some((fixed, options)) = body.split_at_checked(12) else { return };
        let drops = self.options(options).find(|(code, _)| *code == DROPPED_BY_INTERFACE);
        let Some(drops) = drops.and_then(|(_, value)| self.long(value)) else { return };
        let number = word(fixed, 0, self.swapped) as usize;
        if let Some(interface) = self.interfaces.get_mut(number) {
            // Each block counts from the start of the capture.
            let before = facts.capture_drops.unwrap_or(0).saturating_sub(interface.drops);
            facts.capture_drops = Some(before.saturating_add(drops));
            interface.drops = drops;
        }
    }

    fn short(&self, bytes: &[u8], at: usize) -> u32 {
        let short = u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        u32::from(if self.swapped { short.swap_bytes() } else { short })
    }

    fn long(&self, value: &[u8]) -> Option<u64> {
        let long = u64::from_le_bytes(*value.first_chunk()?);
        Some(if self.swapped { long.swap_bytes() } else { long })
    }

    /// The code and value of each option.
    fn options<'a>(&self, mut bytes: &'a [u8]) -> impl Iterator<Item = (u16, &'a [u8])> {
        let swapped = self.swapped;
        std::iter::from_fn(move || {
            let (&[a, b, c, d], rest) = bytes.split_first_chunk()?;
            let short = |pair| if swapped { u16::from_be_bytes(pair) } else { u16::from_le_bytes(pair) };
            let (code, length) = (short([a, b]), usize::from(short([c, d])));
            let value = rest.get(..length)?;
            bytes = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
            (code != 0).then_some((code, value))
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::capture::no_facts;
    use crate::facts::{Compression, Format};
    use proptest::prelude::*;

    /// The body of an interface block: Ethernet, or its time in ns with an offset of 5 s.
    fn interface(nanoseconds: bool) -> Vec<u8> {
        let mut body = vec![1, 0, 0, 0, 0, 0, 0, 0];
        if nanoseconds {
            body.extend([
                9, 0, 1, 0, 9, 0, 0, 0, 14, 0, 8, 0, 5, 0, 0, 0, 0, 0, 0, 0, 13, 0, 1, 0, 4, 0, 0, 0,
            ]);
        }
        body
    }

    /// An enhanced packet block of the second interface, with options.
    fn block(captured_bytes: u32, options: &[u8]) -> Vec<u8> {
        let padded = captured_bytes.next_multiple_of(4) as usize;
        let length = (ENHANCED_HEADER_BYTES + padded + options.len() + 4) as u32;
        let mut block = Vec::new();
        for word in [ENHANCED_PACKET, length, 1, 0x0006_0000, 7, captured_bytes, captured_bytes + 9] {
            block.extend(word.to_le_bytes());
        }
        block.extend((0..padded).map(|byte| byte as u8));
        block.extend(options);
        block.extend(length.to_le_bytes());
        block
    }

    fn reader() -> PcapNg {
        let mut pcapng = PcapNg::default();
        let mut facts = no_facts(Format::PcapNg, Compression::None);
        for nanoseconds in [false, true] {
            pcapng.interface(&interface(nanoseconds), &mut facts);
        }
        pcapng
    }

    /// The captured bytes, the bytes consumed, and the header.
    type Packet = (Vec<u8>, usize, String);

    fn step_by_step(bytes: &[u8]) -> Option<Packet> {
        let (mut buffer, mut head) = (Buffer::new(bytes), PacketHeader::EMPTY);
        let mut facts = no_facts(Format::PcapNg, Compression::None);
        let captured = match reader().next(&mut buffer, &mut facts, &mut head).unwrap() {
            Step::Packet(captured) => captured.to_vec(),
            Step::Skipped(_) | Step::End(_) => return None,
        };
        Some((captured, buffer.offset() as usize, format!("{head:?}")))
    }

    fn at_once(bytes: &[u8]) -> Option<Packet> {
        let mut head = PacketHeader::EMPTY;
        let pcapng = reader();
        let (captured, end) = pcapng.buffered(bytes, &mut head)?;
        Some((captured.to_vec(), end, format!("{head:?}")))
    }

    #[test]
    fn usual_blocks_are_read_at_once() {
        for captured_bytes in [0, 1, 66, 1514] {
            for options in [&[][..], &[2, 0, 4, 0, 1, 0, 0, 0, 0, 0, 0, 0]] {
                let bytes = block(captured_bytes, options);
                let read = at_once(&bytes);
                assert!(
                    read.as_ref().is_some_and(|(captured, _, _)| captured.len() == captured_bytes as usize)
                );
                assert_eq!(read, step_by_step(&bytes));
                assert_eq!(at_once(&bytes[..bytes.len() - 1]), None);
            }
        }
    }

    proptest! {
        /// Whatever is read at once, step by step the result is the same.
        #[test]
        fn as_step_by_step(
            captured_bytes in 0u32..40,
            changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..4),
            more in 0usize..9,
        ) {
            let mut bytes = block(captured_bytes, &[]);
            for (place, value) in changes {
                let place = place.index(bytes.len());
                bytes[place] = value;
            }
            bytes.resize(bytes.len() + more, 0);
            if let Some(read) = at_once(&bytes) {
                prop_assert_eq!(Some(read), step_by_step(&bytes));
            }
        }
    }

    #[test]
    fn reads_every_resolution() {
        let ns = |option, ticks| Resolution::new(option).to_ns(ticks);
        assert_eq!(ns(0, 7), 7_000_000_000);
        assert_eq!(ns(3, 7), 7_000_000);
        assert_eq!(ns(6, 7), 7_000);
        assert_eq!(ns(9, 7), 7);
        assert_eq!(ns(12, 7_999), 7);
        assert_eq!(ns(28, u64::MAX), 1);
        assert_eq!(ns(29, u64::MAX), 0);
        assert_eq!(ns(127, u64::MAX), 0);
        // Powers of two.
        assert_eq!(ns(0x80, 7), 7_000_000_000);
        assert_eq!(ns(0x80 | 10, 1536), 1_500_000_000);
        assert_eq!(ns(0x80 | 32, 3 << 31), 1_500_000_000);
        assert_eq!(ns(0x80 | 64, u64::MAX), 999_999_999);
        assert_eq!(ns(0x80 | 127, u64::MAX), 0);
        // Beyond 64 bits of ns.
        assert_eq!(ns(0, u64::MAX), i64::MAX);
        assert_eq!(ns(0x80, u64::MAX), i64::MAX);
        assert_eq!(ns(9, u64::MAX), i64::MAX);
    }
}
