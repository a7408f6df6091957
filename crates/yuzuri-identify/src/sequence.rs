//! The segments of a direction of a flow, for time-sequence graphs.

use yuzuri_capture::{End, Flags, Segment};

/// Maximum number of marks of all flows of a part together, and of one direction; each takes 32
/// bytes.
pub(crate) const MAX_MARKS: usize = 2_000_000;
const MAX_OF_ONE: usize = 400_000;

/// The kind of a mark. Positions are bytes since the first one seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkKind {
    /// Data was sent: from and to.
    Sent(u64, u64),
    /// The same, and some of it had been sent before.
    Again(u64, u64),
    /// Everything up to the first position is acknowledged; the receiver's window ends at the
    /// second one, if its scale is known.
    Acknowledged(u64, Option<u64>),
    /// Selectively acknowledged: from and to.
    Selective(u64, u64),
}

/// A mark: an event with its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// Nanoseconds since 1970.
    pub time_ns: i64,
    /// Its kind.
    pub what: MarkKind,
}

/// The marks of a direction of a flow, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sequence {
    /// The marks.
    pub marks: Vec<Mark>,
    /// Whether marks were omitted.
    pub is_cut: bool,
}

/// Follows a direction of a flow.
#[derive(Debug, Clone, Default)]
struct Follower {
    sequence: Sequence,
    /// The sequence number at the highest position sent, and that position. Positions begin high
    /// enough for late segments.
    highest: Option<(u32, u64)>,
    /// The scale of the receiver's window.
    scale: Option<u8>,
    /// The receiver's last acknowledgement, and the right edge of its window.
    last: Option<(u64, Option<u64>)>,
}

/// The position of the first byte until the end, so that earlier bytes have a position, too.
const ORIGIN: u64 = 1 << 32;

impl Follower {
    fn place(&self, number: u32) -> Option<u64> {
        let (base, place) = self.highest?;
        Some(place.wrapping_add_signed(i64::from(number.wrapping_sub(base) as i32)))
    }

    /// Adds a mark if there is room.
    fn keep(&mut self, time_ns: i64, what: MarkKind, room: &mut usize) {
        if *room == 0 || self.sequence.marks.len() >= MAX_OF_ONE {
            self.sequence.is_cut = true;
            return;
        }
        *room -= 1;
        self.sequence.marks.push(Mark { time_ns, what });
    }

    /// A segment of the flow passed; `from_sender`: from the direction's sender. `room`: the number
    /// of marks that may be added.
    fn add(&mut self, segment: &Segment, from_sender: bool, room: &mut usize) {
        if from_sender {
            self.sent(segment, room);
        } else {
            self.answered(segment, room);
        }
    }

    fn sent(&mut self, segment: &Segment, room: &mut usize) {
        let syn = segment.flags.contains(Flags::SYN);
        let first = segment.seq.wrapping_add(u32::from(syn));
        if segment.payload_bytes == 0 {
            if syn {
                self.highest.get_or_insert((first, ORIGIN));
            }
            return;
        }
        self.highest.get_or_insert((first, ORIGIN));
        let Some(from) = self.place(first) else { return };
        let to = from.saturating_add(segment.payload_bytes.into());
        let highest = self.highest.map_or(ORIGIN, |(_, place)| place);
        let again = from < highest;
        if to > highest {
            self.highest = Some((first.wrapping_add(segment.payload_bytes), to));
        }
        let what = if again { MarkKind::Again(from, to) } else { MarkKind::Sent(from, to) };
        self.keep(segment.time_ns, what, room);
    }

    fn answered(&mut self, segment: &Segment, room: &mut usize) {
        let syn = segment.flags.contains(Flags::SYN);
        if syn {
            self.scale = segment.options.window_scale.map(|scale| scale.min(14)).or(Some(0));
        }
        if !segment.flags.contains(Flags::ACK) {
            return;
        }
        let Some(ack) = self.place(segment.ack) else { return };
        let scale = if syn { Some(0) } else { self.scale };
        let end = scale.map(|scale| ack + (u64::from(segment.window) << scale));
        if self.last != Some((ack, end)) {
            self.last = Some((ack, end));
            self.keep(segment.time_ns, MarkKind::Acknowledged(ack, end), room);
        }
        for (left, right) in segment.options.sack.iter() {
            if let (Some(from), Some(to)) = (self.place(*left), self.place(*right))
                && from < to
            {
                self.keep(segment.time_ns, MarkKind::Selective(from, to), room);
            }
        }
    }

