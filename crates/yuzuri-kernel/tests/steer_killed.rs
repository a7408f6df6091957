//! The process of a steering is killed under traffic: its flow survives, is free soon, and nothing
//! of the steering remains.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;
mod steered;

use common::{Running, tcp_info, timens};
use libbpf_rs::query::{LinkInfoIter, MapInfoIter, ProgInfoIter};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use steered::{control_of, name, pair, start, state_of};
use yuzuri_kernel::control::{Bound, CubicParams, Steered, available};
use yuzuri_kernel::steer::{ControlState, SteerOptions, Steering};
use yuzuri_testnet::{Net, Side, eventually};

/// How often it is killed; `YUZURI_KILL_ROUNDS` sets another number.
const ROUNDS: u32 = 5;
/// The lifetime of the steering's bounds, and the interval between its walks.
const LASTS: Duration = Duration::from_millis(1500);
const PERIOD: Duration = Duration::from_millis(500);
/// After the kill, the flow is free within this time ...
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);
/// ... or, if this machine has stalled it until then, as soon as this much more of it is
/// acknowledged, bytes.
const MAX_EXTRA_BYTES: u64 = 200_000;
const UPPER: u32 = 6;

const NETNS: &str = "YUZURI_TEST_STEER_NETNS";
const NAME: &str = "YUZURI_TEST_STEER_NAME";

