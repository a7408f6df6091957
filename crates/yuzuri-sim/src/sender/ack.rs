//! ACK processing (`tcp_ack`).

use super::{CaState, Retransmit, Sender};
use crate::cc::{AckEvent, AckSample, CwndEvent, RateSample, Timestamps};
use crate::recovery::rack::LossDetection;
use crate::recovery::scoreboard::Outstanding;
use crate::segment::Segment;
use crate::units::{MILLISECOND, micros_between};
use yuzuri_netmodel::Time;

/// What an ACK reports (the `FLAG_*` of `tcp_ack`).
#[derive(Clone, Copy, Debug, Default)]
struct AckInfo {
    /// The cumulative acknowledgement advanced.
    snd_una_advanced: bool,
    data_sacked: bool,
    dsacking_ack: bool,
    /// It delivers a segment that was never retransmitted and was sent before the current state
    /// began.
    orig_sack_acked: bool,
    /// It cumulatively acknowledges a retransmitted segment.
    retrans_data_acked: bool,
    set_xmit_timer: bool,
    lost_retrans: bool,
    /// It carries ECE.
    ece: bool,
    /// Segments newly acknowledged cumulatively.
    pkts_acked: u32,
    /// Send times of the first and last never-retransmitted segments among those newly
    /// acknowledged, and among those newly sacked.
    acked_sent_at: Option<(Time, Time)>,
    sacked_sent_at: Option<(Time, Time)>,
    most_recent: Option<(u64, u32)>,
    prior_delivered_at: Option<Time>,
    send_interval_us: u64,
    lost_before: u64,
}

impl Sender {
    pub(super) fn on_ack(&mut self, now: Time, ack: &Segment) {
        let prior_una = self.scoreboard.snd_una();
        if ack.number > self.scoreboard.snd_nxt() {
            return;
        }
        self.last_timestamps = Some(self.timestamps_of(ack));
        let prior_delivered = self.window.delivered;
        let prior_lost = self.window.lost;
        let prior_packets = self.scoreboard.packets_out();
        let mut sample = RateSample { prior_in_flight: self.scoreboard.in_flight(), ..RateSample::default() };
        let ece = ack.ece && self.window.ecn;
        let mut info = AckInfo { snd_una_advanced: ack.number > prior_una, ece, ..AckInfo::default() };
        if info.snd_una_advanced {
            self.consecutive_timeouts = 0;
        }
        let highest_before = self.scoreboard.highest_sacked;
        self.check_dsack(ack, &mut info);
        self.sacktag_write_queue(now, ack, &mut info, &mut sample);
        self.clean_rtx_queue(now, ack, highest_before, &mut info, &mut sample);
        self.sync_window();
        self.ack_update_rtt(now, ack, &mut info, &mut sample);
        if prior_packets > 0 {
            let acked = AckSample {
                acked: info.pkts_acked,
                rtt_us: sample.rtt_us,
                in_flight: (self.window.delivered - sample.prior_delivered) as u32,
                timestamps: self.last_timestamps,
            };
            self.cca.pkts_acked(&mut self.window, &acked);
        }
        let sample_delivered = info.prior_delivered_at.map(|_| sample.prior_delivered);
        self.rack.update_reo_wnd(sample_delivered, self.window.delivered);
        if ece {
            self.window.delivered_ce += self.window.delivered - prior_delivered;
        }
        let slow_path = !info.snd_una_advanced || info.data_sacked || info.dsacking_ack || ece;
        self.cca.in_ack_event(&mut self.window, AckEvent { slow_path, ece });
        self.retransmit = match self.retransmit {
            // Retransmission stays allowed for the rest of the recovery.
            Retransmit::Lost if self.window.state >= CaState::Recovery => Retransmit::Lost,
            _ => Retransmit::No,
        };
        if prior_packets > 0 {
            self.process_tlp_ack(ack, &info);
            let duplicate = !info.snd_una_advanced && !info.data_sacked && !info.dsacking_ack;
            if slow_path || self.window.state != CaState::Open {
                self.fastretrans_alert(ack.echo, duplicate, &mut info);
            }
            if info.set_xmit_timer {
                self.set_xmit_timer();
            }
        }
        self.sync_window();
        self.rate_gen(now, &info, &mut sample, prior_delivered, prior_lost);
        self.cong_control(&info, &sample);
        self.sync_window();
    }

