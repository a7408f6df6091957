//! Tests of individual functions of the cell.

use yuzuri_netmodel::queue::{FqCodelConfig, QueueConfig};
use yuzuri_netmodel::radio::{Cell, CellConfig, Node, Phy, StationConfig, To};
use yuzuri_netmodel::{Arrival, Packet, Time};

#[derive(Clone, Debug, PartialEq, Eq)]
struct Frame {
    number: u64,
    bytes: u32,
}

impl Packet for Frame {
    fn bytes(&self) -> u32 {
        self.bytes
    }
    fn flow(&self) -> u64 {
        self.number % 4
    }
    fn is_voice(&self) -> bool {
        self.number >= VOICE
    }
}

/// Frames from this number on are of the access category for voice.
const VOICE: u64 = 1_000_000;

const FULL: u32 = 1514;

fn frame(number: u64) -> Frame {
    Frame { number, bytes: FULL }
}

fn cell(config: &CellConfig) -> Cell<Frame> {
    Cell::new(config, 5).expect("a valid cell")
}

fn stations(phy: Phy, count: usize) -> CellConfig {
    CellConfig::new(vec![StationConfig::new(phy); count])
}

/// Processes all remaining events.
fn drain(cell: &mut Cell<Frame>) -> Vec<Arrival<Frame, Node>> {
    let mut arrivals = Vec::new();
    while let Some(at) = cell.next() {
        cell.advance(at, &mut arrivals);
    }
    arrivals
}

/// Keeps the queues from `from` to `to` filled for `seconds`. Returns the delivered packets by
/// pair.
fn saturate(cell: &mut Cell<Frame>, pairs: &[(Node, Node)], bytes: u32, seconds: f64) -> Vec<u64> {
    let end = Time::from_secs_f64(seconds);
    let mut counts = vec![0; pairs.len()];
    let mut arrivals = Vec::new();
    for (index, (from, to)) in pairs.iter().enumerate() {
        for _ in 0..200 {
            cell.send(Time::ZERO, *from, To::One(*to), Frame { number: index as u64, bytes });
        }
    }
    while let Some(at) = cell.next().filter(|at| *at <= end) {
        cell.advance(at, &mut arrivals);
        for arrival in arrivals.drain(..) {
            let pair =
                pairs.iter().position(|pair| *pair == (arrival.from, arrival.at_node)).expect("a pair");
            counts[pair] += 1;
            cell.send(at, arrival.from, To::One(arrival.at_node), arrival.packet);
        }
    }
    counts
}

#[test]
fn a_frame_on_an_idle_channel_goes_at_once() {
    let mut g = cell(&stations(Phy::g(54), 1));
    let at = Time::from_nanos(1_000_000);
    g.send(at, Node::Station(0), To::One(Node::Ap), frame(1));
    let arrivals = drain(&mut g);
    // The channel was idle for longer than DIFS: no waiting, 254 µs of airtime.
    assert_eq!(arrivals[0].at, Time::from_nanos(1_254_000));
    // SIFS and an Ack at 24 Mbit/s follow.
    let station = g.account().stations[0];
    assert_eq!((station.airtime.data_ns, station.airtime.response_ns), (254_000, 10_000 + 34_000));
    assert_eq!(station.sent_bytes, u64::from(FULL));
}

#[test]
fn stations_exchange_frames_through_the_access_point() {
    let mut cell = cell(&stations(Phy::ac(80, 1, 9), 3));
    for number in 0..10 {
        cell.send(Time::ZERO, Node::Station(0), To::One(Node::Station(2)), frame(number));
    }
    let arrivals = drain(&mut cell);
    assert_eq!(arrivals.len(), 10);
    assert!(arrivals.iter().all(|one| one.at_node == Node::Station(2) && one.from == Node::Station(0)));
    let account = cell.account();
    assert_eq!((account.stations[0].sent, account.ap.received, account.ap.sent), (10, 10, 10));
    // One aggregate of 10 subframes in each direction.
    assert_eq!((account.stations[0].frames, account.ap.frames), (1, 1));
}

#[test]
fn a_broadcast_goes_out_once_at_a_basic_rate() {
    let mut cell = cell(&stations(Phy::ac(80, 1, 9), 5));
    cell.send(Time::ZERO, Node::Station(3), To::Group, frame(7));
    let mut reached: Vec<_> = drain(&mut cell).into_iter().map(|one| (one.at_node, one.from)).collect();
    reached.sort_unstable();
    let expected = [Node::Ap, Node::Station(0), Node::Station(1), Node::Station(2), Node::Station(4)];
    assert_eq!(reached, expected.map(|node| (node, Node::Station(3))));
    let account = cell.account();
    // 24 + 8 + 1500 + 4 bytes at 6 Mbit/s take 20 + 513 * 4 µs; there is no Ack.
    assert_eq!(account.ap.airtime.group_ns, 2_072_000);
    assert_eq!(account.ap.airtime.total_ns(), 2_072_000);
    assert_eq!((account.ap.group.sent, account.ap.group.copies), (1, 4));
    // A frame from the access point itself reaches all stations.
    cell.send(cell.account().at(), Node::Ap, To::Group, frame(8));
    assert_eq!(drain(&mut cell).len(), 5);
}

