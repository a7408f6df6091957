//! Estimates CUBIC's C by replaying the algorithm: the C whose windows are nearest to the observed
//! ones. The replay includes the Reno-friendly region, the clock's ticks and fast convergence.

use crate::replay::{Assumptions, Prediction, Replay, replay};
use crate::window_trace::WindowTrace;
use std::collections::BTreeMap;
use yuzuri_cca::{Cubic, CubicConstants, SlowStartExit};

/// The grid for C, by its natural logarithm: first value, step, number of steps, and finer step
/// around the nearest of them.
const FROM: f64 = -3.2;
const COARSE: f64 = 0.25;
const STEPS: i32 = 16;
const FINE: f64 = 0.0125;
/// Windows determine C only if they move by `MIN_SENSITIVITY` segments (root of the mean square)
/// when ln C changes by `SENSITIVITY_STEP` in either direction. In the Reno-friendly region they
/// hardly move, and an error of half a segment would change C by half.
const SENSITIVITY_STEP: f64 = 0.3;
const MIN_SENSITIVITY: f64 = 1.5;
/// Minimum number of rounds that determine C.
const MIN_ROUNDS: usize = 16;
/// Error of a window in an epoch that is replayed well, segments.
const EXACT: f64 = 0.5;
/// Maximum number of rounds that count in an epoch, because they share their error.
const ROUNDS_COUNT: usize = 10;
/// Standard deviations of the normal distribution that contain 95 %.
const NORMAL: f64 = 1.96;

/// C of a CUBIC, and its standard error: 1.96 standard errors contain 95 %. If the algorithm has
/// several `forms`, the nearest one counts.
pub fn c_by_replay(window_trace: &WindowTrace, forms: &[CubicConstants]) -> Option<(f64, f64)> {
    let fits = forms.iter().filter_map(|form| c_of_form(window_trace, *form));
    fits.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, c, error)| (c, error))
}

/// The residual of a replay: the logarithm of the mean square error of each epoch. Some epochs
/// differ as a whole, because one segment more before a reduction would have changed fast
/// convergence (RFC 9438, section 4.7); they must not outweigh those that fit.
fn residuals(replay: &Replay) -> BTreeMap<u32, f64> {
    let of = |epoch: &[Prediction]| {
        let squares =
            epoch.iter().filter(|round| round.counts).map(|r| f64::from(r.predicted - r.seen).powi(2));
        let (count, sum) = squares.fold((0, 0.0), |(count, sum), square| (count + 1, sum + square));
        let weight = count.min(ROUNDS_COUNT) as f64 / 2.0;
        weight * (sum / f64::from(count.max(1) as u32) / EXACT.powi(2)).ln_1p()
    };
    replay.rounds.chunk_by(|a, b| a.epoch == b.epoch).map(|epoch| (epoch[0].epoch, of(epoch))).collect()
}

/// The distance between two replays of the same window trace, segments.
fn distance_segments(one: &Replay, other: &Replay) -> f64 {
    let counted = |replay: &Replay| -> Vec<f32> {
        replay.rounds.iter().filter(|round| round.counts).map(|round| round.predicted).collect()
    };
    let (one, other) = (counted(one), counted(other));
    let squares = one.iter().zip(&other).map(|(one, other)| f64::from(one - other).powi(2));
    (squares.sum::<f64>() / one.len().max(1) as f64).sqrt()
}

/// The residual of these epochs at each point of the grid.
fn sums(grid: &[BTreeMap<u32, f64>], of: impl Fn(u32) -> bool) -> Vec<f64> {
    let sum = |epochs: &BTreeMap<u32, f64>| {
        epochs.iter().filter(|(epoch, _)| of(**epoch)).map(|(_, residual)| residual).sum()
    };
    grid.iter().map(sum).collect()
}

/// The position of the minimum of a row, in steps from its beginning, by the parabola through it
/// and its neighbours.
fn minimum_position(row: &[f64]) -> Option<f64> {
    let (place, _) = row.iter().enumerate().min_by(|a, b| a.1.total_cmp(b.1))?;
    let neighbours = (place > 0).then(|| (row[place - 1], row.get(place + 1)));
    let Some((before, Some(after))) = neighbours else { return Some(place as f64) };
    let bend = before + after - 2.0 * row[place];
    Some(place as f64 + if bend > 0.0 { (before - after) / (2.0 * bend) } else { 0.0 })
}

