//! Writes a recording as a watch writes one: a few rows every 10 ms and an account every second,
//! flushed by time. It serves to count instructions, so the writer receives computed times.
//!
//! `cargo rustc --release -p yuzuri-trace --example recording_cost -- -C strip=none`, then
//! `valgrind --tool=callgrind target/release/examples/recording_cost ROWS_PER_S SECONDS FLOWS`
#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;

use common::{Traffic, session};
use std::time::{Duration, Instant};
use yuzuri_trace::Item;
use yuzuri_trace::recording::Writer;

fn main() {
    let argument = |n: usize, other: usize| std::env::args().nth(n).map_or(other, |a| a.parse().unwrap());
    let (rate, seconds, flows) = (argument(1, 440), argument(2, 20), argument(3, 8));
    let folder = tempfile::tempdir().unwrap();
    let mut traffic = Traffic::new(flows, 1_000_000_000 / rate as u64);
    let mut writer = Writer::create(&folder.path().join("cost.arrows"), &session(), false).unwrap();
    let start = Instant::now();
    writer.write(&traffic.identities(), start).unwrap();
    let mut given = 0;
    for turn in 0..seconds * 100 {
        let due = (turn + 1) * rate / 100;
        let mut items: Vec<Item> = (given..due).map(|_| Item::Event(traffic.next())).collect();
        given = due;
        if turn % 100 == 99 {
            items.push(traffic.account(given as u64, 0));
        }
        writer.write(&items, start + Duration::from_millis(10 * turn as u64)).unwrap();
    }
    let summary = writer.finish();
    println!("{} rows, {} bytes", summary.rows, summary.bytes);
}
