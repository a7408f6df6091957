//! A ring that nobody reads loses records, and says how many.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::{Pair, Watched};
use yuzuri_kernel::Watch;
use yuzuri_testnet::{Net, Side};
use yuzuri_trace::{Density, Item, LossReason};

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
