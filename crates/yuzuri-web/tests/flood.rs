//! Connections without the token that send nothing, or never complete a request, do not keep the
//! server from answering clients with the token. Runs in its own process, since it needs thousands
//! of descriptors.
#![allow(clippy::unwrap_used)]

mod common;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use yuzuri_web::{NoControl, Options, Page, Server, serve};

const HELD: usize = 10_000;
/// New connections each 10 ms while waiting for answers. Without a limit this would measure whether
/// the test or the server gets more CPU time.
const NEW_AT_ONCE: usize = 5;
/// Descriptors that the server and the test need besides these connections.
const OTHERS: u64 = 2_000;

fn open(ip: impl Into<std::net::IpAddr>) -> (Server, String) {
    let page = Page::new(common::model(), Arc::new(NoControl));
    let server = serve(Options::new(SocketAddr::new(ip.into(), 0)), page).unwrap();
    let token = server.url().split_once("token=").unwrap().1.to_owned();
    (server, token)
}

/// Requests the session; returns the status and the time from the first SYN to the last byte.
fn ask(addr: SocketAddr, token: &str) -> std::io::Result<(u16, Duration)> {
    let start = Instant::now();
    let mut stream = TcpStream::connect_timeout(&addr, Duration::from_secs(20))?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    let head = "GET /api/session HTTP/1.1\r\nHost: localhost\r\nConnection: close";
    write!(stream, "{head}\r\nAuthorization: Bearer {token}\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let status = answer.split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap_or(0);
    Ok((status, start.elapsed()))
}

/// Half a head, or nothing.
fn half_open(addr: SocketAddr, n: usize) -> std::io::Result<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&addr, Duration::from_secs(20))?;
    if !n.is_multiple_of(3) {
        // The server may have closed it already.
        let _ = stream.write_all(b"GET /api/session HTTP/1.1\r\nHost: localhost\r\nX-");
    }
    Ok(stream)
}

fn raise_limit() -> Option<u64> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    let hard = hard.max(if nix::unistd::geteuid().is_root() { HELD as u64 + OTHERS } else { 0 });
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).ok()?;
    (hard >= HELD as u64 + OTHERS).then_some(hard)
}

/// Holds half-open connections and replaces those that the server closes, while a client with the
/// token makes requests.
fn flooded(ip: std::net::IpAddr, local: std::net::IpAddr) {
    if raise_limit().is_none() {
        return println!("skipped: it needs {HELD} descriptors, and the hard limit is lower (ulimit -Hn)");
    }
    let (server, token) = open(ip);
    let addr = SocketAddr::new(local, server.addr().port());
    // Connected browsers stay connected.
    let mut stream = TcpStream::connect(addr).unwrap();
    write!(stream, "GET /api/live HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n")
        .unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let start = Instant::now();
    let mut held: Vec<TcpStream> = (0..HELD).map(|n| half_open(addr, n).unwrap()).collect();
    let opened = start.elapsed();
    // Answered once all of them have been accepted: from then on they are held.
    assert_eq!(ask(addr, &token).unwrap().0, 200);
    let (stop, made) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (stopped, count) = (stop.clone(), made.clone());
    let attacker = std::thread::spawn(move || {
        let mut place = 0;
        while !stopped.load(Ordering::Relaxed) {
            place = (place + 1) % HELD;
            if let Ok(new) = half_open(addr, place) {
                held[place] = new;
                count.fetch_add(1, Ordering::Relaxed);
            }
            if place.is_multiple_of(NEW_AT_ONCE) {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        held.len()
    });
    let mut worst = Duration::ZERO;
    for _ in 0..50 {
        let (status, took) = ask(addr, &token).unwrap();
        assert_eq!(status, 200);
        worst = worst.max(took);
        std::thread::sleep(Duration::from_millis(10));
    }
    stop.store(true, Ordering::Relaxed);
    let held = attacker.join().unwrap();
    let made = made.load(Ordering::Relaxed);
    println!(
        "{addr}: opened within {opened:?}, {held} half-open connections held, {made} more made: 50 answers, the slowest after {worst:?}"
    );
    assert!(worst < Duration::from_secs(1), "{worst:?}");
    assert_eq!(ask(addr, &"0".repeat(32)).unwrap().0, 401);
    // The stream continues: earlier and new messages arrive.
    let mut status_events = 0;
    let until = Instant::now() + Duration::from_secs(10);
    let mut buffer = [0; 65536];
    while status_events < 3 && Instant::now() < until {
        let length = stream.read(&mut buffer).unwrap();
        assert!(length > 0, "the stream ended");
        status_events += String::from_utf8_lossy(&buffer[..length]).matches("event: status").count();
    }
    assert!(status_events >= 3);
    drop(server);
    let tried = (HELD + made) as u64;
    yuzuri_testnet::attack(
        "half-open connections to the page",
        tried,
        "connections",
        "the token is answered within 1 s",
    );
}

/// One after the other: each needs all descriptors.
#[test]
fn a_client_with_the_token_is_answered_during_ten_thousand_half_open_connections() {
    flooded(Ipv4Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into());
    flooded(Ipv6Addr::UNSPECIFIED.into(), Ipv6Addr::LOCALHOST.into());
}

#[test]
fn a_request_head_sent_byte_by_byte_times_out() {
    let (server, token) = open(Ipv4Addr::LOCALHOST);
    let addr = server.addr();
    let mut slow = TcpStream::connect(addr).unwrap();
    slow.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let start = Instant::now();
    let mut ended = false;
    for byte in
        b"GET /api/session HTTP/1.1\r\nHost: localhost\r\nX-Never-Ends: ".iter().chain([b'x'; 1000].iter())
    {
        let written = slow.write_all(std::slice::from_ref(byte));
        let mut answer = [0; 512];
        ended = match slow.read(&mut answer) {
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => written.is_err(),
            _ => true,
        };
        if ended || start.elapsed() > Duration::from_secs(12) {
            break;
        }
    }
    let took = start.elapsed();
    assert!(ended && took >= Duration::from_millis(1900), "{ended} {took:?}");
    assert!(took < Duration::from_secs(6), "{took:?}");
    assert_eq!(ask(addr, &token).unwrap().0, 200);
}
