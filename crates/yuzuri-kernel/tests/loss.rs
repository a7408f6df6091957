//! A ring buffer that nobody reads loses records, and counts them.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::{Pair, Watched};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use yuzuri_kernel::{Monitor, Options, TableSizes, Watch};
use yuzuri_testnet::{Net, Side};
use yuzuri_trace::{Density, Item, Kind, LossReason, Reason};

/// Items that correspond to a record of the kernel.
fn records(items: &[Item]) -> u64 {
    items.iter().filter(|i| matches!(i, Item::Event(_) | Item::Flow(_))).count() as u64
}

#[test]
fn a_stalled_reader_of_a_tiny_ring_loses_records_and_counts_them() {
    let Some(net) = Net::or_skip("a_stalled_reader_of_a_tiny_ring") else { return };
    let filter = format!("netns:{}", net.name(Side::A));
    let mut watched = Watched::with_ring(&filter, Density::EveryAck, Some(4096));
    let pair = Pair::new(&net, Side::A, net.v4(Side::B), "cubic");
    // Nobody reads meanwhile.
    for _ in 0..300 {
        pair.exchange();
    }
    let account = watched.monitor.account();
    assert!(account.lost() > 0, "{account}");
    // Read again, it keeps records again.
    let before = records(watched.read());
    assert!(before > 0);
    pair.ping();
    watched.until("records after the stall", |items| records(items) > before);
    let seen = watched.finish();
    let lost = seen.account.lost_by_reason();
    assert!(lost.iter().any(|(reason, n)| *reason == LossReason::RingFull && *n > 100), "{lost:?}");
    // finish() checked the sum on every CPU; the records kept are those returned. The flow was
    // opened during the observation, so its owner needed no item of its own.
    assert_eq!(records(&seen.items), seen.account.kept(), "{}", seen.account);
    assert!(seen.account.to_string().contains("ring-full"));
}

#[test]
fn a_ring_that_is_read_in_time_loses_nothing() {
    let Some(net) = Net::or_skip("a_ring_that_is_read_in_time_loses_nothing") else { return };
    let watched = Watched::of(&net, Side::A, Density::EveryAck);
    let pair = Pair::new(&net, Side::A, net.v6(Side::B), "cubic");
    for _ in 0..1000 {
        pair.exchange();
    }
    pair.send(1_000_000);
    let seen = watched.finish_whole();
    assert!(seen.account.seen() > 1000, "{}", seen.account);
    assert_eq!(records(&seen.items) + seen.nested(), seen.account.seen(), "{}", seen.account);
}

/// The flows that are open according to the items, by their local and remote ports.
fn open_ports(items: &[Item]) -> std::collections::HashMap<u64, Option<(u16, u16)>> {
    let mut open = std::collections::HashMap::new();
    for item in items {
        match item {
            Item::Flow(flow) => {
                open.insert(flow.id.0, Some((flow.local.port(), flow.remote.port())));
            }
            Item::Event(event) if event.kind == Kind::Close => {
                open.remove(&event.flow.0);
            }
            Item::Event(event) => {
                open.entry(event.flow.0).or_insert(None);
            }
            _ => {}
        }
    }
    open
}

