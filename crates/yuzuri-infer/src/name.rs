//! Ranks the algorithms: every candidate is replayed and scored.

use crate::probes::{
    intervals_without_probe_rtt, paced_part, probe_rtt_dips_on_time, probes, rounds_below_minimum,
};
use crate::replay::{Assumptions, Replay, replay};
use crate::score::{self, Score, score};
use crate::ssthresh;
pub use crate::unmodelled::Growth;
use crate::unmodelled::{Unmodelled, unmodelled};
use crate::window_trace::{CapturePoint, WindowTrace};
use serde::{Deserialize, Serialize};
use yuzuri_cca::{Algorithm, CcaKind, CongestionControl, Cubic, Form, SlowStartExit};

/// A candidate's place in the ranking.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ranked {
    /// Its name.
    pub name: String,
    /// Probability, 0 to 1.
    pub probability: f64,
    /// How well its replay agrees with the flow.
    pub score: Score,
}

/// None of the candidates: a flight that follows no known algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NoneOfThese {
    /// Probability, 0 to 1.
    pub probability: f64,
    /// The growth of the nearest such flight.
    pub growth: Growth,
    /// Segments, or fraction, per round.
    pub step: f64,
    /// The fraction of the window that remains after a loss.
    pub beta: f64,
    /// How well its replay agrees with the flow.
    pub score: Score,
}

/// The candidates with their replays, best first.
#[derive(Clone, Debug, Default)]
pub struct Ranking {
    /// All candidates, the best first.
    pub candidates: Vec<(Ranked, Replay)>,
    /// The alternative that it is none of them.
    pub none: NoneOfThese,
}

/// Ranks the candidates.
pub fn rank(window_trace: &WindowTrace, candidates: &[Algorithm]) -> Ranking {
    let found = probes(window_trace);
    let (on_time, without_half) =
        (probe_rtt_dips_on_time(window_trace), intervals_without_probe_rtt(window_trace));
    let paced_part = paced_part(window_trace);
    let below_minimum = rounds_below_minimum(window_trace);
    let temperature = temperature(window_trace);
    let rtt_s = f64::from(window_trace.min_rtt_us) / 1e6;
    // A rate-based algorithm predicts no window at a loss, so it is not a candidate here: "none of
    // these" covers it.
    let foresees = |candidate: &&Algorithm| {
        window_trace.loss_trace.is_none() || candidate.facts().kind != CcaKind::Model
    };
    let mut ranked: Vec<(Ranked, Replay)> = candidates
        .iter()
        .filter(foresees)
        .map(|candidate| {
            let Fitted { replay, mut score, constants, tried, forms } = fit(*candidate, window_trace);
            let most_rounds_v3 = found.most_rounds_v3();
            score.probes = score::probes(found.count(), found.rounds, rtt_s, most_rounds_v3, *candidate);
            score.probe_rtt_dips = score::probe_rtt_dips(on_time, without_half, *candidate);
            score.prior = score::prior(*candidate);
            score.prior -= averaged(&forms, temperature);
            score.prior -= fitted(constants, &score, temperature).min(averaged(&tried, temperature));
            score.host = score::host(window_trace, paced_part, *candidate)
                + score::below_minimum(below_minimum, *candidate)
                + ssthresh::evidence(window_trace.ssthresh_changes, Some(*candidate));
            (Ranked { name: candidate.name().to_owned(), probability: 0.0, score }, replay)
        })
        .collect();
    let windows = |ranked: &Ranked| ranked.score.windows();
    let nearest = ranked.iter().map(|(ranked, _)| ranked).max_by(|a, b| windows(a).total_cmp(&windows(b)));
    let none = none_of_these(window_trace, temperature);
    // If even the nearest is off by more than noise, the scale of all errors grows accordingly.
    let temperature = temperature * nearest.map_or(1.0, |ranked| ranked.score.excess());
    let certainty =
        |score: &Score| score.windows() / temperature + score.probe_rtt_dips + score.host + score.prior;
    ranked.sort_by(|a, b| certainty(&b.0.score).total_cmp(&certainty(&a.0.score)));
    let none_certainty = none.0.score.windows() / temperature
        + none.1
        + ssthresh::evidence(window_trace.ssthresh_changes, None);
    let best = ranked.first().map_or(0.0, |r| certainty(&r.0.score)).max(none_certainty);
    let weight = |certainty: f64| (certainty - best).exp();
    let sum: f64 = ranked.iter().map(|r| weight(certainty(&r.0.score))).sum::<f64>() + weight(none_certainty);
    for (ranked, _) in &mut ranked {
        ranked.probability = weight(certainty(&ranked.score)) / sum;
    }
    let none = NoneOfThese { probability: weight(none_certainty) / sum, ..none.0 };
    Ranking { candidates: ranked, none }
}

