//! The receiving half of a connection: reassembly, SACK blocks and Linux's ACK timing
//! (`tcp_input.c`).
//!
//! - At the start, quick ACKs (`tcp_incr_quickack`).
//! - Then one ACK per two full segments, or after 40 ms (`__tcp_ack_snd_check`,
//!   `tcp_send_delayed_ack`).
//! - Duplicate and out-of-order segments are acknowledged immediately. After the third,
//!   out-of-order ACKs are compressed (`tcp_compressed_ack`, since 4.18).
//!
//! Not modelled: GRO, and ACKs triggered by the application's reads.

use crate::receive_window::ReceiveWindow;
use crate::segment::{Block, Kind, MSS_BYTES, SACK_BLOCKS, Segment};
use crate::units::{MICROSECOND, MILLISECOND, after, nanos_between};
use yuzuri_netmodel::Time;

/// Minimum delayed-ACK timeout, ns (`TCP_DELACK_MIN`).
const DELAYED_ACK_NS: u64 = 40 * MILLISECOND;
/// Number of quick ACKs at the start and after a pause or a duplicate (`TCP_MAX_QUICKACKS`).
const QUICK_ACKS: u32 = 16;
/// Duplicate ACKs sent immediately before compression starts (`TCP_FASTRETRANS_THRESH`).
const DUP_ACKS_BEFORE_COMPRESSION: u32 = 3;
/// Maximum ACKs merged into one (`tcp_comp_sack_nr`).
const MAX_COMPRESSED_ACKS: u32 = 44;
/// Maximum SACK blocks for which an ACK may stay compressed (`TCP_SACK_BLOCKS_EXPECTED`): it is
/// sent before another block could displace one of them.
const SACK_BLOCKS_EXPECTED: usize = 2;
/// Blocks that the receiver remembers (`TCP_NUM_SACKS`); an older one is reported again only when
/// it changes.
const NUM_SACKS: usize = 4;

/// How a receiver acknowledges.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReceiverConfig {
    /// Full segments per ACK: 2 for Linux, 1 for no delayed ACKs.
    pub segments_per_ack: u32,
    /// Use Linux's quick ACKs and SACK compression; if false, plain RFC 5681.
    pub linux: bool,
    /// The receive buffer starts at Linux's 128 KiB and grows with the application's reads. It
    /// limits the advertised window, and each segment that grows the window is acknowledged
    /// immediately. If false (the default), the window never limits the sender.
    pub growing_buffer: bool,
}

impl Default for ReceiverConfig {
    fn default() -> ReceiverConfig {
        ReceiverConfig { segments_per_ack: 2, linux: true, growing_buffer: false }
    }
}

/// The receiving half of a connection. Any call may queue an ACK; take it with
/// [`poll_transmit`](Receiver::poll_transmit).
#[derive(Clone, Debug)]
pub struct Receiver {
    connection: u32,
    config: ReceiverConfig,
    /// The segment expected next (RCV.NXT).
    rcv_nxt: u32,
    /// Received ranges above `rcv_nxt`, sorted and not adjacent.
    ooo_ranges: Vec<Block>,
    /// The blocks to report, the most recently changed first.
    selective_acks: Vec<Block>,
    dsack: Option<u32>,
    received_bytes: u64,
    duplicates: u64,
    unacked: u32,
    quick_acks: u32,
    /// Timestamp to echo: that of the earliest unacknowledged segment (RFC 7323, section 4.3).
    ts_recent: Time,
    /// Receiver-side RTT from the newest timestamp echo, ns (`tcp_rcv_rtt_measure_ts`).
    rcv_rtt_ns: u64,
    /// The first RTT sample, from the handshake, ns.
    first_rtt_ns: Option<u64>,
    last_arrival: Option<Time>,
    /// RCV.NXT, and the duplicate ACKs sent for it (`dup_ack_counter`).
    dup_acks: (u32, u32),
    compressed_acks: u32,
    delayed_ack_at: Option<Time>,
    compressed_ack_at: Option<Time>,
    pending_kind: Option<Kind>,
    window: Option<ReceiveWindow>,
    /// The last ECN-capable segment was marked CE, so ACKs carry ECE.
    ce_state: bool,
    /// A compressed ACK that must leave before the segment that just arrived is included.
    pending_ack: Option<Segment>,
}

