//! One direction of a flow: what the sender of its data knew when it sent, rebuilt from what passed the capture.
//!
//! Near the sender an acknowledgement acts when it is seen. Elsewhere it acts when the data that answers it passes: data echoes the
//! timestamp of the acknowledgement that its sender saw last (RFC 7323), so acknowledgements wait until they are echoed.

use super::capture_point::{Delays, as_sent};
use super::look::{Looker, Looks};
use super::scoreboard::{Kind, Scoreboard};
use super::sender_clock::{SenderClock, TickTally};
use super::unseen::Collector;
use super::waiting::{Answer, Blocks, Waiting};
use crate::window_trace::{CapturePoint, Cause, Reduction, Round, RttTally, WindowTrace};
use yuzuri_capture::{Flags, Segment};

/// Place of the first byte, so that older ones have a place too.
const ORIGIN: u64 = 1 << 32;
/// Acknowledgements that wait for their echo, at most; the oldest act when there are more.
const MAX_WAITING: usize = 1 << 16;
/// Least retransmission timeout that senders use (`TCP_RTO_MIN`: 200 ms), less what clocks and captures blur.
const MIN_SILENCE_NS: i64 = 180_000_000;
/// A hole that fills within this time was only reordered.
const REORDER_NS: i64 = 3_000_000;
/// What is sent within this time of an acknowledgement, or of the segment before, was drawn by it.
const AT_ONCE_NS: i64 = 200_000;
/// No sender uses smaller full segments: 48 bytes with the options (`TCP_MIN_SND_MSS` of Linux), of which timestamps take 12.
const MIN_MSS: u32 = 36;
/// So many segments of one size in a row are full, though the handshake allows more.
const ALIKE: u8 = 32;
/// A flight that has fallen to less than this part of an earlier one since a repair is the window, and the earlier one was not.
const DRAINED: (u64, u64) = (2, 3);
/// Segments acknowledged from which on a round that hardly sends tells that the window has fallen.
const MIN_DRAIN: f32 = 16.0;
/// A receiver's window with room for fewer segments is full: it moves by the two segments of a delayed acknowledgement (RFC 1122).
const FULL: u64 = 2;
/// A hole of more segments is one of the capture, or made up: what is outstanding is forgotten there.
const MAX_HOLE: u64 = 16_384;

/// The round that is under way.
#[derive(Clone, Copy, Debug, Default)]
struct Open {
    round: Round,
    flight_bytes: u64,
    acked_bytes: u64,
    /// Of these, in order.
    advanced_bytes: u64,
    rtts: RttTally,
    ticks: TickTally,
    small: u32,
    /// The round ends when this place is acknowledged.
    until: u64,
    receiver_full: bool,
    /// The segment with which most was in flight was not a full one: the sender had no more.
    ran_out: bool,
}

/// A reduction under way.
#[derive(Clone, Copy, Debug)]
struct Repair {
    reduction: Reduction,
    until: u64,
}

/// A reduction that is over: the window after it is being read.
#[derive(Clone, Copy, Debug)]
struct After {
    reduction: usize,
    /// Place up to which it was read without being sure, and the flight then.
    from: u64,
    from_flight_bytes: u64,
    flight_bytes: u64,
    /// An acknowledgement came since: what was sent at once is all out.
    acted: bool,
}

impl After {
    /// Whether enough was sent, up to this place, to tell the window by. The first segments only: fast algorithms grow by a tenth in a round.
    fn is_read(&self, nxt: u64) -> bool {
        nxt > self.from + self.flight_bytes / 12
    }
}

