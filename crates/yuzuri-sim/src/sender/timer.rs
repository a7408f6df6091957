//! The sender's only timer: RTO (RFC 6298), tail-loss probe (RFC 8985, section 7) or RACK's
//! reordering timeout.

use super::{CaState, Handshake, Retransmit, Sender};
use crate::cc::CwndEvent;
use crate::recovery::rack::Situation;
use crate::recovery::rtt::RttEstimator;
use crate::units::{MICROSECOND, SECOND, after};
use yuzuri_netmodel::Time;

/// The timer's purpose (`icsk_pending`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    Retransmission,
    TailLossProbe,
    Reordering,
}

impl Sender {
    /// When [`on_timer`](Sender::on_timer) must be called. The time may move later without notice;
    /// an early call is harmless.
    pub fn next_timer(&self) -> Option<Time> {
        let timer = self.timer.map(|(at, _)| at);
        let departure = self.held_by_pacing.then_some(self.departure);
        match (timer, departure) {
            (Some(timer), Some(departure)) => Some(timer.min(departure)),
            (timer, departure) => timer.or(departure),
        }
    }

    /// Advances the time and handles an expired timer.
    pub fn on_timer(&mut self, now: Time) {
        self.set_now(now);
        self.handled += 1;
        if self.held_by_pacing && now >= self.departure {
            self.held_by_pacing = false;
        }
        let Some((_, timer)) = self.timer.take_if(|(at, _)| *at <= now) else { return };
        if self.handshake == Handshake::SynSent {
            self.timeouts_in_row += 1;
            self.rtt.back_off();
            self.handshake = Handshake::SynDue;
            return;
        }
        match timer {
            Timer::Retransmission => self.on_retransmission_timeout(now),
            Timer::TailLossProbe => self.on_probe_timeout(now),
            Timer::Reordering => self.on_reordering_timeout(now),
        }
        self.refresh();
    }

    pub(super) fn set_timer(&mut self, timer: Timer, nanos: u64) {
        self.timer = Some((after(self.now, nanos), timer));
    }

    /// Two ticks (`TCP_TIMEOUT_MIN`), ns.
    fn min_timeout(&self) -> u64 {
        2 * SECOND / u64::from(self.window.hz)
    }

    /// Time until the RTO of the head, ns (`tcp_rto_delta_us`).
    fn rto_left(&self) -> u64 {
        let sent_at = self.board.head().map_or(self.now, |head| head.sent_at);
        let due = after(sent_at, self.rtt.rto_us() * MICROSECOND);
        due.as_nanos().saturating_sub(self.now.as_nanos())
    }

    /// `tcp_rearm_rto`
    pub(super) fn rearm_rto(&mut self) {
        if self.board.packets_out() == 0 {
            self.timer = None;
            return;
        }
        let nanos = match self.timer {
            Some((_, Timer::Reordering | Timer::TailLossProbe)) => self.rto_left().max(MICROSECOND),
            _ => self.rtt.rto_us() * MICROSECOND,
        };
        self.set_timer(Timer::Retransmission, nanos);
    }

    /// `tcp_set_xmit_timer`
    pub(super) fn set_transmit_timer(&mut self) {
        if !self.schedule_probe(true) {
            self.rearm_rto();
        }
    }

    /// `tcp_schedule_loss_probe`: after two round trips without an ACK; not in recovery.
    pub(super) fn schedule_probe(&mut self, advancing: bool) -> bool {
        let wanted = self.config.rack && matches!(self.window.state, CaState::Open | CaState::Cwr);
        if self.board.packets_out() == 0 || !wanted {
            return false;
        }
        let mut nanos = SECOND;
        if self.window.srtt_us > 0 {
            nanos = 2 * self.window.srtt_us * MICROSECOND;
            nanos += if self.board.packets_out() == 1 {
                RttEstimator::min_rto_us() * MICROSECOND
            } else {
                self.min_timeout()
            };
        }
        let rto = if advancing { self.rtt.rto_us() * MICROSECOND } else { self.rto_left() };
        if rto > 0 {
            nanos = nanos.min(rto);
        }
        self.set_timer(Timer::TailLossProbe, nanos);
        true
    }

    pub(super) fn set_reordering_timer(&mut self, wait_ns: u64) {
        self.set_timer(Timer::Reordering, wait_ns + self.min_timeout());
    }

    /// `tcp_send_loss_probe`: sends new data if there is any, else retransmits the last segment.
    /// One probe per tail.
    fn on_probe_timeout(&mut self, _now: Time) {
        if self.board.packets_out() == 0 {
            return;
        }
        if self.probe_end.is_none() {
            self.counts.probes += 1;
            // The next poll sends it regardless of the window; what it sends determines the end of
            // the episode.
            self.probe_due = Some(!self.may_send_new());
        }
        self.rearm_rto();
    }

    /// `tcp_rack_reo_timeout`
    fn on_reordering_timeout(&mut self, _now: Time) {
        let before = self.board.in_flight();
        let situation = self.situation();
        let found = self.rack.search(&mut self.board, &situation);
        self.note_losses(&found);
        if before != self.board.in_flight() {
            if self.window.state != CaState::Recovery {
                self.enter_recovery(false);
                if !self.cca.controls_all() {
                    self.reduce(1, false);
                }
            }
            self.retransmit = Retransmit::Lost;
        }
        self.rearm_rto();
    }

    /// `tcp_retransmit_timer` and `tcp_enter_loss`
    fn on_retransmission_timeout(&mut self, now: Time) {
        if self.board.packets_out() == 0 {
            return;
        }
        self.counts.timeouts += 1;
        let situation = self.situation();
        let settled = if self.config.rack { self.rack.settled_ns(&self.board, &situation) } else { 0 };
        self.board.mark_all_lost(now, settled);
        self.tell_losses();
        self.refresh();

        let state = self.window.state;
        let fresh = state < CaState::Recovery;
        if state <= CaState::Disorder
            || self.high <= self.board.una()
            || (state == CaState::Loss && self.timeouts_in_row == 0)
            || (state == CaState::Recovery && self.config.timeout_reduces_again)
        {
            self.prior_ssthresh = self.window.current_ssthresh();
            self.window.prior_cwnd = self.window.cwnd;
            self.window.ssthresh = self.bounds.ssthresh(self.cca.as_mut(), &mut self.window);
            self.cca.cwnd_event(&mut self.window, CwndEvent::Loss);
            self.start_undo();
        }
        self.window.cwnd = self.board.in_flight() + 1;
        self.window.cwnd_cnt = 0;
        self.used_at = now;
        if state <= CaState::Disorder && self.board.sacked_out >= crate::recovery::rack::DUPLICATE_THRESHOLD {
            self.rack.reordering = crate::recovery::rack::DUPLICATE_THRESHOLD;
        }
        if self.config.timeout_reduces_again {
            // The algorithm is not notified, so that it keeps its state.
            self.window.state = CaState::Loss;
        } else {
            self.set_state(CaState::Loss);
        }
        self.high = self.board.next();
        self.probe_end = None;
        self.probe_due = None;
        self.frto = self.config.undo && (fresh || self.timeouts_in_row > 0);
        self.timeouts_in_row += 1;
        self.retransmit = Retransmit::Lost;
        self.rtt.back_off();
        self.set_timer(Timer::Retransmission, self.rtt.rto_us() * MICROSECOND);
    }

    pub(super) fn situation(&self) -> Situation {
        Situation {
            now: self.now,
            recovering: self.window.state >= CaState::Recovery,
            min_rtt_us: self.window.min_rtt_us,
            srtt_us: self.window.srtt_us,
        }
    }
}
