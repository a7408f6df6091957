//! CUBIC's constants: C and b from single cycles as in Hozumi 2017, and C, K and W_max by least
//! squares over whole epochs.
//!
//! W(t) = C (t - K)³ + W_max, K = cbrt(b (W_max - W')), so b = 1/C in theory (RFC 9438, section
//! 4.2; Hozumi 2017, equations 2 to 6).

use crate::window_trace::{Cause, WindowTrace};
use serde::{Deserialize, Serialize};

/// Points whose slope exceeds the minimum by this fraction of the slopes' range count as equally
/// flat.
const FLAT: f64 = 0.03;

/// The values that Hozumi 2017 reads from a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cycle {
    /// Time of the reading since the reduction, s.
    pub t_s: f64,
    /// Window then, segments.
    pub w_cubic: f64,
    /// Time from the reduction until the slope is 0, s.
    pub k_s: f64,
    /// Window there, segments.
    pub w_max: f64,
    /// Window after the reduction (W'), segments.
    pub w_min: f64,
}

impl Cycle {
    /// C, segments/s³ (equation 4).
    pub fn c(&self) -> f64 {
        (self.w_cubic - self.w_max) / (self.t_s - self.k_s).powi(3)
    }

    /// b, s³/segment (equation 5).
    pub fn b(&self) -> f64 {
        self.k_s.powi(3) / (self.w_max - self.w_min)
    }

    /// Reads a cycle from an epoch: the flattest point, the first window and the last.
    pub fn read(points: &[Point]) -> Option<Cycle> {
        let (first, last) = (points.first()?, points.last()?);
        // The slope over a fifth of the epoch, so that single segments do not dominate it.
        let reach = (last.t_s - first.t_s) / 10.0;
        let sums = Sums::of(points)?;
        let inner = points.iter().filter(|p| p.t_s >= first.t_s + reach && p.t_s <= last.t_s - reach);
        let slopes: Vec<(f64, f64, f64)> = inner
            .filter_map(|p| {
                sums.line(p.t_s - reach, p.t_s + reach).map(|(slope, middle)| (p.t_s, slope, middle))
            })
            .collect();
        let least = slopes.iter().map(|s| s.1).min_by(f64::total_cmp)?;
        let most = slopes.iter().map(|s| s.1).max_by(f64::total_cmp)?;
        // Windows are whole segments, so several points are about equally flat: take their middle.
        let flat: Vec<_> = slopes.iter().filter(|s| s.1 <= least + FLAT * (most - least)).collect();
        let n = flat.len() as f64;
        let k_s = flat.iter().map(|s| s.0).sum::<f64>() / n;
        let w_max = flat.iter().map(|s| s.2).sum::<f64>() / n;
        Some(Cycle { t_s: last.t_s, w_cubic: last.window, k_s, w_max, w_min: first.window })
    }
}

/// Points in order of time with prefix sums, so that a line through any consecutive points needs no
/// pass over them: an epoch may have a million rounds.
struct Sums {
    /// The origin of times and windows, so that differences of sums stay exact.
    origin: Point,
    times_s: Vec<f64>,
    /// Sums over the first points: t, w, t², t w.
    before: Vec<[f64; 4]>,
}

impl Sums {
    fn of(points: &[Point]) -> Option<Sums> {
        let mut points = points.to_vec();
        points.sort_by(|a, b| a.t_s.total_cmp(&b.t_s));
        let origin = *points.get(points.len() / 2)?;
        let mut before = Vec::with_capacity(points.len() + 1);
        let mut sum = [0.0; 4];
        before.push(sum);
        for point in &points {
            let (t, w) = (point.t_s - origin.t_s, point.window - origin.window);
            for (sum, more) in sum.iter_mut().zip([t, w, t * t, t * w]) {
                *sum += more;
            }
            before.push(sum);
        }
        Some(Sums { origin, times_s: points.iter().map(|p| p.t_s).collect(), before })
    }

    /// The regression line through the points between two times, as its slope and its value in
    /// their middle.
    fn line(&self, from_s: f64, to_s: f64) -> Option<(f64, f64)> {
        let first = self.times_s.partition_point(|t| *t < from_s);
        let end = self.times_s.partition_point(|t| *t <= to_s);
        if end < first + 3 {
            return None;
        }
        let n = (end - first) as f64;
        let sum = |which: usize| self.before[end][which] - self.before[first][which];
        let (mean_t, mean_w) = (sum(0) / n, sum(1) / n);
        let spread = sum(2) - n * mean_t * mean_t;
        let span_s = self.times_s[end - 1] - self.times_s[first];
        // Points of a single moment have no slope, except for rounding.
        (span_s > 0.0 && spread > 1e-9 * span_s * span_s)
            .then(|| ((sum(3) - n * mean_t * mean_w) / spread, self.origin.window + mean_w))
    }
}

