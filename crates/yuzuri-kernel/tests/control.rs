//! The congestion control on real flows: registration and removal, its constants, its bounds.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::{Outcome, Pair, Watched, exactly};
use std::time::Duration;
use yuzuri_kernel::control::{Bound, CongestionControl, ControlError, CubicParams, available};
use yuzuri_testnet::{Net, Side};
use yuzuri_trace::{CaState, Density, Event, Kind};

/// A unique name, so that tests can run in parallel.
fn name(what: &str) -> String {
    format!("yz{}{what}", std::process::id() % 100_000)
}

fn register(test: &str, cubic: CubicParams) -> Option<CongestionControl> {
    match CongestionControl::register(&cubic) {
        Ok(control) => Some(control),
        Err(error @ ControlError::NotPermitted(_)) => {
            println!("{test}: skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_control_exists_while_registered_under_its_own_name() {
    let cubic = CubicParams { name: name("a"), ..CubicParams::default() };
    let Some(control) = register("a_control_is_there_while_it_lives", cubic.clone()) else { return };
    assert!(available().contains(&cubic.name));
    assert!(
        matches!(CongestionControl::register(&cubic), Err(ControlError::Taken(taken)) if taken == cubic.name)
    );
    drop(control);
    assert!(!available().contains(&cubic.name), "{:?}", available());
}

/// The longest name that the kernel accepts (`TCP_CA_NAME_MAX` with its NUL) appears whole.
#[test]
fn a_flow_has_the_whole_name_of_its_congestion_control() {
    let test = "a_flow_has_the_whole_name_of_its_congestion_control";
    let Some(net) = Net::or_skip(test) else { return };
    let cubic = CubicParams { name: format!("{:_<15}", name("whole")), ..CubicParams::default() };
    let Some(_control) = register(test, cubic.clone()) else { return };
    let watched = Watched::of(&net, Side::A, Density::EveryAck);
    let pair = Pair::new(&net, Side::A, net.v6(Side::B), &cubic.name);
    pair.send(1);
    let near = pair.near_addr();
    let seen = watched.finish();
    let flow = seen.flows().into_iter().rfind(|flow| flow.local == near).unwrap();
    assert_eq!(flow.congestion_control, cubic.name);
}

/// Sends data, and returns the sender's events and how many program runs the kernel skipped.
/// Skipped runs of the control take their result from the kernel's stack (docs/control.md).
fn sent(net: &Net, control: &str, bytes: usize) -> (Vec<Event>, u64) {
    let mut watched = Watched::of(net, Side::A, Density::EveryAck);
    let pair = Pair::new(net, Side::A, net.v4(Side::B), control);
    pair.send(bytes);
    watched.read();
    let near = pair.near_addr();
    let seen = watched.finish();
    (seen.of(near).into_iter().copied().collect(), seen.nested())
}

/// Window and ssthresh at the beginning of each reduction: the state is set after ssthresh and
/// before the window shrinks, so its record has both. The overflowing queue is the sender's own, so
/// the reduction may begin with CWR, and a Recovery that follows does not reduce again.
fn reductions(events: &[Event]) -> Vec<(u32, u32)> {
    let begins = |event: &&Event| {
        event.kind == Kind::State
            && matches!(event.ca_before, CaState::Open | CaState::Disorder)
            && matches!(event.ca_state, CaState::Cwr | CaState::Recovery)
    };
    events.iter().filter(begins).map(|event| (event.snapshot.cwnd, event.snapshot.ssthresh)).collect()
}

#[test]
fn a_reduction_leaves_the_algorithms_beta() {
    const TEST: &str = "a_reduction_leaves_the_algorithms_beta";
    for (what, beta, no_decrease) in [("l", 717.0 / 1024.0, false), ("i", 0.8, false), ("n", 0.7, true)] {
        exactly(TEST, || {
            let cubic =
                CubicParams { name: name(what), beta, no_decrease, hystart: false, ..CubicParams::default() };
            let _control = register(TEST, cubic.clone())?;
            let net = Net::or_skip(TEST)?;
            // The queue overflows.
            net.shape(Side::A, 20, 25_000).unwrap();
            let (events, skipped) = sent(&net, &cubic.name, 1_500_000);
            let reductions = reductions(&events);
            assert!(!reductions.is_empty(), "{what}: no loss on an overflowing queue");
            let wrong = reductions.into_iter().find_map(|(cwnd, ssthresh)| {
                let expected = if no_decrease { cwnd } else { (f64::from(cwnd) * beta) as u32 };
                // The kernel's arithmetic is in 1/1024.
                let right = ssthresh.abs_diff(expected) <= 1;
                (!right).then(|| format!("{what}: {cwnd} -> {ssthresh}, expected {expected}"))
            });
            Some(wrong.map_or(Outcome::Exact(()), |how| Outcome::Differs { how, skipped }))
        });
    }
}

#[test]
fn an_upper_bound_holds_the_window_and_a_live_flow_shrinks_by_its_acks() {
    const TEST: &str = "an_upper_bound_holds_the_window";
    // On a busy machine HyStart mistakes late packets for a queue.
    let cubic = CubicParams { name: name("u"), hystart: false, ..CubicParams::default() };
    let Some(mut control) = register(TEST, cubic.clone()) else { return };
    let Some(net) = Net::or_skip(TEST) else { return };
    net.shape(Side::A, 50, 200_000).unwrap();
    let mut watched = Watched::of(&net, Side::A, Density::EveryAck);
    let pair = Pair::new(&net, Side::A, net.v4(Side::B), &cubic.name);
    pair.send(1_000_000);
    watched.read();
    let near = pair.near_addr();
    let id = common::flow_id(&watched.items, near).unwrap();
    let own = |watched: &Watched| -> Vec<Event> {
        common::events(&watched.items).into_iter().filter(|e| e.flow == id).copied().collect()
    };
    let before = own(&watched);
    let free = before.iter().map(|e| e.snapshot.cwnd).max().unwrap();
    assert!(free > 20, "without a bound the window grew to {free} only");

    control.bound(id, Bound { lower: 0, upper: 12 }, Duration::from_secs(60)).unwrap();
    pair.send(500_000);
    // The last ACKs may still be in flight.
    watched.until("the window at its bound", |items| {
        common::events(items).iter().rfind(|e| e.flow == id).is_some_and(|e| e.snapshot.cwnd == 12)
    });
    let bounded = own(&watched);
    // No sudden drop: an ACK shrinks the window by no more than it acknowledged. A loss on the path
    // causes the kernel's own reduction.
    let open = |e: &Event| e.ca_state == CaState::Open && e.ca_before == CaState::Open;
    for pair in bounded[before.len()..].windows(2).filter(|pair| pair.iter().all(open)) {
        let acked =
            (pair[1].snapshot.bytes_acked - pair[0].snapshot.bytes_acked) / u64::from(pair[0].snapshot.mss);
        let fell = pair[0].snapshot.cwnd.saturating_sub(pair[1].snapshot.cwnd);
        assert!(u64::from(fell) <= acked + 1, "{fell} segments for {acked}: {pair:?}");
    }

    control.release(id);
    pair.send(1_000_000);
    watched.read();
    let released = own(&watched);
    let later = released[bounded.len()..].iter().map(|e| e.snapshot.cwnd).max().unwrap();
    assert!(later > 12, "the window stayed at {later} after its bound was taken away");
}

#[test]
fn a_bound_expires() {
    const TEST: &str = "a_bound_expires";
    let cubic = CubicParams { name: name("e"), hystart: false, ..CubicParams::default() };
    let Some(mut control) = register(TEST, cubic.clone()) else { return };
    let Some(net) = Net::or_skip(TEST) else { return };
    net.shape(Side::A, 50, 200_000).unwrap();
    let mut watched = Watched::of(&net, Side::A, Density::EveryAck);
    let pair = Pair::new(&net, Side::A, net.v4(Side::B), &cubic.name);
    pair.send(10_000);
    watched.read();
    let id = common::flow_id(&watched.items, pair.near_addr()).unwrap();
    // It has expired by the next ACK, and nobody removes it from the map.
    control.bound(id, Bound { lower: 0, upper: 4 }, Duration::ZERO).unwrap();
    pair.send(1_000_000);
    watched.read();
    let most = common::events(&watched.items).iter().filter(|e| e.flow == id).map(|e| e.snapshot.cwnd).max();
    assert!(most.unwrap() > 20, "{most:?}");
}

#[test]
fn a_lower_bound_is_reached_by_growth_and_not_by_a_jump() {
    const TEST: &str = "a_lower_bound_is_reached_by_growth";
    let lower = 60;
    exactly(TEST, || {
        let cubic =
            CubicParams { name: name("f"), always: Bound { lower, upper: 80 }, ..CubicParams::default() };
        let _control = register(TEST, cubic.clone())?;
        let net = Net::or_skip(TEST)?;
        // A queue large enough for the bound: no loss keeps the window low.
        net.shape(Side::A, 50, 400_000).unwrap();
        let loss = "add table inet lossy\nadd chain inet lossy in { type filter hook input priority 0 ; }\n\
                    add rule inet lossy in meta l4proto tcp numgen inc mod 300 150 drop\n";
        if let Err(why) = net.firewall(Side::B, loss) {
            println!("{TEST}: skipped: {why}");
            return None;
        }
        let (events, skipped) = sent(&net, &cubic.name, 4_000_000);
        let reductions = reductions(&events);
        assert!(reductions.len() >= 2, "{reductions:?}");
        let windows: Vec<u32> = events.iter().map(|e| e.snapshot.cwnd).collect();
        let reached = windows.iter().filter(|w| **w >= lower).count() > windows.len() / 3;
        let most = windows.iter().max().copied().unwrap_or_default();
        let jump = events.windows(2).filter(|p| p.iter().all(|e| e.kind == Kind::Sample)).find(|pair| {
            let acked = (pair[1].snapshot.bytes_acked - pair[0].snapshot.bytes_acked)
                / u64::from(pair[0].snapshot.mss);
            let grew = pair[1].snapshot.cwnd.saturating_sub(pair[0].snapshot.cwnd);
            // SACKed segments covered by a later ACK were due for growth before.
            u64::from(grew) > acked + 2
        });
        if reached && most <= 80 && jump.is_none() {
            return Some(Outcome::Exact(()));
        }
        let how = format!("reached: {reached}, at most {most}, a jump: {jump:?}; {windows:?}");
        Some(Outcome::Differs { how, skipped })
    });
}
