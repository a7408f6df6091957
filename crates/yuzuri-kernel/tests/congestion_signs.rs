//! ECN and the device's own full queue both lead to CWR: the monitor distinguishes them.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::{Pair, Watched};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use yuzuri_testnet::{Net, Relay, Side, Verdict};
use yuzuri_trace::{CaState, Density, Event, Kind, Marks, Reason};

fn entries_to_cwr<'a>(events: &[&'a Event]) -> Vec<&'a Event> {
    let entry = |e: &&&Event| e.kind == Kind::State && e.ca_state == CaState::Cwr;
    events.iter().filter(entry).copied().collect()
}

fn prepared(test: &str, ecn: &str) -> Option<Net> {
    let net = Net::or_skip(test)?;
    for side in [Side::A, Side::B] {
        net.set(side, "net.ipv4.tcp_ecn", ecn).unwrap();
    }
    Some(net)
}

/// Marks every 50th data segment from A with Congestion Experienced.
fn mark_some(relay: &Relay) -> Arc<AtomicUsize> {
    let marked = Arc::new(AtomicUsize::new(0));
    let marking = marked.clone();
    let mut count = 0;
    relay.decide(move |packet| {
        if packet.from == Side::A && packet.tcp.as_ref().is_some_and(|tcp| tcp.is_data()) {
            count += 1;
            if count % 50 == 20 {
                assert!(packet.set_congestion_experienced(), "the flow is not ECN-capable");
                marking.fetch_add(1, Ordering::Relaxed);
            }
        }
        Verdict::Pass
    });
    marked
}

#[test]
fn congestion_experienced_is_ecn() {
    const TEST: &str = "congestion_experienced_is_ecn";
    for (v6, control) in [(false, "cubic"), (true, "reno")] {
        let Some(net) = prepared(TEST, "1") else { return };
        let Some(relay) = Relay::or_skip(&net, TEST) else { return };
        let watched = Watched::of(&net, Side::A, Density::EveryAck);
        let to = if v6 { relay.v6(Side::B) } else { relay.v4(Side::B) };
        let pair = Pair::new(&net, Side::A, to, control);
        let marked = mark_some(&relay);
        pair.send(1_000_000);
        let marked = marked.load(Ordering::Relaxed);
        let seen = watched.finish_whole();
        let events = seen.of(pair.near_addr());
        let entries = entries_to_cwr(&events);
        assert!(!entries.is_empty() && entries.len() <= marked, "{} of {marked}", entries.len());
        for entry in &entries {
            assert_eq!(entry.reason, Reason::Ecn, "{entry:?}");
            assert!(entry.place.name().starts_with("tcp_"), "{entry:?}");
        }
        // RFC 3168: the receiver repeats ECE until it sees CWR; each such ACK is marked.
        let echoes = events.iter().filter(|e| e.marks.contains(Marks::ECE)).count();
        assert!(echoes > 0);
        assert!(events.iter().any(|e| (e.ca_before, e.ca_state) == (CaState::Cwr, CaState::Open)));
    }
}

/// AccECN uses the ECE bit as part of a counter: alone it is not an echo.
#[test]
fn a_bit_of_the_accecn_counter_is_no_echo() {
    const TEST: &str = "a_bit_of_the_accecn_counter_is_no_echo";
    let Some(net) = Net::or_skip(TEST) else { return };
    if net.set(Side::A, "net.ipv4.tcp_ecn", "3").and(net.set(Side::B, "net.ipv4.tcp_ecn", "3")).is_err() {
        println!("{TEST}: skipped: this kernel offers no AccECN (net.ipv4.tcp_ecn = 3)");
        return;
    }
    let Some(relay) = Relay::or_skip(&net, TEST) else { return };
    let watched = Watched::of(&net, Side::A, Density::EveryAck);
    let pair = Pair::new(&net, Side::A, relay.v4(Side::B), "cubic");
    // Nothing is marked.
    pair.send(1_000_000);
    let seen = watched.finish_whole();
    let events = seen.of(pair.near_addr());
    assert!(events.iter().all(|e| !e.marks.contains(Marks::ECE)));
    assert!(entries_to_cwr(&events).iter().all(|e| e.reason != Reason::Ecn));
}

#[test]
fn the_devices_own_full_queue_is_local_congestion() {
    for ecn in ["0", "1"] {
        let Some(net) = prepared("the_devices_own_full_queue_is_local_congestion", ecn) else { return };
        net.shape(Side::A, 20, 20_000).unwrap();
        let watched = Watched::of(&net, Side::A, Density::EveryAck);
        let pair = Pair::new(&net, Side::A, net.v4(Side::B), "cubic");
        pair.send(2_000_000);
        let seen = watched.finish_whole();
        let events = seen.of(pair.near_addr());
        let entries = entries_to_cwr(&events);
        assert!(!entries.is_empty());
        for entry in &entries {
            assert_eq!(entry.reason, Reason::LocalCongestion, "{entry:?}");
            assert_eq!(entry.place.name(), "__tcp_transmit_skb", "{entry:?}");
        }
        assert!(events.iter().all(|e| !e.marks.contains(Marks::ECE)));
    }
}

/// Both at the same time in one namespace, on separate paths.
#[test]
fn simultaneous_ecn_and_local_congestion_are_distinguished() {
    const TEST: &str = "simultaneous_ecn_and_local_congestion_are_distinguished";
    let Some(net) = prepared(TEST, "1") else { return };
    let Some(relay) = Relay::or_skip(&net, TEST) else { return };
    net.shape(Side::A, 20, 20_000).unwrap();
    mark_some(&relay);
    let watched = Watched::of(&net, Side::A, Density::default());
    let marked = Pair::new(&net, Side::A, relay.v6(Side::B), "cubic");
    let shaped = Pair::new(&net, Side::A, net.v4(Side::B), "cubic");
    std::thread::scope(|scope| {
        scope.spawn(|| marked.send(1_000_000));
        scope.spawn(|| shaped.send(1_500_000));
    });
    let seen = watched.finish_whole();
    for (pair, reason) in [(marked, Reason::Ecn), (shaped, Reason::LocalCongestion)] {
        let events = seen.of(pair.near_addr());
        let entries = entries_to_cwr(&events);
        assert!(!entries.is_empty(), "{reason:?}");
        assert!(entries.iter().all(|e| e.reason == reason), "{reason:?}: {entries:#?}");
    }
}
