//! When the window of a flow under the control is reduced, when it is spared, and when a lower
//! bound no longer applies.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;
mod steered;

use common::{Outcome, Pair, Watched, exactly};
use std::time::Duration;
use steered::{options, pair, send_at_upper_bound, start, state_of};
use yuzuri_kernel::control::{Bound, Steered};
use yuzuri_kernel::steer::{ControlState, Steering};
use yuzuri_testnet::{Net, Packet, Relay, Side, Verdict};
use yuzuri_trace::{CaState, Density, Event, FlowId, Kind};

const LONG: Duration = Duration::from_secs(60);

/// Window and ssthresh when a state was entered from Open or Disorder: ssthresh is new, the window
/// still the old one.
fn entries(events: &[Event], to: &[CaState]) -> Vec<(u32, u32)> {
    let enters = |event: &&Event| {
        matches!(event.kind, Kind::State | Kind::Timeout)
            && matches!(event.ca_before, CaState::Open | CaState::Disorder)
            && to.contains(&event.ca_state)
    };
    events.iter().filter(enters).map(|event| (event.snapshot.cwnd, event.snapshot.ssthresh)).collect()
}

fn is_cut(&(cwnd, ssthresh): &(u32, u32)) -> bool {
    ssthresh.abs_diff(cwnd * 717 / 1024) <= 1
}

fn is_tolerated(&(cwnd, ssthresh): &(u32, u32)) -> bool {
    ssthresh == cwnd
}

/// A flow in its own namespace, over a path that decides each packet's fate, under our congestion
/// control.
struct Flow {
    pair: Pair,
    id: FlowId,
    steering: Steering,
    watched: Watched,
    relay: Relay,
    _net: Net,
}

impl Flow {
    fn new(test: &str) -> Option<Flow> {
        let net = Net::or_skip(test)?;
        for side in [Side::A, Side::B] {
            net.set(side, "net.ipv4.tcp_congestion_control", "reno").unwrap();
            net.set(side, "net.ipv4.tcp_ecn", "1").unwrap();
        }
        let relay = Relay::or_skip(&net, test)?;
        let mut steering = start(test, &net, options("d"))?;
        let watched = Watched::of(&net, Side::A, Density::EveryAck);
        let pair = pair(&net, Side::A, relay.v4(Side::B));
        pair.send(200_000);
        let state = state_of(&mut steering, &pair);
        assert!(matches!(state.control_state, ControlState::Migrated { .. }), "{state:?}");
        Some(Flow { pair, id: state.id, steering, watched, relay, _net: net })
    }

