//! Standing off. Others, who do not take part, have what the members leave to them; then sharing only costs, and each is plain CUBIC for a while.

use super::Carried;
use super::total::Total;
use crate::Moment;
use std::time::Duration;

/// The group stands off for so long; each time twice as long as before, up to so much. After as long a time of sharing it is the first time again.
const OFF: Duration = Duration::from_secs(30);
const MAX_OFF: Duration = Duration::from_secs(300);

/// It does when less than this part of what was shared out, of the rate and of the air, is carried behind a queue for three round trips, and
/// at least so long.
const LOST_GROUND: f64 = 0.75;
const LOST_GROUND_FOR: Duration = Duration::from_millis(1500);
/// A queue that is longer by this than windows may hold, and than this part of the least round-trip time, is others'; seconds.
const BEYOND_OWN_S: f64 = 0.030;
const BEYOND_OWN_OF_BASE: f64 = 0.5;
/// As long as members hold more in flight than so many times what windows may hold, the queue may be their own.
const STILL_OWN: f64 = 2.0;
/// Before it the windows grow to what the shares take behind that queue, for four round trips, and at least so long.
const CATCH_UP: Duration = Duration::from_secs(2);

/// It does, too, when capacity fell twice within so long, and windows that gave way both times still find such a queue, seconds.
const FALLS_WITHIN: Duration = Duration::from_secs(30);
const OTHERS_QUEUE_S: f64 = 0.100;

/// Whether the group stands off.
#[derive(Debug, Clone)]
pub(super) struct StandOff {
    /// For how long ground was being lost, less the time in between when it was not.
    losing_for: Duration,
    followed: Option<Moment>,
    senders: usize,
    /// When capacity fell.
    falls: Vec<Moment>,
    catch_up_until: Moment,
    until: Option<Moment>,
    ended: Option<Moment>,
    off_for: Duration,
}

/// Where the group stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// It shares.
    In,
    /// It is about to stand off: windows grow to what they would have been without sharing.
    CatchesUp,
    /// It stands off.
    Off,
    /// It did until now, and begins anew.
    Back,
}

impl Default for StandOff {
    fn default() -> StandOff {
        StandOff {
            losing_for: Duration::ZERO,
            followed: None,
            senders: 0,
            falls: Vec::new(),
            catch_up_until: Moment::default(),
            until: None,
            ended: None,
            off_for: OFF,
        }
    }
}

impl StandOff {
    /// Goes on standing off where another leader began it.
    pub(super) fn resume(now: Moment) -> StandOff {
        let mut stand_off = StandOff::default();
        stand_off.begin(now, now);
        stand_off
    }

    /// Follows what is carried of what was shared out; windows may hold what is shared out in `may_hold_s`, seconds.
    pub(super) fn follow(
        &mut self,
        now: Moment,
        round_trip: Duration,
        total: Total,
        shared: Carried,
        may_hold_s: f64,
    ) {
        let others_s = (may_hold_s - total.base_s + BEYOND_OWN_S).max(total.base_s * BEYOND_OWN_OF_BASE);
        // Windows of before, that shrink, make a queue of their own.
        let own = total.in_flight_bits > STILL_OWN * shared.rate_bps * may_hold_s;
        // Radios that became slower carry less, too, but take the air. Where no radio is known, it is capacity that falls.
        let lost = total.rate_bps < LOST_GROUND * shared.rate_bps && total.air < LOST_GROUND * shared.air;
        let passed = self.followed.replace(now).map_or(Duration::ZERO, |before| now.since(before));
        // Who has just joined may be who holds the queue.
        if total.senders != self.senders {
            self.senders = total.senders;
            self.losing_for = Duration::ZERO;
        }
        // Where nothing is carried, round-trip times are old.
        let sees = total.elastic > 0 && total.rate_bps > 0.0 && total.queue_s >= others_s;
        if !sees || own || !lost || self.until.is_some() {
            self.losing_for = self.losing_for.saturating_sub(passed);
            return;
        }
        self.losing_for += passed;
        if self.losing_for >= LOST_GROUND_FOR.max(3 * round_trip) {
            self.catch_up_until = now + CATCH_UP.max(4 * round_trip);
            self.begin(now, self.catch_up_until);
        }
    }

    /// Capacity fell: what the members gave way to may have been others.
    pub(super) fn fell(&mut self, now: Moment, total: Total) {
        if self.until.is_some() {
            return;
        }
        self.falls.retain(|at| now.since(*at) < FALLS_WITHIN);
        self.falls.push(now);
        if self.falls.len() >= 2 && total.queue_s >= OTHERS_QUEUE_S.max(total.base_s / 2.0) {
            self.begin(now, now);
        }
    }

    fn begin(&mut self, now: Moment, from: Moment) {
        self.falls.clear();
        self.losing_for = Duration::ZERO;
        if self.ended.is_some_and(|at| now.since(at) > MAX_OFF) {
            self.off_for = OFF;
        }
        self.until = Some(from + self.off_for);
        self.off_for = (2 * self.off_for).min(MAX_OFF);
    }

    /// Where it stands now.
    pub(super) fn standing(&mut self, now: Moment) -> Standing {
        match self.until {
            None => Standing::In,
            Some(_) if now < self.catch_up_until => Standing::CatchesUp,
            Some(until) if now < until => Standing::Off,
            Some(_) => {
                self.until = None;
                self.ended = Some(now);
                Standing::Back
            }
        }
    }
}
