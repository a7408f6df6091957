//! Start-up: while the group's rate still grows, no member has an upper bound.

use super::total::Total;
use crate::Moment;
use crate::own::MIN_SPAN;
use std::collections::VecDeque;
use std::time::Duration;

/// A rate still grows while it rises by this factor within the time in which windows settle (BBR's
/// detection of a full pipe: draft-cardwell-iccrg-bbr-congestion-control). Start-up ends when it no
/// longer does ...
pub(crate) const GROWS: f64 = 1.25;
/// ... or when a queue persists for a round trip, and at least for the time over which rates are
/// measured. It must exceed this time, seconds, and a quarter of the minimum RTT: windows then
/// exceed the bandwidth-delay product by the same factor.
pub(super) const QUEUED_S: f64 = 0.050;

/// The progress of start-up.
#[derive(Debug, Clone, Default)]
pub(super) struct StartUp {
    over: bool,
    growth: VecDeque<(Moment, f64)>,
    queued_since: Option<Moment>,
}

impl StartUp {
    /// Start-up is over: another leader completed it.
    pub(super) fn over() -> StartUp {
        StartUp { over: true, ..StartUp::default() }
    }

    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    /// Processes a tick with the maximum rate so far, bit/s.
    pub(super) fn follow(&mut self, now: Moment, round_trip: Duration, best_bps: f64, total: Total) {
        if self.over || total.elastic == 0 {
            return;
        }
        let within = super::settles(round_trip);
        self.growth.push_back((now, best_bps));
        while self.growth.len() > 1 && now.since(self.growth[1].0) >= within {
            self.growth.pop_front();
        }
        let flat = self.growth.front().is_some_and(|(at, before)| {
            now.since(*at) >= within && *before > 0.0 && best_bps < GROWS * before
        });
        let queued = total.queue_s > QUEUED_S.max(total.base_s * (GROWS - 1.0)) && best_bps > 0.0;
        let since = if queued { Some(*self.queued_since.get_or_insert(now)) } else { None };
        self.queued_since = since;
        let stays = since.is_some_and(|since| now.since(since) >= MIN_SPAN.max(round_trip));
        self.over = flat || stays;
    }
}
