//! RACK (RFC 8985, `tcp_recovery.c`): a segment is lost if a segment sent later was delivered and
//! the reordering window has passed.

use super::scoreboard::{Outstanding, Scoreboard};
use crate::units::{MICROSECOND, micros_between};
use yuzuri_netmodel::Time;

/// Out-of-order segments that indicate a loss while no reordering has been observed
/// (`tcp_reordering`).
pub(crate) const DUP_THRESH: u32 = 3;
/// Number of recoveries for which an increase of the reordering window lasts
/// (`TCP_RACK_RECOVERY_THRESH`).
const REO_WND_PERSIST: u32 = 16;

#[derive(Clone, Debug)]
pub(crate) struct Rack {
    /// The most recently sent segment among those delivered: its send epoch (`send_epoch`) and its
    /// number.
    most_recent: Option<(u64, u32)>,
    rtt_us: u64,
    advanced: bool,
    pub(crate) reordering_seen: bool,
    pub(crate) reordering: u32,
    reo_wnd_steps: u32,
    reo_wnd_persist: u32,
    dsack_seen: bool,
    last_delivered: u64,
}

/// Sender state that RACK depends on.
pub(crate) struct LossContext {
    pub(crate) now: Time,
    pub(crate) in_recovery: bool,
    pub(crate) min_rtt_us: Option<u64>,
    pub(crate) srtt_us: u64,
}

/// Result of a loss detection pass.
pub(crate) struct LossDetection {
    pub(crate) lost: u32,
    /// Lost retransmissions among them.
    pub(crate) lost_retransmissions: u32,
    /// Delay until the next check, ns; 0: none needed.
    pub(crate) reo_timeout_ns: u64,
}

impl Rack {
    pub(crate) fn new() -> Rack {
        Rack {
            most_recent: None,
            rtt_us: 0,
            advanced: false,
            reordering_seen: false,
            reordering: DUP_THRESH,
            reo_wnd_steps: 1,
            reo_wnd_persist: 0,
            dsack_seen: false,
            last_delivered: 0,
        }
    }

    /// A segment was delivered (`tcp_rack_advance`).
    pub(crate) fn advance(&mut self, now: Time, number: u32, segment: &Outstanding, min_rtt_us: Option<u64>) {
        let rtt_us = micros_between(now, segment.sent_at);
        // An ACK sooner than the minimum RTT after a retransmission acknowledges the original.
        if segment.ever_retransmitted && min_rtt_us.is_some_and(|min_rtt| rtt_us < min_rtt) {
            return;
        }
        self.advanced = true;
        self.rtt_us = rtt_us;
        self.most_recent = self.most_recent.max(Some((segment.send_epoch, number)));
    }

    /// A DSACK was received (`tcp_rack_update_reo_wnd`, RFC 8985, section 6.2, step 4).
    pub(crate) fn dsack_received(&mut self) {
        self.dsack_seen = true;
    }

    /// Runs once per ACK: widens the reordering window by one step per round trip with a DSACK.
    pub(crate) fn update_reo_wnd(&mut self, prior_delivered: Option<u64>, delivered: u64) {
        if prior_delivered.is_some_and(|prior| prior < self.last_delivered) {
            self.dsack_seen = false;
        }
        if self.dsack_seen {
            self.reo_wnd_steps = (self.reo_wnd_steps + 1).min(255);
            self.dsack_seen = false;
            self.last_delivered = delivered;
            self.reo_wnd_persist = REO_WND_PERSIST;
        } else if self.reo_wnd_persist == 0 {
            self.reo_wnd_steps = 1;
        }
    }

    pub(crate) fn recovery_ended(&mut self) {
        self.reo_wnd_persist = self.reo_wnd_persist.saturating_sub(1);
    }

    /// Forces a new loss detection pass (after an undo).
    pub(crate) fn force_detection(&mut self) {
        self.advanced = true;
    }

    /// The reordering window, µs (`tcp_rack_reo_wnd`).
    fn reo_wnd_us(&self, scoreboard: &Scoreboard, context: &LossContext) -> u64 {
        if !self.reordering_seen && (context.in_recovery || scoreboard.sacked_out >= self.reordering) {
            return 0;
        }
        (context.min_rtt_us.unwrap_or(0) / 4 * u64::from(self.reo_wnd_steps)).min(context.srtt_us)
    }

    /// RTT plus reordering window, ns: the minimum age at which an RTO marks a segment lost.
    pub(crate) fn rtt_plus_reo_wnd_ns(&self, scoreboard: &Scoreboard, context: &LossContext) -> u64 {
        (self.rtt_us + self.reo_wnd_us(scoreboard, context)) * MICROSECOND
    }

    /// Runs after an ACK (`tcp_rack_mark_lost`).
    pub(crate) fn mark_lost(
        &mut self,
        scoreboard: &mut Scoreboard,
        context: &LossContext,
    ) -> Option<LossDetection> {
        if !self.advanced {
            return None;
        }
        self.advanced = false;
        Some(self.detect_loss(scoreboard, context))
    }

    /// `tcp_rack_detect_loss`
    pub(crate) fn detect_loss(&self, scoreboard: &mut Scoreboard, context: &LossContext) -> LossDetection {
        let mut detection = LossDetection { lost: 0, lost_retransmissions: 0, reo_timeout_ns: 0 };
        let Some(most_recent) = self.most_recent else { return detection };
        let timeout_ns = self.rtt_plus_reo_wnd_ns(scoreboard, context);
        let now = context.now.as_nanos();
        let retrans_out_before = scoreboard.retrans_out;
        let mut reo_timeout = 0;
        let lost = scoreboard.mark_lost_sent_before(most_recent, |sent_at| {
            let due = sent_at.as_nanos() + timeout_ns;
            if due > now {
                reo_timeout = reo_timeout.max(due - now);
            }
            due <= now
        });
        detection.lost = lost.len() as u32;
        detection.lost_retransmissions = retrans_out_before - scoreboard.retrans_out;
        detection.reo_timeout_ns = reo_timeout;
        detection
    }
}
