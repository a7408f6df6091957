//! Steps of the wall clock: by an hour and by half a second, forward and back. Monotonic times of
//! records do not change, a bound lasts as long as it was set for, and the page and the records
//! have the new wall time as soon as the next account is made, once a second. CLOCK_REALTIME
//! belongs to the whole machine, so the test runs itself in a guest.
#![allow(clippy::unwrap_used, missing_docs)]

mod program;

use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime, clock_settime};
use program::{Running, YUZURI, json_lines, of_kind, text};
use serde_json::Value;
use socket2::{Domain, SockRef, Socket, Type};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use yuzuri_kernel::clock::{mono_ns, wall_offset_ns};
use yuzuri_kernel::control::{Bound, CongestionControl, CubicParams};
use yuzuri_testnet::eventually;
use yuzuri_trace::FlowId;
use yuzuri_vm::{Equipment, Guest, Image, Kernel};

const KERNEL: Kernel = Kernel::Linux6_12Amd64;
/// The program in the guest.
const IN_GUEST: &str = "/usr/bin/yuzuri";
/// Set in the guest.
const MAY_STEP: &str = "YUZURI_TEST_MAY_STEP_THE_CLOCK";
const STEPS_NS: [i64; 4] = [3_600_000_000_000, -500_000_000, 500_000_000, -3_600_000_000_000];
const DAY_NS: i64 = 86_400_000_000_000;
/// The largest error of a wall time.
const WITHIN_NS: i64 = 1_000_000;
/// An account is made once a second, and the page has its status twice a second.
const LEARNS_WITHIN: Duration = Duration::from_secs(2);
const EXCHANGES: usize = 10;

#[test]
#[ignore = "boots a guest: make test-kernels"]
fn a_step_of_the_wall_clock_changes_wall_times_only() {
    if let Some(why) = Image::missing(KERNEL, Equipment::Plain) {
        println!("a_step_of_the_wall_clock_changes_wall_times_only: skipped: {why}");
        return;
    }
    for test in ["records_and_the_page_follow_the_wall_clock", "a_bound_lasts_as_long_as_it_was_set_for"] {
        let outcome = Guest::new(KERNEL)
            .file(YUZURI, IN_GUEST)
            .file(std::env::current_exe().unwrap(), "/root/clock_steps")
            .env(MAY_STEP, "1")
            .program(["/root/clock_steps", "--exact", test, "--nocapture"])
            .run(&mut |_| {}, &AtomicBool::new(false))
            .unwrap();
        println!("{}", outcome.output);
        assert_eq!(outcome.code, 0, "{test}: {}", outcome.output);
        assert!(outcome.output.contains("1 passed"), "{test}: {}", outcome.output);
    }
}

fn is_guest() -> bool {
    std::env::var_os(MAY_STEP).is_some()
}

fn wall_ns() -> i64 {
    clock_gettime(ClockId::CLOCK_REALTIME).unwrap().num_nanoseconds()
}

/// Steps the wall clock. Returns by how much its difference to the monotonic clock changed.
fn step(by_ns: i64) -> i64 {
    let before_ns = wall_offset_ns();
    let to = Duration::from_nanos((wall_ns() + by_ns) as u64);
    clock_settime(ClockId::CLOCK_REALTIME, to.into()).unwrap();
    wall_offset_ns() - before_ns
}

/// Two connected sockets, and the near one's address.
fn connected(control: Option<&str>) -> (TcpStream, TcpStream, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    if let Some(control) = control {
        socket.set_tcp_congestion(control.as_bytes()).unwrap();
    }
    socket.connect(&listener.local_addr().unwrap().into()).unwrap();
    let near = TcpStream::from(socket);
    near.set_nodelay(true).unwrap();
    let address = near.local_addr().unwrap();
    (near, listener.accept().unwrap().0, address)
}

/// One byte each way.
fn exchange(near: &mut TcpStream, far: &mut TcpStream) {
    near.write_all(&[7]).unwrap();
    far.read_exact(&mut [0]).unwrap();
    far.write_all(&[7]).unwrap();
    near.read_exact(&mut [0]).unwrap();
}

/// Exchanges, each with its span of monotonic and wall time, nanoseconds.
fn exchanges(near: &mut TcpStream, far: &mut TcpStream) -> Vec<[(i64, i64); 2]> {
    let mut spans = Vec::new();
    for _ in 0..EXCHANGES {
        let [mono, wall] = [mono_ns() as i64, wall_ns()];
        exchange(near, far);
        spans.push([(mono, mono_ns() as i64), (wall, wall_ns())]);
    }
    spans
}

