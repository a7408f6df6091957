//! Maximum throughput of a single upload without collisions: a cycle of data and ACK frames, each
//! after AIFS and the mean back-off of 7.5 slots. The values are printed by
//! `cargo test -p yuzuri-netmodel --test head_room -- --nocapture`.

use yuzuri_netmodel::radio::{Band, Cell, CellConfig, Node, Phy, StationConfig, Timing, To};
use yuzuri_netmodel::wire::{Direction, LineConfig, Wire, WireConfig};
use yuzuri_netmodel::{Packet, Time};

/// TCP payload of a 1500-byte segment with timestamps.
const MSS: f64 = 1448.0;
const BACK_OFF_US: f64 = 7.5 * 9.0;

#[derive(Clone)]
struct Frame(u32);
impl Packet for Frame {
    fn bytes(&self) -> u32 {
        self.0
    }
    fn flow(&self) -> u64 {
        0
    }
}

/// Sends `packets` of `bytes` from a station alone on the channel, with at most `at_once` in its
/// queue so that each frame carries as many. Returns the mean time of a frame and its response,
/// without AIFS and back-off, µs.
fn exchange_us(phy: Phy, aifs_us: f64, bytes: u32, at_once: usize) -> f64 {
    let mut cell = Cell::new(&CellConfig::new(vec![StationConfig::new(phy)]), 3).expect("a valid cell");
    let mut arrivals = Vec::new();
    const FRAMES: usize = 2000;
    for _ in 0..FRAMES {
        // The queue is refilled before the last frame ends, so that the next one draws its back-off
        // after it.
        for _ in 0..at_once {
            let now = cell.account().at();
            cell.send(now, Node::Station(0), To::One(Node::Ap), Frame(bytes));
        }
        let sent = cell.account().stations[0].sent;
        while cell.account().stations[0].sent < sent + at_once as u64 {
            let at = cell.next().expect("a frame under way");
            cell.advance(at, &mut arrivals);
        }
    }
    while let Some(at) = cell.next() {
        cell.advance(at, &mut arrivals);
    }
    let account = cell.account();
    let airtime = account.stations[0].airtime.total_ns() as f64 / 1e3;
    let frames = account.stations[0].frames as f64;
    // All time outside the airtime is AIFS and back-off, so the mean idle time shows the mean
    // back-off.
    let idle = account.idle.contention_ns as f64 / 1e3 / frames;
    assert!((idle - aifs_us - BACK_OFF_US).abs() < 2.5, "{phy:?}: idle {idle} µs per frame");
    assert_eq!(frames as usize, FRAMES, "{phy:?}");
    airtime / frames
}

fn limit(name: &str, phy: Phy, aifs_us: f64, segments: usize, expected: f64) -> f64 {
    let access = aifs_us + BACK_OFF_US;
    let acks = segments.div_ceil(2);
    // Without aggregation, each segment and each ACK is a frame of its own.
    let (per_frame, frames, ack_frames) = if phy.is_qos() { (segments, 1.0, 1.0) } else { (1, 2.0, 1.0) };
    let acks_per_frame = if phy.is_qos() { acks } else { 1 };
    let data = exchange_us(phy, aifs_us, 1514, per_frame);
    let ack = exchange_us(phy, aifs_us, 66, acks_per_frame);
    let cycle = frames * (data + access) + ack_frames * (ack + access);
    let mbps = frames * per_frame as f64 * MSS * 8.0 / cycle;
    println!("{name:12} {mbps:6.1} Mbit/s (published {expected})");
    mbps
}

#[test]
fn collision_free_limits() {
    let g = limit("11g 54", Phy::g(54), 28.0, 2, 23.9);
    // 5.484 ms hold 28 segments at 65 Mbit/s and 64 at 390 Mbit/s.
    let n = limit("11n 65", Phy::n(20, 1, 7), 43.0, 28, 55.0);
    let ac = limit("11ac 390", Phy::ac(80, 1, 9), 43.0, 64, 298.0);
    let shared = (ac + n) / 2.0;
    println!("ac and n, equal airtime {shared:6.1} Mbit/s (published 176)");
    assert!((g - 23.9).abs() < 0.05, "{g}");
    assert!((n - 55.0).abs() < 0.5, "{n}");
    assert!((ac - 298.0).abs() < 0.5, "{ac}");
    assert!((shared - 176.0).abs() < 1.0, "{shared}");
}

#[test]
fn a_frame_of_80211n_holds_28_segments_and_no_more() {
    let phy = Phy::n(20, 1, 7);
    let most = Timing::new(Band::Ghz5).bytes_within(&phy, 5_484_000);
    assert_eq!((most + 2) / 1544, 28);
    let mut cell = Cell::new(&CellConfig::new(vec![StationConfig::new(phy)]), 1).expect("a valid cell");
    for _ in 0..29 {
        cell.send(Time::ZERO, Node::Station(0), To::One(Node::Ap), Frame(1514));
    }
    let mut arrivals = Vec::new();
    while let Some(at) = cell.next() {
        cell.advance(at, &mut arrivals);
    }
    let station = &cell.account().stations[0];
    assert_eq!((station.frames, station.mpdus, station.sent), (2, 29, 29));
}

#[test]
fn a_wire_of_100_mbps_carries_95_4_of_payload() {
    let line = LineConfig { rate_bps: Some(100_000_000), ..LineConfig::default() };
    let mut wire = Wire::new(&WireConfig::symmetric(line), 1).expect("a valid wire");
    let mut arrivals = Vec::new();
    for _ in 0..1000 {
        wire.send(Time::ZERO, Direction::Up, Frame(1514));
    }
    while let Some(at) = wire.next() {
        wire.advance(at, &mut arrivals);
    }
    let seconds = arrivals.last().expect("arrivals").at.as_secs_f64();
    let mbps = arrivals.len() as f64 * MSS * 8.0 / seconds / 1e6;
    println!("wire 100     {mbps:6.1} Mbit/s (published 95.4)");
    assert_eq!(arrivals.len(), 1000);
    assert!((mbps - 95.4).abs() < 0.05, "{mbps}");
}