    /// The timestamp option as sent on the wire: whole ms of each host's clock.
    fn timestamps_of(&self, ack: &Segment) -> Timestamps {
        let ms = |at: Time| (at.as_nanos() / MILLISECOND) as u32;
        Timestamps { value_ms: ms(ack.sent_at).wrapping_add(self.ts_offset_ms), echo_ms: ms(ack.echo) }
    }

    fn check_dsack(&mut self, ack: &Segment, info: &mut AckInfo) {
        let Some(number) = ack.dsack else { return };
        info.dsacking_ack = true;
        self.rack.dsack_received();
        if self.undo_retransmissions > 0 && self.undo_marker.is_some_and(|marker| number >= marker) {
            self.undo_retransmissions -= 1;
        }
    }

    fn sacktag_write_queue(&mut self, now: Time, ack: &Segment, info: &mut AckInfo, sample: &mut RateSample) {
        let (snd_una, snd_nxt) = (self.scoreboard.snd_una().max(ack.number), self.scoreboard.snd_nxt());
        let cache = self.recv_sack_cache;
        // Sorted: otherwise a block that follows a higher one would look like reordering.
        let mut blocks = ack.sack;
        let blocks = &mut blocks[..ack.sacked().len()];
        blocks.sort_unstable_by_key(|block| block.start);
        for block in blocks {
            let (mut number, end) = (block.start.max(snd_una), block.end.min(snd_nxt));
            // Most of a block is already known (recv_sack_cache in tcp_sacktag_write_queue).
            let known = cache.iter().find(|old| old.start <= number && number < old.end);
            number = known.map_or(number, |old| old.end);
            while number < end {
                let highest = self.scoreboard.highest_sacked;
                if let Some(segment) = self.scoreboard.sack(number) {
                    info.data_sacked = true;
                    if !segment.ever_retransmitted {
                        if number < highest {
                            self.check_sack_reordering(highest - number);
                        }
                        info.orig_sack_acked |= number < self.high_seq;
                        extend_range(&mut info.sacked_sent_at, segment.sent_at);
                    }
                    self.segment_delivered(now, number, &segment, info, sample);
                }
                number += 1;
            }
        }
        self.recv_sack_cache = ack.sack;
        self.recv_sack_cache[ack.sacked().len()..].fill(crate::segment::Block::default());
    }

    /// `tcp_clean_rtx_queue`; `highest_before` is the highest sacked segment before this ACK.
    fn clean_rtx_queue(
        &mut self,
        now: Time,
        ack: &Segment,
        highest_before: u32,
        info: &mut AckInfo,
        sample: &mut RateSample,
    ) {
        while self.scoreboard.snd_una() < ack.number {
            let number = self.scoreboard.snd_una();
            let Some(segment) = self.scoreboard.pop() else { break };
            self.acked_bytes += u64::from(segment.payload_bytes);
            info.pkts_acked += 1;
            if segment.ever_retransmitted {
                info.retrans_data_acked = true;
            } else if !segment.sacked {
                info.orig_sack_acked |= number < self.high_seq;
                extend_range(&mut info.acked_sent_at, segment.sent_at);
                if number < highest_before {
                    self.check_sack_reordering(highest_before - number);
                }
            }
            if !segment.sacked {
                self.segment_delivered(now, number, &segment, info, sample);
            }
        }
        while self.stream.short.front().is_some_and(|(number, _)| *number < self.scoreboard.snd_una()) {
            self.stream.short.pop_front();
        }
        info.set_xmit_timer = info.snd_una_advanced;
    }