/// A window at a time since the reduction.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// s
    pub t_s: f64,
    /// Segments.
    pub window: f64,
}

/// A fit by least squares, W_max free (fast convergence moves it).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    /// C, segments/s³.
    pub c: f64,
    /// Standard error of C.
    pub c_error: f64,
    /// K, s after the first point.
    pub k_s: f64,
    /// W_max, segments.
    pub w_max: f64,
    /// Root of the mean squared residual, segments.
    pub residual: f64,
    /// The same for the best straight line.
    pub line_residual: f64,
    /// Number of points.
    pub points: usize,
}

impl Fit {
    /// Fits C, K and W_max. For a given K the rest is linear; K is searched.
    pub fn least_squares(points: &[Point]) -> Option<Fit> {
        if points.len() < 8 {
            return None;
        }
        let span = points.last()?.t_s - points.first()?.t_s;
        if span <= 0.0 {
            return None;
        }
        let at = |k: f64| cubic_given_k(points, k).map(|(_, _, sum)| sum);
        // K may lie after the epoch's end (cut short) or before its beginning (no plateau: convex
        // from the start).
        let steps = 120;
        let grid = (0..=steps).map(|i| -0.5 * span + 2.5 * span * f64::from(i) / f64::from(steps));
        let best = grid.filter_map(|k| Some((k, at(k)?))).min_by(|a, b| a.1.total_cmp(&b.1))?;
        let step = 2.5 * span / f64::from(steps);
        let k_s = golden(best.0 - step, best.0 + step, |k| at(k).unwrap_or(f64::INFINITY));
        let (c, w_max, sum) = cubic_given_k(points, k_s)?;
        let n = points.len() as f64;
        let (slope, middle) = Sums::of(points)?.line(f64::NEG_INFINITY, f64::INFINITY)?;
        let mt = points.iter().map(|p| p.t_s).sum::<f64>() / n;
        let line_sum: f64 = points.iter().map(|p| (p.window - middle - slope * (p.t_s - mt)).powi(2)).sum();
        let error = standard_error(points, c, k_s, sum / (n - 3.0))?;
        Some(Fit {
            c,
            c_error: error,
            k_s,
            w_max,
            residual: (sum / n).sqrt(),
            line_residual: (line_sum / n).sqrt(),
            points: points.len(),
        })
    }

    /// The window at a time.
    pub fn window(&self, t_s: f64) -> f64 {
        self.c * (t_s - self.k_s).powi(3) + self.w_max
    }

    /// Whether the epoch shows a cubic at all: curved, rising, with its plateau inside.
    pub fn is_cubic(&self, span_s: f64) -> bool {
        self.c > 0.0
            && self.residual < 0.5 * self.line_residual
            && self.k_s > 0.15 * span_s
            && self.k_s < span_s
            && self.c_error < 0.2 * self.c
    }
}

/// C, W_max and the sum of squares for a K.
fn cubic_given_k(points: &[Point], k: f64) -> Option<(f64, f64, f64)> {
    let n = points.len() as f64;
    let cube = |p: &Point| (p.t_s - k).powi(3);
    let mx = points.iter().map(cube).sum::<f64>() / n;
    let mw = points.iter().map(|p| p.window).sum::<f64>() / n;
    let (mut xx, mut xw) = (0.0, 0.0);
    for p in points {
        xx += (cube(p) - mx).powi(2);
        xw += (cube(p) - mx) * (p.window - mw);
    }
    if xx <= 0.0 {
        return None;
    }
    let c = xw / xx;
    let w_max = mw - c * mx;
    let sum = points.iter().map(|p| (p.window - w_max - c * cube(p)).powi(2)).sum();
    Some((c, w_max, sum))
}

/// The minimum of a unimodal function, by golden section.
fn golden(mut low: f64, mut high: f64, f: impl Fn(f64) -> f64) -> f64 {
    const PART: f64 = 0.618_033_988_749_895;
    let (left, right) =
        (|low: f64, high: f64| high - PART * (high - low), |low: f64, high: f64| low + PART * (high - low));
    // One of the two points is from the previous step: one evaluation per step.
    let (mut at_left, mut at_right) = (f(left(low, high)), f(right(low, high)));
    for _ in 0..40 {
        if at_left < at_right {
            high = right(low, high);
            (at_left, at_right) = (f(left(low, high)), at_left);
        } else {
            low = left(low, high);
            (at_left, at_right) = (at_right, f(right(low, high)));
        }
    }
    (low + high) / 2.0
}