/// The ports of the kernel's sockets in the namespace, by `ss`, which has its own implementation.
fn kernel_ports(net: &Net, side: Side) -> Vec<(u16, u16)> {
    let states = ["established", "syn-sent", "fin-wait-1", "fin-wait-2", "close-wait", "last-ack", "closing"];
    let mut command = net.command(side, "ss");
    command.args(["-tnH"]);
    for state in states {
        command.args(["state", state]);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let port = |end: &str| end.rsplit(':').next().unwrap().parse::<u16>().unwrap();
    let mut ports: Vec<(u16, u16)> = text
        .lines()
        .map(|line| {
            let ends: Vec<&str> = line.split_whitespace().filter(|word| word.contains(':')).collect();
            (port(ends[0]), port(ends[1]))
        })
        .collect();
    ports.sort_unstable();
    ports
}

/// A thousand short connections through a ring buffer of 16 records that is read too rarely: most
/// closes are lost, but the flows reported as open are exactly those that the kernel has.
#[test]
fn after_losses_the_open_flows_are_those_that_the_kernel_has() {
    let Some(net) = Net::or_skip("after_losses_the_open_flows") else { return };
    let filter = format!("netns:{}", net.name(Side::A));
    let mut watched = Watched::with_ring(&filter, Density::EveryAck, Some(1));
    let listener = net.inside(Side::B, || TcpListener::bind((net.v4(Side::B), 0)).unwrap());
    let to = listener.local_addr().unwrap();
    let mut stay = Vec::new();
    for n in 0..1000 {
        let mut near = net.inside(Side::A, || TcpStream::connect(to).unwrap());
        let (mut far, _) = listener.accept().unwrap();
        near.write_all(&[1; 100]).unwrap();
        far.read_exact(&mut [0; 100]).unwrap();
        if n % 50 == 0 {
            stay.push((near, far));
        } else {
            // The end at B closes first: TIME_WAIT stays there.
            drop(far);
            let _ = near.read(&mut [0; 1]);
        }
        if n % 7 == 0 {
            watched.read();
        }
    }
    let account = watched.monitor.account();
    let lost = account.lost_to(LossReason::RingFull);
    assert!(lost > 1000, "{account}");
    // At least half of the flows had a close that was never read.
    let falsely_open = open_ports(watched.read()).len();
    println!("{falsely_open} open before the dump, {} sockets; {account}", kernel_ports(&net, Side::A).len());
    let as_the_kernel = |items: &[Item]| {
        let mut open: Vec<_> = open_ports(items).into_values().flatten().collect();
        open.sort_unstable();
        open.len() == open_ports(items).len() && open == kernel_ports(&net, Side::A)
    };
    watched.until("the open flows, which are the kernel's", as_the_kernel);
    assert_eq!(kernel_ports(&net, Side::A).len(), stay.len());
    let unseen =
        |items: &[Item]| common::events(items).iter().filter(|e| e.reason == Reason::CloseNotSeen).count();
    println!("{} closed by the dump", unseen(&watched.items));
    assert!(unseen(&watched.items) > 0);

    // Losses at the very end are detected before the end.
    for (near, far) in stay.drain(..).skip(5) {
        drop((near, far));
    }
    for _ in 0..200 {
        drop(net.inside(Side::A, || TcpStream::connect(to).unwrap()));
        drop(listener.accept().unwrap());
    }
    let seen = watched.finish();
    let open = open_ports(&seen.items);
    let there = kernel_ports(&net, Side::A);
    let open: Vec<_> = open.into_values().flatten().filter(|ports| !there.contains(ports)).collect();
    assert!(open.is_empty(), "{open:?} are gone; {}", seen.account);
    // Each close reported by the dump is a record that was seen and kept.
    assert_eq!(seen.account.seen(), seen.account.kept() + seen.account.lost());
}

#[test]
fn a_stack_without_room_is_counted_and_its_record_remains() {
    let Some(net) = Net::or_skip("a_stack_that_finds_no_room_is_counted") else { return };
    net.shape(Side::A, 20, 25_000).unwrap();
    let filter = format!("netns:{}", net.name(Side::A)).parse().unwrap();
    let options = Options { filter, density: Density::EveryAck, ring_bytes: None };
    // There is more than one code path on which a segment is lost.
    let room = TableSizes { owners: 100, stacks: 1 };
    let monitor = Monitor::start_with_tables(&options, &room).unwrap_or_else(|error| panic!("{error}"));
    let mut watched = Watched { monitor: Box::new(monitor), items: Vec::new() };
    let pair = Pair::new(&net, Side::A, net.v4(Side::B), "cubic");
    pair.send(1_500_000);
    watched.read();
    let seen = watched.finish();
    let with_stack: Vec<_> = (seen.events().into_iter())
        .filter(|e| matches!(e.kind, Kind::State | Kind::Retransmit | Kind::Timeout))
        .collect();
    let placed = with_stack.iter().filter(|e| !e.place.name().starts_with("tcp:")).count();
    let lost = seen.lost_for(LossReason::StackTable);
    assert!(placed > 0 && lost > 0, "{placed} with a place, {}", seen.account);
    // A record without another of the same event has its stack, too.
    assert!(with_stack.len() as u64 >= placed as u64 + lost, "{}: {}", with_stack.len(), seen.account);
    assert_eq!(seen.account.lost(), seen.nested() + lost, "{}", seen.account);
}