/// One direction.
#[derive(Clone, Debug, Default)]
pub(super) struct Half {
    started: bool,
    /// The 32-bit number of [`ORIGIN`].
    base: u32,
    board: Scoreboard,
    waiting: Waiting,
    capture_point: CapturePoint,
    mss_bytes: u32,
    /// The other end's window scale; `None`: its SYN was not seen.
    scale: Option<u8>,
    window_end: u64,
    duplicates: u32,
    /// A selective acknowledgement was seen.
    selective: bool,
    /// Without any: segments that duplicate acknowledgements told to have arrived, and that no later one has covered yet
    /// (`tcp_add_reno_sack`).
    by_duplicates: u64,
    last_sent_ns: i64,
    last_acted_ns: i64,
    /// The highest acknowledgement that acted. Of a flow seen from its middle the first ones acknowledge what was sent before.
    acted_to: u64,
    /// The segment sent last was drawn by no acknowledgement.
    by_clock: bool,
    srtt_us: f64,
    open: Open,
    /// Flight when data was sent last, undisturbed; 0 since a reduction.
    window_bytes: u64,
    repair: Option<Repair>,
    after: Option<After>,
    dsacks: u32,
    delays: Delays,
    clock: SenderClock,
    fin: bool,
    /// Bytes of the segment sent last, and how many in a row had as many.
    alike: (u32, u8),
    looks: Looker,
    /// When the acknowledgement passed the capture that acted last, and whether it had no data.
    acted_passed: (i64, bool),
    /// Away from the sender without timestamps.
    unseen: Option<Box<Collector>>,
    window_trace: WindowTrace,
}

impl Half {
    pub(super) fn new() -> Half {
        Half { window_end: u64::MAX, ..Half::default() }
    }

    /// What both SYNs told: the segment size that both accept, the window scale of the end that receives.
    pub(super) fn shake(&mut self, mss_bytes: u32, scale: Option<u8>) {
        self.mss_bytes = mss_bytes;
        self.scale = scale.or(self.scale);
    }

    /// What the handshake's times told: where the capture is, and a round-trip time.
    pub(super) fn shaken(&mut self, capture_point: CapturePoint, rtt_us: u32) {
        self.capture_point = capture_point;
        self.window_trace.handshake_rtt_us = Some(rtt_us);
    }

    /// Whether any data was sent.
    pub(super) fn has_data(&self) -> bool {
        self.window_trace.segments > 0
    }

    fn place(&self, seq: u32) -> u64 {
        let nxt = self.board.nxt();
        let number = self.base.wrapping_add(nxt.wrapping_sub(ORIGIN) as u32);
        nxt.wrapping_add_signed(i64::from(seq.wrapping_sub(number) as i32))
    }

    fn begin(&mut self, seq: u32) {
        self.started = true;
        self.base = seq;
        self.board.begin(ORIGIN);
    }

    /// The sender sent.
    pub(super) fn data(&mut self, segment: &Segment) {
        let (now, bytes) = (segment.time_ns, segment.payload_bytes);
        let syn = segment.flags.contains(Flags::SYN);
        if syn {
            if !self.started {
                self.begin(segment.seq.wrapping_add(1));
            }
            return;
        }
        let missed_from = if bytes > 0 { self.missed(segment) } else { None };
        let (stamp, echo) = segment.options.timestamps.unwrap_or_default();
        if segment.options.timestamps.is_some() {
            self.clock.saw(stamp, now);
            self.echoed(echo, stamp, now);
        }
        if bytes == 0 {
            return;
        }
        if !self.started {
            self.begin(segment.seq);
        }
        if self.window_trace.segments == 0 {
            self.first(segment);
        }
        let mss = self.segment_size(segment);
        let start = self.place(segment.seq);
        let end = start + u64::from(bytes);
        if let Some(unseen) = &mut self.unseen {
            unseen.data((start, end), now, mss);
        }
        if end < self.board.una() {
            // Older than anything outstanding: sent again for nothing, or not of this flow.
            self.window_trace.segments += 1;
            self.window_trace.retransmitted += 1;
            return;
        }
        if start > self.board.nxt() + MAX_HOLE * u64::from(mss) {
            self.lost_track(start, now);
        }
        let silence_ns = now - self.last_sent_ns.max(self.last_acted_ns);
        if !self.board.holds() && self.window_trace.segments > 0 {
            self.idle(now);
        }
        let before = self.board.nxt();
        let reorder_ns = REORDER_NS.min((self.srtt_us * 500.0) as i64).max(200_000);
        let kind = self.board.send((start, end), (now, stamp), reorder_ns, u64::from(mss));
        if let (Some(repair), Some(from)) = (&mut self.repair, missed_from)
            && repair.until == from
        {
            // Most likely sent before the repair began: a queue that the window had filled dropped it.
            repair.until = start;
            if repair.reduction.before > 0.0 {
                repair.reduction.before += (start - from) as f32 / mss as f32;
            }
        }
        let count = bytes.div_ceil(mss);
        self.window_trace.segments += u64::from(count);
        // What follows a segment at once was drawn by what drew that one.
        if now - self.last_acted_ns < AT_ONCE_NS {
            self.by_clock = false;
        } else if now - self.last_sent_ns >= AT_ONCE_NS {
            self.by_clock = true;
        }
        self.last_sent_ns = now;
        match kind {
            Kind::New => {
                self.open.round.sent += count;
                if self.by_clock {
                    self.open.round.by_clock += count;
                }
                if bytes % mss != 0 {
                    self.open.small += 1;
                }
                self.measure(before, bytes, mss);
                let flight = self.board.in_flight();
                let handshake_ns = self.window_trace.handshake_rtt_us.map(|us| i64::from(us) * 1000);
                self.looks.sent(segment, (mss, flight), self.acted_passed, handshake_ns, self.capture_point);
                self.looks.used(self.board.nxt() - self.board.una());
            }
            Kind::Again => {
                self.open.round.retransmitted += count;
                self.window_trace.retransmitted += u64::from(count);
                self.sent_again(start, now, silence_ns);
                if let Some(repair) = &self.repair {
                    self.looks.repairs(repair.reduction.cause == Cause::Timeout);
                }
            }
            Kind::Late => {}
        }
        if segment.flags.contains(Flags::CWR) && self.open.round.ece > 0 && self.repair.is_none() {
            self.reduced(Cause::Ecn, now);
        }
        self.fin |= segment.flags.contains(Flags::FIN);
    }