    /// Records a delivered segment in the rate sample (`tcp_rate_skb_delivered`) and in RACK.
    fn segment_delivered(
        &mut self,
        now: Time,
        number: u32,
        segment: &Outstanding,
        info: &mut AckInfo,
        sample: &mut RateSample,
    ) {
        self.window.delivered += 1;
        self.rack.advance(now, number, segment, self.window.min_rtt_us);
        if info.most_recent.is_none_or(|newest| (segment.send_epoch, number) > newest) {
            info.most_recent = Some((segment.send_epoch, number));
            info.prior_delivered_at = Some(segment.delivered_at);
            info.send_interval_us = micros_between(segment.sent_at, segment.first_sent_at);
            sample.prior_delivered = segment.delivered;
            sample.app_limited = segment.app_limited;
            sample.tx_in_flight = segment.tx_in_flight;
            info.lost_before = segment.lost_before;
            self.first_sent_at = segment.sent_at;
        }
    }

    fn check_sack_reordering(&mut self, distance: u32) {
        self.rack.reordering_seen = true;
        // net.ipv4.tcp_max_reordering
        self.rack.reordering = self.rack.reordering.max(distance.min(300));
    }

    /// `tcp_ack_update_rtt`
    fn ack_update_rtt(&mut self, now: Time, ack: &Segment, info: &mut AckInfo, sample: &mut RateSample) {
        let mut rtt = info
            .acked_sent_at
            .filter(|_| !info.retrans_data_acked)
            .map(|(first, last)| (micros_between(now, first), micros_between(now, last)));
        if let Some((first, last)) = info.sacked_sent_at {
            let sacked = (micros_between(now, first), micros_between(now, last));
            rtt = Some((rtt.map_or(sacked.0, |(first, _)| first), sacked.1));
            if let Some(head) = self.scoreboard.head()
                && !info.snd_una_advanced
                && sacked.0 > micros_between(now, head.sent_at)
            {
                // The head is overdue: rearm the timer from its send time (FLAG_SET_XMIT_TIMER).
                info.set_xmit_timer = true;
            }
        }
        if rtt.is_none() && info.snd_una_advanced && ack.echo > Time::ZERO {
            let by_timestamp = Sender::rtt_by_timestamps_us(now, ack.echo);
            rtt = Some((by_timestamp, by_timestamp));
        }
        let Some((first, last)) = rtt else { return };
        sample.rtt_us = Some(last);
        self.last_rtt_us = Some(first);
        self.window.min_rtt_us = Some(self.window.min_rtt_us.map_or(last, |min_rtt| min_rtt.min(last)));
        self.rtt.sample(first, self.scoreboard.snd_una(), self.scoreboard.snd_nxt());
        self.window.srtt_us = self.rtt.srtt_us();
    }

    /// `tcp_process_tlp_ack`
    fn process_tlp_ack(&mut self, ack: &Segment, info: &AckInfo) {
        let Some((tlp_high_seq, is_retransmission)) =
            self.tlp_high_seq.filter(|(high_seq, _)| ack.number >= *high_seq)
        else {
            return;
        };
        if !is_retransmission || info.dsacking_ack {
            // Acknowledged new data, or a DSACK for the probe: no loss.
            self.tlp_high_seq = None;
        } else if ack.number > tlp_high_seq {
            // The probe repaired a loss: reduce the window as for any loss.
            self.cca.cwnd_event(&mut self.window, CwndEvent::ProbeRepaired);
            self.init_cwnd_reduction();
            self.set_state(CaState::Cwr);
            self.end_cwnd_reduction();
            self.try_keep_open();
        } else if !info.snd_una_advanced && !info.data_sacked {
            self.tlp_high_seq = None;
        }
    }

