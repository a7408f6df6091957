//! Traffic without a window: it is limited to a rate, small streams have priority, senders that
//! support ECN get marks, and everything else is unmodified.
#![allow(clippy::unwrap_used, missing_docs)]

mod frames;
mod loaded;

use frames::*;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use yuzuri_capture::checksum;
use yuzuri_gate::{Direction, Gate, Options, OtherTraffic};
use yuzuri_testnet::{AccessPoint, Host};

const LONG: Duration = Duration::from_secs(3600);
const UDP: u8 = 17;
/// The source address of [`frame`]'s frames up.
const MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
/// The burst allowance of a stream, and of a bucket with a small rate, bytes.
const BURST: u64 = 32_768;

fn gate(test: &str) -> Option<Gate> {
    loaded::gate(test, &Options::default())
}

fn ip_at(form: Form) -> usize {
    let header = match form {
        Form::V4Options => 28,
        form if form.is_v6() => 40,
        _ => 20,
    };
    tcp_at(form) - header
}

/// The offset of the IP header's protocol field.
fn carried_at(form: Form) -> usize {
    ip_at(form) + if form.is_v6() { 6 } else { 9 }
}

/// A packet from the station with 1000 bytes of payload in stream `n`, of a protocol other than
/// TCP.
fn other(form: Form, n: u16, carried: u8) -> Vec<u8> {
    let mut made = frame(form, Direction::Up, n, &Tcp::new(ACK, 1, 1, 1).carrying(vec![7; 1000]));
    let at = carried_at(form);
    made[at] = carried;
    if !form.is_v6() {
        // Update the header's checksum.
        let ip = at - 9;
        let length = usize::from(made[ip] & 15) * 4;
        made[ip + 10..ip + 12].fill(0);
        let checksum = checksum::of(&[&made[ip..ip + length]]);
        made[ip + 10..ip + 12].copy_from_slice(&checksum);
    }
    made
}

fn is_header_sum_right(ip: &[u8]) -> bool {
    let length = usize::from(ip[0] & 15) * 4;
    checksum::of(&[&ip[..length]]) == [0, 0]
}

fn goes(gate: &Gate, made: &[u8]) -> bool {
    gate.try_packet(Direction::Up, made, 1).unwrap().passes
}

fn seen(gate: &Gate, mac: [u8; 6]) -> OtherTraffic {
    gate.others().unwrap().into_iter().find(|other| other.mac == mac).unwrap()
}

/// Another station's frame.
fn of(n: usize, mut made: Vec<u8>) -> ([u8; 6], Vec<u8>) {
    made[11] = n as u8 + 10;
    (made[6..12].try_into().unwrap(), made)
}

#[test]
fn traffic_beyond_the_rate_and_the_small_stream_allowance_is_dropped() {
    let Some(mut gate) = gate("traffic_beyond_the_rate_and_the_small_stream_allowance_is_dropped") else {
        return;
    };
    const PACKETS: u64 = 400;
    let mut dropped = 0;
    for (n, form) in FORMS.into_iter().enumerate() {
        let (mac, made) = of(n, other(form, n as u16, UDP));
        assert!((0..PACKETS).all(|_| goes(&gate, &made)), "{form:?}: no rate, and dropped");
        // 400 kB within a moment, at 100 kB/s.
        let before = Instant::now();
        gate.police(&[(mac, 800_000)], LONG).unwrap();
        let came = seen(&gate, mac);
        let passed = (0..PACKETS).filter(|_| goes(&gate, &made)).count() as u64;
        let after = seen(&gate, mac);
        dropped += after.dropped;
        let packet = (after.bytes - came.bytes) / PACKETS;
        assert!((1040..1100).contains(&packet), "{form:?}: {packet} bytes");
        assert_eq!(after.packets - came.packets, PACKETS);
        assert_eq!(after.dropped - came.dropped, PACKETS - passed, "{form:?}");
        // The stream's first bytes, the bucket's, and the tokens added to both meanwhile.
        let most = 2 * BURST + (before.elapsed().as_secs_f64() * (100_000.0 + 65_536.0)) as u64;
        assert!(
            passed * packet <= most + packet && passed * packet > BURST / 2,
            "{form:?}: {passed} packets"
        );
    }
    let counts = gate.counts().unwrap();
    assert_eq!((counts.other, counts.up, counts.marked), (2 * PACKETS * 8, 0, 0), "{counts:?}");
    assert_eq!(counts.dropped, dropped);
    assert!(counts.dropped > 0);
}