/// Address and token, from the line that announces the page.
fn page_at(said: &str) -> (SocketAddr, String) {
    let url = said.split("http://").nth(1).unwrap().split([';', ' ']).next().unwrap();
    let (address, token) = url.split_once("/#token=").unwrap();
    (address.parse().unwrap(), token.to_owned())
}

/// The window of a flow, segments.
fn cwnd(near: SocketAddr) -> u32 {
    let shown = Command::new("ss").args(["-Htin", &format!("sport = :{}", near.port())]).output().unwrap();
    let shown = text(&shown.stdout);
    let number = shown.split_whitespace().find_map(|word| word.strip_prefix("cwnd:"));
    number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no window in '{shown}'"))
}

/// The page's stream of events, and the Unix time of its origin, microseconds.
struct PageTime(BufReader<TcpStream>);

impl PageTime {
    fn open(address: SocketAddr, token: &str) -> PageTime {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let bearer = format!("Authorization: Bearer {token}\r\n");
        write!(stream, "GET /api/live HTTP/1.1\r\nHost: {address}\r\n{bearer}\r\n").unwrap();
        PageTime(BufReader::new(stream))
    }

    fn next_origin_us(&mut self) -> i64 {
        loop {
            let mut line = String::new();
            assert_ne!(self.0.read_line(&mut line).unwrap(), 0, "the page's stream ended");
            let data = line.strip_prefix("data: ").and_then(|data| serde_json::from_str::<Value>(data).ok());
            if let Some(origin_us) = data.and_then(|data| data["zero_unix_us"].as_i64()) {
                return origin_us;
            }
        }
    }

    /// The first one that differs from this one by at least a tenth of a second.
    fn new_origin_us(&mut self, before_us: i64) -> i64 {
        let begun = Instant::now();
        loop {
            let origin_us = self.next_origin_us();
            if origin_us.abs_diff(before_us) > 100_000 {
                return origin_us;
            }
            assert!(begun.elapsed() < LEARNS_WITHIN + Duration::from_secs(1), "the page has the old time");
        }
    }
}

/// Runs in the guest.
#[test]
fn records_and_the_page_follow_the_wall_clock() {
    if !is_guest() {
        return println!("skipped: it would step this machine's clock; another test runs it in a guest");
    }
    let folder = tempfile::tempdir().unwrap();
    let recording = folder.path().join("flow.arrows");
    let (mut near, mut far, address) = connected(None);
    let watch = |more: &[&str]| {
        let filter = format!("port:{}", address.port());
        let mut command = Command::new(IN_GUEST);
        command.args(["watch", &filter, "--density", "ack"]).args(more);
        let mut watch = Running::start(&mut command);
        watch.wait_for_message("watching");
        watch
    };
    let printing = watch(&["--json", "--record", recording.to_str().unwrap()]);
    let mut shown = Running::start(Command::new(IN_GUEST).args(["watch", "--web"]));
    let (page, token) = page_at(&shown.wait_for_message("the page is at"));
    let mut page = PageTime::open(page, &token);
    let mut origin_us = page.next_origin_us();

    // At once after each step, and once it is known.
    let (mut at_once, mut later) = (Vec::new(), Vec::new());
    later.extend(exchanges(&mut near, &mut far));
    for by_ns in STEPS_NS {
        let stepped_ns = step(by_ns);
        assert!((stepped_ns - by_ns).abs() < WITHIN_NS, "stepped by {stepped_ns} ns instead of {by_ns}");
        let begun = Instant::now();
        at_once.extend(exchanges(&mut near, &mut far));
        let after_us = page.new_origin_us(origin_us);
        let took = begun.elapsed();
        let off_us = after_us - origin_us - stepped_ns / 1000;
        println!(
            "{} s: the page has it after {:.2} s, off by {off_us} us",
            by_ns as f64 / 1e9,
            took.as_secs_f64()
        );
        assert!(off_us.abs() * 1000 < WITHIN_NS && took < LEARNS_WITHIN, "{off_us} us off after {took:?}");
        origin_us = after_us;
        std::thread::sleep(LEARNS_WITHIN.saturating_sub(begun.elapsed()));
        later.extend(exchanges(&mut near, &mut far));
    }
    drop(shown);
    printing.signal(nix::sys::signal::Signal::SIGINT);
    let output = printing.end();
    assert!(output.status.success(), "{}", text(&output.stderr));

    let lines = json_lines(&output.stdout);
    let printed: Vec<(i64, i64)> = of_kind(&lines, "sample")
        .iter()
        .map(|line| (line["mono_ns"].as_i64().unwrap(), line["time_unix_ns"].as_i64().unwrap()))
        .collect();
    check("printed", &printed, &at_once, &later);
    let table = folder.path().join("flow.csv");
    let converted = Command::new(IN_GUEST).arg("convert").args([&recording, &table]).output().unwrap();
    assert!(converted.status.success(), "{}", text(&converted.stderr));
    check("recorded", &samples(&std::fs::read_to_string(table).unwrap()), &at_once, &later);
}

