//! What the leader makes of the reports: what the group carries at its best, and each member's share of it.
//!
//! Capacity is not asked of anybody: it is the most that the members together delivered of late. Where members say what they would
//! deliver alone, it is counted in *air*: the sum of rate over alone; so a slow member does not cost the fast ones more of the air than its share.

use crate::{Destination, MOST_DESTINATIONS, Moment, NodeId, Objective, Phase, Report, Summary};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// The most of so much time counts.
const MEMORY: Duration = Duration::from_secs(30);
/// Start-up is over when what is carried grew by less than this factor ...
const GROWS: f64 = 1.15;
/// ... within three round trips, and at least so long. Round trips beyond two seconds are queues.
const GROWS_WITHIN: Duration = Duration::from_millis(1500);
const LONGEST_ROUND_TRIP: Duration = Duration::from_secs(2);
/// A probe lasts a round trip, at least so long ...
const SHORTEST_PROBE: Duration = Duration::from_millis(500);
/// ... and comes every six round trips, at least so much time apart.
const PROBE_EVERY: Duration = Duration::from_secs(4);
/// A probe found more if the best after it is so much better than before it.
const FOUND_MORE: f64 = 1.04;
/// Capacity has fallen when the members, though willing, carried less than this part of it ...
const FELL_BELOW: f64 = 0.75;
/// ... for six round trips, and at least so long.
const FELL_FOR: Duration = Duration::from_secs(4);

/// Start-up is over, too, when round-trip times stay this much above their least, seconds, and this part of it.
const QUEUED_S: f64 = 0.050;
const QUEUED_OF_BASE: f64 = 0.25;
/// A cell of several stations that is full carries 0.7 to 0.9 of what the sum of their parts alone would be: collisions, and acknowledgements.
const AIR_NOT_FULL: f64 = 0.65;
/// Nor is it full when what was shared out is so many times what is carried; judged after six round trips of sharing, and at least so long.
const NOT_CARRIED: f64 = 1.4;
const JUDGED_AFTER: Duration = Duration::from_secs(3);
/// Losses that count: this part of the segments.
const LOSSES: f64 = 0.002;
/// A queue that stays is drained by steps of this part of the shares, once a round trip, down to so much.
const DRAIN_STEP: f64 = 0.02;
const LEAST_PART: f64 = 0.8;
/// The shares make the queue if the group carries at least this part of what was shared out.
const FULL: f64 = 0.85;

/// A queue beyond this is drained, seconds.
fn drain_above_s(objective: Objective) -> Option<f64> {
    match objective {
        Objective::Throughput => None,
        Objective::Balanced => Some(0.060),
        Objective::Latency => Some(0.025),
    }
}

/// The leader's view of the group over time.
#[derive(Debug, Clone)]
pub struct Capacity {
    carried: VecDeque<Carried>,
    growth: VecDeque<(Moment, f64)>,
    started: bool,
    probe: Probe,
    senders: usize,
    /// Since when less than [`FELL_BELOW`] is carried.
    below_since: Option<Moment>,
    /// What the wire carries, where it limits and not the air, bit/s.
    wire_bps: Option<f64>,
    /// When segments were lost last.
    lost_at: Option<Moment>,
    /// What part of the best is shared, so that queues do not stay.
    part: f64,
    part_changed: Moment,
    queued: u32,
    held_since: Moment,
    objective: Objective,
    now: Moment,
}

#[derive(Debug, Clone, Copy)]
struct Carried {
    at: Moment,
    rate_bps: f64,
    /// Of the air: sum of rate over alone.
    air: f64,
}

/// When the group tries whether there is more.
#[derive(Debug, Clone, Copy, Default)]
struct Probe {
    begun: Option<Moment>,
    ended: Option<Moment>,
    /// The best before it began.
    before: f64,
}

impl Default for Capacity {
    fn default() -> Capacity {
        Capacity {
            carried: VecDeque::new(),
            growth: VecDeque::new(),
            started: false,
            probe: Probe::default(),
            senders: 0,
            below_since: None,
            wire_bps: None,
            lost_at: None,
            part: 1.0,
            part_changed: Moment::default(),
            queued: 0,
            held_since: Moment::default(),
            objective: Objective::default(),
            now: Moment::default(),
        }
    }
}