    /// `tcp_fastretrans_alert`
    fn fastretrans_alert(&mut self, tsecr: Time, duplicate: bool, info: &mut AckInfo) {
        if info.ece {
            self.prior_ssthresh = 0;
        }
        match self.window.state {
            CaState::Open => self.retrans_stamp = None,
            state if self.scoreboard.snd_una() >= self.high_seq => match state {
                CaState::Cwr if self.scoreboard.snd_una() != self.high_seq => {
                    self.end_cwnd_reduction();
                    self.set_state(CaState::Open);
                }
                CaState::Recovery => {
                    self.try_undo_recovery(tsecr);
                    self.end_cwnd_reduction();
                }
                _ => {}
            },
            _ => {}
        }
        match self.window.state {
            CaState::Recovery => {
                if info.snd_una_advanced && self.try_undo_partial(tsecr) {
                    return;
                }
                if self.try_undo_dsack() {
                    self.try_to_open(info.ece);
                }
                self.identify_packet_loss(info);
                if self.window.state != CaState::Recovery {
                    if self.scoreboard.lost_out == 0 {
                        return;
                    }
                    self.enter_recovery(info.ece);
                }
            }
            CaState::Loss => {
                self.process_loss(
                    tsecr,
                    info.snd_una_advanced,
                    info.orig_sack_acked,
                    info.data_sacked,
                    duplicate,
                );
                self.identify_packet_loss(info);
                if !(self.window.state == CaState::Open || info.lost_retrans) {
                    return;
                }
                if !self.recover_or_open(info.ece) {
                    return;
                }
            }
            _ => {
                if self.window.state <= CaState::Disorder {
                    self.try_undo_dsack();
                }
                self.identify_packet_loss(info);
                if !self.recover_or_open(info.ece) {
                    return;
                }
            }
        }
        self.retransmit = Retransmit::Lost;
    }

    /// Enters recovery and returns true if segments are marked lost. Otherwise moves to Open or
    /// Disorder, or to CWR on ECE.
    fn recover_or_open(&mut self, ece: bool) -> bool {
        if self.scoreboard.lost_out == 0 {
            self.try_to_open(ece);
            return false;
        }
        self.enter_recovery(ece);
        true
    }

    fn identify_packet_loss(&mut self, info: &mut AckInfo) {
        if self.scoreboard.packets_out() == 0 {
            return;
        }
        if !self.config.rack {
            let lost = self.scoreboard.mark_lost_by_sacks(crate::recovery::rack::DUP_THRESH);
            self.account_losses(&LossDetection { lost, lost_retransmissions: 0, reo_timeout_ns: 0 });
            return;
        }
        let loss_context = self.loss_context();
        let Some(detection) = self.rack.mark_lost(&mut self.scoreboard, &loss_context) else { return };
        self.account_losses(&detection);
        info.lost_retrans |= detection.lost_retransmissions > 0;
        if detection.reo_timeout_ns > 0 {
            self.set_reordering_timer(detection.reo_timeout_ns);
            info.set_xmit_timer = false;
        }
    }

    /// `tcp_rate_gen`
    fn rate_gen(
        &mut self,
        now: Time,
        info: &AckInfo,
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
        let Some(prior_delivered_at) = info.prior_delivered_at else { return };
        sample.lost = self.window.lost - info.lost_before;
        sample.delivered = Some(self.window.delivered - sample.prior_delivered);
        sample.interval_us = info.send_interval_us.max(micros_between(now, prior_delivered_at));
        if self.window.min_rtt_us.is_some_and(|min_rtt| sample.interval_us < min_rtt) {
            sample.delivered = None;
            sample.interval_us = 0;
        }
    }

    /// `tcp_cong_control`
    fn cong_control(&mut self, info: &AckInfo, sample: &RateSample) {
        if self.cca.controls_all() {
            self.bounds.cong_control(self.cca.as_mut(), &mut self.window, sample);
            return;
        }
        if matches!(self.window.state, CaState::Cwr | CaState::Recovery) {
            self.cwnd_reduction(sample.acked, info.snd_una_advanced && sample.losses == 0);
        } else if info.snd_una_advanced || (info.data_sacked && self.rack.reordering_seen) {
            self.bounds.cong_avoid(self.cca.as_mut(), &mut self.window, sample.acked);
            if std::mem::take(&mut self.window.cwr_wanted) {
                self.enter_cwr();
            }
        }
        self.update_pacing_rate();
    }
}

fn extend_range(range: &mut Option<(Time, Time)>, sent_at: Time) {
    let (first, last) = range.unwrap_or((sent_at, sent_at));
    *range = Some((first.min(sent_at), last.max(sent_at)));
}
