//! Observation without privilege: the same records from `sock_diag`, marked as sampled.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::options::{SendMemory, send_memory};
use common::tcp_info::{self, differences};
use common::{Pair, events, flow_id, flows};
use std::process::Command;
use yuzuri_kernel::{Monitor, MonitorError, Options, Poller, Watch};
use yuzuri_testnet::{Net, Side, eventually};
use yuzuri_trace::{Density, Event, Filter, Item, Kind, Marks, Source};

#[test]
fn samples_equal_tcp_info() {
    let Some(net) = Net::or_skip("samples_equal_tcp_info") else { return };
    net.shape(Side::A, 50, 30_000).unwrap();
    let filter: Filter = format!("netns:{}", net.name(Side::A)).parse().unwrap();
    let mut poller = Poller::start(&filter, Density::default(), "the test wants it").unwrap();
    assert_eq!(poller.session().source, Source::Sampled);
    let mut items = Vec::new();
    poller.read(&mut items);
    for (control, to) in [("cubic", net.v4(Side::B)), ("bbr", net.v6(Side::B))] {
        let pair = Pair::new(&net, Side::A, to, control);
        pair.send(1_000_000);
        let info = tcp_info::read(&pair.near);
        let latest = |items: &[Item]| -> Option<Event> {
            let id = flow_id(items, pair.near_addr())?;
            events(items).into_iter().rfind(|e| e.flow == id).copied()
        };
        assert!(eventually(|| {
            poller.read(&mut items);
            latest(&items).is_some_and(|e| e.snapshot.bytes_acked == info.tcpi_bytes_acked)
        }));
        let event = latest(&items).unwrap();
        assert_eq!(tcp_info::read(&pair.near).tcpi_bytes_acked, info.tcpi_bytes_acked);
        assert_eq!(differences(&event, &info), [""; 0], "{control}");
        let flow = flows(&items).into_iter().find(|f| f.local == pair.near_addr()).unwrap();
        assert_eq!((flow.netns, flow.congestion_control.as_str()), (net.inode(Side::A), control));
        pair.close();
    }
    assert!(eventually(|| {
        poller.read(&mut items);
        events(&items).iter().filter(|e| e.kind == Kind::Close).count() == 2
    }));
    let account = Box::new(poller).finish(&mut items);
    assert_eq!(account.seen(), account.kept());
    let events = events(&items);
    assert_eq!(events.len() as u64, account.kept());
    assert!(events.iter().all(|e| e.marks.contains(Marks::SAMPLED)));
    assert!(events.iter().all(|e| e.place.name() == "sock_diag"));
}

/// The memory of a polled sender is that of `SO_MEMINFO`, idle and with a device that keeps
/// segments.
#[test]
fn polled_memory_equals_so_meminfo() {
    const MAX_TRIES: usize = 50;
    let Some(net) = Net::or_skip("polled_memory_equals_so_meminfo") else { return };
    let filter: Filter = format!("netns:{}", net.name(Side::A)).parse().unwrap();
    let mut poller = Poller::start(&filter, Density::default(), "the test wants it").unwrap();
    let pair = Pair::new(&net, Side::A, net.v4(Side::B), "cubic");
    pair.exchange();
    let mut items = Vec::new();
    // What a poll and SO_MEMINFO show at one moment: before and after the poll, it is the same.
    let mut compared = |is_wanted: fn(&SendMemory) -> bool| {
        (0..MAX_TRIES).find_map(|_| {
            // A socket in which nothing changed has no new record.
            pair.ping();
            let memory = send_memory(&pair.near);
            let received = tcp_info::read(&pair.near).tcpi_bytes_received;
            let mut polled = None;
            assert!(eventually(|| {
                items.clear();
                poller.read(&mut items);
                let events = events(&items);
                polled = events.into_iter().rfind(|e| e.snapshot.bytes_received == received).copied();
                polled.is_some()
            }));
            (is_wanted(&memory) && send_memory(&pair.near) == memory).then_some((memory, polled?))
        })
    };
    let idle = compared(|memory| memory.queued == 0);
    common::fill_slow_device(&net, &pair);
    let held = compared(|memory| memory.alloc > 1000);
    for (memory, polled) in [idle, held].map(|compared| compared.expect("the socket never rested")) {
        let s = polled.snapshot;
        let polled =
            SendMemory { alloc: s.sender.wmem_alloc, buffer: s.sender.sndbuf, queued: s.wmem_queued };
        assert_eq!(polled, memory);
    }
    Box::new(poller).finish(&mut items);
}

const MARKER: &str = "YUZURI_TEST_AS_NOBODY";

/// Not a test: the test below runs it as another user.
#[test]
fn as_nobody() {
    if std::env::var_os(MARKER).is_none() {
        return;
    }
    let nobody = 65534;
    nix::unistd::setgroups(&[]).unwrap();
    nix::unistd::setgid(nobody.into()).unwrap();
    nix::unistd::setuid(nobody.into()).unwrap();
    match Monitor::start(&Options::default()) {
        Err(error @ MonitorError::NotPermitted(_)) => println!("refused: {error}"),
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("a monitor without privilege"),
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let local = stream.local_addr().unwrap();
    let filter: Filter = format!("port:{}", local.port()).parse().unwrap();
    let mut poller = Poller::start(&filter, Density::default(), "not permitted").unwrap();
    let mut items = Vec::new();
    let seen = eventually(|| {
        poller.read(&mut items);
        let owned = flows(&items).into_iter().any(|f| f.local == local && f.owner.is_some());
        owned && events(&items).iter().any(|e| e.marks.contains(Marks::SAMPLED))
    });
    assert!(seen, "{items:?}");
    println!("sampled: {}", events(&items).len());
}

#[test]
fn an_unprivileged_user_may_sample_and_is_told_what_is_missing() {
    if !nix::unistd::geteuid().is_root() {
        println!("nobody_may_sample: skipped: only root can become another user");
        return;
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "as_nobody", "--nocapture"])
        .env(MARKER, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let refused = text.lines().find(|l| l.contains("refused: ")).unwrap_or_else(|| panic!("{text}"));
    for word in ["not permitted", "root", "CAP_BPF", "CAP_PERFMON", "--poll"] {
        assert!(refused.contains(word), "{refused}");
    }
    assert!(text.contains("sampled: "), "{text}");
}
