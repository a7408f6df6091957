//! Data from the sender: segments, holes, loss recovery, and the flight that shows the window.

use super::super::loss_trace::Collector;
use super::super::observations::SentPacket;
use super::super::scoreboard::Kind;
use super::{AT_ONCE_NS, Direction, Repair};
use crate::window_trace::{CapturePoint, Cause, Reduction};
use yuzuri_capture::{Flags, Segment};

/// The smallest retransmission timeout of senders (`TCP_RTO_MIN`: 200 ms), less the uncertainty of
/// clocks and captures.
const MIN_SILENCE_NS: i64 = 180_000_000;
/// A hole that fills within this time was only reordered.
const REORDER_NS: i64 = 3_000_000;
/// The smallest full segment: 48 bytes with the options (`TCP_MIN_SND_MSS` of Linux), of which
/// timestamps take 12.
const MIN_MSS: u32 = 36;
/// This many consecutive segments of one size are full, even if the handshake allows more: unless
/// each has PSH and ends a write. Within a write, Linux sets it only on the last segment of those
/// that it passes to the device together, and at each half of the receiver's window.
const ALIKE: u8 = 32;
/// If a flight since loss recovery has fallen below this fraction of an earlier one, it is the
/// window, and the earlier one was not.
const DRAINED: (u64, u64) = (2, 3);
/// A receiver's window with room for fewer segments is full: it moves by the two segments of a
/// delayed acknowledgement (RFC 1122).
const FULL: u64 = 2;
/// A larger hole, in segments, is one of the capture, or artificial: the outstanding data is
/// forgotten there.
const MAX_HOLE: u64 = 16_384;

/// Consecutive segments of one size.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EqualSegments {
    bytes: u32,
    count: u8,
    /// One of them does not end a write.
    within_write: bool,
}

impl EqualSegments {
    fn add(&mut self, bytes: u32, ends_write: bool) {
        if bytes != self.bytes {
            *self = EqualSegments { bytes, ..EqualSegments::default() };
        }
        self.count = self.count.saturating_add(1);
        self.within_write |= !ends_write;
    }

    fn are_full(self) -> bool {
        self.count >= ALIKE && self.within_write
    }
}

impl Direction {
    /// Processes a segment of the sender.
    pub(in super::super) fn data(&mut self, segment: &Segment) {
        let (now, bytes) = (segment.time_ns, segment.payload_bytes);
        let syn = segment.flags.contains(Flags::SYN);
        if syn {
            if !self.started {
                self.begin(segment.seq.wrapping_add(1));
            }
            return;
        }
        if bytes == 0 {
            return self.bare(segment);
        }
        if !self.started {
            self.begin(segment.seq);
        }
        let start = self.place(segment.seq);
        let missed_from = self.missed(start, now);
        let (stamp, echo) = segment.options.timestamps.unwrap_or_default();
        if segment.options.timestamps.is_some() {
            self.clock.saw(stamp, now);
            self.acted_before_idle(echo, now);
            self.echoed(echo, stamp, now);
        }
        if self.window_trace.segments == 0 {
            self.first(segment);
        }
        let mss = self.segment_size(segment);
        let end = start + u64::from(bytes);
        if let Some(loss_trace) = &mut self.loss_trace {
            loss_trace.data((start, end), now, mss);
        }
        if end < self.board.una() {
            // Older than anything outstanding: an unnecessary retransmission, or not of this flow.
            self.window_trace.segments += 1;
            self.window_trace.retransmitted += 1;
            return;
        }
        if start > self.board.nxt() + MAX_HOLE * u64::from(mss) {
            self.lost_track(start, now);
        }
        let silence_ns = now - self.last_sent_ns.max(self.last_acted_ns);
        if !self.board.holds() && self.window_trace.segments > 0 {
            self.idle(now, stamp);
        }
        let before = self.board.nxt();
        // Only data below what was sent fills a hole.
        let reorder_ns =
            if end > before { 0 } else { REORDER_NS.min((self.srtt_us * 500.0) as i64).max(200_000) };
        let kind = self.board.send((start, end), (now, stamp), reorder_ns, u64::from(mss));
        if let (Some(repair), Some(from)) = (&mut self.repair, missed_from)
            && repair.until == from
        {
            // The missing data was most likely sent before recovery began, and dropped by a queue
            // that the window had filled.
            repair.until = start;
            if repair.reduction.before > 0.0 {
                repair.reduction.before += (start - from) as f32 / mss as f32;
            }
        }
        let ran_out = !bytes.is_multiple_of(mss);
        let count = bytes / mss + u32::from(ran_out);
        self.window_trace.segments += u64::from(count);
        // A segment that immediately follows another has the same cause.
        if now - self.last_acted_ns < AT_ONCE_NS {
            self.by_clock = false;
        } else if now - self.last_sent_ns >= AT_ONCE_NS {
            self.by_clock = true;
        }
        (self.last_sent_ns, self.last_sent_stamp) = (now, stamp);
        match kind {
            Kind::New => {
                self.open.round.sent += count;
                if self.by_clock {
                    self.open.round.by_clock += count;
                }
                self.ran_out = ran_out;
                self.open.small += u32::from(ran_out);
                self.measure(before, ran_out, mss);
                let flight = self.board.in_flight();
                let handshake_ns = self.window_trace.handshake_rtt_us.map(|us| i64::from(us) * 1000);
                let sent = SentPacket { segments: count, ran_out, flight_bytes: flight };
                self.observations.sent(segment, sent, self.acted_passed, handshake_ns, self.capture_point);
                let outstanding = self.board.nxt() - self.board.una();
                if flight == outstanding {
                    // Behind a hole, received data waits for the missing segment, not for its
                    // reader.
                    self.observations.used(outstanding);
                }
            }
            Kind::Again => {
                self.open.round.retransmitted += count;
                self.window_trace.retransmitted += u64::from(count);
                self.sent_again(start, now, silence_ns);
                if let Some(repair) = &mut self.repair {
                    repair.again_bytes += u64::from(bytes);
                    self.observations.repairs(repair.reduction.cause == Cause::Timeout);
                }
            }
            Kind::Late => {}
        }
        // The ECN-Echo may have come a round before: nothing new was sent until the flight had
        // fallen.
        let answers = segment.flags.contains(Flags::CWR) && std::mem::take(&mut self.ece_unanswered);
        if answers && self.repair.is_none() {
            self.reduced(Cause::Ecn, now);
            if let Some(repair) = &mut self.repair {
                // Nothing new was sent since the ECN-Echo.
                repair.until = start;
            }
        }
        self.fin |= segment.flags.contains(Flags::FIN);
    }

