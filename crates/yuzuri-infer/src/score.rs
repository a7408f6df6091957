//! How well a replay agrees with the observations.

use crate::probes::{NOT_BY_CLOCK, PACED};
use crate::replay::{Cut, Replay};
use crate::window_trace::WindowTrace;
use serde::{Deserialize, Serialize};
use yuzuri_cca::{Algorithm, CcaKind, Cdg, Prevalence};
use yuzuri_stats::upper_median_by;

/// Noise of a reconstructed window: this many segments, and this fraction of it.
const WINDOW_NOISE: (f32, f32) = (0.7, 0.01);
/// Noise of a window measured after a reduction, in segments and as a fraction of the window before
/// it.
const BETA_NOISE: (f32, f32) = (1.0, 0.02);
/// Noise of a fall that an algorithm predicts from delays.
const CUT_NOISE: (f32, f32) = (1.5, 0.05);
/// The largest error common to all rounds of an epoch that is ignored, in units of the noise.
const SHARED: f32 = 1.0;
/// Degrees of freedom of Student's t: single wild rounds must not decide.
const NU: f64 = 3.0;
/// The mean cost of an observation with the assumed noise, and its standard deviation: of 2 ln(1 +
/// z²/3) with z from Student's t with three degrees of freedom, 2 (ψ(2) - ψ(3/2)) and 2 √(ψ'(3/2) -
/// ψ'(2)).
pub const EXPECTED_NLL: f64 = 0.773;
const NLL_DEVIATION: f64 = 1.077;
/// Standard deviations above the mean beyond which noise does not explain the mean negative
/// log-likelihood: one right answer in 700.
const BEYOND_NOISE: f64 = 3.0;
/// Maximum number of rounds that an epoch counts for, since its rounds are not independent.
const ROUNDS_COUNT: usize = 10;
/// Rounds that an epoch must have to be informative about growth.
const MIN_ROUNDS: usize = 1;

/// Agreement of one algorithm, as log-likelihoods (natural logarithm; 0 is perfect).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// Log-likelihood of the growth between reductions.
    pub growth: f64,
    /// Log-likelihood of the windows after losses.
    pub backoff: f64,
    /// Log-likelihood of falls without a loss.
    pub cuts: f64,
    /// Log-likelihood of probes: whether their number is that of a rate-based algorithm.
    #[serde(default)]
    pub probes: f64,
    /// Log-likelihood of other evidence: whether the handshake uses ECN as this algorithm's does,
    /// and whether segments are paced.
    #[serde(default)]
    pub host: f64,
    /// The log prior.
    #[serde(default)]
    pub prior: f64,
    /// Log-likelihood of dips of the flight at fixed times, by which a rate-based algorithm
    /// measures the minimum RTT (PROBE_RTT).
    #[serde(default)]
    pub probe_rtt_dips: f64,
    /// Epochs that were informative about growth.
    pub epochs: u32,
    /// Reductions that were informative.
    pub reductions: u32,
    /// Root of the mean squared residual of growth, in units of the noise.
    pub residual: f64,
    /// Observations: epochs, each weighted by its counting rounds, reductions, and falls without
    /// loss.
    #[serde(default)]
    pub observations: f64,
    /// The mean cost of an observation, natural logarithm; noise alone costs [`EXPECTED_NLL`]. 0
    /// for a rate-based algorithm, which is judged by its probes.
    #[serde(default)]
    pub mean_nll: f64,
    /// The median difference between the predicted and the observed window after a loss, in units
    /// of the noise of such a window: above 0, the algorithm's beta is larger. 0 if the window is
    /// random (CDG) or the algorithm is rate-based.
    #[serde(default)]
    pub beta_off: f64,
}

impl Score {
    /// The evidence from windows, which each epoch repeats.
    pub fn windows(&self) -> f64 {
        self.growth + self.backoff + self.cuts + self.probes
    }

