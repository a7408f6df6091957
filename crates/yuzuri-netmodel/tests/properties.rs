//! Invariants of every cell and every wire.

use proptest::prelude::*;
use std::collections::HashMap;
use yuzuri_netmodel::queue::{CodelConfig, FqCodelConfig, QueueConfig};
use yuzuri_netmodel::radio::{Cell, CellConfig, Node, Phy, StationConfig, To};
use yuzuri_netmodel::wire::{Direction, LineConfig, LossConfig, Wire, WireConfig};
use yuzuri_netmodel::{Arrival, Packet, Time};

#[derive(Clone, Debug, PartialEq, Eq)]
struct Numbered {
    number: u64,
    to: To,
    bytes: u32,
    ecn: bool,
    /// Number of changes of a rate before a packet of voice was sent; 0 for other packets. A
    /// station that turns from a radio without EDCA into one with it has packets of voice in both
    /// of its access categories, and those that come later may overtake.
    rate_changes: u32,
}

impl Packet for Numbered {
    fn bytes(&self) -> u32 {
        self.bytes
    }
    fn flow(&self) -> u64 {
        // All packets of a pair form one flow; otherwise FQ-CoDel could reorder them.
        match self.to {
            To::One(Node::Station(number)) => u64::from(number),
            To::One(Node::Ap) => 1000,
            To::Group => 1001,
        }
    }
    fn is_voice(&self) -> bool {
        // All packets to the access point: a pair must keep its order.
        is_voice(self.to)
    }
    fn ecn_capable(&self) -> bool {
        self.ecn
    }
}

fn is_voice(to: To) -> bool {
    to == To::One(Node::Ap)
}

/// An operation on a cell.
#[derive(Clone, Debug)]
enum Operation {
    Send { from: Node, to: To, count: u8, bytes: u32, ecn: bool },
    Leave(u16),
    Join(Phy),
    SetPhy(u16, Phy),
}

fn phy() -> impl Strategy<Value = Phy> {
    prop_oneof![
        Just(Phy::g(54)),
        Just(Phy::g(6)),
        Just(Phy::n(20, 1, 7)),
        Just(Phy::n(40, 2, 0)),
        Just(Phy::ac(80, 1, 9)),
        Just(Phy::ax(80, 2, 11)),
    ]
}

fn queue() -> impl Strategy<Value = QueueConfig> {
    prop_oneof![
        (1_u32..60).prop_map(QueueConfig::drop_tail),
        (1600_u64..40_000).prop_map(|bytes| QueueConfig::DropTail { packets: None, bytes: Some(bytes) }),
        (1_u32..60, 100_u32..5000).prop_map(|(packets, target_us)| {
            QueueConfig::Codel(CodelConfig { packets, target_us, interval_us: 4 * target_us, ecn: true })
        }),
        (1_u32..60, 100_u32..5000, 1_u32..5).prop_map(|(packets, target_us, flows)| {
            QueueConfig::FqCodel(FqCodelConfig {
                packets,
                target_us,
                interval_us: 4 * target_us,
                flows,
                quantum_bytes: 300,
                ecn: true,
            })
        }),
    ]
}

fn station() -> impl Strategy<Value = StationConfig> {
    (phy(), queue(), prop_oneof![Just(0.0), Just(0.1), Just(0.7), Just(1.0)]).prop_map(
        |(phy, queue, error_rate)| StationConfig {
            queue,
            mpdu_error_rate: error_rate,
            ..StationConfig::new(phy)
        },
    )
}

prop_compose! {
    fn cell()(
        stations in prop::collection::vec(station(), 1..7),
        ap_queue in queue(),
        fair in any::<bool>(),
        rts in prop::option::of(0_u32..4000),
        retry_limit in 1_u8..8,
        mpdus in prop_oneof![Just(1_u16), Just(5), Just(64)],
        ask in any::<bool>(),
    ) -> CellConfig {
        let mut config = CellConfig::new(stations);
        config.ap.airtime_fairness = fair && matches!(ap_queue, QueueConfig::FqCodel(_));
        config.ap.queue = ap_queue;
        config.rts_threshold_bytes = rts;
        config.retry_limit = retry_limit;
        config.ampdu.mpdus = mpdus;
        config.request_missed_block_ack = ask;
        config
    }
}