/// The standard error of C, from the curvature at the optimum (columns for C, K, W_max).
fn standard_error(points: &[Point], c: f64, k: f64, variance: f64) -> Option<f64> {
    let mut m = [[0.0_f64; 3]; 3];
    for p in points {
        let d = p.t_s - k;
        let row = [d.powi(3), -3.0 * c * d.powi(2), 1.0];
        for (i, line) in m.iter_mut().enumerate() {
            for (j, cell) in line.iter_mut().enumerate() {
                *cell += row[i] * row[j];
            }
        }
    }
    let determinant = m[0][0] * (m[1][1] * m[2][2] - m[1][2] * m[2][1])
        - m[0][1] * (m[1][0] * m[2][2] - m[1][2] * m[2][0])
        + m[0][2] * (m[1][0] * m[2][1] - m[1][1] * m[2][0]);
    let minor = m[1][1] * m[2][2] - m[1][2] * m[2][1];
    (determinant > 0.0 && minor >= 0.0).then(|| (variance * minor / determinant).sqrt())
}

/// An epoch: from the end of a reduction to the next one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Epoch {
    /// The reduction it follows, as an index in [`WindowTrace::reductions`].
    pub reduction: usize,
    /// The window by time since the end of the reduction, without rounds that something else
    /// limited.
    pub points: Vec<Point>,
    /// Whether it ended with the next reduction, not with the capture or a pause.
    pub whole: bool,
    /// Whether a Reno with the same beta would have had about the same window somewhere: there the
    /// cubic does not apply (RFC 9438, section 4.3).
    pub friendly: bool,
}

/// The epochs of a window trace that follow a fast recovery.
pub fn epochs(window_trace: &WindowTrace) -> Vec<Epoch> {
    let mut epochs = Vec::new();
    for (number, reduction) in window_trace.reductions.iter().enumerate() {
        if reduction.cause == Cause::Timeout || reduction.undone || reduction.after <= 0.0 {
            continue;
        }
        let next = window_trace.reductions.get(number + 1);
        let rounds = window_trace.epoch(number);
        let mut points = Vec::new();
        let mut pauses = 0;
        for round in rounds {
            if round.limits.application || round.limits.receiver {
                pauses += 1;
            }
            // The round of the loss has a full window as well: only rounds of loss recovery are
            // excluded.
            if round.is_cwnd_limited() {
                let t_s = (round.end_ns - reduction.over_ns) as f64 / 1e9;
                points.push(Point { t_s, window: f64::from(round.window) });
            }
        }
        let whole = next.is_some() && pauses * 10 < rounds.len();
        let beta = f64::from(reduction.after / reduction.before.max(1.0)).clamp(0.3, 0.95);
        let per_round = 3.0 * (1.0 - beta) / (1.0 + beta);
        let reno = (0..).map(|n| f64::from(reduction.after) + per_round * f64::from(n));
        let close = points.iter().zip(reno).filter(|(point, reno)| point.window < reno + 1.0).count();
        // The first rounds are close in any case.
        let friendly = close > 3 + points.len() / 8;
        epochs.push(Epoch { reduction: number, points, whole, friendly });
    }
    epochs
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// With the kernel's own constants: 700 segments after a loss at 1000, for 12 s.
    fn cycle(points: u32, whole_segments: bool) -> Vec<Point> {
        let k_s = (300.0_f64 / 0.4).cbrt();
        (0..=points)
            .map(|n| {
                let t_s = 12.0 * f64::from(n) / f64::from(points);
                let window = 0.4 * (t_s - k_s).powi(3) + 1000.0;
                Point { t_s, window: if whole_segments { window.floor() } else { window } }
            })
            .collect()
    }

    #[test]
    fn a_cycle_is_read_where_it_is_flattest() {
        for (whole_segments, off) in [(false, 0.01), (true, 0.1)] {
            let cycle = Cycle::read(&cycle(400, whole_segments)).unwrap();
            assert!((cycle.k_s / 9.086 - 1.0).abs() < off, "{cycle:?}");
            assert!((cycle.w_max - 1000.0).abs() < 2.0, "{cycle:?}");
        }
    }

    #[test]
    fn a_cycle_of_a_million_rounds_is_read() {
        let cycle = Cycle::read(&cycle(1_000_000, true)).unwrap();
        assert!((cycle.k_s / 9.086 - 1.0).abs() < 0.1, "{cycle:?}");
    }

    #[test]
    fn points_of_one_time_have_no_regression_line() {
        let point = |t_s, window| Point { t_s, window };
        let sums = Sums::of(&[point(1e6, 1.0), point(1e6, 2.0), point(1e6, 4.0)]).unwrap();
        assert_eq!(sums.line(f64::NEG_INFINITY, f64::INFINITY), None);
        let sums = Sums::of(&[point(1e6 + 2.0, 5.0), point(1e6, 1.0), point(1e6 + 1.0, 3.0)]).unwrap();
        assert_eq!(sums.line(f64::NEG_INFINITY, f64::INFINITY), Some((2.0, 3.0)));
        assert_eq!(sums.line(1e6 + 1.0, 1e6 + 2.0), None, "two points");
    }
}
