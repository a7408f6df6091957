//! Compares saturation throughput and collision probability with G. Bianchi, "Performance Analysis
//! of the IEEE 802.11 Distributed Coordination Function", IEEE JSAC 18(3), 2000. The fixed point is
//! solved here from the standard's constants alone.
//!
//! `cargo test -p yuzuri-netmodel --release --test bianchi -- --nocapture`

use yuzuri_netmodel::radio::{Cell, CellConfig, Node, Phy, StationConfig, To};
use yuzuri_netmodel::{Packet, Time};

const PACKET_BYTES: u32 = 1514;
const SECONDS: u64 = 20;
const W: f64 = 16.0;
/// 1023 = 2^6 * 16 - 1.
const M: i32 = 6;
const SLOT_US: f64 = 9.0;

#[derive(Clone)]
struct Frame;
impl Packet for Frame {
    fn bytes(&self) -> u32 {
        PACKET_BYTES
    }
    fn flow(&self) -> u64 {
        0
    }
}

/// tau(p), equation (7) of the paper, with the sum in place of the quotient.
fn tau(p: f64) -> f64 {
    let sum: f64 = (0..M).map(|i| (2.0 * p).powi(i)).sum();
    2.0 / (1.0 + W + p * W * sum)
}

/// Solves p = 1 - (1 - tau(p))^(n-1) by bisection. Returns the collision probability p and tau.
fn fixed_point(n: u32) -> (f64, f64) {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..100 {
        let p = (low + high) / 2.0;
        if 1.0 - (1.0 - tau(p)).powi(n as i32 - 1) > p {
            low = p;
        } else {
            high = p;
        }
    }
    (low, tau(low))
}

/// Throughput of IP packets, Mbit/s (equation 13).
fn throughput(n: u32, tau: f64, success_us: f64, collision_us: f64) -> f64 {
    let n = n as i32;
    let idle = (1.0 - tau).powi(n);
    let success = f64::from(n) * tau * (1.0 - tau).powi(n - 1);
    let collision = 1.0 - idle - success;
    let bits = f64::from((PACKET_BYTES - 14) * 8);
    success * bits / (idle * SLOT_US + success * success_us + collision * collision_us)
}

fn simulated(phy: Phy, n: u32) -> (f64, f64) {
    let mut config = CellConfig::new(vec![StationConfig::new(phy); n as usize]);
    config.ampdu.mpdus = 1;
    // The paper's stations retry without limit.
    config.retry_limit = 255;
    let mut cell = Cell::new(&config, 7).expect("a valid cell");
    let mut arrivals = Vec::new();
    for station in 0..n {
        for _ in 0..5 {
            cell.send(Time::ZERO, Node::Station(station as u16), To::One(Node::Ap), Frame);
        }
    }
    let end = Time::from_nanos(SECONDS * 1_000_000_000);
    let mut packets = 0_u64;
    while let Some(at) = cell.next().filter(|at| *at <= end) {
        cell.advance(at, &mut arrivals);
        for arrival in arrivals.drain(..) {
            packets += 1;
            cell.send(at, arrival.from, To::One(Node::Ap), Frame);
        }
    }
    let account = cell.account();
    let (collided, accesses) = account
        .stations
        .iter()
        .fold((0, 0), |(collided, accesses), one| (collided + one.collisions, accesses + one.accesses));
    let bits = packets * u64::from(PACKET_BYTES - 14) * 8;
    (bits as f64 / SECONDS as f64 / 1e6, collided as f64 / accesses as f64)
}

/// Compares the model with the paper. The durations are computed by hand in µs, independently of
/// the crate.
fn compare(name: &str, phy: Phy, success_us: f64, collision_us: f64, throughput_limit: f64, p_limit: f64) {
    println!("{name}\n  n   Mbit/s ours/Bianchi           p ours/Bianchi");
    for n in [1, 2, 3, 5, 8, 10, 15, 20, 30, 40, 50] {
        let (p, tau) = fixed_point(n);
        let expected = throughput(n, tau, success_us, collision_us);
        let (mbps, collided) = simulated(phy, n);
        let off = mbps / expected - 1.0;
        println!("{n:3}   {mbps:7.3}/{expected:7.3} {:+5.1} %   {collided:.4}/{p:.4}", off * 100.0);
        assert!(off.abs() < throughput_limit, "{name}, n = {n}: {mbps} Mbit/s, Bianchi has {expected}");
        assert!((collided - p).abs() < p_limit, "{name}, n = {n}: p = {collided}, Bianchi has {p}");
    }
}

#[test]
fn edca_saturation_matches_bianchi() {
    // 802.11n, 65 Mbit/s, 5 GHz. MPDU 26 + 8 + 1500 + 4 = 1538 bytes:
    // ceil((16 + 8 * 1538 + 6) / 260) = 48 symbols.
    let ppdu = 36.0 + 48.0 * 4.0;
    let ack = 28.0; // 14 bytes at 24 Mbit/s: 20 + 2 * 4
    let aifs = 16.0 + 3.0 * 9.0;
    let eifs = 16.0 + 44.0 + aifs; // Ack at 6 Mbit/s: 20 + ceil(134 / 24) * 4 = 44
    compare(
        "802.11n, one MPDU per frame",
        Phy::n(20, 1, 7),
        ppdu + 16.0 + ack + aifs,
        ppdu + eifs,
        0.03,
        0.02,
    );
}

#[test]
fn dcf_saturation_matches_bianchi() {
    // 802.11g, 54 Mbit/s. MPDU 24 + 8 + 1500 + 4 = 1536 bytes:
    // ceil((16 + 8 * 1536 + 6) / 216) = 57 symbols.
    let ppdu = 20.0 + 57.0 * 4.0 + 6.0;
    let ack = 34.0; // 28 plus the signal extension
    let difs = 28.0;
    let eifs = 10.0 + 50.0 + difs;
    compare("802.11g", Phy::g(54), ppdu + 10.0 + ack + difs, ppdu + eifs, 0.05, 0.04);
}