    /// The factor by which the noise exceeds the assumption if even this replay is off by more: the
    /// windows' evidence is divided by it. At least 1.
    pub fn excess(&self) -> f64 {
        (self.mean_nll / EXPECTED_NLL).max(1.0)
    }

    /// Whether the algorithm's beta differs from most of the observed ones: a window is accurate to
    /// a segment and two percent however often it is measured, and beyond that the median of
    /// Student's t with three degrees of freedom varies by 1.36 / √n.
    pub fn is_other_beta(&self) -> bool {
        let strays = BEYOND_NOISE * 1.36 / f64::from(self.reductions.max(1)).sqrt();
        self.beta_off.abs() > strays.max(1.0)
    }

    /// Whether the replay is off by more than noise explains, given how many observations count as
    /// one.
    pub fn is_beyond_noise(&self, repeated: f64) -> bool {
        let independent = self.observations / repeated.max(1.0);
        independent > 0.0 && self.mean_nll > EXPECTED_NLL + BEYOND_NOISE * NLL_DEVIATION / independent.sqrt()
    }
}

/// Log-likelihood of packets without the ECN codepoint that the algorithm sets: some networks clear
/// it.
const CLEARED: f64 = -4.0;
/// Log-likelihood of a SYN with a codepoint that the algorithm does not set (RFC 3168 forbids it):
/// hardly any network sets codepoints.
const SET: f64 = -6.0;
/// Log-likelihood of a sender that paces although its algorithm does not require it: its qdisc may
/// pace (fq), or its own device is the bottleneck.
const PACED_BY_OTHERS: f64 = -3.0;
/// Log-likelihood of a sender that does not pace although its algorithm requires it.
const NOT_PACED: f64 = -10.0;

/// The fraction of captures that come from experiments, which run each algorithm of Linux equally
/// often. It is calibrated by answers between Reno and LP, which most paths do not distinguish: of
/// random captures, logs and the laboratory, 76 of 82 are Reno.
const OF_EXPERIMENTS: f64 = 1.0 / 8.0;
/// The algorithms of Linux.
const OF_LINUX: f64 = 17.0;

/// The log prior of an algorithm: how likely a sender runs it, relative to an algorithm that
/// somebody selected. A capture comes from the Internet or from an experiment.
pub fn prior(algorithm: Algorithm) -> f64 {
    let sends = |spread: Prevalence| {
        let experiment = if spread == Prevalence::OutOfTree { 0.0 } else { OF_EXPERIMENTS / OF_LINUX };
        (1.0 - OF_EXPERIMENTS) * spread.servers() + experiment
    };
    (sends(algorithm.facts().spread) / sends(Prevalence::Chosen)).ln()
}

/// The sender's evidence about an algorithm other than windows. An algorithm that requires ECN
/// sends an ECN-capable SYN and ECN-capable data; others never send such a SYN. A rate-based one
/// paces; others send in response to acknowledgements. What the capture does not show is `None`.
pub fn host(window_trace: &WindowTrace, paced_part: Option<f64>, algorithm: Algorithm) -> f64 {
    let facts = algorithm.facts();
    // An ECN-capable SYN shows what the sender is to run, even if the other end refuses ECN.
    let ecn = match window_trace.syn_ecn_capable {
        Some(false) if facts.needs_ecn => CLEARED,
        None if facts.needs_ecn && window_trace.data_without_ect == Some(true) => CLEARED,
        Some(true) if !facts.needs_ecn => SET,
        _ => 0.0,
    };
    let by_rate = facts.kind == CcaKind::Model;
    let pace = match paced_part {
        Some(part) if part >= PACED && !by_rate => PACED_BY_OTHERS,
        Some(part) if part < NOT_BY_CLOCK && by_rate => NOT_PACED,
        _ => 0.0,
    };
    ecn + pace
}

