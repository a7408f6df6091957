//! Stations whose hardware addresses are not their own, or change.
#![allow(clippy::unwrap_used)]

use super::tests::Wire;
use super::*;

const STATIONS: u8 = 4;

fn controller() -> Controller {
    Controller::new(PolicyConfig::default(), Rules::default())
}

fn run(wire: &mut Wire, controller: &mut Controller, ticks: u32) {
    (0..ticks).for_each(|_| _ = wire.tick(controller));
}

/// The bound of an upload, bytes.
fn bound(wire: &Wire, n: usize) -> u32 {
    wire.bounds[&wire.flows[n].key]
}

#[test]
fn two_stations_with_one_address_have_one_share() {
    let (mut wire, mut controller) = (Wire::new(50.0, 20.0, STATIONS), controller());
    wire.flows[3].mac = wire.flows[2].mac;
    run(&mut wire, &mut controller, 60);
    assert_eq!(controller.stations.len(), 3);
    let [first, second, spoofed, spoofing] = [0, 1, 2, 3].map(|n| bound(&wire, n));
    // Windows are whole segments.
    assert!(first.abs_diff(second) <= 1460, "{first}, {second}");
    assert!(first.abs_diff(spoofed + spoofing) <= 2 * 1460, "{first}; {spoofed} and {spoofing}");
}

#[test]
fn a_station_with_a_new_address_is_a_new_one_and_the_old_one_is_forgotten() {
    let (mut wire, mut controller) = (Wire::new(50.0, 20.0, STATIONS), controller());
    run(&mut wire, &mut controller, 60);
    let before = bound(&wire, 0);
    // It joins again under another address, and its connection begins anew.
    let old = wire.flows.pop().unwrap();
    let key = FlowKey::new("10.0.0.99:40001".parse().unwrap(), old.key.server()).unwrap();
    let fresh = Wire::new(50.0, 20.0, 1).flows.remove(0);
    wire.flows.push(Gated { key, mac: [2, 0, 0, 0, 9, 9], first_ns: old.last_ns, ..fresh });
    wire.wants[3] = 14_480.0;
    wire.bounds.remove(&old.key);
    run(&mut wire, &mut controller, 60);
    assert_eq!(controller.stations.len(), 5, "the old one is silent");
    let now = [0, 3].map(|n| bound(&wire, n));
    assert!(now[0].abs_diff(now[1]) <= 1460, "the new one has an equal share: {now:?}");
    assert!(f64::from(now[0]) > 0.9 * f64::from(before), "the old one has none: {before}, then {now:?}");
    run(&mut wire, &mut controller, STATION_TIMEOUT_TICKS);
    assert_eq!(controller.stations.len(), 4);
    assert!(!controller.stations.contains_key(&StationId(old.mac)));
}
