//! Packets that a capture contains twice: from a mirror port that copies both directions, from
//! several interfaces of one host (`-i any`), or from inside and outside a tunnel. Only the first
//! copy counts.
//!
//! A super-segment may be captured whole on one interface and in pieces on another. A copy is
//! distinguished from a retransmission by what a sender changes from packet to packet: the
//! identification of IPv4, the timestamp, SACK blocks. If none of these is conclusive, a segment
//! counts as a copy only in a flow whose segments have mostly been captured twice so far.

use std::collections::VecDeque;
use yuzuri_capture::{End, Flags, Segment};

/// The longest time between copies: the delay of a queue between two interfaces.
const APART_NS: i64 = 2_000_000_000;
/// Two copies at the same place are captured within this time.
const AT_ONCE_NS: i64 = 20_000;
/// Segments remembered for each end.
const REMEMBERED: usize = 8192;
/// Repeated segments, hardly any of them a copy, after which the flow counts as not captured twice.
const ENOUGH: u32 = 256;
/// At least one in this many must be a copy for the search to continue.
const HARDLY: u32 = 8;
/// Segments old enough to have had their copy, from which on their share is meaningful.
const SHARE_OF: u32 = 16;

/// The properties that distinguish a segment from others of its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Fingerprint {
    seq: u32,
    ack: u32,
    payload_bytes: u32,
    timestamp: u32,
    first_block: (u32, u32),
    flags: Flags,
    window: u16,
    ip_id: u16,
}

impl Fingerprint {
    fn of(segment: &Segment) -> Fingerprint {
        Fingerprint {
            seq: segment.seq,
            ack: segment.ack,
            payload_bytes: segment.payload_bytes,
            timestamp: segment.options.timestamps.map_or(0, |(value, _)| value),
            first_block: segment.options.sack.first().copied().unwrap_or_default(),
            flags: segment.flags,
            window: segment.window,
            ip_id: segment.ip_id,
        }
    }
}

/// A segment that may have a copy.
#[derive(Clone, Copy, Debug)]
struct CopyCandidate {
    at_ns: i64,
    fingerprint: Fingerprint,
    /// Whether its copy was seen.
    has_copy: bool,
}

impl CopyCandidate {
    fn of(segment: &Segment) -> CopyCandidate {
        CopyCandidate { at_ns: segment.time_ns, fingerprint: Fingerprint::of(segment), has_copy: false }
    }
}

/// What one end sent.
#[derive(Clone, Debug, Default)]
struct SentSegments {
    known: VecDeque<CopyCandidate>,
    /// Index in `known` after the last segment whose copy was seen: the next copy is mostly of the
    /// one there.
    next: usize,
    /// The end of the highest sequence number.
    highest_end: Option<u32>,
    /// The highest acknowledgement; a SYN has none.
    highest_ack: Option<u32>,
    last: Option<CopyCandidate>,
    /// The latest timestamp.
    newest: Option<u32>,
    /// Whether two consecutive segments had different identifications; unknown for a single one.
    numbers: Option<bool>,
}

/// Whether a 32-bit number that may wrap is later than another, if there is one.
fn is_later(new: u32, old: Option<u32>) -> bool {
    old.is_none_or(|old| (new.wrapping_sub(old) as i32) > 0)
}

/// Finds the copies among the segments of a flow.
#[derive(Clone, Debug, Default)]
pub(super) struct CopyDetector {
    by_end: [SentSegments; 2],
    watching: bool,
    gave_up: bool,
    /// Segments without anything new, and copies among them.
    repeated: u32,
    copies: u32,
    /// Segments with something new that were forgotten since, and those of them that had a copy.
    forgotten: (u32, u32),
}

impl CopyDetector {
    /// Whether this segment is a copy of one before.
    #[inline(always)]
    pub(super) fn is_copy(&mut self, segment: &Segment) -> bool {
        let syn_or_fin = u32::from(segment.flags.intersects(Flags::SYN | Flags::FIN));
        let end = segment.seq.wrapping_add(segment.payload_bytes + syn_or_fin);
        let sent = &mut self.by_end[segment.from.index()];
        let (sends_more, acknowledges_more) = (
            is_later(end, sent.highest_end),
            segment.flags.contains(Flags::ACK) && is_later(segment.ack, sent.highest_ack),
        );
        if sends_more {
            sent.highest_end = Some(end);
        }
        if acknowledges_more {
            sent.highest_ack = Some(segment.ack);
        }
        if !sends_more && !acknowledges_more {
            return self.repeats(segment);
        }
        self.note(segment);
        false
    }