/// Poisson's deviance of a count from the expected one, as a log-likelihood.
fn deviance(count: f64, expected: f64) -> f64 {
    let surplus = if count > 0.0 { count * (count / expected).ln() } else { 0.0 };
    count - expected - surplus
}

/// The weight of the number of probes relative to as many windows: a rate-based algorithm explains
/// any windows.
const PROBES_COUNT: f64 = 6.0;

/// The evidence of the number of probes for a rate-based algorithm: it must probe, while any steady
/// flight is consistent with its rate times the round-trip time. `count` probes were seen in
/// `rounds` rounds of `rtt_s`; BBR v3 waits at most `most_rounds_v3` rounds from one to the next.
pub fn probes(count: usize, rounds: usize, rtt_s: f64, most_rounds_v3: f64, algorithm: Algorithm) -> f64 {
    let rounds = rounds as f64;
    let (least, most) = match algorithm {
        // One probe in eight round trips (`bbr_cycle_len`); rounds are longer than round trips.
        Algorithm::Bbr => (rounds / 10.0, f64::INFINITY),
        // After 2 to 3 s, or after as many round trips as Reno takes to grow back
        // (`bbr_bw_probe_*`).
        Algorithm::Bbr3 => {
            (rounds * (rtt_s / 3.0).max(1.0 / most_rounds_v3), 2.0 + rounds * (rtt_s / 2.0).max(0.1))
        }
        _ => return 0.0,
    };
    // The deviance from the nearer end of the range.
    let count = count as f64;
    let off = |expected: f64| PROBES_COUNT * deviance(count, expected);
    if count < least {
        off(least)
    } else if count > most {
        off(most)
    } else {
        0.0
    }
}

/// The log-likelihood of a fall to a few segments ten seconds after the last, without a timeout,
/// for algorithms without such a rule.
const PROBE_RTT_DIP: f64 = -2.5;
/// The log-likelihood of BBR v3 not halving its flight for longer than it may.
const NO_HALF: f64 = -2.5;
/// The number of dips that count: a common cause makes several.
const PROBE_RTT_DIPS: usize = 4;

/// The evidence of falls of the flight at fixed times: the number at the times of BBR v1, and the
/// number of stretches without one that v3 would have made.
pub fn probe_rtt_dips(on_time: usize, without_half: usize, algorithm: Algorithm) -> f64 {
    let times = |count: usize| count.min(PROBE_RTT_DIPS) as f64;
    match algorithm {
        Algorithm::Bbr => 0.0,
        Algorithm::Bbr3 => PROBE_RTT_DIP * times(on_time) + NO_HALF * times(without_half),
        _ => PROBE_RTT_DIP * times(on_time),
    }
}

/// The log-likelihood of a round in which the kernel reported a window below BBR's minimum, for
/// BBR.
const BELOW_MINIMUM: f64 = -2.5;
/// The number of such rounds that count: a common cause makes several.
const ROUNDS_BELOW: usize = 4;

/// The evidence of windows below BBR's minimum, which neither version goes below
/// (`bbr_cwnd_min_target`).
pub fn below_minimum(rounds: usize, algorithm: Algorithm) -> f64 {
    let by_rate = algorithm.facts().kind == CcaKind::Model;
    if by_rate { BELOW_MINIMUM * rounds.min(ROUNDS_BELOW) as f64 } else { 0.0 }
}

/// The log of Student's t without its constant.
fn student(square: f64, weight: f64) -> f64 {
    -weight * (NU + 1.0) / 2.0 * (square / NU).ln_1p()
}

/// The entropy of a binary choice, in natural logarithms.
fn entropy(part: f64) -> f64 {
    let of = |part: f64| if part > 0.0 { -part * part.ln() } else { 0.0 };
    let part = part.clamp(0.0, 0.5);
    of(part) + of(1.0 - part)
}

fn unit(noise: (f32, f32), of: f32) -> f32 {
    noise.0 + noise.1 * of
}

