//! Estimates the group's capacity from the members' reports, and divides it into shares.
//!
//! A rate is normalised by the member's weight: the rate that the member would reach alone, on the
//! air or on the wire ([`weights`]). The leader evaluates the following every half second. `b` is
//! the minimum RTT, `q` the queue, `s` its standing part ([`queue`]), and `T` the target queue:
//!
//! - `u` is the current sum of `rate / weight`, and `U` its maximum over the last 4 s, or over four
//!   round trips if these are longer.
//! - While `q <= s + T`: `level = U * (1 + G * (1 - (q - s) / T))`, with `G = T / b`, but at most
//!   0.25. Windows grow until there is a queue.
//! - While `q` is slightly longer: `level = U * (b + s + T) / (b + q)`.
//! - While `q` is much longer: `level = u`, and windows are reduced in steps.
//! - A window carries `level * weight` over a round trip of `b + s + T`; during a step down, of
//!   half of `b + q` if that is longer. During a step up the level is 1.5 times as high.
//!
//! The fixed point is `q = s + T`, at which each member carries `level * weight`.

mod level;
mod queue;
mod start_up;
mod total;
mod weights;

use crate::own;
use crate::radio::PAYLOAD_BITS;
use crate::report::min_round_trips;
use crate::{MAX_AIR_PPM, Moment, Objective, Phase, Report, Summary};
use level::{WeightedDemand, water_level};
pub(crate) use queue::{AGAIN, AGAIN_AT_LATEST, STEP};
use queue::{Answer, Queue};
pub(crate) use start_up::GROWS;
use start_up::{QUEUED_S, StartUp};
use std::collections::VecDeque;
use std::time::Duration;
use total::{Mean, Total};
pub use weights::Limit;
use weights::{Parts, Rescale, Weights};

/// A ratio of two rates or round-trip times above this is within the variation between ticks.
pub(crate) const STEADY: f64 = 0.85;
/// The rate out of a full wire varies less between ticks.
const SAME: f64 = 0.95;
/// A change of the windows takes effect within this many round trips: the previous flight takes one
/// round trip to drain, and rates are measured over two.
const SETTLES_ROUND_TRIPS: u32 = 4;
/// Windows do not grow while at least this fraction of segments is lost.
pub(crate) const GROWS_TO_LOSS: f64 = 0.01;
/// If more than this fraction is lost without a queue, windows are paced over the round trip.
const SPREAD_FROM_LOSS: f64 = 0.002;
/// The target queue while windows are paced, seconds: a queue that overflows is short.
pub(crate) const LOSSY_QUEUE_S: f64 = 0.005;

/// Rates and airtimes are maxima over this time: the longest over which rates are measured, or four
/// round trips.
fn memory(round_trip: Duration) -> Duration {
    own::MAX_SPAN.max(SETTLES_ROUND_TRIPS * round_trip)
}

/// The time after which rates and round-trip times show a change of the windows. On a short path it
/// is the tick at which windows change, and the two over which rates are measured.
pub(crate) fn settles(round_trip: Duration) -> Duration {
    (own::MIN_SPAN * 3 / 2).max(SETTLES_ROUND_TRIPS * round_trip)
}

/// The time after which round-trip times show a change of one's own windows.
pub(crate) fn drains(round_trip: Duration) -> Duration {
    SETTLES_ROUND_TRIPS * round_trip
}

/// The target queue, seconds.
pub(crate) fn target_s(objective: Objective) -> f64 {
    match objective {
        Objective::Throughput => 0.100,
        Objective::Balanced => 0.020,
        Objective::Latency => 0.008,
    }
}

/// The shortest queue that windows can keep at a path of this rate, seconds: one segment in
/// transmission while another waits. A delayed ACK waits for two as well (RFC 5681, section 4.2),
/// so round-trip times show no shorter one. CoDel's target has such a minimum (RFC 8289, section
/// 4.4).
fn min_queue_s(rate_bps: f64) -> f64 {
    if rate_bps > 0.0 { 2.0 * PAYLOAD_BITS / rate_bps } else { 0.0 }
}

