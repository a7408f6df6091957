//! What to transmit next: retransmissions, then new data, limited by window, buffer, pacing and
//! local queue (`tcp_write_xmit`).

use super::timer::Timer;
use super::{CaState, Handshake, Retransmit, Sender};
use crate::cc::CwndEvent;
use crate::recovery::scoreboard::Outstanding;
use crate::segment::{Kind, MSS_BYTES, Segment};
use crate::units::{MICROSECOND, SECOND, after, nanos_between};
use yuzuri_netmodel::Time;

/// Kernel memory of a full segment, bytes (`skb->truesize`); TCP small queues count it.
const TRUESIZE_BYTES: u64 = 2304;

/// The interface queue as seen by the sender.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalQueue {
    /// The sender's segments in the queue.
    pub segments: u32,
    /// The queue is full: a transmission now would be refused (`NET_XMIT_DROP`).
    pub full: bool,
}

impl Sender {
    /// Returns the next segment to send, if any. `local` is the current state of the interface
    /// queue. After `None`, poll again after the next ACK, timer or write, or when the local queue
    /// has drained.
    pub fn poll_transmit(&mut self, now: Time, local: LocalQueue) -> Option<Segment> {
        self.set_now(now);
        if self.handshake != Handshake::Established {
            return self.poll_handshake(now);
        }
        let segment = self.poll_data(now, local);
        if segment.is_none() {
            self.finish_write_xmit(local);
        }
        segment
    }

    fn poll_handshake(&mut self, now: Time) -> Option<Segment> {
        if self.handshake != Handshake::SynDue {
            return None;
        }
        self.handshake = Handshake::SynSent;
        self.syn_sent_at = now;
        self.set_timer(Timer::Retransmission, self.rtt.rto_us() * MICROSECOND);
        Some(Segment::new(self.connection, Kind::Syn, 0, now, Time::ZERO))
    }

    fn poll_data(&mut self, now: Time, local: LocalQueue) -> Option<Segment> {
        if let Some(is_retransmission) = self.tlp_due.take()
            && !local.full
            && let Some(segment) = self.send_loss_probe(now, is_retransmission)
        {
            return Some(segment);
        }
        self.restart_after_idle();
        self.window.in_flight = self.scoreboard.in_flight();
        if self.retransmit == Retransmit::NewFirst && !(self.cwnd_test() && self.may_send_new()) {
            if self.scoreboard.snd_nxt() <= self.high_seq {
                self.frto = false;
                self.retransmit = Retransmit::Lost;
            } else {
                self.retransmit = Retransmit::No;
            }
        }
        if !self.cwnd_test() {
            return None;
        }
        let lost = if self.retransmit == Retransmit::Lost { self.scoreboard.next_lost() } else { None };
        if lost.is_none() && !self.may_send_new() {
            return None;
        }
        if lost.is_none() && self.pacing_check(now) {
            return None;
        }
        if self.small_queue_full(local, lost.is_some()) {
            return None;
        }
        if local.full {
            self.counts.local_congestion += 1;
            self.enter_cwr();
            return None;
        }
        Some(match lost {
            Some(number) => self.retransmit_segment(now, number),
            None => self.send_new(now),
        })
    }

    fn cwnd_test(&self) -> bool {
        self.scoreboard.in_flight() < self.window.cwnd
    }

    /// Whether there is new data that send buffer and receive window allow.
    pub(super) fn may_send_new(&self) -> bool {
        let has_data = self.stream.endless || self.scoreboard.snd_nxt() < self.stream.end;
        let max_packets = (self.config.window_bytes / u64::from(MSS_BYTES)).max(1);
        let in_snd_wnd = self.scoreboard.snd_nxt() < self.wnd_end;
        has_data && in_snd_wnd && u64::from(self.scoreboard.packets_out()) < max_packets
    }

    fn pacing_check(&mut self, now: Time) -> bool {
        // tcp_pacing_check; retransmissions advance the departure time but are not held back here.
        self.held_by_pacing = self.window.paced && now < self.departure && self.burst_left == 0;
        self.held_by_pacing
    }

