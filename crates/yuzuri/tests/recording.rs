//! Recordings: made, played back, converted, and what remains of them when something fails.
#![allow(clippy::unwrap_used, missing_docs)]

mod program;
use program::*;

use nix::sys::signal::Signal;
use serde_json::Value;
use std::process::{Command, Output};
use yuzuri_testnet::{Net, Side, eventually};

#[test]
fn watched_flows_are_recorded_replayed_and_converted() {
    let Some(net) = Net::or_skip("watched_flows_are_recorded_replayed_and_converted") else { return };
    net.shape(Side::A, 50, 60_000).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.arrows");
    let recording = path.to_str().unwrap();
    let receiver = receiver(&net);
    let filter = format!("netns:{}", net.name(Side::A));
    let args = ["watch", &filter, "rport:4950", "--record", recording, "--json"];
    let mut watch = Running::start(Command::new(YUZURI).args(args));
    watch.wait_for_message("watching");
    let sent = json_lines(&send(&net, 30).stdout);
    watch.signal(Signal::SIGINT);
    let watched = watch.end();
    assert!(watched.status.success(), "{}", text(&watched.stderr));
    let lines = json_lines(&watched.stdout);
    drop(receiver);

    let summary = sent.iter().find(|line| line["type"] == "summary").unwrap();
    let close = *of_kind(&lines, "close").first().unwrap();
    assert!(close["bytes_acked"].as_u64().unwrap().abs_diff(summary["bytes_acked"].as_u64().unwrap()) <= 2);
    let account = *of_kind(&lines, "account").last().unwrap();
    let number = |key: &str| account[key].as_u64().unwrap();
    assert_eq!(number("seen"), number("kept") + number("lost"));

    let replayed = yuzuri(&["replay", recording, "--json", "--speed", "1000"]);
    assert!(replayed.status.success(), "{}", text(&replayed.stderr));
    let again = json_lines(&replayed.stdout);
    for kind in ["open", "sample", "state", "retransmit", "close"] {
        assert_eq!(of_kind(&again, kind), of_kind(&lines, kind), "{kind}");
    }
    for (format, head) in [("csv", &b"time,"[..]), ("jsonl", b"{"), ("parquet", b"PAR1")] {
        let output = folder.path().join(format!("a.{format}"));
        let converted = yuzuri(&["convert", recording, output.to_str().unwrap()]);
        assert!(converted.status.success(), "{}", text(&converted.stderr));
        assert!(std::fs::read(&output).unwrap().starts_with(head));
        let refused = error(&yuzuri(&["convert", recording, output.to_str().unwrap()]));
        assert!(refused.contains("exists"), "{refused}");
        let unread = Command::new(YUZURI)
            .args(["convert", recording, "-", "--to", format])
            .stdout(unread())
            .output()
            .unwrap();
        assert!(unread.status.success(), "{format}: {}", text(&unread.stderr));
        let errors = text(&unread.stderr);
        assert!(!errors.contains("cannot"), "a reader that stops is no failure: {errors}");
    }
    // A note on a closed standard error does not end the program.
    let unnoted = |args: &[&str]| Command::new(YUZURI).args(args).stderr(unread()).output().unwrap();
    assert_eq!(unnoted(&["why", recording]).status.code(), Some(0));
    assert_eq!(unnoted(&["why", recording, "lport:1"]).status.code(), Some(3));
    let again = error(&yuzuri(&["watch", "--poll", "--record", recording, "--for", "1s"]));
    assert!(again.contains("overwrite") || again.contains("exists"), "{again}");
}

#[test]
fn a_recording_survives_kill_9_and_other_files_are_named() {
    let Some(net) = Net::or_skip("a_recording_survives_kill_9") else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.arrows");
    let recording = path.to_str().unwrap();
    let _receiver = receiver(&net);
    let filter = format!("netns:{}", net.name(Side::A));
    let mut watch =
        Running::start(Command::new(YUZURI).args(["watch", &filter, "--quiet", "--record", recording]));
    watch.wait_for_message("watching");
    let replay = || yuzuri(&["replay", recording, "--json", "--speed", "1000"]);
    let samples = |replayed: &Output| of_kind(&json_lines(&replayed.stdout), "sample").len();
    send(&net, 20);
    // Until the file holds a batch with samples: a file that grew may hold only the flow's opening.
    let mut written = 0;
    assert!(eventually(|| {
        written = samples(&replay());
        written > 0
    }));
    watch.signal(Signal::SIGKILL);
    drop(watch);
    let replayed = replay();
    assert!(replayed.status.success(), "{}", text(&replayed.stderr));
    assert!(samples(&replayed) >= written);

    let other = folder.path().join("other");
    std::fs::write(&other, "no recording at all, but long enough to look into").unwrap();
    let refused = error(&yuzuri(&["replay", other.to_str().unwrap(), "--json"]));
    assert!(refused.contains("other") && refused.lines().count() == 1, "{refused}");
    // Truncated in the middle: the complete part is shown, and the truncation is reported.
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&other, &bytes[..bytes.len() * 2 / 3]).unwrap();
    let cut = yuzuri(&["replay", other.to_str().unwrap(), "--json", "--speed", "1000"]);
    assert!(text(&cut.stderr).contains("is cut"), "{}", text(&cut.stderr));
}

