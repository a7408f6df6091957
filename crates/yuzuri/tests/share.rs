//! `yuzuri share` as users run it: the program itself, on the machine's kernel.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "../../yuzuri-share/tests/cell/mod.rs"]
mod cell;
mod daemon;
#[path = "../../yuzuri-share/tests/slow/mod.rs"]
mod slow;
use daemon::*;

use cell::{Cell, Traffic, control_name};
use serde_json::Value;
use slow::{SlowClients, raise_open_files};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};
use yuzuri_testnet::eventually;

/// Time after the kill within which a flow is no longer bounded.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);
/// Within this time, the window of a free flow exceeds the largest bound that the last tick may
/// have set (a probe is 1.25 of a share).
const GROWTH_TIME: Duration = Duration::from_secs(1);

#[test]
fn a_daemon_from_its_start_to_its_end() {
    const TEST: &str = "a_daemon_from_its_start_to_its_end";
    let Some(cell) = Cell::or_skip(TEST, 1) else { return };
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    assert!(yuzuri(&["share", "key", key.to_str().unwrap()]).status.success());
    let again = yuzuri(&["share", "key", key.to_str().unwrap()]);
    assert_eq!(again.status.code(), Some(1));
    let config = folder.path().join("share.toml");
    std::fs::write(&config, format!("key_file = {key:?}\nobjective = \"latency\"\n")).unwrap();
    let checked = yuzuri(&["share", "check", config.to_str().unwrap()]);
    assert!(checked.status.success() && text(&checked.stdout).contains("valid"), "{checked:?}");
    let name = control_name();
    let words = ["--config", config.to_str().unwrap(), "--control", &name, "--metrics", "127.0.0.1:0"];
    let Some(mut daemon) = Daemon::or_skip(TEST, &cell, folder.path(), &words) else { return };
    let traffic = cell.traffic(1);
    let flow = daemon.until_rule(&traffic, &["share", "probe"]);
    assert!(flow["bound"]["upper"].as_u64().unwrap() > 0, "{flow:#}");
    let status = daemon.status();
    assert_eq!(status["policy"]["objective"], "latency");
    assert_eq!((&status["steers"], &status["keyed"]), (&Value::Bool(true), &Value::Bool(true)));
    let table = text(&daemon.ask(&["status"]).stdout);
    assert!(
        table.contains("policy yuzuri (latency)") && table.contains(&traffic.local().to_string()),
        "{table}"
    );

    // No thread has any privilege left.
    for thread in std::fs::read_dir(format!("/proc/{}/task", daemon.child.id())).unwrap().flatten() {
        let lines = std::fs::read_to_string(thread.path().join("status")).unwrap();
        for set in ["CapPrm", "CapEff", "CapInh", "CapAmb"] {
            assert!(lines.contains(&format!("{set}:\t0000000000000000")), "{lines}");
        }
        assert!(lines.contains("NoNewPrivs:\t1"), "{lines}");
    }

    // A second daemon, with other arguments and the same folder.
    let mut second = Daemon::spawn(&cell, 1, folder.path(), &["--keyless", "--control", &control_name()]);
    assert_eq!(second.child.wait().unwrap().code(), Some(1));
    let named = || second.reported(&format!("running as process {}", daemon.child.id()));
    assert!(eventually(named), "{}", second.all());

    // The current metrics.
    let all = daemon.all();
    let address = all.split("http://").nth(1).unwrap().split("/metrics").next().unwrap();
    let scraped = cell.inside(1, || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    });
    check_metrics(&scraped);

    // Another policy over the socket, and another configuration by signal.
    let chosen = daemon.ask(&["policy", "off"]);
    assert!(chosen.status.success(), "{}", text(&chosen.stderr));
    daemon.until_rule(&traffic, &["none"]);
    std::fs::write(&config, format!("key_file = {key:?}\npolcy = \"steady\"\n")).unwrap();
    daemon.signal(nix::sys::signal::SIGHUP);
    let place = format!("{}:2:1: unknown field `polcy`", config.display());
    assert!(eventually(|| daemon.reported(&place) && daemon.reported("stays as it was")), "{}", daemon.all());
    assert_eq!(daemon.status()["policy"]["name"], "off");
    std::fs::write(&config, format!("key_file = {key:?}\npolicy = \"shimada2016\"\n")).unwrap();
    daemon.signal(nix::sys::signal::SIGHUP);
    let table = daemon.until_rule(&traffic, &["count", "rtt-table"]);
    assert_eq!(table["id"], flow["id"], "the flow went on");

    // After the end, the flow is as before, and continues.
    assert_eq!(traffic.control(), name);
    daemon.signal(nix::sys::signal::SIGTERM);
    assert_eq!(daemon.child.wait().unwrap().code(), Some(0));
    assert_ne!(traffic.control(), name);
    assert!(eventually(|| daemon.reported("former congestion control again: 1 flow")), "{}", daemon.all());
    let before = traffic.received();
    assert!(eventually(|| traffic.received() > before + 1_000_000));
    assert!(!daemon.runtime.join("share.sock").exists());
    let asked = daemon.ask(&["status"]);
    assert_eq!(asked.status.code(), Some(1));
    assert!(text(&asked.stderr).contains("no daemon runs there"), "{}", text(&asked.stderr));
    // The node's identity was kept.
    let node = status["interfaces"][0]["node"].as_str().unwrap().to_owned();
    assert_eq!(std::fs::read_to_string(folder.path().join("state/node")).unwrap().trim(), node);
}

