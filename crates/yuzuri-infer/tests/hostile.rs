//! Segments that no host would send: no panic, bounded work, and no named algorithm.

use proptest::prelude::*;
use yuzuri_capture::{Checksum, Ecn, End, Flags, FlowSlot, SackBlocks, Segment, TcpOptions};
use yuzuri_infer::identify;
use yuzuri_infer::packets::Tracker;

fn segment() -> impl Strategy<Value = Segment> {
    let near = prop_oneof![Just(0_u32), 0..200_000_u32, any::<u32>()];
    let time = prop_oneof![0..2_000_000_000_i64, any::<i32>().prop_map(i64::from)];
    let sizes = prop_oneof![Just(0_u32), Just(1448), 0..70_000_u32, any::<u32>()];
    let options = (any::<Option<(u32, u32)>>(), any::<Option<u16>>(), any::<Option<u8>>(), any::<bool>());
    let sack = prop::collection::vec((near.clone(), near.clone()), 0..4);
    (time, near.clone(), near, sizes, any::<u16>(), any::<u8>(), any::<bool>(), options, sack).prop_map(
        |(
            time_ns,
            seq,
            ack,
            payload_bytes,
            window,
            flags,
            lower,
            (timestamps, mss, window_scale, sack_permitted),
            blocks,
        )| {
            let mut sack = SackBlocks::default();
            for (left, right) in blocks {
                sack.push(left, right);
            }
            Segment {
                time_ns,
                flow: FlowSlot(0),
                seq,
                ack,
                payload_bytes,
                wire_bytes: payload_bytes.saturating_add(52),
                window,
                ip_id: 0,
                flags: Flags(u16::from(flags)),
                options: TcpOptions {
                    timestamps,
                    mss,
                    window_scale,
                    sack_permitted,
                    sack,
                    ..TcpOptions::default()
                },
                from: if lower { End::Lower } else { End::Higher },
                ecn: Ecn::NotEct,
                checksum: Checksum::Unknown,
                first: false,
                fragment: false,
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn arbitrary_segments_cause_no_panic(segments in prop::collection::vec(segment(), 1..400)) {
        let mut tracker = Tracker::new();
        for segment in &segments {
            tracker.segment(segment);
        }
        let ended = tracker.end(FlowSlot(0)).expect("the flow");
        for window_trace in ended.window_traces.into_iter().flatten() {
            let verdict = identify(window_trace, Some(ended.seen), None, None);
            // If windows are visible only at losses, there is a round from each loss to the next.
            let all = verdict.window_trace.rounds.len();
            prop_assert_eq!(verdict.predicted.len(), all);
            let named: f64 = verdict.ranked.iter().map(|ranked| ranked.probability).sum();
            let sum = named + verdict.none.probability;
            // A trace with hardly a round is not replayed.
            prop_assert!(all < 3 && sum == 0.0 || (sum - 1.0).abs() < 1e-6, "probabilities sum to {sum}");
        }
    }
}