fn node() -> impl Strategy<Value = Node> {
    prop_oneof![2 => Just(Node::Ap), 5 => (0_u16..8).prop_map(Node::Station)]
}

fn operation() -> impl Strategy<Value = Operation> {
    let to = prop_oneof![6 => node().prop_map(To::One), 1 => Just(To::Group)];
    prop_oneof![
        20 => (node(), to, 1_u8..40, prop_oneof![Just(66_u32), Just(1514), 60_u32..1600], any::<bool>())
            .prop_map(|(from, to, count, bytes, ecn)| Operation::Send { from, to, count, bytes, ecn }),
        1 => (0_u16..8).prop_map(Operation::Leave),
        1 => phy().prop_map(Operation::Join),
        1 => (0_u16..8, phy()).prop_map(|(station, phy)| Operation::SetPhy(station, phy)),
    ]
}

fn operations() -> impl Strategy<Value = Vec<(u64, Operation)>> {
    // Pauses range from none to longer than any exchange.
    prop::collection::vec((prop_oneof![Just(0), 1..50_000_u64, 1..5_000_000_u64], operation()), 1..60)
}

/// How a cell is advanced between two operations.
#[derive(Clone, Copy)]
enum Steps {
    /// In a single step to the next operation.
    One,
    /// In steps of this many nanoseconds.
    Of(u64),
    /// To each time at which a packet may arrive, and never a nanosecond earlier.
    Arrivals,
}

/// Performs all operations and checks the statistics after each step.
fn simulate(config: &CellConfig, seed: u64, operations: &[(u64, Operation)], steps: Steps) -> Simulated {
    let mut cell = Cell::new(config, seed).expect("a valid cell");
    let mut arrivals = Vec::new();
    let mut now = Time::ZERO;
    let (mut number, mut changes) = (0, 0);
    let walk =
        |cell: &mut Cell<Numbered>, from: Time, to: Time, arrivals: &mut Vec<Arrival<Numbered, Node>>| {
            match steps {
                Steps::One => {}
                Steps::Of(step_ns) => {
                    let mut at = from.as_nanos() + step_ns;
                    while at < to.as_nanos() {
                        cell.advance(Time::from_nanos(at), arrivals);
                        at += step_ns;
                    }
                }
                Steps::Arrivals => {
                    // Arrivals caused by a call other than `advance` are returned first.
                    cell.advance(from, arrivals);
                    while let Some(at) = cell.next_arrival().filter(|at| *at < to) {
                        let known = arrivals.len();
                        cell.advance(Time::from_nanos(at.as_nanos() - 1), arrivals);
                        assert_eq!(arrivals.len(), known, "nothing arrives before {at}");
                        cell.advance(at, arrivals);
                    }
                }
            }
            let arrives = cell.next_arrival();
            let known = arrivals.len();
            cell.advance(to, arrivals);
            if let Some(first) = arrivals.get(known) {
                assert!(arrives.is_some_and(|at| at <= first.at), "{first:?} before {arrives:?}");
            }
        };
    for (pause, operation) in operations {
        let then = Time::from_nanos(now.as_nanos() + pause);
        walk(&mut cell, now, then, &mut arrivals);
        now = then;
        match operation {
            Operation::Send { from, to, count, bytes, ecn } => {
                for _ in 0..*count {
                    number += 1;
                    let rate_changes = if is_voice(*to) { changes } else { 0 };
                    let packet = Numbered { number, to: *to, bytes: *bytes, ecn: *ecn, rate_changes };
                    cell.send(now, *from, *to, packet);
                }
            }
            Operation::Leave(station) => cell.leave(now, *station),
            Operation::Join(phy) => {
                // Rejected if the band does not have the rate.
                let _ = cell.join(now, &StationConfig::new(*phy));
            }
            Operation::SetPhy(station, phy) => {
                // Rejected if the station does not exist.
                changes += u32::from(cell.set_phy(now, *station, *phy).is_ok());
            }
        }
        check_account(&cell, now);
    }
    let end = Time::from_nanos(now.as_nanos() + 3_000_000);
    walk(&mut cell, now, end, &mut arrivals);
    check_account(&cell, end);
    let halfway = format!("{:?}", cell.account());
    // All activity ends within an hour of simulated time, and the time advances.
    let mut steps = 0;
    while let Some(at) = cell.next() {
        steps += 1;
        assert!(steps < 1_000_000 && at < Time::from_secs_f64(3600.0), "no end: {at} {:?}", cell.account());
        cell.advance(at, &mut arrivals);
    }
    check_account(&cell, cell.account().at());
    for node in cell.account().nodes() {
        assert_eq!((node.queue.now, node.in_mac, node.group.queued), (0, 0, 0), "left over at the end");
    }
    Simulated {
        arrivals,
        halfway,
        account: format!("{:?}", cell.account()),
        unknown: cell.account().unknown_senders,
    }
}