/// Noise of a reconstructed window, segments.
pub(crate) fn window_noise(window: f32) -> f32 {
    unit(WINDOW_NOISE, window)
}

/// Noise of a window after a reduction, segments.
pub(crate) fn reduction_noise(before: f32) -> f32 {
    unit(BETA_NOISE, before)
}

/// Whether a window matches its prediction except for noise.
pub(crate) fn is_near(predicted: f32, seen: f32) -> bool {
    (predicted - seen).abs() <= 2.0 * unit(WINDOW_NOISE, seen)
}

/// The log-likelihood of an observed window after a reduction, given the predicted one.
pub(crate) fn off_by_reduction(predicted: f32, seen: f32, before: f32) -> f64 {
    let z = f64::from((predicted - seen) / unit(BETA_NOISE, before));
    student(z * z, 1.0)
}

/// The same for a fall without a visible loss.
pub(crate) fn off_by_fall(predicted: f32, seen: f32, _before: f32) -> f64 {
    let z = f64::from((predicted - seen) / unit(CUT_NOISE, seen));
    student(z * z, 1.0)
}

/// Whether a fall without a visible loss is more likely a reduction with an unseen loss than the
/// algorithm's prediction.
pub(crate) fn is_reduction(cut: &Cut) -> bool {
    let of = |predicted: f32| off_by_fall(predicted, cut.seen, cut.before);
    cut.if_reduced.is_some_and(|if_reduced| of(if_reduced) + UNSEEN_LOSS > of(cut.predicted))
}

/// The distribution of a rate-based algorithm's flight around its flight without probing.
struct Cruise {
    /// Fraction of rounds in which it neither probes nor drains.
    steady: f64,
    /// Fraction of rounds in which it measures the minimum RTT.
    searching: f64,
    /// Its flight in these.
    search: Search,
}

/// The flight while an algorithm measures the minimum RTT.
enum Search {
    /// At most this many segments.
    Segments(f32),
    /// At least and at most this fraction of the steady flight.
    Part(f32, f32),
}

/// BBR v1: of eight round trips one probes and one drains, and rounds are smeared over two; every
/// 10 s at most 4 segments (`bbr_cwnd_min_target`).
const CRUISE_BBR: Cruise = Cruise { steady: 0.6, searching: 0.03, search: Search::Segments(5.0) };
/// BBR v3: it probes every 2 to 3 s or 63 round trips; every 5 s half of the window
/// (`bbr_probe_rtt_cwnd_gain`).
const CRUISE_BBR3: Cruise = Cruise { steady: 0.8, searching: 0.03, search: Search::Part(0.4, 0.6) };
/// Noise of a flight determined by a rate: this many segments, and this fraction of it.
const CRUISE_NOISE: (f32, f32) = (1.0, 0.03);
/// Flight while it probes or drains, as fractions of the steady one, and additional segments:
/// bursts, and rounds longer than the phases.
const PROBED: (f32, f32) = (0.9, 1.4);
const PROBED_MORE: f32 = 2.0;

