//! Acts for stations without yuzuri: each is a member of the group, for which the gate creates the
//! report and enforces the bounds. `yuzuri-policy` determines capacity and shares, as on terminals.
//! No I/O and no clock.

use super::arrivals::ArrivalEstimator;
use super::bottleneck::{Bottleneck, Channel, Radios, Sharers};
use super::figures::Point;
use super::group_view::GroupView;
use super::membership::Membership;
use super::other::{self, Queue, UnwindowedSender};
use super::release::Release;
use super::rules::{Rules, StationId};
use super::view::{View, segment_bytes};
use super::window_use::WindowUse;
use crate::RadioConfig;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use yuzuri_gate::{Bound, FlowKey, FlowSeen as Gated, OtherTraffic};
use yuzuri_policy::{
    Decision, FlowSeen, Limit, Moment, Phase, PolicyConfig, PolicyName, RadioHint, Report, Rule, Summary,
    Terminal,
};

/// A connection that is silent for this long is not part of a tick, nanoseconds.
const SILENT_NS: u64 = 10_000_000_000;
/// A station that is silent for this many ticks is forgotten.
const STATION_TIMEOUT_TICKS: u32 = 240;
/// The largest segment, for connections whose size is not known yet, bytes.
const SEGMENT_BYTES: u32 = 1460;

/// A limited station has at least this many segments in flight; round trips below this, µs, are
/// mostly the measurement's granularity.
const MIN_SEGMENTS: u32 = 4;
const MIN_RTT_US: u32 = 2_000;
/// If ACKs are thinned, one ACK for at least this many segments is forwarded.
const THIN_SEGMENTS: u32 = 8;

/// A connection of a station, at the last tick.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) key: FlowKey,
    pub(crate) gated: Gated,
    pub(crate) seen: FlowSeen,
    /// Mean round-trip times since the previous tick, between gate and station, and between gate
    /// and server, µs.
    pub(crate) halves_us: [u64; 2],
    pub(crate) why: Rule,
    /// Its bound, bytes.
    pub(crate) bytes: Option<u32>,
}

/// A station.
#[derive(Debug)]
pub(crate) struct Station {
    sharer: Terminal,
    pub(crate) radio: RadioHint,
    pub(super) channel: Channel,
    pub(super) bottleneck: Bottleneck,
    /// Whether its ACKs are thinned: its radio is one of those selected, and the queue for the air
    /// is long enough.
    pub(crate) is_thinned: bool,
    pub(crate) addresses: BTreeSet<IpAddr>,
    pub(crate) report: Option<Report>,
    pub(crate) rows: Vec<Row>,
    /// Its traffic without a window.
    pub(crate) other: Option<UnwindowedSender>,
    /// Its share, payload bit/s, with its weight and its limit.
    pub(crate) share_bps: Option<f64>,
    /// Whether it is a member of the group itself: it reports, and bounds its own uploads.
    pub(crate) membership: Membership,
    /// Whether windows have an effect on it.
    pub(crate) windows: WindowUse,
    silent: u32,
}

/// What the gate must enforce until the next tick.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// The bounds of connections.
    pub flows: Vec<(FlowKey, Bound)>,
    /// Connections that are unbounded from now on.
    pub free: Vec<FlowKey>,
    /// The bound for new connections of known stations, bytes.
    pub stations: Vec<(IpAddr, u32)>,
    /// The bound for connections of unknown stations, bytes.
    pub others: Option<u32>,
    /// The rates for stations' traffic without a window, bit/s.
    pub rates: Vec<(StationId, u64)>,
    /// Stations whose traffic without a window is unlimited from now on.
    pub unpoliced: Vec<StationId>,
}

/// Decides for all stations of an access point, twice a second.
#[derive(Debug)]
pub struct Controller {
    config: PolicyConfig,
    rules: Rules,
    view: View,
    ticked_at: Moment,
    pub(crate) stations: BTreeMap<StationId, Station>,
    radios: Radios,
    /// Stations that share a bottleneck.
    pub(super) sharers: BTreeMap<Bottleneck, Sharers>,
    /// The current bounds, bytes.
    held: HashMap<FlowKey, u32>,
    releasing: HashMap<FlowKey, Release>,
    decisions: Vec<Decision>,
    arrivals: ArrivalEstimator,
    /// The channels on which ACKs are thinned.
    thinned: BTreeSet<Channel>,
    /// The last reports of stations that are members themselves.
    members: BTreeMap<StationId, Report>,
}

