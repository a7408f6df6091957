//! Artificial window traces: of known algorithms, and of none.
#![allow(missing_docs)]

use yuzuri_infer::identify;
use yuzuri_infer::verdict::{Answer, Verdict};
use yuzuri_infer::window_trace::{Cause, Reduction, Round, WindowTrace};

const RTT_MS: i64 = 50;

/// A window trace that is built round by round.
struct SyntheticTrace {
    window_trace: WindowTrace,
    at_ms: i64,
}

impl SyntheticTrace {
    fn new() -> SyntheticTrace {
        let window_trace = WindowTrace {
            mss_bytes: 1448,
            min_rtt_us: RTT_MS as u32 * 1000,
            handshake_rtt_us: Some(RTT_MS as u32 * 1000),
            ..WindowTrace::default()
        };
        let mut made = SyntheticTrace { window_trace, at_ms: 0 };
        // Slow start, which is not scored.
        for window in [10, 20, 40, 80] {
            made.round(window);
        }
        made
    }

    fn round(&mut self, window: u32) {
        let (start_ns, end_ns) = (self.at_ms * 1_000_000, (self.at_ms + RTT_MS) * 1_000_000);
        let rtt_us = RTT_MS as u32 * 1000;
        self.at_ms += RTT_MS;
        self.window_trace.segments += u64::from(window);
        self.window_trace.rounds.push(Round {
            start_ns,
            end_ns,
            window: window as f32,
            acked: window as f32,
            // Each acknowledgement is of two segments.
            acks: window / 2,
            sent: window,
            rtt_first_us: rtt_us,
            rtt_min_us: rtt_us,
            rtt_max_us: rtt_us,
            rtt_last_us: rtt_us,
            rtt_mean_us: rtt_us,
            ..Round::default()
        });
    }

    fn reduction(&mut self, before: u32, after: u32) {
        let at_ns = self.at_ms * 1_000_000;
        let round = self.window_trace.rounds.len() as u32;
        self.window_trace.reductions.push(Reduction {
            after: after as f32,
            round,
            ..Reduction::begun(at_ns, Cause::Recovery, before as f32)
        });
    }

    /// Epochs of `rounds` rounds: an acknowledgement of two segments counts as `counted`, `per` of
    /// them add a segment, and a loss leaves the result of `reduced_from`.
    fn epochs(
        mut self,
        epochs: u32,
        rounds: u32,
        counted: u32,
        per: impl Fn(u32) -> u32,
        reduced_from: fn(u32) -> u32,
    ) -> SyntheticTrace {
        let mut window = 80;
        for _ in 0..epochs {
            self.reduction(window, reduced_from(window));
            window = reduced_from(window);
            let mut count = 0;
            for _ in 0..rounds {
                self.round(window);
                for _ in 0..window / 2 {
                    count += counted;
                    if count >= per(window) {
                        count -= per(window);
                        window += 1;
                    }
                }
            }
        }
        self
    }

    fn verdict(self) -> Verdict {
        identify(self.window_trace, None, None, None)
    }
}

fn set(verdict: &Verdict) -> &[String] {
    match &verdict.answer {
        Answer::Named { set, .. } => set,
        Answer::Unknown { because } => panic!("{because}"),
    }
}

#[test]
fn scalable_is_identified_with_either_ack_count() {
    // Before Linux 5.7 a segment of growth took fifty acknowledgements, since then a hundred
    // segments.
    for (counted, most) in [(1, 50), (2, 100)] {
        let reduced_from = |window| window - (window >> 3);
        let verdict =
            SyntheticTrace::new().epochs(12, 25, counted, |window| window.min(most), reduced_from).verdict();
        assert!(set(&verdict).contains(&"scalable".to_owned()), "{counted}: {:?}", verdict.answer);
        assert!(!set(&verdict).contains(&"reno".to_owned()));
    }
}

#[test]
fn reno_stays_reno_where_a_loss_was_not_seen() {
    let halves = |unseen: bool| {
        let mut made = SyntheticTrace::new().epochs(3, 40, 2, |window| window, |window| window / 2);
        if unseen {
            let before = made.window_trace.rounds.last().map_or(0, |round| round.window as u32 + 1);
            for more in 0..40 {
                made.round(before / 2 + more);
            }
        }
        made.verdict()
    };
    assert!(set(&halves(false)).contains(&"reno".to_owned()));
    let verdict = halves(true);
    assert!(set(&verdict).contains(&"reno".to_owned()), "{:?} {:?}", verdict.answer, verdict.ranked.first());
}

#[test]
fn a_window_that_no_algorithm_explains_is_unknown() {
    // A loss leaves a third of the window, and it jumps by a quarter every tenth round.
    let mut made = SyntheticTrace::new();
    for _ in 0..12 {
        made.reduction(90, 30);
        let mut window = 30;
        for round in 0..30 {
            made.round(window);
            window += if round % 10 == 9 { window / 4 } else { 0 };
        }
    }
    match made.verdict().answer {
        Answer::Unknown { because } => {
            assert!(because.starts_with("none of the known algorithms"), "{because}")
        }
        named => panic!("{named:?}"),
    }
}

#[test]
fn a_constant_flight_identifies_no_algorithm() {
    let mut made = SyntheticTrace::new();
    for round in 0..400 {
        made.round(if round < 200 { 80 } else { 84 });
    }
    match made.verdict().answer {
        Answer::Unknown { because } => {
            assert!(because.contains("changed 1 time in") || because.contains("follows a rate"), "{because}")
        }
        named => panic!("{named:?}"),
    }
}

#[test]
fn an_algorithm_with_another_beta_is_none_of_them() {
    // It grows like Reno, and a loss leaves a third.
    let verdict = SyntheticTrace::new().epochs(12, 40, 2, |window| window, |window| window / 3).verdict();
    let best = verdict.ranked.first().expect("a candidate");
    assert!(best.score.is_other_beta(), "{:?}", best.score);
    assert!(matches!(verdict.answer, Answer::Unknown { .. }), "{:?}", verdict.answer);
    let reno = SyntheticTrace::new().epochs(12, 40, 2, |window| window, |window| window / 2).verdict();
    let best = reno.ranked.first().expect("a candidate");
    assert!(!best.score.is_other_beta() && set(&reno).contains(&"reno".to_owned()), "{:?}", best.score);
}

/// Veno reduces its window to four fifths or half, depending on the RTT measured by the last
/// acknowledgement before a loss: here the queue comes and goes within each round.
#[test]
fn veno_is_identified_where_the_last_ack_before_a_loss_shows_a_queue() {
    let mut made = SyntheticTrace::new();
    let mut window = 80;
    for _ in 0..8 {
        made.reduction(window, window / 2);
        let queued_us = RTT_MS as u32 * 1250;
        if let Some(last) = made.window_trace.reductions.last_mut() {
            (last.acked, last.acks, last.rtt_us) = (window as f32, window / 2, queued_us);
        }
        window /= 2;
        for _ in 0..30 {
            made.round(window);
            window += 1;
        }
    }
    let verdict = made.verdict();
    let veno = |verdict: &Verdict| verdict.ranked.iter().find(|r| r.name == "veno").map(|r| r.score.backoff);
    // Reducing to four fifths each time would cost six per reduction.
    assert!(veno(&verdict) > Some(-16.0), "{:?}", veno(&verdict));
}
