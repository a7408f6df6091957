//! ACK processing (`tcp_ack`).

use super::{CaState, Retransmit, Sender};
use crate::cc::{AckEvent, AckSample, CwndEvent, RateSample, Timestamps};
use crate::recovery::rack::Found;
use crate::recovery::scoreboard::Outstanding;
use crate::segment::Segment;
use crate::units::{MILLISECOND, micros_between};
use yuzuri_netmodel::Time;

/// What an ACK reports (the `FLAG_*` of `tcp_ack`).
#[derive(Clone, Copy, Debug, Default)]
struct Brought {
    /// The cumulative acknowledgement advanced.
    advanced: bool,
    sacked: bool,
    dsack: bool,
    /// It delivers a segment that was never retransmitted and was sent before the current state
    /// began.
    original: bool,
    /// It cumulatively acknowledges a retransmitted segment.
    retransmitted: bool,
    set_timer: bool,
    lost_again: bool,
    /// It carries ECE.
    ece: bool,
    /// Segments newly acknowledged cumulatively.
    acked: u32,
    /// Send times of the first and last never-retransmitted segments among those newly
    /// acknowledged, and among those newly sacked.
    acked_sent: Option<(Time, Time)>,
    sacked_sent: Option<(Time, Time)>,
    newest: Option<(u64, u32)>,
    prior_at: Option<Time>,
    send_interval_us: u64,
    lost_before: u64,
}

impl Sender {
    pub(super) fn on_ack(&mut self, now: Time, ack: &Segment) {
        let prior_una = self.board.una();
        if ack.number > self.board.next() {
            return;
        }
        let prior_delivered = self.window.delivered;
        let prior_lost = self.window.lost;
        let prior_packets = self.board.packets_out();
        let mut sample = RateSample { prior_in_flight: self.board.in_flight(), ..RateSample::default() };
        let ece = ack.ece && self.window.ecn;
        let mut brought = Brought { advanced: ack.number > prior_una, ece, ..Brought::default() };
        if brought.advanced {
            self.timeouts_in_row = 0;
        }
        let highest_before = self.board.highest_sacked;
        self.take_dsack(ack, &mut brought);
        self.take_sacks(now, ack, &mut brought, &mut sample);
        self.take_cumulative(now, ack, highest_before, &mut brought, &mut sample);
        self.refresh();
        self.take_rtt(now, ack, &mut brought, &mut sample);
        if prior_packets > 0 {
            let acked = AckSample {
                acked: brought.acked,
                rtt_us: sample.rtt_us,
                in_flight: (self.window.delivered - sample.prior_delivered) as u32,
                timestamps: Some(self.timestamps(ack)),
            };
            self.cca.pkts_acked(&mut self.window, &acked);
        }
        let reference = brought.prior_at.map(|_| sample.prior_delivered);
        self.rack.update_window(reference, self.window.delivered);
        if ece {
            self.window.delivered_ce += self.window.delivered - prior_delivered;
        }
        let slow_path = !brought.advanced || brought.sacked || brought.dsack || ece;
        self.cca.in_ack_event(&mut self.window, AckEvent { slow_path, ece });
        self.retransmit = match self.retransmit {
            // Retransmission stays allowed for the rest of the recovery.
            Retransmit::Lost if self.window.state >= CaState::Recovery => Retransmit::Lost,
            _ => Retransmit::No,
        };
        if prior_packets > 0 {
            self.take_probe_answer(ack, &brought);
            let duplicate = !brought.advanced && !brought.sacked && !brought.dsack;
            if slow_path || self.window.state != CaState::Open {
                self.judge(ack.echo, duplicate, &mut brought);
            }
            if brought.set_timer {
                self.set_transmit_timer();
            }
        }
        self.refresh();
        self.finish_sample(now, &brought, &mut sample, prior_delivered, prior_lost);
        self.control(&brought, &sample);
        self.refresh();
    }

    /// The timestamp option as sent on the wire: whole ms of each host's clock.
    fn timestamps(&self, ack: &Segment) -> Timestamps {
        let ms = |at: Time| (at.as_nanos() / MILLISECOND) as u32;
        Timestamps { value_ms: ms(ack.sent_at).wrapping_add(self.clock_offset_ms), echo_ms: ms(ack.echo) }
    }

    fn take_dsack(&mut self, ack: &Segment, brought: &mut Brought) {
        let Some(number) = ack.dsack else { return };
        brought.dsack = true;
        self.rack.saw_duplicate();
        if self.undo_retransmissions > 0 && self.undo_marker.is_some_and(|marker| number >= marker) {
            self.undo_retransmissions -= 1;
        }
    }