#[test]
fn a_restarted_daemon_bounds_the_flows_that_the_previous_one_released() {
    const TEST: &str = "a_restarted_daemon_bounds_the_flows_that_the_previous_one_released";
    let Some(cell) = Cell::or_skip(TEST, 1) else { return };
    let folder = tempfile::tempdir().unwrap();
    let traffic = cell.traffic(1);
    for _ in 0..3 {
        let name = control_name();
        let words = ["--keyless", "--control", &name];
        let Some(mut daemon) = Daemon::or_skip(TEST, &cell, folder.path(), &words) else { return };
        daemon.until_rule(&traffic, &["start-up", "share", "probe"]);
        assert_eq!(traffic.control(), name);
        daemon.signal(nix::sys::signal::SIGTERM);
        assert_eq!(daemon.child.wait().unwrap().code(), Some(0));
        assert_ne!(traffic.control(), name);
        let kept = std::fs::read_to_string(daemon.runtime.join("share.migrated")).unwrap();
        assert_eq!(kept.lines().count(), 2, "the boot and one flow: {kept}");
    }
}

/// Each line is a comment or NAME{LABELS} NUMBER, and all mandatory metrics are present.
fn check_metrics(answer: &str) {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    let mut typed = std::collections::BTreeSet::new();
    for line in body.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let words: Vec<&str> = comment.split(' ').collect();
            assert!(words[0] == "HELP" || ["counter", "gauge"].contains(&words[2]), "{line}");
            typed.insert(words[1].to_owned());
            continue;
        }
        let (name, value) = line.rsplit_once(' ').unwrap();
        value.parse::<f64>().unwrap();
        let bare = name.split('{').next().unwrap();
        assert!(typed.contains(bare), "{line}");
        assert!(bare == name || name.ends_with("\"}"), "{line}");
    }
    for line in ["yuzuri_share_steers 1", "yuzuri_share_members{interface=\"eth0\"} 1"] {
        assert!(body.lines().any(|l| l == line), "no {line} in {body}");
    }
    let capacity = body
        .lines()
        .find_map(|l| l.strip_prefix("yuzuri_share_capacity_bits_per_second{interface=\"eth0\"} "));
    assert!(capacity.unwrap().parse::<f64>().unwrap() > 1e6);
    assert!(body.contains("yuzuri_share_flows{interface=\"eth0\",rule="), "{body}");
}

