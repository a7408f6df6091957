//! `--simulated` as a process: the same kind of results as with the kernel's TCP, from simulated
//! TCP.
#![allow(clippy::unwrap_used)]

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use yuzuri_lab::run::{Clock, RunRecord};
use yuzuri_limits::{Limit, LimitTimes};
use yuzuri_scenario::Document;
use yuzuri_sim::{NoBounds, run, simulated};
use yuzuri_trace::recording::Reader;
use yuzuri_trace::{FlowId, Item};
use yuzuri_view::limited::FlowLimits;

/// A scenario of the repository.
fn scenario(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(name)
}

fn lab(args: &[&str], paths: &[&Path]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_yuzuri-lab")).args(args).args(paths).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn succeeds(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// `yuzuri-lab run --simulated` for 10 s of four 802.11g terminals.
fn run_g(out: &Path, seed: u64) -> RunRecord {
    let sets =
        ["terminal.g.count=4", "duration_s=10", "repetitions=1", "path.loss=0.001", &format!("seed={seed}")];
    let mut args = vec!["run", "--simulated", "--no-report"];
    sets.iter().for_each(|set| args.extend(["--set", set]));
    args.push("--out");
    succeeds(&lab(&args, &[out, &scenario("check/uploads-g.toml")]));
    RunRecord::open(&out.join(format!("base/seed-{seed}"))).unwrap()
}

/// The parts of a record that a seed reproduces: everything except the cost of the run.
fn repeated(record: &RunRecord) -> RunRecord {
    RunRecord { wall_s: 0.0, process_cpu_s: 0.0, driver_cpu_s: 0.0, ..record.clone() }
}

#[test]
fn the_record_has_the_simulators_own_figures() {
    let out = tempfile::tempdir().unwrap();
    let record = run_g(out.path(), 3);
    assert_eq!((record.task.clock, record.valid, record.terminals.len()), (Clock::Simulated, true, 4));
    assert!(record.host.kernel.contains("simulated"), "{}", record.host.kernel);
    assert!(record.watched.seen > 5_000 && record.watched.lost == 0, "{:?}", record.watched);

    let document = Document::open(&out.path().join("base/seed-3/scenario.toml")).unwrap();
    let own = run(&simulated(document.base(), 3).unwrap(), &mut NoBounds).unwrap();
    let near = |what: &str, recorded: f64, result: f64, tolerance: f64| {
        assert!(
            (recorded / result - 1.0).abs() < tolerance,
            "{what}: {recorded} in the record, {result} in the results"
        );
    };
    // Payload that arrived, compared with payload that was acknowledged.
    near("total", record.totals.throughput_mbps, own.total_mbps(), 0.01);
    assert!((record.totals.jain.unwrap() - own.jain()).abs() < 0.01);
    for (recorded, own) in record.terminals.iter().zip(&own.terminals) {
        near("each", recorded.throughput_mbps, own.goodput_mbps, 0.03);
        near("cwnd", recorded.cwnd_mean.unwrap(), own.cwnd_mean, 0.02);
        near("RTT", recorded.rtt_mean_ms.unwrap(), own.srtt_mean_ms, 0.02);
        assert_eq!(recorded.control, "cubic");
        assert_eq!(
            (recorded.recoveries, recorded.timeouts),
            (own.counts_warm.recoveries, own.counts_warm.timeouts)
        );
        assert!(recorded.retransmissions.abs_diff(own.counts_warm.retransmissions) <= 2);
    }
    assert!(record.terminals.iter().any(|terminal| terminal.recoveries > 0), "nothing was lost");
    // The channel is busy at least half of the time, more with stations than with the access point,
    // which only sends acknowledgements.
    assert!(record.busy > 0.5 && record.ap.airtime > 0.0, "{} {}", record.busy, record.ap.airtime);
    let stations: f64 = record.terminals.iter().map(|terminal| terminal.radio.airtime).sum();
    assert!(stations > record.ap.airtime && stations < 1.0, "{stations} {}", record.ap.airtime);
}

#[test]
fn a_seed_repeats_the_folder() {
    let outs: Vec<_> = (0..2).map(|_| tempfile::tempdir().unwrap()).collect();
    let records: Vec<RunRecord> = outs.iter().map(|out| run_g(out.path(), 1)).collect();
    assert_eq!(repeated(&records[0]), repeated(&records[1]));
    for file in ["recording.arrows", "flows.csv", "queues.csv", "scenario.toml"] {
        let of = |out: &Path| std::fs::read(out.join("base/seed-1").join(file)).unwrap();
        assert!(of(outs[0].path()) == of(outs[1].path()), "{file}");
    }
    let other = run_g(outs[0].path(), 2);
    assert_ne!(repeated(&other).terminals, repeated(&records[0]).terminals);
}

/// The parts of the time of all senders of a run, by what limited them.
fn limits_of(recording: &Path) -> LimitTimes {
    let mut flows: HashMap<FlowId, FlowLimits> = HashMap::new();
    for item in Reader::open(recording).unwrap().items() {
        match item.unwrap() {
            Item::Flow(flow) => {
                flows.entry(flow.id).or_default().controlled_by(&flow.congestion_control);
            }
            Item::Event(event) => flows.entry(event.flow).or_default().add(&event, |_| {}),
            _ => {}
        }
    }
    let mut times = LimitTimes::default();
    for flow in flows.values() {
        Limit::ALL.into_iter().for_each(|limit| times.add(limit, flow.times().time_us(limit)));
        assert_eq!(flow.largest_window_bytes(), 0, "the window of a simulated receiver never limits");
    }
    times
}

/// Uploads without end: plain CUBIC fills the path, and sharing keeps the windows at their bounds.
fn limits_are_those_of_the_scenario(out: &Path) {
    let [cubic, shared] =
        ["cubic", "yuzuri"].map(|point| limits_of(&out.join(point).join("seed-1/recording.arrows")));
    for times in [&cubic, &shared] {
        assert_eq!(times.share(Limit::Application), 0.0, "{times:?}");
        assert_eq!(times.share(Limit::Unknown), 0.0, "{times:?}");
    }
    assert!(cubic.share(Limit::Path) > 0.5 && cubic.share(Limit::Sharing) == 0.0, "{cubic:?}");
    assert!(shared.share(Limit::Sharing) > 0.5 && shared.share(Limit::SlowStart) < 0.2, "{shared:?}");
}

#[test]
fn simulated_runs_give_reports_and_tables_and_are_not_repeated() {
    let out = tempfile::tempdir().unwrap();
    let file = scenario("share/eight-n.toml");
    let sets = ["--set", "duration_s=8", "--set", "warm_up_s=2", "--set", "repetitions=1"];
    let args =
        [&["sweep", "--simulated", "--only", "yuzuri", "--only", "cubic"], &sets[..], &["--out"]].concat();
    let output = succeeds(&lab(&args, &[out.path(), &file]));
    assert!(output.contains("report.html"), "{output}");
    let page = std::fs::read_to_string(out.path().join("report.html")).unwrap();
    assert!(
        page.contains("simulated TCP (no kernel)")
            && page.contains("Window, throughput and congestion state")
    );
    assert!(page.contains("What limited the senders"));
    limits_are_those_of_the_scenario(out.path());
    let table = succeeds(&lab(&["table"], &[out.path()]));
    assert!(table.contains("yuzuri-latency") && table.contains("cubic"), "{table}");

    let record = RunRecord::open(&out.path().join("yuzuri/seed-1")).unwrap();
    let share = record.terminals[0].share.as_ref().unwrap();
    assert!(share.ticks > 10 && share.capacity_mbps > 5.0 && share.bound_mean.is_some(), "{share:?}");
    let ticks = std::fs::read_to_string(out.path().join("yuzuri/seed-1/share.csv")).unwrap();
    let columns: Vec<usize> = ticks.lines().map(|line| line.split(',').count()).collect();
    assert!(columns.len() > 8 * 10 && columns.iter().all(|count| *count == columns[0]), "{columns:?}");
    let cubic = RunRecord::open(&out.path().join("cubic/seed-1")).unwrap();
    assert!(cubic.terminals.iter().all(|terminal| terminal.share.is_none()));
    assert!(record.totals.rtt_mean_ms < cubic.totals.rtt_mean_ms, "sharing shortens no queue");

    // Every point's RTT on one axis, and each terminal's over time.
    assert!(
        page.contains("Distribution of the RTT by time") && page.contains("Smoothed RTT of each terminal")
    );
    compares(out.path(), &record, &cubic);

    let again = lab(&args, &[out.path(), &file]);
    succeeds(&again);
    assert!(text(&again.stderr).contains("finished, and not repeated: 3 runs"), "{}", text(&again.stderr));
    assert!(text(&succeeds(&lab(&["report"], &[out.path()])).into_bytes()).contains("report.html"));
}

/// Two runs on one page, with the figures that their records have.
fn compares(out: &Path, yuzuri: &RunRecord, cubic: &RunRecord) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("both.html");
    let of = |point: &str| out.join(point).join("seed-1");
    let output = lab(&["compare"], &[&of("cubic"), &of("yuzuri"), Path::new("--out"), &file]);
    assert!(succeeds(&output).contains("both.html"));
    let page = std::fs::read_to_string(&file).unwrap();
    let cell = |value: Option<f64>| format!("<td>{:.1}", value.unwrap());
    let row = format!("mean RTT, ms{}{}", cell(cubic.totals.rtt_mean_ms), cell(yuzuri.totals.rtt_mean_ms));
    assert!(page.contains(&row), "{row}");
    assert_eq!(page.matches("<svg ").count(), 4);
    // Two runs of one point and seed differ in their folders.
    let again = folder.path().join("again/cubic/seed-1");
    std::fs::create_dir_all(&again).unwrap();
    for file in std::fs::read_dir(of("cubic")).unwrap().map(Result::unwrap) {
        std::fs::copy(file.path(), again.join(file.file_name())).unwrap();
    }
    succeeds(&lab(&["compare"], &[&of("cubic"), &again, Path::new("--out"), &file]));
    let page = std::fs::read_to_string(&file).unwrap();
    let name = |letter: &str| {
        let rest = page.split(&format!("<p><b>{letter}</b>: ")).nth(1).unwrap();
        rest.split(", ").nth(1).unwrap().to_owned()
    };
    assert_ne!(name("A"), name("B"));
    assert!(name("B").ends_with("again/cubic/seed-1"), "{}", name("B"));
    // A folder of several points is ambiguous.
    let output = lab(&["compare"], &[out, &of("yuzuri"), Path::new("--out"), &file]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("name the folder of a run in it"), "{}", text(&output.stderr));
}