    /// Processes a segment of the sender without data: it shows the sender's clock, and which
    /// acknowledgements the sender has seen.
    #[inline]
    pub(in super::super) fn bare(&mut self, segment: &Segment) {
        if let Some((stamp, echo)) = segment.options.timestamps {
            self.clock.saw(stamp, segment.time_ns);
            self.echoed(echo, stamp, segment.time_ns);
        }
    }

    /// The sender sends while nothing is outstanding: whether it had nothing to send since the last
    /// acknowledgement.
    pub(super) fn idle(&mut self, now: i64, stamp: u32) {
        let Some(since_sent_ns) = self.idle_since(now) else { return };
        let since_sent_ns = since_sent_ns.max(self.by_sender_clock(stamp).unwrap_or(0));
        if self.open.round.acks == 0 && self.open.round.sent == 0 {
            // The last acknowledgement ended the previous round, in which the sender ran out of
            // data.
            if let Some(last) = self.rounds.last_mut() {
                last.limits.application = true;
            }
        }
        self.open.round.limits.application = true;
        // The last acknowledgement ended the round, not the data that came after the pause.
        self.close_round(self.last_acted_ns.clamp(self.open.round.start_ns.min(now), now));
        self.open.round.start_ns = now;
        self.open.round.idle_us = u32::try_from(since_sent_ns / 1000).unwrap_or(u32::MAX);
    }

    /// How long the sender has sent nothing, by its own clock, ns: away from the sender, a queue
    /// delayed the last data, and the next data finds none. CUBIC's growth depends on this time.
    fn by_sender_clock(&self, stamp: u32) -> Option<i64> {
        if self.capture_point == CapturePoint::Sender {
            return None;
        }
        self.clock.between_ns(self.last_sent_stamp, stamp)
    }

    /// How long a sender with nothing outstanding has sent nothing, if it had nothing to send; ns.
    pub(super) fn idle_since(&self, now: i64) -> Option<i64> {
        let since_sent_ns = now - self.last_sent_ns;
        // Away from the sender an acknowledgement takes effect when data sent in response is seen:
        // until then it was in transit.
        let since_acted_ns = if self.capture_point == CapturePoint::Sender {
            now - self.last_sent_ns.max(self.last_acted_ns)
        } else {
            since_sent_ns - (self.srtt_us * 1000.0) as i64
        };
        (since_acted_ns as f64 > (self.srtt_us * 250.0).max(5e6)).then_some(since_sent_ns)
    }

    /// Data missing before a segment was lost upstream of the capture. A queue drops the last
    /// segments of a burst, so they were in flight before the acknowledgement took effect that this
    /// segment echoes. Returns where the hole begins.
    fn missed(&mut self, start: u64, now: i64) -> Option<u64> {
        let (mss, nxt) = (self.window_trace.mss_bytes, self.board.nxt());
        if mss == 0 || self.capture_point == CapturePoint::Sender {
            return None;
        }
        if start <= nxt || start > nxt + MAX_HOLE * u64::from(mss) {
            return None;
        }
        self.board.miss(start, now, u64::from(mss));
        self.measure(nxt, false, mss);
        Some(nxt)
    }

    /// The capture lacks too much: the outstanding data is forgotten, and the round is void.
    fn lost_track(&mut self, at: u64, now: i64) {
        self.open.round.limits.application = true;
        self.close_round(now);
        self.board.begin(at);
        (self.repair, self.after, self.duplicates) = (None, None, 0);
        self.waiting.clear();
        self.open.until = at + 1;
    }

