//! RACK (RFC 8985, `tcp_recovery.c`): a segment is lost if a segment sent later was delivered and
//! the reordering window has passed.

use super::scoreboard::{Outstanding, Scoreboard};
use crate::units::{MICROSECOND, micros_between};
use yuzuri_netmodel::Time;

/// Out-of-order segments that indicate a loss while no reordering has been observed
/// (`tcp_reordering`).
pub(crate) const DUPLICATE_THRESHOLD: u32 = 3;
/// Number of recoveries for which an increase of the reordering window lasts
/// (`TCP_RACK_RECOVERY_THRESH`).
const KEEP_STEPS: u32 = 16;

#[derive(Clone, Debug)]
pub(crate) struct Rack {
    /// The most recently sent segment among those delivered: its send epoch (`sent_on`) and its
    /// number.
    newest: Option<(u64, u32)>,
    rtt_us: u64,
    advanced: bool,
    pub(crate) reordering_seen: bool,
    pub(crate) reordering: u32,
    steps: u32,
    persist: u32,
    dsack_seen: bool,
    last_delivered: u64,
}

/// Sender state that RACK depends on.
pub(crate) struct Situation {
    pub(crate) now: Time,
    pub(crate) recovering: bool,
    pub(crate) min_rtt_us: Option<u64>,
    pub(crate) srtt_us: u64,
}

/// Result of a loss detection pass.
pub(crate) struct Found {
    pub(crate) lost: u32,
    /// Lost retransmissions among them.
    pub(crate) again: u32,
    /// Delay until the next check, ns; 0: none needed.
    pub(crate) wait_ns: u64,
}

impl Rack {
    pub(crate) fn new() -> Rack {
        Rack {
            newest: None,
            rtt_us: 0,
            advanced: false,
            reordering_seen: false,
            reordering: DUPLICATE_THRESHOLD,
            steps: 1,
            persist: 0,
            dsack_seen: false,
            last_delivered: 0,
        }
    }

    /// A segment was delivered (`tcp_rack_advance`).
    pub(crate) fn advance(&mut self, now: Time, number: u32, segment: &Outstanding, min_rtt_us: Option<u64>) {
        let rtt_us = micros_between(now, segment.sent_at);
        // An ACK sooner than the minimum RTT after a retransmission acknowledges the original.
        if segment.ever_retransmitted && min_rtt_us.is_some_and(|least| rtt_us < least) {
            return;
        }
        self.advanced = true;
        self.rtt_us = rtt_us;
        self.newest = self.newest.max(Some((segment.sent_on, number)));
    }

    /// A DSACK was received (`tcp_rack_update_reo_wnd`, RFC 8985, section 6.2, step 4).
    pub(crate) fn saw_duplicate(&mut self) {
        self.dsack_seen = true;
    }

    /// Runs once per ACK: widens the reordering window by one step per round trip with a DSACK.
    pub(crate) fn update_window(&mut self, prior_delivered: Option<u64>, delivered: u64) {
        if prior_delivered.is_some_and(|prior| prior < self.last_delivered) {
            self.dsack_seen = false;
        }
        if self.dsack_seen {
            self.steps = (self.steps + 1).min(255);
            self.dsack_seen = false;
            self.last_delivered = delivered;
            self.persist = KEEP_STEPS;
        } else if self.persist == 0 {
            self.steps = 1;
        }
    }

    pub(crate) fn recovery_ended(&mut self) {
        self.persist = self.persist.saturating_sub(1);
    }

    /// Forces a new loss detection pass (after an undo).
    pub(crate) fn judge_again(&mut self) {
        self.advanced = true;
    }

    /// The reordering window, µs (`tcp_rack_reo_wnd`).
    fn window_us(&self, board: &Scoreboard, situation: &Situation) -> u64 {
        if !self.reordering_seen && (situation.recovering || board.sacked_out >= self.reordering) {
            return 0;
        }
        (situation.min_rtt_us.unwrap_or(0) / 4 * u64::from(self.steps)).min(situation.srtt_us)
    }

    /// RTT plus reordering window, ns: the minimum age at which an RTO marks a segment lost.
    pub(crate) fn settled_ns(&self, board: &Scoreboard, situation: &Situation) -> u64 {
        (self.rtt_us + self.window_us(board, situation)) * MICROSECOND
    }

    /// Runs after an ACK (`tcp_rack_mark_lost`).
    pub(crate) fn detect(&mut self, board: &mut Scoreboard, situation: &Situation) -> Option<Found> {
        if !self.advanced {
            return None;
        }
        self.advanced = false;
        Some(self.search(board, situation))
    }

    /// `tcp_rack_detect_loss`
    pub(crate) fn search(&self, board: &mut Scoreboard, situation: &Situation) -> Found {
        let mut found = Found { lost: 0, again: 0, wait_ns: 0 };
        let Some(newest) = self.newest else { return found };
        let settled = self.settled_ns(board, situation);
        let now = situation.now.as_nanos();
        let before = board.retrans_out;
        let mut wait = 0;
        let lost = board.sent_before(newest, |sent_at| {
            let due = sent_at.as_nanos() + settled;
            if due > now {
                wait = wait.max(due - now);
            }
            due <= now
        });
        found.lost = lost.len() as u32;
        found.again = before - board.retrans_out;
        found.wait_ns = wait;
        found
    }
}
