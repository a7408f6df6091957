//! Segments with wrong checksums, and segments captured twice.
#![allow(missing_docs)]

mod made_up;

use made_up::{ACK, SYN, segment};
use yuzuri_capture::{Checksum, End, FlowSlot, Segment};
use yuzuri_infer::packets::{Ended, Tracker};

const MS: i64 = 1_000_000;

/// A transfer of 400 segments in flights of ten, each of which is acknowledged.
fn transfer() -> Vec<Segment> {
    let (near, far) = (End::Lower, End::Higher);
    let mut segments = vec![
        segment(0, near, SYN, 999, 0, 0),
        segment(20 * MS, far, SYN | ACK, 0, 1000, 0),
        segment(20 * MS + 1000, near, ACK, 1000, 1, 0),
    ];
    for flight in 0..40 {
        let at = 21 * MS + i64::from(flight) * 20 * MS;
        for n in 0..10 {
            let seq = 1000 + (flight * 10 + n) * 1000;
            segments.push(segment(at + i64::from(n) * 10_000, near, ACK, seq, 1, 1000));
        }
        let ack = 1000 + (flight + 1) * 10_000;
        segments.push(segment(at + 19 * MS, far, ACK, 1, ack, 0));
    }
    for (segment, ip_id) in segments.iter_mut().zip(1..) {
        segment.ip_id = ip_id;
    }
    segments
}

fn follow(segments: &[Segment]) -> Ended {
    let mut tracker = Tracker::new();
    segments.iter().for_each(|segment| tracker.segment(segment));
    tracker.end(FlowSlot(0)).expect("the flow")
}

#[test]
fn checksums_that_are_wrong_throughout_are_no_damage() {
    let plain = follow(&transfer());
    let wrong = |end: Option<End>| {
        let of = |segment: Segment| match end.is_none_or(|end| end == segment.from) {
            true => Segment { checksum: Checksum::Invalid, ..segment },
            false => Segment { checksum: Checksum::Valid, ..segment },
        };
        follow(&transfer().into_iter().map(of).collect::<Vec<_>>())
    };
    for (end, count) in [(None, 443), (Some(End::Lower), 402), (Some(End::Higher), 41)] {
        let ended = wrong(end);
        let odd = ended.seen.anomalies;
        assert_eq!((odd.believed_checksums, odd.bad_checksums), (count, 0), "{end:?}");
        assert_eq!(ended.window_traces, plain.window_traces, "{end:?}");
    }
}

#[test]
fn a_damaged_segment_among_sound_ones_is_left_out() {
    let mut segments: Vec<Segment> = transfer();
    segments.iter_mut().for_each(|segment| segment.checksum = Checksum::Valid);
    segments[200].checksum = Checksum::Invalid;
    let odd = follow(&segments).seen.anomalies;
    assert_eq!((odd.bad_checksums, odd.believed_checksums), (1, 0));
}

#[test]
fn a_flow_that_is_captured_twice_is_the_same_flow() {
    let plain = follow(&transfer());
    // Copies that follow immediately, and behind a queue of 3 ms.
    for later_ns in [2_000, 3 * MS] {
        let mut twice: Vec<Segment> = transfer()
            .into_iter()
            .flat_map(|segment| [segment, Segment { time_ns: segment.time_ns + later_ns, ..segment }])
            .collect();
        twice.sort_by_key(|segment| segment.time_ns);
        let ended = follow(&twice);
        assert_eq!(ended.seen.anomalies.copies, 443, "{later_ns}");
        assert_eq!(ended.window_traces, plain.window_traces, "{later_ns}");
    }
}
