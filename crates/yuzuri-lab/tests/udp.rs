//! Workloads over UDP on the real kernel in real time: uploads over QUIC, calls, and the effect of
//! the access point's gate on them. The assertions do not depend on the speed of the host.
#![allow(clippy::unwrap_used, missing_docs)]

mod real_time;

use real_time::{can, run_text};
use yuzuri_lab::run::RunRecord;

/// Runs a scenario, and discards its files.
fn recorded(text: &str) -> RunRecord {
    let folder = tempfile::tempdir().unwrap();
    run_text(text, folder.path()).unwrap_or_else(|e| panic!("{e}"))
}

const MIXED: &str = r#"
    title = "a call beside QUIC and TCP"
    duration_s = 12
    warm_up_s = 4
    ap = "host"
    [path]
    rtt_ms = 20
    rate_mbps = 20
    queue_packets = 400
    [[terminal]]
    name = "quic"
    count = 2
    phy = { standard = "n", width_mhz = 20, streams = 1, mcs = 7 }
    workload = { kind = "quic" }
    [[terminal]]
    name = "tcp"
    count = 2
    phy = { standard = "n", width_mhz = 20, streams = 1, mcs = 7 }
    control = "cubic"
    [[terminal]]
    name = "call"
    phy = { standard = "n", width_mhz = 20, streams = 1, mcs = 7 }
    workload = { kind = "call" }
"#;

#[test]
fn quic_fills_the_wire_and_a_call_is_timed() {
    if !can("quic_fills_the_wire_and_a_call_is_timed") {
        return;
    }
    let record = recorded(MIXED);
    println!("{:#?}", record.terminals);
    let of = |kind: &str| record.terminals.iter().filter(|t| t.kind == kind).collect::<Vec<_>>();
    for quic in of("quic") {
        assert_eq!((quic.flows, quic.control.as_str()), (1, "quic-cubic"), "{quic:?}");
        assert!(quic.throughput_mbps > 0.5 && quic.rtt_min_ms > Some(19.9), "{quic:?}");
        assert!(quic.rtt_mean_ms > quic.rtt_min_ms && quic.cwnd_mean > Some(2.0), "{quic:?}");
    }
    let sum: f64 = record.terminals.iter().map(|t| t.throughput_mbps).sum();
    assert!((sum - record.totals.throughput_mbps).abs() < 1e-6 && sum > 10.0 && sum < 20.0, "{sum}");
    let call = of("call")[0];
    assert_eq!((call.flows, call.throughput_mbps), (0, 0.0));
    let frames = call.call.unwrap();
    for way in [frames.up, frames.down] {
        // Seven seconds of 50 frames; on a machine that is busy some are late.
        assert!((300..=351).contains(&way.sent) && way.lost < way.sent / 2, "{way:?}");
        assert!(way.median_ms.unwrap() >= 10.0, "half of the path's round-trip time: {way:?}");
    }
    assert!(of("tcp").iter().all(|t| t.call.is_none() && t.flows == 1));
    assert!(record.calls().count() == 1 && record.notes.is_empty(), "{:?}", record.notes);
}

#[test]
fn a_gate_keeps_quic_to_its_share_and_spares_the_call() {
    if !can("a_gate_keeps_quic_to_its_share_and_spares_the_call") {
        return;
    }
    let record = recorded(&format!("gate = {{ weight = {{ tcp = 2.0 }} }}\n{MIXED}"));
    println!("{:#?} {:#?}", record.gate, record.terminals);
    let gate = record.gate.as_ref().unwrap();
    assert!(gate.dropped > 0 && gate.lowered > 0, "{gate:?}");
    let call = record.calls().next().unwrap();
    // The wire's queue also drops frames of the call when QUIC's slow start fills it. The gate
    // drops none.
    assert!(call.up.lost + call.down.lost <= record.totals.drops, "{call:?}, {:?}", record.totals);
    let unpoliced = recorded(&format!("gate = {{ no_police = true }}\n{MIXED}"));
    assert_eq!(unpoliced.gate.as_ref().unwrap().dropped, 0);
}
