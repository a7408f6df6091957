//! `yuzuri why` and the end of `yuzuri watch` report which flows share a bottleneck, on the
//! kernel's own queues.
#![allow(clippy::unwrap_used, missing_docs)]

use serde_json::Value;
use socket2::{Domain, Socket, Type};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;
use yuzuri_testnet::{Net, Path, PathDirection, Side};

const YUZURI: &str = env!("CARGO_BIN_EXE_yuzuri");

/// Bulk transfers over their own path, until they are dropped.
struct Bulk {
    sockets: Vec<TcpStream>,
    threads: Vec<JoinHandle<()>>,
    locals: Vec<SocketAddr>,
    port: u16,
    _path: Path,
}

impl Bulk {
    fn start(net: &Net, flows: usize, rate_bps: u64) -> Bulk {
        let delay = Duration::from_millis(10);
        let there =
            PathDirection { rate_bps, queue_bytes: rate_bps / 8 / 10, ..PathDirection::with_delay(delay) };
        let path = Path::new(net, there, PathDirection::with_delay(delay), 1).unwrap();
        let listener = net.inside(Side::B, || TcpListener::bind((Path::v4(Side::B), 0)).unwrap());
        let to = listener.local_addr().unwrap();
        let (mut sockets, mut threads, mut locals) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..flows {
            let near: TcpStream = net.inside(Side::A, || {
                let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
                socket.set_tcp_congestion(b"cubic").unwrap();
                socket.connect(&to.into()).unwrap();
                socket.into()
            });
            let (far, _) = listener.accept().unwrap();
            locals.push(near.local_addr().unwrap());
            sockets.extend([near.try_clone().unwrap(), far.try_clone().unwrap()]);
            threads.push(std::thread::spawn(move || {
                let buffer = [0; 1 << 16];
                while (&near).write_all(&buffer).is_ok() {}
            }));
            threads.push(std::thread::spawn(move || {
                let mut buffer = [0; 1 << 16];
                while matches!((&far).read(&mut buffer), Ok(1..)) {}
            }));
        }
        Bulk { sockets, threads, locals, port: to.port(), _path: path }
    }
}

impl Drop for Bulk {
    fn drop(&mut self) {
        for socket in &self.sockets {
            let _ = socket.shutdown(std::net::Shutdown::Both);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Two flows share a queue, and a third has its own, in other namespaces of the same host.
#[test]
fn flows_of_one_queue_share_a_bottleneck_and_that_of_another_does_not() {
    let test = "flows_of_one_queue_share_a_bottleneck";
    let (Some(net), Some(other)) = (Net::or_skip(test), Net::or_skip(test)) else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.arrows");
    let (two, one) = (Bulk::start(&net, 2, 10_000_000), Bulk::start(&other, 1, 10_000_000));
    // From packets as well, if a capturing program is installed.
    let packets = folder.path().join("a.pcapng");
    let capture = || {
        let mut dumpcap = net.command(Side::A, "dumpcap");
        dumpcap.args(["-q", "-i", "path", "-s", "120", "-a", "duration:15", "-w"]).arg(&packets);
        dumpcap.stderr(Stdio::null()).spawn()
    };
    let captured = capture();
    let ports = [format!("rport:{}", two.port), format!("rport:{}", one.port)];
    let recorded = Command::new(YUZURI)
        .args(["watch", "--quiet", "--for", "15s", "--record"])
        .arg(&file)
        .args(&ports)
        .output()
        .unwrap();
    let closing = String::from_utf8_lossy(&recorded.stderr);
    assert!(recorded.status.success(), "{closing}");
    let why_of = |file: &std::path::Path, more: &[&str]| {
        let output =
            Command::new(YUZURI).arg("why").arg(file).args(more).stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let why = |more: &[&str]| why_of(&file, more);
    let lines: Vec<Value> =
        why(&["--json"]).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for local in two.locals.iter().chain(&one.locals) {
        assert!(lines.iter().any(|line| line["flow"]["local"] == local.to_string()), "{local}: {lines:#?}");
    }
    let shared: Vec<&Value> = lines.iter().filter(|line| line["kind"] == "shared-bottleneck").collect();
    println!("{shared:#?}");
    assert_eq!(shared.len(), 1, "{lines:#?}");
    let is_reported = |local: &SocketAddr| {
        shared[0]["flows"].as_array().unwrap().iter().any(|flow| flow["local"] == local.to_string())
    };
    assert!(two.locals.iter().all(is_reported), "{shared:#?}");
    assert!(!one.locals.iter().any(is_reported), "{shared:#?}");
    let words = why(&[]);
    let at = words.find("These 2 flows share a bottleneck").unwrap_or_else(|| panic!("{words}"));
    // The observation itself ended with the same text.
    assert!(closing.contains(&words[at..]), "{closing}\n{words}");
    match captured {
        // Packets show one round-trip time a round, fewer than the kernel's records, so that 15 s
        // of them may not exclude chance.
        Ok(mut captured) => {
            let is_reported = (0..3).any(|before| {
                if before > 0 {
                    captured = capture().unwrap();
                }
                assert!(captured.wait().unwrap().success());
                why_of(&packets, &[]).contains("These 2 flows share a bottleneck")
            });
            assert!(is_reported, "in three captures: {}", why_of(&packets, &[]));
        }
        Err(_) => println!("{test}: captures are skipped: dumpcap is not installed"),
    }
    // One flow alone shares with nobody.
    let alone = why(&["--json", &format!("lport:{}", two.locals[0].port())]);
    assert!(!alone.contains("shared-bottleneck"), "{alone}");
}