#[test]
fn a_killed_daemons_flow_is_unbounded_within_seconds_and_the_next_daemon_bounds_it() {
    const TEST: &str = "a_killed_daemons_flow_is_unbounded_within_seconds_and_the_next_daemon_bounds_it";
    let Some(cell) = Cell::or_skip(TEST, 1) else { return };
    let folder = tempfile::tempdir().unwrap();
    let name = control_name();
    let words = ["--keyless", "--control", &name];
    for round in 0..3 {
        let Some(mut daemon) = Daemon::or_skip(TEST, &cell, folder.path(), &words) else { return };
        let traffic = cell.traffic(1);
        daemon.until_rule(&traffic, &["share", "probe"]);
        let mut upper = 0;
        let bounded = || {
            upper = daemon.flow(&traffic).and_then(|flow| flow["bound"]["upper"].as_u64()).unwrap_or(0);
            upper > 0 && u64::from(traffic.cwnd()) <= upper
        };
        assert!(eventually(bounded), "round {round}: never bounded");
        daemon.child.kill().unwrap();
        let killed = Instant::now();
        daemon.child.wait().unwrap();
        let before = traffic.received();
        assert!(
            eventually(|| u64::from(traffic.cwnd()) * 10 > upper * 13),
            "round {round}: bounded by {upper} for ever"
        );
        // The flow is free before it has grown that far.
        assert!(killed.elapsed() < RELEASE_TIMEOUT + GROWTH_TIME, "round {round}: {:?}", killed.elapsed());
        println!("{TEST}: round {round}: beyond its bound after {:?}", killed.elapsed());
        assert!(
            eventually(|| traffic.received() > before + 1_000_000),
            "round {round}: the flow makes no progress"
        );
    }
    // Its congestion control is unregistered after its last flow has ended and another daemon has
    // started and stopped.
    let Some(mut last) = Daemon::or_skip(TEST, &cell, folder.path(), &words) else { return };
    last.signal(nix::sys::signal::SIGTERM);
    assert_eq!(last.child.wait().unwrap().code(), Some(0));
    assert!(!yuzuri_kernel::control::available().contains(&name));
    yuzuri_testnet::attack(
        "kill -9 of the daemon under traffic",
        3,
        "kills",
        "the flow is unbounded within 2 s and continues",
    );
}

#[test]
fn a_suspended_leader_rejoins_as_a_member_when_it_resumes() {
    const TEST: &str = "a_suspended_leader_rejoins_as_a_member_when_it_resumes";
    let Some(cell) = Cell::or_skip(TEST, 2) else { return };
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let names = [control_name(), control_name()];
    let words = |name| ["--keyless", "--control", name];
    let Some(first) = Daemon::or_skip(TEST, &cell, folders[0].path(), &words(&names[0])) else { return };
    let traffic = cell.traffic(1);
    let flow = first.until_rule(&traffic, &["share", "probe"]);
    assert_eq!(first.status()["interfaces"][0]["leads"], true);
    let second = Daemon::spawn(&cell, 2, folders[1].path(), &words(&names[1]));
    assert!(eventually(|| second.reported("sharing;")), "{}", second.all());
    let _other = cell.traffic(2);
    let leader = |daemon: &Daemon| daemon.status()["interfaces"][0]["leader"].as_str().map(str::to_owned);
    assert!(eventually(|| leader(&second).is_some() && leader(&second) == leader(&first)));
    // To the other members and the kernel, a stopped process is a suspended machine.
    first.signal(nix::sys::signal::Signal::SIGSTOP);
    let upper = flow["bound"]["upper"].as_u64().unwrap();
    assert!(
        eventually(|| u64::from(traffic.cwnd()) * 10 > upper * 13),
        "its flow is bounded by {upper} for ever"
    );
    assert!(
        eventually(|| second.status()["interfaces"][0]["leads"] == true),
        "nobody else leads: {}",
        second.all()
    );
    // Longer than any pause that is not a suspension.
    std::thread::sleep(Duration::from_secs(6));
    first.signal(nix::sys::signal::Signal::SIGCONT);
    let follows = || leader(&first).is_some() && leader(&first) == leader(&second);
    assert!(eventually(follows), "{:#}", first.status());
    // Its flow was unbounded meanwhile. The group saw that as traffic of a non-member, which keeps
    // windows wide for 30 s.
    first.until_rule(&traffic, &["start-up", "share", "probe", "contend"]);
    assert!(first.status()["late_ticks"].as_u64().unwrap() >= 1);
}

