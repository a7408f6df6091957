//! The command as a process: its output, and that it leaves nothing behind however it ends.
#![allow(clippy::unwrap_used)]

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const SCENARIO: &str = "title = \"one\"\nduration_s = 600\n[path]\nrtt_ms = 1\n[[terminal]]\nname = \"phone\"\nphy = { standard = \"g\", rate_mbps = 54 }\n";

fn lab(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_yuzuri-lab"));
    command.args(args);
    command
}

fn output(args: &[&str]) -> Output {
    lab(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Polls until a condition is true.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The namespaces of the run of a process, found through its lock.
fn namespaces_of(child: &Child) -> Vec<PathBuf> {
    let locks = std::fs::read_dir("/run/yuzuri-lab").into_iter().flatten().flatten().map(|e| e.path());
    let ours = locks
        .filter(|lock| std::fs::read_to_string(lock).is_ok_and(|pid| pid.trim() == child.id().to_string()));
    let prefixes: Vec<String> =
        ours.filter_map(|lock| Some(format!("yzlab{}-", lock.file_stem()?.to_str()?))).collect();
    let all = std::fs::read_dir("/run/netns").into_iter().flatten().flatten().map(|e| e.path());
    let named = |path: &Path| {
        path.file_name().is_some_and(|n| prefixes.iter().any(|p| n.to_string_lossy().starts_with(p)))
    };
    all.filter(|path| named(path)).collect()
}

/// A running experiment and its namespaces.
fn at_work(test: &str, out: &Path) -> Option<(Child, Vec<PathBuf>)> {
    if !nix::unistd::geteuid().is_root() {
        println!("{test}: skipped: network namespaces need root");
        return None;
    }
    let file = out.join("one.toml");
    std::fs::write(&file, SCENARIO).unwrap();
    let results = out.join("results");
    let child = lab(&["run", file.to_str().unwrap(), "--out", results.to_str().unwrap()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until("the recording begins", || results.join("base/seed-1.partial/recording.arrows").exists());
    let namespaces = namespaces_of(&child);
    assert_eq!(namespaces.len(), 3, "{namespaces:?}");
    Some((child, namespaces))
}

#[test]
fn ctrl_c_cleans_up() {
    let out = tempfile::tempdir().unwrap();
    let Some((child, namespaces)) = at_work("ctrl_c_cleans_up", out.path()) else { return };
    // A process called from a script receives one Ctrl-C twice, and must still clean up.
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        kill(Pid::from_raw(child.id() as i32), signal).unwrap();
    }
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(130), "{}", text(&ended.stderr));
    let messages = text(&ended.stderr);
    assert!(
        messages.contains("stopped; finished, and kept in ") && messages.contains(": 0 of 1 run\n"),
        "{messages}"
    );
    assert!(namespaces.iter().all(|path| !path.exists()));
    assert!(!out.path().join("results/base/seed-1.partial").exists());
}

#[test]
fn leftovers_of_a_killed_run_are_removed() {
    let out = tempfile::tempdir().unwrap();
    let Some((mut child, namespaces)) = at_work("leftovers_of_a_killed_run_are_removed", out.path()) else {
        return;
    };
    child.kill().unwrap();
    child.wait().unwrap();
    // Another test's run may be cleaning up at the same time, as every run does; this call does not
    // wait for it.
    assert!(output(&["clean"]).status.success());
    until("the namespaces go", || namespaces.iter().all(|path| !path.exists()));
    // The kernel has released the lock on the results folder.
    let folder = out.path().join("results");
    let report = output(&["report", folder.to_str().unwrap()]);
    assert!(text(&report.stderr).contains("there are no finished runs"), "{}", text(&report.stderr));
}

#[test]
fn check_reports_line_and_field() {
    let out = tempfile::tempdir().unwrap();
    let (good, bad) = (out.path().join("good.toml"), out.path().join("bad.toml"));
    std::fs::write(&good, SCENARIO).unwrap();
    std::fs::write(&bad, SCENARIO.replace("rtt_ms = 1", "rtt_ms = -1")).unwrap();
    let result = output(&["check", good.to_str().unwrap(), bad.to_str().unwrap()]);
    let message = text(&result.stdout);
    assert!(!result.status.success());
    assert!(message.contains("good.toml: valid; 1 run, 600 s of experiment"), "{message}");
    assert!(message.contains("bad.toml:4: path.rtt_ms: -1 is out of range"), "{message}");
    let listed = output(&["list", out.path().to_str().unwrap()]);
    assert!(text(&listed.stdout).contains("one"), "{}", text(&listed.stdout));
    // Also those in subfolders.
    let below = out.path().join("below");
    std::fs::create_dir(&below).unwrap();
    std::fs::write(below.join("two.toml"), SCENARIO).unwrap();
    std::fs::remove_file(&bad).unwrap();
    let listed = output(&["list", out.path().to_str().unwrap()]);
    assert!(
        listed.status.success() && text(&listed.stdout).contains("below/two"),
        "{}",
        text(&listed.stdout)
    );
}

/// A program built without QUIC (`--no-default-features`) refuses the scenario before anything is
/// set up, and without root.
#[cfg(not(feature = "quic"))]
#[test]
fn quic_that_is_not_built_is_refused_at_once() {
    let out = tempfile::tempdir().unwrap();
    let (file, results) = (out.path().join("quic.toml"), out.path().join("results"));
    std::fs::write(&file, SCENARIO.replace("phy =", "workload = { kind = \"quic\" }\nphy =")).unwrap();
    for clock in ["real", "virtual"] {
        let ended =
            output(&["run", file.to_str().unwrap(), "--clock", clock, "--out", results.to_str().unwrap()]);
        let said = text(&ended.stderr);
        assert!(!ended.status.success() && said.contains("make lab"), "{said}");
        assert!(!results.exists(), "{clock}");
    }
}
