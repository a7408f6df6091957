//! Whether a rate-based algorithm predicts a flight better than chance.

use crate::name::Ranked;
use crate::score::window_noise;
use crate::window_trace::WindowTrace;
use yuzuri_stats::upper_median_by;

/// Whether the best candidate's rate predicts the flight better than chance: better than a uniform
/// distribution up to twice the flow's usual flight. A large wandering flight may seem to have a
/// few probes, but has no rate to which it returns.
pub(crate) fn is_beaten(window_trace: &WindowTrace, predicted: &[f32], best: &Ranked) -> bool {
    let rounds = window_trace.rounds.iter().zip(predicted).filter(|(_, window)| !window.is_nan());
    let mut flights: Vec<f32> = rounds.map(|(round, _)| round.window).collect();
    let Some(usual) = upper_median_by(&mut flights, f32::total_cmp) else { return false };
    let usual = usual.max(1.0);
    let by_chance = -f64::from(2.0 * usual / window_noise(usual)).ln();
    // Each of its reductions is an observation; the other observations are of growth.
    let observations = best.score.observations - f64::from(best.score.reductions);
    observations <= 0.0 || best.score.growth / observations > by_chance
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::score::Score;
    use crate::window_trace::Round;

    #[test]
    fn a_rate_must_explain_more_than_the_size_of_the_flight() {
        let rounds = (0..60).map(|n| Round { window: 30.0 + (n % 20) as f32, ..Round::default() });
        let trace = WindowTrace { rounds: rounds.collect(), ..WindowTrace::default() };
        let beaten = |mean: f64| {
            let score = Score {
                growth: 15.0 * mean,
                backoff: -90.0,
                observations: 18.0,
                reductions: 3,
                ..Score::default()
            };
            is_beaten(&trace, &[40.0; 60], &Ranked { name: "bbr".into(), probability: 1.0, score })
        };
        // BBR in captures of it: -2.0 to -2.3.
        assert!(beaten(-2.3));
        assert!(!beaten(-6.2));
    }
}