#[test]
fn a_rate_expires_and_other_stations_and_directions_have_none() {
    let Some(mut gate) = gate("a_rate_expires_and_other_stations_and_directions_have_none") else { return };
    let made = other(Form::V4, 0, UDP);
    let all_go = |gate: &Gate, made: &[u8]| (0..200).all(|_| goes(gate, made));
    assert!(goes(&gate, &made), "the first packet of a station");
    gate.police(&[(MAC, 8000)], LONG).unwrap();
    assert!(!all_go(&gate, &made));
    let mut of_another = made.clone();
    of_another[11] = 9;
    assert!(all_go(&gate, &of_another));
    let down = (0..200).all(|_| gate.try_packet(Direction::Down, &made, 1).unwrap().passes);
    assert!(down);
    gate.police(&[(MAC, 8000)], Duration::ZERO).unwrap();
    assert!(all_go(&gate, &made), "expired");
}

#[test]
fn only_segments_with_data_are_limited() {
    let Some(mut gate) = gate("only_segments_with_data_are_limited") else { return };
    assert!(goes(&gate, &other(Form::V4, 0, UDP)));
    gate.police(&[(MAC, 8000)], LONG).unwrap();
    for form in [Form::V4, Form::V6, Form::V4VlanPppoe] {
        for (carried, what, is_kept) in [
            (UDP, "UDP", true),
            (50, "ESP", true),
            (47, "GRE", true),
            (132, "SCTP", true),
            (6, "TCP", false),
            (1, "ICMP", false),
            (58, "ICMPv6", false),
            (2, "IGMP", false),
            (89, "OSPF", false),
            (44, "a fragment of IPv6", false),
        ] {
            let made = other(form, 1, carried);
            assert_eq!((0..200).all(|_| goes(&gate, &made)), !is_kept, "{what}, {form:?}");
        }
        // A fragment does not have the ports: all fragments of a station are one stream.
        if !form.is_v6() {
            let mut fragment = other(form, 1, UDP);
            fragment[carried_at(form) - 3] = 0x20;
            assert!(!(0..200).all(|_| goes(&gate, &fragment)));
        }
    }
}

/// Senders that support marks get them, with a correct header checksum; packets of those that do
/// not respond are dropped.
#[test]
fn ecn_capable_packets_are_marked_before_they_are_dropped() {
    let Some(mut gate) = gate("ecn_capable_packets_are_marked_before_they_are_dropped") else { return };
    for (n, form) in FORMS.into_iter().enumerate() {
        let ip = ip_at(form);
        let (mac, mut made) = of(n, other(form, n as u16, UDP));
        // ECT(0).
        if form.is_v6() {
            made[ip + 1] |= 2 << 4;
        } else {
            made[ip + 1] |= 2;
            let sum = u16::from_be_bytes([made[ip + 10], made[ip + 11]]);
            made[ip + 10..ip + 12].copy_from_slice(&(sum - 2).to_be_bytes());
            assert!(is_header_sum_right(&made[ip..]));
        }
        let is_marked = |frame: &[u8]| match form.is_v6() {
            true => frame[ip + 1] >> 4 & 3 == 3,
            false => frame[ip + 1] & 3 == 3,
        };
        assert!(goes(&gate, &made));
        gate.police(&[(mac, 8000)], LONG).unwrap();
        let before = seen(&gate, mac);
        let mut order = Vec::new();
        for _ in 0..200 {
            let tried = gate.try_packet(Direction::Up, &made, 1).unwrap();
            let same = tried.frame[..ip] == made[..ip] && tried.frame[ip + 12..] == made[ip + 12..];
            assert!(same && tried.frame[ip + 2..ip + 10] == made[ip + 2..ip + 10], "{form:?}");
            order.push((tried.passes, is_marked(&tried.frame)));
            if !form.is_v6() {
                assert!(is_header_sum_right(&tried.frame[ip..]));
            }
        }
        let count = |what: (bool, bool)| order.iter().filter(|o| **o == what).count() as u64;
        let after = seen(&gate, mac);
        assert_eq!(after.marked - before.marked, count((true, true)), "{form:?}");
        assert_eq!(after.dropped - before.dropped, count((false, false)) + count((false, true)), "{form:?}");
        assert!(count((true, true)) >= 20 && count((true, true)) <= 45, "{form:?}: {}", count((true, true)));
        assert!(!order[199].0, "who goes on in spite of marks is dropped");
    }
}

