//! The leader's evaluation of the reports: the group's best rate, and each member's share of it.
//!
//! Capacity is not configured or queried: it is the highest recent total of the members. If members
//! report the rate that each would deliver alone, capacity is counted in *air*: the sum of rate
//! over alone. So a slow member costs the fast ones no more airtime than its share.

mod level;
mod others;
mod probe;
mod total;

use crate::report::min_round_trips;
use crate::{Moment, Objective, Phase, Report, Summary};
use level::{Taker, water_level};
use others::{Answer, Followed, Others};
use probe::Probe;
use std::collections::VecDeque;
use std::time::Duration;
use total::Total;

/// Most air of a probe: one member's probe takes more than all known air, at most twice as much.
const MAX_AIR_PPM: f64 = 2e6;
/// How far back the best rate is taken.
const MEMORY: Duration = Duration::from_secs(30);
/// Start-up ends when the carried rate grew by less than this factor ...
const GROWS: f64 = 1.15;
/// ... within three round trips, and at least this long. Round trips beyond two seconds are queues.
const GROWS_WITHIN: Duration = Duration::from_millis(1500);
const LONGEST_ROUND_TRIP: Duration = Duration::from_secs(2);
/// A wire that carries less than this fraction of its earlier rate is no longer the limit.
const FELL_BELOW: f64 = 0.75;

/// Start-up also ends when round-trip times stay this much above their minimum, seconds, and this
/// fraction of it.
const QUEUED_S: f64 = 0.050;
const QUEUED_OF_BASE: f64 = 0.25;
/// A full cell of several stations carries 0.7 to 0.9 of the sum of their rates alone, because of
/// collisions and acknowledgements. Below this it is not full.
const AIR_NOT_FULL: f64 = 0.65;
/// Beyond this it is full.
const AIR_FULL: f64 = 0.87;
const AIR_AGAIN_AFTER: Duration = Duration::from_secs(300);
/// The air is not full either if the shares are this many times the carried rate; determined after
/// six round trips of sharing, and at least this long.
const NOT_CARRIED: f64 = 1.4;
const JUDGED_AFTER: Duration = Duration::from_secs(3);
/// If the queue exceeds what windows may hold by this, seconds, the limit is determined after
/// twenty round trips, and at least this long.
const BEHIND_QUEUE_S: f64 = 0.080;
const JUDGED_BEHIND_QUEUE: Duration = Duration::from_secs(6);
/// From this fraction of lost segments on, windows are paced over the round trip.
const SPREAD_FROM_LOSS: f64 = 0.002;
/// A standing queue is drained by reducing the shares in steps of this fraction, once per round
/// trip, down to a minimum.
const DRAIN_STEP: f64 = 0.02;
const MIN_PART: f64 = 0.8;
/// The same happens from this fraction of lost segments on, down to a minimum; in start-up, growth
/// then gets more time.
const SLOWED_FROM_LOSS: f64 = 0.005;
const MIN_PART_FOR_LOSS: f64 = 0.9;
/// The shares cause the queue if the group carries at least this fraction of them. On long paths,
/// queues that emptied together in start-up may have shown a quarter more than the path carries. If
/// the group carries less, the queue is others', or capacity fell.
const FULL: f64 = 0.85;
const FULL_LONG: f64 = 0.75;
/// The least minimum RTT of a long path, seconds.
const LONG_S: f64 = 0.1;

/// Windows are not stretched behind a queue of this length, seconds.
const OTHERS_QUEUE_S: f64 = 0.100;
/// Windows are stretched by this factor per round trip while the group carries less than this
/// fraction of the shares and queues are short, up to a maximum; then they relax by the other
/// factor.
const FAR_FROM_FULL: f64 = 0.7;
const STRETCH: f64 = 1.1;
const MAX_STRETCH: f64 = 4.0;
const RELAX: f64 = 0.95;

/// The queue above the minimum RTT that a share may keep, seconds.
fn queue_s(objective: Objective) -> f64 {
    match objective {
        Objective::Throughput => 0.100,
        Objective::Balanced => 0.020,
        Objective::Latency => 0.008,
    }
}

/// The same if segments are lost although the air is not full: queues that overflow are short.
const LOSSY_QUEUE_S: f64 = 0.005;

/// The queue beyond which it is drained, seconds: on short paths, where much of it is radio
/// aggregates, and on longer ones.
fn drain_above_s(objective: Objective) -> Option<[f64; 2]> {
    match objective {
        Objective::Throughput => None,
        Objective::Balanced => Some([0.060, 0.040]),
        Objective::Latency => Some([0.025, 0.025]),
    }
}