/// The location of a station.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct StationLocation {
    /// Its radio, if it is known.
    pub radio: Option<RadioConfig>,
    /// The channel.
    pub channel: Channel,
}

impl Controller {
    /// The state before the first tick.
    pub fn new(config: PolicyConfig, rules: Rules) -> Controller {
        Controller {
            config,
            rules,
            view: View::default(),
            ticked_at: Moment::default(),
            stations: BTreeMap::new(),
            radios: Radios::default(),
            sharers: BTreeMap::new(),
            held: HashMap::new(),
            releasing: HashMap::new(),
            decisions: Vec::new(),
            arrivals: ArrivalEstimator::default(),
            thinned: BTreeSet::new(),
            members: BTreeMap::new(),
        }
    }

    /// Sets, from the next tick on, which stations are members themselves: each of them reports,
    /// and bounds its own uploads.
    pub fn receive_reports(&mut self, members: BTreeMap<StationId, Report>) {
        self.members = members;
    }

    /// Whether a station is exempt from all bounds.
    pub(crate) fn is_exempt(&self, station: StationId) -> bool {
        self.rules.of(station).exempt
    }

    /// Continues with other rules and another objective. The state of stations and path is kept.
    pub(crate) fn configure(&mut self, config: PolicyConfig, rules: Rules) {
        if config != self.config {
            let sharers = self.stations.values_mut().map(|station| &mut station.sharer);
            let leaders = self.sharers.values_mut().map(|sharers| &mut sharers.leader);
            sharers.chain(leaders).for_each(|sharer| sharer.configure(self.ticked_at, config));
        }
        (self.config, self.rules) = (config, rules);
    }

    /// A station's weight.
    pub fn weight_of(&self, station: StationId) -> f64 {
        self.rules.of(station).weight
    }

    /// The stations that have more to send than they can, with their rates, payload bit/s.
    pub(crate) fn with_backlog(&self) -> impl Iterator<Item = (StationId, u64)> {
        let reports = self.stations.iter().filter_map(|(id, station)| Some((*id, station.report.as_ref()?)));
        reports.filter(|(_, report)| report.elastic).map(|(id, report)| (id, report.rate_bps))
    }

    /// The stations' rates at this tick.
    pub(super) fn points(&self) -> impl Iterator<Item = Point> + Clone {
        let reports = self.stations.values().filter_map(|s| Some((s.report.as_ref()?, s.share_bps)));
        reports.map(|(report, share_bps)| Point {
            rate_bps: report.rate_bps as f64,
            rtt_us: report.srtt_us.into(),
            part: share_bps
                .filter(|bps| report.elastic && *bps > 0.0)
                .map(|bps| report.rate_bps as f64 / bps),
        })
    }

