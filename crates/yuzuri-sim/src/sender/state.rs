//! The recovery states: entering and leaving them, and undoing reductions (`tcp_input.c`).

use super::{CaState, Retransmit, Sender};
use crate::cc::{CwndEvent, NO_SSTHRESH};
use crate::recovery::rack::Found;
use yuzuri_netmodel::Time;

impl Sender {
    pub(super) fn note_losses(&mut self, found: &Found) {
        // A lost retransmission counts as a new loss.
        self.tell_losses();
        self.counts.lost_retransmissions += u64::from(found.again);
        self.window.in_flight = self.board.in_flight();
    }

    /// Counts the newly marked losses and notifies the algorithm of each
    /// (`tcp_notify_skb_loss_event`).
    pub(super) fn tell_losses(&mut self) {
        for segment in self.board.take_newly_lost() {
            self.window.lost += 1;
            self.counts.lost += 1;
            self.cca.segment_lost(&mut self.window, &segment);
        }
    }

    /// `tcp_init_undo`
    pub(super) fn start_undo(&mut self) {
        self.undo_marker = Some(self.board.una());
        let probes = matches!(self.probe_end, Some((_, true))) as i64;
        let out = i64::from(self.board.retrans_out).max(probes);
        self.undo_retransmissions = if out > 0 { out } else { -1 };
    }

    /// `tcp_init_cwnd_reduction`
    pub(super) fn start_reduction(&mut self) {
        self.high = self.board.next();
        self.probe_end = None;
        self.window.cwnd_cnt = 0;
        self.window.prior_cwnd = self.window.cwnd;
        self.prr.start();
        self.window.ssthresh = self.bounds.ssthresh(self.cca.as_mut(), &mut self.window);
    }

    /// `tcp_enter_recovery`; a reduction due to ECE cannot be undone.
    pub(super) fn enter_recovery(&mut self, ece: bool) {
        self.counts.recoveries += 1;
        self.prior_ssthresh = 0;
        self.start_undo();
        if self.window.state < CaState::Cwr || self.window.state == CaState::Loss {
            if !ece {
                self.prior_ssthresh = self.window.current_ssthresh();
            }
            self.start_reduction();
        }
        self.set_state(CaState::Recovery);
    }

    /// `tcp_enter_cwr`: the local queue was full, an ACK carried ECE, or the algorithm requested
    /// it.
    pub(super) fn enter_cwr(&mut self) {
        if self.window.state < CaState::Cwr {
            self.prior_ssthresh = 0;
            self.undo_marker = None;
            self.start_reduction();
            self.set_state(CaState::Cwr);
        }
    }

    /// `tcp_end_cwnd_reduction`
    pub(super) fn end_reduction(&mut self) {
        if self.cca.controls_all() {
            return;
        }
        if self.window.ssthresh < NO_SSTHRESH
            && (self.window.state == CaState::Cwr || self.undo_marker.is_some())
        {
            self.window.cwnd = self.window.ssthresh;
            self.used_at = self.now;
        }
        self.cca.cwnd_event(&mut self.window, CwndEvent::Reduced);
    }

    /// `tcp_cwnd_reduction`
    pub(super) fn reduce(&mut self, newly: u32, no_loss: bool) {
        let (in_flight, ssthresh, prior) =
            (self.board.in_flight(), self.window.ssthresh, self.window.prior_cwnd);
        if let Some(cwnd) = self.prr.window(newly, in_flight, ssthresh, prior, no_loss) {
            self.window.cwnd = cwnd.max(1);
        }
    }

    fn any_retransmission(&self) -> bool {
        self.board.retrans_out > 0 || self.board.head().is_some_and(|head| head.ever_retransmitted)
    }

    /// `tcp_try_keep_open`
    pub(super) fn try_keep_open(&mut self) {
        let left_out = self.board.sacked_out + self.board.lost_out;
        let state = if left_out > 0 || self.any_retransmission() { CaState::Disorder } else { CaState::Open };
        if state != self.window.state {
            self.set_state(state);
            self.high = self.board.next();
        }
    }

    /// `tcp_try_to_open`; `ece`: the ACK carries ECE.
    pub(super) fn try_to_open(&mut self, ece: bool) {
        if !self.any_retransmission() {
            self.first_retransmission = None;
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
    fn original_arrived(&self, echo: Time) -> bool {
        self.first_retransmission.is_some_and(|first| Sender::answers_before(echo, first))
    }

    /// Whether there is a reduction that may be undone.
    fn undoing(&self) -> bool {
        self.config.undo && self.undo_marker.is_some()
    }

    /// `tcp_may_undo`
    fn may_undo(&self, echo: Time) -> bool {
        self.undoing() && (self.undo_retransmissions == 0 || self.original_arrived(echo))
    }

    /// `tcp_undo_cwnd_reduction`
    fn undo(&mut self, unmark: bool) {
        if unmark {
            self.board.unmark_lost();
        }
        if self.prior_ssthresh > 0 {
            self.counts.undone += 1;
            self.window.cwnd = self.cca.undo_cwnd(&self.window);
            self.window.ssthresh = self.window.ssthresh.max(self.prior_ssthresh);
        }
        self.used_at = self.now;
        self.undo_marker = None;
        self.rack.judge_again();
    }

    /// `tcp_try_undo_recovery`: moves to Open.
    pub(super) fn end_recovery(&mut self, echo: Time) {
        if self.may_undo(echo) {
            self.undo(false);
        }
        if self.window.state >= CaState::Recovery {
            self.rack.recovery_ended();
        }
        if !self.any_retransmission() {
            self.first_retransmission = None;
        }
        self.set_state(CaState::Open);
    }

    /// `tcp_try_undo_partial`: a delayed original filled a gap. Returns true if nothing is left to
    /// do.
    pub(super) fn try_undo_partial(&mut self, echo: Time) -> bool {
        if !self.undoing() || !self.original_arrived(echo) {
            return false;
        }
        if self.board.retrans_out > 0 {
            return true;
        }
        if !self.any_retransmission() {
            self.first_retransmission = None;
        }
        self.undo(true);
        self.try_keep_open();
        false
    }

    /// `tcp_try_undo_dsack`: all retransmissions were spurious.
    pub(super) fn try_undo_dsack(&mut self) -> bool {
        if self.undoing() && self.undo_retransmissions == 0 {
            self.undo(false);
            return true;
        }
        false
    }

    /// `tcp_try_undo_loss`
    fn try_undo_loss(&mut self, by_frto: bool, echo: Time) -> bool {
        if !by_frto && !self.may_undo(echo) {
            return false;
        }
        self.undo(true);
        self.timeouts_in_row = 0;
        self.set_state(CaState::Open);
        true
    }

    /// `tcp_process_loss`: F-RTO (RFC 5682) and the exit from state Loss.
    pub(super) fn process_loss(
        &mut self,
        echo: Time,
        advanced: bool,
        original: bool,
        sacked: bool,
        duplicate: bool,
    ) {
        let recovered = self.board.una() >= self.high;
        if advanced && self.try_undo_loss(false, echo) {
            return;
        }
        if self.frto {
            if original && self.try_undo_loss(true, echo) {
                return;
            }
            if self.board.next() > self.high {
                if sacked || duplicate {
                    self.frto = false;
                }
            } else if advanced && !recovered {
                self.high = self.board.next();
                if self.may_send_new() {
                    self.retransmit = Retransmit::NewFirst;
                    return;
                }
                self.frto = false;
            }
        }
        if recovered {
            self.end_recovery(echo);
            return;
        }
        self.retransmit = Retransmit::Lost;
    }
}
