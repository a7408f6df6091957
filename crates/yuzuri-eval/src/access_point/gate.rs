//! The access point's gate in simulation: the window clamp is [`yuzuri_gate::model`]'s, the
//! decisions are the daemon's ([`Controller`]); measuring and policing, as by the programs in
//! `bpf/`, are implemented here for segments instead of frames.

use super::bucket::Bucket;
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use yuzuri_gate::model::WindowClamp;
use yuzuri_gate::{ArrivedTraffic, Bound, ConnectionState, FlowKey, FlowSeen, MAX_ACK_GAP, RttPart};
use yuzuri_netmodel::Time;
use yuzuri_netmodel::radio::Phy;
use yuzuri_policy::{Aggregation, Moment, PolicyConfig, Report, Summary};
use yuzuri_share::{Channel, Controller, Plan, RadioConfig, Rules, StationId, StationLocation};
use yuzuri_sim::cc::Bounds;
use yuzuri_sim::{Change, ChangeKind, Kind, MSS_BYTES, Observation, Segment, Steer};

/// Windows are advertised in units of 2^this bytes.
const SCALE: u8 = 7;
/// The minimum unused part of the window is kept per period of 2^this ns (`PERIOD_SHIFT`).
const PERIOD_SHIFT: u32 = 29;
const MSS: u32 = MSS_BYTES as u32;

/// A connection as the programs see it.
struct Flow {
    seen: FlowSeen,
    clamp: WindowClamp,
    end: u32,
    ack: u32,
    ack_down: u32,
    ack_down_ns: u64,
    /// The time up to which waits of ACKs are counted.
    counted_ns: u64,
    offered: u32,
    /// RecoveryPoint (RFC 6675): the highest sequence number from the station at the last
    /// indication of a loss, until it is acknowledged.
    recover: Option<u32>,
    /// The measurements in progress: the end of a segment up, and a timestamp down, ms; with the
    /// times when they passed.
    wire_timed: Option<(u32, u64)>,
    /// The bytes of traffic without a window that had passed at that time.
    wire_other: u64,
    air_timed: Option<(u64, u64)>,
    stamp_ms: u64,
    /// Minimum unused part of the window: the period, its minimum, and that of the previous period.
    room: (u64, Option<u32>, Option<u32>),
}

/// The gate and its daemon.
pub struct Gate {
    controller: Controller,
    flows: BTreeMap<u32, Flow>,
    bounds: HashMap<FlowKey, Bound>,
    stations: HashMap<IpAddr, u32>,
    others: Option<u32>,
    buckets: BTreeMap<usize, Bucket>,
    other_passed: u64,
    radios: Vec<RadioConfig>,
    changes: Vec<Change>,
    /// Terminals that use QUIC: no window bounds them.
    quic: Vec<bool>,
    /// The port of the first connection; connections of another cell have other ports.
    pub first_port: u16,
    /// ACKs that were dropped.
    pub thinned: u64,
    /// Instead of the daemon's decisions, the bound of every connection.
    fixed: Option<Bound>,
    /// Print the progress twice a second.
    pub traced: bool,
    /// The connections when the progress was last printed.
    traced_before: HashMap<FlowKey, FlowSeen>,
}

/// A radio's properties, as its driver would report them.
pub fn radio_of(phy: Phy) -> RadioConfig {
    RadioConfig { rate_mbps: phy.rate_bps() as f64 / 1e6, aggregation: Aggregation::up_to(phy.ampdu_bytes()) }
}

fn address(terminal: usize) -> IpAddr {
    Ipv4Addr::from(0x0a00_0002 + terminal as u32).into()
}

/// A terminal's hardware address.
pub fn mac(terminal: usize) -> [u8; 6] {
    let [a, b, c, d] = (terminal as u32).to_be_bytes();
    [2, 0, a, b, c, d]
}

fn key(terminal: usize, first_port: u16, connection: u32) -> Option<FlowKey> {
    let port = first_port + (connection % 30_000) as u16;
    let server = SocketAddr::new(Ipv4Addr::new(192, 0, 2, 1).into(), 443);
    FlowKey::new(SocketAddr::new(address(terminal), port), server).ok()
}