    fn take_sacks(&mut self, now: Time, ack: &Segment, brought: &mut Brought, sample: &mut RateSample) {
        let (una, next) = (self.board.una().max(ack.number), self.board.next());
        let before = self.last_blocks;
        // Sorted: otherwise a block that follows a higher one would look like reordering.
        let mut blocks = ack.sack;
        let blocks = &mut blocks[..ack.sacked().len()];
        blocks.sort_unstable_by_key(|block| block.start);
        for block in blocks {
            let (mut number, end) = (block.start.max(una), block.end.min(next));
            // Most of a block is already known (recv_sack_cache in tcp_sacktag_write_queue).
            let known = before.iter().find(|old| old.start <= number && number < old.end);
            number = known.map_or(number, |old| old.end);
            while number < end {
                let highest = self.board.highest_sacked;
                if let Some(segment) = self.board.sack(number) {
                    brought.sacked = true;
                    if !segment.ever_retransmitted {
                        if number < highest {
                            self.saw_reordering(highest - number);
                        }
                        brought.original |= number < self.high;
                        widen(&mut brought.sacked_sent, segment.sent_at);
                    }
                    self.deliver(now, number, &segment, brought, sample);
                }
                number += 1;
            }
        }
        self.last_blocks = ack.sack;
        self.last_blocks[ack.sacked().len()..].fill(crate::segment::Block::default());
    }

    /// `tcp_clean_rtx_queue`; `highest_before` is the highest sacked segment before this ACK.
    fn take_cumulative(
        &mut self,
        now: Time,
        ack: &Segment,
        highest_before: u32,
        brought: &mut Brought,
        sample: &mut RateSample,
    ) {
        while self.board.una() < ack.number {
            let number = self.board.una();
            let Some(segment) = self.board.pop() else { break };
            self.acked_bytes += u64::from(segment.payload_bytes);
            brought.acked += 1;
            if segment.ever_retransmitted {
                brought.retransmitted = true;
            } else if !segment.sacked {
                brought.original |= number < self.high;
                widen(&mut brought.acked_sent, segment.sent_at);
                if number < highest_before {
                    self.saw_reordering(highest_before - number);
                }
            }
            if !segment.sacked {
                self.deliver(now, number, &segment, brought, sample);
            }
        }
        while self.stream.short.front().is_some_and(|(number, _)| *number < self.board.una()) {
            self.stream.short.pop_front();
        }
        brought.set_timer = brought.advanced;
    }

    /// Records a delivered segment in the rate sample (`tcp_rate_skb_delivered`) and in RACK.
    fn deliver(
        &mut self,
        now: Time,
        number: u32,
        segment: &Outstanding,
        brought: &mut Brought,
        sample: &mut RateSample,
    ) {
        self.window.delivered += 1;
        self.rack.advance(now, number, segment, self.window.min_rtt_us);
        if brought.newest.is_none_or(|newest| (segment.sent_on, number) > newest) {
            brought.newest = Some((segment.sent_on, number));
            brought.prior_at = Some(segment.delivered_at);
            brought.send_interval_us = micros_between(segment.sent_at, segment.first_sent_at);
            sample.prior_delivered = segment.delivered;
            sample.app_limited = segment.app_limited;
            sample.tx_in_flight = segment.tx_in_flight;
            brought.lost_before = segment.lost_before;
            self.first_sent_at = segment.sent_at;
        }
    }

    fn saw_reordering(&mut self, degree: u32) {
        self.rack.reordering_seen = true;
        // net.ipv4.tcp_max_reordering
        self.rack.reordering = self.rack.reordering.max(degree.min(300));
    }

    /// `tcp_ack_update_rtt`
    fn take_rtt(&mut self, now: Time, ack: &Segment, brought: &mut Brought, sample: &mut RateSample) {
        let mut rtt = brought
            .acked_sent
            .filter(|_| !brought.retransmitted)
            .map(|(first, last)| (micros_between(now, first), micros_between(now, last)));
        if let Some((first, last)) = brought.sacked_sent {
            let sacked = (micros_between(now, first), micros_between(now, last));
            rtt = Some((rtt.map_or(sacked.0, |(first, _)| first), sacked.1));
            if let Some(head) = self.board.head()
                && !brought.advanced
                && sacked.0 > micros_between(now, head.sent_at)
            {
                // The head is overdue: rearm the timer from its send time (FLAG_SET_XMIT_TIMER).
                brought.set_timer = true;
            }
        }
        if rtt.is_none() && brought.advanced && ack.echo > Time::ZERO {
            let by_timestamp = Sender::micros_by_timestamps(now, ack.echo);
            rtt = Some((by_timestamp, by_timestamp));
        }
        let Some((first, last)) = rtt else { return };
        sample.rtt_us = Some(last);
        self.last_rtt_us = Some(first);
        self.window.min_rtt_us = Some(self.window.min_rtt_us.map_or(last, |least| least.min(last)));
        self.rtt.sample(first, self.board.una(), self.board.next());
        self.window.srtt_us = self.rtt.srtt_us();
    }

    /// `tcp_process_tlp_ack`
    fn take_probe_answer(&mut self, ack: &Segment, brought: &Brought) {
        let Some((end, again)) = self.probe_end.filter(|(end, _)| ack.number >= *end) else { return };
        if !again || brought.dsack {
            // Acknowledged new data, or a DSACK for the probe: no loss.
            self.probe_end = None;
        } else if ack.number > end {
            // The probe repaired a loss: reduce the window as for any loss.
            self.cca.cwnd_event(&mut self.window, CwndEvent::ProbeRepaired);
            self.start_reduction();
            self.set_state(CaState::Cwr);
            self.end_reduction();
            self.try_keep_open();
        } else if !brought.advanced && !brought.sacked {
            self.probe_end = None;
        }
    }

