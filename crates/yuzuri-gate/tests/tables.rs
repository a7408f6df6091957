//! The gate's tables with thousands of entries.
#![allow(clippy::unwrap_used, missing_docs)]

mod frames;
mod loaded;

use frames::*;
use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;
use yuzuri_gate::{Direction, FlowKey, Gate, Options};

const LONG: Duration = Duration::from_secs(3600);
const FORM: Form = Form::V4;
/// The size of the table of stations (`bpf/maps.h`).
const STATIONS: u32 = 4096;

fn begin(gate: &Gate, n: u16) {
    let syn = Tcp::new(SYN, 1000, 0, 65_535).with(&syn_options(Some(7)));
    gate.try_packet(Direction::Up, &frame(FORM, Direction::Up, n, &syn), 1).unwrap();
}

fn keys(numbers: std::ops::Range<u16>) -> Vec<(FlowKey, u32)> {
    numbers.map(|n| (key(FORM, n), 20_000)).collect()
}

#[test]
fn all_connections_of_a_large_table_are_read() {
    const CONNECTIONS: u16 = 10_000;
    let Some(gate) = loaded::gate("all_connections_of_a_large_table_are_read", &Options::default()) else {
        return;
    };
    (0..CONNECTIONS).for_each(|n| begin(&gate, n));
    let read: HashSet<FlowKey> = gate.flows().unwrap().into_iter().map(|flow| flow.key).collect();
    let begun: HashSet<FlowKey> = keys(0..CONNECTIONS).into_iter().map(|(key, _)| key).collect();
    assert_eq!(begun.len(), usize::from(CONNECTIONS));
    assert_eq!(read.len(), begun.len());
    assert!(read == begun);
}

#[test]
fn expired_bounds_make_room_for_new_ones() {
    let options = Options { flows: 1000, ..Options::default() };
    let Some(mut gate) = loaded::gate("expired_bounds_make_room_for_new_ones", &options) else { return };
    gate.bound(&keys(0..1000), Duration::ZERO).unwrap();
    gate.bound(&keys(1000..2000), LONG).unwrap();
    // These are in force: they stay, and the table is full.
    let full = gate.bound(&keys(2000..2001), LONG).unwrap_err().to_string();
    assert!(full.starts_with("writing the connections' bounds"), "{full}");
    gate.release(&key(FORM, 1500));
    gate.bound(&keys(2000..2001), LONG).unwrap();
    let station = |n: u32| (IpAddr::from(Ipv4Addr::from(0x0a00_0000 + n)), 20_000);
    let stations = |numbers: std::ops::Range<u32>| numbers.map(station).collect::<Vec<_>>();
    gate.bound_stations(&stations(0..STATIONS), Duration::ZERO).unwrap();
    gate.bound_stations(&stations(STATIONS..2 * STATIONS), LONG).unwrap();
    gate.bound_stations(&stations(0..1), LONG).unwrap_err();
}