impl Gate {
    /// A gate for stations with these radios and radio changes; `quic`: the stations without a
    /// visible window.
    pub fn new(
        config: PolicyConfig,
        rules: Rules,
        phys: &[Phy],
        changes: &[Change],
        quic: Vec<bool>,
    ) -> Gate {
        let mut changes = changes.to_vec();
        changes.sort_by_key(|change| std::cmp::Reverse(change.at_ms));
        Gate {
            controller: Controller::new(config, rules),
            flows: BTreeMap::new(),
            bounds: HashMap::new(),
            stations: HashMap::new(),
            others: None,
            buckets: BTreeMap::new(),
            other_passed: 0,
            radios: phys.iter().map(|phy| radio_of(*phy)).collect(),
            changes,
            quic,
            first_port: 1024,
            thinned: 0,
            fixed: None,
            traced: false,
            traced_before: HashMap::new(),
        }
    }

    /// A gate that decides nothing: every connection has this bound all the time.
    pub fn fixed(phys: &[Phy], bound: Bound) -> Gate {
        let gate = Gate::new(PolicyConfig::default(), Rules::default(), phys, &[], Vec::new());
        Gate { fixed: Some(bound), ..gate }
    }

    /// Receives the reports of terminals that take part.
    pub fn receive_reports<'a>(&mut self, reports: impl Iterator<Item = (usize, &'a Report)>) {
        let members = reports.map(|(terminal, report)| (StationId(mac(terminal)), report.clone()));
        self.controller.receive_reports(members.collect());
    }

    /// The members' summary.
    pub fn last_summary(&self) -> Option<Summary> {
        self.controller.summary_for(Channel::default())
    }

    fn trace(&mut self, now: Time) {
        let Some(s) = self.controller.summary() else { return };
        print!(
            "{:5.1} s {:?}{} {:.1} Mbit/s, {} senders, queue {} ms |",
            now.as_secs_f64(),
            s.phase,
            if s.paced { ", paced" } else { "" },
            s.capacity_bps as f64 / 1e6,
            s.senders,
            s.queue_us / 1000
        );
        for flow in self.flows.values() {
            let bytes = self.bounds.get(&flow.seen.key).map_or(0, |bound| bound.bytes);
            let (advertised, in_flight) = (flow.seen.advertised_bytes / MSS, flow.seen.in_flight_bytes / MSS);
            let before = self.traced_before.get(&flow.seen.key).unwrap_or(&flow.seen);
            let acked = flow.seen.acked_bytes.saturating_sub(before.acked_bytes);
            let mean_ms = |part: RttPart| part.mean_us().unwrap_or(0) as f64 / 1e3;
            let [air_ms, wire_ms] =
                [mean_ms(flow.seen.air.since(&before.air)), mean_ms(flow.seen.wire.since(&before.wire))];
            print!(
                " {}/{advertised}/{in_flight} {:.1} Mbit/s {air_ms:.0}+{wire_ms:.0} ms re {};",
                bytes / MSS,
                acked as f64 * 8.0 / 0.5e6,
                flow.seen.repeated_segments
            );
        }
        self.traced_before = self.flows.values().map(|flow| (flow.seen.key, flow.seen.clone())).collect();
        for bucket in self.buckets.values() {
            print!(" at most {:.1} Mbit/s;", bucket.rate_bps.unwrap_or(0) as f64 / 1e6);
        }
        println!();
    }

    fn bound_of(&self, key: &FlowKey) -> Bound {
        if let Some(bound) = self.fixed {
            return bound;
        }
        let none = || {
            let station = self.stations.get(&key.station().ip()).copied();
            station.or(self.others).unwrap_or(0).into()
        };
        self.bounds.get(key).copied().unwrap_or_else(none)
    }

    /// All connections.
    pub fn seen(&self, now: Time) -> Vec<FlowSeen> {
        self.flows.values().map(|flow| flow.seen_at(now.as_nanos())).collect()
    }

    /// Enforces a plan until the next one.
    pub fn take(&mut self, plan: Plan) {
        // Bounds that are not repeated expire soon.
        self.stations = plan.stations.into_iter().collect();
        self.others = plan.others;
        for key in &plan.free {
            self.bounds.remove(key);
        }
        self.bounds.extend(plan.flows);
        self.buckets.values_mut().for_each(|bucket| bucket.rate_bps = None);
        for (station, bps) in plan.rates {
            let bucket = self.buckets.iter_mut().find(|(terminal, _)| mac(**terminal) == station.0);
            bucket.into_iter().for_each(|(_, bucket)| bucket.rate_bps = Some(bps));
        }
    }

    fn is_quic(&self, terminal: usize) -> bool {
        self.quic.get(terminal).is_some_and(|is| *is)
    }
}