/// The leader's view of the group over time.
#[derive(Debug, Clone, Default)]
pub struct Capacity {
    objective: Objective,
    seen: VecDeque<(Moment, CarriedLoad)>,
    start_up: StartUp,
    /// The weights by which rates are normalised.
    weights: Option<Weights>,
    /// What limits the group, if that is known.
    limit: Option<Limit>,
    /// The windows announced in the last summary; `None`: no member is bounded.
    announced: Option<Announced>,
    /// What the members' data in flight carry at most, bit/s, where the leader can measure it.
    in_flight_bps: Option<f64>,
    queue: Queue,
    lost_at: Option<Moment>,
    /// The normalised rate before a queue turned out to be standing. The level does not fall below
    /// it while that queue persists.
    held: Option<Parts>,
}

/// The windows announced in the last summary.
#[derive(Debug, Clone, Copy)]
struct Announced {
    /// Their sum: normalised rate times seconds.
    hold: f64,
    /// The number of senders that it was announced to. A later sender has received no bound yet,
    /// and may already fill the path.
    senders: usize,
}

/// The normalised rate to divide, and the queue that windows may hold, seconds.
struct Division {
    parts: f64,
    queue_s: f64,
}

#[derive(Debug, Clone, Default)]
struct CarriedLoad {
    rate_bps: f64,
    /// Airtime: the sum of each member's rate over its rate alone.
    air: f64,
    parts: Parts,
    queue_s: f64,
}

/// The maximum of each value in the memory.
#[derive(Debug, Clone)]
struct RecentMax {
    rate_bps: f64,
    air: f64,
    parts: Parts,
}

impl Capacity {
    /// The initial state of a group with this objective.
    pub fn new(objective: Objective) -> Capacity {
        Capacity { objective, ..Capacity::default() }
    }

    /// A group of members that other groups have bounded so far: their start-up is over.
    pub fn regrouped(objective: Objective) -> Capacity {
        Capacity { start_up: StartUp::over(), ..Capacity::new(objective) }
    }

    /// Continues from the last summary of another leader, so that a change of leader does not
    /// restart the group's start-up.
    pub fn resume(now: Moment, last: &Summary, objective: Objective) -> Capacity {
        let parts = f64::from(last.air_share_ppm) * f64::from(last.senders) / 1e6;
        let wide = matches!(last.phase, Phase::Contend | Phase::Off);
        let parts = Parts::announced(parts);
        let before = CarriedLoad { rate_bps: last.capacity_bps as f64, parts, ..CarriedLoad::default() };
        Capacity {
            seen: VecDeque::from([(now, before)]),
            start_up: if last.phase == Phase::StartUp { StartUp::default() } else { StartUp::over() },
            queue: if wide {
                Queue::standing(now, (f64::from(last.queue_us) / 1e6 - target_s(objective)).max(0.0))
            } else {
                Queue::default()
            },
            lost_at: last.paced.then_some(now),
            ..Capacity::new(objective)
        }
    }

    /// Sets what limits the group; `None`: estimate it from the airtime that members use.
    pub fn limited_by(&mut self, limit: Option<Limit>) {
        self.limit = limit;
    }

    /// Sets what the members' data in flight carry at most, bit/s: the sum of data in flight over
    /// round-trip time (Little's law); `None`: unknown. The reported rates cover two round trips,
    /// and lag behind a path that slows.
    pub fn carries_at_most(&mut self, in_flight_bps: Option<f64>) {
        self.in_flight_bps = in_flight_bps;
    }

