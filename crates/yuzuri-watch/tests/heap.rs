//! Memory of a watch over a long time: it frees the memory of flows that have closed.
#![allow(clippy::unwrap_used, missing_docs)]

use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use yuzuri_kernel::{Monitor, Options, Watch, clock};
use yuzuri_testnet::{CountingAllocator, Net, Side, heap, used_connections};
use yuzuri_trace::{Density, Item, Kind};
use yuzuri_view::{Limits, LiveModel, Totals};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Connections per round; both ends of each are watched.
const CONNECTIONS: usize = 300;
const ROUNDS: usize = 8;
/// Flows that the table and the totals keep: far fewer than close in a round.
const KEPT: usize = 50;

/// A watch with the command's state: the live model and the totals.
struct Watched {
    monitor: Monitor,
    model: LiveModel,
    totals: Totals,
    closed: usize,
}

impl Watched {
    fn start(net: &Net) -> Watched {
        let filter = format!("netns:{} netns:{}", net.name(Side::A), net.name(Side::B)).parse().unwrap();
        let monitor =
            Monitor::start(&Options { filter, density: Density::EveryAck, ring_bytes: None }).unwrap();
        let limits = Limits { flows: KEPT, log: KEPT, ..Limits::default() };
        let model = LiveModel::new(monitor.session().clone(), limits);
        Watched { monitor, model, totals: Totals::of_at_most(KEPT), closed: 0 }
    }

    /// Reads until this many flows have closed.
    fn until_closed(&mut self, flows: usize) {
        let until = Instant::now() + Duration::from_secs(60);
        while self.closed < flows {
            assert!(Instant::now() < until, "{} of {flows} flows closed", self.closed);
            let mut items = Vec::new();
            self.monitor.read(&mut items);
            for item in &items {
                self.model.apply(item);
                self.closed += usize::from(matches!(item, Item::Event(e) if e.kind == Kind::Close));
            }
            self.totals.take(&items);
            self.model.advance(clock::mono_ns());
            std::thread::sleep(self.monitor.read_interval());
        }
    }
}

/// Opens connections, transfers data and closes them; the same number at each call.
fn connections_come_and_go(net: &Net) {
    let to = SocketAddr::new(net.v4(Side::B), 0);
    let listener = net.inside(Side::B, || TcpListener::bind(to).unwrap());
    drop(net.inside(Side::A, || used_connections(&listener, CONNECTIONS)));
}

#[test]
fn memory_does_not_grow_with_flows_that_come_and_go() {
    const TEST: &str = "memory_does_not_grow_with_flows_that_come_and_go";
    let Some(net) = Net::or_skip(TEST) else { return };
    let mut watched = Watched::start(&net);
    let mut in_use = Vec::new();
    for round in 1..=ROUNDS {
        connections_come_and_go(&net);
        watched.until_closed(round * 2 * CONNECTIONS);
        assert_eq!(watched.monitor.known_flows(), 0, "closed flows are forgotten");
        in_use.push(heap::in_use_bytes());
    }
    heap::assert_steady(&in_use, 2 * CONNECTIONS);
}
