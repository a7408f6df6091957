//! Stations behind a wire of fixed rate, as seen by a gate.
#![allow(clippy::unwrap_used)]

use super::super::rules::StationRule;
use super::*;
use std::net::SocketAddr;
use std::time::Duration;
use yuzuri_gate::{ConnectionState, RttPart};

mod thinning;

const TICK: Duration = Duration::from_millis(500);

/// Uploads that share a wire. Each keeps its window full; the queue is the flight in excess of the
/// bandwidth-delay product.
pub(super) struct Wire {
    rate_bps: f64,
    base_s: f64,
    pub(super) flows: Vec<Gated>,
    /// The flight of each without bounds, bytes.
    pub(super) wants: Vec<f64>,
    /// Its application's rate, bit/s, if that is the limit.
    pub(super) application_bps: Vec<Option<f64>>,
    pub(super) bounds: HashMap<FlowKey, u32>,
    now: Duration,
    /// Segments lost per thousand.
    lost_permille: u64,
    /// The queue is in front of the gate, for the air.
    queue_on_air: bool,
}

impl Wire {
    pub(super) fn new(rate_mbps: f64, base_ms: f64, stations: u8) -> Wire {
        let flows = (0..stations).map(|n| {
            let station: SocketAddr = format!("10.0.0.{}:40000", n + 2).parse().unwrap();
            let key = FlowKey::new(station, "192.0.2.1:443".parse().unwrap()).unwrap();
            Gated {
                state: ConnectionState::Established,
                last_ns: 0,
                advertised_bytes: 4_000_000,
                offered_bytes: 4_000_000,
                room_bytes: Some(0),
                scale: 7,
                mss: Some(1460),
                ..Gated::opening(key, [2, 0, 0, 0, 0, n], 1)
            }
        });
        let flows: Vec<Gated> = flows.collect();
        Wire {
            rate_bps: rate_mbps * 1e6,
            base_s: base_ms / 1e3,
            wants: vec![14_480.0; flows.len()],
            application_bps: vec![None; flows.len()],
            flows,
            bounds: HashMap::new(),
            now: Duration::from_millis(1),
            lost_permille: 0,
            queue_on_air: false,
        }
    }

    /// Half a second. A window grows as in slow start, to the megabyte of a deep queue.
    fn pass(&mut self) {
        self.now += TICK;
        let held =
            |flow: &Gated, wants: f64| self.bounds.get(&flow.key).map_or(wants, |b| wants.min(f64::from(*b)));
        let rtt_s = self.base_s + self.queue_s().max(0.0);
        for (wants, bps) in self.wants.iter_mut().zip(&self.application_bps) {
            *wants = bps.map_or(*wants, |bps| bps / 8.0 * rtt_s);
        }
        let windows: Vec<f64> =
            self.flows.iter().zip(&self.wants).map(|(f, wants)| held(f, *wants)).collect();
        let in_flight: f64 = windows.iter().sum();
        let path = self.rate_bps / 8.0 * self.base_s;
        let rtt_s = self.base_s + (in_flight - path).max(0.0) / (self.rate_bps / 8.0);
        for (flow, window) in self.flows.iter_mut().zip(&windows) {
            let bytes = (window / rtt_s * TICK.as_secs_f64()) as u64;
            flow.acked_bytes += bytes;
            flow.up_bytes += bytes;
            flow.up_segments += bytes / 1448;
            flow.repeated_segments += bytes / 1448 * self.lost_permille / 1000;
            flow.last_ns = self.now.as_nanos() as u64;
            flow.in_flight_bytes = *window as u32;
            flow.advertised_bytes = self.bounds.get(&flow.key).copied().unwrap_or(4_000_000);
            flow.room_bytes = Some((f64::from(flow.advertised_bytes) - window) as u32);
            let us = (rtt_s * 1e6) as u64;
            let wire_us = (self.base_s * 1e6) as u64 - 1000;
            let add = |part: &mut RttPart, us: u64| {
                part.samples += 20;
                part.sum_us += 20 * us;
                part.min_us = if part.min_us == 0 { us as u32 } else { part.min_us.min(us as u32) };
            };
            let air_us = if self.queue_on_air { us - wire_us } else { 1000 };
            add(&mut flow.wire, us - air_us);
            add(&mut flow.air, air_us);
        }
        self.wants.iter_mut().for_each(|wants| *wants = (*wants * 2.0).min(1_000_000.0));
    }