#[test]
fn keys_are_read_again_and_a_terminal_is_excluded() {
    const TEST: &str = "keys_are_read_again_and_a_terminal_is_excluded";
    let Some(cell) = Cell::or_skip(TEST, 1) else { return };
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let authority = |words: &[&str]| {
        let done = yuzuri(&[&["share", "authority"], words].concat());
        assert!(done.status.success(), "{words:?}: {}", text(&done.stderr));
        text(&done.stdout)
    };
    authority(&["new", &at("authority")]);
    for name in ["one", "two"] {
        authority(&["issue", &at("authority"), name, &at(name)]);
    }
    // Too wide permissions: a warning, and it works.
    let mode = |mode| std::fs::set_permissions(at("one"), PermissionsExt::from_mode(mode)).unwrap();
    mode(0o644);
    let write = |lines: &str| std::fs::write(at("share.toml"), lines).unwrap();
    let with_key = format!("key_file = {:?}\n", at("one"));
    write(&with_key);
    let (config, name) = (at("share.toml"), control_name());
    let words = ["--config", &config, "--control", &name];
    let Some(mut daemon) = Daemon::or_skip(TEST, &cell, folder.path(), &words) else { return };
    assert!(daemon.reported("chmod 0640"), "{}", daemon.all());
    assert!(text(&daemon.ask(&["status"]).stdout).contains("mode 0644"));
    let generation = |daemon: &Daemon| daemon.status()["interfaces"][0]["membership"]["generation"].clone();
    assert!(eventually(|| generation(&daemon) == 1), "{:#}", daemon.status());
    let traffic = cell.traffic(1);
    let flow = daemon.until_rule(&traffic, &["share", "probe"]);

    let checked = yuzuri(&["share", "check", &config]);
    assert!(checked.status.success() && text(&checked.stdout).contains("chmod 0640"), "{checked:?}");

    // An unusable key changes nothing.
    std::fs::write(at("weak"), [0; 32]).unwrap();
    write(&format!("key_file = {:?}\n", at("weak")));
    assert_eq!(yuzuri(&["share", "check", &config]).status.code(), Some(1));
    let refused = daemon.ask(&["reload"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("easy to guess"), "{}", text(&refused.stderr));
    assert!(text(&daemon.ask(&["status"]).stdout).contains("the last reload failed"));

    mode(0o600);
    authority(&["exclude", &at("authority"), "two", "--notices", &at("notices")]);
    assert!(authority(&["list", &at("authority")]).contains("two  excluded, generation 2"));
    write(&format!("{with_key}notice_file = {:?}\n", at("notices")));
    let done = daemon.ask(&["reload"]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert!(eventually(|| generation(&daemon) == 2), "{:#}", daemon.status());
    assert_eq!(daemon.status().get("warnings"), None);
    let same = daemon.until_rule(&traffic, &["share", "probe"]);
    assert_eq!((&same["id"], &same["control"]), (&flow["id"], &flow["control"]));

    // The next start knows the notice without receiving it again.
    assert!(eventually(|| Path::new(&at("state/notice")).exists()));
    daemon.signal(nix::sys::signal::SIGTERM);
    assert!(daemon.child.wait().unwrap().success());
    write(&with_key);
    let Some(daemon) = Daemon::or_skip(TEST, &cell, folder.path(), &words) else { return };
    assert!(eventually(|| generation(&daemon) == 2), "{:#}", daemon.status());
}

#[test]
fn usage_errors_and_bad_files_are_refused_with_reasons() {
    let says = |words: &[&str], code: i32, parts: &[&str]| {
        let output = yuzuri(&[&["share"], words].concat());
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {error}");
        assert!(parts.iter().all(|part| error.contains(part)), "{words:?}: {error}");
    };
    let folder = tempfile::tempdir().unwrap();
    let runtime = folder.path().join("run");
    let runtime = runtime.to_str().unwrap();
    let state = folder.path().to_str().unwrap();
    let here = ["--runtime", runtime, "--state", state];
    says(&["--policy", "fast"], 2, &["fast", "hayakawa2015"]);
    says(&["policy", "yuzuri", "--objective", "speed"], 2, &["speed", "balanced"]);
    says(&["--keyless", "--key-file", "k"], 2, &["cannot be used with"]);
    says(&["status", "--runtime", runtime], 1, &["no daemon runs there", "yuzuri share"]);
    says(&["check", "/nowhere/share.toml"], 1, &["/nowhere/share.toml", "No such file"]);
    let config = folder.path().join("share.toml");
    std::fs::write(&config, "# nothing of a key\nport = 48770\n").unwrap();
    let config = config.to_str().unwrap();
    says(&[&["--config", config], &here[..]].concat(), 1, &["no key is configured", "--keyless"]);
    let public = [&["--config", config, "--keyless", "--metrics", "0.0.0.0:9477"], &here[..]].concat();
    says(&public, 1, &["0.0.0.0:9477", "--metrics-public"]);
    let file = folder.path().join("short");
    std::fs::write(&file, "abc").unwrap();
    let short = [&["--config", config, "--key-file", file.to_str().unwrap()], &here[..]].concat();
    says(&short, 1, &["it holds 3 bytes"]);
}

#[test]
fn a_daemon_under_slow_clients_answers_and_ends_at_once() {
    const TEST: &str = "a_daemon_under_slow_clients_answers_and_ends_at_once";
    const CLIENTS: usize = 1000;
    /// The delay that a machine busy with other tests may add.
    const BUSY: Duration = Duration::from_secs(2);
    raise_open_files();
    let Some(cell) = Cell::or_skip(TEST, 1) else { return };
    let folder = tempfile::tempdir().unwrap();
    let name = control_name();
    let words = ["--keyless", "--control", &name, "--metrics", "127.0.0.1:0"];
    let Some(mut daemon) = Daemon::or_skip(TEST, &cell, folder.path(), &words) else { return };
    let traffic = cell.traffic(1);
    daemon.until_rule(&traffic, &["start-up", "share", "probe"]);
    let all = daemon.all();
    let metrics = all.split("http://").nth(1).unwrap().split("/metrics").next().unwrap().parse().unwrap();
    let _crowds = cell.inside(1, || {
        let crowds = [
            SlowClients::at_socket(&daemon.runtime.join("share.sock"), CLIENTS),
            SlowClients::at_port(metrics, CLIENTS),
        ];
        assert!(eventually(|| crowds.iter().all(|crowd| crowd.connected() == CLIENTS)));
        crowds
    });
    let mut times: Vec<Duration> = (0..5)
        .map(|_| {
            let began = Instant::now();
            daemon.status();
            began.elapsed()
        })
        .collect();
    times.sort();
    let chosen = daemon.ask(&["policy", "off"]);
    assert!(chosen.status.success(), "{}", text(&chosen.stderr));
    daemon.until_rule(&traffic, &["none"]);
    daemon.signal(nix::sys::signal::SIGTERM);
    let began = Instant::now();
    assert_eq!(daemon.child.wait().unwrap().code(), Some(0));
    let ended = began.elapsed();
    println!("{TEST}: `share status` took {times:?}, SIGTERM {ended:?}");
    assert!(times[2] < Duration::from_secs(1) && times[4] < Duration::from_secs(1) + BUSY, "{times:?}");
    assert!(ended < Duration::from_secs(1) + BUSY, "{ended:?}");
}

/// Prints the cost of sharing with 8 flows: `cargo test --release -p yuzuri --test share --
/// --ignored --nocapture`.
#[test]
#[ignore = "a measurement of a minute; its figures are worth something on a quiet machine only"]
fn cost_of_sharing_with_eight_flows() {
    const TEST: &str = "cost_of_sharing_with_eight_flows";
    const SECONDS: f64 = 30.0;
    let Some(cell) = Cell::or_skip(TEST, 1) else { return };
    let folder = tempfile::tempdir().unwrap();
    let name = control_name();
    let Some(daemon) = Daemon::or_skip(TEST, &cell, folder.path(), &["--keyless", "--control", &name]) else {
        return;
    };
    let traffic: Vec<Traffic> = (0..8).map(|_| cell.traffic(1)).collect();
    daemon.until_rule(&traffic[7], &["share", "probe"]);
    let pid = daemon.child.id();
    let ticks = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    };
    // Finer than ticks: CPU time of each thread, ns.
    let on_cpu_ns = || -> u64 {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
        tasks
            .map(|task| std::fs::read_to_string(task.path().join("schedstat")).unwrap())
            .map(|text| text.split(' ').next().unwrap().parse::<u64>().unwrap())
            .sum()
    };
    let (before, before_ns, began) = (ticks(), on_cpu_ns(), Instant::now());
    std::thread::sleep(Duration::from_secs_f64(SECONDS));
    let (spent, spent_ns, elapsed) =
        (ticks() - before, on_cpu_ns() - before_ns, began.elapsed().as_secs_f64());
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let memory: Vec<&str> =
        status.lines().filter(|l| l.starts_with("VmRSS") || l.starts_with("Rss")).collect();
    println!(
        "{TEST}: {:.3} % of a core ({spent} ticks of 10 ms in {elapsed:.1} s), {}",
        spent_ns as f64 / elapsed / 1e7,
        memory.join(", ").replace('\t', " ")
    );
}