    /// Observes all connections, at `now_ns` of `CLOCK_MONOTONIC`, and decides for each. `place`
    /// returns where a station is. `others`: the stations' traffic without a window.
    pub fn tick(
        &mut self,
        now: Moment,
        now_ns: u64,
        flows: &[Gated],
        others: &[OtherTraffic],
        mut place: impl FnMut(StationId) -> StationLocation,
    ) -> Plan {
        let there: HashSet<&FlowKey> = flows.iter().map(|flow| &flow.key).collect();
        self.view.retain_flows(|key| there.contains(key));
        self.held.retain(|key, _| there.contains(key));
        self.releasing.retain(|key, _| there.contains(key));
        self.stations.values_mut().for_each(|station| station.rows.clear());
        for flow in
            flows.iter().filter(|flow| flow.up_bytes > 0 && now_ns.saturating_sub(flow.last_ns) < SILENT_NS)
        {
            let Some(seen) = self.view.observe(now_ns, flow) else { continue };
            let id = StationId(flow.mac);
            let station = self.stations.entry(id).or_insert_with(|| Station::new(self.config));
            station.addresses.insert(flow.key.station().ip());
            let halves_us = self.view.halves_us(&flow.key);
            let (key, gated) = (flow.key, flow.clone());
            let row = Row { key, gated, seen, halves_us, why: Rule::Unknown, bytes: None };
            station.rows.push(row);
        }
        let gated = self.stations.values().flat_map(|station| &station.rows).map(|row| &row.gated);
        self.arrivals.observe(now_ns, gated, others);
        for seen in others.iter().filter(|seen| now_ns.saturating_sub(seen.last_ns) < SILENT_NS) {
            let station =
                self.stations.entry(StationId(seen.mac)).or_insert_with(|| Station::new(self.config));
            match &mut station.other {
                Some(other) => other.observe(now_ns, *seen),
                none => *none = Some(UnwindowedSender::new(now_ns, *seen)),
            }
        }
        // This includes members whose connections are older than the gate, which it cannot see.
        for id in self.members.keys() {
            self.stations.entry(*id).or_insert_with(|| Station::new(self.config));
        }
        for (id, station) in &mut self.stations {
            if !others.iter().any(|o| o.mac == id.0 && now_ns.saturating_sub(o.last_ns) < SILENT_NS) {
                station.other = None;
            }
            let is_heard =
                !station.rows.is_empty() || station.other.is_some() || self.members.contains_key(id);
            station.silent = if is_heard { 0 } else { station.silent + 1 };
            let StationLocation { radio, channel } = place(*id);
            station.channel = channel;
            station.radio = radio.map(RadioConfig::hint).unwrap_or_default();
            station.is_thinned = radio.is_some_and(|radio| {
                self.rules.thin_acks.iter().any(|slow| slow.aggregation() == radio.aggregation)
            });
            // In order of age, like a kernel walk.
            station.rows.sort_by_key(|row| row.seen.id);
            let view = &self.view;
            station.windows.observe(station.rows.iter().filter_map(|row| view.is_beyond_window(&row.key)));
        }
        self.stations.retain(|_, station| station.silent < STATION_TIMEOUT_TICKS);
        let mut plan = Plan::default();
        let seconds = now.since(self.ticked_at).as_secs_f64();
        self.ticked_at = now;
        self.part_by_bottleneck();
        self.thin_where_air_has_a_queue();
        for (bottleneck, mut sharers) in std::mem::take(&mut self.sharers) {
            self.decide(now, seconds, bottleneck, &mut sharers, &mut plan);
            self.sharers.insert(bottleneck, sharers);
        }
        if self.config.name != PolicyName::Off {
            self.bound_new_connections(&mut plan);
        }
        plan
    }

