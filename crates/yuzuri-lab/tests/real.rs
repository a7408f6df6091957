//! Complete runs on the real kernel: network, driver, monitor and workloads together. The
//! assertions do not depend on the speed of the host; the record shows whether the driver kept up.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use yuzuri_capture::{Capture, Ending, Options};
use yuzuri_lab::LabError;
use yuzuri_lab::run::{Clock, RunRecord, Task, run};
use yuzuri_scenario::Document;
use yuzuri_trace::Item;
use yuzuri_trace::recording::Reader;

fn task() -> Task {
    Task { point: "base".into(), labels: Vec::new(), alone: None, seed: 1, clock: Clock::Real }
}

/// Runs a scenario; returns `None` and prints the reason if this machine cannot.
fn run_text(test: &str, text: &str) -> Option<(tempfile::TempDir, RunRecord)> {
    if !nix::unistd::geteuid().is_root() {
        println!("{test}: skipped: network namespaces need root");
        return None;
    }
    let document = Document::parse(Path::new("test.toml"), text.into()).unwrap_or_else(|p| panic!("{p}"));
    let folder = tempfile::tempdir().unwrap();
    let record = run(document.base(), &task(), folder.path(), &AtomicBool::new(false), &mut |_| {});
    let record = record.unwrap_or_else(|e| panic!("{test}: {e}"));
    assert_eq!(record.watched.seen, record.watched.kept + record.watched.lost);
    Some((folder, record))
}

/// The throughput of two saturated 802.11g stations at 54 Mbit/s without any collision: an upper
/// limit from the standard's timing.
const G_LIMIT_MBPS: f64 = 30.0;

#[test]
fn two_terminals_share_the_cell() {
    let text = r#"
        title = "two"
        duration_s = 3
        warm_up_s = 1
        [workload]
        kind = "buffers"
        bytes = 200000
        [path]
        rtt_ms = 20
        [[terminal]]
        name = "phone"
        count = 2
        control = "cubic"
        window = 40
        phy = { standard = "g", rate_mbps = 54 }
    "#;
    let Some((folder, record)) = run_text("two_terminals_share_the_cell", text) else { return };
    let names: Vec<&str> = record.terminals.iter().map(|t| t.name.as_str()).collect();
    assert_eq!(names, ["phone-1", "phone-2"]);
    for terminal in &record.terminals {
        assert!(terminal.throughput_mbps > 0.0 && terminal.buffers > 0, "{terminal:?}");
        assert!(terminal.rtt_min_ms.unwrap() >= 20.0, "{terminal:?}");
        assert!(terminal.cwnd_mean.unwrap() <= 40.0, "the locked window bounds: {terminal:?}");
        assert_eq!((terminal.flows, terminal.control.as_str()), (1, "cubic"));
        assert!(terminal.radio.airtime > 0.0 && terminal.radio.airtime < 1.0);
    }
    assert!(record.totals.throughput_mbps < G_LIMIT_MBPS, "{:?}", record.totals);
    assert!(record.busy > 0.0 && record.busy <= 1.0);
    for file in ["run.json", "scenario.toml", "recording.arrows", "flows.csv", "buffers.csv", "queues.csv"] {
        assert!(folder.path().join(file).metadata().unwrap().len() > 0, "{file}");
    }
    // A valid run kept up; a run that did not is marked invalid.
    assert_eq!(record.valid, record.lateness.share() <= 0.01 && record.lateness.refused == 0);
    assert_eq!(record.valid, record.invalid_because.is_empty());
}