    fn queue_s(&self) -> f64 {
        let in_flight: f64 = self.flows.iter().map(|flow| f64::from(flow.in_flight_bytes)).sum();
        in_flight * 8.0 / self.rate_bps - self.base_s
    }

    pub(super) fn tick(&mut self, controller: &mut Controller) -> Plan {
        self.pass();
        let now_ns = self.now.as_nanos() as u64;
        let plan =
            controller.tick(Moment::at(self.now), now_ns, &self.flows, &[], |_| StationLocation::default());
        self.enforce(&plan);
        plan
    }

    fn enforce(&mut self, plan: &Plan) {
        self.bounds.retain(|key, _| !plan.free.contains(key));
        let bounded = plan.flows.iter().filter(|(_, bound)| bound.bytes > 0);
        self.bounds.extend(bounded.map(|(key, bound)| (*key, bound.bytes)));
    }
}

#[test]
fn uploads_share_the_wire_with_a_short_queue() {
    for (stations, base_ms) in [(2, 20.0), (8, 40.0), (4, 100.0)] {
        let mut wire = Wire::new(50.0, base_ms, stations);
        let mut controller = Controller::new(PolicyConfig::default(), Rules::default());
        let mut longest_s = 0.0_f64;
        let mut carried = 0;
        for tick in 0..60 {
            wire.tick(&mut controller);
            if tick == 29 {
                carried = wire.flows.iter().map(|flow| flow.acked_bytes).sum();
            }
            if tick >= 30 {
                longest_s = longest_s.max(wire.queue_s());
            }
        }
        let summary = controller.summary().unwrap();
        assert_eq!((summary.members, summary.senders), (stations.into(), stations.into()));
        assert!(matches!(summary.phase, Phase::Hold | Phase::Probe), "{summary:?}");
        // The queue that a window may hold, a step up of half more, and the effect of rounding
        // to segments.
        let most_s = 0.020 + 0.5 * (0.020 + base_ms / 1e3) + 0.005;
        assert!(longest_s < most_s, "{stations} stations, {base_ms} ms: a queue of {longest_s} s");
        let mbps =
            (wire.flows.iter().map(|f| f.acked_bytes).sum::<u64>() - carried) as f64 * 8.0 / 15.0 / 1e6;
        assert!(mbps > 49.0, "{stations} stations, {base_ms} ms: {mbps} Mbit/s");
        let (least, most) = (wire.bounds.values().min().unwrap(), wire.bounds.values().max().unwrap());
        assert!(most - least <= 1460, "{least}..{most}");
    }
}

