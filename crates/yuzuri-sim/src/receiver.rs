//! The receiving half of a connection: reassembly, SACK blocks and the timing of acknowledgements as Linux does it.
//!
//! `tcp_input.c`: quick acknowledgements at the start (`tcp_incr_quickack`), then one per two full segments or after 40 ms
//! (`__tcp_ack_snd_check`, `tcp_send_delayed_ack`); at once for duplicates and for segments out of order, the latter compressed after the third
//! (`tcp_compressed_ack`, since 4.18). Left out: GRO and acknowledgements that the reading
//! application causes.

use crate::receive_window::ReceiveWindow;
use crate::segment::{Block, Kind, MSS_BYTES, SACK_BLOCKS, Segment};
use crate::units::{MICROSECOND, MILLISECOND, after, nanos_between};
use yuzuri_netmodel::Time;

/// Least time a delayed acknowledgement waits, ns (`TCP_DELACK_MIN`).
const DELAYED_ACK: u64 = 40 * MILLISECOND;
/// Acknowledgements sent at once at the start and after a pause or a duplicate (`TCP_MAX_QUICKACKS`).
const QUICK_ACKS: u32 = 16;
/// Duplicates acknowledged at once before compression begins (`TCP_FASTRETRANS_THRESH`).
const DUPLICATES_AT_ONCE: u32 = 3;
/// Most acknowledgements merged into one (`tcp_comp_sack_nr`).
const MAX_COMPRESSED_ACKS: u32 = 44;
/// SACK blocks that a compressed acknowledgement may wait with (`TCP_SACK_BLOCKS_EXPECTED`): it leaves before a further one could push one out.
const BLOCKS_EXPECTED: usize = 2;
/// Blocks that are remembered (`TCP_NUM_SACKS`); older ones come again only when they change.
const BLOCKS_REMEMBERED: usize = 4;

/// How a receiver acknowledges.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReceiverConfig {
    /// Full segments per acknowledgement; 2 for Linux, 1 for none delayed.
    pub segments_per_ack: u32,
    /// Quick acknowledgements and compression of SACKs as Linux does it; without, plain RFC 5681.
    pub linux: bool,
    /// The buffer begins at Linux's 128 KiB and grows with what is read; the window offered is part of it, and each segment that makes it grow
    /// is acknowledged at once. Without, the default, there is always room.
    pub growing_buffer: bool,
}

impl Default for ReceiverConfig {
    fn default() -> ReceiverConfig {
        ReceiverConfig { segments_per_ack: 2, linux: true, growing_buffer: false }
    }
}

/// The receiving half of a connection. Every call may leave an acknowledgement to be taken with
/// [`poll_transmit`](Receiver::poll_transmit).
#[derive(Clone, Debug)]
pub struct Receiver {
    connection: u32,
    config: ReceiverConfig,
    /// The segment expected next (RCV.NXT).
    next: u32,
    /// What arrived beyond, in order and not touching each other.
    beyond: Vec<Block>,
    /// The blocks to report, the most recently changed first.
    recent: Vec<Block>,
    dsack: Option<u32>,
    received_bytes: u64,
    duplicates: u64,
    unacked: u32,
    quick: u32,
    /// Timestamp to echo: of the first segment not acknowledged (RFC 7323, section 4.3).
    echo: Time,
    /// Newest timestamp of the other side, for the round-trip time seen from here, ns (`tcp_rcv_rtt_measure_ts`).
    rtt: u64,
    /// The first of them, that of the handshake, ns.
    first_rtt: Option<u64>,
    last_arrival: Option<Time>,
    duplicates_at: (u32, u32),
    compressed: u32,
    delayed_until: Option<Time>,
    compressed_until: Option<Time>,
    pending: Option<Kind>,
    window: Option<ReceiveWindow>,
    /// Marks are echoed: the last segment that could be marked was.
    marked: bool,
    /// A compressed acknowledgement that leaves before the segment that just arrived is in it.
    early: Option<Segment>,
}

impl Receiver {
    /// A receiver of the half-connection `connection`.
    pub fn new(connection: u32, config: ReceiverConfig) -> Receiver {
        Receiver {
            connection,
            config,
            next: 0,
            beyond: Vec::new(),
            recent: Vec::new(),
            dsack: None,
            received_bytes: 0,
            duplicates: 0,
            unacked: 0,
            quick: 0,
            echo: Time::ZERO,
            rtt: 0,
            first_rtt: None,
            last_arrival: None,
            duplicates_at: (0, 0),
            compressed: 0,
            delayed_until: None,
            compressed_until: None,
            pending: None,
            window: config.growing_buffer.then(ReceiveWindow::new),
            marked: false,
            early: None,
        }
    }