impl Capacity {
    /// At its beginning, for a group with this aim.
    pub fn new(objective: Objective) -> Capacity {
        Capacity { objective, ..Capacity::default() }
    }

    /// Starts from what another leader said, so that the group does not start up anew when its leader changes.
    pub fn resume(now: Moment, last: &Summary, objective: Objective) -> Capacity {
        let air = f64::from(last.air_share_ppm) * f64::from(last.senders) / 1e6;
        Capacity {
            carried: VecDeque::from([Carried { at: now, rate_bps: last.capacity_bps as f64, air }]),
            started: last.phase != Phase::StartUp,
            wire_bps: Some(last.alone_most_bps as f64).filter(|bps| *bps > 0.0),
            lost_at: last.paced.then_some(now),
            senders: last.senders.into(),
            now,
            ..Capacity::new(objective)
        }
    }

    /// Sums up what the members report; `members` counts the silent ones, too.
    pub fn sum(&mut self, now: Moment, members: u16, reports: &[(NodeId, Report)]) -> Summary {
        self.now = now;
        let srtt_us = reports.iter().map(|(_, r)| r.srtt_us).max().unwrap_or(0);
        let round_trip = Duration::from_micros(srtt_us.into()).min(LONGEST_ROUND_TRIP);
        let destinations = least_round_trips(reports);
        let total = Total::of(reports, self.wire_bps, &destinations);
        let willing = reports.iter().any(|(_, r)| r.elastic);
        self.carried.push_back(Carried { at: now, rate_bps: total.rate_bps, air: total.air });
        self.forget(now, round_trip, total, willing);
        let best = self.best();
        self.start_up(now, round_trip, best, total);
        self.tell_wire_from_air(now, round_trip, best, total);
        self.note_losses(now, total);
        self.drain(now, round_trip, best, total);
        let phase = self.phase(now, round_trip, best, total.elastic);
        self.senders = total.elastic;
        let mut shares = self.shares(reports, best, total);
        shares.rate_bps *= self.part;
        shares.air *= self.part;
        Summary {
            members: members.max(reports.len().min(u16::MAX.into()) as u16),
            senders: reports.len().min(u16::MAX.into()) as u16,
            phase,
            capacity_bps: best.rate_bps as u64,
            air_share_ppm: (shares.air * 1e6).min(1e6) as u32,
            share_bps: shares.rate_bps as u64,
            alone_most_bps: self.wire_bps.unwrap_or(0.0) as u64,
            paced: self.is_paced(now, best),
            srtt_us,
            destinations,
        }
    }

    /// The most of rate and of air in memory.
    fn best(&self) -> Carried {
        let most = |of: fn(&Carried) -> f64| self.carried.iter().map(of).fold(0.0, f64::max);
        Carried { at: self.now, rate_bps: most(|c| c.rate_bps), air: most(|c| c.air) }
    }

    fn forget(&mut self, now: Moment, round_trip: Duration, total: Total, willing: bool) {
        while self.carried.front().is_some_and(|c| now.since(c.at) > MEMORY) {
            self.carried.pop_front();
        }
        let best = self.best();
        let below = willing
            && total.rate_bps < FELL_BELOW * best.rate_bps
            && total.air < FELL_BELOW * best.air.max(1e-9);
        let since = *self.below_since.get_or_insert(now);
        if !below {
            self.below_since = None;
        } else if now.since(since) > FELL_FOR.max(6 * round_trip) {
            // What was carried before it fell tells nothing of now.
            while self.carried.front().is_some_and(|c| c.at < since) {
                self.carried.pop_front();
            }
            self.below_since = None;
        }
    }

    fn start_up(&mut self, now: Moment, round_trip: Duration, best: Carried, total: Total) {
        if total.elastic == 0 {
            return;
        }
        let within = GROWS_WITHIN.max(3 * round_trip);
        self.growth.push_back((now, best.rate_bps));
        while self.growth.len() > 1 && now.since(self.growth[1].0) >= within {
            self.growth.pop_front();
        }
        if let Some((at, before)) = self.growth.front().filter(|_| !self.started) {
            self.started = now.since(*at) >= within && *before > 0.0 && best.rate_bps < GROWS * before;
            // A queue that stays says the same, and earlier.
            self.queued =
                if total.queue_s > QUEUED_S.max(total.base_s * QUEUED_OF_BASE) { self.queued + 1 } else { 0 };
            let for_a_while =
                Duration::from_millis(500) * self.queued > round_trip.max(Duration::from_secs(1));
            self.started |= for_a_while && best.rate_bps > 0.0;
        }
    }