    /// Aggregates the members' reports into a summary. `members` includes silent ones.
    pub fn sum<'a>(
        &mut self,
        now: Moment,
        members: u16,
        reports: impl IntoIterator<Item = &'a Report>,
    ) -> Summary {
        let reports: Vec<&Report> = reports.into_iter().collect();
        let srtt_us = reports.iter().map(|r| r.srtt_us).max().unwrap_or(0);
        let round_trip = Duration::from_micros(srtt_us.into()).min(own::MAX_SPAN / 2);
        let seen = |r: &'a Report| r.destinations.iter().map(|(to, us)| (*to, *us, r.rate_bps as f64));
        let destinations = min_round_trips(reports.iter().copied().flat_map(seen));
        let mean = if self.in_flight_bps.is_some() { Mean::OverLoad } else { Mean::OverMembers };
        let mut total = Total::of(&reports, &destinations, mean);
        let current = self.in_flight_bps.map_or(1.0, |bps| total.limit_to(bps));
        let before = self.best();
        let most_bps = before.rate_bps.max(total.rate_bps);
        let air = self.air_taken(total, before.air.max(total.air), most_bps);
        let weights = Weights::of(total, most_bps, air, self.limit);
        let rates = reports.iter().map(|r| [total.alone_of(r), current * r.rate_bps as f64]);
        let parts = weights.parts_of(rates.collect());
        // While nobody sends, weights are not known.
        if !reports.is_empty()
            && let Some(from) = self.weights.replace(weights)
        {
            self.rescale(&parts.rescaling(from, weights));
        }
        let here = CarriedLoad { rate_bps: total.rate_bps, air: total.air, parts, queue_s: total.queue_s };
        self.seen.push_back((now, here));
        while self.seen.front().is_some_and(|(at, _)| now.since(*at) > memory(round_trip)) {
            self.seen.pop_front();
        }
        let best = self.best();
        self.start_up.follow(now, round_trip, best.rate_bps, total);
        let paced = self.note_losses(now, total, air);
        let target_s = if paced { LOSSY_QUEUE_S } else { target_s(self.objective) };
        let target_s = target_s.max(min_queue_s(best.rate_bps));
        let shared = self.shared(now, round_trip, total, &best, target_s);
        let hold = shared.parts * (total.base_s + shared.queue_s);
        self.announced = self.start_up.is_over().then_some(Announced { hold, senders: total.senders });
        let phase = match () {
            () if !self.start_up.is_over() => Phase::StartUp,
            () if self.queue.standing_s() > 0.0 => Phase::Contend,
            () => Phase::Hold,
        };
        let taker = |r: &&Report| {
            let part = r.rate_bps as f64 / weights.of_member(total.alone_of(r));
            WeightedDemand { weight: 1.0, most: if r.elastic { f64::INFINITY } else { part } }
        };
        let level = water_level(shared.parts, reports.iter().map(taker).collect());
        Summary {
            members: members.max(reports.len().min(u16::MAX.into()) as u16),
            senders: reports.len().min(u16::MAX.into()) as u16,
            phase,
            capacity_bps: best.rate_bps as u64,
            air_share_ppm: if weights.are_known() { (level * 1e6).min(MAX_AIR_PPM.into()) as u32 } else { 0 },
            share_bps: (level * weights.of_member(total.alone_unknown_bps())) as u64,
            alone_max_bps: weights.most_bps().map_or(0, |bps| bps as u64),
            queue_us: (shared.queue_s * 1e6) as u32,
            paced,
            srtt_us,
            destinations,
        }
    }

    /// Converts all stored normalised rates to new weights. The best rate of a wire changes over
    /// time, and the weights with it. Without the conversion an unchanged rate would look like a
    /// response to a step.
    fn rescale(&mut self, to: &Rescale) {
        self.seen.iter_mut().for_each(|(_, carried)| carried.parts.rescale(to));
        self.announced =
            self.announced.map(|announced| Announced { hold: announced.hold * to.of_level(), ..announced });
        self.held.iter_mut().for_each(|held| held.rescale(to));
        self.queue.rescale(to);
    }

    fn best(&self) -> RecentMax {
        let most = |of: fn(&CarriedLoad) -> f64| self.seen.iter().map(|(_, c)| of(c)).fold(0.0, f64::max);
        let parts = self.seen.iter().map(|(_, c)| &c.parts).max_by(|a, b| a.sum.total_cmp(&b.sum));
        RecentMax {
            rate_bps: most(|c| c.rate_bps),
            air: most(|c| c.air),
            parts: parts.cloned().unwrap_or_default(),
        }
    }

    /// The airtime that shows whether the air limits: the maximum, unless members used different
    /// airtimes at the same rate, with a queue each time. A full wire carries one rate, whichever
    /// members send; full air carries another rate when members with other radios send.
    fn air_taken(&self, total: Total, most_air: f64, most_bps: f64) -> f64 {
        let queued_s = target_s(self.objective) / 2.0;
        let before = self.seen.iter().map(|(_, c)| [c.queue_s, c.rate_bps, c.air]);
        let all = before.chain([[total.queue_s, total.rate_bps, total.air]]);
        let same = all.filter(|[queue_s, bps, _]| *queue_s > queued_s && *bps >= SAME * most_bps);
        let air = same.map(|[.., air]| air);
        let [least, most] =
            air.fold([f64::INFINITY, 0.0_f64], |[least, most], air| [least.min(air), most.max(air)]);
        if least < STEADY * most { least } else { most_air }
    }

    fn shared(
        &mut self,
        now: Moment,
        round_trip: Duration,
        total: Total,
        best: &RecentMax,
        target_s: f64,
    ) -> Division {
        if !self.start_up.is_over() || total.elastic == 0 || total.rate_bps <= 0.0 {
            // Without deliveries, the round-trip times are out of date.
            return Division { parts: best.parts.sum, queue_s: self.queue.standing_s() + target_s };
        }
        // A single tick is noise.
        let recent: Vec<f64> = self.seen.iter().rev().take(2).map(|(_, c)| c.parts.sum).collect();
        let carried = recent.iter().sum::<f64>() / recent.len().max(1) as f64;
        let announced = self
            .announced
            .filter(|announced| total.senders <= announced.senders)
            .map_or(f64::INFINITY, |announced| announced.hold);
        let mut here = self.seen.back().map(|(_, here)| here.parts.clone()).unwrap_or_default();
        here.sum = carried;
        let rates = [here, best.parts.clone()];
        let answer = self.queue.follow(now, round_trip, total, target_s, rates, announced);
        let meant_s = self.queue.standing_s() + target_s;
        let fits = (total.base_s + meant_s) / (total.base_s + total.queue_s);
        let mut shared = match answer {
            Answer::OnTarget { hold_s } => {
                // The growth of one tick fits into the target queue, and is at most half of a step.
                let grows = (self::target_s(self.objective) / total.base_s.max(1e-4)).min(STEP / 2.0);
                let grows = if total.lost < GROWS_TO_LOSS { grows } else { 0.0 };
                let left = ((meant_s - total.queue_s) / target_s).clamp(0.0, 1.0);
                Division { parts: best.parts.sum * (1.0 + grows * left), queue_s: hold_s - total.base_s }
            }
            Answer::StepUp { by, hold_s } => {
                Division { parts: by * best.parts.sum, queue_s: hold_s - total.base_s }
            }
            Answer::Drained { carried, hold_s } => {
                self.seen.iter_mut().for_each(|(_, seen)| seen.parts.sum = seen.parts.sum.min(carried));
                Division { parts: carried, queue_s: hold_s - total.base_s }
            }
            // Rates vary a little between ticks: while the excess is small, use the best of them.
            Answer::StepDown { .. } if fits > STEADY => {
                Division { parts: best.parts.sum * fits, queue_s: meant_s }
            }
            // The rate out of a full queue is the capacity of the path.
            Answer::StepDown { carried, hold_s } => {
                Division { parts: carried, queue_s: hold_s - total.base_s }
            }
            Answer::Stays { before } => {
                let parts = before.sum;
                self.held = Some(before);
                Division { parts, queue_s: meant_s }
            }
        };
        self.held.take_if(|_| self.queue.standing_s() <= 0.0);
        shared.parts = self.held.as_ref().map_or(shared.parts, |held| shared.parts.max(held.sum));
        shared
    }

    /// Whether segments are lost although neither a queue nor the air is full.
    fn note_losses(&mut self, now: Moment, total: Total, air: f64) -> bool {
        if total.lost > SPREAD_FROM_LOSS && total.queue_s < QUEUED_S {
            self.lost_at = Some(now);
        }
        self.lost_at.is_some_and(|at| now.since(at) < 2 * AGAIN) && weights::by_air(air, self.limit) < 1.0
    }
}