    pub(super) fn first(&mut self, segment: &Segment) {
        self.open.round.start_ns = segment.time_ns;
        self.last_sent_ns = segment.time_ns;
        self.last_acted_ns = segment.time_ns;
        if self.capture_point == CapturePoint::Unknown && segment.options.timestamps.is_none() {
            // There is no indication: assume the most common case.
            self.capture_point = CapturePoint::Sender;
        }
        let rtt_us = self.window_trace.handshake_rtt_us;
        if self.capture_point != CapturePoint::Sender
            && segment.options.timestamps.is_none()
            && let Some(rtt_us) = rtt_us
        {
            self.loss_trace = Some(Box::new(Collector::new(rtt_us)));
        }
    }

    fn segment_size(&mut self, segment: &Segment) -> u32 {
        let seen = segment.payload_bytes;
        if self.mss_bytes == 0 {
            // No SYN.
            let headers = segment.wire_bytes.saturating_sub(seen);
            self.window_trace.mss_bytes = self.sizes.after(self.window_trace.mss_bytes, seen, headers);
        } else {
            let options = if segment.options.timestamps.is_some() { 12 } else { 0 };
            let most = self.mss_bytes.saturating_sub(options).max(1);
            self.equal.add(seen, segment.flags.contains(Flags::PSH));
            if seen == self.window_trace.mss_bytes && seen <= most {
                return seen;
            }
            let larger = seen > self.window_trace.mss_bytes && seen <= most;
            let smaller = seen < self.window_trace.mss_bytes && self.equal.are_full();
            let joined = if seen > most { self.sizes.joined(seen).filter(|size| *size < most) } else { None };
            if self.window_trace.mss_bytes == 0 {
                self.window_trace.mss_bytes = most;
            } else if let Some(size) = joined {
                self.window_trace.mss_bytes = size;
            } else if larger || smaller {
                // The path accepts less than both ends do (RFC 1191, tunnels).
                self.window_trace.mss_bytes = seen;
            }
        }
        self.window_trace.mss_bytes = self.window_trace.mss_bytes.max(MIN_MSS);
        self.window_trace.mss_bytes
    }

    /// After data was sent: measures the flight.
    fn measure(&mut self, before: u64, ran_out: bool, mss: u32) {
        let flight = self.board.in_flight();
        let open = &mut self.open;
        if flight > open.flight_bytes {
            open.flight_bytes = flight;
            open.receiver_full = self.window_end.saturating_sub(self.board.nxt()) < FULL * u64::from(mss);
            open.ran_out = ran_out;
        }
        let disturbed = self.board.sacked_bytes() > 0 || self.duplicates > 0 || self.ece_unanswered;
        if self.repair.is_none() && !disturbed {
            self.window_bytes = flight;
        }
        if let Some(after) = &mut self.after {
            let drained = flight * DRAINED.1 < after.flight_bytes * DRAINED.0;
            if after.acted && drained && after.drew_nothing > 1 {
                // That flight was sent before the window fell (Westwood): nothing was sent until
                // the flight had dropped below the window. A single acknowledgement may also remove
                // most of a flight, which the window immediately fills again.
                (after.from, after.from_flight_bytes, after.flight_bytes) = (before, flight, flight);
            }
            after.drew_nothing = 0;
            after.flight_bytes = after.flight_bytes.max(flight);
            // A window above the flight after recovery (Westwood) is filled first, which is far
            // faster than any growth.
            if after.acted && after.is_read(before) {
                if after.flight_bytes > after.from_flight_bytes + after.flight_bytes / 24 {
                    (after.from, after.from_flight_bytes) = (before, after.flight_bytes);
                } else {
                    self.read_after();
                }
            }
        }
    }

    pub(super) fn read_after(&mut self) {
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
            let loss_signs = self.board.sacked_bytes() > 0 || self.duplicates > 0 || first;
            // The rest is a tail loss probe (RFC 8985), which alone reduces nothing.
            if loss_signs {
                self.reduced(Cause::Recovery, now);
            }
        }
    }

    fn reduced(&mut self, cause: Cause, now: i64) {
        if self.after.take_if(|after| !after.is_read(self.board.nxt())).is_some() {
            // The flight is that after the previous recovery: the window between the two was not
            // seen.
            self.window_bytes = 0;
        }
        self.read_after();
        self.dsacks = 0;
        let before = self.window_bytes as f32 / self.window_trace.mss_bytes as f32;
        self.window_bytes = 0;
        let acked = self.open.advanced_bytes as f32 / self.window_trace.mss_bytes as f32;
        let acks = self.open.advances;
        let at_sender = self.capture_point == CapturePoint::Sender;
        let rtt_us = if at_sender { self.open.round.rtt_last_us } else { 0 };
        let reduction = Reduction { acked, acks, rtt_us, ..Reduction::begun(now, cause, before) };
        self.repair = Some(Repair { reduction, until: self.board.nxt(), again_bytes: 0 });
    }
}
