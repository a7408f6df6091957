//! The libpcap format: a header, then packets. draft-ietf-opsawg-pcap.

use super::{InterfaceLink, PacketHeader, Step, ending, word};
use crate::buffer::{Buffer, MAX_BYTES};
use crate::facts::{Damage, Ending, FileFacts, Format};
use std::io::{self, Read};

pub(crate) const HEADER_BYTES: usize = 24;

pub(crate) struct Pcap {
    /// Big endian.
    swapped: bool,
    /// Bytes before each packet.
    record_bytes: usize,
    /// Nanoseconds per unit of the fraction.
    unit_ns: i64,
    link: InterfaceLink,
}

/// Byte order and variant, from the first four bytes.
fn variant(header: &[u8; HEADER_BYTES]) -> Option<(bool, Format)> {
    [false, true].into_iter().find_map(|swapped| match word(header, 0, swapped) {
        0xa1b2_c3d4 => Some((swapped, Format::PcapMicro)),
        0xa1b2_3c4d => Some((swapped, Format::PcapNano)),
        0xa1b2_cd34 => Some((swapped, Format::PcapModified)),
        _ => None,
    })
}

/// The variant, if the file has this format.
pub(crate) fn recognise(header: &[u8; HEADER_BYTES]) -> Option<Format> {
    variant(header).map(|(_, format)| format)
}

impl Pcap {
    pub(crate) fn new(header: &[u8; HEADER_BYTES], facts: &mut FileFacts) -> Option<Pcap> {
        let (swapped, format) = variant(header)?;
        let network = word(header, 20, swapped);
        // The length of the check sequence is valid only if the file marks it as known; in units of
        // 16 bits.
        let fcs_bytes = if network & 1 << 26 == 0 { 0 } else { (network >> 28) * 2 };
        facts.sections = 1;
        Some(Pcap {
            swapped,
            record_bytes: if format == Format::PcapModified { 24 } else { 16 },
            unit_ns: if format == Format::PcapNano { 1 } else { 1000 },
            link: InterfaceLink::new(network & 0x03ff_ffff, fcs_bytes, facts),
        })
    }

    /// A packet that begins here and is buffered whole, with the number of bytes to its end; `None`
    /// if [`Pcap::next`] must be called.
    #[inline(always)]
    pub(crate) fn buffered<'a>(&self, ready: &'a [u8], head: &mut PacketHeader) -> Option<(&'a [u8], usize)> {
        let header: &[u8; 16] = ready.first_chunk()?;
        let captured = word(header, 8, false) as usize;
        if self.swapped || captured > MAX_BYTES {
            return None;
        }
        let end = self.record_bytes + captured;
        let captured = ready.get(self.record_bytes..end)?;
        let (seconds, fraction) = (word(header, 0, false).into(), word(header, 4, false).into());
        head.set(Some(self.time_ns(seconds, fraction)), word(header, 12, false), &self.link);
        Some((captured, end))
    }

    #[inline(always)]
    fn time_ns(&self, seconds: i64, fraction: i64) -> i64 {
        seconds * 1_000_000_000 + fraction * self.unit_ns
    }

    #[inline(always)]
    pub(crate) fn next<'a, S: Read>(
        &self,
        buffer: &'a mut Buffer<S>,
        head: &mut PacketHeader,
    ) -> io::Result<Step<'a>> {
        if !buffer.has(self.record_bytes)? {
            return Ok(Step::End(ending(buffer)));
        }
        let header = &buffer.ready()[..16];
        let seconds = i64::from(word(header, 0, self.swapped));
        let fraction = i64::from(word(header, 4, self.swapped));
        let captured = word(header, 8, self.swapped) as usize;
        let on_wire = word(header, 12, self.swapped);
        if captured > MAX_BYTES {
            let ending = Ending::Damaged { offset_bytes: buffer.offset(), damage: Damage::TooLong };
            return Ok(Step::End(ending));
        }
        if !buffer.has(self.record_bytes + captured)? {
            return Ok(Step::End(ending(buffer)));
        }
        head.set(Some(self.time_ns(seconds, fraction)), on_wire, &self.link);
        Ok(Step::Packet(&buffer.take(self.record_bytes + captured)[self.record_bytes..]))
    }
}