/// A bulk sender, a program that sends requests and waits for responses, and a receiver.
#[test]
fn the_report_shows_what_limited_each_terminal() {
    const TEST: &str = "the_report_shows_what_limited_each_terminal";
    if !nix::unistd::geteuid().is_root() {
        return println!("{TEST}: skipped: network namespaces need root");
    }
    let text = r#"
        title = "limits"
        duration_s = 3
        [path]
        rtt_ms = 20
        [[terminal]]
        name = "full"
        control = "cubic"
        phy = { standard = "n", width_mhz = 20, streams = 1, mcs = 7 }
        [[terminal]]
        name = "asks"
        control = "cubic"
        phy = { standard = "n", width_mhz = 20, streams = 1, mcs = 7 }
        workload = { kind = "request-response", response_bytes = 5000 }
        [[terminal]]
        name = "down"
        control = "cubic"
        phy = { standard = "n", width_mhz = 20, streams = 1, mcs = 7 }
        workload = { kind = "bulk", direction = "down" }
    "#;
    let document = Document::parse(Path::new("test.toml"), text.into()).unwrap_or_else(|p| panic!("{p}"));
    let out = tempfile::tempdir().unwrap();
    let folder = out.path().join("base/seed-1");
    std::fs::create_dir_all(&folder).unwrap();
    let mut record = run(document.base(), &task(), &folder, &AtomicBool::new(false), &mut |_| {}).unwrap();
    // These checks are valid even if this machine was late during the run.
    record.valid = true;
    let file = folder.join("run.json");
    std::fs::write(&file, serde_json::to_string(&record).unwrap()).unwrap();
    let page = std::fs::read_to_string(yuzuri_lab::report::write(out.path()).unwrap()).unwrap();
    let legend = page.split("What limited the senders").nth(1).unwrap().split("</p>").next().unwrap();
    let of =
        |name: &str| legend.split("<br>").find_map(|line| line.strip_prefix(&format!("{name}: "))).unwrap();
    println!("{legend}");
    let percent = |name: &str, limit: &str| -> f64 {
        let after = of(name).split(&format!(">{limit} ")).nth(1);
        // Less than one per cent is "<1".
        after.map_or(0.0, |after| {
            after.split(" %").next().unwrap().trim_start_matches("&lt;").parse().unwrap()
        })
    };
    assert!(percent("full", "application") < 20.0 && percent("asks", "application") > 20.0, "{legend}");
    // Data that the server sends to a terminal counts as the terminal's.
    assert!(of("down").contains("class=\"key "), "{legend}");
    // The lane itself, in the colours of the legend.
    let colour = page.split(".key.application{--key:").nth(1).unwrap().split('}').next().unwrap();
    assert!(page.contains(&format!("fill=\"{colour}\"")), "{colour}");
}

#[test]
fn an_own_cubic_and_a_smaller_mtu_take_effect() {
    let text = r#"
        title = "algorithms"
        duration_s = 3
        warm_up_s = 1
        sample_ms = 0
        capture_bytes = 96
        [path]
        rtt_ms = 20
        mtu_bytes = 1000
        [[terminal]]
        name = "held"
        cubic = { cap = 12 }
        phy = { standard = "n", width_mhz = 20, streams = 1, mcs = 7 }
        [[terminal]]
        name = "free"
        cubic = { c = 0.25, beta = 0.8 }
        phy = { standard = "n", width_mhz = 20, streams = 1, mcs = 7 }
    "#;
    let Some((folder, record)) = run_text("an_own_cubic_and_a_smaller_mtu_take_effect", text) else { return };
    let [held, free] = &record.terminals[..] else { panic!("{:?}", record.terminals) };
    assert!(held.cwnd_mean.unwrap() <= 12.0 && free.cwnd_mean.unwrap() > 12.0, "{held:?} {free:?}");
    assert!(held.control.starts_with("lab") && free.control.starts_with("lab"));
    assert_ne!(held.control, free.control);
    // They are unregistered after the run.
    let left = yuzuri_kernel::control::available();
    assert!(!left.contains(&held.control) && !left.contains(&free.control), "{left:?}");
    // 1000 bytes minus 20 of IP, 20 of TCP and 12 of the TCP timestamps option.
    let mut reader = Reader::open(&folder.path().join("recording.arrows")).unwrap();
    let mut events = 0;
    while let Some(items) = reader.next_batch().unwrap() {
        for event in
            items.iter().filter_map(|item| if let Item::Event(event) = item { Some(event) } else { None })
        {
            assert_eq!(event.snapshot.mss, 948);
            events += 1;
        }
    }
    assert!(events > 100, "{events}");
    // The captures of both ends contain the flows' segments; the bounded window never has more than
    // 12 in flight.
    for (name, flows) in [("held", 1), ("free", 1), ("server", 2)] {
        let path = folder.path().join(format!("{name}.pcap.zst"));
        let mut capture = Capture::open(&path, &Options::default()).unwrap();
        let mut data = std::collections::BTreeMap::<_, u64>::new();
        while let Some(item) = capture.next_item().unwrap() {
            if let yuzuri_capture::Item::Segment(segment) = item {
                assert!(segment.payload_bytes <= 948, "{segment:?}");
                *data.entry(segment.flow).or_default() += u64::from(segment.payload_bytes);
            }
        }
        assert_eq!(data.values().filter(|bytes| **bytes > 100_000).count(), flows, "{name}: {data:?}");
        assert_eq!(capture.facts().ending, Ending::Whole, "{name}");
    }
}