/// A candidate's nearest replay.
#[derive(Default)]
struct Fitted {
    replay: Replay,
    score: Score,
    /// Constants fitted to the flow in addition to the algorithm's own forms.
    constants: f64,
    /// The log-likelihood of each tried value relative to the best one. The values are spread
    /// evenly over their range.
    tried: Vec<f64>,
    /// The same for each of its forms.
    forms: Vec<f64>,
}

/// Replays a candidate in all its forms, and with every state that it may have from before the
/// observation.
fn fit(candidate: Algorithm, window_trace: &WindowTrace) -> Fitted {
    let mut best: Option<(Replay, Score, Assumptions)> = None;
    let mut best_forms = Vec::new();
    let mut tried = Vec::new();
    let mut try_each = |tried: &mut Vec<f64>, met: &mut dyn Iterator<Item = (Option<u32>, Option<u32>)>| {
        for (former_rtt_us, competitor) in met {
            let (mut windows, mut is_best) = (Vec::new(), false);
            for (mut cca, form) in forms(candidate, window_trace.polled) {
                let met = Assumptions { former_rtt_us, ..form };
                let assumptions = if candidate.facts().remembers_max {
                    Assumptions { former_max: competitor, ..met }
                } else {
                    Assumptions { competitor, ..met }
                };
                let replay = replay(cca.as_mut(), window_trace, assumptions);
                let score = score(&replay, candidate);
                windows.push(score.windows());
                if best.as_ref().is_none_or(|(_, best, _)| score.windows() > best.windows()) {
                    best = Some((replay, score, assumptions));
                    is_best = true;
                }
            }
            tried.push(windows.iter().copied().fold(f64::NEG_INFINITY, f64::max));
            if is_best {
                best_forms = windows;
            }
        }
        let met = |found: &Assumptions| (found.former_rtt_us, found.competitor.or(found.former_max));
        best.as_ref().map_or((None, None), |(_, _, found)| met(found))
    };
    let former = former_rtts(candidate, window_trace);
    let times = || std::iter::once(None).chain(former.iter().copied().map(Some));
    try_each(&mut tried, &mut times().map(|rtt_us| (rtt_us, None)));
    let mut found = (None, None);
    if candidate.facts().estimates_competitor && !former.is_empty() {
        let competitors = competitors(window_trace);
        found = try_each(
            &mut tried,
            &mut competitors.flat_map(|competitor| times().map(move |rtt_us| (rtt_us, Some(competitor)))),
        );
    }
    if candidate.facts().remembers_max && missed_begin(window_trace) {
        found =
            try_each(&mut tried, &mut competitors(window_trace).map(|former_max| (None, Some(former_max))));
    }
    let mut around = Vec::new();
    for _ in 0..CLIMBS {
        let before = found;
        if let (Some(near_us), competitor) = found {
            found = try_each(&mut around, &mut nearer(near_us).map(|rtt_us| (Some(rtt_us), competitor)));
        }
        if let (rtt_us, Some(near)) = found {
            found = try_each(&mut around, &mut nearer(near).map(|competitor| (rtt_us, Some(competitor))));
        }
        if found == before {
            break;
        }
    }
    let Some((replay, score, assumptions)) = best else { return Fitted::default() };
    let met = assumptions.competitor.or(assumptions.former_max);
    let constants = f64::from(u8::from(!former.is_empty()) + u8::from(met.is_some()));
    let less = |windows: Vec<f64>| windows.into_iter().map(|windows| windows - score.windows()).collect();
    let (tried, forms) = (less(tried), less(best_forms));
    Fitted { replay, score, constants, tried, forms }
}

