//! The window's difference between rounds over the window (Kato and others, ICSNC 2014): its shape
//! distinguishes algorithms.

use super::svg::{OTHER, REPLAYED, SEEN};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::collections::HashSet;
use yuzuri_cca::{Algorithm, SlowStartExit, Window};
use yuzuri_infer::verdict::Verdict;
use yuzuri_plot::{DrawError, FONT, INK, axis_quantile, ceiling, frame, short, svg};

const SIZE: (u32, u32) = (940, 380);
/// Maximum number of points drawn.
const MAX_POINTS: usize = 2000;

/// Algorithms whose growth depends on the window alone: they are curves in this picture.
const CURVES: [(Algorithm, RGBColor); 3] =
    [(Algorithm::Reno, INK), (Algorithm::Highspeed, OTHER), (Algorithm::Scalable, RGBColor(204, 121, 167))];

/// Pairs of a window and its increase in the next round, for rounds with a prediction.
fn pairs(verdict: &Verdict, window: impl Fn(usize) -> f32) -> Vec<(f64, f64)> {
    let counts = |place: usize| verdict.predicted.get(place).is_some_and(|cca| cca.is_finite());
    // Where a reduction begins a new epoch the difference is no growth.
    let reductions: HashSet<usize> =
        verdict.window_trace.reductions.iter().map(|reduction| reduction.round as usize).collect();
    let rounds = 1..verdict.window_trace.rounds.len();
    let all = rounds.filter(|place| counts(*place) && counts(*place - 1) && !reductions.contains(place));
    let all = all.map(|place| {
        let (before, after) = (f64::from(window(place - 1)), f64::from(window(place)));
        (before, after - before)
    });
    let points: Vec<(f64, f64)> = all.collect();
    let step = points.len().div_ceil(MAX_POINTS).max(1);
    points.into_iter().step_by(step).collect()
}

/// An algorithm's increase of a window in one round.
fn growth(algorithm: Algorithm, segments: u32) -> f64 {
    let mut cca = algorithm.make(SlowStartExit::Loss, 1);
    let mut window = Window::new(1000, 1448, false);
    (window.cwnd, window.ssthresh, window.cwnd_limited) = (segments, 2, true);
    cca.init(&mut window);
    // Several rounds, since the window holds whole segments only.
    const ROUNDS: u32 = 20;
    let mut grown = 0;
    for _ in 0..ROUNDS {
        for _ in 0..segments {
            cca.cong_avoid(&mut window, 1);
        }
        grown += window.cwnd - segments.min(window.cwnd);
        window.cwnd = segments;
    }
    f64::from(grown) / f64::from(ROUNDS)
}

/// The picture; `None` if there are too few rounds.
pub(super) fn kato(verdict: &Verdict) -> Option<Result<String, DrawError>> {
    let seen = pairs(verdict, |place| verdict.window_trace.rounds[place].window);
    if seen.len() < 8 {
        return None;
    }
    let cca = pairs(verdict, |place| verdict.predicted[place]);
    let of = |points: &[(f64, f64)], part: f64| {
        axis_quantile(points.iter().map(|p| p.1).collect(), part).unwrap_or(0.0)
    };
    let low = of(&seen, 0.01).min(of(&cca, 0.01)).min(-1.0);
    let high = of(&seen, 0.99).max(of(&cca, 0.99)).max(2.0);
    let (low, high) = (-ceiling(-low * 1.05), ceiling(high * 1.1));
    let right = ceiling(seen.iter().map(|point| point.0).fold(1.0, f64::max));
    // If all windows are far from 0, the axis does not begin at 0.
    let least = seen.iter().map(|point| point.0).fold(right, f64::min);
    let left = if least > 0.4 * right { (least - 0.1 * right).floor() } else { 0.0 };
    Some(svg(SIZE, "Difference of the window over the window", None, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .margin_right(96)
            .x_label_area_size(42)
            .y_label_area_size(62)
            .build_cartesian_2d(left..right, low..high)?;
        frame(&mut chart, "window, segments", "next round adds, segments", &short, (10, 8))?;
        let inside = |points: &[(f64, f64)]| -> Vec<(f64, f64)> {
            points.iter().copied().filter(|(_, d)| (low..=high).contains(d)).collect()
        };
        chart.draw_series(inside(&seen).into_iter().map(|point| Circle::new(point, 2, SEEN.filled())))?;
        chart.draw_series(
            inside(&cca).into_iter().map(|point| Cross::new(point, 3, REPLAYED.stroke_width(1))),
        )?;
        let mut labelled: Vec<i32> = Vec::new();
        for (algorithm, colour) in CURVES {
            let xs = (0..=60).map(|step| (left + (right - left) * f64::from(step) / 60.0).max(2.0) as u32);
            let curve = xs.map(|x| (f64::from(x), growth(algorithm, x))).filter(|(_, d)| *d <= high);
            let curve: Vec<(f64, f64)> = curve.collect();
            chart.draw_series(DashedLineSeries::new(curve.clone(), 5, 4, colour.stroke_width(1)))?;
            let Some(&last) = curve.last() else { continue };
            let (x, mut y) = chart.backend_coord(&last);
            // Overlapping names are stacked.
            while labelled.iter().any(|other| (other - y).abs() < 14) {
                y -= 14;
            }
            labelled.push(y);
            let font = (FONT, 12).into_font().color(&colour).pos(Pos::new(HPos::Left, VPos::Center));
            area.draw(&Text::new(algorithm.name(), (x + 6, y), font))?;
        }
        Ok(())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reno_adds_one_and_scalable_a_part_of_the_window() {
        assert!((growth(Algorithm::Reno, 100) - 1.0).abs() < 0.06);
        assert!((growth(Algorithm::Scalable, 400) / growth(Algorithm::Scalable, 200) - 2.0).abs() < 0.1);
        // RFC 3649: 38 segments are the least window at which it differs.
        assert!((growth(Algorithm::Highspeed, 30) - 1.0).abs() < 0.06);
        assert!(growth(Algorithm::Highspeed, 1000) > 3.0);
    }
}
