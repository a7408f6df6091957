//! Three flows behind two queues: flows 1 and 3 wait in one, flow 2 in the other.

use std::sync::Arc;
use yuzuri_trace::{Event, Flow, FlowId, Item, Snapshot};

/// The flows (10.0.0.1, with their number as the port), and 20 s of their records from `start_ns`
/// on.
pub fn items(start_ns: u64) -> Vec<Item> {
    // Any fixed sequence serves: a linear congruential generator (Knuth's MMIX).
    let mut chance = 1u64;
    let mut queue_us = || {
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (chance >> 48) as u32
    };
    let flow = |port: u16| {
        let local = ([10, 0, 0, 1], port).into();
        Item::Flow(Arc::new(Flow { id: FlowId(port.into()), local, ..Flow::default() }))
    };
    let mut items: Vec<Item> = (1..=3).map(flow).collect();
    for step in 0..200u64 {
        let (shared_us, own_us) = (queue_us(), queue_us());
        for (id, srtt_us) in [(1, 20_000 + shared_us), (2, 20_000 + own_us), (3, 60_000 + shared_us)] {
            let snapshot = Snapshot { srtt_us, packets_out: 10, mss: 1448, ..Snapshot::default() };
            let mono_ns = start_ns + step * 100_000_000 + u64::from(srtt_us) * 1_000;
            items.push(Item::Event(Event { flow: FlowId(id), mono_ns, snapshot, ..Event::default() }));
        }
    }
    items
}