impl Receiver {
    /// Creates the receiver of half-connection `connection`.
    pub fn new(connection: u32, config: ReceiverConfig) -> Receiver {
        Receiver {
            connection,
            config,
            rcv_nxt: 0,
            ooo_ranges: Vec::new(),
            selective_acks: Vec::new(),
            dsack: None,
            received_bytes: 0,
            duplicates: 0,
            unacked: 0,
            quick_acks: 0,
            ts_recent: Time::ZERO,
            rcv_rtt_ns: 0,
            first_rtt_ns: None,
            last_arrival: None,
            dup_acks: (0, 0),
            compressed_acks: 0,
            delayed_ack_at: None,
            compressed_ack_at: None,
            pending_kind: None,
            window: config.growing_buffer.then(ReceiveWindow::new),
            ce_state: false,
            pending_ack: None,
        }
    }

    /// The segment expected next; all earlier ones have been delivered to the application.
    pub fn next_expected(&self) -> u32 {
        self.rcv_nxt
    }

    /// Payload received, each byte counted once.
    pub fn received_bytes(&self) -> u64 {
        self.received_bytes
    }

    /// Number of duplicate segments received.
    pub fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// Processes an incoming [`Kind::Syn`] or [`Kind::Data`] segment.
    pub fn on_segment(&mut self, now: Time, segment: &Segment) {
        if segment.kind == Kind::Syn {
            self.ts_recent = segment.sent_at;
            self.pending_kind = Some(Kind::SynAck);
            return;
        }
        self.event_data_recv(now, segment);
        let ce_changed = segment.ect && segment.ce != self.ce_state;
        if ce_changed {
            self.on_ce_change(now);
        }
        if self.unacked == 0 {
            self.ts_recent = segment.sent_at;
        }
        self.data_queue(now, segment);
        if ce_changed {
            self.schedule_ack();
        }
    }

    /// CE marks start or stop (RFC 8257, section 3.2; `dctcp_ece_ack_update`): the delayed ACK is
    /// sent with the previous mark state.
    fn on_ce_change(&mut self, now: Time) {
        if self.delayed_ack_at.is_some() {
            self.pending_ack = Some(self.make_reply(now, Kind::Ack));
        }
        self.ce_state = !self.ce_state;
    }

    fn data_queue(&mut self, now: Time, segment: &Segment) {
        if segment.number < self.rcv_nxt || self.is_in_ooo_range(segment.number) {
            self.duplicates += 1;
            self.dsack = Some(segment.number);
            self.quick_acks = self.quick_acks.max(if self.config.linux { QUICK_ACKS } else { 0 });
            self.schedule_ack();
            return;
        }
        self.received_bytes += u64::from(segment.payload_bytes);
        let ooo_segments = self.ooo_segments();
        if let Some(window) = &mut self.window {
            if segment.payload_bytes == MSS_BYTES {
                window.rtt_sample(now, segment.echo);
            }
            if window.grow(ooo_segments) {
                self.quick_acks |= 1;
            }
        }
        if segment.number == self.rcv_nxt {
            self.unacked += 1;
            self.advance_rcv_nxt(now);
            let read_bytes = u64::from(self.rcv_nxt) * u64::from(MSS_BYTES);
            if let Some(window) = &mut self.window {
                window.on_read(now, read_bytes);
            }
        } else {
            self.ts_recent =
                if self.unacked == 0 { self.ts_recent } else { segment.sent_at.min(self.ts_recent) };
            self.insert_ooo(now, segment.number);
            self.on_out_of_order(now);
        }
    }

