//! `yuzuri ap` at a forwarding access point, without other users: the same uploads, with a shorter
//! queue.
#![allow(clippy::unwrap_used, missing_docs)]

mod ap_net;

use ap_net::{Daemon, network};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use yuzuri_share::ApStatus;
use yuzuri_testnet::{AccessPoint, Host, eventually};

const YUZURI: &str = env!("CARGO_BIN_EXE_yuzuri");
const STATIONS: u8 = 6;
/// The smoothed round-trip time of a socket, ms (`tcpi_rtt` of `TCP_INFO`).
fn rtt_ms(socket: &TcpStream) -> f64 {
    let info = yuzuri_kernel::own::info(socket.as_fd()).unwrap();
    f64::from(u32::from_ne_bytes(info[68..72].try_into().unwrap())) / 1e3
}

/// The result of uploads from all stations.
#[derive(Debug)]
struct Figures {
    mbps: Vec<f64>,
    rtt_ms: f64,
}

impl Figures {
    fn total(&self) -> f64 {
        self.mbps.iter().sum()
    }

    /// Jain's index of fairness.
    fn fairness(&self) -> f64 {
        let squares: f64 = self.mbps.iter().map(|x| x * x).sum();
        self.total().powi(2) / (squares * self.mbps.len() as f64)
    }
}

/// Uploads from all stations at the same time; measures for `measured` after `settle`. `then` runs
/// during the uploads.
fn uploads<T>(
    net: &AccessPoint,
    settle: Duration,
    measured: Duration,
    then: impl FnOnce() -> T,
) -> (Figures, T) {
    uploads_to(net, &vec![net.v4(Host::Server); STATIONS.into()], settle, measured, then)
}

/// The same, with a server address for each station.
fn uploads_to<T>(
    net: &AccessPoint,
    to: &[IpAddr],
    settle: Duration,
    measured: Duration,
    then: impl FnOnce() -> T,
) -> (Figures, T) {
    let listener = net.inside(Host::Server, || TcpListener::bind("0.0.0.0:0").unwrap());
    let port = listener.local_addr().unwrap().port();
    let pairs: Vec<(TcpStream, TcpStream, AtomicU64)> = (0..)
        .zip(to)
        .map(|(n, to)| {
            let near = net.inside(Host::Station(n), || TcpStream::connect((*to, port)).unwrap());
            // Independent of the host's default.
            socket2::SockRef::from(&near).set_tcp_congestion(b"cubic").unwrap();
            (near, listener.accept().unwrap().0, AtomicU64::new(0))
        })
        .collect();
    let stop = AtomicBool::new(false);
    // Stops the threads also if an assertion fails: the scope waits for them.
    struct Stop<'a>(&'a AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        for (near, far, received) in &pairs {
            let stop = &stop;
            scope.spawn(move || {
                let (mut near, block) = (near, [7; 16384]);
                while !stop.load(Ordering::Relaxed) && near.write_all(&block).is_ok() {}
                let _ = near.shutdown(std::net::Shutdown::Write);
            });
            scope.spawn(move || {
                let (mut far, mut buffer) = (far, vec![0; 65536]);
                while let Ok(length @ 1..) = far.read(&mut buffer) {
                    received.fetch_add(length as u64, Ordering::Relaxed);
                }
            });
        }
        std::thread::sleep(settle);
        let counts = || pairs.iter().map(|p| p.2.load(Ordering::Relaxed)).collect::<Vec<u64>>();
        let (start, before, mut rtts) = (Instant::now(), counts(), Vec::new());
        while start.elapsed() < measured {
            rtts.extend(pairs.iter().map(|(near, ..)| rtt_ms(near)));
            std::thread::sleep(Duration::from_millis(20));
        }
        let seconds = start.elapsed().as_secs_f64();
        let mbps =
            counts().into_iter().zip(before).map(|(now, before)| (now - before) as f64 * 8.0 / seconds / 1e6);
        let mbps = mbps.collect();
        let figures = Figures { mbps, rtt_ms: rtts.iter().sum::<f64>() / rtts.len() as f64 };
        (figures, then())
    })
}

impl Daemon {
    fn start(net: &AccessPoint, runtime: &Path, words: &[&str]) -> Daemon {
        let mut command = net.command(Host::AccessPoint, YUZURI);
        command.args(["ap", "--runtime"]).arg(runtime).args(["-i", "br0"]).args(words);
        let daemon = Daemon(command.stderr(Stdio::inherit()).spawn().unwrap());
        assert!(eventually(|| status(runtime).is_some()), "the daemon does not start");
        daemon
    }
}