    /// The sender sends while nothing is outstanding: whether it had nothing to send since the last acknowledgement.
    fn idle(&mut self, now: i64) {
        let since_sent_ns = now - self.last_sent_ns;
        // Away from the sender an acknowledgement acts when data is seen that it drew: until then it was under way.
        let since_acted_ns = if self.capture_point == CapturePoint::Sender {
            now - self.last_sent_ns.max(self.last_acted_ns)
        } else {
            since_sent_ns - (self.srtt_us * 1000.0) as i64
        };
        if since_acted_ns as f64 <= (self.srtt_us * 250.0).max(5e6) {
            return;
        }
        if self.open.round.acks == 0 && self.open.round.sent == 0 {
            // The last acknowledgement ended the round before, in which the sender ran out.
            if let Some(last) = self.window_trace.rounds.last_mut() {
                last.limits.application = true;
            }
        }
        self.open.round.limits.application = true;
        self.close_round(now);
        self.open.round.idle_us = u32::try_from(since_sent_ns / 1000).unwrap_or(u32::MAX);
    }

    /// What is missing before a segment was lost before it came here. A queue drops the last of what an acknowledgement draws, so that it was in
    /// flight before the acknowledgement acted that this segment echoes. Tells from where.
    fn missed(&mut self, segment: &Segment) -> Option<u64> {
        let mss = self.window_trace.mss_bytes;
        if !self.started || mss == 0 || self.capture_point == CapturePoint::Sender {
            return None;
        }
        let (start, nxt) = (self.place(segment.seq), self.board.nxt());
        if start <= nxt || start > nxt + MAX_HOLE * u64::from(mss) {
            return None;
        }
        self.board.miss(start, segment.time_ns, u64::from(mss));
        self.measure(nxt, mss, mss);
        Some(nxt)
    }

    /// The capture lacks too much: what was outstanding is forgotten, and the round says nothing.
    fn lost_track(&mut self, at: u64, now: i64) {
        self.open.round.limits.application = true;
        self.close_round(now);
        self.board.begin(at);
        (self.repair, self.after, self.duplicates) = (None, None, 0);
        self.waiting.clear();
        self.open.until = at + 1;
    }

    fn first(&mut self, segment: &Segment) {
        self.open.round.start_ns = segment.time_ns;
        self.last_sent_ns = segment.time_ns;
        self.last_acted_ns = segment.time_ns;
        if self.capture_point == CapturePoint::Unknown && segment.options.timestamps.is_none() {
            // Nothing to tell by: taken for what most captures are.
            self.capture_point = CapturePoint::Sender;
        }
        let rtt_us = self.window_trace.handshake_rtt_us;
        if self.capture_point != CapturePoint::Sender
            && segment.options.timestamps.is_none()
            && let Some(rtt_us) = rtt_us
        {
            self.unseen = Some(Box::new(Collector::new(rtt_us)));
        }
    }