#[test]
fn an_unacknowledged_frame_is_dropped_after_seven_attempts() {
    let mut config = stations(Phy::g(54), 1);
    config.stations[0].mpdu_error_rate = 1.0;
    let mut cell = cell(&config);
    cell.send(Time::ZERO, Node::Station(0), To::One(Node::Ap), frame(1));
    assert!(drain(&mut cell).is_empty());
    let station = cell.account().stations[0];
    assert_eq!((station.drops.retry, station.frames, station.retries, station.unanswered), (1, 7, 6, 7));
    assert_eq!(station.airtime.failed_ns, 7 * 254_000);
}

#[test]
fn errors_cost_airtime_and_preserve_the_order() {
    let mut config = stations(Phy::ac(80, 1, 9), 1);
    config.stations[0].mpdu_error_rate = 0.3;
    let mut cell = cell(&config);
    for number in 0..900 {
        cell.send(Time::ZERO, Node::Station(0), To::One(Node::Ap), frame(number));
    }
    let numbers: Vec<_> = drain(&mut cell).into_iter().map(|one| one.packet.number).collect();
    let station = cell.account().stations[0];
    // 0.3^7 = 0.02 %: almost no packet is discarded.
    assert!(numbers.len() > 890 && numbers.is_sorted());
    assert_eq!(station.sent + station.drops.retry, 900);
    let share = station.retries as f64 / station.mpdus as f64;
    assert!((share - 0.3).abs() < 0.04, "{share} of MPDUs were sent again");
}

#[test]
fn block_ack_requests_move_the_window_past_dropped_mpdus() {
    let mut config = stations(Phy::n(20, 1, 7), 1);
    config.stations[0].mpdu_error_rate = 0.5;
    config.retry_limit = 2;
    let mut cell = cell(&config);
    for number in 0..500 {
        cell.send(Time::ZERO, Node::Station(0), To::One(Node::Ap), frame(number));
    }
    let arrivals = drain(&mut cell);
    let station = cell.account().stations[0];
    assert!((station.drops.retry as f64 / 500.0 - 0.25).abs() < 0.07, "{} given up", station.drops.retry);
    assert_eq!(arrivals.len() as u64 + station.drops.retry, 500);
    assert!(station.airtime.block_ack_req_ns > 0);
}

#[test]
fn rts_makes_collisions_cheap() {
    let pairs: Vec<_> = (0..20).map(|number| (Node::Station(number), Node::Ap)).collect();
    let mut plain = cell(&stations(Phy::g(54), 20));
    saturate(&mut plain, &pairs, FULL, 5.0);
    let mut config = stations(Phy::g(54), 20);
    config.rts_threshold_bytes = Some(500);
    let mut protected = cell(&config);
    saturate(&mut protected, &pairs, FULL, 5.0);
    let per_collision = |cell: &Cell<Frame>| {
        let lost: u64 = cell.account().nodes().map(|node| node.airtime.collision_ns).sum();
        lost / cell.account().collisions
    };
    // A data frame takes 254 µs, an RTS at 24 Mbit/s 20 + 2 * 4 + 6.
    assert!((254_000..260_000).contains(&per_collision(&plain)), "{}", per_collision(&plain));
    assert!((34_000..39_000).contains(&per_collision(&protected)), "{}", per_collision(&protected));
    // Each frame costs RTS, SIFS, CTS and SIFS.
    let station = protected.account().stations[0];
    assert_eq!(station.airtime.protection_ns / (34_000 + 10_000 + 34_000 + 10_000), station.sent);
}

#[test]
fn a_slow_station_takes_most_airtime_without_airtime_fairness() {
    let down = [(Node::Ap, Node::Station(0)), (Node::Ap, Node::Station(1))];
    let shares = |queue: QueueConfig, fair: bool| {
        let mut config = CellConfig::new(vec![
            StationConfig::new(Phy::ac(80, 1, 9)),
            StationConfig::new(Phy::ac(20, 1, 0)),
        ]);
        config.ap.queue = queue;
        config.ap.airtime_fairness = fair;
        let mut cell = cell(&config);
        let counts = saturate(&mut cell, &down, FULL, 10.0);
        (counts[0] as f64 / counts[1] as f64, counts[0])
    };
    let fq = || {
        QueueConfig::FqCodel(FqCodelConfig {
            target_us: 10_000_000,
            interval_us: 100_000_000,
            ..FqCodelConfig::default()
        })
    };
    let (in_order, _) = shares(QueueConfig::drop_tail(1000), false);
    let (fair, fast) = shares(fq(), true);
    // With a shared queue, equal arrivals lead to equal departures, except that aggregation
    // advances later packets of the fast station. With equal airtime the ratio is that of the
    // rates, 390 to 6.5, minus the per-frame overhead.
    assert!((0.8..1.6).contains(&in_order), "{in_order}");
    assert!(fair > 40.0, "{fair}");
    let alone = {
        let mut config = stations(Phy::ac(80, 1, 9), 1);
        config.ap.queue = fq();
        saturate(&mut cell(&config), &down[..1], FULL, 10.0)[0]
    };
    let half = fast as f64 / alone as f64;
    assert!((0.42..0.58).contains(&half), "the fast station gets {half} of what it gets alone");
}

