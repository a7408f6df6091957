//! However the monitor ends, nothing of it stays in the kernel.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::{Running, Watched};
use libbpf_rs::query::{LinkInfoIter, LinkTypeInfo, MapInfoIter, ProgInfoIter, ProgInfoQueryOptions};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use yuzuri_kernel::{Monitor, Options};
use yuzuri_testnet::eventually;
use yuzuri_trace::{Density, Filter};

const PROGRAMS: [&str; 4] = ["on_ack", "on_state", "on_retransmit", "on_socket"];
const MARKER: &str = "YUZURI_TEST_HOLD_A_MONITOR";

/// Ids of our programs, of the links to them, and of the maps they use.
fn ours() -> (Vec<u32>, Vec<u32>, Vec<u32>) {
    let (mut programs, mut maps) = (Vec::new(), Vec::new());
    for program in ProgInfoIter::with_query_opts(ProgInfoQueryOptions::default().include_map_ids(true)) {
        if PROGRAMS.contains(&program.name.to_string_lossy().as_ref()) {
            programs.push(program.id);
            maps.extend(program.map_ids);
        }
    }
    let links = LinkInfoIter::default()
        .filter(|link| programs.contains(&link.prog_id))
        .filter(|link| !matches!(link.info, LinkTypeInfo::Cgroup(_)))
        .map(|link| link.id)
        .collect();
    maps.sort_unstable();
    maps.dedup();
    (programs, links, maps)
}

/// The ids among these that are new.
fn since(before: &(Vec<u32>, Vec<u32>, Vec<u32>)) -> (Vec<u32>, Vec<u32>, Vec<u32>) {
    let now = ours();
    let new = |now: Vec<u32>, before: &[u32]| now.into_iter().filter(|id| !before.contains(id)).collect();
    (new(now.0, &before.0), new(now.1, &before.1), new(now.2, &before.2))
}

/// The kernel frees them once nothing can be running them any more: soon, not immediately.
fn gone(what: &(Vec<u32>, Vec<u32>, Vec<u32>)) -> bool {
    eventually(|| {
        let programs: Vec<u32> = ProgInfoIter::default().map(|p| p.id).collect();
        let links: Vec<u32> = LinkInfoIter::default().map(|l| l.id).collect();
        let maps: Vec<u32> = MapInfoIter::default().map(|m| m.id).collect();
        !what.0.iter().any(|id| programs.contains(id))
            && !what.1.iter().any(|id| links.contains(id))
            && !what.2.iter().any(|id| maps.contains(id))
    })
}

/// Not a test: the process that the test below starts and kills.
#[test]
fn hold_a_monitor() {
    if std::env::var_os(MARKER).is_none() {
        return;
    }
    let options = Options { filter: Filter::default(), density: Density::EveryAck, ring_bytes: None };
    let monitor = Monitor::start(&options).unwrap();
    println!("holding {}", monitor.programs().len());
    loop {
        std::thread::park();
    }
}

// One test, so that no other monitor of this process starts or ends meanwhile.
#[test]
fn no_program_map_or_link_stays_in_the_kernel() {
    if !nix::unistd::geteuid().is_root() {
        println!("no_program_map_or_link_stays_in_the_kernel: skipped: it needs root");
        return;
    }
    let before = ours();
    let watched = Watched::start("", Density::EveryAck);
    let held = since(&before);
    assert!(held.0.len() >= 4 && held.1.len() >= 4 && held.2.len() >= 5, "{held:?}");
    watched.finish();
    assert!(gone(&held), "after finish: {held:?}");

    let before = ours();
    let watched = Watched::start("", Density::EveryAck);
    let held = since(&before);
    assert!(held.0.len() >= 4, "{held:?}");
    drop(watched);
    assert!(gone(&held), "after drop: {held:?}");

    let before = ours();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "hold_a_monitor", "--nocapture"]).env(MARKER, "1").stdout(Stdio::piped());
    let mut holder = Running::spawn(&mut command);
    let mut lines = BufReader::new(holder.0.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("holding 4")), "the child holds a monitor");
    let held = since(&before);
    assert!(held.0.len() >= 4 && held.1.len() >= 4, "{held:?}");
    // SIGKILL: it has no chance to clean up.
    holder.0.kill().unwrap();
    holder.0.wait().unwrap();
    assert!(gone(&held), "after kill -9: {held:?}");
}
