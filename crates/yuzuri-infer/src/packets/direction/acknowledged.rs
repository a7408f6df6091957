//! Acknowledgements to the sender: they take effect when it receives them, deliver data, end loss
//! recovery, and close rounds.

use super::super::waiting::{Answer, Blocks};
use super::{AT_ONCE_NS, AfterReduction, Direction, Open, Repair};
use crate::window_trace::{CapturePoint, Cause, Reduction};
use yuzuri_capture::{Flags, Segment};
use yuzuri_limits::significant_queue_us;

/// Acknowledgements that wait for their echo; beyond this, the oldest take effect.
const MAX_WAITING: usize = 1 << 16;
/// The least retransmission timeout (`TCP_RTO_MIN`).
const MIN_RTO_NS: i64 = 200_000_000;
/// Segments that a round must acknowledge to show, if it hardly sends, that the window has fallen.
const MIN_DRAIN: f32 = 16.0;

impl Direction {
    /// Processes a segment of the receiver.
    pub(in super::super) fn answer(&mut self, segment: &Segment) {
        if !self.started || !segment.flags.contains(Flags::ACK) {
            return;
        }
        let ack = self.place(segment.ack);
        if let Some(loss_trace) = &mut self.loss_trace {
            loss_trace.acknowledged(ack, segment.time_ns);
        }
        // The window of a SYN is never scaled (RFC 7323 section 2.2).
        let syn = segment.flags.contains(Flags::SYN);
        let scale = if syn { 0 } else { self.scale.unwrap_or(14) };
        let unscaled = syn && self.scale.is_some_and(|scale| scale > 0);
        if self.is_idle(segment, ack) {
            // Nothing to acknowledge, as in most directions of most flows.
            let window_end = ack.saturating_add(u64::from(segment.window) << scale.min(14));
            self.receiver_window(ack, window_end, (segment.window, unscaled), ack > self.acted_to);
            return;
        }
        let sack = &segment.options.sack[..];
        let (timestamp, echo) = segment.options.timestamps.unwrap_or_default();
        let answer = Answer {
            at_ns: segment.time_ns,
            ack,
            timestamp,
            echo,
            pure: segment.payload_bytes == 0,
            window: (segment.window, unscaled),
            window_bytes: u32::from(segment.window) << scale.min(14),
            timed: segment.options.timestamps.is_some(),
            ece: segment.flags.contains(Flags::ECE) && !syn,
            blocks_used: sack.len() as u8,
        };
        if answer.timed {
            self.observations.passed(timestamp, segment.time_ns);
        }
        if self.capture_point == CapturePoint::Sender || !answer.timed {
            self.act(&answer, &self.blocks(sack)[..sack.len()], segment.time_ns, Some(0));
        } else {
            if self.waiting.len() >= MAX_WAITING {
                self.act_oldest(segment.time_ns, None);
            }
            self.waiting.push(answer, (!sack.is_empty()).then(|| self.blocks(sack)));
        }
    }

    /// The acknowledgement that has waited longest takes effect.
    fn act_oldest(&mut self, now: i64, stamp: Option<u32>) {
        let Some(answer) = self.waiting.pop() else { return };
        if answer.blocks_used == 0 {
            self.act(&answer, &[], now, stamp);
        } else {
            let blocks = self.waiting.pop_blocks();
            self.act(&answer, &blocks[..usize::from(answer.blocks_used)], now, stamp);
        }
    }

    /// Processes the receiver's window. `una`: the previous acknowledgement; `more`: whether this
    /// one acknowledges more.
    fn receiver_window(&mut self, una: u64, window_end: u64, window: (u16, bool), more: bool) {
        let mss = u64::from(self.window_trace.mss_bytes.max(1));
        if !more && una == self.acted_to && window_end >= self.window_end.saturating_add(mss) {
            self.observations.updated();
        }
        self.window_end = window_end;
        self.observations.window(window, more);
    }

    fn blocks(&self, sack: &[(u32, u32)]) -> Blocks {
        let mut blocks = Blocks::default();
        for (into, (left, right)) in blocks.iter_mut().zip(sack) {
            *into = (self.place(*left), self.place(*right));
        }
        blocks
    }

    /// Whether nothing is outstanding that this could acknowledge, now or once it is echoed.
    fn is_idle(&self, segment: &Segment, ack: u64) -> bool {
        !self.board.holds()
            && self.waiting.is_empty()
            && self.capture_point != CapturePoint::Unknown
            && ack <= self.board.una()
            && segment.options.sack.is_empty()
            && !segment.flags.contains(Flags::ECE)
    }

