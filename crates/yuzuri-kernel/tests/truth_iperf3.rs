//! Throughput against iperf3's own report.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::{Running, Watched, events, has};
use std::net::SocketAddr;
use std::process::Stdio;
use yuzuri_testnet::{Net, Side, eventually};
use yuzuri_trace::{Density, Event, Kind, Role};

/// The number after a name in JSON, from an offset on.
fn number(json: &str, from: usize, name: &str) -> f64 {
    let at = from + json[from..].find(&format!("\"{name}\"")).unwrap_or_else(|| panic!("{name} in {json}"));
    let value = json[at..].split_once(':').unwrap().1;
    value.split([',', '\n', '}']).next().unwrap().trim().parse().unwrap()
}

#[test]
fn bytes_and_rate_agree_with_iperf3() {
    const TEST: &str = "bytes_and_rate_agree_with_iperf3";
    if !has(TEST, "iperf3") {
        return;
    }
    let Some(net) = Net::or_skip(TEST) else { return };
    net.shape(Side::A, 100, 60_000).unwrap();
    let mut watched = Watched::of(&net, Side::A, Density::default());
    let _server =
        Running::spawn(net.command(Side::B, "iperf3").args(["-s", "-1", "-p", "5201"]).stdout(Stdio::null()));
    let listens = || {
        let table = net.inside(Side::B, || std::fs::read_to_string("/proc/thread-self/net/tcp6").unwrap());
        table.contains(":1451 ")
    };
    assert!(eventually(listens), "iperf3 does not listen");
    let to = net.v4(Side::B).to_string();
    let client = net
        .command(Side::A, "iperf3")
        .args(["-c", &to, "-p", "5201", "-t", "3", "-C", "cubic", "-J"])
        .output()
        .unwrap();
    let report = String::from_utf8(client.stdout).unwrap();
    assert!(client.status.success(), "{report}");
    // Its last data may still be in flight after it has ended.
    watched.until("the close of both connections", |items| {
        events(items).iter().filter(|e| e.kind == Kind::Close).count() == 2
    });
    let seen = watched.finish_whole();
    // The flow of the data: iperf3's other connection is for control.
    let flow = (seen.flows().into_iter())
        .filter(|f| f.role == Role::Opened && f.remote == SocketAddr::new(net.v4(Side::B), 5201))
        .max_by_key(|f| {
            let own = events(&seen.items).into_iter().filter(|e| e.flow == f.id);
            own.map(|e| e.snapshot.bytes_acked).max()
        })
        .unwrap();
    assert_eq!(flow.owner.as_ref().map(|o| o.name.as_str()), Some("iperf3"));
    assert_eq!(flow.congestion_control, "cubic");
    let own: Vec<&Event> = seen.events().into_iter().filter(|e| e.flow == flow.id).collect();
    let bytes = own.iter().map(|e| e.snapshot.bytes_acked).max().unwrap() as f64;
    let sent = report.find("\"sum_sent\"").unwrap();
    let received = report.find("\"sum_received\"").unwrap();
    let theirs = number(&report, sent, "bytes");
    assert!((bytes / theirs - 1.0).abs() < 0.01, "bytes: ours {bytes}, iperf3's {theirs}");
    let retransmits = number(&report, sent, "retransmits");
    let ours = own.iter().map(|e| e.snapshot.total_retrans).max().unwrap();
    // iperf3 reads the counter when its time is over; data in flight then may still be
    // retransmitted.
    let in_flight = own.iter().map(|e| e.snapshot.in_flight()).max().unwrap();
    let later = f64::from(ours) - retransmits;
    assert!((0.0..=f64::from(in_flight)).contains(&later), "{ours} {retransmits} {in_flight}");

    // The rate over the span that iperf3 itself reports, from the first acknowledged byte.
    let span_s = number(&report, sent, "seconds");
    let first = own.iter().find(|e| e.snapshot.bytes_acked > 1).unwrap();
    let until_ns = first.mono_ns + (span_s * 1e9) as u64;
    let last = own.iter().rev().find(|e| e.mono_ns <= until_ns).unwrap();
    let in_span = (last.snapshot.bytes_acked - first.snapshot.bytes_acked) as f64;
    let rate_bps = in_span * 8.0 / ((last.mono_ns - first.mono_ns) as f64 / 1e9);
    let theirs_bps = number(&report, received, "bytes") * 8.0 / number(&report, received, "seconds");
    assert!((rate_bps / theirs_bps - 1.0).abs() < 0.01, "rate: ours {rate_bps}, iperf3's {theirs_bps}");
    println!("{TEST}: ours {rate_bps:.0} bit/s, iperf3's {theirs_bps:.0} bit/s");
}