impl Cruise {
    fn of(algorithm: Algorithm) -> Option<&'static Cruise> {
        match algorithm {
            Algorithm::Bbr => Some(&CRUISE_BBR),
            Algorithm::Bbr3 => Some(&CRUISE_BBR3),
            _ => None,
        }
    }

    /// Range of the flight while it measures the minimum RTT.
    fn search(&self, steady: f32) -> (f32, f32) {
        match self.search {
            Search::Segments(most) => (0.0, most),
            Search::Part(least, most) => (least * steady, most * steady),
        }
    }

    /// Range of the flight while it probes or drains.
    fn probed(steady: f32) -> (f32, f32) {
        (PROBED.0 * steady - PROBED_MORE, PROBED.1 * steady + PROBED_MORE)
    }

    /// The log-likelihood of a flight, relative to one that another algorithm predicts exactly
    /// except for noise of `exact` segments.
    fn likelihood(&self, seen: f32, steady: f32, exact: f32) -> f64 {
        let within = |(low, high): (f32, f32)| {
            if (low..=high).contains(&seen) { f64::from(exact / (high - low).max(exact)) } else { 0.0 }
        };
        let noise = unit(CRUISE_NOISE, steady);
        let z = f64::from((seen - steady) / noise);
        let as_steady = f64::from(exact / noise) * student(z * z, 1.0).exp();
        let probing = 1.0 - self.steady - self.searching;
        let likelihood = self.steady * as_steady
            + probing * within(Cruise::probed(steady))
            + self.searching * within(self.search(steady));
        likelihood.max(1e-6).ln()
    }

    /// The distance of a flight from its possible range, in units of the noise.
    fn residual(&self, seen: f32, steady: f32) -> f32 {
        let off = |(low, high): (f32, f32)| (low - seen).max(seen - high).max(0.0);
        off(Cruise::probed(steady)).min(off(self.search(steady))) / unit(WINDOW_NOISE, seen)
    }
}

/// The fraction of its window to which CDG backs off because of delay.
const CDG_BETA: f32 = Cdg::BACKOFF_BETA_1024 as f32 / 1024.0;
/// The fraction of its window to which LP backs off at the first sign of congestion
/// (`tcp_lp_pkts_acked`).
const LP_BETA: f32 = 0.5;
/// The window to which LP backs off at a further sign soon after, segments.
const MIN_LP_WINDOW: f32 = 1.0;
/// The log-probability that LP's window falls in a round in which that of its replay does not.
const LP_FALLS: f64 = -3.0;
/// The largest fraction of rounds in which CDG falls: 7 of 101 in the labelled capture where it did
/// most often, and 126 of 3089 in all.
const CDG_FALLS: f64 = 0.07;
/// The log-probability that the loss of a reduction was not seen: 2 of 27 in captures of hosts that
/// stall.
const UNSEEN_LOSS: f64 = -2.6;
/// The log-probability that a sender is delayed in a round, so that its flight is below the window.
const SENDER_DELAYED_LN: f64 = -2.6;
/// The probabilities that after a loss CDG's window is that of its replay, half (its shadow window
/// is smaller), or unchanged (it has just backed off): its falls are random, and the window after a
/// loss depends on them.
const CDG_REDUCES: [f64; 3] = [0.4, 0.4, 0.2];

/// Scores windows that are visible only at losses.
fn at_losses(replay: &Replay) -> Score {
    let mut score = Score::default();
    let mut square = 0.0;
    for f in &replay.rounds {
        let z = f64::from((f.predicted - f.seen) / unit(BETA_NOISE, f.seen));
        square += (z * z).min(1e4);
        score.growth += student(z * z, 1.0);
        score.epochs += 1;
    }
    score.observations = replay.rounds.len() as f64;
    if score.observations > 0.0 {
        score.residual = (square / score.observations).sqrt();
        score.mean_nll = -score.growth / score.observations;
    }
    score
}

/// Peak of Student's t with three degrees of freedom.
const STUDENT_PEAK: f64 = 0.3676;

/// The score of no prediction: a window uniform between half and one and a half times the observed
/// one.
pub(crate) fn unforeseen(windows: impl Iterator<Item = f32>) -> Score {
    let mut score = Score::default();
    for seen in windows {
        score.growth += (f64::from(unit(BETA_NOISE, seen) / seen.max(1.0)) / STUDENT_PEAK).min(1.0).ln();
        score.epochs += 1;
    }
    score.observations = f64::from(score.epochs);
    if score.epochs > 0 {
        score.mean_nll = -score.growth / score.observations;
    }
    score
}

