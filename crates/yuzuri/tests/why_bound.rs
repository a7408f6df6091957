//! `yuzuri why` recognises the bound of a sharing group, even if the bound changes every 500 ms.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "../../yuzuri-share/tests/cell/mod.rs"]
mod cell;

use cell::{Cell, Instance, RATE_MBIT, ip, keyed};
use serde_json::Value;
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use yuzuri_trace::recording::{Reader, Writer};
use yuzuri_trace::{Flow, Item, Marks};

const YUZURI: &str = env!("CARGO_BIN_EXE_yuzuri");

/// The share of the flow's time for which its bound is named as its limit.
fn sharing(file: &Path, local: SocketAddr) -> f64 {
    let why = Command::new(YUZURI).arg("why").arg(file).arg("--json").stdin(Stdio::null()).output().unwrap();
    assert!(why.status.success(), "{}", String::from_utf8_lossy(&why.stderr));
    let lines = String::from_utf8(why.stdout).unwrap();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = lines.iter().find(|line| line["flow"]["local"] == local.to_string());
    println!("{}: {}", file.display(), of.unwrap()["shares"]);
    of.unwrap()["shares"]["sharing"].as_f64().unwrap_or(0.0)
}

/// The same records as written before the control reported its bound, when a bound was recognised
/// by the control's name and by a window that does not grow.
fn as_before(file: &Path, older: &Path) {
    let mut reader = Reader::open(file).unwrap();
    let mut writer = Writer::create(older, reader.session(), false).unwrap();
    while let Some(mut items) = reader.next_batch().unwrap() {
        for item in &mut items {
            match item {
                Item::Event(event) => event.marks.0 &= !(Marks::REPORTS_BOUND.0 | Marks::AT_BOUND.0),
                Item::Flow(flow) => {
                    *flow = Arc::new(Flow { congestion_control: "yuzuri".into(), ..Flow::clone(flow) });
                }
                _ => {}
            }
        }
        writer.write(&items, Instant::now()).unwrap();
    }
    writer.finish();
}

/// Two daemons share a link, and each daemon's bound moves. The explanation of one flow is compared
/// with the daemon's own bound and the window that the kernel reports.
#[test]
fn a_bound_that_changes_is_reported() {
    const TEST: &str = "a_bound_that_changes_is_reported";
    let Some(cell) = Cell::or_skip(TEST, 3) else { return };
    // The queue is in the network, so no sender's own device queues segments: only the window
    // limits a sender.
    for host in [1, 2] {
        ip(&format!("netns exec {} tc qdisc del dev eth0 root", cell.name(host)));
    }
    cell.shape(0, "h3eth0", RATE_MBIT);
    let Some(first) = Instance::or_skip(TEST, &cell, 1, keyed(9)) else { return };
    let _second = Instance::start(&cell, 2, keyed(9)).unwrap();
    let to = Ipv4Addr::new(10, 88, 0, 3).into();
    let (traffic, _other) = (cell.traffic_between(1, 3, to), cell.traffic_between(2, 3, to));
    let local = traffic.local();
    let upper = || {
        let status = first.status();
        let mut flows = status.interfaces.iter().flat_map(|interface| &interface.flows);
        flows.find(|flow| flow.local == local).map_or(0, |flow| flow.bound.upper)
    };
    first.until("a bound for the flow", |_| upper() > 0);

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.arrows");
    let filter = format!("lport:{}", local.port());
    let recording = Command::new(YUZURI)
        .args(["watch", "--quiet", "--density", "ack", "--for", "12s", "--record"])
        .arg(&file)
        .arg(&filter)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The bounds that the daemon set, and how often the kernel's window was at one of them.
    let (mut uppers, mut at, mut samples) = (BTreeSet::new(), 0u32, 0u32);
    let until = Instant::now() + Duration::from_secs(12);
    while Instant::now() < until {
        let (bound, cwnd) = (upper(), traffic.cwnd());
        uppers.insert(bound);
        samples += 1;
        at += u32::from(bound > 0 && cwnd >= bound);
        std::thread::sleep(Duration::from_millis(20));
    }
    let recorded = recording.wait_with_output().unwrap();
    assert!(recorded.status.success(), "{}", String::from_utf8_lossy(&recorded.stderr));

    let seen = f64::from(at) / f64::from(samples);
    println!("bounds {uppers:?}, window at one of them in {seen:.3} of {samples} samples");
    assert!(uppers.len() >= 3 && seen > 0.5, "the bound did not move, or hardly held: {uppers:?}");
    // For the rest of the time the daemon set no bound, or the window was below it.
    let reported = sharing(&file, local);
    assert!((reported - seen).abs() < 0.1, "{reported} of the time, and at its bound for {seen}");
    let older = folder.path().join("older.arrows");
    as_before(&file, &older);
    assert!(sharing(&older, local) < reported + 0.01);
}