    /// Decides about the data segments that leave from now on, by their number.
    fn decide(&self, mut verdict: impl FnMut(u32, &mut Packet<'_>) -> Verdict + Send + 'static) {
        let mut number = 0;
        self.relay.decide(move |packet| {
            if packet.from != Side::A || !packet.tcp.as_ref().is_some_and(|tcp| tcp.is_data()) {
                return Verdict::Pass;
            }
            number += 1;
            verdict(number, packet)
        });
    }

    /// Its events, and how many program runs the kernel skipped.
    fn finish(mut self) -> (Vec<Event>, u64) {
        self.watched.read();
        let seen = self.watched.finish();
        let events = seen.events().into_iter().filter(|e| e.flow == self.id).copied().collect();
        (events, seen.nested())
    }
}

fn outcome(right: bool, how: impl FnOnce() -> String, skipped: u64) -> Option<Outcome<()>> {
    Some(if right { Outcome::Exact(()) } else { Outcome::Differs { how: how(), skipped } })
}

#[test]
fn a_loss_reduces_nothing_while_user_space_has_requested_it() {
    const TEST: &str = "a_loss_is_spared_where_user_space_says_so";
    for (on, lasts) in [(true, LONG), (true, Duration::ZERO), (false, LONG)] {
        exactly(TEST, || {
            let mut flow = Flow::new(TEST)?;
            flow.steering.no_decrease(flow.id, on, lasts).unwrap();
            flow.decide(|number, _| if number == 20 { Verdict::Drop } else { Verdict::Pass });
            flow.pair.send(200_000);
            let (events, skipped) = flow.finish();
            let entries = entries(&events, &[CaState::Recovery]);
            let tolerates = on && lasts > Duration::ZERO;
            let right =
                entries.len() == 1 && entries.iter().all(if tolerates { is_tolerated } else { is_cut });
            outcome(right, || format!("{on} {lasts:?}: {entries:?}"), skipped)
        });
    }
}

#[test]
fn reported_congestion_reduces_the_window() {
    const TEST: &str = "reported_congestion_reduces_the_window";
    exactly(TEST, || {
        let mut flow = Flow::new(TEST)?;
        flow.steering.no_decrease(flow.id, true, LONG).unwrap();
        flow.decide(|number, packet| {
            assert!(number != 20 || packet.set_congestion_experienced(), "the flow is not ECN-capable");
            Verdict::Pass
        });
        flow.pair.send(200_000);
        let (events, skipped) = flow.finish();
        let entries = entries(&events, &[CaState::Cwr]);
        outcome(entries.len() == 1 && entries.iter().all(is_cut), || format!("{entries:?}"), skipped)
    });
}

#[test]
fn local_congestion_reduces_the_window() {
    const TEST: &str = "local_congestion_reduces_the_window";
    exactly(TEST, || {
        let net = Net::or_skip(TEST)?;
        net.set(Side::A, "net.ipv4.tcp_congestion_control", "reno").unwrap();
        net.shape(Side::A, 20, 20_000).unwrap();
        let mut steering = start(TEST, &net, options("q"))?;
        let watched = Watched::of(&net, Side::A, Density::EveryAck);
        let pair = pair(&net, Side::A, net.v4(Side::B));
        let id = state_of(&mut steering, &pair).id;
        steering.no_decrease(id, true, LONG).unwrap();
        pair.send(1_000_000);
        let seen = watched.finish();
        let events: Vec<Event> = seen.events().into_iter().filter(|e| e.flow == id).copied().collect();
        let entries = entries(&events, &[CaState::Cwr]);
        let right = !entries.is_empty() && entries.iter().all(is_cut);
        outcome(right, || format!("{entries:?}"), seen.nested())
    });
}

#[test]
fn a_timeout_reduces_the_window() {
    const TEST: &str = "a_timeout_reduces_the_window";
    exactly(TEST, || {
        let mut flow = Flow::new(TEST)?;
        flow.steering.no_decrease(flow.id, true, LONG).unwrap();
        let cwnd = state_of(&mut flow.steering, &flow.pair).cwnd;
        // The segment and its tail loss probe.
        flow.decide(|number, _| if number <= 2 { Verdict::Drop } else { Verdict::Pass });
        flow.pair.send(1000);
        let ssthresh = state_of(&mut flow.steering, &flow.pair).ssthresh;
        let (events, skipped) = flow.finish();
        let entries = entries(&events, &[CaState::Loss]);
        // The event comes between the update of ssthresh, which does not know about the timeout,
        // and that of the state, which does. The window is one segment by then.
        let right = entries.len() == 1 && is_tolerated(&(cwnd, entries[0].1)) && is_cut(&(cwnd, ssthresh));
        outcome(right, || format!("{cwnd}: {entries:?}, then {ssthresh}"), skipped)
    });
}

#[test]
fn persistent_loss_reduces_the_window() {
    const TEST: &str = "persistent_loss_reduces_the_window";
    exactly(TEST, || {
        let mut flow = Flow::new(TEST)?;
        flow.steering.no_decrease(flow.id, true, LONG).unwrap();
        flow.decide(|number, _| if number % 30 == 29 { Verdict::Drop } else { Verdict::Pass });
        flow.pair.send(1_000_000);
        let (events, skipped) = flow.finish();
        let entries = entries(&events, &[CaState::Recovery]);
        // The third reduction in a row that is too soon.
        let right = entries.len() > 2 && is_tolerated(&entries[0]) && entries[2..].iter().any(is_cut);
        outcome(right, || format!("{entries:?}"), skipped)
    });
}

#[test]
fn a_lower_bound_does_not_hold_under_persistent_loss() {
    const TEST: &str = "a_lower_bound_does_not_hold_under_persistent_loss";
    const LOWER: u32 = 60;
    // One segment in this many is lost: rarely enough for this bound, and too often.
    for (distance, holds) in [(400, true), (80, false)] {
        let Some(mut flow) = Flow::new(TEST) else { return };
        flow.steering.bound(flow.id, Bound { lower: LOWER, upper: LOWER }, LONG).unwrap();
        flow.decide(
            move |number, _| if number % distance == distance - 1 { Verdict::Drop } else { Verdict::Pass },
        );
        flow.pair.send(8_000_000);
        let (events, _) = flow.finish();
        let windows: Vec<u32> =
            entries(&events, &[CaState::Recovery]).iter().map(|(cwnd, _)| *cwnd).collect();
        // The rule does not apply to the first ones, and during one more the window shrinks.
        let later = &windows[4..];
        assert!(later.len() >= 3, "{windows:?}");
        let at_bound = later.iter().filter(|cwnd| **cwnd >= LOWER).count();
        assert_eq!(at_bound * 2 > later.len(), holds, "one in {distance}: {windows:?}");
    }
}

#[test]
fn many_flows_are_bounded_in_one_call() {
    const TEST: &str = "many_flows_are_bounded_in_one_call";
    let Some(mut flow) = Flow::new(TEST) else { return };
    let to = |upper: u32| Steered { bound: Bound { lower: 0, upper }, ..Steered::default() };
    // Cookies of no socket.
    let mut bounds: Vec<_> = (0..4000).map(|n| (FlowId(u64::MAX - n), to(5))).collect();
    bounds[2000] = (flow.id, to(7));
    flow.steering.steer_all(&bounds, LONG).unwrap();
    send_at_upper_bound(&mut flow.steering, &flow.pair, 7);
    // Expired entries are removed from the map: otherwise the last call would exceed its capacity.
    for _ in 0..=flow.steering.control().capacity() / bounds.len() {
        bounds.iter_mut().for_each(|(id, _)| id.0 = id.0.wrapping_sub(4000));
        assert_eq!(flow.steering.steer_all(&bounds, Duration::ZERO).unwrap(), bounds.len());
    }
}

#[test]
fn pacing_is_turned_on_for_a_time_and_ends_with_it() {
    const TEST: &str = "pacing_is_turned_on_for_a_time";
    exactly(TEST, || {
        let mut flow = Flow::new(TEST)?;
        let mut paced = Vec::new();
        for (burst, lasts) in [(0, LONG), (16, LONG), (16, Duration::ZERO)] {
            let steered = Steered { bound: Bound { lower: 0, upper: 40 }, burst, ..Steered::default() };
            flow.steering.steer_all(&[(flow.id, steered)], lasts).unwrap();
            flow.pair.send(1_000_000);
            paced.push(state_of(&mut flow.steering, &flow.pair).paced);
        }
        let skipped = flow.finish().1;
        outcome(paced == [false, true, false], || format!("{paced:?}"), skipped)
    });
}