#[test]
fn acks_of_many_uploads_queue_at_the_access_point() {
    // All stations and the access point are always backlogged. The access point gets one access in
    // n + 1, although it has an ACK to send for every second segment.
    let mut lengths = Vec::new();
    for n in [1_u16, 4, 16] {
        let mut cell = cell(&stations(Phy::g(54), usize::from(n)));
        let mut arrivals = Vec::new();
        for station in 0..n {
            for number in 0..10 {
                cell.send(Time::ZERO, Node::Station(station), To::One(Node::Ap), frame(number));
            }
        }
        let end = Time::from_nanos(5_000_000_000);
        let mut segments = vec![0_u64; usize::from(n)];
        while let Some(at) = cell.next().filter(|at| *at <= end) {
            cell.advance(at, &mut arrivals);
            for arrival in arrivals.drain(..) {
                let Node::Station(number) = arrival.from else { continue };
                cell.send(at, arrival.from, To::One(Node::Ap), frame(0));
                segments[usize::from(number)] += 1;
                if segments[usize::from(number)] % 2 == 0 {
                    cell.send(at, Node::Ap, To::One(arrival.from), Frame { number: 1, bytes: 66 });
                }
            }
        }
        let ap = cell.account().ap;
        lengths.push(ap.queue.time_mean(end));
        if n == 16 {
            let acks = segments.iter().sum::<u64>() / 2;
            assert!(ap.drops.overflow > acks / 2, "{} of {acks} ACKs dropped", ap.drops.overflow);
        }
    }
    assert!(lengths[0] < 5.0 && lengths[1] > 300.0 && lengths[2] > 380.0, "{lengths:?}");
}

#[test]
fn equal_stations_share_equally() {
    let pairs: Vec<_> = (0..10).map(|number| (Node::Station(number), Node::Ap)).collect();
    let counts = saturate(&mut cell(&stations(Phy::g(54), 10)), &pairs, FULL, 20.0);
    let sum: u64 = counts.iter().sum();
    let squares: u64 = counts.iter().map(|count| count * count).sum();
    let jain = (sum * sum) as f64 / (10.0 * squares as f64);
    assert!(jain > 0.99, "{jain}: {counts:?}");
}

#[test]
fn stations_come_go_and_change_their_rate() {
    let mut cell = cell(&stations(Phy::ac(80, 1, 9), 2));
    let mut arrivals = Vec::new();
    for number in 0..300 {
        cell.send(Time::ZERO, Node::Ap, To::One(Node::Station(0)), frame(number));
    }
    cell.advance(Time::from_nanos(5_000_000), &mut arrivals);
    let now = cell.account().at();
    cell.leave(now, 0);
    assert!(!cell.is_present(0));
    drain(&mut cell);
    let ap = cell.account().ap;
    assert!(ap.sent > 0 && ap.drops.departed > 0);
    assert_eq!(ap.sent + ap.drops.departed, 300);
    // No packet reaches the station any more.
    cell.send(cell.account().at(), Node::Ap, To::One(Node::Station(0)), frame(1));
    cell.send(cell.account().at(), Node::Station(0), To::One(Node::Ap), frame(1));
    assert!(drain(&mut cell).is_empty());
    assert_eq!(cell.account().stations[0].drops.departed, 1);
    // Its number is the next one assigned.
    let now = cell.account().at();
    assert_eq!(cell.join(now, &StationConfig::new(Phy::g(6))).ok(), Some(0));
    assert_eq!(cell.join(now, &StationConfig::new(Phy::ax(80, 1, 5))).ok(), Some(2));
    cell.send(now, Node::Station(0), To::One(Node::Station(2)), frame(1));
    assert_eq!(drain(&mut cell).len(), 1);
    let before = cell.account().stations[0].airtime.data_ns;
    let now = cell.account().at();
    cell.set_phy(now, 0, Phy::ac(80, 1, 9)).expect("a rate");
    cell.send(now, Node::Station(0), To::One(Node::Ap), frame(1));
    drain(&mut cell);
    // 4 + 26 + 8 + 1500 + 4 bytes take 8 symbols at 390 Mbit/s.
    assert_eq!(cell.account().stations[0].airtime.data_ns - before, 40_000 + 8 * 4_000);
    let error = cell.set_phy(now, 9, Phy::g(54)).expect_err("no station 9");
    assert_eq!(error.to_string(), "station is 9: no such station; there are 3");
}

