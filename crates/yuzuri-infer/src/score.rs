//! How well a replay agrees with what was seen.

use crate::probes::{NOT_BY_CLOCK, PACED};
use crate::replay::{Cut, Replay};
use serde::{Deserialize, Serialize};
use yuzuri_cca::{Algorithm, CcaKind, Spread};

/// Noise of a rebuilt window: so many segments, and this part of it.
const WINDOW_NOISE: (f32, f32) = (0.7, 0.01);
/// Noise of a window read after a reduction, in segments and as a part of the window before it.
const BETA_NOISE: (f32, f32) = (1.0, 0.02);
/// Noise of a fall that an algorithm foresees from delays.
const CUT_NOISE: (f32, f32) = (1.5, 0.05);
/// Most of an error that all rounds of an epoch share and that is forgiven, in units of the noise.
const SHARED: f32 = 1.0;
/// Degrees of freedom of Student's t: single wild rounds must not decide.
const NU: f64 = 3.0;
/// Mean of what an observation costs whose noise is as assumed, and its standard deviation: of 2
/// ln(1 + z²/3) with z by Student's t with three degrees of freedom, 2 (ψ(2) - ψ(3/2)) and 2
/// √(ψ'(3/2) - ψ'(2)).
pub const EXPECTED_NLL: f64 = 0.773;
const NLL_DEVIATION: f64 = 1.077;
/// Standard deviations above the mean beyond which noise does not explain the mean negative
/// log-likelihood: one right answer in 700.
const BEYOND_NOISE: f64 = 3.0;
/// Rounds of an epoch are not independent: no epoch counts more than so many.
const ROUNDS_COUNT: usize = 10;
/// Rounds an epoch must have to say something of growth.
const MIN_ROUNDS: usize = 1;

/// Agreement of one algorithm, as log-likelihoods (natural logarithm; 0 is perfect).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// Of growth between reductions.
    pub growth: f64,
    /// Of what was kept after losses.
    pub backoff: f64,
    /// Of falls without loss.
    pub cuts: f64,
    /// Of probes for more: whether as many are seen as an algorithm makes that goes by a rate.
    #[serde(default)]
    pub probes: f64,
    /// Of what is no matter of windows: whether the handshake speaks ECN as this algorithm's does,
    /// and segments leave by a clock.
    #[serde(default)]
    pub host: f64,
    /// Before anything is seen.
    #[serde(default)]
    pub prior: f64,
    /// Of falls of what is in flight at set times, by which an algorithm by rate looks for the
    /// least round-trip time.
    #[serde(default)]
    pub probe_rtt_dips: f64,
    /// Epochs that told something of growth.
    pub epochs: u32,
    /// Reductions that told something.
    pub reductions: u32,
    /// Root of the mean squared residual of growth, in units of the noise.
    pub residual: f64,
    /// Observations: epochs, each by the rounds that count in it, reductions, and falls without
    /// loss.
    #[serde(default)]
    pub observations: f64,
    /// What an observation costs on average, natural logarithm; [`EXPECTED_NLL`] is what noise
    /// alone costs. 0 for an algorithm by rate, which is judged by its probes.
    #[serde(default)]
    pub mean_nll: f64,
    /// Median of what is kept after a loss beside what was seen, in units of the noise of such a
    /// window: above 0 the algorithm keeps more. 0 where it draws that by lot (CDG) or goes by a
    /// rate.
    #[serde(default)]
    pub kept_off: f64,
}

impl Score {
    /// What windows tell, which each epoch tells again.
    pub fn windows(&self) -> f64 {
        self.growth + self.backoff + self.cuts + self.probes
    }

    /// By how much the noise is larger than assumed where even this replay is off by more: what
    /// windows tell is worth so much less. At least 1.
    pub fn excess(&self) -> f64 {
        (self.mean_nll / EXPECTED_NLL).max(1.0)
    }

    /// Whether the algorithm keeps, of most windows, what was not kept: a window is read to a
    /// segment and two percent, however often, and beyond that the median of Student's t with three
    /// degrees of freedom strays by 1.36 / √n.
    pub fn is_other_beta(&self) -> bool {
        let strays = BEYOND_NOISE * 1.36 / f64::from(self.reductions.max(1)).sqrt();
        self.kept_off.abs() > strays.max(1.0)
    }

    /// Whether the replay is off by more than noise explains, given how many observations count as
    /// one.
    pub fn is_beyond_noise(&self, repeated: f64) -> bool {
        let independent = self.observations / repeated.max(1.0);
        independent > 0.0 && self.mean_nll > EXPECTED_NLL + BEYOND_NOISE * NLL_DEVIATION / independent.sqrt()
    }
}

