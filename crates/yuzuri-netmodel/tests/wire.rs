//! Tests of individual functions of the wire.

use yuzuri_netmodel::queue::{CodelConfig, QueueConfig};
use yuzuri_netmodel::wire::{Direction, LineConfig, LossConfig, Wire, WireConfig};
use yuzuri_netmodel::{Arrival, Packet, Time};

#[derive(Clone, Debug)]
struct Frame(u64);
impl Packet for Frame {
    fn bytes(&self) -> u32 {
        1496
    }
    fn flow(&self) -> u64 {
        self.0
    }
}

/// 1496 bytes and the FCS make 1500: at 12 Mbit/s one packet per ms.
const RATE: Option<u64> = Some(12_000_000);

fn wire(line: LineConfig) -> Wire<Frame> {
    Wire::new(&WireConfig::symmetric(line), 9).expect("a valid wire")
}

fn drain(wire: &mut Wire<Frame>) -> Vec<Arrival<Frame, Direction>> {
    let mut arrivals = Vec::new();
    while let Some(at) = wire.next() {
        wire.advance(at, &mut arrivals);
    }
    arrivals
}

fn micros(arrivals: &[Arrival<Frame, Direction>]) -> Vec<u64> {
    arrivals.iter().map(|one| one.at.as_nanos() / 1000).collect()
}

#[test]
fn rate_then_delay_each_direction_on_its_own() {
    let up = LineConfig { rate_bps: RATE, delay_us: 10_000, ..LineConfig::default() };
    let down = LineConfig { rate_bps: None, delay_us: 500, ..LineConfig::default() };
    let mut wire = Wire::new(&WireConfig { up, down }, 1).expect("a valid wire");
    for number in 0..3 {
        wire.send(Time::ZERO, Direction::Up, Frame(number));
        wire.send(Time::ZERO, Direction::Down, Frame(number));
    }
    let arrivals = drain(&mut wire);
    assert_eq!(micros(&arrivals), [500, 500, 500, 11_000, 12_000, 13_000]);
    assert_eq!(wire.account().up.busy_ns, 3_000_000);
    assert_eq!(wire.account().up.queued_max, 2);
}

#[test]
fn limits_in_packets_and_bytes_exclude_the_packet_in_transmission() {
    for queue in
        [QueueConfig::drop_tail(5), QueueConfig::DropTail { packets: None, bytes: Some(5 * 1496 + 1495) }]
    {
        let mut wire = wire(LineConfig { rate_bps: RATE, queue, ..LineConfig::default() });
        for number in 0..10 {
            wire.send(Time::ZERO, Direction::Up, Frame(number));
        }
        let numbers: Vec<_> = drain(&mut wire).into_iter().map(|one| one.packet.0).collect();
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5]);
        assert_eq!(wire.account().up.drops.overflow, 4);
        // 5, 4, 3, 2, 1 and 0 packets were queued for 1 ms each.
        let mean = wire.account().up.queued_mean(Time::from_nanos(6_000_000));
        assert!((mean - 15.0 / 6.0).abs() < 1e-9, "{mean}");
    }
}

#[test]
fn jitter_is_even_and_does_not_reorder() {
    let mut wire = wire(LineConfig { delay_us: 1000, jitter_us: 4000, ..LineConfig::default() });
    let mut delays = Vec::new();
    for number in 0..4000 {
        // The spacing keeps packets from delaying each other.
        let at = Time::from_nanos(number * 10_000_000);
        wire.send(at, Direction::Down, Frame(number));
        delays.push((drain(&mut wire)[0].at - at).as_micros() as f64);
    }
    let mean = delays.iter().sum::<f64>() / 4000.0;
    assert!((mean - 3000.0).abs() < 100.0, "{mean}");
    assert!(delays.iter().all(|delay| (1000.0..=5000.0).contains(delay)));
    assert!(delays.iter().any(|delay| *delay < 1050.0) && delays.iter().any(|delay| *delay > 4950.0));
    for number in 0..1000 {
        wire.send(Time::from_nanos(50_000_000_000 + number * 100_000), Direction::Down, Frame(number));
    }
    assert!(drain(&mut wire).is_sorted_by_key(|one| one.packet.0));
}

/// Sends 100,000 packets. Returns the loss ratio and the mean length of a run of losses.
fn losses(loss: LossConfig) -> (f64, f64) {
    const COUNT: u64 = 100_000;
    let mut wire = wire(LineConfig { loss, ..LineConfig::default() });
    for number in 0..COUNT {
        wire.send(Time::from_nanos(number), Direction::Up, Frame(number));
    }
    let arrivals = drain(&mut wire);
    let lost = COUNT - arrivals.len() as u64;
    assert_eq!(wire.account().up.lost, lost);
    let runs = arrivals.windows(2).filter(|pair| pair[1].packet.0 > pair[0].packet.0 + 1).count();
    (lost as f64 / COUNT as f64, lost as f64 / runs as f64)
}

#[test]
fn loss_rate_and_burstiness_match_the_configuration() {
    let (share, run) = losses(LossConfig::Random { probability: 0.02 });
    assert!((share - 0.02).abs() < 0.002, "{share}");
    assert!((run - 1.0 / 0.98).abs() < 0.02, "{run}");
    // Gilbert: in the bad state for 0.01 / (0.01 + 0.2) of the time, with bursts of 1 / 0.2.
    let gilbert = LossConfig::GilbertElliott {
        good_to_bad: 0.01,
        bad_to_good: 0.2,
        loss_in_good: 0.0,
        loss_in_bad: 1.0,
    };
    let (share, run) = losses(gilbert);
    assert!((share - 0.01 / 0.21).abs() < 0.005, "{share}");
    assert!((run - 5.0).abs() < 0.4, "{run}");
    // Elliott: each state has its own loss probability.
    let elliott = LossConfig::GilbertElliott {
        good_to_bad: 0.1,
        bad_to_good: 0.1,
        loss_in_good: 0.1,
        loss_in_bad: 0.5,
    };
    let (share, _) = losses(elliott);
    assert!((share - 0.3).abs() < 0.02, "{share}");
}

#[test]
fn codel_keeps_the_standing_queue_short() {
    // A load of 1.05 for 20 s, with which a drop-tail queue of 1000 would stay at its limit.
    let delays = |queue: QueueConfig| {
        let mut wire = wire(LineConfig { rate_bps: RATE, queue, ..LineConfig::default() });
        let mut arrivals = Vec::new();
        for number in 0..21_000 {
            let at = Time::from_nanos(number * 952_381);
            wire.advance(at, &mut arrivals);
            wire.send(at, Direction::Up, Frame(number));
        }
        let last = arrivals.last().expect("arrivals");
        let sent = Time::from_nanos(last.packet.0 * 952_381);
        ((last.at - sent).as_micros() as f64 / 1e3, wire.account().up.drops.aqm)
    };
    let (delay, dropped) = delays(QueueConfig::Codel(CodelConfig::default()));
    assert!(delay < 60.0 && dropped > 500, "{delay} ms, {dropped} dropped");
    let (delay, dropped) = delays(QueueConfig::drop_tail(1000));
    assert!(delay > 900.0 && dropped == 0, "{delay} ms");
}