/// The nearest flight without an algorithm, and the logarithm of its prior: each constant that is
/// fitted to the flow has a cost (the Bayesian information criterion).
fn none_of_these(window_trace: &WindowTrace, temperature: f64) -> (NoneOfThese, f64) {
    if window_trace.loss_trace.is_some() {
        let by_rate = candidates().into_iter().filter(|candidate| candidate.facts().kind == CcaKind::Model);
        let prior = NONE.exp() + by_rate.map(|candidate| score::prior(candidate).exp()).sum::<f64>();
        return (NoneOfThese { score: unforeseen(window_trace), ..NoneOfThese::default() }, prior.ln());
    }
    let reno =
        replay(Algorithm::Reno.make(SlowStartExit::Loss, 1).as_mut(), window_trace, Assumptions::default());
    unmodelled(window_trace, &reno)
        .into_iter()
        .map(|unmodelled| {
            let score = score(&unmodelled.replay, Algorithm::Reno);
            let constant = fitted(1.0, &score, temperature);
            let beta = if unmodelled.has_beta() { constant } else { 0.0 };
            let step = if unmodelled.steps() { unmodelled.step_cost(temperature).max(constant) } else { 0.0 };
            let among_losses = unmodelled.is_by_rate_among_losses().then_some(Algorithm::Bbr);
            let prior = none_prior(among_losses) - beta - step;
            let Unmodelled { growth, step, beta, .. } = unmodelled;
            (NoneOfThese { probability: 0.0, growth, step, beta, score }, prior)
        })
        .max_by(|a, b| {
            let of = |(none, prior): &(NoneOfThese, f64)| none.score.windows() / temperature + prior;
            of(a).total_cmp(&of(b))
        })
        .unwrap_or_default()
}

/// The score for windows visible only at losses, if nothing predicts what they grow to.
fn unforeseen(window_trace: &WindowTrace) -> Score {
    let mut reno = Algorithm::Reno.make(SlowStartExit::Loss, 1);
    let replay = replay(reno.as_mut(), window_trace, Assumptions::default());
    score::unforeseen(replay.rounds.iter().map(|round| round.seen))
}

/// The log prior that a flight follows none of them: the same as that of an uncommon algorithm.
const NONE: f64 = 0.0;

/// How often a rate-based algorithm with persistent losses differs from its prediction: in queues
/// shorter than its data in flight its probes are lost, and loss recovery determines its flight.
const BY_RATE_UNFORESEEN: f64 = 0.5;

/// The log prior that a flight like this follows none of them, which may also be one of a
/// rate-based algorithm.
fn none_prior(by_rate: Option<Algorithm>) -> f64 {
    (NONE.exp() + by_rate.map_or(0.0, |algorithm| BY_RATE_UNFORESEEN * score::prior(algorithm).exp())).ln()
}

/// The cost of constants that are fitted to a flow (the Bayesian information criterion).
fn fitted(constants: f64, score: &Score, temperature: f64) -> f64 {
    constants * (1.0 + score.observations / temperature).ln() / 2.0
}

