//! An access point that acts for terminals without yuzuri, on the real kernel in real time. The
//! assertions do not depend on the speed of the host.
#![allow(clippy::unwrap_used, missing_docs)]

mod real_time;

use real_time::{can, run_text};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use yuzuri_lab::demo;
use yuzuri_lab::run::GATE_FILE;
use yuzuri_scenario::Document;

const THREE: &str = r#"
    title = "three"
    duration_s = 12
    warm_up_s = 1
    ap = "host"
    [path]
    rtt_ms = 20
    rate_mbps = 20
    queue_packets = 400
    [[terminal]]
    name = "phone"
    count = 3
    phy = { standard = "n", width_mhz = 20, streams = 1, mcs = 7 }
    control = "cubic"
"#;

#[test]
fn uploads_of_terminals_that_run_nothing_are_bounded() {
    if !can("uploads_of_terminals_that_run_nothing_are_bounded") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let record = run_text(&format!("gate = {{}}\n{THREE}"), folder.path()).unwrap_or_else(|e| panic!("{e}"));
    let gate = record.gate.as_ref().unwrap();
    println!("{gate:?}\n{:?}", record.totals);
    assert_eq!((gate.senders, gate.failed, gate.unknown_handshake), (3, 0, 0), "{gate:?}");
    assert!(gate.lowered > 0 && gate.bound_mean_bytes.is_some() && gate.capacity_mbps > 0.0, "{gate:?}");
    assert!(record.terminals.iter().all(|t| t.throughput_mbps > 0.0 && t.share.is_none()));
    // A terminal runs the kernel's own congestion control, and no program of ours.
    assert!(record.terminals.iter().all(|t| t.control == "cubic"));
    let text = std::fs::read_to_string(folder.path().join(GATE_FILE)).unwrap();
    let columns = text.lines().next().unwrap().split(',').count();
    for line in text.lines() {
        assert_eq!(line.split(',').count(), columns, "{line}");
    }
    for name in ["phone-1", "phone-2", "phone-3"] {
        assert!(text.lines().any(|line| line.contains(name) && line.ends_with(",share")), "{name}");
    }
}

/// Two of three terminals run `yuzuri share`: the access point leads them, and each has its weight.
#[test]
fn terminals_that_share_are_led_by_the_access_point() {
    if !can("terminals_that_share_are_led_by_the_access_point") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let text = THREE.replace("count = 3", "count = 1");
    let members = r#"
        [[terminal]]
        name = "member"
        count = 2
        phy = { standard = "n", width_mhz = 20, streams = 1, mcs = 7 }
        share = true
    "#;
    let record =
        run_text(&format!("gate = {{ weight = {{ member = 0.5 }} }}\n{text}{members}"), folder.path())
            .unwrap_or_else(|e| panic!("{e}"));
    let gate = record.gate.as_ref().unwrap();
    println!("{gate:?}\n{:#?}", record.terminals.iter().map(|t| t.throughput_mbps).collect::<Vec<_>>());
    assert_eq!((gate.members, gate.senders), (2, 3), "{gate:?}");
    let shares: Vec<_> = record.terminals.iter().filter_map(|t| t.share.as_ref()).collect();
    assert!(shares.len() == 2 && shares.iter().all(|share| !share.leads), "{shares:#?}");
    assert!(shares.iter().all(|share| share.rules.contains_key("share")), "{shares:#?}");
    assert_eq!(record.notes, Vec::<String>::new());
}

#[test]
fn the_demonstration_shares_at_the_access_point() {
    let share = "[share]\nobjective = \"latency\"\n";
    let text = THREE.replace("ap = \"host\"", "").replace("control = \"cubic\"", "") + share;
    let document = Document::parse(Path::new("test.toml"), text).unwrap_or_else(|p| panic!("{p}"));
    let scenario = demo::at_access_point(demo::scenario(document.base(), 3.0, false));
    assert_eq!(scenario.problems(), []);
    assert!(scenario.share.is_none());
    let gate = scenario.gate.as_ref().unwrap();
    assert_eq!((gate.objective.name(), gate.starts_s, scenario.duration_s), ("latency", 3.0, 6.0));
    if !can("the_demonstration_shares_at_the_access_point") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let stop = AtomicBool::new(false);
    let shown = demo::run(&scenario, folder.path(), &stop, &mut |_| {}, &mut |_| {}, None);
    let text = shown.unwrap_or_else(|e| panic!("{e}")).to_string();
    assert!(text.contains("plain, 2 to 3 s") && text.contains("sharing, 4 to 6 s"), "{text}");
}

#[test]
fn a_gate_that_begins_later_only_measures_before() {
    if !can("a_gate_that_begins_later_only_measures_before") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let record = run_text(&format!("gate = {{ starts_s = 11.9 }}\n{THREE}"), folder.path())
        .unwrap_or_else(|e| panic!("{e}"));
    let gate = record.gate.as_ref().unwrap();
    assert_eq!((gate.senders, gate.lowered), (3, 0), "{gate:?}");
    assert!(gate.capacity_mbps > 0.0);
    // Without a gate, the access point's kernel only forwards.
    let folder = tempfile::tempdir().unwrap();
    let plain = run_text(&THREE.replace("duration_s = 12", "duration_s = 3"), folder.path())
        .unwrap_or_else(|e| panic!("{e}"));
    assert!(plain.gate.is_none() && !folder.path().join(GATE_FILE).exists());
    assert!(plain.terminals.iter().all(|t| t.throughput_mbps > 0.0), "{:?}", plain.totals);
}

/// Four terminals on two radios, one of which moves during the run: each channel is shared on its
/// own, and the connections continue.
#[test]
fn a_station_moves_to_the_other_radio_with_its_connection() {
    let text = r#"
        title = "two radios"
        duration_s = 16
        warm_up_s = 11
        ap = "host"
        gate = {}
        [second_cell]
        [path]
        rtt_ms = 20
        rate_mbps = 1000
        [[terminal]]
        name = "stays"
        count = 2
        phy = { standard = "g", rate_mbps = 12 }
        control = "cubic"
        [[terminal]]
        name = "moves"
        phy = { standard = "g", rate_mbps = 12 }
        phy_there = { standard = "g", rate_mbps = 24 }
        moves_s = 7
        control = "cubic"
    "#;
    if !can("a_station_moves_to_the_other_radio_with_its_connection") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let record = run_text(text, folder.path()).unwrap_or_else(|e| panic!("{e}"));
    let mbps: Vec<f64> = record.terminals.iter().map(|t| t.throughput_mbps).collect();
    println!("{mbps:.2?} {:?} {:?} {:?}", record.busy, record.busy_second, record.gate);
    assert!(record.busy > 0.5 && record.busy_second.unwrap() > 0.5, "both channels are used");
    // The station is alone on its channel and twice as fast, so its rate is several times that of
    // each of the others.
    assert!(mbps[2] > 2.0 * mbps[0] && mbps[2] > 2.0 * mbps[1], "{mbps:?}");
    // One connection each, from beginning to end.
    assert!(record.terminals.iter().all(|t| t.flows == 1), "{:#?}", record.terminals);
    assert_eq!(record.gate.as_ref().unwrap().senders, 3);
}
