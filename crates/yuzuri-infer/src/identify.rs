//! From a window trace to a verdict.

use crate::evidence;
use crate::name::{Ranked, candidates, rank};
use crate::packets::Seen;
use crate::probes::are_shown;
use crate::verdict::{Answer, Verdict};
use crate::window_trace::WindowTrace;
use std::net::SocketAddr;
use yuzuri_cca::Algorithm;

/// Rounds that something must have been seen in, after slow start, for an answer.
const MIN_ROUNDS: usize = 8;
/// An algorithm whose probability is at least this part of the best one's is not told apart from it.
const NOT_TOLD_APART: f64 = 0.2;
/// Residual, in units of the noise, above which no algorithm explains the flow. It is far above what noise
/// makes: LP and CDG fall by what their replay does not see, and a correct answer for them has residuals of
/// several units.
const UNEXPLAINED: f64 = 25.0;
/// More names than these tell nobody anything.
const MAX_NAMES: usize = 6;

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
    if evidence::is_by_rate(best) {
        // A flight by rate has no window to be explained by: it is judged by its probes.
        return (!are_shown(window_trace, best.name == Algorithm::Bbr3.name()))
            .then(|| steady(window_trace, best));
    }
    (best.score.residual > UNEXPLAINED)
        .then(|| format!("no known algorithm explains the window: {} comes nearest", best.name))
}

/// Words for a flight that follows a rate, without the probes of an algorithm that sets one.
fn steady(window_trace: &WindowTrace, best: &Ranked) -> String {
    let seconds = window_trace.seconds();
    let rate_mbps = if seconds > 0.0 { window_trace.acked_bytes as f64 * 8e-6 / seconds } else { 0.0 };
    format!(
        "the flight follows a rate ({rate_mbps:.1} Mbit/s), not a window, and shows no probes at the times of {}: the application, pacing or the \
         sender's own device may set it",
        best.name
    )
}

fn named(ranked: &[Ranked]) -> Answer {
    let best = ranked.first().map_or(0.0, |best| best.probability);
    let set: Vec<String> =
        ranked.iter().filter(|r| r.probability >= NOT_TOLD_APART * best).map(|r| r.name.clone()).collect();
    if set.len() > MAX_NAMES {
        return Answer::Unknown { because: format!("{} algorithms explain the window alike", set.len()) };
    }
    Answer::Named { name: set.first().cloned().unwrap_or_default(), set }
}
