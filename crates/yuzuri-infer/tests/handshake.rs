//! What a handshake alone shows about its opener.
#![allow(missing_docs)]

mod made_up;

use made_up::{ACK, SYN, segment};
use yuzuri_capture::{Ecn, End, FlowSlot, Segment};
use yuzuri_infer::identify;
use yuzuri_infer::packets::Tracker;
use yuzuri_infer::window_trace::{Round, WindowTrace};

/// A flow whose SYN, and its retransmissions, had these codepoints; each end sends a segment of
/// data.
fn opened(syns: &[Ecn]) -> [Option<bool>; 2] {
    let (near, far) = (End::Lower, End::Higher);
    let mut tracker = Tracker::new();
    for syn in syns {
        tracker.segment(&Segment { ecn: *syn, ..segment(0, near, SYN, 100, 0, 0) });
    }
    let answer = segment(1_000_000, far, SYN | ACK, 500, 101, 0);
    tracker.segment(&Segment { ecn: Ecn::Ect0, ..answer });
    tracker.segment(&segment(2_000_000, near, ACK, 101, 501, 1000));
    tracker.segment(&segment(3_000_000, far, ACK, 501, 1101, 1000));
    let ended = tracker.end(FlowSlot(0)).expect("the flow");
    ended.window_traces.map(|window_trace| window_trace.and_then(|window_trace| window_trace.syn_ecn_capable))
}

#[test]
fn an_ecn_capable_syn_is_noticed_at_the_end_that_opened() {
    assert_eq!(opened(&[Ecn::NotEct]), [Some(false), None], "an answer shows nothing");
    assert_eq!(opened(&[Ecn::Ect0]), [Some(true), None]);
    assert_eq!(opened(&[Ecn::Ect0, Ecn::NotEct]), [Some(true), None], "it is sent again without");
    assert_eq!(opened(&[]), [None, None], "it was not seen");
}

#[test]
fn an_algorithm_that_needs_ecn_is_distinguished_from_those_that_do_not() {
    // Traces with fewer rounds are not replayed.
    let rounds = vec![Round::default(); 3];
    let window_trace =
        |syn_ecn_capable| WindowTrace { syn_ecn_capable, rounds: rounds.clone(), ..WindowTrace::default() };
    let score = |syn_ecn_capable, name: &str| {
        let ranked = identify(window_trace(syn_ecn_capable), None, None, None).ranked;
        ranked.into_iter().find(|ranked| ranked.name == name).expect("a candidate").score.host
    };
    assert_eq!(score(None, "dctcp"), score(None, "reno"));
    assert!(score(Some(true), "dctcp") > score(Some(true), "reno") + 3.0);
    assert!(score(Some(false), "dctcp") < score(Some(false), "reno") - 3.0);
}