    /// Remembers a segment that is not a copy.
    #[inline(always)]
    fn note(&mut self, segment: &Segment) {
        let sent = &mut self.by_end[segment.from.index()];
        if let Some((timestamp, _)) = segment.options.timestamps
            && is_later(timestamp, sent.newest)
        {
            sent.newest = Some(timestamp);
        }
        if let Some(former) = &sent.last {
            let former_id = former.fingerprint.ip_id;
            let own = former_id != 0 && segment.ip_id != former_id;
            sent.numbers = Some(own && segment.ip_id != 0 || sent.numbers == Some(true));
        }
        sent.last = Some(CopyCandidate::of(segment));
        if self.watching {
            self.remember_last(segment.from);
        }
    }

    /// Remembers an end's last segment until it is too old to have a copy.
    #[cold]
    fn remember_last(&mut self, from: End) {
        let sent = &mut self.by_end[from.index()];
        let Some(known) = sent.last else { return };
        while let Some(oldest) = sent.known.front()
            && (known.at_ns - oldest.at_ns > APART_NS || sent.known.len() >= REMEMBERED)
        {
            self.forgotten = (self.forgotten.0 + 1, self.forgotten.1 + u32::from(oldest.has_copy));
            sent.known.pop_front();
            sent.next = sent.next.saturating_sub(1);
        }
        sent.known.push_back(known);
    }

    /// Whether a segment without anything new is a copy.
    #[cold]
    fn repeats(&mut self, segment: &Segment) -> bool {
        if self.gave_up {
            return self.is_copy_of_last(segment);
        }
        if !self.watching {
            self.watching = true;
            for sent in &mut self.by_end {
                sent.known.extend(sent.last);
            }
        }
        self.repeated = self.repeated.saturating_add(1);
        let twice = self.is_twice();
        let sent = &mut self.by_end[segment.from.index()];
        if sent.holds_copy_of(segment, twice) {
            self.copies = self.copies.saturating_add(1);
            return true;
        }
        if self.repeated > ENOUGH && self.copies * HARDLY < self.repeated {
            (self.gave_up, self.watching) = (true, false);
            for sent in &mut self.by_end {
                sent.known = VecDeque::new();
            }
        }
        self.note(segment);
        false
    }

    /// Without further memory: whether it is a copy of the segment just before.
    fn is_copy_of_last(&mut self, segment: &Segment) -> bool {
        let fingerprint = Fingerprint::of(segment);
        let sent = &mut self.by_end[segment.from.index()];
        sent.last.is_some_and(|last| {
            segment.time_ns.wrapping_sub(last.at_ns).unsigned_abs() < AT_ONCE_NS as u64
                && last.fingerprint == fingerprint
                && fingerprint.payload_bytes > 0
        })
    }

    /// Whether most segments have been captured twice so far.
    fn is_twice(&self) -> bool {
        // Only segments up to the last one whose copy was seen count: later ones may still get
        // theirs.
        let (all, with) = self.forgotten;
        if all >= SHARE_OF {
            return 2 * with > all;
        }
        let known = || self.by_end.iter().flat_map(|sent| sent.known.iter().take(sent.next));
        let (all, with) = (known().count(), known().filter(|known| known.has_copy).count());
        all >= SHARE_OF as usize && 2 * with > all
    }
}

impl SentSegments {
    /// Whether the packet was captured before: whole, as a piece of a super-segment (TSO, GRO) or
    /// in pieces.
    fn holds_copy_of(&mut self, segment: &Segment, twice: bool) -> bool {
        let fingerprint = Fingerprint::of(segment);
        if segment.options.timestamps.is_some() && is_later(fingerprint.timestamp, self.newest) {
            // Copies carry the same timestamp, so no earlier segment is the original.
            return false;
        }
        let end = segment.seq.wrapping_add(segment.payload_bytes);
        let mut from = segment.seq;
        let mut place = self.next;
        loop {
            let Some((found, until)) = self.find(place, from, segment, &fingerprint, twice) else {
                return false;
            };
            self.known[found].has_copy = true;
            let left = end.wrapping_sub(until) as i32;
            // The next piece may belong to the same super-segment.
            self.next = if left < 0 { found } else { found + 1 };
            if left <= 0 {
                return true;
            }
            (from, place) = (until, found + 1);
        }
    }