/// Two of four stations are members themselves: they count, and the gate does not bound them.
#[test]
fn members_report_for_themselves_and_are_not_bounded() {
    let mut wire = Wire::new(50.0, 40.0, 4);
    let mut controller = Controller::new(PolicyConfig::default(), Rules::default());
    let id = |n: u8| StationId([2, 0, 0, 0, 0, n]);
    // The last one's connections are older than the gate: only its report shows them.
    let members = [0, 1, 9].map(id);
    let (mut plan, mut before) = (Plan::default(), [0; 4]);
    for tick in 0..60 {
        let reports = members.map(|id| match wire.flows.iter().position(|flow| flow.mac == id.0) {
            Some(n) => {
                let acked = wire.flows[n].acked_bytes;
                let rate_bps = (acked - std::mem::replace(&mut before[n], acked)) * 16;
                (id, Report { rate_bps, flows: 1, elastic: true, srtt_us: 60_000, ..Report::default() })
            }
            None => (id, Report { rate_bps: 100_000, flows: 1, srtt_us: 60_000, ..Report::default() }),
        });
        controller.receive_reports(reports.into());
        plan = wire.tick(&mut controller);
        // They bound themselves to the group's share.
        if let Some(share_bps) = controller.summary().as_ref().map(|s| s.share_bps).filter(|_| tick > 10) {
            for n in 0..2 {
                wire.wants[n] = share_bps as f64 / 8.0 * 0.06;
            }
        }
    }
    let summary = controller.summary().unwrap();
    assert_eq!((summary.members, summary.senders), (5, 5), "{summary:?}");
    let bytes = |n: u8| {
        plan.flows.iter().find(|(key, _)| *key == wire.flows[usize::from(n)].key).map(|(_, b)| b.bytes)
    };
    assert_eq!([0, 1].map(bytes), [Some(0), Some(0)], "known, and free: {plan:?}");
    assert!([2, 3].map(bytes).iter().all(|bytes| *bytes > Some(0)), "{plan:?}");
    // New connections of a member are not bounded either.
    let station =
        |n: u8| plan.stations.iter().find(|(at, _)| *at == wire.flows[usize::from(n)].key.station().ip());
    assert_eq!([0, 1].map(|n| station(n).unwrap().1), [0, 0]);
    assert!([2, 3].iter().all(|n| station(*n).unwrap().1 > 0));
    let state = |n| controller.stations[&id(n)].membership.state();
    assert_eq!([0, 2, 9].map(state).map(|s| s.name()), ["member", "none", "member"]);
    // A station that is no longer a member is bounded again.
    controller.receive_reports(BTreeMap::new());
    for _ in 0..10 {
        plan = wire.tick(&mut controller);
    }
    assert!(plan.flows.iter().all(|(_, bound)| bound.bytes > 0), "{plan:?}");
}

/// Two members and two other stations; one of each kind has twice the weight, and one of each has a
/// limit. Members bound themselves, the gate bounds the others, and all rates follow the weights.
#[test]
fn weights_and_limits_apply_to_members_too() {
    let id = |n: u8| StationId([2, 0, 0, 0, 0, n]);
    let rule = |weight: f64, max_bps: Option<f64>| StationRule { weight, max_bps, exempt: false };
    for (rules, expected) in [
        ([rule(2.0, None), rule(1.0, None), rule(2.0, None), rule(1.0, None)], [16.0, 8.0, 16.0, 8.0]),
        ([rule(0.5, None), rule(1.0, None), rule(1.0, None), rule(1.5, None)], [6.0, 12.0, 12.0, 18.0]),
        ([rule(1.0, Some(3e6)), rule(1.0, None), rule(1.0, None), rule(1.0, None)], [3.0, 15.0, 15.0, 15.0]),
    ] {
        let mut wire = Wire::new(48.0, 40.0, 4);
        let stations = rules.into_iter().enumerate().map(|(n, rule)| (id(n as u8), rule)).collect();
        let mut controller = Controller::new(PolicyConfig::default(), Rules { stations, ..Rules::default() });
        let (mut acked, mut start) = ([0; 4], [0; 4]);
        let mut last_summary: Option<Summary> = None;
        for tick in 0..240 {
            let reports = [0_u8, 1].map(|n| {
                let of = usize::from(n);
                let now = wire.flows[of].acked_bytes;
                let rate_bps = (now - std::mem::replace(&mut acked[of], now)) * 16;
                let srtt_us = ((0.04 + wire.queue_s()) * 1e6) as u32;
                (id(n), Report { rate_bps, flows: 1, elastic: true, srtt_us, ..Report::default() })
            });
            controller.receive_reports(reports.into());
            wire.tick(&mut controller);
            // They bound themselves to their weight of the previous share.
            for n in [0, 1] {
                let Some(last_summary) =
                    last_summary.as_ref().filter(|last_summary| last_summary.phase != Phase::StartUp)
                else {
                    continue;
                };
                let own = last_summary.weighted(controller.weight_of(id(n as u8)));
                wire.wants[n] =
                    own.share_of(RadioHint::default()) / 8.0 * (0.04 + f64::from(own.queue_us) / 1e6);
            }
            last_summary = controller.summary_for(Channel::default());
            if tick == 119 {
                start = [0, 1, 2, 3].map(|n: usize| wire.flows[n].acked_bytes);
            }
        }
        let got = [0, 1, 2, 3].map(|n: usize| (wire.flows[n].acked_bytes - start[n]) as f64 * 8.0 / 60e6);
        let near = got.iter().zip(expected).all(|(got, expected)| (got / expected - 1.0).abs() < 0.15);
        assert!(near, "{got:.1?} instead of {expected:?}");
        assert!(controller.stations[&id(0)].membership.bounds_itself());
        assert!(wire.queue_s() < 0.045, "{}", wire.queue_s());
    }
}

