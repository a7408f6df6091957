//! Decides which station should move to another radio so that all gain. No I/O and no clock.
//!
//! Stations on one radio share its air: each has its rate alone, divided by their number. Of all
//! possible moves of one station, the plan takes the one that most increases the sum of the
//! logarithms (proportional fairness), if no station is worse off after it than when this set of
//! stations began.

use super::super::rules::StationId;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Minimum interval between two requests to a station.
pub(crate) const ASKED_EACH: Duration = Duration::from_secs(300);
/// How long a set of stations is observed before one is asked.
const SETTLED: Duration = Duration::from_secs(20);
/// The minimum increase of the sum for which a move is requested: a fifth more for one station.
const MIN_GAIN: f64 = 0.18;
/// A station that has not moved within this time will not.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);
/// How long after the request the result of a move is evaluated.
const JUDGED: Duration = Duration::from_secs(60);
/// A decrease of the sum by this much contradicts the forecast.
const CONTRADICTED: f64 = 0.05;
/// Time until a station that refused is asked again. Each further refusal doubles it, up to the
/// factor below.
const REFUSED: Duration = Duration::from_secs(3600);
const MAX_REFUSED: u32 = 24;
/// Weight of a tick in the mean of a station's rate.
const NEW: f64 = 0.2;

/// A station that has more to send than it can.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// Its hardware address.
    pub id: StationId,
    /// Its current radio.
    pub on: usize,
    /// The rate that it would have alone on each radio, bit/s; `None`: it is not known whether it
    /// can use that radio.
    pub alone_bps: Vec<Option<f64>>,
    /// Its rate.
    pub rate_bps: f64,
}

/// A request to a station to move to another radio.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Request {
    /// Its hardware address.
    pub id: StationId,
    /// Its current radio.
    pub from: usize,
    /// The radio that it should move to.
    pub to: usize,
    /// It should move back, because a measurement contradicted the forecast.
    pub is_undone: bool,
}

#[derive(Debug, Default)]
struct Memory {
    asked_at: Option<Duration>,
    refused_until: Duration,
    refusals: u32,
    /// Radios where measurement contradicted the forecast.
    wrong: BTreeSet<usize>,
}

/// A move whose result is not known yet.
#[derive(Debug)]
struct Trial {
    request: Request,
    asked_at: Duration,
    /// The sum of logarithms that was measured before.
    before: f64,
    is_contradicted: bool,
}

/// The state between ticks.
#[derive(Debug, Default)]
pub struct ClientSteering {
    memory: BTreeMap<StationId, Memory>,
    /// The forecast rate of each station when this set began, bit/s.
    start_bps: BTreeMap<StationId, f64>,
    began: Duration,
    rates_bps: BTreeMap<StationId, f64>,
    trial: Option<Trial>,
}

/// The rate of each station, bit/s, if `moved` were on radio `to`; `None`: unknown.
fn forecast(candidates: &[Candidate], moved: Option<(StationId, usize)>) -> Option<Vec<f64>> {
    let on = |c: &Candidate| moved.filter(|(id, _)| *id == c.id).map_or(c.on, |(_, to)| to);
    let mut senders: BTreeMap<usize, f64> = BTreeMap::new();
    candidates.iter().for_each(|c| *senders.entry(on(c)).or_default() += 1.0);
    let share = |c: &Candidate| {
        let alone_bps = c.alone_bps.get(on(c)).copied().flatten().filter(|bps| *bps > 0.0)?;
        Some(alone_bps / senders[&on(c)])
    };
    candidates.iter().map(share).collect()
}

fn sum_log(of: &[f64]) -> f64 {
    of.iter().map(|bps| bps.max(1.0).ln()).sum()
}

