//! Writes a recording in which every value follows from its row, for tests that read it with other
//! tools.
//!
//! `recording_writer PATH ROWS` writes that many events and ends; `recording_writer PATH` writes a
//! thousand events each 10 ms until it is killed. Event `n`: flow `0x1000 + n % 4`, `mono_ns`
//! 86,400 s + `n` us, `cwnd` `10 + n % 100`, `ssthresh` infinite below 1000, then `n % 77`,
//! `srtt_us` not measured where `n % 10 == 0`, else `20000 + n % 1000`, `bytes_acked` `n`,
//! `ca_state` recovery where `n % 50 == 49`. The four flows come first, an account after each
//! thousand events.
#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use yuzuri_trace::recording::Writer;
use yuzuri_trace::{Account, CaState, CpuAccount, Event, FlowId, Item, LossReason, Place, Snapshot};

fn event(n: u64) -> Item {
    let ssthresh = if n < 1000 { Snapshot::SSTHRESH_INFINITE } else { (n % 77) as u32 };
    let srtt_us = if n.is_multiple_of(10) { 0 } else { 20_000 + (n % 1000) as u32 };
    let ca_state = if n % 50 == 49 { CaState::Recovery } else { CaState::Open };
    Item::Event(Event {
        mono_ns: common::STARTED_MONO_NS + n * 1000,
        flow: FlowId(0x1000 + n % 4),
        place: Place::named("tcp:tcp_probe"),
        ca_state,
        ca_before: ca_state,
        snapshot: Snapshot {
            cwnd: 10 + (n % 100) as u32,
            ssthresh,
            srtt_us,
            bytes_acked: n,
            ..Snapshot::default()
        },
        ..Event::default()
    })
}

fn account(seen: u64) -> Item {
    let lost = seen / 100;
    Item::Account(Arc::new(Account {
        mono_ns: common::STARTED_MONO_NS + seen * 1000,
        wall_offset_ns: common::session().wall_offset_ns(),
        cpus: vec![CpuAccount {
            cpu: Some(0),
            seen: seen + 2 * lost,
            kept: seen,
            lost: vec![(LossReason::RingFull, lost), (LossReason::Nested, lost)],
            thinned: 0,
        }],
    }))
}

fn main() {
    let path = PathBuf::from(std::env::args().nth(1).expect("usage: recording_writer PATH [ROWS]"));
    let rows: Option<u64> = std::env::args().nth(2).map(|rows| rows.parse().unwrap());
    let mut writer = Writer::create(&path, &common::session(), true).unwrap();
    let flows: Vec<Item> = (0..4).map(|n| Item::Flow(Arc::new(common::flow(n)))).collect();
    writer.write(&flows, Instant::now()).unwrap();
    let mut n = 0;
    while rows.is_none_or(|rows| n < rows) {
        let end = rows.map_or(n + 1000, |rows| rows.min(n + 1000));
        let mut items: Vec<Item> = (n..end).map(event).collect();
        items.push(account(end));
        writer.write(&items, Instant::now()).unwrap();
        n = end;
        if rows.is_none() {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    let summary = writer.finish();
    assert!(summary.failed.is_none());
    println!("{} rows, {} bytes", summary.rows, summary.bytes);
}