    /// Everything was acknowledged, and then the sender had nothing to send: data that comes so
    /// much later was not sent in response to these acknowledgements, and measures no round-trip
    /// time. They took effect as soon as the path allows.
    pub(super) fn acted_before_idle(&mut self, echo: u32, now: i64) {
        if self.waiting.is_empty() || self.capture_point == CapturePoint::Sender || !self.paused(now) {
            return;
        }
        let seen = |answer: &&Answer| (answer.timestamp.wrapping_sub(echo) as i32) <= 0;
        let acknowledged = self.waiting.iter().take_while(seen).last().map(|answer| answer.ack);
        if acknowledged.is_none_or(|ack| ack < self.board.nxt()) {
            return;
        }
        let back_ns = self.delays.min_back_ns().unwrap_or(0);
        while let Some(answer) = self.waiting.front().filter(seen) {
            let acts_ns = answer.at_ns.saturating_add(back_ns).max(self.last_sent_ns.max(self.last_acted_ns));
            self.act_oldest(acts_ns.min(now), None);
        }
        self.settle();
    }

    /// Whether the sender has sent nothing for longer than its retransmission timer allows (RFC
    /// 6298), had anything been outstanding. A shorter pause may be a queue that grew.
    fn paused(&self, now: i64) -> bool {
        if now - self.last_sent_ns <= MIN_RTO_NS {
            return false;
        }
        let shaken_us = || self.window_trace.handshake_rtt_us.map(f64::from);
        let Some(rtt_us) = Some(self.srtt_us).filter(|srtt_us| *srtt_us > 0.0).or_else(shaken_us) else {
            return false;
        };
        (now - self.last_sent_ns) as f64 > MIN_RTO_NS as f64 + 2.0 * rtt_us * 1000.0
            && self.idle_since(now).is_some()
    }

    /// The sender has seen the acknowledgements up to this timestamp.
    pub(super) fn echoed(&mut self, echo: u32, stamp: u32, now: i64) {
        if self.waiting.is_empty() {
            return;
        }
        let mut first_of_echo = true;
        while let Some(next) = self.waiting.front() {
            let value = next.timestamp;
            if (value.wrapping_sub(echo) as i32) > 0 {
                break;
            }
            // Of several acknowledgements within one tick, the first caused the first data that
            // echoes it.
            let exact = value == echo && std::mem::take(&mut first_of_echo);
            if exact {
                self.delays.back(now - next.at_ns);
            }
            self.act_oldest(now, exact.then_some(stamp));
        }
        self.settle();
    }

    /// Determines the capture point from the delays, without a handshake.
    fn settle(&mut self) {
        // Data that a program sends at intervals of its own appears long after an acknowledgement,
        // until some follows immediately.
        let has_handshake = self.window_trace.handshake_rtt_us.is_some();
        let is_open = self.capture_point == CapturePoint::Unknown
            || (self.capture_point == CapturePoint::Middle && !has_handshake);
        if is_open && let Some(capture_point) = self.delays.capture_point() {
            self.settle_at(capture_point);
        }
    }

    pub(super) fn settle_at(&mut self, capture_point: CapturePoint) {
        self.capture_point = capture_point;
        if self.capture_point == CapturePoint::Sender {
            while !self.waiting.is_empty() {
                self.act_oldest(self.last_sent_ns, None);
            }
        }
    }

    /// An acknowledgement takes effect on the sender. `stamp`: the sender's clock (away from the
    /// sender), if it takes effect now.
    #[inline]
    fn act(&mut self, answer: &Answer, blocks: &[(u64, u64)], now: i64, stamp: Option<u32>) {
        let una = self.board.una();
        let window_end = answer.ack.saturating_add(u64::from(answer.window_bytes));
        if !self.board.holds() && answer.ack <= una && blocks.is_empty() && !answer.ece {
            // Only its window counts, as in most acknowledgements to an end that sends nothing.
            self.receiver_window(una, window_end, answer.window, answer.ack > self.acted_to);
            if answer.ack > self.acted_to {
                self.acted(answer, now);
            }
        } else {
            self.act_on_data(answer, blocks, now, stamp);
        }
    }

