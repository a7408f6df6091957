//! The recovery states: entering and leaving them, and undoing reductions (`tcp_input.c`).

use super::{CaState, Retransmit, Sender};
use crate::cc::{CwndEvent, NO_SSTHRESH};
use crate::recovery::rack::LossDetection;
use yuzuri_netmodel::Time;

impl Sender {
    pub(super) fn account_losses(&mut self, detection: &LossDetection) {
        // A lost retransmission counts as a new loss.
        self.notify_losses();
        self.counts.lost_retransmissions += u64::from(detection.lost_retransmissions);
        self.window.in_flight = self.scoreboard.in_flight();
    }

    /// Counts the newly marked losses and notifies the algorithm of each
    /// (`tcp_notify_skb_loss_event`).
    pub(super) fn notify_losses(&mut self) {
        for segment in self.scoreboard.take_newly_lost() {
            self.window.lost += 1;
            self.counts.lost += 1;
            self.cca.segment_lost(&mut self.window, &segment);
        }
    }

    /// `tcp_init_undo`
    pub(super) fn init_undo(&mut self) {
        self.undo_marker = Some(self.scoreboard.snd_una());
        let tlp_out = matches!(self.tlp_high_seq, Some((_, true))) as i64;
        let out = i64::from(self.scoreboard.retrans_out).max(tlp_out);
        self.undo_retransmissions = if out > 0 { out } else { -1 };
    }

    /// `tcp_init_cwnd_reduction`
    pub(super) fn init_cwnd_reduction(&mut self) {
        self.high_seq = self.scoreboard.snd_nxt();
        self.tlp_high_seq = None;
        self.window.cwnd_cnt = 0;
        self.window.prior_cwnd = self.window.cwnd;
        self.prr.start();
        self.window.ssthresh = self.bounds.ssthresh(self.cca.as_mut(), &mut self.window);
    }

    /// `tcp_enter_recovery`; a reduction due to ECE cannot be undone.
    pub(super) fn enter_recovery(&mut self, ece: bool) {
        self.counts.recoveries += 1;
        self.prior_ssthresh = 0;
        self.init_undo();
        if self.window.state < CaState::Cwr || self.window.state == CaState::Loss {
            if !ece {
                self.prior_ssthresh = self.window.current_ssthresh();
            }
            self.init_cwnd_reduction();
        }
        self.set_state(CaState::Recovery);
    }

    /// `tcp_enter_cwr`: the local queue was full, an ACK carried ECE, or the algorithm requested
    /// it.
    pub(super) fn enter_cwr(&mut self) {
        if self.window.state < CaState::Cwr {
            self.prior_ssthresh = 0;
            self.undo_marker = None;
            self.init_cwnd_reduction();
            self.set_state(CaState::Cwr);
        }
    }

    /// `tcp_end_cwnd_reduction`
    pub(super) fn end_cwnd_reduction(&mut self) {
        if self.cca.controls_all() {
            return;
        }
        if self.window.ssthresh < NO_SSTHRESH
            && (self.window.state == CaState::Cwr || self.undo_marker.is_some())
        {
            self.window.cwnd = self.window.ssthresh;
            self.cwnd_stamp = self.now;
        }
        self.cca.cwnd_event(&mut self.window, CwndEvent::Reduced);
    }

    /// `tcp_cwnd_reduction`
    pub(super) fn cwnd_reduction(&mut self, newly_delivered: u32, no_loss: bool) {
        let (in_flight, ssthresh, prior) =
            (self.scoreboard.in_flight(), self.window.ssthresh, self.window.prior_cwnd);
        if let Some(cwnd) = self.prr.cwnd(newly_delivered, in_flight, ssthresh, prior, no_loss) {
            self.window.cwnd = cwnd.max(1);
        }
    }

    fn any_retrans_done(&self) -> bool {
        self.scoreboard.retrans_out > 0 || self.scoreboard.head().is_some_and(|head| head.ever_retransmitted)
    }

    /// `tcp_try_keep_open`
    pub(super) fn try_keep_open(&mut self) {
        let left_out = self.scoreboard.sacked_out + self.scoreboard.lost_out;
        let state = if left_out > 0 || self.any_retrans_done() { CaState::Disorder } else { CaState::Open };
        if state != self.window.state {
            self.set_state(state);
            self.high_seq = self.scoreboard.snd_nxt();
        }
    }

