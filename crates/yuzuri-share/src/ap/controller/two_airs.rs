//! Two radios in front of one wire, as seen by a gate: each radio channel has a queue, and so has
//! the wire.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::RadioConfig;
use std::time::Duration;
use yuzuri_gate::{ConnectionState, RttPart};
use yuzuri_policy::Aggregation;

const TICK: Duration = Duration::from_millis(500);
const BASE_S: f64 = 0.040;
/// The part of the minimum RTT on the air.
const AIR_S: f64 = 0.002;
const N: RadioConfig = RadioConfig { rate_mbps: 65.0, aggregation: Aggregation::Ht };
const AC: RadioConfig = RadioConfig { rate_mbps: 390.0, aggregation: Aggregation::Vht };
const G: RadioConfig = RadioConfig { rate_mbps: 54.0, aggregation: Aggregation::None };

/// A station with a single upload.
struct One {
    radio: RadioConfig,
    channel: Channel,
    flow: Gated,
    /// Its flight without bounds, and the maximum of that, bytes.
    wants: f64,
    max_wants: f64,
}

impl One {
    fn alone_bps(&self) -> f64 {
        self.radio.hint().alone_bps as f64
    }
}

struct Cells {
    wire_bps: f64,
    all: Vec<One>,
    bounds: HashMap<FlowKey, u32>,
    /// The queues of the last tick, seconds.
    queues_s: BTreeMap<Channel, f64>,
    wire_s: f64,
    now: Duration,
    controller: Controller,
    start: Vec<u64>,
}

/// The shortest queue at which a sum that falls with it is at most 1.
fn queue_s(sum: impl Fn(f64) -> f64) -> f64 {
    if sum(0.0) <= 1.0 {
        return 0.0;
    }
    let (mut least, mut most) = (0.0, 60.0);
    for _ in 0..50 {
        let mid = (least + most) / 2.0;
        if sum(mid) > 1.0 { least = mid } else { most = mid }
    }
    most
}

impl Cells {
    fn new(wire_mbps: f64, stations: &[(RadioConfig, u32)]) -> Cells {
        let one = |(n, (radio, channel)): (usize, &(RadioConfig, u32))| {
            let station = format!("10.0.0.{}:40000", n + 2).parse().unwrap();
            let key = FlowKey::new(station, "192.0.2.1:443".parse().unwrap()).unwrap();
            let flow = Gated {
                state: ConnectionState::Established,
                advertised_bytes: 4_000_000,
                offered_bytes: 4_000_000,
                room_bytes: Some(0),
                scale: 7,
                mss: Some(1460),
                ..Gated::opening(key, [2, 0, 0, 0, 0, n as u8], 1)
            };
            // Their socket buffers differ, and so do their rates in start-up.
            let most = 1_500_000.0 / (n + 1) as f64;
            One { radio: *radio, channel: Channel(*channel), flow, wants: 14_480.0, max_wants: most }
        };
        let all: Vec<One> = stations.iter().enumerate().map(one).collect();
        Cells {
            wire_bps: wire_mbps * 1e6,
            start: vec![0; all.len()],
            all,
            bounds: HashMap::new(),
            queues_s: BTreeMap::new(),
            wire_s: 0.0,
            now: Duration::from_millis(1),
            controller: Controller::new(PolicyConfig::default(), Rules::default()),
        }
    }

    fn window(&self, one: &One) -> f64 {
        self.bounds.get(&one.flow.key).map_or(one.wants, |bound| one.wants.min(f64::from(*bound)))
    }

    fn rate_bps(&self, one: &One, queue_s: f64) -> f64 {
        self.window(one) * 8.0 / (BASE_S + queue_s)
    }

    /// The queue of a channel's air behind one of the wire.
    fn air_s(&self, channel: Channel, wire_s: f64) -> f64 {
        let here = || self.all.iter().filter(|one| one.channel == channel);
        queue_s(|air_s| here().map(|one| self.rate_bps(one, air_s + wire_s) / one.alone_bps()).sum())
    }