/// The cost of an unknown value that was fitted: nothing if the value hardly matters. It is the
/// mean of the likelihood over all tried values, relative to the best one. (The Bayesian
/// information criterion assumes a peak, which may lie between these.)
fn averaged(tried: &[f64], temperature: f64) -> f64 {
    let sum: f64 = tried.iter().map(|less| (less / temperature).exp()).sum();
    if tried.is_empty() { 0.0 } else { (tried.len() as f64 / sum).ln() }
}

/// Round-trip times, as fractions of the observed minimum, that a sender may have measured before
/// the observation: the queue may never have been empty since.
const FORMER_RTTS: [f32; 7] = [0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4];

/// Minimum round-trip times that a candidate may know and the capture does not show, µs: if the
/// handshake was missed, for algorithms that depend on it.
fn former_rtts(candidate: Algorithm, window_trace: &WindowTrace) -> Vec<u32> {
    if !candidate.facts().uses_min_rtt || !missed_begin(window_trace) || window_trace.min_rtt_us == 0 {
        return Vec::new();
    }
    FORMER_RTTS.iter().map(|part| (window_trace.min_rtt_us as f32 * part).max(1.0) as u32).collect()
}

/// Whether the flow's beginning was missed.
fn missed_begin(window_trace: &WindowTrace) -> bool {
    // A polled log has means of several measurements, whose minimum is unknown.
    let known = window_trace.capture_point == CapturePoint::Kernel && !window_trace.polled;
    window_trace.handshake_rtt_us.is_none() && !known
}

/// Windows as fractions of the largest observed one: those of a competing flow that an algorithm
/// may have estimated before the observation (it reduces its queue down to this), and those before
/// the last loss, towards which CUBIC and BIC grow.
const COMPETITORS: [f32; 8] = [0.3, 0.45, 0.6, 0.75, 0.9, 1.05, 1.2, 1.5];

/// Such windows, segments.
fn competitors(window_trace: &WindowTrace) -> impl Iterator<Item = u32> {
    let most = window_trace.rounds.iter().map(|round| round.window).fold(0.0, f32::max);
    COMPETITORS.into_iter().map(move |part| (most * part) as u32)
}

/// Values around the one found.
fn nearer(found: u32) -> impl Iterator<Item = u32> {
    NEARER.into_iter().map(move |part| (found as f32 * part) as u32)
}

/// The factors tried around the best value, and the number of repetitions.
const NEARER: [f32; 6] = [0.95, 0.97, 0.99, 1.01, 1.03, 1.05];
const CLIMBS: usize = 4;

/// The forms that an algorithm may have on a flow, the simplest first: each is tried, and the best
/// counts. `polled`: in a log that was polled.
pub fn forms(candidate: Algorithm, polled: bool) -> Vec<(Box<dyn CongestionControl>, Assumptions)> {
    let facts = candidate.facts();
    let plain = Assumptions::default();
    let form = |form: &Form| -> (Box<dyn CongestionControl>, Assumptions) {
        let assumptions = match form {
            Form::Plain | Form::Constants(_) => plain,
            Form::SlowTicks => Assumptions { hz: SLOW_HZ, ..plain },
            Form::CountsAcks => Assumptions { counts_acks: true, ..plain },
            Form::Randomized => Assumptions { randomized: true, ..plain },
            Form::MayHold => Assumptions { may_hold: true, ..plain },
            Form::Blind => Assumptions { blind: true, ..plain },
            Form::Unforeseen => {
                Assumptions { blind: true, randomized: true, may_hold: true, takes_back: true, ..plain }
            }
        };
        // Slow start is not scored, and must not end before the sender's did.
        let cca: Option<Box<dyn CongestionControl>> = match form {
            Form::Constants(place) => {
                Some(Box::new(Cubic::with(facts.constants[*place], SlowStartExit::Loss)))
            }
            Form::CountsAcks => candidate.make_counting_acks(),
            _ => None,
        };
        (cca.unwrap_or_else(|| candidate.make(SlowStartExit::Loss, 1)), assumptions)
    };
    let further = if polled { facts.forms_if_polled } else { &[] };
    facts.forms.iter().chain(further).map(form).collect()
}