    fn segment_size(&mut self, segment: &Segment) -> u32 {
        let seen = segment.payload_bytes;
        if self.mss_bytes == 0 {
            // No SYN: a packet of at most 1500 bytes is one segment, a larger one is several.
            let room = if segment.options.timestamps.is_some() { 1448 } else { 1460 };
            let size = if segment.wire_bytes <= 1500 { seen } else { room };
            if size > self.window_trace.mss_bytes {
                self.window_trace.mss_bytes = size;
            }
        } else {
            let options = if segment.options.timestamps.is_some() { 12 } else { 0 };
            let most = self.mss_bytes.saturating_sub(options).max(1);
            self.alike =
                if seen == self.alike.0 { (seen, self.alike.1.saturating_add(1)) } else { (seen, 1) };
            let larger = seen > self.window_trace.mss_bytes && seen <= most;
            let smaller = seen < self.window_trace.mss_bytes && self.alike.1 >= ALIKE;
            if self.window_trace.mss_bytes == 0 {
                self.window_trace.mss_bytes = most;
            } else if larger || smaller {
                // The path takes less than both ends do (RFC 1191, tunnels).
                self.window_trace.mss_bytes = seen;
            }
        }
        self.window_trace.mss_bytes = self.window_trace.mss_bytes.max(MIN_MSS);
        self.window_trace.mss_bytes
    }

    /// After data was sent: how much is in flight.
    fn measure(&mut self, before: u64, bytes: u32, mss: u32) {
        let flight = self.board.in_flight();
        let open = &mut self.open;
        if flight > open.flight_bytes {
            open.flight_bytes = flight;
            open.receiver_full = self.window_end.saturating_sub(self.board.nxt()) < FULL * u64::from(mss);
            open.ran_out = !bytes.is_multiple_of(mss);
        }
        if self.repair.is_none() && self.board.sacked_bytes() == 0 && self.duplicates == 0 {
            self.window_bytes = flight;
        }
        if let Some(after) = &mut self.after {
            if after.acted && flight * DRAINED.1 < after.flight_bytes * DRAINED.0 {
                // It was sent before the window fell (Westwood): nothing went out until what was in flight had gone below it.
                (after.from, after.from_flight_bytes, after.flight_bytes) = (before, flight, flight);
            }
            after.flight_bytes = after.flight_bytes.max(flight);
            // A window above what the repair left in flight (Westwood) is filled first, which is far quicker than any growth.
            if after.acted && after.is_read(before) {
                if after.flight_bytes > after.from_flight_bytes + after.flight_bytes / 24 {
                    (after.from, after.from_flight_bytes) = (before, after.flight_bytes);
                } else {
                    self.read_after();
                }
            }
        }
    }

    fn read_after(&mut self) {
        if let Some(after) = self.after.take()
            && let Some(reduction) = self.window_trace.reductions.get_mut(after.reduction)
        {
            reduction.after = after.flight_bytes as f32 / self.window_trace.mss_bytes as f32;
            reduction.undone = self.dsacks > 0 && reduction.after >= 0.95 * reduction.before;
        }
    }

    fn sent_again(&mut self, start: u64, now: i64, silence_ns: i64) {
        let timeout_ns = MIN_SILENCE_NS.max((self.srtt_us * 900.0) as i64);
        let silent = silence_ns >= timeout_ns;
        let first = start <= self.board.una();
        if silent && first {
            self.board.time_out();
            if let Some(repair) = &mut self.repair {
                repair.reduction.cause = Cause::Timeout;
                repair.until = self.board.nxt();
            } else {
                self.reduced(Cause::Timeout, now);
            }
        } else if self.repair.is_none() {
            let signs = self.board.sacked_bytes() > 0 || self.duplicates > 0 || first;
            // What remains is a probe of the tail (RFC 8985), which alone reduces nothing.
            if signs {
                self.reduced(Cause::Recovery, now);
            }
        }
    }