/// Student's t: the number of standard errors that contain 95 % for these degrees of freedom, by
/// the first terms of its expansion (Cornish and Fisher).
fn student(freedom: f64) -> f64 {
    let z = NORMAL;
    let g1 = (z.powi(3) + z) / 4.0;
    let g2 = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    let g3 = (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0;
    z + g1 / freedom + g2 / freedom.powi(2) + g3 / freedom.powi(3)
}

/// Balanced half-samples of the epochs (McCarthy 1969), from which an error is estimated: those of
/// the Walsh functions, in which each pair of epochs is together as often as apart. A function and
/// its negative are both among them.
fn balanced_half_samples(count: usize) -> impl Iterator<Item = impl Fn(usize) -> bool> {
    let functions = count.next_power_of_two().min(64) as u32;
    let of =
        move |function: u32, odd: u32| move |place: usize| (place as u32 & function).count_ones() % 2 == odd;
    (1..functions).flat_map(move |function| [of(function, 0), of(function, 1)])
}

/// The standard error of an estimate from all epochs, given the estimates from half-samples of
/// them. Errors are independent between epochs, not between the rounds of one. The estimate from
/// half of independent values differs from that of all by as much as that of all differs from the
/// truth. (If one epoch at a time were left out, the estimate would stay in the same one of several
/// minima.)
fn half_sample_error(all: f64, estimates: &[f64], count: usize) -> Option<f64> {
    if count < 3 || estimates.is_empty() {
        return None;
    }
    let squares = estimates.iter().map(|half| (half - all).powi(2)).sum::<f64>();
    Some((squares / estimates.len() as f64).sqrt() * student(count as f64 - 1.0) / NORMAL)
}

/// The minimum residual, C at that point, and its standard error.
fn c_of_form(window_trace: &WindowTrace, form: CubicConstants) -> Option<(f64, f64, f64)> {
    let of = |c: f64| CubicConstants { c_1024: (c * 1024.0).round().max(1.0) as u32, ..form };
    let replayed = |ln_c: f64| {
        let mut cca = Cubic::with(of(ln_c.exp()), SlowStartExit::Loss);
        replay(&mut cca, window_trace, Assumptions::default())
    };
    let residuals_at = |ln_c: f64| residuals(&replayed(ln_c));
    let coarse: Vec<_> = (0..=STEPS).map(|step| residuals_at(FROM + COARSE * f64::from(step))).collect();
    let (nearest, _) = sums(&coarse, |_| true).into_iter().enumerate().min_by(|a, b| a.1.total_cmp(&b.1))?;
    let from = FROM + COARSE * (nearest as f64 - 1.0);
    let steps = (2.0 * COARSE / FINE).round() as u32;
    let grid: Vec<_> = (0..=steps).map(|step| residuals_at(from + FINE * f64::from(step))).collect();
    let all = sums(&grid, |_| true);
    let ln_c = from + FINE * minimum_position(&all)?;
    let counted = replayed(ln_c).rounds.iter().filter(|round| round.counts).count();
    if counted < MIN_ROUNDS
        || distance_segments(&replayed(ln_c - SENSITIVITY_STEP), &replayed(ln_c + SENSITIVITY_STEP))
            < MIN_SENSITIVITY
    {
        return None;
    }
    // Only epochs whose windows depend on C determine it.
    let range = |epoch: &u32| {
        let of = grid.iter().filter_map(|at| at.get(epoch));
        of.clone().fold(0.0, |a: f64, b| a.max(*b)) - of.fold(f64::INFINITY, |a: f64, b| a.min(*b))
    };
    let informative: Vec<u32> = grid[0].keys().copied().filter(|epoch| range(epoch) > 0.0).collect();
    let found = balanced_half_samples(informative.len()).filter_map(|half| {
        let row = sums(&grid, |epoch| informative.binary_search(&epoch).is_ok_and(&half));
        Some(from + FINE * minimum_position(&row)?)
    });
    let found: Vec<f64> = found.collect();
    let step = 0.1;
    let at = |ln_c: f64| residuals_at(ln_c).values().sum::<f64>();
    let curvature = (at(ln_c + step) + at(ln_c - step) - 2.0 * at(ln_c)) / (step * step);
    let error = half_sample_error(ln_c, &found, informative.len())?.max(if curvature > 0.0 {
        1.0 / curvature.sqrt()
    } else {
        0.0
    });
    let least = all.iter().copied().fold(f64::INFINITY, f64::min);
    Some((least, ln_c.exp(), ln_c.exp() * error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_minimum_of_a_row_is_that_of_its_parabola() {
        let row: Vec<f64> = (0..9).map(|n| (f64::from(n) - 4.3).powi(2)).collect();
        assert!(minimum_position(&row).is_some_and(|place| (place - 4.3).abs() < 1e-9));
        assert_eq!(minimum_position(&[1.0, 2.0, 3.0]), Some(0.0), "at an end");
        assert_eq!(minimum_position(&[]), None);
    }

    #[test]
    fn half_samples_give_the_standard_error_of_a_mean() {
        // For a power of two of values, balanced half-samples give it exactly.
        let values = [1.0, 2.0, 4.0, 7.0, 11.0, 3.0, 0.0, 5.0];
        let mean = |of: &dyn Fn(usize) -> bool| {
            let chosen: Vec<f64> = (0..8).filter(|place| of(*place)).map(|place| values[place]).collect();
            chosen.iter().sum::<f64>() / chosen.len() as f64
        };
        let all = mean(&|_| true);
        let found: Vec<f64> = balanced_half_samples(8).map(|half| mean(&half)).collect();
        assert_eq!(found.len(), 14);
        let error = (values.iter().map(|value| (value - all).powi(2)).sum::<f64>() / 56.0).sqrt();
        let estimated =
            half_sample_error(all, &found, 8).map_or(0.0, |estimated| estimated * NORMAL / student(7.0));
        assert!((estimated - error).abs() < 1e-9, "{estimated} {error}");
        assert_eq!(half_sample_error(1.0, &[1.0, 1.0], 2), None, "two epochs give no error");
        // Tables of Student's t: 4.30, 2.78 and 2.23.
        for (freedom, table) in [(2.0, 4.30), (4.0, 2.78), (10.0, 2.23)] {
            assert!((student(freedom) / table - 1.0).abs() < 0.06, "{freedom}: {}", student(freedom));
        }
    }
}