    /// The segment expected next: all before it have been handed to the application.
    pub fn next_expected(&self) -> u32 {
        self.next
    }

    /// Payload that arrived, each byte counted once.
    pub fn received_bytes(&self) -> u64 {
        self.received_bytes
    }

    /// Segments that arrived again.
    pub fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// A [`Kind::Syn`] or [`Kind::Data`] segment arrives.
    pub fn on_segment(&mut self, now: Time, segment: &Segment) {
        if segment.kind == Kind::Syn {
            self.echo = segment.sent_at;
            self.pending = Some(Kind::SynAck);
            return;
        }
        self.note_arrival(now, segment);
        let turned = segment.ect && segment.ce != self.marked;
        if turned {
            self.turn(now);
        }
        if self.unacked == 0 {
            self.echo = segment.sent_at;
        }
        self.take(now, segment);
        if turned {
            self.acknowledge();
        }
    }

    /// Marks begin or end (RFC 8257, section 3.2; `dctcp_ece_ack_update`): what was delayed is acknowledged as it came.
    fn turn(&mut self, now: Time) {
        if self.delayed_until.is_some() {
            self.early = Some(self.answer(now, Kind::Ack));
        }
        self.marked = !self.marked;
    }

    fn take(&mut self, now: Time, segment: &Segment) {
        if segment.number < self.next || self.is_beyond(segment.number) {
            self.duplicates += 1;
            self.dsack = Some(segment.number);
            self.quick = self.quick.max(if self.config.linux { QUICK_ACKS } else { 0 });
            self.acknowledge();
            return;
        }
        self.received_bytes += u64::from(segment.payload_bytes);
        let waiting = self.waiting();
        if let Some(window) = &mut self.window {
            if segment.payload_bytes == MSS_BYTES {
                window.sample(now, segment.echo);
            }
            if window.grow(waiting) {
                self.quick |= 1;
            }
        }
        if segment.number == self.next {
            self.unacked += 1;
            self.in_order(now);
            let read_bytes = u64::from(self.next) * u64::from(MSS_BYTES);
            if let Some(window) = &mut self.window {
                window.read(now, read_bytes);
            }
        } else {
            self.echo = if self.unacked == 0 { self.echo } else { segment.sent_at.min(self.echo) };
            self.insert(now, segment.number);
            self.with_hole(now);
        }
    }

    /// When [`on_timer`](Receiver::on_timer) wants to be called.
    pub fn next_timer(&self) -> Option<Time> {
        match (self.delayed_until, self.compressed_until) {
            (Some(delayed), Some(compressed)) => Some(delayed.min(compressed)),
            (delayed, compressed) => delayed.or(compressed),
        }
    }

    /// A timer has run out.
    pub fn on_timer(&mut self, now: Time) {
        if self.next_timer().is_some_and(|at| at <= now) {
            self.acknowledge();
        }
    }