    /// Where the air is far from full and probes find no more, the wire limits. It does so until the group carries much less than it did.
    fn tell_wire_from_air(&mut self, now: Moment, round_trip: Duration, best: Carried, total: Total) {
        if !self.started {
            self.held_since = now;
            return;
        }
        // The best of the start-up is no measure yet: others had the air than will have it.
        if now.since(self.held_since) < JUDGED_AFTER.max(6 * round_trip) {
            return;
        }
        let not_full = self.air_is_not_full(best, total);
        match &mut self.wire_bps {
            None if not_full => {
                self.wire_bps = Some(best.rate_bps);
                // Parts are counted anew, of what each would get alone over this wire.
                self.carried.clear();
                self.carried.push_back(Carried { at: self.now, rate_bps: best.rate_bps, air: 0.0 });
            }
            Some(wire_bps) if best.rate_bps < FELL_BELOW * *wire_bps => self.wire_bps = None,
            Some(wire_bps) => *wire_bps = wire_bps.max(best.rate_bps),
            None => {}
        }
    }

    /// All of the air is never taken, or what was shared out comes nowhere near being carried.
    fn air_is_not_full(&self, best: Carried, total: Total) -> bool {
        let shared_out_bps = best.air / total.senders.max(1) as f64 * total.sum_alone_bps;
        best.air > 0.0 && (best.air < AIR_NOT_FULL || best.rate_bps * NOT_CARRIED < shared_out_bps)
    }

    fn note_losses(&mut self, now: Moment, total: Total) {
        if total.lost > LOSSES {
            self.lost_at = Some(now);
        }
    }

    fn is_paced(&self, now: Moment, best: Carried) -> bool {
        let lost = self.lost_at.is_some_and(|at| now.since(at) < MEMORY);
        lost && (self.wire_bps.is_some() || best.air < AIR_NOT_FULL)
    }

    /// Shares are cut a little while a queue stays that the shares themselves make, and grow back when it has gone.
    fn drain(&mut self, now: Moment, round_trip: Duration, best: Carried, total: Total) {
        if !self.started || now.since(self.part_changed) < round_trip.max(Duration::from_millis(500)) {
            return;
        }
        self.part_changed = now;
        let Some(drain_above_s) = drain_above_s(self.objective) else { return };
        let full = total.rate_bps > FULL * self.part * best.rate_bps;
        if total.queue_s > drain_above_s && full {
            self.part = (self.part - DRAIN_STEP).max(LEAST_PART);
        } else if total.queue_s < drain_above_s {
            self.part = (self.part + DRAIN_STEP).min(1.0);
        }
    }

    fn phase(&mut self, now: Moment, round_trip: Duration, best: Carried, elastic: usize) -> Phase {
        if !self.started {
            return Phase::StartUp;
        }
        if elastic == 0 {
            return Phase::Hold;
        }
        let probe = &mut self.probe;
        if let Some(begun) = probe.begun {
            if now.since(begun) < SHORTEST_PROBE.max(round_trip) {
                return Phase::Probe;
            }
            probe.begun = None;
            probe.ended = Some(now);
        }
        // What a probe brought is delivered a round trip later, and its rate is taken over two.
        let ended = *probe.ended.get_or_insert(now);
        let answered = now.since(ended) >= Duration::from_secs(1).max(2 * round_trip);
        let found = probe.before > 0.0 && best.rate_bps > FOUND_MORE * probe.before;
        let due = now.since(ended) >= PROBE_EVERY.max(6 * round_trip);
        if due || (answered && found) {
            *probe = Probe { begun: Some(now), ended: None, before: best.rate_bps };
            return Phase::Probe;
        }
        Phase::Hold
    }

