//! Memory of the sharing daemon over a long time: it frees the memory of flows and members that are
//! gone.
#![allow(clippy::unwrap_used, missing_docs)]

mod cell;

use cell::{Cell, Instance, keyed};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use yuzuri_share::Status;
use yuzuri_testnet::{CountingAllocator, heap, used_connections};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const FLOWS: usize = 300;
const ROUNDS: usize = 8;

/// Opens flows, sends on them, and closes them; the same number at each call.
fn flows_come_and_go(cell: &Cell, instance: &Instance) {
    let to = SocketAddr::new(Ipv4Addr::new(10, 88, 0, 100).into(), 0);
    let listener = cell.inside(0, || TcpListener::bind(to).unwrap());
    let flows = cell.inside(1, || used_connections(&listener, FLOWS));
    let all = |count| move |status: &Status| status.interfaces[0].flow_counts.all == count;
    instance.until("every flow", all(FLOWS as u32));
    drop(flows);
    instance.until("no flow", all(0));
}

#[test]
fn memory_does_not_grow_with_flows_and_members_that_come_and_go() {
    const TEST: &str = "memory_does_not_grow_with_flows_and_members_that_come_and_go";
    let Some(cell) = Cell::or_skip(TEST, 2) else { return };
    let Some(instance) = Instance::or_skip(TEST, &cell, 1, keyed(40)) else { return };
    let mut in_use = Vec::new();
    for _ in 0..ROUNDS {
        let other = Instance::start(&cell, 2, keyed(40)).unwrap();
        let traffic = (cell.traffic(1), cell.traffic(2));
        // Only a member that has proved its liveness can announce its departure.
        let is_proved = |status: &Status| {
            let members = &status.interfaces[0].members;
            status.interfaces[0].summary.is_some() && members.len() == 2 && members.iter().all(|m| m.proved)
        };
        instance.until("the other member's proof", is_proved);
        other.until("this member's proof", is_proved);
        drop(traffic);
        flows_come_and_go(&cell, &instance);
        other.leave();
        instance.until("alone", |status| status.interfaces[0].members.len() == 1);
        in_use.push(heap::in_use_bytes());
    }
    // Sessions of members that left are remembered for two minutes.
    heap::assert_steady(&in_use, FLOWS);
}
