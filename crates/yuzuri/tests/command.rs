//! The command from outside: what users type, what they get, and how it ends.
#![allow(clippy::unwrap_used, missing_docs)]

mod program;
use program::*;

use nix::sys::signal::Signal;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use yuzuri_testnet::{Net, Side, eventually};

#[test]
fn usage_errors_have_advice() {
    assert_eq!(yuzuri(&["wath"]).status.code(), Some(2));
    assert_eq!(yuzuri(&["watch", "--density", "soon"]).status.code(), Some(2));
    assert!(error(&yuzuri(&["watch", "--poll", "prot:80"])).contains("unknown kind 'prot'"));
    for filter in [&["prot:80"][..], &["host"], &["443", "no-such-thing"]] {
        assert_eq!(yuzuri(&[&["watch", "--poll"], filter].concat()).status.code(), Some(2), "{filter:?}");
    }
    let usage: [&[&str]; 6] = [
        &["convert", "x.arrows"],
        &["convert", "x.arrows", "x.xyz"],
        &["send", "--buffer", "0", "127.0.0.1:1"],
        &["send", "--connections", "0", "127.0.0.1:1"],
        &["receive", "--connections", "0"],
        &["ap"],
    ];
    for words in usage {
        let ended = yuzuri(words);
        assert_eq!(ended.status.code(), Some(2), "{words:?}: {}", error(&ended));
    }
    assert!(error(&yuzuri(&["watch", "--poll", "netns:no-such"])).contains("ip netns list"));
    assert!(error(&yuzuri(&["watch", "--poll", "cgroup:/no-such"])).contains("no-such"));
    let refused = error(&yuzuri(&["send", "--control", "no-such", "--buffers", "1", "127.0.0.1:1"]));
    assert!(
        refused.contains("cubic") || refused.contains("reno") || refused.contains("refused"),
        "{refused}"
    );
    assert!(error(&yuzuri(&["replay", "/no/such.arrows", "--json"])).contains("/no/such.arrows"));
    assert!(error(&yuzuri(&["top", "--poll"])).contains("terminal"));
}

/// Both directions at the same time, and only the reverse one. A receiver without the option
/// refuses, and also ends the forward direction.
#[test]
fn a_transfer_goes_both_ways() {
    let Some(net) = Net::or_skip("a_transfer_goes_both_ways") else { return };
    let to = net.v4(Side::B).to_string();
    let asks = |args: &[&str]| net.command(Side::A, YUZURI).arg("send").args(args).arg(&to).output().unwrap();
    let typed = |lines: &[Value], kind: &str| -> Vec<Value> {
        lines.iter().filter(|line| line["type"] == kind).cloned().collect()
    };
    {
        let _receiver = receiver(&net);
        let refused = asks(&["--two-way", "--json", "--bytes", "1GB"]);
        assert_eq!(refused.status.code(), Some(1));
        assert!(error(&refused).contains("start it with `yuzuri receive --reverse`"), "{}", error(&refused));
        let failed = typed(&json_lines(&refused.stdout), "failed");
        assert!(failed.iter().any(|line| line["kind"] == "not-reversed"), "{failed:?}");
    }
    let _receiver = receiver_with(&net, &["--reverse"]);
    let both = asks(&["--two-way", "--json", "--bytes", "3MB", "--connections", "2"]);
    assert_eq!(both.status.code(), Some(0), "{}", text(&both.stderr));
    let lines = json_lines(&both.stdout);
    assert_eq!(typed(&lines, "summary")[0]["bytes_acked"], 3_000_000);
    assert_eq!(typed(&lines, "reverse-summary")[0]["bytes"], 3_000_000);
    let reverse = asks(&["-R", "--bytes", "1MB"]);
    assert_eq!(reverse.status.code(), Some(0), "{}", text(&reverse.stderr));
    assert!(text(&reverse.stdout).contains("total in reverse: 1.0 MB"), "{}", text(&reverse.stdout));
    assert_eq!(asks(&["-R", "--control", "reno"]).status.code(), Some(2));
}

#[test]
fn every_help_text_is_there() {
    for command in ["watch", "top", "replay", "convert", "send", "receive", "doctor"] {
        let help = yuzuri(&[command, "--help"]);
        assert!(help.status.success() && text(&help.stdout).contains("Usage: yuzuri"), "{command}");
    }
}