    /// What one willing member may take, so that those who take less leave their rest to the others.
    fn shares(&self, reports: &[(NodeId, Report)], best: Carried, total: Total) -> Shares {
        let mut rates: Vec<f64> = Vec::new();
        let mut airs: Vec<f64> = Vec::new();
        for (_, report) in reports.iter().filter(|(_, r)| !r.elastic) {
            rates.push(report.rate_bps as f64);
            airs.push(total.air_of(report));
        }
        Shares {
            rate_bps: water_level(best.rate_bps, &mut rates, reports.len()),
            air: water_level(best.air, &mut airs, reports.len()),
        }
    }
}

/// The level at which `all` takers share `amount` if some of them want no more than `wants`.
fn water_level(amount: f64, wants: &mut [f64], all: usize) -> f64 {
    wants.sort_by(f64::total_cmp);
    let (mut left, mut takers) = (amount, all.max(1));
    for want in wants {
        if *want >= left / takers as f64 || takers == 1 {
            break;
        }
        left -= *want;
        takers -= 1;
    }
    left / takers as f64
}

struct Shares {
    rate_bps: f64,
    air: f64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Total {
    rate_bps: f64,
    air: f64,
    senders: usize,
    /// Sum of what the members would deliver alone, bit/s.
    sum_alone_bps: f64,
    elastic: usize,
    /// What a member that does not know what it would deliver alone is taken to deliver; 0: nobody knows.
    alone_bps: f64,
    /// Nobody would get more alone.
    wire_bps: f64,
    /// Mean part of the segments lost, by rate.
    lost: f64,
    /// Mean time above the least round-trip time, and that, seconds.
    queue_s: f64,
    base_s: f64,
}

impl Total {
    fn of(reports: &[(NodeId, Report)], wire_bps: Option<f64>, bases: &[(Destination, u32)]) -> Total {
        let known: Vec<f64> =
            reports.iter().filter(|(_, r)| r.alone_bps > 0).map(|(_, r)| r.alone_bps as f64).collect();
        let alone_bps = if known.is_empty() { 0.0 } else { known.iter().sum::<f64>() / known.len() as f64 };
        let wire_bps = wire_bps.unwrap_or(f64::INFINITY);
        let mut total = Total { senders: reports.len(), wire_bps, alone_bps, ..Total::default() };
        let mut lost_bps = 0.0;
        for (_, report) in reports {
            total.rate_bps += report.rate_bps as f64;
            total.air += total.air_of(report);
            total.sum_alone_bps += total.alone_of(report);
            total.elastic += usize::from(report.elastic);
            lost_bps += report.rate_bps as f64 * f64::from(report.lost_permille) / 1000.0;
            let to = report.destinations.first().map(|(to, _)| *to);
            let base = bases.iter().find(|(d, _)| Some(*d) == to).map_or(0, |(_, us)| *us);
            total.queue_s += f64::from(report.srtt_us.saturating_sub(base)) / 1e6;
            total.base_s += f64::from(base) / 1e6;
        }
        let all = reports.len().max(1) as f64;
        total.queue_s /= all;
        total.base_s /= all;
        total.lost = if total.rate_bps > 0.0 { lost_bps / total.rate_bps } else { 0.0 };
        total
    }

    fn air_of(&self, report: &Report) -> f64 {
        let alone_bps = self.alone_of(report);
        if alone_bps > 0.0 { report.rate_bps as f64 / alone_bps } else { 0.0 }
    }

    fn alone_of(&self, report: &Report) -> f64 {
        let alone_bps = if report.alone_bps > 0 { report.alone_bps as f64 } else { self.alone_bps };
        alone_bps.min(self.wire_bps)
    }
}

fn least_round_trips(reports: &[(NodeId, Report)]) -> Vec<(Destination, u32)> {
    let mut least: BTreeMap<Destination, (u32, u64)> = BTreeMap::new();
    for (_, report) in reports {
        for (to, min_rtt_us) in &report.destinations {
            let entry = least.entry(*to).or_insert((u32::MAX, 0));
            entry.0 = entry.0.min(*min_rtt_us);
            entry.1 += report.rate_bps;
        }
    }
    let mut busiest: Vec<(Destination, (u32, u64))> = least.into_iter().collect();
    busiest.sort_by(|a, b| b.1.1.cmp(&a.1.1).then(a.0.cmp(&b.0)));
    busiest.into_iter().take(MOST_DESTINATIONS).map(|(to, (us, _))| (to, us)).collect()
}
