//! From a window trace to a verdict.

use crate::evidence;
use crate::name::{Ranked, candidates, rank};
use crate::packets::Seen;
use crate::probes::swings;
use crate::verdict::{Answer, Verdict};
use crate::window_trace::WindowTrace;
use std::net::SocketAddr;

/// Rounds that something must have been seen in, after slow start, for an answer.
const MIN_ROUNDS: usize = 8;
/// An algorithm whose probability is at least this part of the best one's is not told apart from it.
const NOT_TOLD_APART: f64 = 0.2;
/// Residual, in units of the noise, above which no algorithm explains the flow.
const UNEXPLAINED: f64 = 25.0;

/// Identifies one direction of a flow.
pub fn identify(
    window_trace: WindowTrace,
    seen: Option<Seen>,
    from: Option<SocketAddr>,
    to: Option<SocketAddr>,
) -> Verdict {
    let ranked = rank(&window_trace, &candidates());
    let (constants, evidence) = evidence::gather(&window_trace, ranked.first());
    let mut predicted = vec![f32::NAN; window_trace.rounds.len()];
    if let Some((_, best)) = ranked.first() {
        for round in best.rounds.iter().filter(|round| round.counts) {
            predicted[round.round] = round.predicted;
        }
    }
    let counted = predicted.iter().filter(|window| !window.is_nan()).count();
    let ranked: Vec<Ranked> = ranked.into_iter().map(|(ranked, _)| ranked).collect();
    let blind = seen
        .as_ref()
        .filter(|seen| evidence::is_blind(&window_trace, seen))
        .map(|_| evidence::BLIND.to_owned());
    let answer = match blind.or_else(|| thin(&window_trace, counted, ranked.first())) {
        Some(because) => Answer::Unknown { because },
        None => named(&ranked),
    };
    let notes = evidence::notes(&window_trace, seen.as_ref());
    Verdict {
        from,
        to,
        answer,
        ranked,
        evidence,
        notes,
        constants,
        seen,
        capture_point: window_trace.capture_point,
        window_trace,
        predicted,
    }
}

/// Why the evidence is too thin for an answer.
fn thin(window_trace: &WindowTrace, counted: usize, best: Option<&Ranked>) -> Option<String> {
    let most = window_trace.rounds.iter().map(|round| round.window).fold(0.0, f32::max);
    let first = window_trace.rounds.first().map_or(0.0, |round| round.window);
    if window_trace.rounds.len() < 3 {
        return Some(format!("only {} rounds were seen", window_trace.rounds.len()));
    }
    if most <= first.max(10.0) && window_trace.reductions.is_empty() {
        return Some(format!("the flow never left its initial window ({most:.0} segments)"));
    }
    if counted < MIN_ROUNDS {
        let limited =
            window_trace.rounds.iter().filter(|r| r.limits.application || r.limits.receiver).count();
        return Some(format!(
            "only {counted} rounds after slow start were limited by the window alone; application or receiver limited {limited}"
        ));
    }
    let best = best?;
    if evidence::is_by_rate(best) && swings(window_trace) {
        return Some(format!(
            "the flight follows no window, and swings more often than {} probes",
            best.name
        ));
    }
    (best.score.residual > UNEXPLAINED)
        .then(|| format!("no known algorithm explains the window: {} comes nearest", best.name))
}

fn named(ranked: &[Ranked]) -> Answer {
    let best = ranked.first().map_or(0.0, |best| best.probability);
    let set: Vec<String> =
        ranked.iter().filter(|r| r.probability >= NOT_TOLD_APART * best).map(|r| r.name.clone()).collect();
    Answer::Named { name: set.first().cloned().unwrap_or_default(), set }
}