#[test]
fn a_receiver_listens_at_the_given_address_and_ends_at_its_limit() {
    let help = text(&yuzuri(&["receive", "--help"]).stdout);
    for limit in ["[default: 100GB]", "[default: 1TB]", "[default: 100000]", "`none` means no limit"] {
        assert!(help.contains(limit), "{help}");
    }
    assert_eq!(yuzuri(&["receive", "--bytes", "many"]).status.code(), Some(2));
    let words = ["receive", "--json", "--bind", "127.0.0.1", "--port", "0", "--bytes", "none"];
    let mut command = Command::new(YUZURI);
    command.args(words).args(["--total-bytes", "300k", "--lines", "1"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut receiver = Running(command.spawn().unwrap(), None);
    let mut lines = BufReader::new(receiver.0.stdout.take().unwrap()).lines();
    let listening: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!((&listening["max_bytes"], &listening["max_total_bytes"]), (&Value::Null, &300_000.into()));
    let address: std::net::SocketAddr = listening["address"].as_str().unwrap().parse().unwrap();
    assert!(address.ip().is_loopback() && address.is_ipv4(), "{address}");
    let mut sender = TcpStream::connect(address).unwrap();
    // The connection may close before everything is written.
    let _ = sender.write_all(&[0; 1_000_000]);
    let rest: Vec<Value> = lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
    assert_eq!(receiver.0.wait().unwrap().code(), Some(0));
    let summary = rest.last().unwrap();
    assert_eq!((&summary["type"], &summary["bytes"]), (&"summary".into(), &300_000.into()), "{rest:?}");
    assert_eq!(summary["limit_reached"], true, "{rest:?}");
    // A line, a note that there are more, and their number; then the summary.
    assert_eq!(rest.iter().filter(|line| line["type"] == "note").count(), 2, "{rest:?}");
    assert_eq!(rest.len(), 4, "{rest:?}");
}

#[test]
fn doctor_prints_a_table_and_json() {
    let findings: Value = serde_json::from_slice(&yuzuri(&["doctor", "--json"]).stdout).unwrap();
    let findings = findings.as_array().unwrap();
    assert!(findings.iter().any(|f| f["what"] == "sock_diag" && f["result"] == "ok"), "{findings:?}");
    let table = text(&yuzuri(&["doctor"]).stdout);
    assert!(table.contains("sock_diag") && table.contains("\ngate "), "{table}");
}

fn get(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    text(&answer)
}

#[test]
fn the_page_is_served_and_a_second_one_on_its_port_is_refused() {
    let mut watch = Running::start(Command::new(YUZURI).args(["watch", "--poll", "--web", "127.0.0.1:0"]));
    let messages = watch.wait_for_message("the page is at");
    let (address, token) = messages.split("http://").nth(1).unwrap().split_once("/#token=").unwrap();
    let (address, token) = (address.to_owned(), token.to_owned());
    let page = get(&address, &format!("GET / HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"));
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("<title>"), "{page}");
    let session = |more: &str| {
        let head = format!("GET /api/session HTTP/1.1\r\nHost: {address}\r\nConnection: close");
        get(&address, &format!("{head}\r\n{more}\r\n"))
    };
    assert!(session("").starts_with("HTTP/1.1 401"));
    assert!(session(&format!("Authorization: Bearer {token}\r\n")).starts_with("HTTP/1.1 200"));
    let stranger = get(&address, "GET / HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n");
    assert!(stranger.starts_with("HTTP/1.1 4"), "{stranger}");
    let second = error(&yuzuri(&["watch", "--poll", "--web", &address]));
    assert!(second.contains(address.rsplit(':').next().unwrap()), "{second}");
    watch.signal(Signal::SIGTERM);
    assert!(watch.end().status.success());
}

#[test]
fn without_btf_it_steps_down_and_the_doctor_knows() {
    const TEST: &str = "without_btf_it_steps_down";
    if !is_root(TEST) {
        return;
    }
    if !Path::new("/sys/kernel/btf").exists() {
        return println!("{TEST}: skipped: this kernel has none anyway");
    }
    // The kernel's BTF is hidden under an empty folder, for this command only.
    let hidden = |words: &str| {
        let script = format!("mount -t tmpfs none /sys/kernel/btf && exec {YUZURI} {words}");
        Command::new("unshare").args(["--mount", "sh", "-c", &script]).stdin(Stdio::null()).output().unwrap()
    };
    let doctor = hidden("doctor");
    assert_eq!(doctor.status.code(), Some(1), "{doctor:?}");
    let found = text(&doctor.stdout);
    assert!(found.contains("has no BTF") && found.contains("CONFIG_DEBUG_INFO_BTF=y"), "{found}");
    assert_eq!(text(&doctor.stderr), "");
    let watch = hidden("watch --json --for 300ms");
    let messages = text(&watch.stderr);
    assert!(
        watch.status.success() && messages.contains("SAMPLED") && messages.contains("has no BTF"),
        "{messages}"
    );
    assert!(!messages.contains("libbpf"), "{messages}");
}

#[test]
fn without_privilege_it_steps_down_and_says_so() {
    if !is_root("without_privilege_it_steps_down") {
        return;
    }
    // Copy the program: that user may not be allowed to read this folder.
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let program = folder.path().join("yuzuri");
    std::fs::copy(YUZURI, &program).unwrap();
    let output = Command::new(&program)
        .args(["watch", "--json", "--for", "300ms"])
        .current_dir(Path::new("/"))
        .uid(65534)
        .gid(65534)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("SAMPLED"), "{}", text(&output.stderr));
    let lines = json_lines(&output.stdout);
    assert_eq!(lines[0]["session"]["source"], "sampled");
}