    /// The marks, with positions from the first byte that passed.
    fn finish(self) -> Sequence {
        let mut sequence = self.sequence;
        let least = sequence.marks.iter().filter_map(|mark| match mark.what {
            MarkKind::Sent(from, _) | MarkKind::Again(from, _) => Some(from),
            MarkKind::Acknowledged(..) | MarkKind::Selective(..) => None,
        });
        let first = least.min().unwrap_or(ORIGIN).min(ORIGIN);
        let from_first = |place: u64| place.saturating_sub(first);
        for mark in &mut sequence.marks {
            mark.what = match mark.what {
                MarkKind::Sent(from, to) => MarkKind::Sent(from_first(from), from_first(to)),
                MarkKind::Again(from, to) => MarkKind::Again(from_first(from), from_first(to)),
                MarkKind::Acknowledged(ack, end) => {
                    MarkKind::Acknowledged(from_first(ack), end.map(from_first))
                }
                MarkKind::Selective(from, to) => MarkKind::Selective(from_first(from), from_first(to)),
            };
        }
        sequence
    }
}

/// Both directions of a flow, by sender.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sequences([Follower; 2]);

impl Sequences {
    /// A segment passed.
    pub(crate) fn add(&mut self, segment: &Segment, room: &mut usize) {
        for end in [End::Lower, End::Higher] {
            self.0[end.index()].add(segment, segment.from == end, room);
        }
    }

    /// The marks of the direction whose sender is that end.
    pub(crate) fn take(&mut self, end: End) -> Sequence {
        std::mem::take(&mut self.0[end.index()]).finish()
    }

    /// The number of marks held.
    pub(crate) fn held(&self) -> usize {
        self.0.iter().map(|follower| follower.sequence.marks.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use yuzuri_capture::{Checksum, Ecn, FlowSlot, TcpOptions};

    fn segment(ms: i64, from: End, seq: u32, ack: u32, payload_bytes: u32) -> Segment {
        Segment {
            time_ns: ms * 1_000_000,
            flow: FlowSlot(0),
            seq,
            ack,
            payload_bytes,
            wire_bytes: payload_bytes + 52,
            window: 100,
            ip_id: 0,
            flags: Flags::ACK,
            options: TcpOptions::default(),
            from,
            ecn: Ecn::NotEct,
            checksum: Checksum::Valid,
            first: false,
            fragment: false,
        }
    }

    fn marks_of(segments: &[Segment]) -> Vec<MarkKind> {
        let (mut both, mut room) = (Sequences::default(), 100);
        segments.iter().for_each(|segment| both.add(segment, &mut room));
        both.take(End::Lower).marks.iter().map(|mark| mark.what).collect()
    }

    /// Sequence numbers that wrap, a hole that is filled, and a window with a scale.
    #[test]
    fn offsets_count_from_the_first_byte() {
        let base = u32::MAX - 1500;
        let mut syn = segment(0, End::Lower, base.wrapping_sub(1), 0, 0);
        syn.flags = Flags::SYN;
        let mut answer = segment(1, End::Higher, 7, base, 0);
        answer.flags = Flags::SYN | Flags::ACK;
        answer.options.window_scale = Some(3);
        let mut selective = segment(5, End::Higher, 8, base.wrapping_add(1000), 0);
        selective.options.sack.push(base.wrapping_add(2000), base.wrapping_add(3000));
        let all = [
            syn,
            answer,
            segment(2, End::Lower, base, 8, 1000),
            segment(3, End::Lower, base.wrapping_add(1000), 8, 1000),
            segment(3, End::Lower, base.wrapping_add(2000), 8, 1000),
            selective,
            selective,
            segment(6, End::Lower, base.wrapping_add(1000), 8, 1000),
            segment(8, End::Higher, 8, base.wrapping_add(3000), 0),
        ];
        let expected = [
            MarkKind::Acknowledged(0, Some(100)),
            MarkKind::Sent(0, 1000),
            MarkKind::Sent(1000, 2000),
            MarkKind::Sent(2000, 3000),
            MarkKind::Acknowledged(1000, Some(1800)),
            MarkKind::Selective(2000, 3000),
            MarkKind::Selective(2000, 3000),
            MarkKind::Again(1000, 2000),
            MarkKind::Acknowledged(3000, Some(3800)),
        ];
        assert_eq!(marks_of(&all), expected);
        // Observed from the middle, the scale is unknown.
        assert_eq!(marks_of(&all[2..])[3], MarkKind::Acknowledged(1000, None));
    }

    #[test]
    fn flows_beyond_the_limit_are_reported_missing() {
        let (mut both, mut room) = (Sequences::default(), 2);
        for n in 0..3 {
            both.add(&segment(n.into(), End::Lower, n * 1000, 0, 1000), &mut room);
        }
        assert_eq!((both.held(), room), (2, 0));
        let sequence = both.take(End::Lower);
        assert!(sequence.is_cut && sequence.marks.len() == 2);
    }
}