    fn pass(&mut self) {
        self.now += TICK;
        let channels: BTreeSet<Channel> = self.all.iter().map(|one| one.channel).collect();
        self.wire_s = queue_s(|wire_s| {
            let rate_bps = |one: &One| self.rate_bps(one, self.air_s(one.channel, wire_s) + wire_s);
            self.all.iter().map(rate_bps).sum::<f64>() / self.wire_bps
        });
        self.queues_s =
            channels.into_iter().map(|channel| (channel, self.air_s(channel, self.wire_s))).collect();
        let windows: Vec<f64> = self.all.iter().map(|one| self.window(one)).collect();
        for (one, window) in self.all.iter_mut().zip(windows) {
            let air_s = AIR_S + self.queues_s[&one.channel];
            let wire_s = BASE_S - AIR_S + self.wire_s;
            let flow = &mut one.flow;
            let bytes = (window / (air_s + wire_s) * TICK.as_secs_f64()) as u64;
            (flow.acked_bytes, flow.up_bytes) = (flow.acked_bytes + bytes, flow.up_bytes + bytes);
            flow.up_segments += bytes / 1448;
            flow.last_ns = self.now.as_nanos() as u64;
            flow.in_flight_bytes = window as u32;
            flow.advertised_bytes = self.bounds.get(&flow.key).copied().unwrap_or(4_000_000);
            flow.room_bytes = Some((f64::from(flow.advertised_bytes) - window) as u32);
            let add = |part: &mut RttPart, s: f64| {
                let us = (s * 1e6) as u64;
                part.samples += 20;
                part.sum_us += 20 * us;
                part.min_us = if part.min_us == 0 { us as u32 } else { part.min_us.min(us as u32) };
            };
            add(&mut flow.wire, wire_s);
            add(&mut flow.air, air_s);
            one.wants = (one.wants * 2.0).min(one.max_wants);
        }
        let flows: Vec<Gated> = self.all.iter().map(|one| one.flow.clone()).collect();
        let places: HashMap<_, _> = self
            .all
            .iter()
            .map(|one| {
                (StationId(one.flow.mac), StationLocation { radio: Some(one.radio), channel: one.channel })
            })
            .collect();
        let now_ns = self.now.as_nanos() as u64;
        let plan = self.controller.tick(Moment::at(self.now), now_ns, &flows, &[], |id| places[&id]);
        self.bounds.retain(|key, _| !plan.free.contains(key));
        let bounded = plan.flows.iter().filter(|(_, bound)| bound.bytes > 0);
        self.bounds.extend(bounded.map(|(key, bound)| (*key, bound.bytes)));
    }

    /// The rate of each in the second half of this time, Mbit/s.
    fn rates(&mut self, seconds: u64) -> Vec<f64> {
        (0..seconds).for_each(|_| self.pass());
        self.start = self.all.iter().map(|one| one.flow.acked_bytes).collect();
        (0..seconds).for_each(|_| self.pass());
        let got = self.all.iter().zip(&self.start).map(|(one, start)| one.flow.acked_bytes - start);
        got.map(|bytes| bytes as f64 * 8.0 / (seconds as f64 / 2.0) / 1e6).collect()
    }

    fn bottlenecks(&self) -> Vec<Bottleneck> {
        self.controller.in_use().map(|(at, _)| at).collect()
    }

    fn alone_mbps(&self) -> Vec<f64> {
        self.all.iter().map(|one| one.alone_bps() / 1e6).collect()
    }
}

const FIVE: u32 = 5210;
const TWO: u32 = 2437;

/// Each radio channel has its own airtime: a station alone on a radio gets all of it.
#[test]
fn a_station_alone_on_its_radio_gets_all_the_airtime() {
    let mut cells = Cells::new(1000.0, &[(AC, FIVE), (AC, FIVE), (N, FIVE), (N, TWO)]);
    let got = cells.rates(60);
    let alone = cells.alone_mbps();
    for (n, sharers) in [(0, 3.0), (1, 3.0), (2, 3.0), (3, 1.0)] {
        assert!((got[n] * sharers / alone[n] - 1.0).abs() < 0.08, "{n}: {got:.1?} of {alone:.1?}");
    }
    assert_eq!(cells.bottlenecks(), [TWO, FIVE].map(|mhz| Bottleneck::Channel(Channel(mhz))));
    assert!(cells.controller.is_limited_by_air());
    let senders = |mhz| cells.controller.summary_for(Channel(mhz)).unwrap().senders;
    assert_eq!([FIVE, TWO].map(senders), [3, 1], "members get the summary of their own radio");
}