/// The leader's view of the group over time.
#[derive(Debug, Clone)]
pub struct Capacity {
    carried: VecDeque<(Moment, Carried)>,
    growth: VecDeque<(Moment, f64)>,
    started: bool,
    probe: Probe,
    senders: usize,
    /// When it last turned out that the wire was not the limit.
    was_air: Option<Moment>,
    /// The rate of the wire if it, and not the air, is the limit, bit/s.
    wire_bps: Option<f64>,
    /// When segments were last lost.
    lost_at: Option<Moment>,
    /// The best rate when losses last slowed start-up, bit/s.
    lost_at_bps: f64,
    /// The fraction of the best rate that is shared, so that queues do not stand.
    part: f64,
    part_changed: Moment,
    /// The factor for windows that makes them carry their shares.
    stretch: f64,
    queued: u32,
    held_since: Moment,
    others: Others,
    answer: Answer,
    objective: Objective,
}

#[derive(Debug, Clone, Copy)]
struct Carried {
    rate_bps: f64,
    /// Air: the sum of rate over alone.
    air: f64,
}

impl Default for Capacity {
    fn default() -> Capacity {
        Capacity {
            carried: VecDeque::new(),
            growth: VecDeque::new(),
            started: false,
            probe: Probe::default(),
            senders: 0,
            wire_bps: None,
            was_air: None,
            lost_at: None,
            lost_at_bps: 0.0,
            part: 1.0,
            part_changed: Moment::default(),
            stretch: 1.0,
            queued: 0,
            held_since: Moment::default(),
            others: Others::default(),
            answer: Answer::default(),
            objective: Objective::default(),
        }
    }
}

impl Capacity {
    /// Creates the initial state, for a group with this objective.
    pub fn new(objective: Objective) -> Capacity {
        Capacity { objective, ..Capacity::default() }
    }

    /// Starts from another leader's summary, so that the group does not repeat start-up when its
    /// leader changes.
    pub fn resume(now: Moment, last: &Summary, objective: Objective) -> Capacity {
        let air = f64::from(last.air_share_ppm) * f64::from(last.senders) / 1e6;
        let wide = matches!(last.phase, Phase::Contend | Phase::Off);
        Capacity {
            carried: VecDeque::from([(now, Carried { rate_bps: last.capacity_bps as f64, air })]),
            started: last.phase != Phase::StartUp,
            wire_bps: Some(last.alone_max_bps as f64).filter(|bps| *bps > 0.0),
            lost_at: last.paced.then_some(now),
            senders: last.senders.into(),
            others: if wide {
                Others::resume(now, f64::from(last.queue_us) / 1e6)
            } else {
                Others::default()
            },
            ..Capacity::new(objective)
        }
    }