    /// Decides for stations that share a bottleneck.
    fn decide(&mut self, now: Moment, seconds: f64, at: Bottleneck, sharers: &mut Sharers, plan: &mut Plan) {
        let is_here = |station: &Station| station.bottleneck == at;
        let here = || self.stations.values().filter(|station| is_here(station));
        let members = u16::try_from(here().count()).unwrap_or(u16::MAX);
        let mean_weight = self.mean_weight(at, sharers.summary.as_ref());
        let (is_lossy, most_bps) =
            sharers.summary.as_ref().map_or((false, 0), |summary| (summary.paced, summary.capacity_bps));
        let reports = here().filter_map(|station| station.report.as_ref());
        let carried_bps: u64 = reports.map(|report| report.rate_bps).sum();
        let part = carried_bps as f64 / most_bps.max(1) as f64;
        let buckets = self.buckets(at);
        let here = self.stations.values_mut().filter(|station| is_here(station));
        let rows = here.flat_map(|station| &mut station.rows).map(|row| &mut row.seen);
        sharers.loss_cause.observe(buckets, is_lossy, seconds, rows);
        let here = self.stations.values().filter(|station| is_here(station));
        let rows = here.flat_map(|station| &station.rows).map(|row| &row.seen);
        let is_suspended = sharers.bound_trials.observe(is_lossy, part, rows);
        sharers.is_suspended = is_suspended;
        let holds = sharers.holds();
        let usual = self.usual_flow(at);
        for (id, station) in self.stations.iter_mut().filter(|(_, station)| is_here(station)) {
            let mut seen: Vec<FlowSeen> = station.rows.iter().map(|row| row.seen).collect();
            let rule = self.rules.of(*id);
            let part = rule.weight / mean_weight;
            let wanted_bps = sharers.summary.as_ref().map(|summary| summary.share_of(station.radio) * part);
            let most_bps = rule.max_bps.unwrap_or(f64::INFINITY);
            let share_bps = wanted_bps.map(|bps| bps.min(most_bps));
            station.share_bps = share_bps;
            seen.extend(station.other.as_mut().and_then(|other| {
                let like = seen.iter().max_by_key(|flow| flow.cwnd).filter(|flow| flow.min_rtt_us > 0);
                other.as_flow(like.or(usual.as_ref())?, &self.arrivals, share_bps)
            }));
            let is_limited = wanted_bps.is_some_and(|bps| bps > most_bps);
            let part =
                share_bps.zip(wanted_bps).map_or(part, |(share, wanted)| part * share / wanted.max(1.0));
            let summary = sharers.summary.clone();
            let mut group = GroupView {
                members,
                part,
                is_limited,
                report: None,
                reports: None,
                limit: None,
                in_flight_bps: None,
                summary,
            };
            station.sharer.tick(now, &seen, station.radio, Some(&mut group), &mut self.decisions);
            // The gate sees the rate of a member's uploads; the member knows what limits them.
            let seen_bps = group.report.as_ref().map_or(0, |report| report.rate_bps);
            let may_bps = wanted_bps.filter(|_| holds && !is_suspended);
            station.membership.observe(self.members.get(id), seen_bps as f64, may_bps);
            station.report = match self.members.get(id) {
                Some(own) => {
                    let other_bps = station.other.as_ref().map_or(0.0, |other| other.passed_bps);
                    let rate_bps = own.rate_bps.saturating_add(other_bps as u64);
                    // A station that cannot use its share leaves the rest to the others.
                    Some(Report { rate_bps, elastic: own.elastic && !is_limited, ..own.clone() })
                }
                None => group.report,
            };
            if is_suspended {
                let plain = |d: &mut Decision| (d.bound, d.why) = (yuzuri_policy::Bound::NONE, Rule::GaveUp);
                self.decisions.iter_mut().for_each(plain);
            }
            let is_exempt = rule.exempt;
            let bounds_itself = station.membership.bounds_itself();
            let ignores_window = station.windows.is_ignored();
            let has_limit = |_: &f64| !is_exempt && !ignores_window;
            let most_bytes = rule.max_bps.filter(has_limit).map(|bps| most_in_flight(bps, &seen));
            if let Some(other) = &mut station.other {
                let was_policed = other.rate_bps.is_some();
                // Every upload that would send more has the same share.
                let shares = |d: &&Decision| matches!(d.why, Rule::Share | Rule::Probe | Rule::Doubt);
                let with_backlog = self.decisions.iter().filter(shares).count();
                let decided = self.decisions.iter().find(|d| d.flow == other::ID).filter(shares);
                let may = !self.rules.no_police && !is_exempt;
                let part_bps =
                    share_bps.filter(|_| may && decided.is_some()).map(|bps| bps / with_backlog as f64);
                // A limit also applies while nothing is shared.
                let part_bps = part_bps.or(rule.max_bps.filter(|_| may));
                let like = seen.iter().max_by_key(|flow| flow.cwnd).filter(|flow| flow.min_rtt_us > 0);
                let queue = sharers.summary.as_ref().zip(like.or(usual.as_ref()));
                let queue = queue.map(|(summary, like)| queue_of(summary, like)).unwrap_or_default();
                match other.limit_to(part_bps, queue) {
                    Some(rate_bps) => plan.rates.push((*id, rate_bps)),
                    None if was_policed => plan.unpoliced.push(*id),
                    None => {}
                }
            }
            for (row, decision) in station.rows.iter_mut().zip(&self.decisions) {
                row.why = if ignores_window { Rule::GaveUp } else { decision.why };
                let is_free = is_exempt || bounds_itself || ignores_window;
                let upper = if is_free { 0 } else { decision.bound.upper };
                let key = row.key;
                let shared = (upper > 0).then(|| upper.saturating_mul(segment_bytes(&row.gated)));
                row.bytes = if let Some(bytes) = shared.into_iter().chain(most_bytes).min() {
                    self.releasing.remove(&key);
                    Some(bytes)
                } else {
                    let held = self.held.get(&key);
                    if let Some(held) = held {
                        self.releasing.entry(key).or_insert_with(|| Release::from(*held, &row.gated));
                    }
                    self.releasing.get_mut(&key).and_then(|release| release.step(&row.gated))
                };
                match row.bytes {
                    Some(bytes) => {
                        self.held.insert(key, bytes);
                        let thin_bytes =
                            if station.is_thinned { THIN_SEGMENTS * segment_bytes(&row.gated) } else { 0 };
                        plan.flows.push((key, Bound { bytes, thin_bytes }));
                    }
                    None => {
                        self.releasing.remove(&key);
                        if self.held.remove(&key).is_some() {
                            plan.free.push(key);
                        }
                    }
                }
            }
        }
        let heard = self.with_dropped_traffic(at, most_bps as f64);
        let reports = heard.iter().collect();
        let mut group = GroupView {
            members,
            part: 1.0,
            is_limited: false,
            report: None,
            reports: Some(reports),
            limit: (at == Bottleneck::Wire).then_some(Limit::Wire),
            in_flight_bps: self.in_flight_bps(at),
            summary: sharers.summary.take(),
        };
        sharers.leader.tick(now, &[], RadioHint::default(), Some(&mut group), &mut self.decisions);
        sharers.summary = group.summary;
    }

