//! The sender's only timer: RTO (RFC 6298), tail-loss probe (RFC 8985, section 7) or RACK's
//! reordering timeout.

use super::{CaState, Handshake, Retransmit, Sender};
use crate::cc::CwndEvent;
use crate::recovery::rack::LossContext;
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
        self.events_handled += 1;
        if self.held_by_pacing && now >= self.departure {
            self.held_by_pacing = false;
        }
        let Some((_, timer)) = self.timer.take_if(|(at, _)| *at <= now) else { return };
        if self.handshake == Handshake::SynSent {
            self.consecutive_timeouts += 1;
            self.rtt.back_off();
            self.handshake = Handshake::SynDue;
            return;
        }
        match timer {
            Timer::Retransmission => self.on_retransmission_timeout(now),
            Timer::TailLossProbe => self.on_probe_timeout(now),
            Timer::Reordering => self.on_reordering_timeout(now),
        }
        self.sync_window();
    }

    pub(super) fn set_timer(&mut self, timer: Timer, nanos: u64) {
        self.timer = Some((after(self.now, nanos), timer));
    }

    /// Two ticks (`TCP_TIMEOUT_MIN`), ns.
    fn timeout_min_ns(&self) -> u64 {
        2 * SECOND / u64::from(self.window.hz)
    }

    /// Time until the RTO of the head, ns (`tcp_rto_delta_us`).
    fn rto_delta_ns(&self) -> u64 {
        let sent_at = self.scoreboard.head().map_or(self.now, |head| head.sent_at);
        let due = after(sent_at, self.rtt.rto_us() * MICROSECOND);
        due.as_nanos().saturating_sub(self.now.as_nanos())
    }

    /// `tcp_rearm_rto`
    pub(super) fn rearm_rto(&mut self) {
        if self.scoreboard.packets_out() == 0 {
            self.timer = None;
            return;
        }
        let nanos = match self.timer {
            Some((_, Timer::Reordering | Timer::TailLossProbe)) => self.rto_delta_ns().max(MICROSECOND),
            _ => self.rtt.rto_us() * MICROSECOND,
        };
        self.set_timer(Timer::Retransmission, nanos);
    }

    /// `tcp_set_xmit_timer`
    pub(super) fn set_xmit_timer(&mut self) {
        if !self.schedule_loss_probe(true) {
            self.rearm_rto();
        }
    }

    /// `tcp_schedule_loss_probe`: after two round trips without an ACK; not in recovery.
    pub(super) fn schedule_loss_probe(&mut self, advancing: bool) -> bool {
        let allowed = self.config.rack && matches!(self.window.state, CaState::Open | CaState::Cwr);
        if self.scoreboard.packets_out() == 0 || !allowed {
            return false;
        }
        let mut nanos = SECOND;
        if self.window.srtt_us > 0 {
            nanos = 2 * self.window.srtt_us * MICROSECOND;
            nanos += if self.scoreboard.packets_out() == 1 {
                RttEstimator::min_rto_us() * MICROSECOND
            } else {
                self.timeout_min_ns()
            };
        }
        let rto = if advancing { self.rtt.rto_us() * MICROSECOND } else { self.rto_delta_ns() };
        if rto > 0 {
            nanos = nanos.min(rto);
        }
        self.set_timer(Timer::TailLossProbe, nanos);
        true
    }

    pub(super) fn set_reordering_timer(&mut self, reo_timeout_ns: u64) {
        self.set_timer(Timer::Reordering, reo_timeout_ns + self.timeout_min_ns());
    }

    /// `tcp_send_loss_probe`: sends new data if there is any, else retransmits the last segment.
    /// One probe per tail.
    fn on_probe_timeout(&mut self, _now: Time) {
        if self.scoreboard.packets_out() == 0 {
            return;
        }
        if self.tlp_high_seq.is_none() {
            self.counts.probes += 1;
            // The next poll sends it regardless of the window; what it sends determines the end of
            // the episode.
            self.tlp_due = Some(!self.may_send_new());
        }
        self.rearm_rto();
    }

    /// `tcp_rack_reo_timeout`
    fn on_reordering_timeout(&mut self, _now: Time) {
        let in_flight_before = self.scoreboard.in_flight();
        let loss_context = self.loss_context();
        let detection = self.rack.detect_loss(&mut self.scoreboard, &loss_context);
        self.account_losses(&detection);
        if in_flight_before != self.scoreboard.in_flight() {
            if self.window.state != CaState::Recovery {
                self.enter_recovery(false);
                if !self.cca.controls_all() {
                    self.cwnd_reduction(1, false);
                }
            }
            self.retransmit = Retransmit::Lost;
        }
        self.rearm_rto();
    }

    /// `tcp_retransmit_timer` and `tcp_enter_loss`
    fn on_retransmission_timeout(&mut self, now: Time) {
        if self.scoreboard.packets_out() == 0 {
            return;
        }
        self.counts.timeouts += 1;
        let loss_context = self.loss_context();
        let min_age_ns =
            if self.config.rack { self.rack.rtt_plus_reo_wnd_ns(&self.scoreboard, &loss_context) } else { 0 };
        self.scoreboard.timeout_mark_lost(now, min_age_ns);
        self.notify_losses();
        self.sync_window();

        let state = self.window.state;
        let new_recovery = state < CaState::Recovery;
        if state <= CaState::Disorder
            || self.high_seq <= self.scoreboard.snd_una()
            || (state == CaState::Loss && self.consecutive_timeouts == 0)
            || (state == CaState::Recovery && self.config.timeout_reduces_again)
        {
            self.prior_ssthresh = self.window.current_ssthresh();
            self.window.prior_cwnd = self.window.cwnd;
            self.window.ssthresh = self.bounds.ssthresh(self.cca.as_mut(), &mut self.window);
            self.cca.cwnd_event(&mut self.window, CwndEvent::Loss);
            self.init_undo();
        }
        self.window.cwnd = self.scoreboard.in_flight() + 1;
        self.window.cwnd_cnt = 0;
        self.cwnd_stamp = now;
        if state <= CaState::Disorder && self.scoreboard.sacked_out >= crate::recovery::rack::DUP_THRESH {
            self.rack.reordering = crate::recovery::rack::DUP_THRESH;
        }
        if self.config.timeout_reduces_again {
            // The algorithm is not notified, so that it keeps its state.
            self.window.state = CaState::Loss;
        } else {
            self.set_state(CaState::Loss);
        }
        self.high_seq = self.scoreboard.snd_nxt();
        self.tlp_high_seq = None;
        self.tlp_due = None;
        self.frto = self.config.undo && (new_recovery || self.consecutive_timeouts > 0);
        self.consecutive_timeouts += 1;
        self.retransmit = Retransmit::Lost;
        self.rtt.back_off();
        self.set_timer(Timer::Retransmission, self.rtt.rto_us() * MICROSECOND);
    }

    pub(super) fn loss_context(&self) -> LossContext {
        LossContext {
            now: self.now,
            in_recovery: self.window.state >= CaState::Recovery,
            min_rtt_us: self.window.min_rtt_us,
            srtt_us: self.window.srtt_us,
        }
    }
}
