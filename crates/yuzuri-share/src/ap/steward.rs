//! Speaks for stations that run nothing: each is a member of the group whose report the gate makes, and whose bounds the gate enforces. Capacity
//! and shares are those of `yuzuri-policy`, as on terminals. No I/O and no clock.

use super::other::{self, Other};
use super::release::Release;
use super::view::{View, segment_bytes};
use crate::RadioConfig;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;
use std::net::IpAddr;
use yuzuri_gate::{Bound, FlowKey, FlowSeen as Gated, OtherSeen};
use yuzuri_policy::{
    Capacity, Decision, FlowSeen, Moment, Phase, Policy, PolicyConfig, PolicyName, RadioHint, Report, Rule,
    SendersSeen, SlowRadio, Summary,
};

/// A connection on which nothing passed for so long is no part of a look, nanoseconds.
const SILENT_NS: u64 = 10_000_000_000;
/// A station of which nothing passed for so many looks is forgotten.
const GONE_AFTER: u32 = 240;
/// A new connection gets at least an initial window (RFC 6928), segments.
const INITIAL_SEGMENTS: u32 = 10;
/// What a segment takes at most, for connections whose size is not known yet, bytes.
const SEGMENT_BYTES: u32 = 1460;

/// Where ACKs are thinned, one of at least so many segments goes down.
const THIN_SEGMENTS: u32 = 8;

/// A station, by its hardware address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StationId(pub [u8; 6]);

impl fmt::Display for StationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// A connection of a station, at the last look.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) key: FlowKey,
    pub(crate) gated: Gated,
    pub(crate) seen: FlowSeen,
    pub(crate) why: Rule,
    /// What it is bounded to, bytes.
    pub(crate) bytes: Option<u32>,
}

/// A station that the gate speaks for.
#[derive(Debug)]
pub(crate) struct Station {
    policy: Policy,
    pub(crate) radio: RadioHint,
    /// Its ACKs may be thinned.
    pub(crate) is_thinned: bool,
    pub(crate) addresses: BTreeSet<IpAddr>,
    pub(crate) report: Option<Report>,
    pub(crate) rows: Vec<Row>,
    /// What it sends that no window bounds.
    pub(crate) other: Option<Other>,
    silent: u32,
}

/// What the gate is to enforce until the next look.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Plan {
    /// What is done to connections.
    pub(crate) flows: Vec<(FlowKey, Bound)>,
    /// Connections that are free from now on.
    pub(crate) free: Vec<FlowKey>,
    /// What new connections of known stations may have, bytes.
    pub(crate) stations: Vec<(IpAddr, u32)>,
    /// What connections of unknown stations may have, bytes.
    pub(crate) others: Option<u32>,
    /// What stations may send that no window bounds, bit/s.
    pub(crate) rates: Vec<(StationId, u64)>,
    /// Stations that may send as much of that as they want, from now on.
    pub(crate) unpoliced: Vec<StationId>,
}

/// All stations of an access point.
#[derive(Debug)]
pub(crate) struct Steward {
    config: PolicyConfig,
    exempt: HashSet<StationId>,
    thin_acks: Vec<SlowRadio>,
    /// Whether what no window bounds is kept to a share.
    polices: bool,
    view: View,
    capacity: Capacity,
    pub(crate) stations: BTreeMap<StationId, Station>,
    pub(crate) summary: Option<Summary>,
    /// What is bounded, bytes.
    held: HashMap<FlowKey, u32>,
    releasing: HashMap<FlowKey, Release>,
    decisions: Vec<Decision>,
}

impl Steward {
    pub(crate) fn new(
        config: PolicyConfig,
        exempt: impl IntoIterator<Item = StationId>,
        thin_acks: Vec<SlowRadio>,
        polices: bool,
    ) -> Steward {
        Steward {
            config,
            thin_acks,
            polices,
            exempt: exempt.into_iter().collect(),
            view: View::default(),
            capacity: Capacity::new(config.objective),
            stations: BTreeMap::new(),
            summary: None,
            held: HashMap::new(),
            releasing: HashMap::new(),
            decisions: Vec::new(),
        }
    }

    /// Whether a station is left alone.
    pub(crate) fn is_exempt(&self, station: StationId) -> bool {
        self.exempt.contains(&station)
    }

    /// Looks at all connections, at `now_ns` of `CLOCK_MONOTONIC`, and decides for each. `radio` tells a station's, as far as
    /// it is known. `others`: what stations sent that no window bounds.
    pub(crate) fn look(
        &mut self,
        now: Moment,
        now_ns: u64,
        flows: &[Gated],
        others: &[OtherSeen],
        mut radio: impl FnMut(StationId) -> Option<RadioConfig>,
    ) -> Plan {
        let there: HashSet<&FlowKey> = flows.iter().map(|flow| &flow.key).collect();
        self.view.keep(|key| there.contains(key));
        self.held.retain(|key, _| there.contains(key));
        self.releasing.retain(|key, _| there.contains(key));
        self.stations.values_mut().for_each(|station| station.rows.clear());
        for flow in
            flows.iter().filter(|flow| flow.up_bytes > 0 && now_ns.saturating_sub(flow.last_ns) < SILENT_NS)
        {
            let Some(seen) = self.view.look(now_ns, flow) else { continue };
            let id = StationId(flow.mac);
            let station = self.stations.entry(id).or_insert_with(|| Station::new(self.config));
            station.addresses.insert(flow.key.station().ip());
            let row = Row { key: flow.key, gated: flow.clone(), seen, why: Rule::Unknown, bytes: None };
            station.rows.push(row);
        }
        for seen in others.iter().filter(|seen| now_ns.saturating_sub(seen.last_ns) < SILENT_NS) {
            let station =
                self.stations.entry(StationId(seen.mac)).or_insert_with(|| Station::new(self.config));
            match &mut station.other {
                Some(other) => other.look(now_ns, *seen),
                none => *none = Some(Other::new(now_ns, *seen)),
            }
        }
        for (id, station) in &mut self.stations {
            if !others.iter().any(|o| o.mac == id.0 && now_ns.saturating_sub(o.last_ns) < SILENT_NS) {
                station.other = None;
            }
            station.silent =
                if station.rows.is_empty() && station.other.is_none() { station.silent + 1 } else { 0 };
            let radio = radio(*id);
            station.radio = radio.map(RadioConfig::hint).unwrap_or_default();
            station.is_thinned = radio.is_some_and(|radio| {
                self.thin_acks.iter().any(|slow| slow.aggregation() == radio.aggregation)
            });
            // In the order of their beginning, as a kernel walks through its own.
            station.rows.sort_by_key(|row| row.seen.id);
        }
        self.stations.retain(|_, station| station.silent < GONE_AFTER);
        let mut plan = Plan::default();
        self.decide(now, &mut plan);
        if self.config.name != PolicyName::Off {
            self.expect_new_ones(&mut plan);
        }
        plan
    }