/// Ticks per second (`CONFIG_HZ`) of distributions' kernels that do not have 1000.
const SLOW_HZ: u32 = 250;

/// By how much the score of a short flow overstates its evidence.
const TEMPERATURE: f64 = 1.0;
/// Epochs beyond this number add little: an error of a replay repeats in all of them.
const EPOCHS: f64 = 18.0;
/// Rounds without a reduction that count as an epoch.
const EPOCH_ROUNDS: f64 = 60.0;

/// By how much a flow's scores overstate its evidence.
pub(crate) fn temperature(window_trace: &WindowTrace) -> f64 {
    let epochs = window_trace.reductions.len() as f64 + window_trace.rounds.len() as f64 / EPOCH_ROUNDS;
    TEMPERATURE * (1.0 + epochs / EPOCHS)
}

/// The candidates: every algorithm except those represented by another.
pub fn candidates() -> Vec<Algorithm> {
    Algorithm::ALL.into_iter().filter(|algorithm| algorithm.facts().stands_for.is_none()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ignored_value_has_no_cost() {
        assert_eq!(averaged(&[], 1.0), 0.0);
        assert!(averaged(&[0.0; 8], 1.0).abs() < 1e-9);
        // Only one of eight values explains the windows.
        let one = [0.0, -87.0, -87.0, -87.0, -87.0, -87.0, -87.0, -87.0];
        assert!((averaged(&one, 1.0) - 8.0_f64.ln()).abs() < 1e-9);
        // No value does: the criterion costs less.
        assert!(averaged(&[-87.0; 8], 1.0) > 80.0);
    }

    #[test]
    fn an_earlier_rtt_is_searched_if_the_handshake_was_missed() {
        let missed = WindowTrace { min_rtt_us: 100_000, ..WindowTrace::default() };
        let former = former_rtts(Algorithm::Vegas, &missed);
        assert_eq!((former.len(), former.first(), former.last()), (7, Some(&95_000), Some(&40_000)));
        assert!(former_rtts(Algorithm::Reno, &missed).is_empty(), "it does not go by it");
        let seen = WindowTrace { handshake_rtt_us: Some(90_000), ..missed.clone() };
        assert!(former_rtts(Algorithm::Vegas, &seen).is_empty());
        let kernel = WindowTrace { capture_point: CapturePoint::Kernel, ..missed };
        assert!(former_rtts(Algorithm::Vegas, &kernel).is_empty(), "its windows are known");
    }

    /// Rounds of 100 ms, 50 ms of which are queue, and a constant window.
    #[test]
    fn an_earlier_rtt_lets_an_algorithm_see_the_queue() {
        use crate::window_trace::Round;
        let rounds = (0..40).map(|n| Round {
            start_ns: n * 100_000_000,
            end_ns: (n + 1) * 100_000_000,
            window: 40.0,
            acked: 40.0,
            acks: 40,
            rtt_first_us: 100_000,
            rtt_min_us: 100_000,
            rtt_max_us: 100_000,
            rtt_last_us: 100_000,
            rtt_mean_us: 100_000,
            ..Round::default()
        });
        let trace = WindowTrace { rounds: rounds.collect(), min_rtt_us: 100_000, ..WindowTrace::default() };
        let last = |former_rtt_us| {
            let assumptions = Assumptions { former_rtt_us, ..Assumptions::default() };
            let mut vegas = Algorithm::Vegas.make(SlowStartExit::Loss, 1);
            replay(vegas.as_mut(), &trace, assumptions).rounds.last().map(|round| round.predicted)
        };
        // 40 segments at 100 ms of which 50 are queue are 20 too many: Vegas removes one in each
        // round trip.
        assert!(last(None) >= Some(40.0), "{:?}", last(None));
        assert!(last(Some(50_000)) < Some(25.0), "{:?}", last(Some(50_000)));
    }
}