/// A station that sends less than its share leaves the rest to the others, although its window does
/// not show that its application is the limit.
#[test]
fn an_application_limited_station_leaves_its_rest_to_the_others() {
    let mut wire = Wire::new(50.0, 30.0, 4);
    wire.application_bps[3] = Some(2e6);
    let mut controller = Controller::new(PolicyConfig::default(), Rules::default());
    let mut before = Vec::new();
    for tick in 0..120 {
        wire.tick(&mut controller);
        if tick == 59 {
            before = wire.flows.iter().map(|flow| flow.acked_bytes).collect();
        }
    }
    let mbps = |n: usize| (wire.flows[n].acked_bytes - before[n]) as f64 * 8.0 / 30.0 / 1e6;
    let all: Vec<f64> = (0..4).map(mbps).collect();
    assert!(all.iter().sum::<f64>() > 48.5, "{all:?}");
    assert!((all[3] - 2.0).abs() < 0.1, "{all:?}");
    assert!(all[..3].iter().all(|x| (15.0..17.0).contains(x)), "{all:?}");
    assert!(wire.queue_s() < 0.040, "{}", wire.queue_s());
}

#[test]
fn exempt_and_untouched_connections_are_not_bounded_but_new_ones_are() {
    let mut wire = Wire::new(50.0, 20.0, 4);
    wire.flows[1].state = ConnectionState::NeverModified;
    // These uploads must not fill the queue: behind a standing queue, new connections get no share
    // in advance.
    wire.application_bps[..2].fill(Some(2e6));
    let exempt = StationId([2, 0, 0, 0, 0, 0]);
    let left_alone = StationRule { exempt: true, ..StationRule::default() };
    let mut controller = Controller::new(
        PolicyConfig::default(),
        Rules { stations: [(exempt, left_alone)].into(), ..Rules::default() },
    );
    let plan = (0..40).map(|_| wire.tick(&mut controller)).last().unwrap();
    let bounded = plan.flows.iter().filter(|(_, bound)| bound.bytes > 0);
    let bounded: HashSet<FlowKey> = bounded.map(|(key, _)| *key).collect();
    assert_eq!(bounded, HashSet::from([wire.flows[2].key, wire.flows[3].key]));
    let of = |n: usize| {
        let address = wire.flows[n].key.station().ip();
        plan.stations.iter().find(|(a, _)| *a == address).map(|(_, bytes)| *bytes)
    };
    assert_eq!(of(0), Some(0), "the exempt one's new connections are not bounded either");
    assert_eq!(of(1), None, "nothing is known of it");
    assert!(of(2).unwrap() >= 14_600);
    assert!(plan.others.unwrap() >= 14_600);
}