/// Of a handshake that speaks ECN otherwise than an algorithm's: a network may clear or set
/// codepoints, but few do.
const OTHER_HANDSHAKE: f64 = -4.0;
/// Of a sender that paces though its algorithm does not ask for it: its queueing discipline may
/// (fq), or its own device is the bottleneck.
const PACED_BY_OTHERS: f64 = -3.0;
/// Of a sender that does not pace though its algorithm cannot do without.
const NOT_PACED: f64 = -10.0;

/// Of an algorithm that no released kernel has (BBR v3): few senders run it.
const OUT_OF_TREE: f64 = -1.0;
/// ln 6: of an algorithm that hosts run unless told otherwise. It decides between algorithms that a
/// path does not tell apart, as Reno and LP: of 82 such answers of captures by lot, logs and the
/// laboratory 76 are Reno. Larger ones change the calibration error no more.
const USUAL: f64 = 1.79;

/// How likely an algorithm is before anything is seen, as a logarithm.
pub fn prior(algorithm: Algorithm) -> f64 {
    match algorithm.facts().spread {
        Spread::Usual => USUAL,
        Spread::Chosen => 0.0,
        Spread::OutOfTree => OUT_OF_TREE,
    }
}

/// What the sender shows of an algorithm beside windows. One that cannot do without ECN sends its
/// SYN ECN-capable, others never; one that goes by a rate paces, others are drawn by
/// acknowledgements. Both are unknown (`None`) where the capture does not tell.
pub fn host(syn_ecn_capable: Option<bool>, paced_part: Option<f64>, algorithm: Algorithm) -> f64 {
    let facts = algorithm.facts();
    let handshake =
        if syn_ecn_capable.is_none_or(|capable| capable == facts.needs_ecn) { 0.0 } else { OTHER_HANDSHAKE };
    let by_rate = facts.kind == CcaKind::Model;
    let pace = match paced_part {
        Some(part) if part >= PACED && !by_rate => PACED_BY_OTHERS,
        Some(part) if part < NOT_BY_CLOCK && by_rate => NOT_PACED,
        _ => 0.0,
    };
    handshake + pace
}

/// Poisson's deviance of a count from the one that is expected, as a logarithm of likelihood.
fn deviance(count: f64, expected: f64) -> f64 {
    let surplus = if count > 0.0 { count * (count / expected).ln() } else { 0.0 };
    count - expected - surplus
}

/// By how much the number of probes tells more than that of as many windows: these an algorithm by
/// rate explains whatever they are.
const PROBES_COUNT: f64 = 6.0;