    /// The index of a known segment captured from the same packet as the rest of `segment` from
    /// `from` on, and up to where they agree. Copies arrive in the order of their originals.
    fn find(
        &self,
        next: usize,
        from: u32,
        segment: &Segment,
        fingerprint: &Fingerprint,
        twice: bool,
    ) -> Option<(usize, u32)> {
        let next = next.min(self.known.len());
        let data = segment.payload_bytes > 0;
        // Only such a segment can be the original, and hardly any is: check this first.
        let covers = |known: &CopyCandidate| {
            if data {
                from.wrapping_sub(known.fingerprint.seq) < known.fingerprint.payload_bytes
            } else {
                (known.fingerprint.seq, known.fingerprint.ack) == (segment.seq, segment.ack)
            }
        };
        let twin = data || fingerprint.flags.contains(Flags::SYN);
        let is_copy = |known: &CopyCandidate| {
            let apart_ns = segment.time_ns.wrapping_sub(known.at_ns);
            let at_once = apart_ns < AT_ONCE_NS && twin;
            let same = (0..=APART_NS).contains(&apart_ns)
                && known.is_same(from, segment, fingerprint, self.numbers != Some(false));
            let like = || known.fingerprint == *fingerprint && !known.has_copy && (twice || at_once);
            same || apart_ns <= APART_NS && like()
        };
        let later = self.known.range(next..).enumerate().map(|(place, known)| (next + place, known));
        let earlier = self.known.range(..next).enumerate().rev();
        let (place, known) = later.chain(earlier).find(|(_, known)| covers(known) && is_copy(known))?;
        Some((place, known.fingerprint.seq.wrapping_add(known.fingerprint.payload_bytes)))
    }
}