fn asked(runtime: &Path, words: &[&str]) -> std::process::Output {
    Command::new(YUZURI).args(["ap", "status", "--runtime"]).arg(runtime).args(words).output().unwrap()
}

fn status(runtime: &Path) -> Option<ApStatus> {
    let output = asked(runtime, &["--json"]);
    output.status.success().then(|| serde_json::from_slice(&output.stdout).unwrap())
}

/// Whether this machine supports the gate; otherwise prints why not.
fn can(test: &str, net: &AccessPoint) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let mut command = net.command(Host::AccessPoint, YUZURI);
    let refused = command.args(["ap", "-i", "nothing", "--runtime"]).arg(folder.path()).output().unwrap();
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success());
    if !why.contains("there is no device") {
        println!("{test}: skipped: {why}");
        return false;
    }
    true
}

#[test]
fn stations_without_the_program_share_and_queues_are_short() {
    let test = "stations_without_the_program_share_and_queues_are_short";
    let Some(net) = network(test, STATIONS) else { return };
    if !can(test, &net) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let runtime = folder.path().join("run");
    let (settle, measured) = (Duration::from_secs(8), Duration::from_secs(8));
    let (plain, ()) = uploads(&net, settle, measured, || ());

    let mut daemon = Some(Daemon::start(&net, &runtime, &[]));
    let bounded = |reported: &ApStatus| reported.stations.iter().filter(|s| s.bounded == 1).count();
    // If this machine stalls, the wire drops packets although its queue is short. The daemon then
    // suspends bounds for 30 s, as on a lossy path. Such a measurement is repeated with new
    // uploads.
    let mut measure = || {
        uploads(&net, settle, measured, || {
            let reported = status(&runtime).unwrap();
            let text = String::from_utf8(asked(&runtime, &[]).stdout).unwrap();
            // The daemon releases the uploads and removes the gate; the uploads continue.
            let code = if bounded(&reported) >= 5 { daemon.take().unwrap().end() } else { None };
            (reported, text, code)
        })
    };
    let (shared, (reported, text, code)) = (0..3)
        .map(|_| measure())
        .find(|(_, (reported, ..))| bounded(reported) >= 5)
        .expect("in three measurements, the uploads were not bounded");
    println!(
        "{test}: {:.1} -> {:.1} Mbit/s, {:.1} -> {:.1} ms, Jain {:.3} -> {:.3}",
        plain.total(),
        shared.total(),
        plain.rtt_ms,
        shared.rtt_ms,
        plain.fairness(),
        shared.fairness()
    );
    // An idle machine yields 175 -> 22 ms, and the same total, evenly (`make ap-figures` prints
    // figures). A machine that stalls at times must not fail: 176 -> 100 ms and an index of 0.89
    // have been seen under load.
    assert!(shared.rtt_ms < 0.8 * plain.rtt_ms, "{plain:?} {shared:?}");
    assert!(shared.total() > 0.7 * plain.total(), "{plain:?} {shared:?}");
    assert!(shared.fairness() > 0.7, "{shared:?}");

    assert_eq!(reported.stations.len(), usize::from(STATIONS), "{reported:?}");
    assert!(reported.stations.iter().all(|s| s.uploads == 1 && s.share_bps.is_some()), "{reported:?}");
    assert_eq!((reported.segments.failed, reported.problems.len()), (0, 0), "{reported:?}");
    assert!(reported.segments.lowered > 1000);
    assert_eq!(reported.devices[0].name, "br0");
    assert!(text.contains("bounds uploads") && text.contains("6/6") | text.contains("1/1"), "{text}");
    assert_eq!(code, Some(0));
    assert!(asked(&runtime, &[]).status.code() == Some(1), "its status is gone with it");
    let errors: u64 = net.hosts().map(|host| net.counter(host, "InCsumErrors")).sum();
    assert_eq!(errors, 0);
}