    /// The next acknowledgement that is due, if any.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Segment> {
        if let Some(early) = self.early.take() {
            return Some(early);
        }
        let kind = self.pending.take()?;
        Some(self.answer(now, kind))
    }

    fn answer(&mut self, now: Time, kind: Kind) -> Segment {
        let mut ack = Segment::new(self.connection, kind, self.next, now, self.echo);
        if let Some(window) = &self.window {
            ack.window = window.segments(self.waiting());
        }
        if kind == Kind::Ack {
            ack.ece = self.marked;
            ack.dsack = self.dsack.take();
            let room = SACK_BLOCKS - usize::from(ack.dsack.is_some());
            for (slot, block) in ack.sack.iter_mut().zip(self.recent.iter().take(room)) {
                *slot = *block;
                ack.blocks += 1;
            }
            self.unacked = 0;
            self.compressed = 0;
            self.delayed_until = None;
            self.compressed_until = None;
        }
        ack
    }

    fn note_arrival(&mut self, now: Time, segment: &Segment) {
        if segment.echo > Time::ZERO && segment.payload_bytes == MSS_BYTES {
            let sample = nanos_between(now, segment.echo);
            self.first_rtt.get_or_insert(sample);
            self.rtt = if self.rtt == 0 { sample } else { self.rtt - self.rtt / 8 + sample / 8 };
        }
        // tcp_event_data_recv: the first data, and data after a pause longer than the timeout, are acknowledged quickly.
        let pause = 200 * MILLISECOND + self.rtt;
        if self.config.linux && self.last_arrival.is_none_or(|before| nanos_between(now, before) > pause) {
            self.quick = QUICK_ACKS;
        }
        self.last_arrival = Some(now);
    }

    fn in_order(&mut self, now: Time) {
        self.next += 1;
        if self.beyond.is_empty() {
            if self.unacked >= self.config.segments_per_ack || self.quick > 0 {
                self.quick = self.quick.saturating_sub(1);
                self.acknowledge();
            } else {
                self.delayed_until.get_or_insert(after(now, DELAYED_ACK));
            }
            return;
        }
        if self.beyond[0].start == self.next {
            self.next = self.beyond.remove(0).end;
        }
        let next = self.next;
        self.recent.retain(|block| block.end > next);
        if self.beyond.is_empty() {
            // RFC 5681, section 4.2: at once when a hole is filled.
            self.acknowledge();
        } else {
            self.with_hole(now);
        }
    }

    /// There are holes: at once, or compressed.
    fn with_hole(&mut self, now: Time) {
        if !self.config.linux {
            return self.acknowledge();
        }
        if self.duplicates_at.0 != self.next {
            self.duplicates_at = (self.next, 0);
        }
        if self.quick > 0 {
            self.quick -= 1;
            return self.acknowledge();
        }
        if self.duplicates_at.1 < DUPLICATES_AT_ONCE {
            self.duplicates_at.1 += 1;
            return self.acknowledge();
        }
        self.compressed += 1;
        if self.compressed >= MAX_COMPRESSED_ACKS {
            return self.acknowledge();
        }
        // At most 1 ms and 5 % of the round-trip time; a side that only receives knows the handshake's besides.
        let rtt = self.rtt.min(self.first_rtt.unwrap_or(u64::MAX));
        let delay = MILLISECOND.min((rtt / 20).max(MICROSECOND));
        self.compressed_until.get_or_insert(after(now, delay));
    }

    /// Segments that wait out of order.
    fn waiting(&self) -> u32 {
        self.beyond.iter().map(|block| block.end - block.start).sum()
    }

    fn acknowledge(&mut self) {
        self.pending = Some(Kind::Ack);
    }

    fn is_beyond(&self, number: u32) -> bool {
        let at = self.beyond.partition_point(|block| block.end <= number);
        self.beyond.get(at).is_some_and(|block| block.start <= number)
    }

    fn insert(&mut self, now: Time, number: u32) {
        let touched = self.recent.iter().position(|block| block.start == number + 1 || block.end == number);
        if touched.is_none() {
            self.do_not_push_out(now, self.recent.len());
        }
        let at = self.beyond.partition_point(|block| block.end < number);
        let mut block = Block { start: number, end: number + 1 };
        if let Some(before) = self.beyond.get_mut(at).filter(|before| before.end == number) {
            before.end = number + 1;
            block = *before;
            if self.beyond.get(at + 1).is_some_and(|following| following.start == block.end) {
                block.end = self.beyond.remove(at + 1).end;
                self.beyond[at] = block;
            }
        } else if let Some(following) =
            self.beyond.get_mut(at).filter(|following| following.start == number + 1)
        {
            following.start = number;
            block = *following;
        } else {
            self.beyond.insert(at, block);
        }
        if let Some(touched) = touched {
            self.recent[touched] = block;
            self.do_not_push_out(now, touched);
        }
        self.recent.retain(|old| old.end < block.start || old.start > block.end);
        self.recent.insert(0, block);
        self.recent.truncate(BLOCKS_REMEMBERED);
    }

    /// `tcp_sack_new_ofo_skb`: before the block at `place` comes to the front, what was compressed is reported with the blocks as they stand.
    fn do_not_push_out(&mut self, now: Time, place: usize) {
        if place >= BLOCKS_EXPECTED && self.compressed > 0 {
            self.early = Some(self.answer(now, Kind::Ack));
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn data(number: u32) -> Segment {
        let mut segment = Segment::new(0, Kind::Data, number, Time::ZERO, Time::ZERO);
        segment.payload_bytes = MSS_BYTES;
        segment
    }

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * MILLISECOND)
    }

    #[test]
    fn sixteen_quick_then_one_in_two() {
        let mut receiver = Receiver::new(0, ReceiverConfig::default());
        let acks: Vec<bool> = (0..40)
            .map(|n| {
                receiver.on_segment(at(n.into()), &data(n));
                receiver.poll_transmit(at(n.into())).is_some()
            })
            .collect();
        assert_eq!(acks.iter().take(16).filter(|sent| **sent).count(), 16);
        assert_eq!(acks.iter().skip(16).filter(|sent| **sent).count(), 12);
    }

    #[test]
    fn the_last_odd_segment_is_acknowledged_after_40_ms() {
        let mut receiver =
            Receiver::new(0, ReceiverConfig { segments_per_ack: 2, linux: false, growing_buffer: false });
        receiver.on_segment(at(5), &data(0));
        assert!(receiver.poll_transmit(at(5)).is_none());
        assert_eq!(receiver.next_timer(), Some(at(45)));
        receiver.on_timer(at(45));
        assert_eq!(receiver.poll_transmit(at(45)).map(|ack| ack.number), Some(1));
        assert_eq!(receiver.next_timer(), None);
    }

    #[test]
    fn a_duplicate_is_reported_at_once() {
        let mut receiver = Receiver::new(0, ReceiverConfig::default());
        receiver.on_segment(at(0), &data(0));
        receiver.poll_transmit(at(0));
        receiver.on_segment(at(1), &data(0));
        assert_eq!(receiver.poll_transmit(at(1)).and_then(|ack| ack.dsack), Some(0));
        assert_eq!((receiver.duplicates(), receiver.received_bytes()), (1, 1448));
    }

    #[test]
    fn after_three_duplicates_acknowledgements_are_compressed() {
        let mut receiver = Receiver::new(0, ReceiverConfig::default());
        for n in 0..16 {
            receiver.on_segment(at(n), &data(n as u32));
            receiver.poll_transmit(at(n));
        }
        let sent: Vec<bool> = (17..24)
            .map(|n| {
                receiver.on_segment(at(n), &data(n as u32));
                receiver.poll_transmit(at(n)).is_some()
            })
            .collect();
        assert_eq!(sent, [true, true, true, false, false, false, false]);
        let due = receiver.next_timer().unwrap();
        receiver.on_timer(due);
        let ack = receiver.poll_transmit(due).unwrap();
        assert_eq!((ack.number, ack.sacked()), (16, &[Block { start: 17, end: 24 }][..]));
    }

    #[test]
    fn no_block_is_pushed_out_by_compression() {
        let mut receiver = Receiver::new(0, ReceiverConfig::default());
        for n in 0..16 {
            receiver.on_segment(at(n), &data(n as u32));
            receiver.poll_transmit(at(n));
        }
        // Every second segment is missing, and all that came arrive at once.
        let mut reported = BTreeSet::new();
        for n in (17..57).step_by(2) {
            receiver.on_segment(at(20), &data(n));
            while let Some(ack) = receiver.poll_transmit(at(20)) {
                reported.extend(ack.sacked().iter().flat_map(|block| block.start..block.end));
            }
        }
        let due = receiver.next_timer().unwrap();
        receiver.on_timer(due);
        reported.extend(receiver.poll_transmit(due).unwrap().sacked().iter().flat_map(|b| b.start..b.end));
        assert_eq!(reported, (17..57).step_by(2).collect());
    }

    proptest! {
        /// Whatever order segments come in, the next expected one and the reported blocks are those of a set.
        #[test]
        fn reassembly_is_that_of_a_set(arrivals in prop::collection::vec(0_u32..60, 1..200)) {
            let mut receiver = Receiver::new(0, ReceiverConfig { segments_per_ack: 1, linux: false, growing_buffer: false });
            let mut have = BTreeSet::new();
            for (n, number) in arrivals.into_iter().enumerate() {
                let now = at(n as u64);
                receiver.on_segment(now, &data(number));
                have.insert(number);
                let next = (0..).find(|n| !have.contains(n)).unwrap();
                prop_assert_eq!(receiver.next_expected(), next);
                prop_assert_eq!(receiver.received_bytes(), have.len() as u64 * 1448);
                let ack = receiver.poll_transmit(now).unwrap();
                prop_assert_eq!(ack.number, next);
                for block in ack.sacked() {
                    prop_assert!(block.start > next && block.end > block.start);
                    prop_assert!((block.start..block.end).all(|n| have.contains(&n)));
                    prop_assert!(!have.contains(&block.end) && !have.contains(&(block.start - 1)));
                }
                if number > next {
                    prop_assert!(ack.sacked().first().is_none_or(|b| ack.dsack.is_some() || (b.start..b.end).contains(&number)));
                }
            }
        }
    }
}
