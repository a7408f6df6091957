//! Measures how fast a recording is written and read, how large it gets, and how much memory the
//! writer takes.
//!
//! `cargo run --release -p yuzuri-trace --example recording_rate [ROWS] [FLOWS]`
#![allow(clippy::unwrap_used, clippy::cast_precision_loss)]

#[path = "../common/mod.rs"]
mod common;

use common::{Traffic, session};
use std::time::Instant;
use yuzuri_trace::Item;
use yuzuri_trace::recording::{Format, Reader, Writer, convert};

fn main() {
    let argument = |n: usize, other: usize| std::env::args().nth(n).map_or(other, |a| a.parse().unwrap());
    let (rows, flows) = (argument(1, 6_000_000), argument(2, 200));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rate.arrows");

    // One flow yields a sample each millisecond, passed on as by the monitor: in batches of 10 ms.
    let mut traffic = Traffic::new(flows, 1_000_000 / flows as u64);
    let slice = flows * 10;
    let pool: Vec<Vec<Item>> =
        (0..100).map(|_| (0..slice).map(|_| Item::Event(traffic.next())).collect()).collect();
    let before = resident_kb();
    let mut writer = Writer::create(&path, &session(), false).unwrap();
    writer.write(&traffic.identities(), Instant::now()).unwrap();
    let started = (Instant::now(), cpu_seconds());
    let mut most = 0;
    for turn in 0..rows / slice {
        writer.write(&pool[turn % pool.len()], Instant::now()).unwrap();
        if turn % 100 == 0 {
            most = most.max(resident_kb());
        }
    }
    let summary = writer.finish();
    let (wall, cpu) = (started.0.elapsed().as_secs_f64(), cpu_seconds() - started.1);
    assert!(summary.failed.is_none());
    println!(
        "write: {} rows in {wall:.2} s, {cpu:.2} s of CPU: {:.0} rows per CPU-second, {:.1} bytes per row, \
         {} kB more memory",
        summary.rows,
        summary.rows as f64 / cpu,
        summary.bytes as f64 / summary.rows as f64,
        most.saturating_sub(before),
    );

    let started = cpu_seconds();
    let read = Reader::open(&path).unwrap().items().map(Result::unwrap).count();
    let cpu = cpu_seconds() - started;
    println!("read: {read} items, {:.0} per CPU-second", read as f64 / cpu);

    for format in Format::ALL {
        let out = folder.path().join(format.name());
        let started = cpu_seconds();
        let reader = Reader::open(&path).unwrap();
        let rows =
            convert(reader, format, std::fs::File::create(&out).unwrap(), None, |_, _| ()).unwrap().rows;
        let cpu = cpu_seconds() - started;
        let bytes = out.metadata().unwrap().len();
        println!(
            "convert to {}: {:.0} rows per CPU-second, {:.1} bytes per row",
            format.name(),
            rows as f64 / cpu,
            bytes as f64 / rows as f64
        );
        std::fs::remove_file(out).unwrap();
    }
}

fn cpu_seconds() -> f64 {
    let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF).unwrap();
    let seconds = |t: nix::sys::time::TimeVal| t.tv_sec() as f64 + t.tv_usec() as f64 / 1e6;
    seconds(usage.user_time()) + seconds(usage.system_time())
}

fn resident_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
