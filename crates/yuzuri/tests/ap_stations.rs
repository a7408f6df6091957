//! Stations of `yuzuri ap` that bounds may not reach: one moves between devices of the access point
//! in the middle of its upload, another ignores its window.
#![allow(clippy::unwrap_used, missing_docs)]

mod ap_net;

use ap_net::{Daemon, YUZURI, network, status};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use yuzuri_share::ApStatus;
use yuzuri_testnet::{AccessPoint, Host, eventually};

const STATION: Host = Host::Station(0);

fn ip(words: &str) {
    let done = Command::new("ip").args(words.split(' ')).output().unwrap();
    assert!(done.status.success(), "ip {words}: {}", String::from_utf8_lossy(&done.stderr));
}

/// Creates a second device of the access point, `t0`, and a device of the station behind it with
/// the same hardware address. To the station this is another radio of the access point.
fn second_way(net: &AccessPoint) {
    let [ap, station] = [Host::AccessPoint, STATION].map(|host| net.name(host));
    let mac = net.inside(STATION, || std::fs::read_to_string("/sys/class/net/eth0/address").unwrap());
    ip(&format!("link add t0 netns {ap} type veth peer name eth1 netns {station}"));
    ip(&format!("-n {station} link set eth1 address {}", mac.trim()));
    ip(&format!("-n {ap} link set t0 master br0"));
    ip(&format!("-n {ap} link set t0 up"));
    // As for the other devices.
    for (host, device) in [(Host::AccessPoint, "t0"), (STATION, "eth1")] {
        let off = ["-K", device, "tso", "off", "gso", "off", "gro", "off", "tx", "off", "rx", "off"];
        assert!(net.command(host, "ethtool").args(off).output().unwrap().status.success());
    }
}

/// The station leaves the one device and joins the other, with its address.
fn roam(net: &AccessPoint) {
    let station = net.name(STATION);
    for words in [
        "link set eth0 down",
        "addr flush dev eth0",
        "addr add 10.77.0.10/24 dev eth1",
        "link set eth1 up",
        "route add default via 10.77.0.1",
    ] {
        ip(&format!("-n {station} {words}"));
    }
}

/// The limit of every station.
const MAX_MBPS: u32 = 8;

/// Uploads while `during` runs; its argument counts the bytes received so far.
fn upload(net: &AccessPoint, during: impl FnOnce(&AtomicU64)) {
    let listener = net.inside(Host::Server, || TcpListener::bind("0.0.0.0:0").unwrap());
    let to = SocketAddr::new(net.v4(Host::Server), listener.local_addr().unwrap().port());
    let near = net.inside(STATION, || TcpStream::connect(to).unwrap());
    // Independent of the host's default.
    socket2::SockRef::from(&near).set_tcp_congestion(b"cubic").unwrap();
    let (mut far, received) = (listener.accept().unwrap().0, AtomicU64::new(0));
    // Closes the socket also if an assertion fails: the scope waits for its threads.
    struct Close<'a>(&'a TcpStream);
    impl Drop for Close<'_> {
        fn drop(&mut self) {
            let _ = self.0.shutdown(Shutdown::Both);
        }
    }
    std::thread::scope(|scope| {
        let _close = Close(&near);
        let (mut sending, received) = (&near, &received);
        scope.spawn(move || while sending.write_all(&[7; 16384]).is_ok() {});
        scope.spawn(move || {
            let mut buffer = vec![0; 65536];
            while let Ok(length @ 1..) = far.read(&mut buffer) {
                received.fetch_add(length as u64, Ordering::Relaxed);
            }
        });
        during(received);
    });
}

fn bounded(status: &ApStatus) -> u32 {
    status.stations.iter().map(|station| station.bounded).sum()
}

fn no_sum_is_wrong(net: &AccessPoint) {
    let wrong: u64 = net.hosts().map(|host| net.counter(host, "InCsumErrors")).sum();
    assert_eq!(wrong, 0);
}

