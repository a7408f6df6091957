//! The programs that the command starts: present or missing.
#![allow(clippy::unwrap_used, missing_docs)]

mod program;
use program::*;

use nix::sys::signal::Signal;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};
use yuzuri_testnet::{Net, Side};

/// The command in a folder of its own, without the accompanying programs. It is a link: a copy
/// could not be executed while a process started by another test still holds it open for writing.
fn alone() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir_in(Path::new(YUZURI).parent().unwrap()).unwrap();
    let program = folder.path().join("yuzuri");
    std::fs::hard_link(YUZURI, &program).unwrap();
    (folder, program)
}

#[test]
fn lab_executes_the_program_beside_it_or_reports_that_it_is_missing() {
    let (folder, program) = alone();
    let lab =
        || Command::new(&program).args(["lab", "run", "--help"]).env("PATH", folder.path()).output().unwrap();
    let missing = error(&lab());
    assert!(missing.contains("yuzuri-lab") && missing.contains("make build"), "{missing}");
    // Any program of that name receives all arguments unchanged.
    std::os::unix::fs::symlink("/bin/echo", folder.path().join("yuzuri-lab")).unwrap();
    assert_eq!(text(&lab().stdout), "run --help\n");
}

/// The program next to the command under test; a test of both is skipped if only one was built.
fn beside(program: &str, test: &str) -> bool {
    let built = Path::new(YUZURI).with_file_name(program).exists();
    if !built {
        println!("{test}: skipped: {program} is not built (cargo build -p {program})");
    }
    built
}

#[test]
fn watched_flows_are_identified_while_they_run_and_at_their_end() {
    const TEST: &str = "watched_flows_are_identified_while_they_run_and_at_their_end";
    let Some(net) = Net::or_skip(TEST) else { return };
    if !is_root(TEST) || !beside("yuzuri-identify", TEST) {
        return;
    }
    // A queue of 70 segments, which Reno fills again every second or so.
    net.shape(Side::A, 20, 100_000).unwrap();
    let receiver = receiver(&net);
    // Other namespaces have flows of other tests.
    let filter = format!("netns:{}", net.name(Side::A));
    let words = ["watch", "--identify", "--json", "--density", "ack", &filter, "rport:4950"];
    let mut watching = Running::start(Command::new(YUZURI).args(words));
    watching.wait_for_message("Ctrl-C ends it");
    let to = net.v4(Side::B).to_string();
    let sent = net
        .command(Side::A, YUZURI)
        .args(["send", "--control", "reno", "--bytes", "20MB", &to])
        .output()
        .unwrap();
    assert!(sent.status.success(), "{}", text(&sent.stderr));
    watching.signal(Signal::SIGINT);
    let watched = watching.end();
    assert!(watched.status.success(), "{}", text(&watched.stderr));
    drop(receiver);
    let lines = json_lines(&watched.stdout);
    assert!(!of_kind(&lines, "sample").is_empty(), "the records are printed as without");
    let verdicts = of_kind(&lines, "verdict");
    let (last, before): (Vec<&Value>, Vec<&Value>) =
        verdicts.into_iter().partition(|verdict| verdict["last"] == true);
    let [last] = last[..] else { panic!("one flow, one last word: {last:?}") };
    assert_eq!(last["kernel_name"], "reno");
    assert!(last["summary"]["losses"].as_u64() > Some(0), "{last}");
    let set = |verdict: &Value| verdict["answer"]["set"].to_string();
    assert!(set(last).contains("\"reno\""), "{last}");
    assert!(!before.is_empty(), "it was reported while the flow continued");
}

#[test]
fn watch_reports_that_the_program_that_identifies_is_missing() {
    let (folder, program) = alone();
    let watch = || {
        let words = ["watch", "--identify", "--poll", "--for", "1s"];
        Command::new(&program).args(words).env("PATH", folder.path()).stdin(Stdio::null()).output().unwrap()
    };
    let missing = error(&watch());
    assert!(missing.contains("yuzuri-identify") && missing.contains("make build"), "{missing}");
    // A program that exits immediately does not end the watch; its failure is reported.
    std::os::unix::fs::symlink("/bin/false", folder.path().join("yuzuri-identify")).unwrap();
    let failed = error(&watch());
    assert!(failed.contains("yuzuri-identify ended with exit status: 1"), "{failed}");
    assert!(failed.contains("seen"), "the account is given all the same: {failed}");
}