#[test]
fn a_thousand_stations() {
    let pairs: Vec<_> = (0..1000).map(|number| (Node::Station(number), Node::Ap)).collect();
    let mut cell = cell(&stations(Phy::g(54), 1000));
    let sum: u64 = saturate(&mut cell, &pairs, FULL, 0.5).iter().sum();
    // Little is delivered, but not nothing, and all packets are accounted for.
    assert!(sum > 50, "{sum}");
    assert!(cell.account().collisions > 100);
}

#[test]
fn packets_sent_late_are_delivered_in_order() {
    // A driver that calls `send` before `advance` receives the intermediate arrivals with the next
    // `advance`.
    let mut cell = cell(&stations(Phy::g(54), 2));
    cell.send(Time::ZERO, Node::Station(0), To::One(Node::Ap), frame(1));
    cell.send(Time::from_nanos(9_000_000), Node::Station(1), To::One(Node::Ap), frame(2));
    assert!(cell.next().is_some_and(|at| at < Time::from_nanos(9_000_000)));
    let numbers: Vec<_> = drain(&mut cell).into_iter().map(|one| one.packet.number).collect();
    assert_eq!(numbers, [1, 2]);
}

/// A voice packet waits for the frame in transmission, not for the packets that were queued before
/// it, and is not dropped where their queue is full. A group-addressed frame of the access point
/// carries no access category, nor does 802.11g.
#[test]
fn voice_does_not_wait_behind_best_effort() {
    let places = |phy: Phy, from: Node| {
        let to = To::One(if from == Node::Ap { Node::Station(0) } else { Node::Ap });
        let mut config = stations(phy, 2);
        config.stations[0].queue = QueueConfig::drop_tail(200);
        config.ap.queue = QueueConfig::drop_tail(200);
        let mut cell = cell(&config);
        for number in 0..300 {
            cell.send(Time::ZERO, from, to, frame(number));
        }
        for (number, to) in [(VOICE, to), (VOICE + 1, to), (VOICE + 2, To::Group)] {
            cell.send(Time::ZERO, from, to, frame(number));
        }
        let arrivals = drain(&mut cell);
        assert!(arrivals.iter().filter(|a| a.packet.number < VOICE).map(|a| a.packet.number).is_sorted());
        [VOICE, VOICE + 1, VOICE + 2].map(|n| arrivals.iter().position(|arrival| arrival.packet.number == n))
    };
    // A station sends the group's packet to the access point as a unicast frame.
    assert_eq!(places(Phy::n(20, 1, 7), Node::Station(0)), [Some(0), Some(1), Some(2)]);
    assert_eq!(places(Phy::n(20, 1, 7), Node::Ap), [Some(0), Some(1), None]);
    for from in [Node::Station(0), Node::Ap] {
        assert_eq!(places(Phy::g(54), from), [None; 3], "{from:?}");
    }
}

/// Saturated stations leave room for voice: it is received after a few exchanges, whatever the
/// number of stations.
#[test]
fn voice_is_received_within_a_few_exchanges() {
    let count = 12;
    let mut cell = cell(&stations(Phy::n(20, 1, 7), count));
    let mut arrivals = Vec::new();
    let all = |count: usize| (0..count as u16).map(Node::Station);
    for station in all(count) {
        for _ in 0..900 {
            cell.send(Time::ZERO, station, To::One(Node::Ap), frame(1));
        }
    }
    let mut waits_ns = Vec::new();
    for number in 0..100 {
        let at = Time::from_nanos(1_000_000_000 + number * 10_000_000);
        let from = Node::Station((number % count as u64) as u16);
        cell.advance(at, &mut arrivals);
        cell.send(at, from, To::One(Node::Ap), Frame { number: VOICE + number, bytes: 100 });
    }
    cell.advance(Time::from_nanos(2_500_000_000), &mut arrivals);
    for arrival in arrivals.iter().filter(|arrival| arrival.packet.number >= VOICE) {
        let sent = Time::from_nanos(1_000_000_000 + (arrival.packet.number - VOICE) * 10_000_000);
        waits_ns.push(arrival.at.as_nanos() - sent.as_nanos());
    }
    waits_ns.sort_unstable();
    assert!(waits_ns.len() >= 98, "{} of 100", waits_ns.len());
    // A full aggregate takes up to 5.5 ms.
    assert!(waits_ns[waits_ns.len() / 2] < 20_000_000, "{waits_ns:?}");
}
