//! Endace's Extensible Record Format: records without a file header. "Extensible Record Format
//! (ERF)", Endace EDM11-01; Wireshark's `wiretap/erf.c`.

use super::{InterfaceLink, PacketHeader, Step, ending};
use crate::buffer::Buffer;
use crate::facts::{Damage, Ending, FileFacts};
use crate::link::LINK_ERF;
use std::io::{self, Read};

/// Timestamp, type, flags, length of the record, losses or colour, length on the wire.
pub(crate) const RECORD_BYTES: usize = 16;
/// The earliest plausible time: seconds since 1970 at the beginning of 1990.
const MIN_SECONDS: u32 = 631_152_000;
/// Consecutive valid records required before bytes without a magic number count as ERF; fewer if
/// the file has no more.
const AGREEING: usize = 3;
/// The longest plausible time between two records of a file: a week.
const MAX_GAP_SECONDS: u32 = 7 * 24 * 3600;
/// The highest type that Endace has assigned (`ERF_TYPE_MAX`), and the type for padding.
const MAX_TYPE: u8 = 48;
const ETHERNET: [u8; 4] = [2, 11, 16, 20];
/// Bytes of the frame check sequence, which Ethernet's length on the wire includes.
const ETHERNET_FCS_BYTES: usize = 4;

pub(crate) struct Erf {
    link: InterfaceLink,
}

/// The fixed part of a record.
#[derive(Clone, Copy)]
struct Record {
    seconds: u32,
    fraction: u32,
    kind: u8,
    bytes: usize,
    /// Packets lost before this one; only valid for types without a colour.
    lost: u16,
    on_wire: usize,
}

impl Record {
    fn of(bytes: &[u8]) -> Option<Record> {
        let fixed: &[u8; RECORD_BYTES] = bytes.first_chunk()?;
        let little = |at: usize| u32::from_le_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]]);
        let short = |at: usize| u16::from_be_bytes([fixed[at], fixed[at + 1]]);
        Some(Record {
            seconds: little(4),
            fraction: little(0),
            kind: fixed[8],
            bytes: usize::from(short(10)),
            lost: short(12),
            on_wire: usize::from(short(14)),
        })
    }

    fn is_sound(&self) -> bool {
        let kind = self.kind & 0x7f;
        self.seconds >= MIN_SECONDS && (1..=MAX_TYPE).contains(&kind) && self.bytes >= RECORD_BYTES
    }
}

/// Whether a file begins with a chain of records whose lengths lead from one to the next, close in
/// time.
pub(crate) fn recognise<S: Read>(buffer: &mut Buffer<S>) -> io::Result<bool> {
    let (mut at, mut former): (usize, Option<Record>) = (0, None);
    for number in 0..AGREEING {
        if !buffer.has(at + RECORD_BYTES)? {
            // One whole record suffices if nothing follows it, or two of which the second may be
            // truncated.
            return Ok(number > 1 || number == 1 && buffer.ready().len() == at);
        }
        let Some(record) = Record::of(&buffer.ready()[at..]) else { return Ok(false) };
        let near = former.is_none_or(|former| former.seconds.abs_diff(record.seconds) <= MAX_GAP_SECONDS);
        if !record.is_sound() || !near {
            return Ok(false);
        }
        at += record.bytes;
        former = Some(record);
    }
    Ok(true)
}

impl Erf {
    pub(crate) fn new(facts: &mut FileFacts) -> Erf {
        facts.sections = 1;
        Erf { link: InterfaceLink::new(LINK_ERF, 0, facts) }
    }

    pub(crate) fn next<'a, S: Read>(
        &self,
        buffer: &'a mut Buffer<S>,
        facts: &mut FileFacts,
        head: &mut PacketHeader,
    ) -> io::Result<Step<'a>> {
        if !buffer.has(RECORD_BYTES)? {
            return Ok(Step::End(ending(buffer)));
        }
        let Some(record) = Record::of(buffer.ready()).filter(Record::is_sound) else {
            let ending = Ending::Damaged { offset_bytes: buffer.offset(), damage: Damage::TooShort };
            return Ok(Step::End(ending));
        };
        if !buffer.has(record.bytes)? {
            return Ok(Step::End(ending(buffer)));
        }
        let bytes = buffer.take(record.bytes);
        // Units of 2^-32 s.
        let fraction_ns = ((u64::from(record.fraction) * 1_000_000_000) >> 32) as i64;
        let time_ns = i64::from(record.seconds) * 1_000_000_000 + fraction_ns;
        let kind = record.kind & 0x7f;
        if matches!(kind, 1..=5) && record.lost > 0 {
            facts.capture_drops = Some(facts.capture_drops.unwrap_or(0) + u64::from(record.lost));
        }
        // Records are padded to a multiple of 8 bytes; the padding is not part of the packet.
        let before = header_bytes(bytes).unwrap_or(record.bytes);
        let fcs_bytes = if ETHERNET.contains(&kind) { ETHERNET_FCS_BYTES } else { 0 };
        let on_wire = before + record.on_wire.saturating_sub(fcs_bytes);
        head.set(Some(time_ns), on_wire as u32, &self.link);
        Ok(Step::Packet(&bytes[..record.bytes.min(on_wire)]))
    }
}

/// Bytes of a record before the frame: the fixed part, extension headers, and the bytes that
/// Ethernet types have before the frame; `None` if the record is truncated.
pub(crate) fn header_bytes(record: &[u8]) -> Option<usize> {
    let kind = *record.get(8)?;
    let mut at = RECORD_BYTES;
    let mut more = kind & 0x80 != 0;
    while more {
        more = record.get(at)? & 0x80 != 0;
        at += 8;
    }
    let pad = if ETHERNET.contains(&(kind & 0x7f)) { 2 } else { 0 };
    Some(at + pad)
}

/// The type of a record's content, without the bit for extension headers; `None` if the record is
/// truncated.
pub(crate) fn kind(record: &[u8]) -> Option<u8> {
    Some(record.get(8)? & 0x7f)
}

/// Whether records of this type hold Ethernet frames.
pub(crate) fn is_ethernet(kind: u8) -> bool {
    ETHERNET.contains(&kind)
}