    /// `tcp_try_to_open`; `ece`: the ACK carries ECE.
    pub(super) fn try_to_open(&mut self, ece: bool) {
        if !self.any_retrans_done() {
            self.retrans_stamp = None;
        }
        if ece {
            self.enter_cwr();
        }
        if self.window.state != CaState::Cwr {
            self.try_keep_open();
        }
    }

    /// Whether the ACK answers a segment sent before the first retransmission (Eifel, RFC 3522;
    /// `tcp_packet_delayed`).
    fn packet_delayed(&self, tsecr: Time) -> bool {
        self.retrans_stamp.is_some_and(|first| Sender::tsecr_before(tsecr, first))
    }

    /// Whether there is a reduction that may be undone.
    fn undo_marker_set(&self) -> bool {
        self.config.undo && self.undo_marker.is_some()
    }

    /// `tcp_may_undo`
    fn may_undo(&self, tsecr: Time) -> bool {
        self.undo_marker_set() && (self.undo_retransmissions == 0 || self.packet_delayed(tsecr))
    }

    /// `tcp_undo_cwnd_reduction`
    fn undo_cwnd_reduction(&mut self, clear_loss_marks: bool) {
        if clear_loss_marks {
            self.scoreboard.clear_loss_marks();
        }
        if self.prior_ssthresh > 0 {
            self.counts.undone += 1;
            self.window.cwnd = self.cca.undo_cwnd(&self.window);
            self.window.ssthresh = self.window.ssthresh.max(self.prior_ssthresh);
        }
        self.cwnd_stamp = self.now;
        self.undo_marker = None;
        self.rack.force_detection();
    }

    /// `tcp_try_undo_recovery`: moves to Open.
    pub(super) fn try_undo_recovery(&mut self, tsecr: Time) {
        if self.may_undo(tsecr) {
            self.undo_cwnd_reduction(false);
        }
        if self.window.state >= CaState::Recovery {
            self.rack.recovery_ended();
        }
        if !self.any_retrans_done() {
            self.retrans_stamp = None;
        }
        self.set_state(CaState::Open);
    }

    /// `tcp_try_undo_partial`: a delayed original filled a gap. Returns true if nothing is left to
    /// do.
    pub(super) fn try_undo_partial(&mut self, tsecr: Time) -> bool {
        if !self.undo_marker_set() || !self.packet_delayed(tsecr) {
            return false;
        }
        if self.scoreboard.retrans_out > 0 {
            return true;
        }
        if !self.any_retrans_done() {
            self.retrans_stamp = None;
        }
        self.undo_cwnd_reduction(true);
        self.try_keep_open();
        false
    }

    /// `tcp_try_undo_dsack`: all retransmissions were spurious.
    pub(super) fn try_undo_dsack(&mut self) -> bool {
        if self.undo_marker_set() && self.undo_retransmissions == 0 {
            self.undo_cwnd_reduction(false);
            return true;
        }
        false
    }

    /// `tcp_try_undo_loss`
    fn try_undo_loss(&mut self, by_frto: bool, tsecr: Time) -> bool {
        if !by_frto && !self.may_undo(tsecr) {
            return false;
        }
        self.undo_cwnd_reduction(true);
        self.consecutive_timeouts = 0;
        self.set_state(CaState::Open);
        true
    }

    /// `tcp_process_loss`: F-RTO (RFC 5682) and the exit from state Loss.
    pub(super) fn process_loss(
        &mut self,
        tsecr: Time,
        snd_una_advanced: bool,
        orig_sack_acked: bool,
        data_sacked: bool,
        duplicate: bool,
    ) {
        let recovered = self.scoreboard.snd_una() >= self.high_seq;
        if snd_una_advanced && self.try_undo_loss(false, tsecr) {
            return;
        }
        if self.frto {
            if orig_sack_acked && self.try_undo_loss(true, tsecr) {
                return;
            }
            if self.scoreboard.snd_nxt() > self.high_seq {
                if data_sacked || duplicate {
                    self.frto = false;
                }
            } else if snd_una_advanced && !recovered {
                self.high_seq = self.scoreboard.snd_nxt();
                if self.may_send_new() {
                    self.retransmit = Retransmit::NewFirst;
                    return;
                }
                self.frto = false;
            }
        }
        if recovered {
            self.try_undo_recovery(tsecr);
            return;
        }
        self.retransmit = Retransmit::Lost;
    }
}