#[test]
fn an_upload_stays_bounded_when_its_station_roams_to_another_radio_of_the_gate() {
    let test = "an_upload_stays_bounded_when_its_station_roams_to_another_radio_of_the_gate";
    let Some(net) = network(test, 1) else { return };
    second_way(&net);
    let folder = tempfile::tempdir().unwrap();
    let Some(daemon) = Daemon::or_skip(&net, folder.path(), MAX_MBPS, &["-i", "s0", "-i", "t0"]) else {
        return;
    };
    let reported = || status(folder.path()).unwrap();
    upload(&net, |received| {
        assert!(eventually(|| bounded(&reported()) == 1), "{:?}", reported());
        roam(&net);
        let (lowered, there) = (reported().segments.lowered, received.load(Ordering::Relaxed));
        let upload_continues = || {
            let now = reported();
            now.segments.lowered > lowered + 200
                && bounded(&now) == 1
                && received.load(Ordering::Relaxed) > there + 1_000_000
        };
        assert!(eventually(upload_continues), "{lowered} windows, {there} bytes; then {:?}", reported());
        let stations = reported().stations;
        assert_eq!(stations.iter().map(|s| s.uploads).collect::<Vec<_>>(), [1], "one station: {stations:?}");
    });
    assert_eq!(daemon.end(), Some(0));
    no_sum_is_wrong(&net);
}

#[test]
fn an_upload_is_unbounded_after_its_station_roams_beyond_the_gate() {
    let test = "an_upload_is_unbounded_after_its_station_roams_beyond_the_gate";
    let Some(net) = network(test, 1) else { return };
    second_way(&net);
    let folder = tempfile::tempdir().unwrap();
    let Some(daemon) = Daemon::or_skip(&net, folder.path(), MAX_MBPS, &["-i", "s0"]) else { return };
    let reported = || status(folder.path()).unwrap();
    upload(&net, |received| {
        assert!(eventually(|| bounded(&reported()) == 1), "{:?}", reported());
        roam(&net);
        assert!(eventually(|| bounded(&reported()) == 0), "{:?}", reported());
        let there = received.load(Ordering::Relaxed);
        assert!(eventually(|| received.load(Ordering::Relaxed) > there + 10_000_000), "it does not go on");
        assert_eq!(bounded(&reported()), 0);
    });
    assert_eq!(daemon.end(), Some(0));
    no_sum_is_wrong(&net);
}

/// The station's own kernel replaces the windows that it receives, as a TCP that ignores them
/// would.
fn ignore_windows(net: &AccessPoint) {
    let rules = "add table ip t; \
                 add chain ip t in { type filter hook input priority -150; }; \
                 add rule ip t in tcp flags & (syn | rst) == 0 tcp window set 65535";
    let done = net.command(STATION, "nft").arg(rules).output().unwrap();
    assert!(done.status.success(), "nft: {}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn a_station_that_ignores_its_window_is_reported_and_left_alone() {
    let Some(net) = network("a_station_that_ignores_its_window_is_reported_and_left_alone", 1) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let Some(daemon) = Daemon::or_skip(&net, folder.path(), MAX_MBPS, &["-i", "s0"]) else { return };
    let reported = || status(folder.path()).unwrap();
    let ignores = || reported().stations.iter().any(|station| station.ignores_window);
    upload(&net, |received| {
        assert!(eventually(|| bounded(&reported()) == 1), "{:?}", reported());
        // A station that obeys is never suspected: here for longer than it takes below.
        let (lowered, since_s) = (reported().segments.lowered, reported().at_s);
        assert!(eventually(|| reported().at_s > since_s + 12.0));
        assert!(!ignores() && bounded(&reported()) == 1, "{:?}", reported());
        assert!(reported().segments.lowered > lowered);
        ignore_windows(&net);
        assert!(eventually(ignores), "{:?}", reported());
        assert!(eventually(|| bounded(&reported()) == 0), "{:?}", reported());
        let there = received.load(Ordering::Relaxed);
        assert!(eventually(|| received.load(Ordering::Relaxed) > there + 10_000_000), "it does not go on");
        let words =
            Command::new(YUZURI).args(["ap", "status", "--runtime"]).arg(folder.path()).output().unwrap();
        let words = String::from_utf8(words.stdout).unwrap();
        assert!(words.contains("(sends beyond its window: not bounded)"), "{words}");
    });
    assert_eq!(daemon.end(), Some(0));
    no_sum_is_wrong(&net);
}
