//! The format of Solaris' snoop: a header, then packets, all big endian. RFC 1761.

use super::{InterfaceLink, PacketHeader, Step, ending, word};
use crate::buffer::{Buffer, MAX_BYTES};
use crate::facts::{Damage, Ending, FileFacts};
use std::io::{self, Read};

/// Identification pattern, version, type of the link.
pub(crate) const HEADER_BYTES: usize = 16;
const RECORD_BYTES: usize = 24;
const MAGIC: &[u8] = b"snoop\0\0\0";

/// Added to RFC 1761's link types that have no `LINKTYPE_` number at tcpdump.org.
const NO_COUNTERPART: u32 = 0xffff_0000;

pub(crate) struct Snoop {
    link: InterfaceLink,
    /// Packets that the capturing machine had dropped before the latest one: a cumulative count.
    drops: u32,
}

/// Whether a file begins as version 2, the only version there is.
pub(crate) fn recognise(beginning: &[u8]) -> bool {
    beginning.len() >= HEADER_BYTES && beginning.starts_with(MAGIC) && word(beginning, 8, true) == 2
}

impl Snoop {
    pub(crate) fn new(header: &[u8], facts: &mut FileFacts) -> Snoop {
        let link_type = match word(header, 12, true) {
            // IEEE 802.3 and Ethernet: LINKTYPE_ETHERNET.
            0 | 4 => 1,
            other => NO_COUNTERPART | other & 0xffff,
        };
        facts.sections = 1;
        Snoop { link: InterfaceLink::new(link_type, 0, facts), drops: 0 }
    }

    pub(crate) fn next<'a, S: Read>(
        &mut self,
        buffer: &'a mut Buffer<S>,
        facts: &mut FileFacts,
        head: &mut PacketHeader,
    ) -> io::Result<Step<'a>> {
        if !buffer.has(RECORD_BYTES)? {
            return Ok(Step::End(ending(buffer)));
        }
        let [on_wire, captured, record, drops, seconds, micros] =
            [0, 4, 8, 12, 16, 20].map(|at| word(buffer.ready(), at, true));
        let damage = match (captured as usize, record as usize) {
            (_, record) if record > MAX_BYTES => Some(Damage::TooLong),
            (captured, record) if record < RECORD_BYTES || captured > record - RECORD_BYTES => {
                Some(Damage::TooShort)
            }
            _ => None,
        };
        if let Some(damage) = damage {
            return Ok(Step::End(Ending::Damaged { offset_bytes: buffer.offset(), damage }));
        }
        // The padding of the last packet may be missing.
        if !buffer.has(record as usize)? && !buffer.has(RECORD_BYTES + captured as usize)? {
            return Ok(Step::End(ending(buffer)));
        }
        let more = u64::from(drops.saturating_sub(self.drops));
        if more > 0 {
            facts.capture_drops = Some(facts.capture_drops.unwrap_or(0) + more);
            self.drops = drops;
        }
        let time_ns = i64::from(seconds) * 1_000_000_000 + i64::from(micros) * 1000;
        head.set(Some(time_ns), on_wire, &self.link);
        let there = buffer.ready().len().min(record as usize);
        Ok(Step::Packet(&buffer.take(there)[RECORD_BYTES..][..captured as usize]))
    }
}