#[test]
fn unsupported_keys_are_reported_with_line_and_key() {
    let out = tempfile::tempdir().unwrap();
    let results = out.path().join("results");
    let output = lab(&["sweep", "--simulated", "--out"], &[&results, &scenario("fairness-four.toml")]);
    assert_eq!(output.status.code(), Some(1));
    let message = text(&output.stderr);
    let line = message.lines().find(|line| line.contains("fairness-four.toml:")).unwrap_or_default();
    assert!(line.contains("variant[1].set.\"terminal.tablet.window\""), "{message}");
    assert!(line.contains("--clock real or virtual"), "{message}");
    assert!(!results.exists(), "a folder of results was made for nothing");
}

#[test]
fn simulated_runs_and_kernel_runs_are_not_mixed() {
    let out = tempfile::tempdir().unwrap();
    let mut record = run_g(out.path(), 1);
    // Stored as a run with the kernel's TCP would be.
    record.task.clock = Clock::Virtual;
    record.write(&out.path().join("base/seed-1")).unwrap();
    let before = std::fs::read(out.path().join("base/seed-1/run.json")).unwrap();
    let file = scenario("check/uploads-g.toml");
    let output = lab(&["run", "--simulated", "--out"], &[out.path(), &file]);
    assert_eq!(output.status.code(), Some(1));
    let message = text(&output.stderr);
    assert!(
        message.contains("it holds runs with the kernel's TCP") && message.contains("--out"),
        "{message}"
    );
    assert_eq!(std::fs::read(out.path().join("base/seed-1/run.json")).unwrap(), before);

    // A simulated run copied to the same folder.
    let other = tempfile::tempdir().unwrap();
    let simulated = run_g(other.path(), 2);
    let beside = out.path().join("base/seed-2");
    std::fs::create_dir(&beside).unwrap();
    simulated.write(&beside).unwrap();
    let output = lab(&["report"], &[out.path()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("and runs with the kernel's TCP"), "{}", text(&output.stderr));
    // The reverse case is rejected before anything is built.
    let output = lab(&["run", "--clock", "real", "--out"], &[other.path(), &file]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("it holds simulated runs"), "{}", text(&output.stderr));
}

#[test]
fn ctrl_c_cleans_up() {
    let out = tempfile::tempdir().unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_yuzuri-lab"))
        .args(["run", "--simulated", "--set", "duration_s=36000", "--set", "repetitions=1", "--out"])
        .args([out.path(), &scenario("check/uploads-g.toml")])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let partial = out.path().join("base/seed-1.partial");
    let deadline = Instant::now() + Duration::from_secs(120);
    while !partial.join("recording.arrows").exists() {
        assert!(Instant::now() < deadline, "the recording does not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(130), "{}", text(&ended.stderr));
    let messages = text(&ended.stderr);
    assert!(
        messages.contains("stopped; finished, and kept in ") && messages.contains(": 0 of 1 run\n"),
        "{messages}"
    );
    assert!(!partial.exists());
}
