//! When ACKs are thinned.

use super::*;
use yuzuri_policy::{Aggregation, SlowRadio};

/// ACKs are thinned on 802.11g. A limit far above the path's rate bounds each upload all the time.
fn rules() -> Rules {
    let guests = StationRule { max_bps: Some(1e9), ..StationRule::default() };
    Rules { thin_acks: vec![SlowRadio::G], guests, ..Rules::default() }
}

/// 40 ticks of these uploads with ACKs thinned on 802.11g, each station at its location, by number.
fn thinned(wire: &mut Wire, at: impl Fn(u8) -> StationLocation) -> (Controller, Plan) {
    let mut controller = Controller::new(PolicyConfig::default(), rules());
    let mut plan = Plan::default();
    for _ in 0..40 {
        wire.pass();
        let now_ns = wire.now.as_nanos() as u64;
        plan = controller.tick(Moment::at(wire.now), now_ns, &wire.flows, &[], |id| at(id.0[5]));
        wire.enforce(&plan);
    }
    (controller, plan)
}

/// Only on the selected radios, and only for bounded connections.
#[test]
fn acks_are_thinned_on_the_selected_slow_radios() {
    let radio = |rate_mbps: f64, aggregation: Aggregation| Some(RadioConfig { rate_mbps, aggregation });
    let mut wire = Wire { queue_on_air: true, ..Wire::new(20.0, 30.0, 4) };
    let (mut controller, plan) = thinned(&mut wire, |station| {
        let radio = match station {
            0 => radio(54.0, Aggregation::None),
            1 => radio(65.0, Aggregation::Ht),
            2 => radio(390.0, Aggregation::Vht),
            _ => None,
        };
        StationLocation { radio, ..StationLocation::default() }
    });
    assert_eq!(plan.flows.len(), 4);
    for (key, bound) in &plan.flows {
        let is_g = *key == wire.flows[0].key;
        assert_eq!(bound.thin_bytes, if is_g { 8 * 1448 } else { 0 }, "{key}");
        assert!(bound.bytes > 0);
    }
    assert!(controller.release_all(&wire.flows).flows.iter().all(|(_, bound)| bound.thin_bytes == 0));
}

/// A wait for a later ACK costs nothing only where the data would wait for the air as long.
#[test]
fn acks_are_thinned_only_where_the_air_has_a_queue() {
    let radio = Some(RadioConfig { rate_mbps: 54.0, aggregation: Aggregation::None });
    let location = |_: u8| StationLocation { radio, ..StationLocation::default() };
    let thin_bytes = |wire: &mut Wire| {
        let (_, plan) = thinned(wire, location);
        assert_eq!(plan.flows.len(), 4);
        plan.flows.iter().map(|(_, bound)| bound.thin_bytes).collect::<Vec<u32>>()
    };
    let on_air = || Wire { queue_on_air: true, ..Wire::new(20.0, 30.0, 4) };
    assert!(thin_bytes(&mut on_air()).iter().all(|bytes| *bytes == 8 * 1448), "a queue for the air");
    assert!(thin_bytes(&mut Wire::new(20.0, 30.0, 4)).iter().all(|bytes| *bytes == 0), "one for the wire");
    let mut idle = on_air();
    idle.application_bps = vec![Some(1e6); 4];
    assert!(thin_bytes(&mut idle).iter().all(|bytes| *bytes == 0), "no queue");
}

/// A queue that is shorter than ACKs wait ends thinning.
#[test]
fn acks_are_thinned_until_they_wait_longer_than_data_for_the_air() {
    let radio = Some(RadioConfig { rate_mbps: 54.0, aggregation: Aggregation::None });
    let mut wire = Wire { queue_on_air: true, ..Wire::new(20.0, 30.0, 4) };
    let mut controller = Controller::new(PolicyConfig::default(), rules());
    let mut tick = |wire: &mut Wire, wait_us: u64| {
        let before: Vec<u64> = wire.flows.iter().map(|flow| flow.acked_bytes).collect();
        wire.pass();
        for (flow, before) in wire.flows.iter_mut().zip(before) {
            flow.waited_byte_us += (flow.acked_bytes - before) * wait_us;
        }
        let now_ns = wire.now.as_nanos() as u64;
        let location = |_| StationLocation { radio, ..StationLocation::default() };
        let plan = controller.tick(Moment::at(wire.now), now_ns, &wire.flows, &[], location);
        wire.enforce(&plan);
        plan.flows.iter().all(|(_, bound)| bound.thin_bytes > 0)
    };
    assert!((0..40).map(|_| tick(&mut wire, 3_000)).last().unwrap());
    // The applications leave a queue of nearly nothing, and ACKs still wait.
    wire.application_bps = vec![Some(4.5e6); 4];
    let ended = (0..40).position(|_| !tick(&mut wire, 3_000));
    assert!(ended.is_some_and(|ticks| ticks > 2), "after the mean of some seconds: {ended:?}");
    assert!((0..40).all(|_| !tick(&mut wire, 0)), "without thinning nothing waits");
}