/// The wire is common to both radios: their stations get equal shares of it.
#[test]
fn stations_of_two_radios_share_the_wire() {
    for wire_mbps in [20.0, 50.0] {
        let mut cells = Cells::new(wire_mbps, &[(AC, FIVE), (N, TWO), (AC, FIVE), (N, TWO)]);
        let got = cells.rates(60);
        assert!(
            got.iter().all(|mbps| (mbps / (wire_mbps / 4.0) - 1.0).abs() < 0.12),
            "{wire_mbps}: {got:.1?}"
        );
        assert!(got.iter().sum::<f64>() > 0.97 * wire_mbps, "{got:.1?}");
        assert!(cells.wire_s < 0.045, "{}", cells.wire_s);
        assert_eq!(cells.bottlenecks(), [Bottleneck::Wire]);
        assert!(!cells.controller.is_limited_by_air());
    }
}

/// The fraction of the wire that each would get alone.
fn parts_of_wire(cells: &Cells) -> Vec<f64> {
    let wire_mbps = cells.wire_bps / 1e6;
    let alone: Vec<f64> = cells.alone_mbps().into_iter().map(|mbps| mbps.min(wire_mbps)).collect();
    let all: f64 = alone.iter().sum();
    alone.into_iter().map(|mbps| mbps / all * wire_mbps).collect()
}

/// The wire is divided by the stations' rates alone, slow stations included, although together they
/// use more than the airtime of one channel.
#[test]
fn slow_stations_get_their_part_of_the_wire() {
    let mut cells = Cells::new(120.0, &[(AC, FIVE), (AC, FIVE), (G, TWO), (G, TWO)]);
    let (got, expected) = (cells.rates(60), parts_of_wire(&cells));
    let near = got.iter().zip(&expected).all(|(got, expected)| (got / expected - 1.0).abs() < 0.12);
    assert!(near, "{got:.1?} instead of {expected:.1?}");
    assert!(cells.wire_s < 0.045, "{}", cells.wire_s);
}

/// Stations limited by their own channel leave the rest of the wire to the others.
#[test]
fn what_one_radio_cannot_carry_goes_to_the_other() {
    let mut cells = Cells::new(60.0, &[(AC, FIVE), (G, TWO), (G, TWO), (G, TWO)]);
    let got = cells.rates(60);
    let alone = cells.alone_mbps();
    assert!((1..4).all(|n| (got[n] * 3.0 / alone[n] - 1.0).abs() < 0.15), "{got:.1?} of {alone:.1?}");
    assert!(got.iter().sum::<f64>() > 57.0, "{got:.1?}");
    assert!(cells.wire_s < 0.045, "{}", cells.wire_s);
}

/// A station moves to an empty radio, then the wire becomes slow, then fast again.
#[test]
fn groups_follow_stations_and_wire() {
    let mut cells = Cells::new(1000.0, &[(AC, FIVE), (AC, FIVE), (N, FIVE), (N, FIVE)]);
    let before = cells.rates(40);
    cells.all[3].channel = Channel(TWO);
    let after = cells.rates(40);
    let alone = cells.alone_mbps();
    assert!(after[3] > 0.92 * alone[3] && after[3] > 3.0 * before[3], "{before:.1?} {after:.1?}");
    assert!((0..3).all(|n| after[n] > 1.2 * before[n]), "{before:.1?} {after:.1?}");
    cells.wire_bps = 30e6;
    let slow = cells.rates(80);
    assert!(slow.iter().all(|mbps| (mbps / 7.5 - 1.0).abs() < 0.15), "{slow:.1?}");
    cells.wire_bps = 1e9;
    let fast = cells.rates(80);
    assert!(fast.iter().zip(&after).all(|(fast, after)| fast > &(0.9 * after)), "{after:.1?} {fast:.1?}");
}