/// What the number of probes says of an algorithm that goes by a rate: it cannot do without, while
/// any steady flight is its rate by the round-trip time. Given how many are seen, in how many
/// rounds, of what length.
pub fn probes(count: usize, rounds: usize, rtt_s: f64, algorithm: Algorithm) -> f64 {
    let rounds = rounds as f64;
    let (least, most) = match algorithm {
        // One of eight round trips (`bbr_cycle_len`), which rounds lengthen.
        Algorithm::Bbr => (rounds / 10.0, f64::INFINITY),
        // After 2 to 3 s, or fewer round trips than Reno takes to grow back, at most 63
        // (`bbr_bw_probe_*`).
        Algorithm::Bbr3 => (rounds * (rtt_s / 3.0).max(1.0 / 63.0), 2.0 + rounds * (rtt_s / 2.0).max(0.1)),
        _ => return 0.0,
    };
    // From the nearer end.
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

/// How much less likely a fall to a few segments ten seconds after the last is, without a timeout,
/// for whom it is no rule.
const STILL: f64 = -2.5;
/// How much less likely BBR v3 goes without halving what is in flight for longer than it may.
const NO_HALF: f64 = -2.5;
/// Times that count: what makes one so makes others.
const PROBE_RTT_DIPS: usize = 4;

/// What falls of the flight at set times say: how many came when BBR v1 makes them, and in how many
/// stretches there was none that v3 had made.
pub fn probe_rtt_dips(on_time: usize, without_half: usize, algorithm: Algorithm) -> f64 {
    let times = |count: usize| count.min(PROBE_RTT_DIPS) as f64;
    match algorithm {
        Algorithm::Bbr => 0.0,
        Algorithm::Bbr3 => STILL * times(on_time) + NO_HALF * times(without_half),
        _ => STILL * times(on_time),
    }
}

/// Student's t without its constant.
fn student(square: f64, weight: f64) -> f64 {
    -weight * (NU + 1.0) / 2.0 * (square / NU).ln_1p()
}

/// Of a choice between two, in natural logarithms.
fn entropy(part: f64) -> f64 {
    let of = |part: f64| if part > 0.0 { -part * part.ln() } else { 0.0 };
    let part = part.clamp(0.0, 0.5);
    of(part) + of(1.0 - part)
}

fn unit(noise: (f32, f32), of: f32) -> f32 {
    noise.0 + noise.1 * of
}

/// Noise of a rebuilt window, segments.
pub(crate) fn window_noise(window: f32) -> f32 {
    unit(WINDOW_NOISE, window)
}

/// Whether a window is what was foretold but for noise.
pub(crate) fn is_near(predicted: f32, seen: f32) -> bool {
    (predicted - seen).abs() <= 2.0 * unit(WINDOW_NOISE, seen)
}

/// Logarithm of the likelihood of a window that was seen after a reduction, where another was
/// foreseen.
pub(crate) fn off_by_reduction(predicted: f32, seen: f32, before: f32) -> f64 {
    let z = f64::from((predicted - seen) / unit(BETA_NOISE, before));
    student(z * z, 1.0)
}

/// The same of a fall without a visible loss.
pub(crate) fn off_by_fall(predicted: f32, seen: f32, _before: f32) -> f64 {
    let z = f64::from((predicted - seen) / unit(CUT_NOISE, seen));
    student(z * z, 1.0)
}

/// Whether a fall without a visible loss is likelier a reduction whose loss was not seen than what
/// the algorithm foresaw.
pub(crate) fn is_reduction(cut: &Cut) -> bool {
    let of = |predicted: f32| off_by_fall(predicted, cut.seen, cut.before);
    cut.kept.is_some_and(|kept| of(kept) + UNSEEN_LOSS > of(cut.predicted))
}

/// An algorithm that goes by a rate: how its flight lies about what it has while it does not probe.
struct Cruise {
    /// Part of the rounds in which it neither probes nor drains.
    steady: f64,
    /// Part of the rounds in which it looks for the least round-trip time.
    searching: f64,
    /// Flight in these.
    search: Search,
}

/// What is in flight while an algorithm looks for the least round-trip time.
enum Search {
    /// At most so many segments.
    Segments(f32),
    /// At least and at most this part of the steady flight.
    Part(f32, f32),
}

/// BBR v1: of eight round trips one probes and one drains, and rounds are smeared over two; each 10
/// s at most 4 segments (`bbr_cwnd_min_target`).
const CRUISE_BBR: Cruise = Cruise { steady: 0.6, searching: 0.03, search: Search::Segments(5.0) };
/// BBR v3: it probes each 2 to 3 s or 63 round trips; each 5 s half of the window
/// (`bbr_probe_rtt_cwnd_gain`).
const CRUISE_BBR3: Cruise = Cruise { steady: 0.8, searching: 0.03, search: Search::Part(0.4, 0.6) };
/// Noise of a flight that a rate rules: so many segments, and this part of it.
const CRUISE_NOISE: (f32, f32) = (1.0, 0.03);
/// Flight while it probes or drains, as parts of the steady one, and segments more: bursts, and
/// rounds longer than the phases.
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

    /// Flight while it looks for the least round-trip time, from and to.
    fn search(&self, steady: f32) -> (f32, f32) {
        match self.search {
            Search::Segments(most) => (0.0, most),
            Search::Part(least, most) => (least * steady, most * steady),
        }
    }

    /// Flight while it probes or drains, from and to.
    fn probed(steady: f32) -> (f32, f32) {
        (PROBED.0 * steady - PROBED_MORE, PROBED.1 * steady + PROBED_MORE)
    }

    /// Logarithm of the likelihood of a flight, beside that of one which another algorithm foresees
    /// exactly, but for noise of so many segments.
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

    /// How far a flight is from all that it may be, in units of the noise.
    fn residual(&self, seen: f32, steady: f32) -> f32 {
        let off = |(low, high): (f32, f32)| (low - seen).max(seen - high).max(0.0);
        off(Cruise::probed(steady)).min(off(self.search(steady))) / unit(WINDOW_NOISE, seen)
    }
}