    /// `tcp_fastretrans_alert`
    fn judge(&mut self, echo: Time, duplicate: bool, brought: &mut Brought) {
        if brought.ece {
            self.prior_ssthresh = 0;
        }
        match self.window.state {
            CaState::Open => self.first_retransmission = None,
            state if self.board.una() >= self.high => match state {
                CaState::Cwr if self.board.una() != self.high => {
                    self.end_reduction();
                    self.set_state(CaState::Open);
                }
                CaState::Recovery => {
                    self.end_recovery(echo);
                    self.end_reduction();
                }
                _ => {}
            },
            _ => {}
        }
        match self.window.state {
            CaState::Recovery => {
                if brought.advanced && self.try_undo_partial(echo) {
                    return;
                }
                if self.try_undo_dsack() {
                    self.try_to_open(brought.ece);
                }
                self.find_losses(brought);
                if self.window.state != CaState::Recovery {
                    if self.board.lost_out == 0 {
                        return;
                    }
                    self.enter_recovery(brought.ece);
                }
            }
            CaState::Loss => {
                self.process_loss(echo, brought.advanced, brought.original, brought.sacked, duplicate);
                self.find_losses(brought);
                if !(self.window.state == CaState::Open || brought.lost_again) {
                    return;
                }
                if !self.recover_or_open(brought.ece) {
                    return;
                }
            }
            _ => {
                if self.window.state <= CaState::Disorder {
                    self.try_undo_dsack();
                }
                self.find_losses(brought);
                if !self.recover_or_open(brought.ece) {
                    return;
                }
            }
        }
        self.retransmit = Retransmit::Lost;
    }

    /// Enters recovery and returns true if segments are marked lost. Otherwise moves to Open or
    /// Disorder, or to CWR on ECE.
    fn recover_or_open(&mut self, ece: bool) -> bool {
        if self.board.lost_out == 0 {
            self.try_to_open(ece);
            return false;
        }
        self.enter_recovery(ece);
        true
    }

    fn find_losses(&mut self, brought: &mut Brought) {
        if self.board.packets_out() == 0 {
            return;
        }
        if !self.config.rack {
            let lost = self.board.mark_lost_by_sacks(crate::recovery::rack::DUPLICATE_THRESHOLD);
            self.note_losses(&Found { lost, again: 0, wait_ns: 0 });
            return;
        }
        let situation = self.situation();
        let Some(found) = self.rack.detect(&mut self.board, &situation) else { return };
        self.note_losses(&found);
        brought.lost_again |= found.again > 0;
        if found.wait_ns > 0 {
            self.set_reordering_timer(found.wait_ns);
            brought.set_timer = false;
        }
    }

    /// `tcp_rate_gen`
    fn finish_sample(
        &mut self,
        now: Time,
        brought: &Brought,
        sample: &mut RateSample,
        prior_delivered: u64,
        prior_lost: u64,
    ) {
        if self.window.app_limited > 0 && self.window.delivered > self.window.app_limited {
            self.window.app_limited = 0;
        }
        sample.acked = (self.window.delivered - prior_delivered) as u32;
        sample.losses = (self.window.lost - prior_lost) as u32;
        if sample.acked > 0 {
            self.delivered_at = now;
            self.window.delivered_at_ns = now.as_nanos();
        }
        let Some(prior_at) = brought.prior_at else { return };
        sample.lost = self.window.lost - brought.lost_before;
        sample.delivered = Some(self.window.delivered - sample.prior_delivered);
        sample.interval_us = brought.send_interval_us.max(micros_between(now, prior_at));
        if self.window.min_rtt_us.is_some_and(|least| sample.interval_us < least) {
            sample.delivered = None;
            sample.interval_us = 0;
        }
    }

    /// `tcp_cong_control`
    fn control(&mut self, brought: &Brought, sample: &RateSample) {
        if self.cca.controls_all() {
            self.bounds.cong_control(self.cca.as_mut(), &mut self.window, sample);
            return;
        }
        if matches!(self.window.state, CaState::Cwr | CaState::Recovery) {
            self.reduce(sample.acked, brought.advanced && sample.losses == 0);
        } else if brought.advanced || (brought.sacked && self.rack.reordering_seen) {
            self.bounds.cong_avoid(self.cca.as_mut(), &mut self.window, sample.acked);
            if std::mem::take(&mut self.window.cwr_wanted) {
                self.enter_cwr();
            }
        }
        self.update_pacing_rate();
    }
}

fn widen(range: &mut Option<(Time, Time)>, sent_at: Time) {
    let (first, last) = range.unwrap_or((sent_at, sent_at));
    *range = Some((first.min(sent_at), last.max(sent_at)));
}
