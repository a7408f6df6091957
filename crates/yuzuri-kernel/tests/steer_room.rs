//! The kernel's table of bounds has a limited capacity: flows that fit are bounded, the rest are
//! counted, and nothing fails.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;
mod steered;

use common::Pair;
use std::time::Duration;
use steered::{pair, start, state_of};
use yuzuri_kernel::control::{Bound, Steered};
use yuzuri_kernel::steer::{SteerOptions, Steering};
use yuzuri_testnet::{Net, Side};
use yuzuri_trace::FlowId;

const UPPER: u32 = 6;

fn bounded() -> Steered {
    Steered { bound: Bound { lower: 0, upper: UPPER }, ..Steered::default() }
}

/// Whether the kernel enforces a flow's bound: the window of a free flow grows beyond it.
fn is_bounded(steering: &mut Steering, pair: &Pair) -> bool {
    // A window above its bound shrinks meanwhile.
    pair.send(300_000);
    !(0..8).any(|_| {
        pair.send(200_000);
        state_of(steering, pair).cwnd > UPPER
    })
}

/// The effect of a full table of bounds on flows without an entry.
#[test]
fn a_full_table_of_bounds_bounds_the_first_and_frees_the_others() {
    const TEST: &str = "a_full_table_of_bounds_bounds_the_first";
    const LASTS: Duration = Duration::from_secs(600);
    let Some(net) = Net::or_skip(TEST) else { return };
    net.shape(Side::A, 50, 100_000).unwrap();
    let pairs: Vec<Pair> = (0..4).map(|_| pair(&net, Side::A, net.v4(Side::B))).collect();
    let options = SteerOptions { bounds_capacity: Some(2), ..steered::options("r") };
    let Some(mut steering) = start(TEST, &net, options) else { return };
    let ids: Vec<FlowId> = pairs.iter().map(|pair| state_of(&mut steering, pair).id).collect();
    let bounds =
        |order: &[usize]| -> Vec<(FlowId, Steered)> { order.iter().map(|n| (ids[*n], bounded())).collect() };
    let held = |steering: &mut Steering| -> Vec<bool> {
        pairs.iter().map(|pair| is_bounded(steering, pair)).collect()
    };
    assert_eq!(steering.steer_all(&bounds(&[0, 1, 2, 3]), LASTS).unwrap(), 2);
    assert_eq!(held(&mut steering), [true, true, false, false]);
    // Other flows have priority now, so a flow that was bounded becomes free.
    assert_eq!(steering.steer_all(&bounds(&[3, 1, 0, 2]), LASTS).unwrap(), 2);
    let error = steering.bound(ids[0], bounded().bound, LASTS).unwrap_err().to_string();
    assert!(error.contains("the kernel map holds 2 flows"), "{error}");
    steering.bound(ids[1], bounded().bound, LASTS).unwrap();
    assert_eq!(held(&mut steering), [false, true, false, true]);
    // There is room again.
    steering.release(ids[1]);
    assert_eq!(steering.steer_all(&bounds(&[3, 0]), LASTS).unwrap(), 2);
    steering.leave().unwrap();
}

/// The table does not check its flows, so ids without a socket do not affect the test.
fn bounds(count: usize) -> Vec<(FlowId, Steered)> {
    (0..count as u64).map(|n| (FlowId(u64::MAX - n), bounded())).collect()
}

#[test]
fn there_is_room_for_the_bounds_of_20000_flows_and_the_rest_is_counted() {
    const TEST: &str = "there_is_room_for_the_bounds_of_20000_flows";
    const LASTS: Duration = Duration::from_secs(600);
    let Some(net) = Net::or_skip(TEST) else { return };
    let Some(mut steering) = start(TEST, &net, steered::options("n")) else { return };
    assert_eq!(steering.steer_all(&bounds(20_000), LASTS).unwrap(), 20_000);
    let room = steering.control().capacity();
    assert!(room >= 65_536, "{room}");
    assert_eq!(steering.steer_all(&bounds(room + 5_000), LASTS).unwrap(), room);
    steering.leave().unwrap();
}

#[test]
fn a_full_table_of_bounds_is_never_an_error_and_has_room_again() {
    const TEST: &str = "a_full_table_of_bounds_is_no_error";
    const ROOM: usize = 1000;
    const LASTS: Duration = Duration::from_millis(1500);
    let Some(net) = Net::or_skip(TEST) else { return };
    let options = SteerOptions { bounds_capacity: Some(ROOM as u32), ..steered::options("o") };
    let Some(mut steering) = start(TEST, &net, options) else { return };
    for _ in 0..20 {
        assert_eq!(steering.steer_all(&bounds(3 * ROOM), LASTS).unwrap(), ROOM);
    }
    // Once they have expired, others have room.
    std::thread::sleep(LASTS);
    let others: Vec<_> = (1..=ROOM as u64).map(|n| (FlowId(n), bounded())).collect();
    assert_eq!(steering.steer_all(&others, LASTS).unwrap(), ROOM);
    // Entries not named in a call stay: the others share the rest.
    assert_eq!(steering.steer_all(&bounds(10), LASTS).unwrap(), 0);
    steering.release(FlowId(7));
    assert_eq!(steering.steer_all(&bounds(10), LASTS).unwrap(), 1);
    steering.leave().unwrap();
}