#[test]
fn all_workloads_transfer_data() {
    let text = r#"
        title = "all"
        duration_s = 3
        [[terminal]]
        name = "down"
        control = "cubic"
        phy = { standard = "n", width_mhz = 20, streams = 1, mcs = 7 }
        workload = { kind = "bulk", direction = "down" }
        [[terminal]]
        name = "asks"
        phy = { standard = "n", width_mhz = 20, streams = 1, mcs = 7 }
        workload = { kind = "request-response", response_bytes = 5000 }
        [[terminal]]
        name = "on-off"
        phy = { standard = "n", width_mhz = 20, streams = 1, mcs = 7 }
        workload = { kind = "on-off", on_s = 0.3, off_s = 0.2 }
        [[terminal]]
        name = "late"
        joins_s = 1
        leaves_s = 2
        phy = { standard = "g", rate_mbps = 54 }
        [[terminal]]
        name = "idle"
        phy = { standard = "g", rate_mbps = 6 }
        workload = { kind = "idle" }
        [[terminal]]
        name = "iperf3"
        control = "reno"
        phy = { standard = "n", width_mhz = 20, streams = 1, mcs = 7 }
        workload = { kind = "iperf3" }
    "#;
    let Some((_folder, record)) = run_text("all_workloads_transfer_data", text) else { return };
    let of = |name: &str| record.terminals.iter().find(|t| t.name == name).unwrap();
    assert!(of("down").throughput_mbps > 0.0 && of("down").radio.mpdus > 0, "{:?}", of("down"));
    assert!(of("asks").exchange_median_ms.is_some() && of("asks").throughput_mbps > 0.0, "{:?}", of("asks"));
    assert!(of("on-off").flows >= 2, "{:?}", of("on-off"));
    assert!(of("late").throughput_mbps > 0.0, "{:?}", of("late"));
    assert_eq!((of("idle").flows, of("idle").throughput_mbps), (0, 0.0));
    assert!(of("iperf3").throughput_mbps > 0.0 && of("iperf3").control == "reno", "{:?}", of("iperf3"));
}

#[test]
fn a_missing_kernel_feature_is_reported() {
    if !nix::unistd::geteuid().is_root() {
        return println!("a_missing_kernel_feature_is_reported: skipped: network namespaces need root");
    }
    let text = "title = \"t\"\nduration_s = 1\n[[terminal]]\nname = \"a\"\ncontrol = \"nosuch\"\nphy = { standard = \"g\", rate_mbps = 54 }\n";
    let document = Document::parse(Path::new("t.toml"), text.into()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let error =
        run(document.base(), &task(), folder.path(), &AtomicBool::new(false), &mut |_| {}).unwrap_err();
    let message = error.to_string();
    assert!(
        message.contains("does not have congestion control 'nosuch'") && message.contains("cubic"),
        "{message}"
    );
}

#[test]
fn a_run_that_is_stopped_leaves_no_result() {
    if !nix::unistd::geteuid().is_root() {
        return println!("a_run_that_is_stopped_leaves_no_result: skipped: network namespaces need root");
    }
    let text = "title = \"t\"\nduration_s = 600\n[[terminal]]\nname = \"a\"\nphy = { standard = \"g\", rate_mbps = 54 }\n";
    let document = Document::parse(Path::new("t.toml"), text.into()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let stop = AtomicBool::new(false);
    let mut progress = |seconds: f64| stop.store(seconds > 0.3, Ordering::Relaxed);
    let result = run(document.base(), &task(), folder.path(), &stop, &mut progress);
    assert!(matches!(result, Err(LabError::Stopped)), "{result:?}");
    assert!(!folder.path().join("run.json").exists());
}

#[test]
fn a_full_disk_is_reported() {
    if !nix::unistd::geteuid().is_root() {
        return println!("a_full_disk_is_reported: skipped: mounting a small disk needs root");
    }
    use nix::mount::{MsFlags, mount, umount};
    let folder = tempfile::tempdir().unwrap();
    let small = Some("size=64k");
    mount(Some("tmpfs"), folder.path(), Some("tmpfs"), MsFlags::empty(), small).unwrap();
    std::fs::write(folder.path().join("ballast"), vec![0; 60 << 10]).ok();
    let text = "title = \"t\"\nduration_s = 2\nsample_ms = 0\n[[terminal]]\nname = \"a\"\nphy = { standard = \"ac\", width_mhz = 80, streams = 1, mcs = 9 }\n";
    let document = Document::parse(Path::new("t.toml"), text.into()).unwrap();
    let result = run(document.base(), &task(), folder.path(), &AtomicBool::new(false), &mut |_| {});
    let there = folder.path().join("run.json").exists();
    umount(folder.path()).unwrap();
    let message = result.unwrap_err().to_string();
    assert!(message.contains("No space left") || message.contains("os error 28"), "{message}");
    assert!(!there);
}