#[test]
fn a_filter_without_a_match_is_reported() {
    for (filter, shown) in
        [(&["name:no-such-name"][..], "name:no-such-name"), (&["host", "localhost", "1"], "port:1 addr:")]
    {
        let output = yuzuri(&[&["watch", "--poll", "--for", "300ms"], filter].concat());
        let messages = text(&output.stderr);
        assert!(
            output.status.success() && messages.contains(&format!("no flow matched {shown}")),
            "{messages}"
        );
    }
}

#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    let mut watch =
        Running(spawn(Command::new(YUZURI).args(["watch", "--poll", "--json", "--for", "30s"])), None);
    let mut first = String::new();
    BufReader::new(watch.0.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert!(first.contains("session"));
    // The pipe is closed now. The next line finds it closed, at the latest the account after a
    // second.
    let mut ended = None;
    assert!(eventually(|| {
        ended = watch.0.try_wait().unwrap();
        ended.is_some()
    }));
    assert!(ended.unwrap().success());
}

#[test]
fn failures_of_a_transfer_have_a_kind() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let to = format!("127.0.0.1:{port}");
    for (words, kind) in [
        (&[to.as_str()][..], "refused"),
        (&["nosuch.invalid"], "unknown-host"),
        (&["--control", "nosuch", &to], "control-unknown"),
        (&["--bind", "192.0.2.77", &to], "unknown-address"),
        (&["--interface", "nosuch0", &to], "unknown-interface"),
        (&["--buffers", "0", &to], "option"),
        (&["--share", &to], "sharing"),
        (&["--share", "--share-key-file", "/nonexistent/key", &to], "sharing"),
    ] {
        let failed = yuzuri(&[&["send", "--json"], words].concat());
        assert_eq!(failed.status.code(), Some(1), "{words:?}");
        let lines = json_lines(&failed.stdout);
        let [line] = &lines[..] else { panic!("{words:?}: {lines:?}") };
        assert_eq!((&line["type"], &line["kind"]), (&"failed".into(), &kind.into()), "{words:?}");
        assert!(error(&failed).contains(line["message"].as_str().unwrap()), "{words:?}");
    }
}

/// A link of 20 Mbit/s with a queue of 100 ms: CUBIC fills it, and other traffic waits in it.
#[test]
fn latency_beside_the_load_is_that_of_the_queue() {
    let Some(net) = Net::or_skip("latency_beside_the_load_is_that_of_the_queue") else { return };
    net.shape(Side::A, 20, 250_000).unwrap();
    let receiver = receiver(&net);
    let to = net.v4(Side::B).to_string();
    let sent = net
        .command(Side::A, YUZURI)
        .args(["send", "--json", "--probe", "--control", "cubic", "--time", "4s", &to])
        .output()
        .unwrap();
    assert!(sent.status.success(), "{}", text(&sent.stderr));
    let lines = json_lines(&sent.stdout);
    let latency = lines.iter().find(|line| line["type"] == "latency").unwrap();
    assert!(latency["handshakes"].as_u64().unwrap() >= 8, "{latency}");
    let median_us = latency["median_us"].as_u64().unwrap();
    assert!((20_000..400_000).contains(&median_us), "{latency}");
    assert!(latency["min_us"].as_u64() <= latency["p95_us"].as_u64());
    receiver.signal(Signal::SIGINT);
    receiver.end();
}