/// Not a test: the test below starts and kills it. It bounds every flow of a namespace.
#[test]
fn hold_a_steering() {
    let (Ok(netns), Ok(name)) = (std::env::var(NETNS), std::env::var(NAME)) else { return };
    let netns = std::fs::File::open(netns).unwrap();
    nix::sched::setns(netns, nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
    let cubic = CubicParams { name, ..CubicParams::default() };
    let mut steering = Steering::start(&SteerOptions { cubic, ..SteerOptions::default() }).unwrap();
    // Its kernel objects, from its descriptors.
    let mut ids = Vec::new();
    for file in std::fs::read_dir("/proc/self/fdinfo").unwrap().flatten() {
        let text = std::fs::read_to_string(file.path()).unwrap_or_default();
        let of =
            |kind: &str| text.lines().find_map(|l| Some(format!("{kind}{}", l.strip_prefix(kind)?.trim())));
        // A link names its program, too.
        ids.extend(of("link_id:").or_else(|| of("map_id:")).or_else(|| of("prog_id:")));
    }
    println!("holding {}", ids.join(" "));
    let mut flows = Vec::new();
    loop {
        steering.observe(&mut flows).unwrap();
        let ours = flows.iter().filter(|flow| flow.control_state.is_ours());
        let bounded = Steered { bound: Bound { lower: 0, upper: UPPER }, ..Steered::default() };
        let bounds: Vec<_> = ours.map(|flow| (flow.id, bounded)).collect();
        steering.steer_all(&bounds, LASTS).unwrap();
        std::thread::sleep(PERIOD);
    }
}

/// Which of these are still in the kernel.
fn left(ids: &[String]) -> Vec<String> {
    let mut there: Vec<String> = ProgInfoIter::default().map(|p| format!("prog_id:{}", p.id)).collect();
    there.extend(LinkInfoIter::default().map(|l| format!("link_id:{}", l.id)));
    there.extend(MapInfoIter::default().map(|m| format!("map_id:{}", m.id)));
    ids.iter().filter(|id| there.contains(id)).cloned().collect()
}

#[test]
fn a_flow_continues_unbounded_after_a_killed_steering() {
    let rounds = std::env::var("YUZURI_KILL_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(ROUNDS);
    outlives("a_flow_continues_unbounded_after_a_killed_steering", rounds, None);
}

/// A bound expires by the machine's monotonic clock, while the steering that writes it has another
/// clock.
#[test]
fn a_flow_continues_unbounded_after_a_killed_steering_of_another_time_namespace() {
    const TEST: &str = "a_flow_continues_unbounded_after_a_killed_steering_of_another_time_namespace";
    if timens::there(TEST) {
        timens::offsets(TEST).into_iter().for_each(|offset_s| outlives(TEST, 1, Some(offset_s)));
    }
}

/// `offset_s`: how far the steering's clocks are ahead of the machine's.
fn outlives(test: &str, rounds: u32, offset_s: Option<i64>) {
    let Some(net) = Net::or_skip(test) else { return };
    for side in [Side::A, Side::B] {
        net.set(side, "net.ipv4.tcp_congestion_control", "reno").unwrap();
    }
    net.shape(Side::A, 50, 100_000).unwrap();
    let options = SteerOptions {
        cubic: CubicParams { name: name("k"), ..CubicParams::default() },
        ..SteerOptions::default()
    };
    let Some(first) = start(test, &net, options.clone()) else { return };
    first.leave().unwrap();

    let pair = pair(&net, Side::A, net.v4(Side::B));
    let (stop, received) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut held = Vec::new();
    std::thread::scope(|scope| {
        // Also when an assertion fails: the scope waits for its threads.
        struct Stop<'a>(&'a AtomicBool);
        impl Drop for Stop<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let stopping = Stop(&stop);
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                (&pair.near).write_all(&[7; 16384]).unwrap();
            }
            pair.near.shutdown(std::net::Shutdown::Write).unwrap();
        });
        scope.spawn(|| {
            let mut buffer = vec![0; 65536];
            while let Ok(length @ 1..) = (&pair.far).read(&mut buffer) {
                received.fetch_add(length as u64, Ordering::Relaxed);
            }
        });
        let cwnd = || tcp_info::read(&pair.near).tcpi_snd_cwnd;
        // Whether it is free; and how much of it was acknowledged at the first check when it should
        // have been.
        let is_free = |killed: Instant, due: &mut Option<u64>| {
            let late = killed.elapsed() > RELEASE_TIMEOUT;
            let now = tcp_info::read(&pair.near);
            if now.tcpi_snd_cwnd > UPPER {
                return true;
            }
            if late {
                let more = now.tcpi_bytes_acked - *due.get_or_insert(now.tcpi_bytes_acked);
                assert!(
                    more < MAX_EXTRA_BYTES,
                    "bounded {RELEASE_TIMEOUT:?} after the kill, and for {more} bytes more"
                );
            }
            false
        };
        let mut slowest = Duration::ZERO;
        for round in 1..=rounds {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args(["--exact", "hold_a_steering", "--nocapture"]).stdout(Stdio::piped());
            command.env(NETNS, format!("/run/netns/{}", net.name(Side::A))).env(NAME, &options.cubic.name);
            if let Some(offset_s) = offset_s {
                timens::enter(&mut command, offset_s);
            }
            let mut holder = Running::spawn(&mut command);
            let mut lines = BufReader::new(holder.0.stdout.take().unwrap()).lines().map(Result::unwrap);
            let ids = lines.find_map(|line| Some(line.split_once("holding ")?.1.to_owned()));
            let ids: Vec<String> = ids.expect("the child steers").split(' ').map(str::to_owned).collect();
            assert!(ids.iter().any(|id| id.starts_with("link_id:")), "{ids:?}");
            held.extend(ids);
            // A flow over which the previous steering was killed is migrated like any other.
            assert!(eventually(|| control_of(&pair.near) == options.cubic.name), "round {round}: not taken");
            assert!(eventually(|| cwnd() <= UPPER), "round {round}: not bounded: {}", cwnd());
            holder.0.kill().unwrap();
            let killed = Instant::now();
            holder.0.wait().unwrap();
            let before = received.load(Ordering::Relaxed);
            let mut due = None;
            assert!(eventually(|| is_free(killed, &mut due)), "round {round}: bounded for ever");
            slowest = slowest.max(killed.elapsed());
            let more = || received.load(Ordering::Relaxed) > before + 1_000_000;
            assert!(eventually(more), "round {round}: the flow makes no progress");
        }
        println!("{test}: {rounds} rounds, clocks {offset_s:?} s ahead, free after {slowest:?} at most");

        let links: Vec<String> = held.iter().filter(|id| id.starts_with("link_id:")).cloned().collect();
        assert!(eventually(|| left(&links).is_empty()), "{:?}", left(&links));
        // The name is free: immediately, or before Linux 6.4 for a process that registers it.
        let mut steering = start(test, &net, options.clone()).unwrap();
        let flow = state_of(&mut steering, &pair);
        assert!(
            matches!(flow.control_state, ControlState::Migrated { former } if former.as_str() == "reno"),
            "{flow:?}"
        );
        assert_eq!(steering.leave().unwrap().migrated_back, [flow.id]);
        assert_eq!(control_of(&pair.near), "reno");
        assert!(!available().contains(&options.cubic.name));
        drop(stopping);
    });
    // No flow is under one of their controls any more.
    assert!(eventually(|| left(&held).is_empty()), "{:?}", left(&held));
    yuzuri_testnet::attack(
        "kill -9 of a steering",
        rounds.into(),
        "kills",
        "the flow is free within 2 s; nothing stays in the kernel",
    );
}