    /// The same with data outstanding, or if the acknowledgement has more than a window.
    #[inline(never)]
    fn act_on_data(&mut self, answer: &Answer, blocks: &[(u64, u64)], now: i64, stamp: Option<u32>) {
        let una = self.board.una();
        let window_end = answer.ack.saturating_add(u64::from(answer.window_bytes));
        let mss = u64::from(self.window_trace.mss_bytes.max(1));
        if let Some((_, end)) = blocks.first()
            && *end <= answer.ack
        {
            self.dsacks += 1;
        }
        self.selective |= !blocks.is_empty();
        let done = self.board.acknowledge(answer.ack, blocks, mss);
        if blocks.is_empty() {
            self.receiver_window(una, window_end, answer.window, answer.ack > self.acted_to);
        } else {
            self.window_end = window_end;
            self.observations.window(answer.window, false);
        }
        if answer.ece {
            self.open.round.ece += 1;
        }
        let duplicate = answer.ack == una && self.board.holds() && done.bytes == 0;
        let advances = self.board.una() > una;
        if advances {
            self.open.advanced_bytes += self.board.una() - una;
            self.open.advances += 1;
            self.duplicates = 0;
        } else if duplicate {
            self.duplicates += 1;
        }
        let new_bytes = self.delivered(done.bytes, duplicate, mss);
        if done.bytes > 0 || answer.ack > self.acted_to {
            self.acted(answer, now);
        } else if !blocks.is_empty() {
            // It delivers data that was sent before the capture began.
            self.acted_passed = (answer.at_ns, answer.pure);
        }
        if done.bytes > 0 {
            if let Some(after) = &mut self.after {
                after.acted |= after.flight_bytes > 0;
                after.drew_nothing += 1;
                if let Some(reduction) = self.window_trace.reductions.get_mut(after.reduction)
                    && reduction.next == 0.0
                {
                    reduction.next = (self.board.una() - una) as f32 / mss as f32;
                }
            }
            self.open.round.acks += 1;
            self.window_trace.acked_bytes += done.bytes;
        }
        self.open.acked_bytes += new_bytes;
        if let Some((sent_ns, sent_stamp)) = done.sent {
            let there = answer.at_ns - sent_ns;
            if there >= 0 {
                self.delays.there(there);
                self.observations.there(there);
            }
            let several = answer.ack >= una + 2 * mss && blocks.is_empty();
            if several && self.is_late(there, now - sent_ns) {
                self.observations.late(self.waited(there));
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
            && self.is_over(&repair)
        {
            let completed_bytes = self.completed(&repair, new_bytes);
            self.repaired(repair, completed_bytes, self.board.una() - una, now);
        }
        if let Some(repair) = self.repair.as_mut().filter(|_| advances) {
            repair.again_bytes = 0;
        }
        // During a reduction it gives no new information (`tcp_try_to_open`).
        self.ece_unanswered |= answer.ece && self.repair.is_none();
        if self.board.una() >= self.open.until && self.window_trace.segments > 0 {
            self.close_round(now);
        }
    }

    /// An acknowledgement of something new took effect.
    fn acted(&mut self, answer: &Answer, now: i64) {
        self.acted_to = self.acted_to.max(answer.ack);
        self.last_acted_ns = now;
        self.acted_passed = (answer.at_ns, answer.pure);
    }

    /// Whether an acknowledgement came late: `there_ns` after the data passed the capture, which
    /// the sender saw after `rtt_ns`.
    fn is_late(&self, there_ns: i64, rtt_ns: i64) -> bool {
        if self.capture_point == CapturePoint::Receiver {
            return there_ns > AT_ONCE_NS && self.delays.is_at_receiver(AT_ONCE_NS);
        }
        let min_us = self.window_trace.min_rtt_us;
        min_us > 0 && rtt_ns / 1000 >= i64::from(min_us) + i64::from(significant_queue_us(min_us))
    }

    /// Whether an acknowledgement left the receiver as late as a queue would delay it.
    fn waited(&self, there_ns: i64) -> bool {
        let min_us = self.window_trace.min_rtt_us;
        self.capture_point == CapturePoint::Receiver
            && min_us > 0
            && there_ns / 1000 >= i64::from(significant_queue_us(min_us))
    }

    /// Bytes that an acknowledgement shows to have arrived. Without selective ones each duplicate
    /// stands for a segment, which the one that fills the hole counts again
    /// (`tcp_remove_reno_sacks`).
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
        let reported_before = self.by_duplicates.min(segments - 1);
        self.by_duplicates -= reported_before;
        bytes - reported_before * mss
    }

    /// Whether the sender counts duplicate acknowledgements because it has no selective ones. If
    /// the handshake was missed, it is assumed to have them, as nearly all senders do, whether the
    /// capture shows them or not.
    fn counts_duplicates(&self) -> bool {
        self.sack == Some(false) && !self.selective
    }

    /// Whether everything outstanding at the start of loss recovery (`high_seq`) is acknowledged. A
    /// sender that counts duplicates waits until something above that is acknowledged
    /// (`tcp_is_non_sack_preventing_reopen`), and so does one that answered an ECN-Echo
    /// (`tcp_fastretrans_alert`: the receiver has the CWR then).
    fn is_over(&self, repair: &Repair) -> bool {
        let above = self.counts_duplicates() || repair.reduction.cause == Cause::Ecn;
        self.board.una() >= repair.until + u64::from(above)
    }

    /// How much of the data delivered by the acknowledgement that ends loss recovery was new to the
    /// sender. If the capture lacks its selective acknowledgements, the
    /// sender knew about everything outstanding at the start of the repair except its
    /// retransmissions, which arrived last.
    fn completed(&self, repair: &Repair, new_bytes: u64) -> u64 {
        if self.selective || self.counts_duplicates() {
            return new_bytes;
        }
        new_bytes.min(repair.again_bytes + self.board.una().saturating_sub(repair.until))
    }

    fn repaired(&mut self, repair: Repair, new_bytes: u64, all_bytes: u64, now: i64) {
        self.repair = None;
        self.open.round.limits.recovery = true;
        self.close_round(now);
        let round = self.window_trace.rounds.len() as u32;
        let mss = self.window_trace.mss_bytes.max(1) as f32;
        let cleared = all_bytes as f32 / mss;
        if self.board.lost_bytes() > 0 {
            // More was lost since it began: the acknowledgement that ends it begins the next one
            // (`tcp_time_to_recover`), from a window that was never in flight.
            self.window_trace.reductions.push(Reduction { over_ns: now, round, cleared, ..repair.reduction });
            let reduction = Reduction::begun(now, Cause::Recovery, 0.0);
            self.repair = Some(Repair { reduction, until: self.board.nxt(), again_bytes: 0 });
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
        self.after = Some(AfterReduction {
            reduction,
            from: self.board.nxt(),
            from_flight_bytes: self.board.in_flight(),
            flight_bytes: 0,
            acted: false,
            drew_nothing: 0,
        });
    }

    fn timed(&mut self, rtt_us: u32) {
        self.open.rtts.add(rtt_us, &mut self.open.round, &mut self.window_trace.min_rtt_us);
        let rtt = f64::from(rtt_us);
        self.srtt_us = if self.srtt_us == 0.0 { rtt } else { self.srtt_us + (rtt - self.srtt_us) / 8.0 };
    }

    pub(super) fn close_round(&mut self, now: i64) {
        let mss = self.window_trace.mss_bytes.max(1) as f32;
        let open = &mut self.open;
        let round = &mut open.round;
        if round.acks > 0 || round.sent > 0 {
            round.end_ns = now;
            round.window = open.flight_bytes as f32 / mss;
            round.acked = open.acked_bytes as f32 / mss;
            round.rtt_mean_us = open.rtts.mean_us();
            round.spaced = round.end_ns - round.start_ns > 4 * AT_ONCE_NS * i64::from(round.sent.max(1));
            round.limits.recovery |= self.repair.is_some() || round.retransmitted > 0;
            // The data in flight only drains: the window fell below it, or no more was written.
            let drains = round.acked >= MIN_DRAIN && f64::from(round.sent) * 4.0 < f64::from(round.acked);
            round.limits.recovery |= drains && !self.ran_out;
            round.limits.application |= drains && self.ran_out;
            round.limits.receiver |= open.receiver_full && self.scale.is_some();
            round.limits.application |= open.ran_out || open.small * 5 > round.sent || self.fin;
            let kept = self.window_trace.keep(*round);
            if self.repair.is_some() {
                self.observations.repairs(false);
            }
            let room_bytes = self.window_end.saturating_sub(self.board.nxt());
            self.observations.idle(
                !self.board.holds()
                    && self.scale.is_some()
                    && room_bytes < u64::from(self.window_trace.mss_bytes),
            );
            self.observations.close(kept, self.capture_point);
            if kept && self.capture_point != CapturePoint::Sender {
                self.clock.keep(open.ticks);
            }
        }
        self.open = Open::starting(now, self.board.nxt() + 1);
    }
}