/// A tunnel in UDP from a station to the server (VXLAN); returns the server's address in it.
fn tunnel(net: &AccessPoint, n: u8) -> IpAddr {
    let ends = [
        (Host::Station(n), "eth0", 1, net.v4(Host::Server)),
        (Host::Server, "wan", 2, net.v4(Host::Station(n))),
    ];
    for (host, device, end, remote) in ends {
        let name = format!("vx{n}");
        for words in [
            format!("link add name {name} type vxlan id {} remote {remote} dstport 4789 dev {device}", n + 1),
            format!("addr add 10.99.{n}.{end}/24 dev {name}"),
            format!("link set {name} up"),
        ] {
            let done = net.command(host, "ip").args(words.split(' ')).output().unwrap();
            assert!(done.status.success(), "ip {words}: {}", String::from_utf8_lossy(&done.stderr));
        }
    }
    IpAddr::from([10, 99, n, 2])
}

/// Two stations with uploads that the gate can bound, two that upload through a tunnel, which it
/// cannot bound, and a call of 100 kbit/s on one of the latter.
#[test]
fn tunnelled_uploads_are_policed_to_their_share_and_a_call_loses_no_packet() {
    let test = "tunnelled_uploads_are_policed_to_their_share_and_a_call_loses_no_packet";
    let Some(net) = network(test, STATIONS) else { return };
    if !can(test, &net) {
        return;
    }
    let server = net.v4(Host::Server);
    let to = [server, server, tunnel(&net, 2), tunnel(&net, 3)];
    let folder = tempfile::tempdir().unwrap();
    let (settle, measured) = (Duration::from_secs(8), Duration::from_secs(10));
    // The effect without the policer.
    let daemon = Daemon::start(&net, folder.path(), &["--no-police"]);
    let (before, reported) = uploads_to(&net, &to, settle, measured, || status(folder.path()).unwrap());
    assert_eq!((reported.segments.dropped, daemon.end()), (0, Some(0)));
    let _daemon = Daemon::start(&net, folder.path(), &[]);
    let listener_socket = net.inside(Host::Server, || UdpSocket::bind((server, 5004)).unwrap());
    listener_socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let caller = net.inside(Host::Station(3), || UdpSocket::bind("0.0.0.0:0").unwrap());
    caller.connect((server, 5004)).unwrap();
    let stop = AtomicBool::new(false);
    let (figures, reported, (sent, received)) = std::thread::scope(|scope| {
        let call = scope.spawn(|| {
            let (mut sent, mut next) = (0u32, Instant::now());
            while !stop.load(Ordering::Relaxed) {
                caller.send(&[7; 250]).unwrap();
                sent += 1;
                next += Duration::from_millis(20);
                std::thread::sleep(next.saturating_duration_since(Instant::now()));
            }
            sent
        });
        let listener = scope.spawn(|| {
            let mut received = 0u32;
            // Read until half a second has passed without a packet.
            while listener_socket.recv(&mut [0; 300]).is_ok() {
                received += 1;
            }
            received
        });
        let (figures, reported) = uploads_to(&net, &to, settle, measured, || status(folder.path()).unwrap());
        stop.store(true, Ordering::Relaxed);
        (figures, reported, (call.join().unwrap(), listener.join().unwrap()))
    });
    println!(
        "{test}: {:.1?} -> {:.1?} Mbit/s, Jain {:.3} -> {:.3}, {:.1} -> {:.1} ms; call: {received} of {sent} packets arrived; {} packets dropped, {} marked",
        before.mbps,
        figures.mbps,
        before.fairness(),
        figures.fairness(),
        before.rtt_ms,
        figures.rtt_ms,
        reported.segments.dropped,
        reported.segments.marked
    );
    assert_eq!((received, sent > 700), (sent, true), "the call");
    let policed = reported.stations.iter().filter(|s| s.other_bps > 1_000_000).collect::<Vec<_>>();
    assert_eq!(policed.len(), 2, "{reported:?}");
    // 0.99 and more on an idle machine; thirds have been seen under load.
    assert!(figures.fairness() > 0.8, "{figures:?}");
}

#[test]
fn a_dry_run_reports_and_changes_nothing() {
    let test = "a_dry_run_reports_and_changes_nothing";
    let Some(net) = network(test, STATIONS) else { return };
    if !can(test, &net) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(&net, folder.path(), &["--dry-run"]);
    let (_, reported) = uploads(&net, Duration::from_secs(8), Duration::from_secs(1), || {
        assert!(eventually(|| status(folder.path()).unwrap().stations.iter().any(|s| s.bounded > 0)));
        status(folder.path()).unwrap()
    });
    assert!(reported.dry_run);
    assert_eq!(reported.segments.lowered, 0);
    assert!(reported.segments.down > 1000 && reported.segments.up > 1000);
    // A second daemon is refused; the error names the command that shows the first.
    let mut second = net.command(Host::AccessPoint, YUZURI);
    let second = second.args(["ap", "-i", "br0", "--runtime"]).arg(folder.path()).output().unwrap();
    assert_eq!(second.status.code(), Some(1));
    let why = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(why.contains("yuzuri ap status"), "{why}");
    assert_eq!(daemon.end(), Some(0));
}

