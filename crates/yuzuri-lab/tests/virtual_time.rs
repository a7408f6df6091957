//! The whole laboratory in virtual time: radio, wire, driver, the kernel's TCP and the monitor are
//! reproducible packet by packet.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;
use yuzuri_trace::Item;
use yuzuri_trace::recording::Reader;
use yuzuri_vm::{Equipment, Image, Kernel};

/// Collisions, losses and full queues: everything that is random.
const SCENARIO: &str = r#"
    title = "repeats itself"
    duration_s = 3
    warm_up_s = 1
    [path]
    rtt_ms = 20
    rate_mbps = 20
    queue_packets = 30
    loss = 0.002
    [[terminal]]
    name = "phone"
    count = 3
    phy = { standard = "g", rate_mbps = 54 }
    control = "cubic"
"#;

/// Time, flow, cwnd, ssthresh, packets in flight and bytes acknowledged, at each event of a run.
type Windows = Vec<(u64, u64, u32, u32, u32, u64)>;

fn windows(folder: &Path, seed: u64) -> Windows {
    let (file, out) = (folder.join("repeats.toml"), folder.join(format!("results-{seed}")));
    let _ = std::fs::remove_dir_all(&out);
    std::fs::write(&file, SCENARIO).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_yuzuri-lab"))
        .args(["run", "--virtual-time", "--no-report", "--set", &format!("seed={seed}"), "--out"])
        .args([&out, &file])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let recording = out.join(format!("base/seed-{seed}/recording.arrows"));
    let mut reader = Reader::open(&recording).unwrap();
    let mut windows = Vec::new();
    while let Some(items) = reader.next_batch().unwrap() {
        windows.extend(items.iter().filter_map(|item| match item {
            Item::Event(event) => {
                let now = &event.snapshot;
                let flow = event.flow.0;
                Some((event.mono_ns, flow, now.cwnd, now.ssthresh, now.packets_out, now.bytes_acked))
            }
            _ => None,
        }));
    }
    windows
}

#[test]
#[ignore = "boots three guests: make test-kernels"]
fn a_seed_repeats_the_windows_and_another_does_not() {
    if let Some(why) = Image::missing(Kernel::Linux6_12Amd64, Equipment::Plain) {
        println!("a_seed_repeats_the_windows: skipped: {why}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let first = windows(folder.path(), 1);
    assert!(first.len() > 1000, "{} events", first.len());
    assert!(first.iter().any(|(_, _, _, ssthresh, ..)| *ssthresh < 1000), "no loss was seen");
    let again = windows(folder.path(), 1);
    let differ = first.iter().zip(&again).position(|(a, b)| a != b);
    assert_eq!(differ, None, "of {} events", first.len());
    assert_eq!(first.len(), again.len());
    assert_ne!(windows(folder.path(), 2), first, "another seed loses other packets");
}
