//! What the leader makes of the reports: what the group carries at its best, and each member's share of it.
//!
//! Capacity is not asked of anybody: it is the most that the members together delivered of late. Where members say what they would
//! deliver alone, it is counted in *air*: the sum of rate over alone; so a slow member does not cost the fast ones more of the air than its share.

use crate::{Destination, MOST_DESTINATIONS, Moment, NodeId, Phase, Report, Summary};
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

/// The leader's view of the group over time.
#[derive(Debug, Clone, Default)]
pub struct Capacity {
    carried: VecDeque<Carried>,
    growth: VecDeque<(Moment, f64)>,
    started: bool,
    probe: Probe,
    senders: usize,
    /// Since when less than [`FELL_BELOW`] is carried.
    below_since: Option<Moment>,
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

impl Capacity {
    /// Starts from what another leader said, so that the group does not start up anew when its leader changes.
    pub fn resume(now: Moment, last: &Summary) -> Capacity {
        let air = f64::from(last.air_share_ppm) * f64::from(last.senders) / 1e6;
        Capacity {
            carried: VecDeque::from([Carried { at: now, rate_bps: last.capacity_bps as f64, air }]),
            started: last.phase != Phase::StartUp,
            senders: last.senders.into(),
            now,
            ..Capacity::default()
        }
    }

    /// Sums up what the members report; `members` counts the silent ones, too.
    pub fn sum(&mut self, now: Moment, members: u16, reports: &[(NodeId, Report)]) -> Summary {
        self.now = now;
        let srtt_us = reports.iter().map(|(_, r)| r.srtt_us).max().unwrap_or(0);
        let round_trip = Duration::from_micros(srtt_us.into()).min(LONGEST_ROUND_TRIP);
        let total = Total::of(reports);
        let willing = reports.iter().any(|(_, r)| r.elastic);
        self.carried.push_back(Carried { at: now, rate_bps: total.rate_bps, air: total.air });
        self.forget(now, round_trip, total, willing);
        let best = self.best();
        self.start_up(now, round_trip, best, total.elastic);
        let phase = self.phase(now, round_trip, best, total.elastic);
        self.senders = total.elastic;
        let shares = self.shares(reports, best, total);
        Summary {
            members: members.max(reports.len().min(u16::MAX.into()) as u16),
            senders: reports.len().min(u16::MAX.into()) as u16,
            phase,
            capacity_bps: best.rate_bps as u64,
            air_share_ppm: (shares.air * 1e6).min(1e6) as u32,
            share_bps: shares.rate_bps as u64,
            srtt_us,
            destinations: least_round_trips(reports),
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

    fn start_up(&mut self, now: Moment, round_trip: Duration, best: Carried, elastic: usize) {
        if elastic == 0 {
            return;
        }
        let within = GROWS_WITHIN.max(3 * round_trip);
        self.growth.push_back((now, best.rate_bps));
        while self.growth.len() > 1 && now.since(self.growth[1].0) >= within {
            self.growth.pop_front();
        }
        if let Some((at, before)) = self.growth.front().filter(|_| !self.started) {
            self.started = now.since(*at) >= within && *before > 0.0 && best.rate_bps < GROWS * before;
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

#[derive(Debug, Clone, Copy)]
struct Total {
    rate_bps: f64,
    air: f64,
    elastic: usize,
    /// What a member that does not know what it would deliver alone is taken to deliver; 0: nobody knows.
    alone_bps: f64,
}

impl Total {
    fn of(reports: &[(NodeId, Report)]) -> Total {
        let known: Vec<f64> =
            reports.iter().filter(|(_, r)| r.alone_bps > 0).map(|(_, r)| r.alone_bps as f64).collect();
        let alone_bps = if known.is_empty() { 0.0 } else { known.iter().sum::<f64>() / known.len() as f64 };
        let mut total = Total { rate_bps: 0.0, air: 0.0, elastic: 0, alone_bps };
        for (_, report) in reports {
            total.rate_bps += report.rate_bps as f64;
            total.air += total.air_of(report);
            total.elastic += usize::from(report.elastic);
        }
        total
    }

    fn air_of(&self, report: &Report) -> f64 {
        let alone_bps = if report.alone_bps > 0 { report.alone_bps as f64 } else { self.alone_bps };
        if alone_bps > 0.0 { report.rate_bps as f64 / alone_bps } else { 0.0 }
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