/// A call of 100 kbit/s beside an upload of ten times the rate, of one station, with real sockets.
#[test]
fn a_call_loses_nothing_beside_an_upload_limited_to_its_rate() {
    let test = "a_call_loses_nothing_beside_an_upload_limited_to_its_rate";
    let Some(net) = AccessPoint::or_skip(test, 1) else { return };
    let Some(mut gate) = gate(test) else { return };
    const STATION: Host = Host::Station(0);
    const RATE_BPS: u64 = 2_000_000;
    const CALL: (usize, Duration, u64) = (250, Duration::from_millis(20), 250);
    net.inside(Host::AccessPoint, || gate.attach("br0")).unwrap();
    let server = |port: u16| {
        net.inside(Host::Server, || {
            let socket = UdpSocket::bind(SocketAddr::new(net.v4(Host::Server), port)).unwrap();
            socket2::SockRef::from(&socket).set_recv_buffer_size(4 << 20).unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
            socket
        })
    };
    let (call, flood) = (server(5004), server(443));
    let station = || net.inside(STATION, || UdpSocket::bind("0.0.0.0:0").unwrap());
    let (caller, uploader) = (station(), station());
    caller.connect(call.local_addr().unwrap()).unwrap();
    uploader.connect(flood.local_addr().unwrap()).unwrap();
    caller.send(&[0; 10]).unwrap();
    assert!(yuzuri_testnet::eventually(|| !gate.others().unwrap().is_empty()));
    let mac = gate.others().unwrap()[0].mac;
    gate.police(&[(mac, RATE_BPS)], LONG).unwrap();

    let stop = AtomicBool::new(false);
    let began = Instant::now();
    let (calls, uploaded, sent) = std::thread::scope(|scope| {
        let received = |socket: UdpSocket| {
            let stop = &stop;
            scope.spawn(move || {
                let (mut packets, mut bytes, mut buffer) = (0u64, 0u64, [0; 2000]);
                // Including the data in flight when everything was sent.
                loop {
                    match socket.recv(&mut buffer) {
                        Ok(length) => (packets, bytes) = (packets + 1, bytes + length as u64),
                        Err(_) if stop.load(Ordering::Relaxed) => return (packets, bytes),
                        Err(_) => {}
                    }
                }
            })
        };
        let (calls, uploads) = (received(call), received(flood));
        let uploader = scope.spawn(|| {
            let mut sent = 0u64;
            while !stop.load(Ordering::Relaxed) {
                // 20 Mbit/s in bursts, as a sender without pacing.
                for _ in 0..10 {
                    sent += uploader.send(&[7; 1200]).map_or(0, |n| n as u64);
                }
                std::thread::sleep(Duration::from_micros(4800));
            }
            sent
        });
        let mut next = Instant::now();
        for _ in 0..CALL.2 {
            caller.send(&vec![1; CALL.0]).unwrap();
            next += CALL.1;
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
        }
        stop.store(true, Ordering::Relaxed);
        (calls.join().unwrap(), uploads.join().unwrap(), uploader.join().unwrap())
    });
    let seconds = began.elapsed().as_secs_f64();
    let mbps = |bytes: u64| bytes as f64 * 8.0 / seconds / 1e6;
    println!(
        "{test}: call {} of {} packets; upload {:.2} of {:.2} Mbit/s at a rate of {} Mbit/s",
        calls.0,
        CALL.2 + 1,
        mbps(uploaded.1),
        mbps(sent),
        RATE_BPS / 1_000_000
    );
    assert_eq!(calls.0, CALL.2 + 1, "the call lost packets");
    assert!(mbps(sent) > 3.0, "the upload was too slow to say anything");
    // Both bursts at the beginning, and the headers' part.
    let most = RATE_BPS as f64 / 1e6 + mbps(2 * BURST);
    assert!(
        mbps(uploaded.1) < most && mbps(uploaded.1) > 0.6 * RATE_BPS as f64 / 1e6,
        "{}",
        mbps(uploaded.1)
    );
    assert!(seen(&gate, mac).dropped > 0);
}