impl ClientSteering {
    /// Evaluates the stations that have more to send, at `now`. `air_limits`: the air is their
    /// limit, and their shares are enforced.
    pub fn tick(&mut self, now: Duration, air_limits: bool, stations: &[Candidate]) -> Option<Request> {
        let known: BTreeSet<StationId> = stations.iter().map(|c| c.id).collect();
        let Some(shares) = forecast(stations, None).filter(|_| air_limits) else {
            self.trial = None;
            self.start_bps.clear();
            return None;
        };
        if known.len() != self.start_bps.len() || !known.iter().all(|id| self.start_bps.contains_key(id)) {
            self.start_bps = stations.iter().map(|c| c.id).zip(shares.iter().copied()).collect();
            self.rates_bps = stations.iter().map(|c| (c.id, c.rate_bps)).collect();
            self.began = now;
            self.trial = None;
            return None;
        }
        for station in stations {
            let rate_bps = self.rates_bps.entry(station.id).or_insert(station.rate_bps);
            *rate_bps += NEW * (station.rate_bps - *rate_bps);
        }
        if let Some(trial) = self.trial.take() {
            return self.judge(now, trial, stations);
        }
        if now.saturating_sub(self.began) < SETTLED {
            return None;
        }
        let request = self.best(now, stations, &shares)?;
        self.ask(now, request);
        Some(request)
    }

    fn ask(&mut self, now: Duration, request: Request) {
        self.memory.entry(request.id).or_default().asked_at = Some(now);
        let before = sum_log(&self.rates_bps.values().copied().collect::<Vec<_>>());
        self.trial = Some(Trial { request, asked_at: now, before, is_contradicted: false });
    }

    /// Evaluates the result of a move.
    fn judge(&mut self, now: Duration, mut trial: Trial, stations: &[Candidate]) -> Option<Request> {
        let Request { id, from, to, is_undone } = trial.request;
        let waited = now.saturating_sub(trial.asked_at);
        let moved = stations.iter().any(|c| c.id == id && c.on == to);
        if !moved {
            if trial.is_contradicted {
                // The station has left that radio by itself.
            } else if waited < ANSWERS_WITHIN {
                self.trial = Some(trial);
            } else {
                self.refused(now, id);
            }
            return None;
        }
        if waited < JUDGED {
            self.trial = Some(trial);
            return None;
        }
        let after = sum_log(&self.rates_bps.values().copied().collect::<Vec<_>>());
        if is_undone || !trial.is_contradicted && after >= trial.before - CONTRADICTED {
            return None;
        }
        self.memory.entry(id).or_default().wrong.insert(to);
        if waited < ASKED_EACH {
            trial.is_contradicted = true;
            self.trial = Some(trial);
            return None;
        }
        let back = Request { id, from: to, to: from, is_undone: true };
        self.ask(now, back);
        Some(back)
    }

    fn best(&self, now: Duration, stations: &[Candidate], shares: &[f64]) -> Option<Request> {
        let may = |id: StationId, to: usize| {
            self.memory.get(&id).is_none_or(|memory| {
                let lately = memory.asked_at.is_some_and(|at| now.saturating_sub(at) < ASKED_EACH);
                !lately && memory.refused_until <= now && !memory.wrong.contains(&to)
            })
        };
        let before = sum_log(shares);
        let mut best: Option<(f64, Request)> = None;
        for station in stations {
            for to in (0..station.alone_bps.len()).filter(|to| *to != station.on && may(station.id, *to)) {
                let Some(after) = forecast(stations, Some((station.id, to))) else { continue };
                let gain = sum_log(&after) - before;
                let nobody_loses = stations.iter().zip(&after).all(|(c, bps)| {
                    // Rounding of a division is not a loss.
                    self.start_bps.get(&c.id).is_some_and(|start| *bps >= start * (1.0 - 1e-9))
                });
                if gain >= MIN_GAIN && nobody_loses && best.is_none_or(|(most, _)| gain > most) {
                    let request = Request { id: station.id, from: station.on, to, is_undone: false };
                    best = Some((gain, request));
                }
            }
        }
        best.map(|(_, request)| request)
    }

    /// Processes a station's answer, a status (IEEE 802.11-2020, table 9-428); 0: it accepts.
    pub(crate) fn answered(&mut self, now: Duration, id: StationId, status: u8) {
        let is_asked = self.trial.as_ref().is_some_and(|trial| trial.request.id == id);
        if status != 0 && is_asked {
            self.trial = None;
            self.refused(now, id);
        }
    }

    fn refused(&mut self, now: Duration, id: StationId) {
        let memory = self.memory.entry(id).or_default();
        memory.refused_until = now + REFUSED * (1 << memory.refusals.min(5)).min(MAX_REFUSED);
        memory.refusals += 1;
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