/// Scores the replay of an algorithm.
pub fn score(replay: &Replay, algorithm: Algorithm) -> Score {
    let mut score = Score::default();
    if replay.at_losses {
        return at_losses(replay);
    }
    let cruise = Cruise::of(algorithm);
    let (mut square, mut rounds) = (0.0, 0);
    for epoch in replay.rounds.chunk_by(|a, b| a.epoch == b.epoch) {
        let counted = || epoch.iter().filter(|f| f.counts);
        // The window at the epoch's start has an error of its own, common to all its rounds.
        let mut off: Vec<f32> =
            counted().map(|f| (f.predicted - f.seen) / unit(WINDOW_NOISE, f.seen)).collect();
        let count = off.len();
        if count < MIN_ROUNDS {
            continue;
        }
        let shared = upper_median_by(&mut off, f32::total_cmp).unwrap_or_default().clamp(-SHARED, SHARED);
        let sum: f64 = if let Some(cruise) = cruise {
            counted().map(|f| f64::from(cruise.residual(f.seen, f.predicted)).powi(2).min(1e4)).sum()
        } else {
            off.iter().map(|off| f64::from(off - shared).powi(2).min(1e4)).sum()
        };
        score.epochs += 1;
        score.observations += count.min(ROUNDS_COUNT) as f64 / 4.0;
        let weight = count.min(ROUNDS_COUNT) as f64 / 4.0;
        score.growth += if let Some(cruise) = cruise {
            weight
                * counted()
                    .map(|f| cruise.likelihood(f.seen, f.predicted, unit(WINDOW_NOISE, f.seen)))
                    .sum::<f64>()
                / count as f64
        } else {
            student(sum / count as f64, weight)
        };
        square += sum;
        rounds += count;
    }
    let growth = score.growth;
    // Where a window was assumed to be held it was not predicted: add the cost of specifying those
    // rounds.
    if rounds > 0 {
        score.growth -= score.observations * entropy(f64::from(replay.hold_periods) / rounds as f64);
    }
    score.residual = if rounds > 0 { (square / rounds as f64).sqrt() } else { 0.0 };
    for backoff in &replay.backoff {
        score.backoff += if let Some(cruise) = cruise {
            cruise.likelihood(backoff.seen, backoff.predicted, unit(BETA_NOISE, backoff.before))
        } else {
            let of = |predicted: f32| off_by_reduction(predicted, backoff.seen, backoff.before);
            if algorithm == Algorithm::Cdg {
                let [cca, half, all] = CDG_REDUCES;
                (cca * of(backoff.predicted).exp()
                    + half * of(backoff.before / 2.0).exp()
                    + all * of(backoff.before).exp())
                .ln()
            } else {
                of(backoff.predicted)
            }
        };
        score.reductions += 1;
    }
    if cruise.is_none() && algorithm != Algorithm::Cdg {
        let mut off: Vec<f32> =
            replay.backoff.iter().map(|b| (b.predicted - b.seen) / unit(BETA_NOISE, b.before)).collect();
        if let Some(median) = upper_median_by(&mut off, f32::total_cmp) {
            score.beta_off = f64::from(median);
        }
    }
    let mut falls = 0.0;
    for cut in &replay.cuts {
        let of = |predicted: f32| off_by_fall(predicted, cut.seen, cut.before);
        // The fit, and the probability of the assumption.
        let unseen = cut.if_reduced.map(|if_reduced| (of(if_reduced), UNSEEN_LOSS));
        let at_random = match algorithm {
            Algorithm::Cdg => Some((of(cut.before * CDG_BETA), 0.0)),
            Algorithm::Lp => Some((of(cut.before * LP_BETA).max(of(MIN_LP_WINDOW)), LP_FALLS)),
            _ => None,
        };
        let ways = [Some((of(cut.predicted), 0.0)), unseen, at_random].into_iter().flatten();
        let best = ways.max_by(|a, b| (a.0 + a.1).total_cmp(&(b.0 + b.1)));
        let (fit, chance) = best.unwrap_or_default();
        score.cuts += fit + chance;
        falls += fit;
    }
    score.cuts += SENDER_DELAYED_LN * f64::from(replay.sender_delays);
    if algorithm == Algorithm::Cdg {
        let most = CDG_FALLS * replay.rounds.iter().filter(|round| round.counts).count() as f64;
        let count = replay.cuts.len() as f64;
        score.cuts += if count > most { deviance(count, most.max(1.0)) } else { 0.0 };
    }
    score.observations += (replay.backoff.len() + replay.cuts.len()) as f64;
    if cruise.is_none() && score.observations > 0.0 {
        score.mean_nll = -(growth + score.backoff + falls) / score.observations;
    }
    score
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_based_algorithm_that_never_probes_is_none() {
        let of = |count, rounds, rtt_s, algorithm| probes(count, rounds, rtt_s, 70.0, algorithm);
        assert_eq!(of(50, 400, 0.1, Algorithm::Bbr), 0.0);
        assert!(of(0, 400, 0.1, Algorithm::Bbr) < -200.0);
        assert!(of(0, 400, 0.1, Algorithm::Bbr3) < -50.0);
        // One every 25 rounds of 100 ms is one every 2.5 s.
        assert_eq!(of(16, 400, 0.1, Algorithm::Bbr3), 0.0);
        assert!(of(100, 400, 0.1, Algorithm::Bbr3) < -50.0, "v3 does not probe as often as v1");
        let in_twelve_segments = probes(35, 1400, 0.008, 19.0, Algorithm::Bbr3);
        assert!(in_twelve_segments < -50.0, "v3 probes more often with a small window");
        assert_eq!(of(0, 0, 0.1, Algorithm::Bbr), 0.0, "nothing was looked at");
        assert_eq!(of(0, 400, 0.1, Algorithm::Reno), 0.0);
    }

    #[test]
    fn the_prior_favours_deployed_algorithms_and_never_hides_others() {
        let by_prior = [Algorithm::Cubic, Algorithm::Bbr, Algorithm::Reno, Algorithm::Bic, Algorithm::Lp];
        assert!(by_prior.is_sorted_by(|more, less| prior(*more) > prior(*less)));
        assert_eq!(prior(Algorithm::Bic), 0.0, "what somebody selected is the unit");
        // Of ties of Reno with LP, 76 of 82 are Reno.
        let reno = 1.0 / (1.0 + (prior(Algorithm::Lp) - prior(Algorithm::Reno)).exp());
        assert!((reno - 76.0 / 82.0).abs() < 0.01, "{reno}");
    }

    #[test]
    fn pacing_makes_a_rate_based_algorithm_likelier() {
        let of = |paced_part, algorithm| host(&WindowTrace::default(), paced_part, algorithm);
        assert_eq!((of(None, Algorithm::Bbr), of(None, Algorithm::Cubic)), (0.0, 0.0));
        assert!(of(Some(0.8), Algorithm::Bbr) > of(Some(0.8), Algorithm::Cubic));
        assert!(of(Some(0.0), Algorithm::Bbr) < of(Some(0.0), Algorithm::Cubic));
    }

    #[test]
    fn a_steady_flight_is_likelier_than_one_far_off() {
        for cruise in [&CRUISE_BBR, &CRUISE_BBR3] {
            let of = |seen| cruise.likelihood(seen, 40.0, 1.0);
            assert!(of(40.0) > of(50.0) && of(50.0) > of(90.0), "{} {} {}", of(40.0), of(50.0), of(90.0));
        }
        assert!(
            CRUISE_BBR.likelihood(4.0, 40.0, 1.0) > CRUISE_BBR3.likelihood(4.0, 40.0, 1.0),
            "PROBE_RTT of v1"
        );
        assert!(
            CRUISE_BBR3.likelihood(20.0, 40.0, 1.0) > CRUISE_BBR.likelihood(20.0, 40.0, 1.0),
            "and of v3"
        );
    }
}