#[derive(Debug, PartialEq)]
struct Simulated {
    arrivals: Vec<Arrival<Numbered, Node>>,
    halfway: String,
    account: String,
    unknown: u64,
}

fn check_account(cell: &Cell<Numbered>, now: Time) {
    let account = cell.account();
    assert_eq!(account.at(), now);
    let airtime: u64 = account.nodes().map(|node| node.airtime.total_ns()).sum();
    assert_eq!(airtime + account.idle.contention_ns + account.idle.empty_ns, now.as_nanos(), "airtime");
    for node in account.nodes() {
        let waiting = node.queue.now - node.group.queued;
        assert_eq!(node.offered, node.sent + node.drops.total() + waiting + node.in_mac, "packets");
        assert_eq!(node.group.offered, node.group.sent + node.group.dropped + node.group.queued, "group");
        assert!(node.queue.max >= node.queue.now && node.queue.time_mean(now) <= node.queue.max as f64);
        assert!(node.retries <= node.mpdus && node.frames <= node.mpdus && node.collisions <= node.accesses);
    }
    // Every unicast packet sent over a hop is received there.
    let sent: u64 = account.nodes().map(|node| node.sent).sum();
    let received: u64 = account.nodes().map(|node| node.received).sum();
    assert_eq!(sent + account.ap.group.copies, received, "received");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_packet_is_counted_and_the_order_is_preserved(config in cell(), operations in operations(), seed in any::<u64>()) {
        let played = simulate(&config, seed, &operations, Steps::One);
        let mut last: HashMap<(Node, Node, To, u32), u64> = HashMap::new();
        let mut at = Time::ZERO;
        for arrival in &played.arrivals {
            prop_assert!(arrival.at >= at, "arrivals in order of time");
            at = arrival.at;
            let pair = (arrival.from, arrival.at_node, arrival.packet.to, arrival.packet.rate_changes);
            let before = last.insert(pair, arrival.packet.number);
            prop_assert!(before < Some(arrival.packet.number), "{pair:?}: {before:?} then {:?}", arrival.packet);
            match arrival.packet.to {
                To::One(node) => prop_assert_eq!(node, arrival.at_node),
                To::Group => prop_assert_ne!(arrival.from, arrival.at_node),
            }
        }
    }

    #[test]
    fn one_seed_one_result_in_steps_of_any_length(
        config in cell(),
        operations in operations(),
        seed in any::<u64>(),
        step_ns in 20_000_u64..3_000_000,
    ) {
        let once = simulate(&config, seed, &operations, Steps::One);
        prop_assert_eq!(&once, &simulate(&config, seed, &operations, Steps::One));
        prop_assert_eq!(&once, &simulate(&config, seed, &operations, Steps::Of(step_ns)));
        prop_assert_eq!(&once, &simulate(&config, seed, &operations, Steps::Arrivals));
    }

    #[test]
    fn configurations_round_trip_through_json(config in cell()) {
        let text = serde_json::to_string(&config).expect("text");
        prop_assert_eq!(config, serde_json::from_str(&text).expect("the same"));
    }
}