    /// The connection with the largest window, for traffic without a round-trip time of its own.
    fn usual_flow(&self, at: Bottleneck) -> Option<FlowSeen> {
        let here = self.stations.values().filter(|station| station.bottleneck == at);
        let all = here.flat_map(|station| &station.rows).map(|row| row.seen);
        all.filter(|flow| flow.min_rtt_us > 0).max_by_key(|flow| flow.cwnd)
    }

    /// Releases every connection: like `tick`, but without new bounds. The plan is empty once all
    /// are unbounded.
    pub(crate) fn release_all(&mut self, flows: &[Gated]) -> Plan {
        let mut plan = Plan::default();
        let by_key: HashMap<&FlowKey, &Gated> = flows.iter().map(|flow| (&flow.key, flow)).collect();
        for (id, station) in &mut self.stations {
            let was_policed = station.other.as_mut().is_some_and(|other| other.rate_bps.take().is_some());
            plan.unpoliced.extend(was_policed.then_some(*id));
        }
        let held = std::mem::take(&mut self.held);
        for (key, bytes) in held {
            let gated = by_key.get(&key);
            let step = gated.and_then(|gated| {
                self.releasing.entry(key).or_insert_with(|| Release::from(bytes, gated)).step(gated)
            });
            match step {
                Some(bytes) => {
                    self.held.insert(key, bytes);
                    plan.flows.push((key, bytes.into()));
                }
                None => plan.free.push(key),
            }
        }
        plan
    }
}

/// The bytes that each of a station's uploads may have in flight so that together they carry no
/// more than `bps`.
fn most_in_flight(bps: f64, seen: &[FlowSeen]) -> u32 {
    let sends = seen.iter().filter(|flow| flow.in_flight > 0).count().max(1) as f64;
    let rtt_s = seen.iter().map(|flow| flow.srtt_us).max().unwrap_or(0).max(MIN_RTT_US);
    let bytes = bps / 8.0 * f64::from(rtt_s) / 1e6 / sends;
    (bytes as u32).max(MIN_SEGMENTS * SEGMENT_BYTES)
}

/// The queue on a connection's path.
fn queue_of(summary: &Summary, flow: &FlowSeen) -> Queue {
    // The minimum RTT of a connection that begins late includes other senders' queues.
    let group_us = summary.base_rtt_us(flow.destination).unwrap_or(flow.min_rtt_us);
    let queued_us = flow.srtt_us.saturating_sub(group_us.min(flow.min_rtt_us));
    Queue { queued_s: f64::from(queued_us) / 1e6, may_hold_s: f64::from(summary.queue_us) / 1e6 }
}

impl Station {
    fn new(config: PolicyConfig) -> Station {
        Station {
            sharer: Terminal::new(config),
            radio: RadioHint::default(),
            channel: Channel::default(),
            bottleneck: Bottleneck::Channel(Channel::default()),
            is_thinned: false,
            addresses: BTreeSet::new(),
            report: None,
            rows: Vec::new(),
            other: None,
            share_bps: None,
            membership: Membership::default(),
            windows: WindowUse::default(),
            silent: 0,
        }
    }
}

#[cfg(test)]
mod addresses;
mod groups;
mod new_connections;
mod policed;
#[cfg(test)]
mod tests;
mod thinning;
#[cfg(test)]
mod two_airs;
