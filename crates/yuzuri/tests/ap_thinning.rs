//! `yuzuri ap --thin-acks`: no ACK is dropped where data does not wait for the air.
#![allow(clippy::unwrap_used, missing_docs)]

mod ap_net;

use ap_net::{Daemon, network, status};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};
use yuzuri_gate::{Bound, FlowKey, Gate, Options};
use yuzuri_testnet::{AccessPoint, Host};

/// A burst of so many segments has ACKs that later ones make redundant.
const BURST_BYTES: usize = 20 * 1448;

/// A connection from the station to the server.
fn connection(net: &AccessPoint) -> (TcpStream, TcpStream, FlowKey) {
    let listener = net.inside(Host::Server, || TcpListener::bind((net.v4(Host::Server), 0)).unwrap());
    let server = listener.local_addr().unwrap();
    let near = net.inside(Host::Station(0), || TcpStream::connect(server).unwrap());
    // Independent of the host's default.
    socket2::SockRef::from(&near).set_tcp_congestion(b"cubic").unwrap();
    let (far, station) = listener.accept().unwrap();
    (near, far, FlowKey::new(station, server).unwrap())
}

/// Bursts, each as soon as the server has the one before: no more is in flight than a burst. A
/// pause between them would look like a wait for the air, because the gate cannot see the station's
/// queue.
fn bursts(near: &mut TcpStream, far: &mut TcpStream, lasts: Duration) -> u32 {
    let until = Instant::now() + lasts;
    let (burst, mut read) = (vec![7; BURST_BYTES], vec![0; BURST_BYTES]);
    let mut bursts = 0;
    while Instant::now() < until {
        near.write_all(&burst).unwrap();
        far.read_exact(&mut read).unwrap();
        bursts += 1;
    }
    bursts
}

#[test]
fn acks_that_would_wait_longer_than_data_for_the_air_are_not_dropped() {
    let test = "acks_that_would_wait_longer_than_data_for_the_air_are_not_dropped";
    let Some(net) = network(test, 1) else { return };
    // A burst takes 2 ms: an ACK at its beginning is answered by the next one.
    net.shape(100, 1_250_000).unwrap();
    let folder = tempfile::tempdir().unwrap();
    // The limit bounds each upload from the first tick on, but three times a burst fits into it
    // (400 Mbit/s for 2 ms are 100 kB).
    let words = ["-i", "br0", "--radio", "54:g", "--thin-acks", "g"];
    let Some(daemon) = Daemon::or_skip(&net, folder.path(), 400, &words) else { return };
    let (mut near, mut far, _) = connection(&net);
    let count = bursts(&mut near, &mut far, Duration::from_secs(4));
    let reported = status(folder.path()).unwrap();
    let bounded: u32 = reported.stations.iter().map(|station| station.bounded).sum();
    println!("{test}: {count} bursts, {} ACKs", reported.segments.down);
    assert!(bounded == 1 && count > 10, "{count} bursts: {reported:?}");
    assert_eq!(reported.segments.thinned, 0, "there is no queue for the air: {reported:?}");
    assert_eq!(daemon.end(), Some(0));

    // The same ACKs are dropped by a gate that is told to.
    let mut gate = Gate::load(&Options::default()).unwrap();
    net.inside(Host::AccessPoint, || gate.attach("br0")).unwrap();
    let (mut near, mut far, key) = connection(&net);
    let bound = Bound { bytes: 0, thin_bytes: 8 * 1448 };
    gate.bound(&[(key, bound)], Duration::from_secs(3600)).unwrap();
    bursts(&mut near, &mut far, Duration::from_secs(2));
    assert!(gate.counts().unwrap().thinned > 0, "{:?}", gate.counts());
}