fn loss() -> impl Strategy<Value = LossConfig> {
    prop_oneof![
        Just(LossConfig::None),
        (0.0..1.0).prop_map(|probability| LossConfig::Random { probability }),
        (0.0..0.5, 0.1..1.0).prop_map(|(good_to_bad, bad_to_good)| LossConfig::GilbertElliott {
            good_to_bad,
            bad_to_good,
            loss_in_good: 0.01,
            loss_in_bad: 0.8,
        }),
    ]
}

prop_compose! {
    fn line()(
        rate_bps in prop::option::of(1_000_000_u64..1_000_000_000),
        delay_us in 0_u64..50_000,
        jitter_us in prop_oneof![Just(0_u64), 0_u64..20_000],
        loss in loss(),
        queue in queue(),
    ) -> LineConfig {
        LineConfig { rate_bps, delay_us, jitter_us, loss, queue, ..LineConfig::default() }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_wire_counts_everything_and_keeps_order(
        up in line(),
        down in line(),
        sends in prop::collection::vec((0_u64..300_000, any::<bool>(), 1_u8..20, 60_u32..1600), 1..80),
        seed in any::<u64>(),
        step_ns in 1_000_u64..3_000_000,
    ) {
        let config = WireConfig { up, down };
        let run = |step_ns: Option<u64>| {
            let mut wire = Wire::new(&config, seed).expect("a valid wire");
            let (mut now, mut number, mut arrivals) = (0, 0, Vec::new());
            for (pause, is_up, count, bytes) in &sends {
                if let Some(step_ns) = step_ns {
                    for at in (now..now + pause).step_by(step_ns as usize) {
                        wire.advance(Time::from_nanos(at), &mut arrivals);
                    }
                }
                now += pause;
                wire.advance(Time::from_nanos(now), &mut arrivals);
                for _ in 0..*count {
                    number += 1;
                    let direction = if *is_up { Direction::Up } else { Direction::Down };
                    let packet = Numbered { number, to: To::Group, bytes: *bytes, ecn: number % 2 == 0, rate_changes: 0 };
                    wire.send(Time::from_nanos(now), direction, packet);
                }
                for line in [&wire.account().up, &wire.account().down] {
                    let gone = line.drops.overflow + line.drops.aqm + line.lost;
                    assert_eq!(line.sent, line.delivered + gone + line.queued + line.in_flight);
                }
            }
            while let Some(at) = wire.next_arrival() {
                let known = arrivals.len();
                wire.advance(Time::from_nanos(at.as_nanos().saturating_sub(1)), &mut arrivals);
                assert_eq!(arrivals.len(), known, "nothing arrives before {at}");
                wire.advance(at, &mut arrivals);
            }
            assert!(wire.next().is_none());
            for line in [&wire.account().up, &wire.account().down] {
                assert_eq!((line.queued, line.in_flight), (0, 0));
            }
            (arrivals, wire.account().clone())
        };
        let once = run(None);
        prop_assert_eq!(&once, &run(Some(step_ns)));
        for direction in [Direction::Up, Direction::Down] {
            let of = || once.0.iter().filter(|arrival| arrival.at_node == direction);
            prop_assert!(of().zip(of().skip(1)).all(|(a, b)| a.at <= b.at));
            let in_order = |config: &LineConfig| !matches!(config.queue, QueueConfig::FqCodel(_));
            if in_order(if direction == Direction::Up { &config.up } else { &config.down }) {
                prop_assert!(of().zip(of().skip(1)).all(|(a, b)| a.packet.number < b.packet.number));
            }
        }
    }
}