/// Of a time such as `2025-06-15T15:06:40.125456789Z`, nanoseconds since its midnight.
fn of_day_ns(time: &str) -> i64 {
    let of_day = time.split_once('T').unwrap().1.trim_end_matches('Z');
    let (seconds, fraction) = of_day.split_once('.').unwrap_or((of_day, "0"));
    let seconds = seconds.split(':').fold(0, |sum, part| 60 * sum + part.parse::<i64>().unwrap());
    seconds * 1_000_000_000 + format!("{fraction:0<9}").parse::<i64>().unwrap()
}

/// Monotonic time of each sample of a converted recording, and its wall time since midnight.
fn samples(table: &str) -> Vec<(i64, i64)> {
    let mut lines = table.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let names = lines.next().unwrap();
    let at =
        |name: &str| names.iter().position(|n| *n == name).unwrap_or_else(|| panic!("{name}: {names:?}"));
    let [kind, mono, wall] = ["kind", "mono_ns", "time"].map(at);
    lines
        .filter(|line| line[kind] == "sample")
        .map(|line| (line[mono].parse().unwrap(), of_day_ns(line[wall])))
        .collect()
}

/// Every exchange has a sample at its monotonic time; and at its time of day, if the step before it
/// is known.
fn check(how: &str, samples: &[(i64, i64)], at_once: &[[(i64, i64); 2]], later: &[[(i64, i64); 2]]) {
    let of = |[mono, _]: &[(i64, i64); 2]| -> Vec<(i64, i64)> {
        samples.iter().filter(|sample| (mono.0..=mono.1).contains(&sample.0)).copied().collect()
    };
    let without = at_once.iter().chain(later).filter(|span| of(span).is_empty()).count();
    assert_eq!(without, 0, "{how}: exchanges without a sample, of {}", at_once.len() + later.len());
    for span in later {
        let [_, (from, to)] = *span;
        for sample in of(span) {
            let since_ns = (sample.1 - (from - WITHIN_NS)).rem_euclid(DAY_NS);
            assert!(since_ns <= to - from + 2 * WITHIN_NS, "{how}: {sample:?} of {span:?}");
        }
    }
    println!("{how}: {} samples, {} exchanges", samples.len(), at_once.len() + later.len());
}

/// Runs in the guest.
#[test]
fn a_bound_lasts_as_long_as_it_was_set_for() {
    if !is_guest() {
        return println!("skipped: it would step this machine's clock; another test runs it in a guest");
    }
    const LASTS: Duration = Duration::from_secs(4);
    const UPPER: u32 = 4;
    let cubic = CubicParams { name: "yzsteps".into(), hystart: false, ..CubicParams::default() };
    let mut control = CongestionControl::register(&cubic).unwrap();
    for by_ns in STEPS_NS {
        let (mut near, mut far, address) = connected(Some(&cubic.name));
        let flow = FlowId(SockRef::from(&near).cookie().unwrap());
        control.bound(flow, Bound { lower: 0, upper: UPPER }, LASTS).unwrap();
        let begun = Instant::now();
        let stepped_ns = step(by_ns);
        assert!((stepped_ns - by_ns).abs() < WITHIN_NS, "stepped by {stepped_ns} ns instead of {by_ns}");
        std::thread::spawn(move || std::io::copy(&mut far, &mut std::io::sink()));
        let data = vec![0; 4_000_000];
        // It holds until the end, and no longer.
        let mut most = 0;
        let exceeded = eventually(|| {
            // More than the window, or it would not grow.
            near.write_all(&data).unwrap();
            let cwnd = cwnd(address);
            if begun.elapsed() < LASTS - Duration::from_millis(100) && begun.elapsed() > LASTS / 2 {
                most = most.max(cwnd);
            }
            cwnd > 5 * UPPER
        });
        let after = begun.elapsed();
        println!("{} s: at most {most} until the end, exceeded after {after:.2?}", by_ns as f64 / 1e9);
        assert!(exceeded && most <= UPPER, "window of {most} while bounded to {UPPER}");
        assert!((LASTS..LASTS + Duration::from_secs(2)).contains(&after), "exceeded after {after:?}");
    }
}
