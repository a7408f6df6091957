//! Sharing without privilege: programs bound their own connections, and a relay brings terminals
//! together.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "../../yuzuri-share/tests/cell/mod.rs"]
mod cell;
mod daemon;
use daemon::*;

use cell::{Cell, control_name};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::Duration;
use yuzuri_testnet::eventually;

#[test]
fn without_privilege_the_command_reports_it_and_changes_nothing() {
    const TEST: &str = "without_privilege_the_command_reports_it_and_changes_nothing";
    let Some(cell) = Cell::or_skip(TEST, 1) else { return };
    let folder = tempfile::tempdir().unwrap();
    let traffic = cell.traffic(1);
    let before = traffic.control();
    let mut command = cell.command(1, "setpriv");
    command.args(["--bounding-set=-all", "--inh-caps=-all", "--no-new-privs", YUZURI, "share", "--keyless"]);
    command
        .args(["--control", &control_name(), "--runtime"])
        .arg(folder.path())
        .arg("--state")
        .arg(folder.path());
    let output = match command.output() {
        Ok(output) if !text(&output.stderr).contains("setpriv") => output,
        other => {
            println!("{TEST}: skipped: {other:?}");
            return;
        }
    };
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("not permitted") && error.contains("CAP_BPF"), "{error}");
    assert_eq!(traffic.control(), before);
}

/// A process that ends with the test, however the test ends.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs `yuzuri send --share` without any privilege, at a host; returns its output.
fn send_sharing(cell: &Cell, host: u32, words: &[&str]) -> Ended {
    let mut command = cell.command(host, "setpriv");
    command.args([
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "--bounding-set=-all",
        "--inh-caps=-all",
        YUZURI,
    ]);
    command.args(["send", "--share", "--share-keyless", "--time", "12s", "10.88.0.100"]).args(words);
    Ended(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap())
}

#[test]
fn programs_without_privilege_share_for_their_own_connections() {
    const TEST: &str = "programs_without_privilege_share_for_their_own_connections";
    let Some(cell) = Cell::or_skip(TEST, 2) else { return };
    for host in [1, 2] {
        cell.shape(host, "eth0", 20);
    }
    let receiver = Ended(cell.command(0, YUZURI).arg("receive").stdout(Stdio::null()).spawn().unwrap());
    let listens =
        || TcpStream::connect_timeout(&([10, 88, 0, 100], 4950).into(), Duration::from_secs(1)).is_ok();
    assert!(cell.inside(1, || eventually(listens)));
    let senders = [1, 2].map(|host| send_sharing(&cell, host, &[]));
    for mut sender in senders {
        let mut messages = String::new();
        sender.0.stderr.take().unwrap().read_to_string(&mut messages).unwrap();
        let status = sender.0.wait().unwrap();
        if messages.contains("setpriv") {
            println!("{TEST}: skipped: {messages}");
            return;
        }
        assert!(status.success(), "{messages}");
        let end =
            messages.lines().find(|line| line.contains("shared on")).unwrap_or_else(|| panic!("{messages}"));
        assert!(end.contains("with 1 other device, "), "{messages}");
        assert!(!end.contains("bounded for 0.0 of") && !end.contains("; 0 of"), "{messages}");
    }
    drop(receiver);
    // Without a key it joins no group, and says so before sending a byte.
    let none =
        cell.command(1, YUZURI).args(["send", "--share", "--time", "1s", "10.88.0.100"]).output().unwrap();
    assert_eq!(none.status.code(), Some(1));
    assert!(text(&none.stderr).contains("key"), "{}", text(&none.stderr));
}

#[test]
fn a_rendezvous_connects_members_that_multicast_does_not_reach() {
    const TEST: &str = "a_rendezvous_connects_members_that_multicast_does_not_reach";
    let Some(cell) = Cell::or_skip(TEST, 2) else { return };
    // The access point isolates its clients.
    for host in [1, 2] {
        let words = format!("-n {} link set h{host}eth0 type bridge_slave isolated on", cell.name(0));
        cell::ip(&words);
    }
    let mut command = cell.command(0, YUZURI);
    command.args(["share", "rendezvous", "10.88.0.100:48771"]).stderr(Stdio::piped());
    let mut relay = Ended(command.spawn().unwrap());
    let mut lines = BufReader::new(relay.0.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("rendezvous at 10.88.0.100:48771")));
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let names = [control_name(), control_name()];
    let words =
        |name| ["--keyless", "--group", "hall", "--rendezvous", "10.88.0.100:48771", "--control", name];
    let Some(first) = Daemon::or_skip(TEST, &cell, folders[0].path(), &words(&names[0])) else { return };
    let second = Daemon::spawn(&cell, 2, folders[1].path(), &words(&names[1]));
    assert!(eventually(|| second.reported("sharing;")), "{}", second.all());
    let _traffic = [cell.traffic(1), cell.traffic(2)];
    let met = eventually(|| {
        let both = [first.status(), second.status()];
        let leader = |status: &Value| status["interfaces"][0]["leader"].as_str().map(str::to_owned);
        leader(&both[0]).is_some()
            && leader(&both[0]) == leader(&both[1])
            && both.iter().all(|status| status["interfaces"][0]["summary"]["senders"] == 2)
    });
    assert!(met, "{:#}\n{:#}", first.status(), second.status());
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(relay.0.id() as i32), nix::sys::signal::SIGTERM)
        .unwrap();
    let rest: Vec<String> = lines.collect();
    assert_eq!(relay.0.wait().unwrap().code(), Some(0));
    assert!(rest.iter().any(|line| line.contains("forwarded")), "{rest:?}");
}