impl Steer for Gate {
    fn steer(&mut self, now: Time, _terminals: &[Option<Observation>], _bounds: &mut [Bounds]) {
        if self.fixed.is_some() {
            return;
        }
        let now_ns = now.as_nanos();
        while let Some(change) = self.changes.pop_if(|change| change.at_ms * 1_000_000 <= now_ns) {
            if let ChangeKind::Radio { terminal, phy } = change.what {
                self.radios[usize::from(terminal)] = radio_of(phy);
            }
        }
        let seen = self.seen(now);
        let others: Vec<_> =
            self.buckets.iter().map(|(terminal, bucket)| bucket.seen(mac(*terminal))).collect();
        let radios = &self.radios;
        let place = |station: StationId| {
            let [_, _, a, b, c, d] = station.0;
            let radio = radios.get(u32::from_be_bytes([a, b, c, d]) as usize).copied();
            StationLocation { radio, ..StationLocation::default() }
        };
        let plan = self.controller.tick(Moment::from_nanos(now_ns), now_ns, &seen, &others, place);
        self.take(plan);
        if self.traced {
            self.trace(now);
        }
    }

    fn forwards_up(&mut self, now: Time, terminal: usize, segment: &mut Segment) -> bool {
        if self.is_quic(terminal) {
            let bucket = self.buckets.entry(terminal).or_default();
            return bucket.passes(now.as_nanos(), segment, &mut self.other_passed);
        }
        match segment.kind {
            Kind::Syn => {
                let Some(key) = key(terminal, self.first_port, segment.connection) else { return true };
                let begun = || Flow::new(key, mac(terminal), now.as_nanos());
                self.flows.entry(segment.connection).or_insert_with(begun);
            }
            Kind::Data => {
                if let Some(flow) = self.flows.get_mut(&segment.connection) {
                    flow.data(now.as_nanos(), segment, self.other_passed);
                }
            }
            // The station's downloads are not bounded.
            Kind::Ack | Kind::SynAck => {}
        }
        true
    }

    fn forwards_down(&mut self, now: Time, _terminal: usize, segment: &mut Segment) -> bool {
        let Some(key) = self.flows.get(&segment.connection).map(|flow| flow.seen.key) else { return true };
        let bound = self.bound_of(&key);
        let Some(flow) = self.flows.get_mut(&segment.connection) else { return true };
        match segment.kind {
            Kind::SynAck => flow.answered(segment),
            Kind::Ack => {
                let gap_ns = if self.fixed.is_some() { u64::MAX } else { MAX_ACK_GAP.as_nanos() as u64 };
                let passes = flow.acknowledged(now.as_nanos(), segment, bound, gap_ns);
                self.thinned += u64::from(!passes);
                return passes;
            }
            Kind::Syn | Kind::Data => {}
        }
        true
    }
}

impl Flow {
    fn new(key: FlowKey, mac: [u8; 6], now_ns: u64) -> Flow {
        let seen = FlowSeen { scale: SCALE, mss: Some(1460), ..FlowSeen::opening(key, mac, now_ns) };
        Flow {
            seen,
            clamp: WindowClamp { scale: SCALE, edge: None },
            end: 0,
            ack: 0,
            ack_down: 0,
            ack_down_ns: 0,
            counted_ns: 0,
            offered: 0,
            recover: None,
            wire_timed: None,
            wire_other: 0,
            air_timed: None,
            stamp_ms: 0,
            room: (0, None, None),
        }
    }

    fn seen_at(&self, now_ns: u64) -> FlowSeen {
        let (period, now, before) = self.room;
        let room_bytes = match (now_ns >> PERIOD_SHIFT).wrapping_sub(period) {
            0 => now.into_iter().chain(before).min(),
            1 => now,
            _ => None,
        };
        FlowSeen { room_bytes, edge: self.clamp.edge, ..self.seen.clone() }
    }

    /// A SYN-ACK goes down: its window is not scaled.
    fn answered(&mut self, segment: &Segment) {
        self.seen.state = ConnectionState::Established;
        self.clamp.edge = Some(segment.window.min(u16::MAX as u32 / MSS) * MSS);
    }

