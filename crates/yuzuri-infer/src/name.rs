//! Which law it is: every candidate replayed, scored, ranked.

use crate::course::Course;
use crate::replay::{Chances, Replay, replay};
use crate::score::{Score, score};
use serde::{Deserialize, Serialize};
use yuzuri_laws::{Algorithm, SlowStartExit};

/// A candidate's place in the ranking.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ranked {
    /// Its name.
    pub name: String,
    /// Probability, 0 to 1.
    pub probability: f64,
    /// Its agreement.
    pub score: Score,
}

/// All candidates, best first, with the replay of each.
pub fn rank(course: &Course, candidates: &[Algorithm]) -> Vec<(Ranked, Replay)> {
    let mut ranked: Vec<(Ranked, Replay)> = candidates
        .iter()
        .map(|candidate| {
            let (replay, score) = chances(*candidate)
                .iter()
                .map(|chances| {
                    // Slow start is not judged, and must not end before the sender's did.
                    let mut law = candidate.make(SlowStartExit::Loss, 1);
                    let replay = replay(law.as_mut(), course, *chances);
                    let score = score(&replay, *candidate);
                    (replay, score)
                })
                .reduce(|a, b| if b.1.total() > a.1.total() { b } else { a })
                .unwrap_or_default();
            (Ranked { name: candidate.name().to_owned(), probability: 0.0, score }, replay)
        })
        .collect();
    ranked.sort_by(|a, b| b.0.score.total().total_cmp(&a.0.score.total()));
    let best = ranked.first().map_or(0.0, |r| r.0.score.total());
    let weight = |r: &Ranked| ((r.score.total() - best) / TEMPERATURE).exp();
    let sum: f64 = ranked.iter().map(|r| weight(&r.0)).sum();
    for (ranked, _) in &mut ranked {
        ranked.probability = weight(ranked) / sum;
    }
    ranked
}

/// What may have happened by chance with a law: each is tried.
fn chances(candidate: Algorithm) -> &'static [Chances] {
    const NONE: Chances = Chances { draws_lots: false, blind: false };
    match candidate {
        Algorithm::Cdg => &[Chances { draws_lots: true, ..NONE }],
        Algorithm::Lp => &[NONE, Chances { blind: true, ..NONE }],
        _ => &[NONE],
    }
}

/// By how much scores of one flow overstate what they know; fitted on simulated flows (`calibrate`).
const TEMPERATURE: f64 = 2.0;

/// The candidates. CUBIC of Apple's systems stands for itself only in its older constants: the newer differ from Linux's by less than
/// the rounding of a window (C = 0.4 for 410/1024).
pub fn candidates() -> Vec<Algorithm> {
    let leave_out = [Algorithm::CubicApple, Algorithm::CubicIphone2017];
    Algorithm::all().iter().copied().filter(|algorithm| !leave_out.contains(algorithm)).collect()
}