    /// When [`on_timer`](Receiver::on_timer) must be called.
    pub fn next_timer(&self) -> Option<Time> {
        match (self.delayed_ack_at, self.compressed_ack_at) {
            (Some(delayed), Some(compressed)) => Some(delayed.min(compressed)),
            (delayed, compressed) => delayed.or(compressed),
        }
    }

    /// Handles timer expiry.
    pub fn on_timer(&mut self, now: Time) {
        if self.next_timer().is_some_and(|at| at <= now) {
            self.schedule_ack();
        }
    }

    /// The next ACK to send, if any.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Segment> {
        if let Some(ack) = self.pending_ack.take() {
            return Some(ack);
        }
        let kind = self.pending_kind.take()?;
        Some(self.make_reply(now, kind))
    }

    fn make_reply(&mut self, now: Time, kind: Kind) -> Segment {
        let mut ack = Segment::new(self.connection, kind, self.rcv_nxt, now, self.ts_recent);
        if let Some(window) = &self.window {
            ack.window = window.advertised_segments(self.ooo_segments());
        }
        if kind == Kind::Ack {
            ack.ece = self.ce_state;
            ack.dsack = self.dsack.take();
            let room = SACK_BLOCKS - usize::from(ack.dsack.is_some());
            for (slot, block) in ack.sack.iter_mut().zip(self.selective_acks.iter().take(room)) {
                *slot = *block;
                ack.blocks += 1;
            }
            self.unacked = 0;
            self.compressed_acks = 0;
            self.delayed_ack_at = None;
            self.compressed_ack_at = None;
        }
        ack
    }

    fn event_data_recv(&mut self, now: Time, segment: &Segment) {
        if segment.echo > Time::ZERO && segment.payload_bytes == MSS_BYTES {
            let sample = nanos_between(now, segment.echo);
            self.first_rtt_ns.get_or_insert(sample);
            self.rcv_rtt_ns = if self.rcv_rtt_ns == 0 {
                sample
            } else {
                self.rcv_rtt_ns - self.rcv_rtt_ns / 8 + sample / 8
            };
        }
        // tcp_event_data_recv: quick ACKs for the first data, and for data after a pause longer
        // than the RTO.
        let pause = 200 * MILLISECOND + self.rcv_rtt_ns;
        if self.config.linux && self.last_arrival.is_none_or(|before| nanos_between(now, before) > pause) {
            self.quick_acks = QUICK_ACKS;
        }
        self.last_arrival = Some(now);
    }

    fn advance_rcv_nxt(&mut self, now: Time) {
        self.rcv_nxt += 1;
        if self.ooo_ranges.is_empty() {
            if self.unacked >= self.config.segments_per_ack || self.quick_acks > 0 {
                self.quick_acks = self.quick_acks.saturating_sub(1);
                self.schedule_ack();
            } else {
                self.delayed_ack_at.get_or_insert(after(now, DELAYED_ACK_NS));
            }
            return;
        }
        if self.ooo_ranges[0].start == self.rcv_nxt {
            self.rcv_nxt = self.ooo_ranges.remove(0).end;
        }
        let rcv_nxt = self.rcv_nxt;
        self.selective_acks.retain(|block| block.end > rcv_nxt);
        if self.ooo_ranges.is_empty() {
            // RFC 5681, section 4.2: immediately when a segment fills a gap.
            self.schedule_ack();
        } else {
            self.on_out_of_order(now);
        }
    }

    /// The sequence space has gaps: acknowledge immediately, or compress.
    fn on_out_of_order(&mut self, now: Time) {
        if !self.config.linux {
            return self.schedule_ack();
        }
        if self.dup_acks.0 != self.rcv_nxt {
            self.dup_acks = (self.rcv_nxt, 0);
        }
        if self.quick_acks > 0 {
            self.quick_acks -= 1;
            return self.schedule_ack();
        }
        if self.dup_acks.1 < DUP_ACKS_BEFORE_COMPRESSION {
            self.dup_acks.1 += 1;
            return self.schedule_ack();
        }
        self.compressed_acks += 1;
        if self.compressed_acks >= MAX_COMPRESSED_ACKS {
            return self.schedule_ack();
        }
        // At most 1 ms and 5 % of the RTT; a host that only receives also has the handshake's
        // sample.
        let rtt = self.rcv_rtt_ns.min(self.first_rtt_ns.unwrap_or(u64::MAX));
        let delay = MILLISECOND.min((rtt / 20).max(MICROSECOND));
        self.compressed_ack_at.get_or_insert(after(now, delay));
    }

    /// Segments in the out-of-order queue.
    fn ooo_segments(&self) -> u32 {
        self.ooo_ranges.iter().map(|block| block.end - block.start).sum()
    }

    fn schedule_ack(&mut self) {
        self.pending_kind = Some(Kind::Ack);
    }

    fn is_in_ooo_range(&self, number: u32) -> bool {
        let at = self.ooo_ranges.partition_point(|block| block.end <= number);
        self.ooo_ranges.get(at).is_some_and(|block| block.start <= number)
    }

    fn insert_ooo(&mut self, now: Time, number: u32) {
        let adjacent_block =
            self.selective_acks.iter().position(|block| block.start == number + 1 || block.end == number);
        if adjacent_block.is_none() {
            self.flush_before_displacing(now, self.selective_acks.len());
        }
        let at = self.ooo_ranges.partition_point(|block| block.end < number);
        let mut block = Block { start: number, end: number + 1 };
        if let Some(before) = self.ooo_ranges.get_mut(at).filter(|before| before.end == number) {
            before.end = number + 1;
            block = *before;
            if self.ooo_ranges.get(at + 1).is_some_and(|following| following.start == block.end) {
                block.end = self.ooo_ranges.remove(at + 1).end;
                self.ooo_ranges[at] = block;
            }
        } else if let Some(following) =
            self.ooo_ranges.get_mut(at).filter(|following| following.start == number + 1)
        {
            following.start = number;
            block = *following;
        } else {
            self.ooo_ranges.insert(at, block);
        }
        if let Some(adjacent_block) = adjacent_block {
            self.selective_acks[adjacent_block] = block;
            self.flush_before_displacing(now, adjacent_block);
        }
        self.selective_acks.retain(|old| old.end < block.start || old.start > block.end);
        self.selective_acks.insert(0, block);
        self.selective_acks.truncate(NUM_SACKS);
    }

    /// `tcp_sack_new_ofo_skb`: before the block at `index` moves to the front, sends the compressed
    /// ACK with the blocks as they are.
    fn flush_before_displacing(&mut self, now: Time, index: usize) {
        if index >= SACK_BLOCKS_EXPECTED && self.compressed_acks > 0 {
            self.pending_ack = Some(self.make_reply(now, Kind::Ack));
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
    fn sixteen_quick_acks_then_one_ack_per_two_segments() {
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
    fn a_single_segment_is_acknowledged_after_the_delayed_ack_timeout() {
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
    fn a_duplicate_segment_triggers_an_immediate_dsack() {
        let mut receiver = Receiver::new(0, ReceiverConfig::default());
        receiver.on_segment(at(0), &data(0));
        receiver.poll_transmit(at(0));
        receiver.on_segment(at(1), &data(0));
        assert_eq!(receiver.poll_transmit(at(1)).and_then(|ack| ack.dsack), Some(0));
        assert_eq!((receiver.duplicates(), receiver.received_bytes()), (1, 1448));
    }

    #[test]
    fn acks_are_compressed_after_three_duplicate_acks() {
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
    fn ack_compression_loses_no_sack_block() {
        let mut receiver = Receiver::new(0, ReceiverConfig::default());
        for n in 0..16 {
            receiver.on_segment(at(n), &data(n as u32));
            receiver.poll_transmit(at(n));
        }
        // Every second segment is missing, and all others arrive at the same instant.
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
        /// For any arrival order, the next expected segment and the reported blocks equal those of
        /// a set.
        #[test]
        fn reassembly_matches_a_set_of_segment_numbers(arrivals in prop::collection::vec(0_u32..60, 1..200)) {
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