    fn reduced(&mut self, cause: Cause, now: i64) {
        if self.after.take_if(|after| !after.is_read(self.board.nxt())).is_some() {
            // What was in flight is what the former repair left there: the window between the two was not seen.
            self.window_bytes = 0;
        }
        self.read_after();
        self.dsacks = 0;
        let before = self.window_bytes as f32 / self.window_trace.mss_bytes as f32;
        self.window_bytes = 0;
        let acked = self.open.advanced_bytes as f32 / self.window_trace.mss_bytes as f32;
        let reduction = Reduction { acked, ..Reduction::begun(now, cause, before) };
        self.repair = Some(Repair { reduction, until: self.board.nxt() });
    }

    /// The receiver answered.
    pub(super) fn answer(&mut self, segment: &Segment) {
        if !self.started || !segment.flags.contains(Flags::ACK) {
            return;
        }
        let ack = self.place(segment.ack);
        if let Some(unseen) = &mut self.unseen {
            unseen.acknowledged(ack, segment.time_ns);
        }
        let scale = if segment.flags.contains(Flags::SYN) { 0 } else { self.scale.unwrap_or(14) };
        if self.is_idle(segment) {
            // As in most directions of most flows: nothing to acknowledge.
            let window_bytes = u64::from(segment.window) << scale.min(14);
            let ack = self.place(segment.ack);
            self.receiver_window(ack, ack.saturating_add(window_bytes), segment.window, ack > self.acted_to);
            return;
        }
        let sack = &segment.options.sack[..];
        let blocks = (!sack.is_empty()).then(|| self.blocks(sack));
        let (timestamp, echo) = segment.options.timestamps.unwrap_or_default();
        let answer = Answer {
            at_ns: segment.time_ns,
            ack: self.place(segment.ack),
            timestamp,
            echo,
            pure: segment.payload_bytes == 0,
            window: segment.window,
            window_bytes: u32::from(segment.window) << scale.min(14),
            timed: segment.options.timestamps.is_some(),
            ece: segment.flags.contains(Flags::ECE) && !segment.flags.contains(Flags::SYN),
            blocks_used: sack.len() as u8,
        };
        if answer.timed {
            self.looks.passed(timestamp, segment.time_ns);
        }
        if self.capture_point == CapturePoint::Sender || !answer.timed {
            self.act(&answer, blocks.as_ref(), segment.time_ns, Some(0));
        } else {
            if self.waiting.len() >= MAX_WAITING
                && let Some((oldest, blocks)) = self.waiting.pop()
            {
                self.act(&oldest, blocks.as_ref(), segment.time_ns, None);
            }
            self.waiting.push(answer, blocks);
        }
    }

    /// The receiver told its window. `una`: what had been acknowledged; `more`: whether this acknowledges more.
    fn receiver_window(&mut self, una: u64, window_end: u64, window: u16, more: bool) {
        let mss = u64::from(self.window_trace.mss_bytes.max(1));
        if !more && una == self.acted_to && window_end >= self.window_end.saturating_add(mss) {
            self.looks.updated();
        }
        self.window_end = window_end;
        self.looks.window(window, more);
    }

    fn blocks(&self, sack: &[(u32, u32)]) -> Blocks {
        let mut blocks = Blocks::default();
        for (into, (left, right)) in blocks.iter_mut().zip(sack) {
            *into = (self.place(*left), self.place(*right));
        }
        blocks
    }

    /// Whether nothing is outstanding that this could acknowledge, now or when it is echoed.
    fn is_idle(&self, segment: &Segment) -> bool {
        !self.board.holds()
            && self.waiting.is_empty()
            && self.capture_point != CapturePoint::Unknown
            && segment.options.sack.is_empty()
            && !segment.flags.contains(Flags::ECE)
            && self.place(segment.ack) <= self.board.una()
    }

    /// The sender has seen the acknowledgements up to this timestamp.
    fn echoed(&mut self, echo: u32, stamp: u32, now: i64) {
        let mut first_of_echo = true;
        while let Some(next) = self.waiting.front() {
            let value = next.timestamp;
            if (value.wrapping_sub(echo) as i32) > 0 {
                break;
            }
            let Some((answer, blocks)) = self.waiting.pop() else { break };
            // Of several acknowledgements of one tick the first drew the data that echoes it first.
            let exact = value == echo && std::mem::take(&mut first_of_echo);
            if exact {
                self.delays.back(now - answer.at_ns);
            }
            self.act(&answer, blocks.as_ref(), now, exact.then_some(stamp));
        }
        // Data that a program sends in a rhythm of its own seems to take long from an acknowledgement, until some follows at once.
        let shaken = self.window_trace.handshake_rtt_us.is_some();
        if self.capture_point == CapturePoint::Unknown
            || (self.capture_point == CapturePoint::Middle && !shaken)
        {
            self.settle();
        }
    }

