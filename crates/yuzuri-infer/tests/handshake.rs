//! What a handshake alone tells of its opener.
#![allow(missing_docs)]

use yuzuri_capture::{Checksum, Ecn, End, Flags, FlowSlot, Segment, TcpOptions};
use yuzuri_infer::identify;
use yuzuri_infer::packets::Tracker;

fn segment(from: End, flags: u16, seq: u32, ack: u32, payload_bytes: u32, ecn: Ecn) -> Segment {
    Segment {
        time_ns: 1_000_000 * i64::from(seq.wrapping_add(ack) % 1000),
        flow: FlowSlot(0),
        seq,
        ack,
        payload_bytes,
        wire_bytes: payload_bytes + 52,
        window: 65_535,
        flags: Flags(flags),
        options: TcpOptions::default(),
        from,
        ecn,
        checksum: Checksum::Unknown,
        first: false,
        fragment: false,
    }
}

/// A flow whose SYN, and whose SYN sent again, had these codepoints; each end sends a segment of data.
fn opened(syns: &[Ecn]) -> [Option<bool>; 2] {
    const SYN: u16 = 2;
    const ACK: u16 = 16;
    let (near, far) = (End::Lower, End::Higher);
    let mut tracker = Tracker::new();
    for syn in syns {
        tracker.segment(&segment(near, SYN, 100, 0, 0, *syn));
    }
    tracker.segment(&segment(far, SYN | ACK, 500, 101, 0, Ecn::Ect0));
    tracker.segment(&segment(near, ACK, 101, 501, 1000, Ecn::NotEct));
    tracker.segment(&segment(far, ACK, 501, 1101, 1000, Ecn::NotEct));
    let ended = tracker.end(FlowSlot(0)).expect("the flow");
    ended.courses.map(|course| course.and_then(|course| course.syn_ecn_capable))
}

#[test]
fn an_ecn_capable_syn_is_noticed_at_the_end_that_opened() {
    assert_eq!(opened(&[Ecn::NotEct]), [Some(false), None], "an answer tells nothing");
    assert_eq!(opened(&[Ecn::Ect0]), [Some(true), None]);
    assert_eq!(opened(&[Ecn::Ect0, Ecn::NotEct]), [Some(true), None], "it is sent again without");
    assert_eq!(opened(&[]), [None, None], "it was not seen");
}

#[test]
fn it_tells_the_control_that_needs_ecn_from_those_that_do_the_same_without_marks() {
    let course = |syn_ecn_capable| yuzuri_infer::course::Course { syn_ecn_capable, ..Default::default() };
    let score = |syn_ecn_capable, name: &str| {
        let ranked = identify(course(syn_ecn_capable), None, None, None).ranked;
        ranked.into_iter().find(|ranked| ranked.name == name).expect("a candidate").score.total()
    };
    assert_eq!(score(None, "dctcp"), score(None, "reno"));
    assert!(score(Some(true), "dctcp") > score(Some(true), "reno") + 5.0);
    assert!(score(Some(false), "dctcp") < score(Some(false), "reno") - 5.0);
}