    /// `tcp_small_queue_check`: two segments, or the pacing rate's time slice; twice as much for
    /// retransmissions.
    fn small_queue_full(&self, local: LocalQueue, is_retransmission: bool) -> bool {
        let Some(shift) = self.config.small_queue_shift else { return false };
        let limit =
            (2 * TRUESIZE_BYTES).max(self.window.pacing_rate >> shift) << u32::from(is_retransmission);
        u64::from(local.segments) * TRUESIZE_BYTES > limit
    }

    fn send_loss_probe(&mut self, now: Time, is_retransmission: bool) -> Option<Segment> {
        let segment = if is_retransmission {
            let last =
                self.scoreboard.snd_nxt().checked_sub(1).filter(|last| *last >= self.scoreboard.snd_una())?;
            self.retransmit_segment(now, last)
        } else if self.may_send_new() {
            self.send_new(now)
        } else {
            return None;
        };
        self.tlp_high_seq = Some((self.scoreboard.snd_nxt(), is_retransmission));
        self.timer = None;
        self.rearm_rto();
        Some(segment)
    }

    fn stamp(&mut self, now: Time) -> Outstanding {
        if self.scoreboard.packets_out() == 0 {
            self.first_sent_at = now;
            self.delivered_at = now;
            self.window.delivered_at_ns = now.as_nanos();
        }
        Outstanding {
            sent_at: now,
            send_epoch: self.events_handled,
            first_sent_at: self.first_sent_at,
            delivered_at: self.delivered_at,
            delivered: self.window.delivered,
            payload_bytes: MSS_BYTES,
            app_limited: self.window.app_limited > 0,
            tx_in_flight: self.scoreboard.in_flight() + 1,
            lost_before: self.window.lost,
            sacked: false,
            lost: false,
            retransmitted: false,
            ever_retransmitted: false,
        }
    }

    fn send_new(&mut self, now: Time) -> Segment {
        let number = self.scoreboard.snd_nxt();
        let idle = self.scoreboard.packets_out() == 0;
        if let Some(last) = self.last_sent.filter(|_| idle) {
            self.cca.cwnd_event(&mut self.window, CwndEvent::TxStart { last_sent_ns: last.as_nanos() });
        }
        let mut stamp = self.stamp(now);
        stamp.payload_bytes = self.stream.payload(number);
        self.scoreboard.push(stamp);
        if self.stream.endless {
            self.stream.end = self.stream.end.max(number + 1);
        }
        if matches!(self.window.state, CaState::Cwr | CaState::Recovery) {
            self.prr.on_sent();
        }
        // tcp_event_new_data_sent
        if idle || matches!(self.timer, Some((_, Timer::TailLossProbe))) {
            self.rearm_rto();
        }
        self.sent_pkts = true;
        self.last_sent = Some(now);
        self.emit(now, number, stamp.payload_bytes)
    }

    fn retransmit_segment(&mut self, now: Time, number: u32) -> Segment {
        let stamp = self.stamp(now);
        let mut payload_bytes = MSS_BYTES;
        self.scoreboard.retransmit(number, |segment| {
            payload_bytes = segment.payload_bytes;
            segment.sent_at = stamp.sent_at;
            segment.send_epoch = stamp.send_epoch;
            segment.first_sent_at = stamp.first_sent_at;
            segment.delivered_at = stamp.delivered_at;
            segment.delivered = stamp.delivered;
            segment.app_limited = stamp.app_limited;
            segment.tx_in_flight = stamp.tx_in_flight;
            segment.lost_before = stamp.lost_before;
        });
        self.counts.retransmissions += 1;
        self.retrans_stamp.get_or_insert(now);
        self.undo_retransmissions = self.undo_retransmissions.max(0) + 1;
        if matches!(self.window.state, CaState::Cwr | CaState::Recovery) {
            self.prr.on_sent();
        }
        // tcp_xmit_retransmit_queue: retransmitting the head restarts the RTO.
        if number == self.scoreboard.snd_una() && !matches!(self.timer, Some((_, Timer::Reordering))) {
            self.set_timer(Timer::Retransmission, self.rtt.rto_us() * MICROSECOND);
        }
        self.sent_pkts = true;
        self.last_sent = Some(now);
        self.emit(now, number, payload_bytes)
    }

