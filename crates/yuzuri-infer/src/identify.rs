//! From a course to a verdict.

use crate::course::Course;
use crate::evidence;
use crate::name::{Ranked, candidates, rank};
use crate::packets::Seen;
use crate::probes::swings;
use crate::verdict::{Answer, Verdict};
use std::net::SocketAddr;

/// Rounds that something must have been seen in, after slow start, for an answer.
const MIN_ROUNDS: usize = 8;
/// A law whose probability is at least this part of the best one's is not told apart from it.
const NOT_TOLD_APART: f64 = 0.2;
/// Misfit, in units of the noise, above which no law explains the flow.
const UNEXPLAINED: f64 = 25.0;

/// Identifies one direction of a flow.
pub fn identify(
    course: Course,
    seen: Option<Seen>,
    from: Option<SocketAddr>,
    to: Option<SocketAddr>,
) -> Verdict {
    let ranked = rank(&course, &candidates());
    let (constants, evidence) = evidence::gather(&course, ranked.first());
    let mut foreseen = vec![f32::NAN; course.rounds.len()];
    if let Some((_, best)) = ranked.first() {
        for round in best.rounds.iter().filter(|round| round.counts) {
            foreseen[round.round] = round.law;
        }
    }
    let counted = foreseen.iter().filter(|window| !window.is_nan()).count();
    let ranked: Vec<Ranked> = ranked.into_iter().map(|(ranked, _)| ranked).collect();
    let blind =
        seen.as_ref().filter(|seen| evidence::is_blind(&course, seen)).map(|_| evidence::BLIND.to_owned());
    let answer = match blind.or_else(|| thin(&course, counted, ranked.first())) {
        Some(because) => Answer::Unknown { because },
        None => named(&ranked),
    };
    let notes = evidence::notes(&course, seen.as_ref());
    Verdict {
        from,
        to,
        answer,
        ranked,
        evidence,
        notes,
        constants,
        seen,
        vantage: course.vantage,
        course,
        foreseen,
    }
}

/// Why the evidence is too thin for an answer.
fn thin(course: &Course, counted: usize, best: Option<&Ranked>) -> Option<String> {
    let most = course.rounds.iter().map(|round| round.window).fold(0.0, f32::max);
    let first = course.rounds.first().map_or(0.0, |round| round.window);
    if course.rounds.len() < 3 {
        return Some(format!("only {} rounds were seen", course.rounds.len()));
    }
    if most <= first.max(10.0) && course.turns.is_empty() {
        return Some(format!("the flow never left its initial window ({most:.0} segments)"));
    }
    if counted < MIN_ROUNDS {
        let limited = course.rounds.iter().filter(|r| r.limits.application || r.limits.receiver).count();
        return Some(format!(
            "only {counted} rounds after slow start were limited by the window alone; application or receiver limited {limited}"
        ));
    }
    let best = best?;
    if evidence::is_by_rate(best) && swings(course) {
        return Some(format!(
            "the flight follows no window, and swings more often than {} probes",
            best.name
        ));
    }
    (best.score.misfit > UNEXPLAINED)
        .then(|| format!("no known law explains the window: {} comes nearest", best.name))
}

fn named(ranked: &[Ranked]) -> Answer {
    let best = ranked.first().map_or(0.0, |best| best.probability);
    let set: Vec<String> =
        ranked.iter().filter(|r| r.probability >= NOT_TOLD_APART * best).map(|r| r.name.clone()).collect();
    Answer::Named { name: set.first().cloned().unwrap_or_default(), set }
}