#[test]
fn a_full_disk_is_reported_and_counted_and_leaves_a_readable_recording() {
    let Some(net) = Net::or_skip("a_full_disk_is_reported_and_counted_and_leaves_a_readable_recording")
    else {
        return;
    };
    let disk = SmallDisk::mount();
    let path = disk.0.path().join("a.arrows");
    let recording = path.to_str().unwrap();
    let _receiver = receiver(&net);
    let filter = format!("netns:{}", net.name(Side::A));
    let args = ["watch", &filter, "--density", "ack", "--quiet", "--record", recording];
    let mut watch = Running::start(Command::new(YUZURI).args(args));
    watch.wait_for_message("watching");
    let filling = std::sync::atomic::AtomicBool::new(true);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while filling.load(std::sync::atomic::Ordering::Relaxed) {
                send(&net, 20);
            }
        });
        watch.wait_for_message("recording paused");
        filling.store(false, std::sync::atomic::Ordering::Relaxed);
    });
    watch.signal(Signal::SIGINT);
    let ended = watch.end();
    assert!(error(&ended).contains("readable but lacks"), "{}", text(&ended.stderr));
    let replayed = yuzuri(&["replay", recording, "--json", "--speed", "1000"]);
    assert!(replayed.status.success() && !json_lines(&replayed.stdout).is_empty());
}

#[test]
fn a_sender_records_its_own_connections_without_privilege() {
    let Some(net) = Net::or_skip("a_sender_records_its_own_connections") else { return };
    net.shape(Side::A, 20, 100_000).unwrap();
    let folder = tempfile::tempdir().unwrap();
    // Any user may write here.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(folder.path(), open).unwrap();
    let path = folder.path().join("own.arrows");
    let recording = path.to_str().unwrap();
    let receiver = receiver(&net);
    for (to, connections) in [(net.v4(Side::B), 1), (net.v6(Side::B), 2)] {
        let mut command = net.command(Side::A, "setpriv");
        command.args([
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            YUZURI,
            "send",
            "--json",
            "--record",
            recording,
        ]);
        command.args([
            "--overwrite",
            "--bytes",
            "2MB",
            "--connections",
            &connections.to_string(),
            &to.to_string(),
        ]);
        let sent = command.output().unwrap();
        if text(&sent.stderr).contains("setpriv") {
            println!("a_sender_records_its_own_connections: skipped: {}", text(&sent.stderr));
            return;
        }
        assert!(sent.status.success(), "{}", text(&sent.stderr));
        assert!(text(&sent.stderr).contains("yuzuri: recorded"), "{}", text(&sent.stderr));
        let events = json_lines(&sent.stdout);
        let connected: Vec<_> = events.iter().filter(|event| event["type"] == "connected").collect();
        assert_eq!(connected.len(), connections);
        let replayed = json_lines(&yuzuri(&["replay", recording, "--json", "--speed", "1000"]).stdout);
        assert_eq!(of_kind(&replayed, "session")[0]["session"]["source"], "sampled");
        let flows = of_kind(&replayed, "flow");
        for connected in connected {
            let flow = flows.iter().find(|flow| flow["flow"]["id"] == connected["cookie"]);
            let flow = flow.unwrap_or_else(|| panic!("{connected} in {flows:?}"));
            assert_eq!(flow["flow"]["remote"], connected["peer"]);
            let samples = of_kind(&replayed, "sample");
            let mut windows = samples.iter().filter(|sample| sample["flow"] == connected["cookie"]);
            assert!(windows.any(|sample| sample["cwnd"].as_u64() > Some(10)), "its window grows");
        }
        assert_eq!(of_kind(&replayed, "close").len(), connections);
    }
    drop(receiver);
}