#[test]
fn the_gate_daemon_drops_its_privileges() {
    let test = "the_gate_daemon_drops_its_privileges";
    let Some(net) = network(test, STATIONS) else { return };
    if !can(test, &net) {
        return;
    }
    for (words, kept) in [(&[][..], 0_u64), (&["--clsact"][..], 1 << 12)] {
        let folder = tempfile::tempdir().unwrap();
        let daemon = Daemon::start(&net, folder.path(), words);
        let pid = status(folder.path()).unwrap().pid;
        let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let capabilities = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            u64::from_str_radix(line.trim(), 16).unwrap()
        };
        for set in ["CapPrm:", "CapEff:"] {
            assert_eq!(capabilities(set), kept, "{words:?}: {set}");
        }
        assert_eq!(capabilities("CapBnd:"), 0);
        assert_eq!(daemon.end(), Some(0));
        let shown =
            net.command(Host::AccessPoint, "tc").args(["filter", "show", "dev", "br0", "egress"]).output();
        assert_eq!(String::from_utf8_lossy(&shown.unwrap().stdout).trim(), "", "{words:?}");
    }
}

/// The settings' file takes effect, SIGHUP reads it again, and an invalid file changes nothing.
#[test]
fn settings_come_from_a_file_and_are_read_again() {
    let test = "settings_come_from_a_file_and_are_read_again";
    let Some(net) = network(test, STATIONS) else { return };
    if !can(test, &net) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (file, metrics) = (folder.path().join("ap.toml"), folder.path().join("ap.prom"));
    let write = |rest: &str| {
        let head = format!("interface = [\"br0\"]\nmetrics_file = \"{}\"\n", metrics.display());
        std::fs::write(&file, head + rest).unwrap();
    };
    write("objective = \"latency\"\n[guests]\nmax_mbps = 2\n");
    let config = file.to_str().unwrap();
    let mut command = net.command(Host::AccessPoint, YUZURI);
    command.args(["ap", "run", "--config", config, "--runtime"]).arg(folder.path());
    let mut daemon = Daemon(command.stderr(Stdio::piped()).spawn().unwrap());
    assert!(eventually(|| status(folder.path()).is_some()));
    let lines = BufReader::new(daemon.0.stderr.take().unwrap()).lines();
    let mut lines = lines.map(Result::unwrap);
    let reported = || status(folder.path()).unwrap();
    assert_eq!(reported().policy.objective, yuzuri_policy::Objective::Latency);
    let (figures, ()) = uploads(&net, Duration::from_secs(4), Duration::from_secs(4), || {
        let text = std::fs::read_to_string(&metrics).unwrap();
        assert!(text.contains("yuzuri_ap_station_rate_bps{station=\""), "{text}");
        assert!(text.contains("# TYPE yuzuri_ap_windows_lowered_total counter"), "{text}");
        let printed = asked(folder.path(), &["--metrics"]).stdout;
        assert!(String::from_utf8(printed).unwrap().contains("yuzuri_ap_senders 6"));
        let least =
            reported().stations.iter().flat_map(|s| &s.flows).all(|f| f.bound_bytes == Some(4 * 1460));
        assert!(least, "{:?}", reported().stations);
    });
    // On a path without delay no window is small enough for 2 Mbit/s: each flow has the minimum
    // window of four segments.
    println!("{test}: {:.2?} Mbit/s, {:.1} ms", figures.mbps, figures.rtt_ms);
    assert!(figures.rtt_ms < 30.0, "{figures:?}");

    let pid = nix::unistd::Pid::from_raw(daemon.0.id() as i32);
    let mut hang_up = |what: &str| {
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGHUP).unwrap();
        assert!(lines.any(|line| line.contains(what)), "{what}");
    };
    write("[guests]\nweight = 99\n");
    hang_up("weight: 99 is not from 0.1 to 10");
    assert_eq!(reported().policy.objective, yuzuri_policy::Objective::Latency, "the settings stay");
    write("objective = \"throughput\"\n");
    hang_up("the settings were reloaded");
    assert!(eventually(|| reported().policy.objective == yuzuri_policy::Objective::Throughput));
    let (figures, ()) = uploads(&net, Duration::from_secs(4), Duration::from_secs(3), || ());
    assert!(figures.total() > 25.0, "the limit is gone: {figures:?}");
    let checked = Command::new(YUZURI).args(["ap", "check", config]).output().unwrap();
    assert!(checked.status.success());
    assert_eq!(daemon.end(), Some(0));
}

