//! A ring that nobody reads loses records, and says how many.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::{Pair, Watched};
use yuzuri_kernel::{Monitor, Options, Room, Watch};
use yuzuri_testnet::{Net, Side};
use yuzuri_trace::{Density, Item, Kind, LossReason};

/// Items that stand for a record of the kernel.
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
    // Read again, it keeps again.
    let before = records(watched.read());
    assert!(before > 0);
    pair.ping();
    watched.until("records after the stall", |items| records(items) > before);
    let seen = watched.finish();
    let lost = seen.account.lost_by_reason();
    assert!(lost.iter().any(|(reason, n)| *reason == LossReason::RingFull && *n > 100), "{lost:?}");
    // finish() checked the sum on every CPU; what was kept is what was given. The flow was opened while watching, so
    // that its owner needed no item of its own.
    assert_eq!(records(&seen.items), seen.account.kept(), "{}", seen.account);
    assert!(seen.account.to_string().contains("ring-full"));
}

#[test]
fn a_ring_that_is_read_loses_nothing() {
    let Some(net) = Net::or_skip("a_ring_that_is_read_loses_nothing") else { return };
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

#[test]
fn a_stack_that_finds_no_room_is_counted_and_its_record_kept() {
    let Some(net) = Net::or_skip("a_stack_that_finds_no_room_is_counted") else { return };
    net.shape(Side::A, 20, 25_000).unwrap();
    let filter = format!("netns:{}", net.name(Side::A)).parse().unwrap();
    let options = Options { filter, density: Density::EveryAck, ring_bytes: None };
    // There are more ways than one to lose a segment.
    let room = Room { owners: 100, stacks: 1 };
    let monitor = Monitor::start_with_room(&options, &room).unwrap_or_else(|error| panic!("{error}"));
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
    // A record that stands alone beside another has its stack, too.
    assert!(with_stack.len() as u64 >= placed as u64 + lost, "{}: {}", with_stack.len(), seen.account);
    assert_eq!(seen.account.lost(), seen.nested() + lost, "{}", seen.account);
}