/// What CDG keeps when it gives way to a delay (`backoff_beta`).
const CDG_BETA: f32 = 717.0 / 1024.0;
/// What LP keeps on the first sign of congestion (`tcp_lp_pkts_acked`).
const LP_BETA: f32 = 0.5;
/// And on a further one soon after.
const MIN_LP_WINDOW: f32 = 1.0;
/// How unlikely it is that LP falls in a round in which its replay does not: mostly it is blind.
const LP_FALLS: f64 = -3.0;
/// In how large a part of its rounds CDG falls at most: in 7 of 101 in the labelled capture where
/// it did most often, and in 126 of 3089 of all.
const CDG_FALLS: f64 = 0.07;
/// How unlikely it is that the loss of a reduction was not seen: 2 of 27 in captures of hosts that
/// stall.
const UNSEEN_LOSS: f64 = -2.6;
/// How unlikely it is that a sender is held up in a round, so that its flight is less than the
/// window.
const HELD_UP: f64 = -2.6;
/// Chances that CDG keeps of a loss what its replay does, half (its shadow window is smaller) or
/// all (it has given way just before): its falls are drawn by lot, and what it keeps hangs on them.
const CDG_REDUCES: [f64; 3] = [0.4, 0.4, 0.2];

/// Scores what windows have grown to at losses, where nothing else of them is seen.
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

/// What nobody foresees: a window may have grown to any from half of what it is to half as much
/// again.
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
        // The window at the epoch's begin is itself read with an error, which all its rounds share.
        let mut off: Vec<f32> =
            counted().map(|f| (f.predicted - f.seen) / unit(WINDOW_NOISE, f.seen)).collect();
        let count = off.len();
        if count < MIN_ROUNDS {
            continue;
        }
        let middle = count / 2;
        let shared = *off.select_nth_unstable_by(middle, f32::total_cmp).1;
        let shared = shared.clamp(-SHARED, SHARED);
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
    // Where a window was taken to have been held it was not predicted: what it takes to say in
    // which rounds.
    if rounds > 0 {
        score.growth -= score.observations * entropy(f64::from(replay.holds) / rounds as f64);
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
    if cruise.is_none() && algorithm != Algorithm::Cdg && !replay.backoff.is_empty() {
        let mut off: Vec<f32> =
            replay.backoff.iter().map(|b| (b.predicted - b.seen) / unit(BETA_NOISE, b.before)).collect();
        let middle = off.len() / 2;
        score.kept_off = f64::from(*off.select_nth_unstable_by(middle, f32::total_cmp).1);
    }
    let mut falls = 0.0;
    for cut in &replay.cuts {
        let of = |predicted: f32| off_by_fall(predicted, cut.seen, cut.before);
        // How well it fits, and how unlikely it is that it comes about.
        let unseen = cut.kept.map(|kept| (of(kept), UNSEEN_LOSS));
        let by_lot = match algorithm {
            Algorithm::Cdg => Some((of(cut.before * CDG_BETA), 0.0)),
            Algorithm::Lp => Some((of(cut.before * LP_BETA).max(of(MIN_LP_WINDOW)), LP_FALLS)),
            _ => None,
        };
        let ways = [Some((of(cut.predicted), 0.0)), unseen, by_lot].into_iter().flatten();
        let best = ways.max_by(|a, b| (a.0 + a.1).total_cmp(&(b.0 + b.1)));
        let (fit, chance) = best.unwrap_or_default();
        score.cuts += fit + chance;
        falls += fit;
    }
    score.cuts += HELD_UP * f64::from(replay.held_up);
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
    fn a_law_by_rate_that_never_probes_is_none() {
        let of = |count, rounds, rtt_s, algorithm| probes(count, rounds, rtt_s, algorithm);
        assert_eq!(of(50, 400, 0.1, Algorithm::Bbr), 0.0);
        assert!(of(0, 400, 0.1, Algorithm::Bbr) < -200.0);
        assert!(of(0, 400, 0.1, Algorithm::Bbr3) < -50.0);
        // One each 25 rounds of 100 ms is each 2.5 s.
        assert_eq!(of(16, 400, 0.1, Algorithm::Bbr3), 0.0);
        assert!(of(100, 400, 0.1, Algorithm::Bbr3) < -50.0, "v3 does not probe as often as v1");
        assert_eq!(of(0, 0, 0.1, Algorithm::Bbr), 0.0, "nothing was looked at");
        assert_eq!(of(0, 400, 0.1, Algorithm::Reno), 0.0);
    }

    #[test]
    fn who_paces_is_likelier_by_rate_and_who_does_not_is_not() {
        let of = |paced_part, algorithm| host(None, paced_part, algorithm);
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
