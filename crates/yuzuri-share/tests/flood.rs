//! A flood of garbage with a member's source address, on real sockets: the group stays in one piece
//! and loses no messages.
#![allow(clippy::unwrap_used, missing_docs)]

mod cell;

use cell::{Cell, Instance, keyed};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use yuzuri_share::{DEFAULT_PORT, InterfaceConfig, ShareConfig, Status};
use yuzuri_testnet::eventually;

const PER_SECOND: u64 = 20_000;

/// Sends garbage at a given rate, with one host's address as the source, to another host, until
/// dropped. Only the authentication tag distinguishes it from a valid message.
struct Flood {
    go: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Flood {
    /// Sends from a third host with a forged source address.
    fn begin(cell: &Cell, at: u32, forged: u32, to: u32, group: [u8; 8]) -> Flood {
        let socket = cell.inside(at, || {
            let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None).unwrap();
            // With privilege a socket can bind addresses of other hosts.
            socket.set_ip_transparent_v4(true).unwrap();
            let address = |host: u32| SocketAddr::new([10, 88, 0, host as u8].into(), DEFAULT_PORT);
            socket.bind(&address(forged).into()).unwrap();
            socket.connect(&address(to).into()).unwrap();
            UdpSocket::from(socket)
        });
        let (go, stop, sent) = <(Arc<AtomicBool>, Arc<AtomicBool>, Arc<AtomicU64>)>::default();
        let (going, stopped, count) = (go.clone(), stop.clone(), sent.clone());
        let thread = std::thread::spawn(move || {
            // Version 1 and a summary; flags: keyed, leads and sends; this group. The rest is
            // arbitrary.
            let mut bytes = vec![0x13, 0x27];
            bytes.extend_from_slice(&group);
            bytes.resize(115, 0x5a);
            socket.send(&bytes).unwrap();
            while !going.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
            let begun = Instant::now();
            let mut number = 0_u64;
            while !stopped.load(Ordering::Relaxed) {
                let due = (begun.elapsed().as_secs_f64() * PER_SECOND as f64) as u64;
                // If a busy machine delayed this thread, do not send the whole backlog as one burst
                // that no network would deliver.
                number = number.max(due.saturating_sub(200));
                while number < due {
                    number += 1;
                    bytes[40..48].copy_from_slice(&number.to_be_bytes());
                    if socket.send(&bytes).is_ok() {
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                }
                std::thread::sleep(Duration::from_micros(500));
            }
        });
        Flood { go, stop, sent, thread: Some(thread) }
    }

    /// The number of datagrams sent after the first one.
    fn end(mut self) -> u64 {
        self.stop_sending();
        self.sent.load(Ordering::Relaxed)
    }

    fn stop_sending(&mut self) {
        self.go.store(true, Ordering::Relaxed);
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.stop_sending();
    }
}

/// Datagrams that this host dropped because of a full receive queue.
fn dropped(cell: &Cell, host: u32) -> u64 {
    let table = cell.inside(host, || std::fs::read_to_string("/proc/thread-self/net/udp").unwrap());
    let port = format!(":{DEFAULT_PORT:04X}");
    let rows =
        table.lines().filter(|row| row.split_whitespace().nth(1).is_some_and(|at| at.ends_with(&port)));
    rows.map(|row| row.split_whitespace().next_back().unwrap().parse::<u64>().unwrap()).sum()
}

fn count(status: &Status, of: &str, name: &str) -> u64 {
    let messages = &status.interfaces[0].messages;
    let counts = match of {
        "sent" => &messages.sent,
        "accepted" => &messages.accepted,
        _ => &messages.refused,
    };
    counts.get(name).copied().unwrap_or(0)
}

/// Floods two senders one after the other. Returns the fraction of a core that the flooded one
/// used.
fn two_under_a_flood(test: &str, seconds: u64) -> Option<f64> {
    let cell = Cell::or_skip(test, 3)?;
    // Use IPv4 only, so that the forged address does not disturb neighbour discovery.
    (1..=2).for_each(|host| cell.without_v6(host));
    cell.shape(3, "eth0", 1000);
    let named =
        |config: ShareConfig| ShareConfig { group: Some(InterfaceConfig::group_named("flooded")), ..config };
    let instances = [
        Instance::or_skip(test, &cell, 1, named(keyed(1)))?,
        Instance::or_skip(test, &cell, 2, named(keyed(1)))?,
    ];
    let _traffic = [cell.traffic(1), cell.traffic(2)];
    let of = |at: usize| instances[at].status();
    let settled = || {
        let all = [of(0), of(1)];
        let groups: Vec<_> = all.iter().filter_map(|status| status.interfaces.first()).collect();
        groups.len() == 2
            && groups.iter().filter(|group| group.leads).count() == 1
            && groups.iter().all(|group| group.summary.as_ref().is_some_and(|summary| summary.senders == 2))
    };
    assert!(eventually(settled), "{:#?} {:#?}", of(0), of(1));
    let leader = if of(0).interfaces[0].leads { 0 } else { 1 };
    let follower = 1 - leader;
    let led = || of(0).interfaces[0].messages.led + of(1).interfaces[0].messages.led;
    let group = InterfaceConfig::group_named("flooded").0;
    let (led_before, mut used) = (led(), 0.0_f64);
    // The measurement includes the cost of sharing without a flood, mainly the walk over the
    // machine's flows.
    let before = [0, 1].map(|at| instances[at].cpu());
    let begun = Instant::now();
    std::thread::sleep(Duration::from_secs(seconds / 4));
    let quiet =
        [0, 1].map(|at| (instances[at].cpu() - before[at]).as_secs_f64() / begun.elapsed().as_secs_f64());
    for (flooded, other) in [(follower, leader), (leader, follower)] {
        // Count the messages of the other host: the leader's summaries to all members, or a
        // member's reports to the leader.
        let kind = if other == leader { "summary" } else { "report" };
        let counted = || (count(&of(other), "sent", kind), count(&of(flooded), "accepted", kind));
        let before = counted();
        let refused = || count(&of(flooded), "refused", "tag");
        let cpu = instances[flooded].cpu();
        let flood = Flood::begin(&cell, 3, other as u32 + 1, flooded as u32 + 1, group);
        // The first datagram, which triggers address resolution, has arrived.
        assert!(eventually(|| refused() > 0));
        let refused_before = refused();
        flood.go.store(true, Ordering::Relaxed);
        let begun = Instant::now();
        let mut split = 0;
        while begun.elapsed() < Duration::from_secs(seconds) {
            std::thread::sleep(Duration::from_millis(100));
            split += u32::from(!settled());
        }
        let took = begun.elapsed();
        let after = counted();
        let share = (instances[flooded].cpu() - cpu).as_secs_f64() / took.as_secs_f64();
        let sent = flood.end();
        // The status shows all datagrams at most one tick later.
        let all = eventually(|| refused() - refused_before >= sent);
        let dropped = dropped(&cell, flooded as u32 + 1);
        assert!(
            all && dropped == 0,
            "{} of {sent} were read, {dropped} found no room",
            refused() - refused_before
        );
        let (said, heard) = (after.0 - before.0, after.1 - before.1);
        println!(
            "{test}: {sent} datagrams of garbage in {:.1} s at the {}: {said} of kind {kind} sent, {heard} heard, {} dropped, {:.2} % of a core, {:.2} % without them",
            took.as_secs_f64(),
            if flooded == leader { "leader" } else { "follower" },
            dropped,
            share * 100.0,
            quiet[flooded] * 100.0
        );
        assert!(sent > 1000 * seconds, "no flood: {sent}");
        // Both counters are of the last 500 ms of different hosts, so that they may differ by one
        // message.
        assert!(said >= seconds && heard + 1 >= said, "{said} {heard}");
        assert_eq!(split, 0, "the group was not one");
        assert_eq!(count(&of(flooded), "refused", "rate-limited"), 0);
        used = used.max(share);
        let lost = "no message missed, no group split";
        yuzuri_testnet::attack("garbage in a member's name", sent, "datagrams", lost);
    }
    assert_eq!(led(), led_before, "somebody had to look for a leader");
    Some(used)
}

#[test]
fn garbage_in_a_members_name_splits_no_group() {
    two_under_a_flood("garbage_in_a_members_name_splits_no_group", 8);
}

/// `CARGO_PROFILE_RELEASE_LTO=off cargo test --release -p yuzuri-share --test flood -- --ignored
/// --nocapture`.
#[test]
#[ignore = "a measurement of a minute; its figures are worth something on a quiet machine only"]
fn what_a_flood_costs() {
    if let Some(share) = two_under_a_flood("what_a_flood_costs", 30) {
        assert!(share < 0.05, "{:.1} % of a core", share * 100.0);
    }
}
