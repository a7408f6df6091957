//! Adds records to the closing table as a watch does. For counting instructions.
//!
//! `cargo rustc --release -p yuzuri-view --example totals_cost -- -C strip=none`, then
//! `valgrind --tool=callgrind target/release/examples/totals_cost RECORDS FLOWS`
#![allow(clippy::unwrap_used)]

#[path = "../../../yuzuri-trace/tests/common/mod.rs"]
mod common;

use common::Traffic;
use yuzuri_trace::Item;
use yuzuri_view::Totals;

/// Records added at once.
const BATCH: usize = 50;

fn main() {
    let argument = |n: usize, other: usize| std::env::args().nth(n).map_or(other, |a| a.parse().unwrap());
    let (records, flows) = (argument(1, 100_000), argument(2, 8));
    let mut traffic = Traffic::new(flows, 1_000_000);
    let mut totals = Totals::of_at_most(10_000);
    totals.take(&traffic.identities());
    for _ in 0..records / BATCH {
        let items: Vec<Item> = (0..BATCH).map(|_| Item::Event(traffic.next())).collect();
        totals.take(&items);
    }
    let moved: u64 = totals.flows().map(|(_, flow)| flow.moved_bytes()).sum();
    println!("{moved} bytes");
}
