//! `yuzuri ap` with more connections than its table holds: its memory is bounded, and what it does
//! not track passes.
#![allow(clippy::unwrap_used, missing_docs)]

mod ap_net;

use ap_net::{Daemon, YUZURI, network, status};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use yuzuri_testnet::{AccessPoint, Host, eventually};

const CONNECTIONS: usize = 10_000;
/// The daemon's memory for a connection, kB: its state, and the copies that a tick makes.
const MAX_KB_EACH: u64 = 5;

/// The connections listed; 0 while the daemon does not answer.
fn uploads(runtime: &Path) -> usize {
    status(runtime).iter().flat_map(|s| &s.stations).map(|station| station.uploads as usize).sum()
}

/// The daemon's time, once it answers.
fn daemon_s(runtime: &Path) -> f64 {
    let mut at_s = None;
    assert!(eventually(|| {
        at_s = status(runtime).map(|status| status.at_s);
        at_s.is_some()
    }));
    at_s.unwrap()
}

/// Opens connections, each of which sends a segment. The server's ends stay in the listener's queue
/// of connections, where they need no descriptors; their kernel acknowledges the data.
fn open(net: &AccessPoint, to: SocketAddr) -> Vec<TcpStream> {
    let one = |_| {
        let near = TcpStream::connect(to).unwrap();
        // Closed by a reset, so that no port stays in TIME_WAIT.
        socket2::SockRef::from(&near).set_linger(Some(Duration::ZERO)).unwrap();
        near
    };
    let sockets: Vec<TcpStream> = net.inside(Host::Station(0), || (0..CONNECTIONS).map(one).collect());
    send(&sockets);
    sockets
}

/// A segment on each connection.
fn send(sockets: &[TcpStream]) {
    for mut socket in sockets {
        socket.write_all(&[7; 100]).unwrap();
    }
}

/// Whether everything sent is acknowledged (`tcpi_unacked` of `TCP_INFO`).
fn all_arrived(sockets: &[TcpStream]) -> bool {
    let unacked = |socket: &TcpStream| {
        let info = yuzuri_kernel::own::info(socket.as_fd()).unwrap();
        u32::from_ne_bytes(info[24..28].try_into().unwrap())
    };
    sockets.iter().all(|socket| unacked(socket) == 0)
}

/// Peak resident memory of a process, kB, and its CPU time so far, seconds.
fn used(pid: u32) -> (u64, f64) {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let ticks = stat.rsplit(") ").next().unwrap().split(' ').skip(11).take(2);
    let ticks: u64 = ticks.map(|ticks| ticks.parse::<u64>().unwrap()).sum();
    (line.trim().trim_end_matches(" kB").parse().unwrap(), ticks as f64 / 100.0)
}

#[test]
fn ten_thousand_connections_take_bounded_memory() {
    let test = "ten_thousand_connections_take_bounded_memory";
    let Some(net) = network(test, 1) else { return };
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    if most < CONNECTIONS as u64 + 100 {
        return println!("{test}: skipped: only {most} open files are allowed");
    }
    setrlimit(Resource::RLIMIT_NOFILE, most, most).unwrap();
    net.set(Host::Server, "net.core.somaxconn", "65535").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut command = net.command(Host::AccessPoint, YUZURI);
    command.args(["ap", "-i", "s0", "--runtime"]).arg(folder.path());
    let mut daemon = Daemon(command.stderr(Stdio::piped()).spawn().unwrap());
    let runtime = folder.path();
    let mut ended = || daemon.0.try_wait().unwrap().is_some();
    assert!(eventually(|| status(runtime).is_some() || ended()), "the daemon does not start");
    if status(runtime).is_none() {
        let mut why = String::new();
        daemon.0.stderr.take().unwrap().read_to_string(&mut why).unwrap();
        return println!("{test}: skipped: {why}");
    }
    let pid = daemon.0.id();
    let (idle_kb, _) = used(pid);
    let listener = net.inside(Host::Server, || TcpListener::bind("0.0.0.0:0").unwrap());
    socket2::SockRef::from(&listener).listen(3 * CONNECTIONS as i32).unwrap();
    let to = SocketAddr::new(net.v4(Host::Server), listener.local_addr().unwrap().port());
    let sockets = open(&net, to);
    // A connection that is silent for 10 s is not listed.
    let all_listed = || {
        send(&sockets);
        uploads(runtime) == CONNECTIONS
    };
    assert!(eventually(all_listed), "{} uploads", uploads(runtime));
    let (before, at_s) = (used(pid).1, daemon_s(runtime));
    assert!(eventually(|| all_listed() && daemon_s(runtime) > at_s + 5.0));
    let (kb, cpu_s) = used(pid);
    let passed_s = daemon_s(runtime) - at_s;
    println!(
        "{CONNECTIONS} connections: peak {kb} kB ({idle_kb} without), {:.1} % of a core",
        (cpu_s - before) / passed_s * 100.0
    );
    assert!(kb < idle_kb + MAX_KB_EACH * CONNECTIONS as u64, "{kb} kB, {idle_kb} kB without connections");
    // As many again: more than the table holds. All of them work, and the memory stays bounded.
    drop(sockets);
    let more = open(&net, to);
    assert!(eventually(|| all_arrived(&more)), "some data is not acknowledged");
    assert!(eventually(|| uploads(runtime) > 0), "no connection is listed");
    let (more_kb, _) = used(pid);
    println!("after {} connections: peak {more_kb} kB", 2 * CONNECTIONS);
    assert!(more_kb < idle_kb + 2 * MAX_KB_EACH * CONNECTIONS as u64, "{more_kb} kB");
    drop(more);
    assert_eq!(daemon.end(), Some(0));
}
