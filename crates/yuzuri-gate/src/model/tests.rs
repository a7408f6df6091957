//! Properties of the window clamp for any input.
#![allow(clippy::unwrap_used)]

use super::*;
use proptest::prelude::*;

/// An ACK of a server, and its bound.
#[derive(Debug, Clone)]
struct Step {
    /// The fraction of its allowance, in 1/256, that the station has sent and the server
    /// acknowledges.
    progress: u8,
    /// How far back a delayed ACK lies, bytes.
    back: u16,
    window: u16,
    bound: Option<u32>,
}

fn step() -> impl Strategy<Value = Step> {
    let bound = prop_oneof![Just(None), (1u32..20_000).prop_map(Some), (1u32..1 << 31).prop_map(Some)];
    let back = prop_oneof![9 => Just(0u16), 1 => 0u16..3000];
    (any::<u8>(), back, any::<u16>(), bound).prop_map(|(progress, back, window, bound)| Step {
        progress,
        back,
        window,
        bound,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// For any windows of a server and any bounds: no window grows or closes, no right edge moves
    /// left (in units beyond 1024 bytes by less than one), and anything beyond a bound was
    /// advertised before it.
    #[test]
    fn the_advertised_right_edge_never_moves_left(
        scale in 0u8..=14,
        start in any::<u32>(),
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let unit = 1i64 << scale;
        let slack = if unit > i64::from(MAX_ROUND_UP) { unit - 1 } else { 0 };
        let mut clamp = WindowClamp { scale, edge: Some(start) };
        let (mut ack, mut promised) = (start, start);
        for Step { progress, back, window, bound } in steps {
            // A station sends no further than its edge.
            let room = u64::from(promised.wrapping_sub(ack).min(1 << 31));
            ack = ack.wrapping_add((room * u64::from(progress) / 256) as u32);
            let said = ack.wrapping_sub(u32::from(back));
            let field = clamp.window(said, window, bound);
            prop_assert!(field <= window, "raised from {window} to {field}");
            prop_assert!(field > 0 || window == 0, "closed");
            let right = said.wrapping_add(u32::from(field) << scale);
            let moved = i64::from(right.wrapping_sub(promised) as i32);
            if field != window {
                prop_assert!(moved >= -slack, "the edge moved left by {} at a unit of {unit}", -moved);
                let bounded = said.wrapping_add(bound.unwrap().min(MAX_BOUND));
                let want = if after(promised, bounded) { promised } else { bounded };
                let over = i64::from(right.wrapping_sub(want) as i32);
                prop_assert!((-slack..unit).contains(&over), "{over} bytes from where it should be, unit {unit}");
            } else if let Some(bound) = bound.filter(|_| window > 0) {
                let bounded = said.wrapping_add(bound.min(MAX_BOUND));
                let want = if after(promised, bounded) { promised } else { bounded };
                let over = i64::from(right.wrapping_sub(want) as i32);
                prop_assert!(over < unit.max(2), "left {over} bytes too large, unit {unit}");
            }
            if moved > 0 {
                promised = right;
            }
            prop_assert_eq!(clamp.edge, Some(promised));
        }
    }

    /// A transfer whose server always offers the maximum window reaches its bound and stays there.
    #[test]
    fn a_bound_is_reached(scale in 0u8..=14, start in any::<u32>(), bound in 3000u32..200_000, first in 1u16..) {
        let unit = 1u32 << scale;
        let mut clamp = WindowClamp { scale, edge: Some(start.wrapping_add(u32::from(first))) };
        let (mut ack, mut in_flight) = (start, 0);
        let mut edge = start.wrapping_add(u32::from(first));
        for _ in 0..(2 * (u32::from(first) + bound) / 1448 + 200) {
            ack = ack.wrapping_add(edge.wrapping_sub(ack).min(1448));
            let field = clamp.window(ack, u16::MAX, Some(bound));
            let right = ack.wrapping_add(u32::from(field) << scale);
            edge = if after(right, edge) { right } else { edge };
            in_flight = edge.wrapping_sub(ack);
        }
        let most = (bound + unit).min(u32::from(u16::MAX) << scale);
        let least = bound.saturating_sub(if unit > MAX_ROUND_UP { unit } else { 0 }).min(most).max(1);
        prop_assert!((least..=most).contains(&in_flight), "{in_flight} in flight, bound {bound}, unit {unit}");
    }
}

#[test]
fn an_impossible_right_edge_is_learned_again() {
    let mut clamp = WindowClamp { scale: 7, edge: Some(u32::MAX / 2) };
    // The first ACK passes unchanged; the next one is bounded.
    assert_eq!(clamp.window(0, 60_000, Some(1000)), 60_000);
    assert_eq!(clamp.edge, Some(60_000 << 7));
    assert_eq!(clamp.window(60_000 << 7, 60_000, Some(1000)), 8);
}

#[test]
fn no_bound_is_no_change() {
    let mut clamp = WindowClamp { scale: 3, edge: Some(0) };
    for bound in [None, Some(0), Some(1 << 30), Some(u32::MAX)] {
        assert_eq!(clamp.window(0, 50_000, bound), 50_000);
    }
    assert_eq!(clamp.window(0, 0, Some(1)), 0);
}