    fn data(&mut self, now_ns: u64, segment: &Segment, other_passed: u64) {
        let seen = &mut self.seen;
        let end = segment.number * MSS + u32::from(segment.payload_bytes);
        (seen.last_ns, seen.up_bytes) = (now_ns, seen.up_bytes + u64::from(segment.payload_bytes));
        seen.up_segments += 1;
        if end <= self.end {
            seen.repeated_segments += 1;
            // A timeout, not its application's pause.
            seen.quiet_since_ns = None;
            self.recover = Some(self.end);
            self.wire_timed = None;
            return;
        }
        if let Some((_, since_ns)) = self.air_timed.take_if(|(stamp_ms, _)| ms(segment.echo) >= *stamp_ms) {
            sample(&mut seen.air, now_ns, since_ns);
        }
        if let Some(since_ns) = seen.quiet_since_ns.take() {
            seen.quiet_ns += now_ns - since_ns;
            seen.quiets += 1;
        }
        let room = self.clamp.edge.map(|edge| edge.saturating_sub(end));
        let (period, last) = (now_ns >> PERIOD_SHIFT, self.room);
        self.room = if period == last.0 {
            (period, room.into_iter().chain(last.1).min(), last.2)
        } else {
            (period, room, if period == last.0 + 1 { last.1 } else { None })
        };
        self.end = end;
        if self.wire_timed.is_none() {
            (self.wire_timed, self.wire_other) = (Some((end, now_ns)), other_passed);
        }
        seen.in_flight_bytes = self.end - self.ack;
    }

    /// Whether an ACK is forwarded to the station; its window is lowered to the bound.
    fn acknowledged(&mut self, now_ns: u64, segment: &mut Segment, bound: Bound, gap_ns: u64) -> bool {
        let ack = segment.number * MSS;
        let before = self.ack;
        self.seen.last_ns = now_ns;
        let waiting = u64::from(self.ack.saturating_sub(self.ack_down));
        self.seen.waited_byte_us += waiting * ((now_ns - self.counted_ns) / 1000);
        self.counted_ns = now_ns;
        if ack > self.ack {
            self.seen.acked_bytes += u64::from(ack.min(self.end) - self.ack.min(self.end));
            self.ack = ack;
        }
        self.seen.in_flight_bytes = self.end.saturating_sub(self.ack);
        if self.end > 0 && self.end <= self.ack {
            self.seen.quiet_since_ns.get_or_insert(now_ns);
        }
        if let Some((_, since_ns)) = self.wire_timed.take_if(|(end, _)| ack >= *end) {
            sample(&mut self.seen.wire, now_ns, since_ns);
            self.seen.arrived = Some(ArrivedTraffic { at_ns: now_ns, other_bytes: self.wire_other });
        }
        let unit = 1 << SCALE;
        let field = (segment.window.min(u32::from(u16::MAX) * unit / MSS) * MSS / unit) as u16;
        let offered = u32::from(field) << SCALE;
        let is_duplicate = ack == before && self.offered == offered && self.end > ack;
        self.recover.take_if(|recover| ack > *recover);
        if is_duplicate || segment.blocks > 0 || segment.dsack.is_some() || segment.ece {
            self.recover = Some(self.end);
        }
        if now_ns - self.ack_down_ns < gap_ns && self.is_needless(ack, before, offered, bound.thin_bytes) {
            self.seen.thinned += 1;
            return false;
        }
        let stamp_ms = ms(segment.sent_at);
        if stamp_ms != self.stamp_ms && self.air_timed.is_none() && self.end > self.ack {
            self.air_timed = Some((stamp_ms, now_ns));
        }
        self.stamp_ms = stamp_ms;
        let lowered = self.clamp.window(ack, field, Some(bound.bytes).filter(|bytes| *bytes > 0));
        if lowered == field {
            self.seen.passed += 1;
        } else {
            self.seen.lowered += 1;
            segment.window = (u32::from(lowered) << SCALE) / MSS;
        }
        self.seen.advertised_bytes = u32::from(lowered) << SCALE;
        (self.seen.offered_bytes, self.offered) = (offered, offered);
        self.ack_down_ns = now_ns;
        self.ack_down = self.ack_down.max(ack);
        true
    }

    fn is_needless(&self, ack: u32, before: u32, offered: u32, thin: u32) -> bool {
        let step = ack.saturating_sub(self.ack_down);
        thin > 0
            && offered > 0
            && self.seen.advertised_bytes > 0
            && ack > before
            && (1..thin).contains(&step)
            && self.end.saturating_sub(ack) >= thin / 2
            && offered.saturating_sub(self.offered) < thin
            && self.recover.is_none()
    }
}

fn ms(time: Time) -> u64 {
    time.as_nanos() / 1_000_000
}

fn sample(part: &mut RttPart, now_ns: u64, since_ns: u64) {
    let us = (now_ns - since_ns) / 1000 + 1;
    part.samples += 1;
    part.sum_us += us;
    part.min_us = if part.min_us == 0 { us as u32 } else { part.min_us.min(us as u32) };
}