#[test]
fn nothing_is_bounded_while_the_policy_is_off() {
    let mut wire = Wire::new(50.0, 20.0, 3);
    let config = PolicyConfig { name: PolicyName::Off, ..PolicyConfig::default() };
    let mut controller = Controller::new(config, Rules::default());
    for _ in 0..40 {
        assert_eq!(wire.tick(&mut controller), Plan::default());
    }
}

#[test]
fn bounds_are_released_step_by_step_until_a_loss() {
    let mut wire = Wire::new(50.0, 20.0, 2);
    let mut controller = Controller::new(PolicyConfig::default(), Rules::default());
    let plan = (0..40).map(|_| wire.tick(&mut controller)).last().unwrap();
    let before: HashMap<FlowKey, u32> = plan.flows.iter().map(|(key, bound)| (*key, bound.bytes)).collect();
    let (first, second) = (wire.flows[0].key, wire.flows[1].key);
    let release_all = controller.release_all(&wire.flows);
    let now: HashMap<FlowKey, u32> =
        release_all.flows.iter().map(|(key, bound)| (*key, bound.bytes)).collect();
    assert!(now[&first] > before[&first] && now[&first] < 2 * before[&first]);
    // One upload loses a segment, and so leaves slow start.
    wire.flows[0].repeated_segments += 1;
    let release_all = controller.release_all(&wire.flows);
    assert_eq!(release_all.free, [first]);
    assert_eq!(release_all.flows.len(), 1);
    let mut steps = 0;
    while !controller.release_all(&wire.flows).flows.is_empty() {
        steps += 1;
        assert!(steps < 20);
    }
    assert!(steps > 4, "{second} was let go at once");
}

/// The rates of the stations' uploads under these rules, Mbit/s: over the second half of two
/// minutes.
fn under(rules: Rules, stations: u8) -> Vec<f64> {
    let mut wire = Wire::new(48.0, 30.0, stations);
    let mut controller = Controller::new(PolicyConfig::default(), rules);
    let mut before = Vec::new();
    for tick in 0..240 {
        wire.tick(&mut controller);
        if tick == 119 {
            before = wire.flows.iter().map(|flow| flow.acked_bytes).collect();
        }
    }
    assert!(wire.queue_s() < 0.045, "{}", wire.queue_s());
    let mbps = |(flow, before): (&Gated, &u64)| (flow.acked_bytes - before) as f64 * 8.0 / 60.0 / 1e6;
    wire.flows.iter().zip(&before).map(mbps).collect()
}

#[test]
fn weights_and_limits_divide_the_wire() {
    let id = |n: u8| StationId([2, 0, 0, 0, 0, n]);
    let rule = |weight: f64, max_bps: Option<f64>| StationRule { weight, max_bps, exempt: false };
    let near = |mbps: f64, expected: f64| (mbps / expected - 1.0).abs() < 0.1;
    // Weights 2, 1 and 0.5: 27.4, 13.7 and 6.9 of 48 Mbit/s.
    let stations = [(id(0), rule(2.0, None)), (id(2), rule(0.5, None))].into();
    let got = under(Rules { stations, ..Rules::default() }, 3);
    assert!(near(got[0], 27.4) && near(got[1], 13.7) && near(got[2], 6.9), "{got:?}");
    // A limited station leaves the rest to the others.
    let stations = [(id(0), rule(1.0, Some(4e6)))].into();
    let got = under(Rules { stations, ..Rules::default() }, 3);
    assert!(near(got[0], 4.0) && near(got[1], 22.0) && near(got[2], 22.0), "{got:?}");
    // All stations that are not named are guests.
    let stations = [(id(0), rule(1.0, None))].into();
    let guests = rule(1.0, Some(5e6));
    let got = under(Rules { stations, guests, ..Rules::default() }, 3);
    assert!(near(got[0], 38.0) && near(got[1], 5.0) && near(got[2], 5.0), "{got:?}");
}