impl CopyCandidate {
    /// Whether the rest of a segment from `from` on must come from the same packet, since a
    /// retransmission would differ: it carries its own time and its own identification.
    fn is_same(&self, from: u32, segment: &Segment, fingerprint: &Fingerprint, numbers: bool) -> bool {
        let numbered = numbers && segment.ip_id != 0;
        let timed = segment.options.timestamps.is_some();
        if segment.payload_bytes == 0 {
            let syn = segment.flags.contains(Flags::SYN);
            // Acknowledgements within one tick may be equal except for their selective
            // acknowledgements.
            return self.fingerprint == *fingerprint
                && (numbered || timed && (syn || !segment.options.sack.is_empty()));
        }
        let offset = from.wrapping_sub(self.fingerprint.seq);
        if offset >= self.fingerprint.payload_bytes {
            return false;
        }
        if timed {
            return self.fingerprint.timestamp == fingerprint.timestamp;
        }
        // A split packet is numbered from piece to piece, and a merged one has the number of its
        // first piece.
        let before = from.wrapping_sub(segment.seq);
        let (number, most) = if before == 0 {
            (segment.ip_id.wrapping_sub(self.fingerprint.ip_id), offset.div_ceil(segment.payload_bytes))
        } else {
            (
                self.fingerprint.ip_id.wrapping_sub(segment.ip_id),
                before.div_ceil(self.fingerprint.payload_bytes),
            )
        };
        numbered && u32::from(number) <= most
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use yuzuri_capture::{Checksum, Ecn, FlowSlot, TcpOptions};

    const US: i64 = 1000;
    const MS: i64 = 1_000_000;

    /// Data if it has bytes; `tick` is the timestamp, none where 0.
    fn segment(at_ns: i64, seq: u32, payload_bytes: u32, ack: u32, (ip_id, tick): (u16, u32)) -> Segment {
        let timestamps = (tick > 0).then_some((tick, 1));
        Segment {
            time_ns: at_ns,
            flow: FlowSlot(0),
            seq,
            ack,
            payload_bytes,
            wire_bytes: payload_bytes + 52,
            window: 500,
            ip_id,
            flags: Flags::ACK,
            options: TcpOptions { timestamps, ..TcpOptions::default() },
            from: End::Lower,
            ecn: Ecn::NotEct,
            checksum: Checksum::Unknown,
            first: false,
            fragment: false,
        }
    }

    fn copies(segments: &[Segment]) -> Vec<bool> {
        let mut copies = CopyDetector::default();
        segments.iter().map(|segment| copies.is_copy(segment)).collect()
    }

    #[test]
    fn a_segment_captured_on_two_interfaces_is_a_copy() {
        // Each segment again 30 ms later, while others come.
        let mut segments: Vec<Segment> = (0..200_i64)
            .flat_map(|n| {
                let one = segment(n * MS, n as u32 * 1000, 1000, 1, (n as u16 + 7, 0));
                [one, Segment { time_ns: n * MS + 30 * MS + US, ..one }]
            })
            .collect();
        segments.sort_by_key(|segment| segment.time_ns);
        let found = copies(&segments);
        // Of the segments before the first repetition, only the last one is still remembered.
        assert!(found.iter().filter(|copy| **copy).count() >= 200 - 31, "{found:?}");
        assert!(!found[..31].contains(&true));
    }

    #[test]
    fn pieces_of_a_super_segment_are_copies_and_so_is_what_was_put_together() {
        for tick in [0, 5] {
            let whole = segment(0, 0, 3000, 1, (10, tick));
            let pieces = [0, 1, 2].map(|n| segment(10 * US, n * 1000, 1000, 1, (10 + n as u16, tick)));
            let next = segment(MS, 3000, 3000, 1, (13, tick + tick / 5));
            let again =
                [0, 1, 2].map(|n| segment(MS, 3000 + n * 1000, 1000, 1, (13 + n as u16, tick + tick / 5)));
            let all = [&[segment(-MS, 0, 0, 1, (9, tick)), whole][..], &pieces, &[next], &again].concat();
            assert_eq!(copies(&all), [false, false, true, true, true, false, true, true, true], "{tick}");
            let all = [&[segment(-MS, 0, 0, 1, (9, tick))][..], &pieces, &[whole], &again, &[next]].concat();
            // Nothing had been captured twice before: of the first segments only the last one is
            // remembered.
            assert_eq!(copies(&all)[5..], [false, false, false, true], "{tick}");
        }
    }

    #[test]
    fn acknowledgements_after_a_syn_are_new_wherever_they_begin() {
        for first in [1, 1 << 31, u32::MAX - 500] {
            let mut copies = CopyDetector::default();
            let syn = Segment { flags: Flags::SYN, ..segment(0, 0, 0, 0, (1, 1)) };
            assert!(!copies.is_copy(&syn));
            for n in 0..9 {
                let ack = first.wrapping_add(1000 * n);
                assert!(!copies.is_copy(&segment(MS * i64::from(n + 1), 1, 0, ack, (1, n + 2))));
            }
            assert_eq!(copies.repeated, 0, "{first}");
        }
    }

    #[test]
    fn a_segment_sent_again_is_no_copy() {
        for (numbers, ticks) in [((5, 9), (0, 0)), ((0, 0), (5, 9)), ((7, 7), (5, 9)), ((0, 0), (0, 0))] {
            let first = segment(0, 0, 1000, 1, (numbers.0, ticks.0));
            let more = segment(MS, 1000, 1000, 1, (numbers.0 + numbers.0.min(1), ticks.0));
            let again = segment(80 * MS, 0, 1000, 1, (numbers.1, ticks.1));
            assert_eq!(copies(&[first, more, again]), [false; 3], "{numbers:?} {ticks:?}");
        }
    }

    #[test]
    fn duplicate_acknowledgements_without_a_mark_of_their_own_count_unless_all_is_captured_twice() {
        let ack = |n: i64| segment(n * 10 * US, 1, 0, 5000, (0, 0));
        assert_eq!(copies(&[0, 1, 2, 3].map(ack)), [false; 4]);
        // Forty segments, each twice, then three acknowledgements, each twice.
        let data = (0..40_i64).flat_map(|n| {
            let one = segment(n * MS, 1 + n as u32 * 100, 100, 1, (0, 0));
            [one, Segment { time_ns: n * MS + 5 * US, ..one }]
        });
        let acks = (0..3_i64).flat_map(|n| {
            let one = segment(50 * MS + n * MS, 4001, 0, 2, (0, 0));
            [one, Segment { time_ns: one.time_ns + 5 * US, ..one }]
        });
        let found = copies(&data.chain(acks).collect::<Vec<_>>());
        assert_eq!(found.iter().filter(|copy| **copy).count(), 43, "{found:?}");
        assert_eq!(found[80..], [false, true, false, true, false, true]);
    }

    #[test]
    fn a_flow_of_only_retransmissions_is_no_longer_followed() {
        let mut copies = CopyDetector::default();
        for n in 0..1000 {
            assert!(!copies.is_copy(&segment(n * MS, 1, 0, 5000, (n as u16 + 1, 0))));
        }
        assert!(copies.gave_up && copies.by_end.iter().all(|sent| sent.known.capacity() == 0));
    }
}