/// When a device disappears, the gate goes with it: the daemon reports it and exits, so that a
/// service manager restarts it.
#[test]
fn the_gate_daemon_exits_when_its_device_is_removed() {
    let test = "the_gate_daemon_exits_when_its_device_is_removed";
    let Some(net) = network(test, STATIONS) else { return };
    if !can(test, &net) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for words in [&[][..], &["--clsact"][..]] {
        let mut command = net.command(Host::AccessPoint, YUZURI);
        command.args(["ap", "-i", "s5", "--runtime"]).arg(folder.path()).args(words);
        let mut daemon = Daemon(command.stderr(Stdio::piped()).spawn().unwrap());
        assert!(eventually(|| status(folder.path()).is_some_and(|s| s.pid == daemon.0.id())));
        // Another device of the same name.
        for words in ["link del s5", "link add name s5 type bridge"] {
            let done = net.command(Host::AccessPoint, "ip").args(words.split(' ')).status().unwrap();
            assert!(done.success(), "{words}");
        }
        let mut why = String::new();
        daemon.0.stderr.take().unwrap().read_to_string(&mut why).unwrap();
        assert_eq!(daemon.0.wait().unwrap().code(), Some(1));
        assert!(why.contains("device s5 was removed or recreated"), "{why}");
    }
}

/// The packaged example contains exactly what the program reads.
#[test]
fn the_package_s_settings_are_right() {
    let example =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/ap.toml")).unwrap();
    // Every setting, without its comment sign.
    let is_setting = |line: &str| line.starts_with('#') && !line.starts_with("# ") && line.len() > 1;
    let used: String = example
        .lines()
        .map(|l| if is_setting(l) { format!("{}\n", &l[1..]) } else { format!("{l}\n") })
        .collect();
    let folder = tempfile::tempdir().unwrap();
    for (name, text, says) in [("as-it-is", &example, "0 stations"), ("used", &used, "own: 1 station")] {
        let file = folder.path().join(name);
        std::fs::write(&file, text).unwrap();
        let checked = Command::new(YUZURI).args(["ap", "check"]).arg(&file).output().unwrap();
        let out = String::from_utf8_lossy(&checked.stdout).into_owned();
        assert!(out.contains(says), "{name}: {out}{}", String::from_utf8_lossy(&checked.stderr));
    }
}

/// The lock and status left by a killed daemon do not prevent another one from starting.
#[test]
fn after_a_kill_another_one_starts() {
    let test = "after_a_kill_another_one_starts";
    let Some(net) = network(test, STATIONS) else { return };
    if !can(test, &net) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut before = None;
    for words in [&[][..], &["--clsact"][..], &[][..]] {
        let mut daemon = Daemon::start(&net, folder.path(), words);
        assert!(eventually(|| status(folder.path()).is_some_and(|s| s.pid == daemon.0.id())));
        assert_ne!(before, Some(daemon.0.id()));
        before = Some(daemon.0.id());
        daemon.0.kill().unwrap();
        daemon.0.wait().unwrap();
    }
    let shown =
        net.command(Host::AccessPoint, "tc").args(["filter", "show", "dev", "br0", "egress"]).output();
    let shown = String::from_utf8(shown.unwrap().stdout).unwrap();
    assert!(shown.contains("down"), "the killed one's filter is there, without effect: {shown}");
    let daemon = Daemon::start(&net, folder.path(), &["--clsact"]);
    assert!(eventually(|| status(folder.path()).is_some_and(|s| s.pid == daemon.0.id())));
    assert_eq!(daemon.end(), Some(0));
    let shown =
        net.command(Host::AccessPoint, "tc").args(["filter", "show", "dev", "br0", "egress"]).output();
    assert_eq!(String::from_utf8(shown.unwrap().stdout).unwrap().trim(), "");
}

#[test]
fn without_a_device_the_error_has_advice() {
    let folder = tempfile::tempdir().unwrap();
    let refused = Command::new(YUZURI).args(["ap", "--runtime"]).arg(folder.path()).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(why.contains("name the bridge towards the stations") && why.contains("--interface"), "{why}");
}