    fn emit(&mut self, now: Time, number: u32, payload_bytes: u16) -> Segment {
        self.counts.segments += 1;
        // tcp_update_skb_after_send; the first ten segments are not paced.
        if self.window.paced && self.window.pacing_rate > 0 && self.counts.segments > 10 {
            let interval_ns = (u64::from(payload_bytes) * SECOND).div_ceil(self.window.pacing_rate);
            let late_ns = nanos_between(now, self.departure);
            if self.burst_left == 0 {
                self.burst_left = self.bounds.burst.unwrap_or(1);
            }
            self.burst_left -= 1;
            self.departure = after(self.departure.max(now), interval_ns - late_ns.min(interval_ns / 2));
            self.window.departure_ns = self.departure.as_nanos();
        }
        let mut segment = Segment::new(self.connection, Kind::Data, number, now, self.ts_recent);
        segment.payload_bytes = payload_bytes;
        segment.ect = self.window.ecn;
        segment
    }

    /// The end of `tcp_write_xmit`: schedules the tail-loss probe, validates the window
    /// (`tcp_cwnd_validate`) and marks application-limited senders (`tcp_rate_check_app_limited`).
    fn finish_write_xmit(&mut self, local: LocalQueue) {
        self.sync_window();
        let limited = self.window.in_flight >= self.window.cwnd;
        let packets_out = self.scoreboard.packets_out();
        if self.sent_pkts {
            self.schedule_loss_probe(false);
        }
        if self.sent_pkts || limited {
            self.sent_pkts = false;
            if self.scoreboard.snd_una() >= self.cwnd_usage_seq
                || limited
                || (!self.window.cwnd_limited && packets_out > self.window.max_packets_out)
            {
                self.window.cwnd_limited = limited;
                self.window.max_packets_out = packets_out;
                self.cwnd_usage_seq = self.scoreboard.snd_nxt();
            }
            self.cwnd_validate(packets_out);
        }
        let nothing_to_send = !self.stream.endless && self.scoreboard.snd_nxt() >= self.stream.end;
        if nothing_to_send
            && local.segments == 0
            && !limited
            && self.scoreboard.lost_out <= self.scoreboard.retrans_out
        {
            self.window.app_limited = (self.window.delivered + u64::from(self.window.in_flight)).max(1);
        }
    }

    fn cwnd_validate(&mut self, packets_out: u32) {
        let now = self.now;
        if self.window.is_cwnd_limited() {
            self.cwnd_used = 0;
            self.cwnd_stamp = now;
            return;
        }
        self.cwnd_used = self.cwnd_used.max(packets_out);
        if !self.config.slow_start_after_idle
            || self.cca.controls_all()
            || nanos_between(now, self.cwnd_stamp) < self.rtt.rto_us() * MICROSECOND
        {
            return;
        }
        // tcp_cwnd_application_limited; a full send buffer does not count as application-limited.
        let out_of_data = !self.stream.endless && self.scoreboard.snd_nxt() >= self.stream.end;
        if self.window.state == CaState::Open && out_of_data {
            let used = self.cwnd_used.max(crate::cc::INITIAL_WINDOW);
            if used < self.window.cwnd {
                self.window.ssthresh = self.window.current_ssthresh();
                self.window.cwnd = (self.window.cwnd + used) >> 1;
            }
            self.cwnd_used = 0;
        }
        self.cwnd_stamp = now;
    }

    /// `tcp_slow_start_after_idle_check` and `tcp_cwnd_restart`
    fn restart_after_idle(&mut self) {
        if !self.config.slow_start_after_idle || self.scoreboard.packets_out() > 0 || self.cca.controls_all()
        {
            return;
        }
        let Some(last) = self.last_sent else { return };
        let rto = self.rtt.rto_us() * MICROSECOND;
        let mut idle = nanos_between(self.now, last);
        if idle <= rto || !self.may_send_new() {
            return;
        }
        self.cca.cwnd_event(&mut self.window, CwndEvent::Restart);
        let window = &mut self.window;
        window.ssthresh = window.current_ssthresh();
        let restart = crate::cc::INITIAL_WINDOW.min(window.cwnd);
        while idle > rto && window.cwnd > restart {
            idle -= rto;
            window.cwnd >>= 1;
        }
        window.cwnd = window.cwnd.max(restart);
        self.cwnd_stamp = self.now;
        self.cwnd_used = 0;
        self.last_sent = Some(self.now);
    }
}