    fn decide(&mut self, now: Moment, plan: &mut Plan) {
        let members = u16::try_from(self.stations.len()).unwrap_or(u16::MAX);
        let usual = self.usual_flow();
        for (id, station) in &mut self.stations {
            let mut seen: Vec<FlowSeen> = station.rows.iter().map(|row| row.seen).collect();
            let share_bps = self.summary.as_ref().map(|summary| summary.share_of(station.radio));
            seen.extend(station.other.as_ref().and_then(|other| {
                let like = seen.iter().max_by_key(|flow| flow.cwnd).filter(|flow| flow.min_rtt_us > 0);
                other.as_flow(like.or(usual.as_ref())?, share_bps)
            }));
            station.report = station.policy.observe(now, &seen, station.radio);
            let senders = SendersSeen { proved: members, unproved: 0 };
            let summary = self.summary.as_ref();
            station.policy.decide(now, &seen, station.radio, summary, senders, &mut self.decisions);
            let is_exempt = self.exempt.contains(id);
            if let Some(other) = &mut station.other {
                let was_policed = other.rate_bps.is_some();
                // Each that would take more has as much.
                let shares = |d: &&Decision| matches!(d.why, Rule::Share | Rule::Probe | Rule::Doubt);
                let willing = self.decisions.iter().filter(shares).count();
                let decided = self.decisions.iter().find(|d| d.flow == other::ID).filter(shares);
                let may = self.polices && !is_exempt;
                let part_bps = share_bps.filter(|_| may && decided.is_some()).map(|bps| bps / willing as f64);
                match other.keep_to(part_bps) {
                    Some(rate_bps) => plan.rates.push((*id, rate_bps)),
                    None if was_policed => plan.unpoliced.push(*id),
                    None => {}
                }
            }
            for (row, decision) in station.rows.iter_mut().zip(&self.decisions) {
                row.why = decision.why;
                let upper = if is_exempt { 0 } else { decision.bound.upper };
                let key = row.key;
                row.bytes = if upper > 0 {
                    self.releasing.remove(&key);
                    Some(upper.saturating_mul(segment_bytes(&row.gated)))
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
        let reports = self.stations.values().filter_map(|station| station.report.as_ref());
        self.summary = Some(self.capacity.sum(now, members, reports));
    }

    /// The connection that carries most, for what has no round-trip time of its own.
    fn usual_flow(&self) -> Option<FlowSeen> {
        let all = self.stations.values().flat_map(|station| &station.rows).map(|row| row.seen);
        all.filter(|flow| flow.min_rtt_us > 0).max_by_key(|flow| flow.cwnd)
    }

    /// Connections that begin before the next look get what a sender more would leave them.
    fn expect_new_ones(&self, plan: &mut Plan) {
        let Some(summary) = self.summary.as_ref().filter(|s| matches!(s.phase, Phase::Hold | Phase::Probe))
        else {
            return;
        };
        // Where they go is not known: the longest way that is.
        let Some(base_us) = summary.destinations.iter().map(|(_, us)| *us).max() else { return };
        let seconds = (f64::from(base_us) + f64::from(summary.queue_us)) / 1e6;
        let bytes = |share_bps: f64| {
            let bytes = share_bps / 8.0 * seconds;
            (bytes as u32).max(INITIAL_SEGMENTS * SEGMENT_BYTES)
        };
        let senders = f64::from(summary.senders.max(1));
        let one_more = senders / (senders + 1.0);
        for (id, station) in &self.stations {
            let part = match (&station.report, self.is_exempt(*id)) {
                (_, true) => None,
                (Some(report), _) => Some(1.0 / (f64::from(report.flows) + 1.0)),
                (None, _) => Some(one_more),
            };
            let told = part.map_or(0, |part| bytes(summary.share_of(station.radio) * part));
            plan.stations.extend(station.addresses.iter().map(|address| (*address, told)));
        }
        plan.others = Some(bytes(summary.share_of(RadioHint::default()) * one_more));
    }

    /// Lets every connection go: as `look`, but nothing is bounded any more. Empty as soon as all are free.
    pub(crate) fn let_go(&mut self, flows: &[Gated]) -> Plan {
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

impl Station {
    fn new(config: PolicyConfig) -> Station {
        Station {
            policy: Policy::new(config),
            radio: RadioHint::default(),
            is_thinned: false,
            addresses: BTreeSet::new(),
            report: None,
            rows: Vec::new(),
            other: None,
            silent: 0,
        }
    }
}

#[cfg(test)]
mod tests;