    /// Tells the capture point from the delays, without a handshake.
    fn settle(&mut self) {
        let Some(capture_point) = self.delays.capture_point() else { return };
        self.capture_point = capture_point;
        if self.capture_point == CapturePoint::Sender {
            while let Some((answer, blocks)) = self.waiting.pop() {
                self.act(&answer, blocks.as_ref(), self.last_sent_ns, None);
            }
        }
    }

    /// An acknowledgement acts on the sender; `stamp`: now is when it did, and this is what the sender's clock then said (away from it).
    fn act(&mut self, answer: &Answer, blocks: Option<&Blocks>, now: i64, stamp: Option<u32>) {
        let mss = u64::from(self.window_trace.mss_bytes.max(1));
        let blocks = blocks.map_or(&[][..], |blocks| &blocks[..usize::from(answer.blocks_used)]);
        let una = self.board.una();
        if let Some((_, end)) = blocks.first()
            && *end <= answer.ack
        {
            self.dsacks += 1;
        }
        self.selective |= !blocks.is_empty();
        let done = self.board.acknowledge(answer.ack, blocks, mss);
        let window_end = answer.ack.saturating_add(u64::from(answer.window_bytes));
        if blocks.is_empty() {
            self.receiver_window(una, window_end, answer.window, answer.ack > self.acted_to);
        } else {
            self.window_end = window_end;
            self.looks.window(answer.window, false);
        }
        if answer.ece {
            self.open.round.ece += 1;
        }
        let duplicate = answer.ack == una && self.board.holds() && done.bytes == 0;
        if self.board.una() > una {
            self.open.advanced_bytes += self.board.una() - una;
            self.duplicates = 0;
        } else if duplicate {
            self.duplicates += 1;
        }
        let new_bytes = self.delivered(done.bytes, duplicate, mss);
        if done.bytes > 0 || answer.ack > self.acted_to {
            self.acted_to = self.acted_to.max(answer.ack);
            self.last_acted_ns = now;
            self.acted_passed = (answer.at_ns, answer.pure);
        }
        if done.bytes > 0 {
            if let Some(after) = &mut self.after {
                after.acted |= after.flight_bytes > 0;
            }
            self.open.round.acks += 1;
            self.window_trace.acked_bytes += done.bytes;
        }
        self.open.acked_bytes += new_bytes;
        if let Some((sent_ns, sent_stamp)) = done.sent {
            let there = answer.at_ns - sent_ns;
            if there >= 0 {
                self.delays.there(there);
            }
            if let Some(stamp) = stamp
                && now > sent_ns
            {
                if self.capture_point != CapturePoint::Sender {
                    self.open.ticks.add(stamp.wrapping_sub(sent_stamp));
                }
                let rtt_us = ((now - sent_ns) / 1000).clamp(1, i64::from(u32::MAX)) as u32;
                self.timed(rtt_us);
                if answer.timed && self.window_trace.clock_offset_ms.is_none() {
                    let offset = answer.timestamp.wrapping_sub(answer.echo).wrapping_sub(rtt_us / 1000);
                    self.window_trace.clock_offset_ms = Some(offset);
                }
            }
        }
        if let Some(repair) = self.repair
            && self.board.una() >= repair.until
        {
            self.repaired(repair, new_bytes, self.board.una() - una, now);
        }
        if self.board.una() >= self.open.until && self.window_trace.segments > 0 {
            self.close_round(now);
        }
    }

    /// Bytes that an acknowledgement tells to have arrived. Without selective ones each duplicate tells of a segment, of which the one that fills
    /// the hole tells again (`tcp_remove_reno_sacks`).
    fn delivered(&mut self, bytes: u64, duplicate: bool, mss: u64) -> u64 {
        if self.selective {
            self.by_duplicates = 0;
            return bytes;
        }
        if duplicate {
            self.by_duplicates += 1;
            return mss;
        }
        let segments = bytes.div_ceil(mss);
        if self.by_duplicates == 0 || segments == 0 {
            return bytes;
        }
        let told_before = self.by_duplicates.min(segments - 1);
        self.by_duplicates -= told_before;
        bytes - told_before * mss
    }

