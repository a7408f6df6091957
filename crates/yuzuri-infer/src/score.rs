//! How well a replay agrees with what was seen.

use crate::replay::Replay;
use serde::{Deserialize, Serialize};
use yuzuri_laws::Algorithm;

/// Noise of a rebuilt window: so many segments, and this part of it.
const WINDOW_NOISE: (f32, f32) = (0.7, 0.01);
/// Noise of a window read after a reduction, in segments and as a part of the window before it.
const KEPT_NOISE: (f32, f32) = (1.0, 0.02);
/// Noise of a fall that a law foresees from delays.
const CUT_NOISE: (f32, f32) = (1.5, 0.05);
/// Most of an error that all rounds of an epoch share and that is forgiven, in units of the noise.
const SHARED: f32 = 1.0;
/// Degrees of freedom of Student's t: single wild rounds must not decide.
const NU: f64 = 3.0;
/// Rounds of an epoch are not independent: no epoch counts more than so many.
const ROUNDS_COUNT: usize = 10;
/// Rounds an epoch must have to say something of growth.
const LEAST_ROUNDS: usize = 1;

/// Agreement of one law, as log-likelihoods (natural logarithm; 0 is perfect).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// Of growth between reductions.
    pub growth: f64,
    /// Of what was kept after losses.
    pub kept: f64,
    /// Of falls without loss.
    pub cuts: f64,
    /// Of the handshake: whether it speaks ECN as this law's does.
    #[serde(default)]
    pub handshake: f64,
    /// Epochs that told something of growth.
    pub epochs: u32,
    /// Reductions that told something.
    pub reductions: u32,
    /// Root of the mean squared misfit of growth, in units of the noise.
    pub misfit: f64,
}

impl Score {
    /// All of it.
    pub fn total(&self) -> f64 {
        self.growth + self.kept + self.cuts + self.handshake
    }
}

/// Of a handshake that speaks ECN otherwise than a law's: a network may clear or set codepoints, but few do.
const OTHER_HANDSHAKE: f64 = -8.0;

/// What the sender's SYN says of a law: one that cannot do without ECN sends it ECN-capable, others never.
pub fn handshake(syn_ecn_capable: Option<bool>, algorithm: Algorithm) -> f64 {
    let needs_ecn = algorithm == Algorithm::Dctcp;
    if syn_ecn_capable.is_none_or(|capable| capable == needs_ecn) { 0.0 } else { OTHER_HANDSHAKE }
}

/// Student's t without its constant.
fn student(square: f64, weight: f64) -> f64 {
    -weight * (NU + 1.0) / 2.0 * (square / NU).ln_1p()
}

fn unit(noise: (f32, f32), of: f32) -> f32 {
    noise.0 + noise.1 * of
}

/// Noise of a flight that pacing rules, not the window.
const PACED_NOISE: (f32, f32) = (2.0, 0.15);
/// What CDG keeps when it gives way to a delay (`backoff_beta`).
const CDG_KEEPS: f32 = 717.0 / 1024.0;

/// Scores the replay of a law.
pub fn score(replay: &Replay, algorithm: Algorithm) -> Score {
    let mut score = Score::default();
    let paced = matches!(algorithm, Algorithm::Bbr | Algorithm::Bbr3);
    let noise = if paced { PACED_NOISE } else { WINDOW_NOISE };
    let (mut square, mut rounds) = (0.0, 0);
    for epoch in replay.rounds.chunk_by(|a, b| a.epoch == b.epoch) {
        // The window at the epoch's begin is itself read with an error, which all its rounds share.
        let mut off: Vec<f32> =
            epoch.iter().filter(|f| f.counts).map(|f| (f.law - f.seen) / unit(noise, f.seen)).collect();
        let middle = off.len() / 2;
        let shared = if off.is_empty() { 0.0 } else { *off.select_nth_unstable_by(middle, f32::total_cmp).1 };
        let shared = shared.clamp(-SHARED, SHARED);
        let squares = off.iter().map(|off| f64::from(off - shared).powi(2));
        // A law that foresees less exactly must not look as good as one that foresees the same exactly.
        let blur = epoch
            .iter()
            .map(|f| f64::from(unit(noise, f.seen) / unit(WINDOW_NOISE, f.seen)).ln())
            .sum::<f64>()
            / epoch.len().max(1) as f64;
        let (sum, count) =
            squares.fold((0.0, 0_usize), |(sum, count), square| (sum + square.min(1e4), count + 1));
        if count < LEAST_ROUNDS {
            continue;
        }
        score.epochs += 1;
        let weight = count.min(ROUNDS_COUNT) as f64 / 4.0;
        score.growth += student(sum / count as f64, weight) - 2.0 * weight * blur;
        square += sum;
        rounds += count;
    }
    score.misfit = if rounds > 0 { (square / rounds as f64).sqrt() } else { 0.0 };
    for kept in &replay.kept {
        let z = f64::from((kept.law - kept.seen) / unit(KEPT_NOISE, kept.before));
        score.kept += student(z * z, 1.0);
        score.reductions += 1;
    }
    for cut in &replay.cuts {
        let by_lot = (algorithm == Algorithm::Cdg).then_some(cut.before * CDG_KEEPS);
        let law = by_lot.filter(|w| (w - cut.seen).abs() < (cut.law - cut.seen).abs()).unwrap_or(cut.law);
        let z = f64::from((law - cut.seen) / unit(CUT_NOISE, cut.seen));
        score.cuts += student(z * z, 1.0);
    }
    score
}
