//! Which segments form a flow, how long it lasts, and which flow is evicted when there are too
//! many.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Captured, START_NS, check_shares, end, pcap, read, read_with};
use proptest::prelude::*;
use std::collections::HashMap;
use std::time::Duration;
use yuzuri_capture::{Capture, FileFacts, Flags, Item, NewSegment, Options};

const SECOND_NS: i64 = 1_000_000_000;

/// The client's port identifies the flow.
fn up(port: u16, seq: u32, flags: Flags) -> NewSegment {
    NewSegment { seq, flags, ..NewSegment::new(end(2, port), end(1, 443)) }
}

fn down(port: u16, seq: u32, flags: Flags) -> NewSegment {
    NewSegment { seq, flags, ..NewSegment::new(end(1, 443), end(2, port)) }
}

/// What a capture of these segments yields, one second apart by default: `f` and the slot for the
/// first segment of a flow, `-` for a later one, `e` for an end.
fn exchange(segments: &[NewSegment]) -> (String, FileFacts) {
    exchange_at(&segments.iter().cloned().zip(1..).map(|(segment, s)| (s, segment)).collect::<Vec<_>>())
}

fn exchange_at(segments: &[(i64, NewSegment)]) -> (String, FileFacts) {
    let stamped: Vec<_> =
        segments.iter().map(|(s, segment)| (START_NS + s * SECOND_NS, segment.clone())).collect();
    let (captured, facts) = read(&pcap(&stamped));
    let words: Vec<String> = captured
        .iter()
        .map(|captured| match captured {
            Captured::Segment(segment, _) => {
                format!("{}{}", if segment.first { "f" } else { "-" }, segment.flow.0)
            }
            Captured::Ended(flow, _) => format!("e{}", flow.0),
        })
        .collect();
    (words.join(" "), facts)
}

const SYN: Flags = Flags::SYN;
const ACK: Flags = Flags::ACK;
const FIN: Flags = Flags(Flags::FIN.0 | Flags::ACK.0);
const SYN_ACK: Flags = Flags(Flags::SYN.0 | Flags::ACK.0);

#[test]
fn both_directions_are_one_flow() {
    let (captured, facts) =
        exchange(&[up(1, 5, SYN), down(1, 9, SYN_ACK), up(2, 5, SYN), up(1, 6, ACK), down(2, 3, SYN_ACK)]);
    assert_eq!(captured, "f0 -0 f1 -0 -1");
    assert_eq!((facts.flows.seen, facts.flows.superseded), (2, 0));
    // A host that talks to itself.
    let own = NewSegment::new(end(1, 7), end(1, 7));
    assert_eq!(exchange(&[own.clone(), own]).0, "f0 -0");
}

#[test]
fn a_new_connection_after_the_former_was_closed() {
    for close in [up(1, 100, FIN), down(1, 100, FIN), up(1, 100, Flags::RST), down(1, 100, Flags::RST)] {
        let (captured, facts) =
            exchange(&[up(1, 5, SYN), down(1, 9, SYN_ACK), close, up(1, 700, SYN), down(1, 8, SYN_ACK)]);
        assert_eq!(captured, "f0 -0 -0 e0 f0 -0");
        assert_eq!((facts.flows.seen, facts.flows.superseded, facts.flows.stray_syns), (2, 1, 0));
    }
    // A repeated SYN belongs to the same connection, and so does a late segment.
    let again = [up(1, 5, SYN), down(1, 9, Flags::RST), up(1, 5, SYN), up(1, 6, ACK), up(1, 6, SYN_ACK)];
    assert_eq!(exchange(&again).0, "f0 -0 -0 -0 -0");
    // Opened from the other side.
    let turned = [up(1, 5, SYN), down(1, 9, SYN_ACK), up(1, 6, FIN), down(1, 77, SYN)];
    assert_eq!(exchange(&turned).0, "f0 -0 -0 e0 f0");
    // The beginning of the earlier connection was not captured.
    assert_eq!(exchange(&[up(1, 50, ACK), up(1, 60, FIN), up(1, 5, SYN)]).0, "f0 -0 e0 f0");
}

#[test]
fn a_new_connection_after_silence() {
    let at = |silence_s: i64| {
        let segments = [(0, up(1, 5, SYN)), (1, down(1, 9, SYN_ACK)), (1 + silence_s, up(1, 700, SYN))];
        let (captured, facts) = exchange_at(&segments);
        (captured, facts.flows.stray_syns)
    };
    assert_eq!(at(59), ("f0 -0 -0".into(), 1));
    assert_eq!(at(60), ("f0 -0 e0 f0".into(), 0));
    // A step back of the clock is not a silence.
    assert_eq!(at(-3600), ("f0 -0 -0".into(), 1));
}

#[test]
fn a_second_attempt_after_an_unanswered_syn_is_a_new_flow() {
    assert_eq!(exchange(&[up(1, 5, SYN), up(1, 5, SYN), up(1, 700, SYN)]).0, "f0 -0 e0 f0");
    // Simultaneous open: one connection.
    let (captured, facts) =
        exchange(&[up(1, 5, SYN), down(1, 9, SYN), up(1, 5, SYN_ACK), down(1, 9, SYN_ACK)]);
    assert_eq!((captured.as_str(), facts.flows.stray_syns), ("f0 -0 -0 -0", 0));
}