    fn repaired(&mut self, repair: Repair, new_bytes: u64, all_bytes: u64, now: i64) {
        self.repair = None;
        self.open.round.limits.recovery = true;
        self.close_round(now);
        let round = self.window_trace.rounds.len() as u32;
        let mss = self.window_trace.mss_bytes.max(1) as f32;
        let cleared = all_bytes as f32 / mss;
        if self.board.lost_bytes() > 0 {
            // More was lost since it began: the acknowledgement that ends it begins the next one (`tcp_time_to_recover`), from a window that was
            // never in flight.
            self.window_trace.reductions.push(Reduction { over_ns: now, round, cleared, ..repair.reduction });
            let reduction = Reduction::begun(now, Cause::Recovery, 0.0);
            self.repair = Some(Repair { reduction, until: self.board.nxt() });
            return;
        }
        let completed = new_bytes as f32 / mss;
        let left = self.board.in_flight() as f32 / mss;
        self.window_trace.reductions.push(Reduction {
            over_ns: now,
            round,
            completed,
            cleared,
            left,
            ..repair.reduction
        });
        let reduction = self.window_trace.reductions.len() - 1;
        self.after = Some(After {
            reduction,
            from: self.board.nxt(),
            from_flight_bytes: self.board.in_flight(),
            flight_bytes: 0,
            acted: false,
        });
    }

    fn timed(&mut self, rtt_us: u32) {
        self.open.rtts.add(rtt_us, &mut self.open.round, &mut self.window_trace.min_rtt_us);
        let rtt = f64::from(rtt_us);
        self.srtt_us = if self.srtt_us == 0.0 { rtt } else { self.srtt_us + (rtt - self.srtt_us) / 8.0 };
    }

    fn close_round(&mut self, now: i64) {
        let mss = self.window_trace.mss_bytes.max(1) as f32;
        let open = std::mem::take(&mut self.open);
        let mut round = open.round;
        if round.acks > 0 || round.sent > 0 {
            round.end_ns = now;
            round.window = open.flight_bytes as f32 / mss;
            round.acked = open.acked_bytes as f32 / mss;
            round.rtt_mean_us = open.rtts.mean_us();
            round.spaced = round.end_ns - round.start_ns > 4 * AT_ONCE_NS * i64::from(round.sent.max(1));
            round.limits.recovery |= self.repair.is_some() || round.retransmitted > 0;
            // The window fell below what was in flight: that is only let go.
            round.limits.recovery |=
                round.acked >= MIN_DRAIN && f64::from(round.sent) * 4.0 < f64::from(round.acked);
            round.limits.receiver |= open.receiver_full && self.scale.is_some();
            round.limits.application |= open.ran_out || open.small * 5 > round.sent || self.fin;
            let kept = self.window_trace.keep(round);
            if self.repair.is_some() {
                self.looks.repairs(false);
            }
            let room_bytes = self.window_end.saturating_sub(self.board.nxt());
            self.looks.idle(
                !self.board.holds()
                    && self.scale.is_some()
                    && room_bytes < u64::from(self.window_trace.mss_bytes),
            );
            self.looks.close(kept);
            if kept && self.capture_point != CapturePoint::Sender {
                self.clock.keep(open.ticks);
            }
        }
        self.open.round.start_ns = now;
        self.open.until = self.board.nxt() + 1;
    }

    /// The window trace, when nothing more comes.
    pub(super) fn rounds(&self) -> usize {
        self.window_trace.rounds.len()
    }

    pub(super) fn finish(mut self) -> (WindowTrace, Looks) {
        self.read_after();
        self.window_trace.capture_point = self.capture_point;
        self.window_trace.unseen = self.unseen.take().map(|unseen| Box::new(unseen.finish()));
        if self.capture_point == CapturePoint::Receiver {
            as_sent(&mut self.window_trace);
        }
        if self.capture_point != CapturePoint::Sender {
            self.clock.set(&mut self.window_trace);
        }
        let looks = self.looks.finish(self.scale);
        (self.window_trace, looks)
    }
}