/// A limit also applies to a station that is alone, and in start-up.
#[test]
fn a_limit_applies_while_nothing_is_shared() {
    let guests = StationRule { max_bps: Some(2e6), ..StationRule::default() };
    let mut wire = Wire::new(48.0, 30.0, 1);
    let mut controller = Controller::new(PolicyConfig::default(), Rules { guests, ..Rules::default() });
    let plan = (0..4).map(|_| wire.tick(&mut controller)).last().unwrap();
    assert_eq!(plan.flows.len(), 1);
    let mut before = 0;
    for tick in 0..40 {
        wire.tick(&mut controller);
        if tick == 19 {
            before = wire.flows[0].acked_bytes;
        }
    }
    let mbps = (wire.flows[0].acked_bytes - before) as f64 * 8.0 / 10.0 / 1e6;
    assert!((1.5..2.3).contains(&mbps), "{mbps}");
}

#[test]
fn other_rules_apply_from_the_next_tick() {
    let mut wire = Wire::new(48.0, 30.0, 2);
    let mut controller = Controller::new(PolicyConfig::default(), Rules::default());
    (0..60).for_each(|_| drop(wire.tick(&mut controller)));
    let phase = controller.summary().as_ref().unwrap().phase;
    let left_alone = StationRule { exempt: true, ..StationRule::default() };
    let rules = Rules { stations: [(StationId([2, 0, 0, 0, 0, 1]), left_alone)].into(), ..Rules::default() };
    let config = PolicyConfig { objective: yuzuri_policy::Objective::Latency, ..PolicyConfig::default() };
    controller.configure(config, rules);
    let plan = wire.tick(&mut controller);
    assert!(plan.flows.iter().any(|(key, _)| *key == wire.flows[0].key));
    let summary = controller.summary().unwrap();
    assert!(summary.phase != Phase::StartUp && phase != Phase::StartUp, "it does not begin anew");
    assert!(summary.queue_us < 20_000, "{summary:?}");
    // The other one is released.
    (0..12).for_each(|_| drop(wire.tick(&mut controller)));
    assert!(!wire.bounds.contains_key(&wire.flows[1].key));
}

/// While segments are lost although no queue is long, bounds are suspended.
#[test]
fn nothing_is_bounded_while_segments_are_lost_without_a_queue() {
    let mut wire = Wire::new(48.0, 30.0, 3);
    wire.lost_permille = 8;
    // No long queue: the losses are those of a short one.
    wire.application_bps = vec![Some(15e6); 3];
    let mut controller = Controller::new(PolicyConfig::default(), Rules::default());
    let plan = (0..40).map(|_| wire.tick(&mut controller)).last().unwrap();
    assert_eq!(plan, Plan::default());
    assert!(controller.summary().as_ref().unwrap().paced);
    wire.lost_permille = 0;
    wire.application_bps = vec![None; 3];
    wire.wants = vec![14_480.0; 3];
    let plan = (0..100).map(|_| wire.tick(&mut controller)).last().unwrap();
    assert_eq!(plan.flows.len(), 3, "{:?}", controller.summary());
}

/// While new connections are bounded, a known, unbounded one is excepted.
#[test]
fn a_known_unbounded_connection_is_not_bounded_as_a_new_one() {
    let mut wire = Wire::new(20.0, 40.0, 3);
    wire.application_bps[0] = Some(500_000.0);
    let mut controller = Controller::new(PolicyConfig::default(), Rules::default());
    let mut without_bound = 0;
    for _ in 0..80 {
        let plan = wire.tick(&mut controller);
        let free = plan.flows.iter().filter(|(_, bound)| bound.bytes == 0).count();
        let rows = controller.stations.values().flat_map(|station| &station.rows);
        let unbounded = rows.filter(|row| row.bytes.is_none()).count();
        assert_eq!(free, if plan.others.is_some() { unbounded } else { 0 });
        without_bound += free;
    }
    assert!(without_bound > 20, "{without_bound}");
}