    /// Aggregates the members' reports; `members` includes silent ones.
    pub fn sum<'a>(
        &mut self,
        now: Moment,
        members: u16,
        reports: impl IntoIterator<Item = &'a Report>,
    ) -> Summary {
        let reports: Vec<&Report> = reports.into_iter().collect();
        let srtt_us = reports.iter().map(|r| r.srtt_us).max().unwrap_or(0);
        let round_trip = Duration::from_micros(srtt_us.into()).min(LONGEST_ROUND_TRIP);
        let seen = |r: &'a Report| r.destinations.iter().map(|(to, us)| (*to, *us, r.rate_bps as f64));
        let destinations = min_round_trips(reports.iter().copied().flat_map(seen));
        let total = Total::of(&reports, &destinations);
        self.carried.push_back((now, total.carried()));
        while self.carried.front().is_some_and(|(at, _)| now.since(*at) > MEMORY) {
            self.carried.pop_front();
        }
        let best = self.best();
        self.start_up(now, round_trip, best, total);
        self.tell_wire_from_air(now, round_trip, best, total);
        self.note_losses(now, total);
        self.drain(now, round_trip, best, total);
        let paced = self.is_paced(now, best);
        self.tell_own_from_others(now, round_trip, best, total, paced);
        let best = self.best();
        if self.senders != total.senders {
            self.senders = total.senders;
            self.probe.anew();
        }
        let (phase, factor) = match total.elastic {
            _ if self.answer == Answer::Widen => (Phase::Contend, 1.0),
            _ if !self.started => (Phase::StartUp, 1.0),
            0 => (Phase::Hold, 1.0),
            _ => match self.probe.factor(now, round_trip, best.rate_bps, paced) {
                factor if factor > 1.0 => (Phase::Probe, factor),
                _ => (Phase::Hold, self.part),
            },
        };
        let mut shares = self.shares(&reports, best, total);
        shares.rate_bps *= factor;
        shares.air *= factor;
        let behind_s = if phase == Phase::Contend { self.others.behind_s() } else { 0.0 };
        Summary {
            members: members.max(reports.len().min(u16::MAX.into()) as u16),
            senders: reports.len().min(u16::MAX.into()) as u16,
            phase,
            capacity_bps: best.rate_bps as u64,
            air_share_ppm: (shares.air * 1e6).min(MAX_AIR_PPM) as u32,
            share_bps: shares.rate_bps as u64,
            alone_max_bps: self.wire_bps.unwrap_or(0.0) as u64,
            queue_us: ((self.queue_s(total, paced) + behind_s) * 1e6) as u32,
            paced,
            srtt_us,
            destinations,
        }
    }

    /// The highest rate and air in memory.
    fn best(&self) -> Carried {
        let most = |of: fn(&Carried) -> f64| self.carried.iter().map(|(_, c)| of(c)).fold(0.0, f64::max);
        Carried { rate_bps: most(|c| c.rate_bps), air: most(|c| c.air) }
    }

    /// Determines whose the queue is, and acts on it.
    fn tell_own_from_others(
        &mut self,
        now: Moment,
        round_trip: Duration,
        best: Carried,
        total: Total,
        paced: bool,
    ) {
        if !self.started {
            self.answer = Answer::Share;
            return;
        }
        // Queues that emptied together may have shown more than the air carries.
        let part = self.part * (AIR_FULL / best.air.max(AIR_FULL));
        let may_hold_s = self.queue_s(total, paced);
        // A radio that became slower carries less, but takes as much airtime.
        let by_air = self.wire_bps.is_none() && best.air > 0.0;
        let seen = if by_air {
            Followed { carried: total.air, shared: part * best.air, may_hold_s }
        } else {
            Followed { carried: total.rate_bps, shared: part * best.rate_bps, may_hold_s }
        };
        self.answer = self.others.follow(now, round_trip, total, seen);
        match self.answer {
            Answer::Share | Answer::Widen => {}
            Answer::Forget => {
                self.carried = VecDeque::from([(now, total.carried())]);
                self.part = 1.0;
            }
            Answer::Begin => {
                *self = Capacity { others: self.others.clone(), ..Capacity::new(self.objective) };
                self.carried.push_back((now, total.carried()));
            }
        }
    }

    fn start_up(&mut self, now: Moment, round_trip: Duration, best: Carried, total: Total) {
        if total.elastic == 0 {
            return;
        }
        // A flow in recovery does not grow. That does not count as long as the rate rises from one
        // recovery to the next.
        if total.lost > SLOWED_FROM_LOSS && best.rate_bps >= GROWS * self.lost_at_bps {
            self.lost_at_bps = best.rate_bps;
            self.growth.clear();
        }
        if self.started {
            return;
        }
        // After losses, three round trips pass without growth.
        let patience = if self.lost_at.is_some() { 2 } else { 1 };
        let within = patience * GROWS_WITHIN.max(3 * round_trip);
        self.growth.push_back((now, best.rate_bps));
        while self.growth.len() > 1 && now.since(self.growth[1].0) >= within {
            self.growth.pop_front();
        }
        if let Some((at, before)) = self.growth.front() {
            self.started = now.since(*at) >= within && *before > 0.0 && best.rate_bps < GROWS * before;
            // A standing queue shows the same, and earlier.
            self.queued =
                if total.queue_s > QUEUED_S.max(total.base_s * QUEUED_OF_BASE) { self.queued + 1 } else { 0 };
            let for_a_while =
                Duration::from_millis(500) * self.queued > round_trip.max(Duration::from_secs(1));
            self.started |= for_a_while && best.rate_bps > 0.0;
        }
    }

    /// If the air is never fully used, or the carried rate stays far below the shares, the wire is
    /// the limit, until the group carries much less than before.
    fn tell_wire_from_air(&mut self, now: Moment, round_trip: Duration, best: Carried, total: Total) {
        // With others present the air may be full although the group takes little of it.
        if !self.started || self.others.may_be_there(now) {
            self.held_since = now;
            return;
        }
        // Behind a queue that is not the windows' own, others may use the air, too: allow time for
        // a trial to begin.
        let behind_queue = total.queue_s > self.queue_s(total, false) + BEHIND_QUEUE_S;
        let judged_after = if behind_queue {
            JUDGED_BEHIND_QUEUE.max(20 * round_trip)
        } else {
            JUDGED_AFTER.max(6 * round_trip)
        };
        if now.since(self.held_since) < judged_after {
            return;
        }
        // In start-up the air was not divided by shares.
        let settled = self.carried.iter().filter(|(at, _)| at.since(self.held_since) > judged_after / 2);
        let air = settled.map(|(_, c)| c.air).fold(0.0, f64::max);
        let shared_out_bps = best.air / total.senders.max(1) as f64 * total.sum_alone_bps;
        // A start-up in which slow members had the air looks like that, too. Once that turned out,
        // it is no longer a sign.
        let not_carried = self.was_air.is_none() && best.rate_bps * NOT_CARRIED < shared_out_bps;
        let not_full = air > 0.0 && (air < AIR_NOT_FULL || not_carried);
        match &mut self.wire_bps {
            None if not_full => {
                self.wire_bps = Some(best.rate_bps);
                self.held_since = now;
            }
            Some(wire_bps) if best.rate_bps < FELL_BELOW * *wire_bps => self.wire_bps = None,
            // The air is full although each member keeps to its share of the wire: the air was the
            // limit. Twice within a short time is chance.
            Some(_) if air > AIR_FULL && self.was_air.is_none_or(|at| now.since(at) > AIR_AGAIN_AFTER) => {
                self.wire_bps = None;
                self.was_air = Some(now);
                self.held_since = now;
            }
            Some(wire_bps) => *wire_bps = wire_bps.max(best.rate_bps),
            None => {}
        }
    }

    fn note_losses(&mut self, now: Moment, total: Total) {
        // Drops from a deep queue are no reason to pace windows.
        if total.lost <= SPREAD_FROM_LOSS || total.queue_s > QUEUED_S {
            return;
        }
        if self.lost_at.is_none() {
            // Rates found in bursts do not show what can be carried without them.
            self.started = false;
            self.growth.clear();
            self.queued = 0;
        }
        self.lost_at = Some(now);
    }

    fn is_paced(&self, now: Moment, best: Carried) -> bool {
        let lost = self.lost_at.is_some_and(|at| now.since(at) < MEMORY);
        lost && (self.wire_bps.is_some() || best.air < AIR_NOT_FULL)
    }

    /// The queue above the minimum RTT that a window may hold, seconds.
    fn queue_s(&self, total: Total, paced: bool) -> f64 {
        let queue_s = if paced { LOSSY_QUEUE_S } else { queue_s(self.objective) };
        (total.base_s + queue_s) * self.stretch - total.base_s
    }

    /// Reduces shares a little while a queue stands that the shares themselves cause; they grow
    /// back once it has drained.
    fn drain(&mut self, now: Moment, round_trip: Duration, best: Carried, total: Total) {
        if !self.started || now.since(self.part_changed) < round_trip.max(Duration::from_millis(500)) {
            return;
        }
        self.part_changed = now;
        let long = total.base_s > LONG_S;
        let full = total.rate_bps > if long { FULL_LONG } else { FULL } * self.part * best.rate_bps;
        // Others take what the members leave, as long as they leave it: windows grow until the
        // shares are carried.
        let far_from_full = total.elastic > 0 && total.rate_bps < FAR_FROM_FULL * self.part * best.rate_bps;
        let short = total.queue_s < OTHERS_QUEUE_S && !self.others.may_be_there(now);
        self.stretch = if far_from_full && short {
            (self.stretch * STRETCH).min(MAX_STRETCH)
        } else {
            (self.stretch * RELAX).max(1.0)
        };
        let above = drain_above_s(self.objective);
        let queued =
            above.is_some_and(|[above_s, long_s]| total.queue_s > if long { long_s } else { above_s });
        if queued && full {
            self.part = (self.part - DRAIN_STEP).max(MIN_PART);
        } else if total.lost > SLOWED_FROM_LOSS && full {
            self.part = (self.part - DRAIN_STEP).max(MIN_PART_FOR_LOSS.min(self.part));
        } else if !queued {
            self.part = (self.part + DRAIN_STEP).min(1.0);
        }
    }

    /// The most that one willing member may take, so that members that take less leave their rest
    /// to the others.
    fn shares(&self, reports: &[&Report], best: Carried, total: Total) -> Shares {
        let taker = |amount: f64, weight: f64, report: &Report| Taker {
            weight,
            most: if report.elastic { f64::INFINITY } else { amount },
        };
        let by_rate: Vec<Taker> = reports.iter().map(|r| taker(r.rate_bps as f64, 1.0, r)).collect();
        // Fractions of the rate that each would deliver alone: of the air, or of the wire.
        let (amount, by_alone): (f64, Vec<Taker>) = match self.wire_bps {
            None => (best.air, reports.iter().map(|r| taker(total.air_of(r), 1.0, r)).collect()),
            Some(wire_bps) => {
                let alone_bps = |r: &Report| total.alone_of(r).min(wire_bps);
                let takers = reports.iter().map(|r| taker(r.rate_bps as f64, alone_bps(r), r));
                (best.rate_bps, takers.collect())
            }
        };
        Shares { rate_bps: water_level(best.rate_bps, by_rate), air: water_level(amount, by_alone) }
    }
}

struct Shares {
    rate_bps: f64,
    air: f64,
}