/// A transfer's JSON lines when the recording requested with it failed: the transfer was completed,
/// and the failure was reported once.
fn events_of_recording(sent: &Output) -> Vec<Value> {
    let lines = json_lines(&sent.stdout);
    assert_eq!(sent.status.code(), Some(3), "{}", text(&sent.stderr));
    let of_type = |name: &str| lines.iter().filter(|line| line["type"] == name).collect::<Vec<_>>();
    let [summary] = of_type("summary")[..] else { panic!("{lines:?}") };
    assert!(summary["bytes_acked"].as_u64() > Some(0) && summary["bytes_unacknowledged"] == 0, "{summary}");
    assert!(of_type("failed").is_empty());
    let [warning] = of_type("warning")[..] else { panic!("it is reported once: {lines:?}") };
    assert_eq!(warning["kind"], "recording");
    let messages = text(&sent.stderr);
    assert_eq!(messages.matches(warning["message"].as_str().unwrap()).count(), 1, "{messages}");
    lines
}

#[test]
fn a_recording_that_cannot_be_started_does_not_delay_a_transfer() {
    const TEST: &str = "a_recording_that_cannot_be_started_does_not_delay_a_transfer";
    let Some(net) = Net::or_skip(TEST) else { return };
    let _receiver = receiver(&net);
    let to = net.v4(Side::B).to_string();
    // Owned by root, who alone may write there.
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let there = folder.path().join("there.arrows");
    std::fs::write(&there, "something else").unwrap();
    for file in [folder.path().join("a.arrows"), there.clone(), "/nonexistent/a.arrows".into()] {
        let mut command = net.command(Side::A, "setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", YUZURI, "send", "--json"]);
        let sent = command.args(["--bytes", "2MB", "--record"]).arg(&file).arg(&to).output().unwrap();
        if text(&sent.stderr).contains("setpriv") {
            return println!("{TEST}: skipped: {}", text(&sent.stderr));
        }
        let lines = events_of_recording(&sent);
        assert_eq!(lines[0]["type"], "warning", "it is reported before the first byte");
        let summary = lines.iter().find(|line| line["type"] == "summary").unwrap();
        assert_eq!(summary["bytes_acked"], 2_000_000);
    }
    assert_eq!(std::fs::read_to_string(there).unwrap(), "something else");
}

#[test]
fn a_full_disk_does_not_disturb_the_transfer_that_is_recorded() {
    const TEST: &str = "a_full_disk_does_not_disturb_the_transfer_that_is_recorded";
    let Some(net) = Net::or_skip(TEST) else { return };
    net.shape(Side::A, 50, 200_000).unwrap();
    let _receiver = receiver(&net);
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("kept.arrows");
    std::fs::create_dir(folder.path().join("small")).unwrap();
    // A small disk in a mount namespace of its own. It disappears with the process that mounted it,
    // so its content is copied before.
    let script = "mount -t tmpfs -o size=64k none \"$1/small\" || exit 77\n\
        \"$2\" send --json --time 5s --buffer 100kB --record \"$1/small/a.arrows\" \"$3\"\n\
        code=$?; cp \"$1/small/a.arrows\" \"$1/kept.arrows\"; exit $code";
    let mut command = net.command(Side::A, "unshare");
    command.args(["--mount", "sh", "-c", script, "sh"]).arg(folder.path());
    let sent = command.args([YUZURI, &net.v4(Side::B).to_string()]).output().unwrap();
    if sent.status.code() == Some(77) || text(&sent.stderr).contains("unshare:") {
        return println!("{TEST}: skipped: {}", text(&sent.stderr));
    }
    let lines = events_of_recording(&sent);
    let at = lines.iter().position(|line| line["type"] == "warning").unwrap();
    assert!(lines[at]["message"].as_str().unwrap().contains("No space left"), "{}", lines[at]);
    let buffers = |lines: &[Value]| lines.iter().filter(|line| line["type"] == "buffer").count();
    assert!(buffers(&lines[..at]) > 0 && buffers(&lines[at..]) > 20, "it was reported in the middle: {at}");
    // The path carries 47 Mbit/s of payload. A busy machine may lose some of it, but a transfer
    // that waited for its recorder would reach little.
    let summary = lines.iter().find(|line| line["type"] == "summary").unwrap();
    assert!(summary["throughput_bps"].as_u64() > Some(25_000_000), "{summary}");
    assert!(text(&sent.stderr).contains("readable but lacks"), "{}", text(&sent.stderr));
    // The part that fit is readable.
    let replayed = yuzuri(&["replay", kept.to_str().unwrap(), "--json", "--speed", "1000"]);
    assert!(replayed.status.success(), "{}", text(&replayed.stderr));
    assert!(!of_kind(&json_lines(&replayed.stdout), "sample").is_empty());
}