#[test]
fn one_direction_without_a_handshake_is_a_flow() {
    let (captured, facts) = exchange(&[down(1, 9, ACK), down(1, 10, ACK), down(1, 11, FIN)]);
    assert_eq!((captured.as_str(), facts.flows.seen), ("f0 -0 -0", 1));
}

#[test]
fn an_ended_flow_has_its_key_until_the_next_item() {
    let options = Options { max_flows: 1, ..Options::default() };
    let stamped = [(START_NS, up(1, 5, SYN)), (START_NS, up(2, 5, SYN))];
    let (captured, facts) = read_with(&pcap(&stamped), &options);
    let [Captured::Segment(_, one), Captured::Ended(slot, ended), Captured::Segment(second, two)] =
        &captured[..]
    else {
        panic!("{captured:?}")
    };
    assert_eq!(one, ended);
    assert_ne!(one, two);
    assert_eq!((*slot, second.first), (second.flow, true));
    assert_eq!((facts.flows.seen, facts.flows.evicted), (2, 1));
    assert_eq!(one.to_string(), "10.0.0.1:443 - 10.0.0.2:1");
}

#[test]
fn each_flow_has_a_clock() {
    let at = |ms: i64, segment| (START_NS + ms * 1_000_000, segment);
    let stamped = [
        at(10, up(1, 5, ACK)),
        at(20, up(2, 5, ACK)),
        // A step back for the file, not for the flow.
        at(15, up(1, 6, ACK)),
        at(12, up(1, 7, ACK)),
        at(14, up(1, 8, ACK)),
        at(5, up(1, 9, ACK)),
    ];
    let bytes = pcap(&stamped);
    let mut capture = Capture::new(&bytes[..], "test", &Options::default()).unwrap();
    let slots = capture
        .fold(Vec::new(), |mut slots, item, flows| {
            let Item::Segment(segment) = item else { panic!("{item:?}") };
            assert_eq!(flows.clock(segment.flow).unwrap().last_ns, segment.time_ns);
            slots.push(segment.flow);
            slots
        })
        .unwrap();
    let clock = capture.clock(slots[0]).unwrap();
    assert_eq!((clock.steps_back, clock.largest_step_back_ns), (2, 9_000_000));
    assert_eq!(capture.clock(slots[1]).unwrap().steps_back, 0);
    let clock = capture.facts().clock;
    assert_eq!((clock.steps_back, clock.largest_step_back_ns), (3, 9_000_000));
    assert_eq!(clock.first_ns, Some(START_NS + 10_000_000));
    assert_eq!(clock.last_ns, Some(START_NS + 5_000_000));
    assert_eq!((capture.live_flows(), capture.key(yuzuri_capture::FlowSlot(2))), (2, None));
}

/// A reference model of the table: a list, the least recently seen flow first.
#[derive(Default)]
struct Model {
    flows: Vec<(u16, u32)>,
    ends: HashMap<u64, u16>,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    /// The least recently seen flow is evicted, each slot belongs to one flow at a time, and
    /// nothing else ends.
    #[test]
    fn flows_match_a_simple_reference_table(ports in proptest::collection::vec(0u16..40, 1..400), most in 1usize..30) {
        let stamped: Vec<_> = (START_NS..).zip(ports.iter().map(|port| up(*port, 1, ACK))).collect();
        let (bytes, options) = (pcap(&stamped), Options { max_flows: most, ..Options::default() });
        let (captured, facts) = read_with(&bytes, &options);
        check_shares(&bytes, &options, 3, &(captured.clone(), facts.clone()));
        let mut captured = captured.into_iter();
        let mut model = Model::default();
        for (place, port) in ports.iter().enumerate() {
            let known = model.flows.iter().position(|(other, _)| other == port);
            let mut slot = known.map(|at| model.flows.remove(at).1);
            if known.is_none() && model.flows.len() == most {
                let (gone, its_slot) = model.flows.remove(0);
                model.ends.insert(place as u64, gone);
                let Some(Captured::Ended(ended, key)) = captured.next() else { panic!("an end before packet {place}") };
                prop_assert_eq!((ended.0, key.higher.port()), (its_slot, gone));
                slot = Some(its_slot);
            }
            let slot = slot.unwrap_or(model.flows.len() as u32);
            let Some(Captured::Segment(segment, key)) = captured.next() else { panic!("packet {place}") };
            prop_assert_eq!((segment.flow.0, segment.first), (slot, known.is_none()));
            prop_assert_eq!(key.higher, end(2, *port));
            model.flows.push((*port, slot));
        }
        prop_assert_eq!(captured.next(), None);
        prop_assert_eq!(facts.flows.evicted, model.ends.len() as u64);
    }
}

#[test]
fn impossible_limits_are_refused() {
    let bytes = pcap(&[]);
    let open = |max_flows| {
        let options = Options { max_flows, idle: Duration::MAX, ..Options::default() };
        Capture::new(&bytes[..], "test", &options).err().map(|error| error.to_string())
    };
    assert_eq!(open(0).unwrap(), "max_flows is 0: allowed are 1 to 2147483648");
    assert!(open(usize::MAX).is_some());
    assert_eq!(open(1), None);
}
