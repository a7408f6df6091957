//! Several lines on one axis: over time, and distributions.

use super::plots::{colour, key, svg};
use plotters::coord::combinators::IntoLogRange;
use plotters::prelude::*;
use yuzuri_plot::{DrawError, ceiling, ceiling_without_spikes, frame, short};

/// A line.
pub struct Line {
    /// Its name.
    pub name: String,
    /// x, y.
    pub points: Vec<(f64, f64)>,
}

/// Lines over time, up to `end_s`.
pub fn over_time(lines: &[Line], end_s: f64, y_title: &str) -> Result<String, DrawError> {
    let all = lines.iter().flat_map(|line| line.points.iter().map(|point| point.1));
    let most = ceiling_without_spikes(all.collect());
    svg(900, 260, "Over time", |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .margin_right(218)
            .x_label_area_size(30)
            .y_label_area_size(58)
            .build_cartesian_2d(0.0..end_s, 0.0..most)?;
        frame(&mut chart, "", y_title, &|t| format!("{t:.0} s"), (10, 6))?;
        for (n, line) in lines.iter().enumerate() {
            let points = line.points.iter().map(|(x, y)| (*x, y.min(most)));
            chart.draw_series(LineSeries::new(points, colour(n).stroke_width(1)))?;
        }
        key(area, 695, &names(lines))
    })
}

/// Cumulative distributions: for each value, the fraction that does not exceed it. The axis is
/// logarithmic if the values span more than a factor of ten.
pub fn distributions(lines: &[Line], x_title: &str) -> Result<String, DrawError> {
    let xs = || lines.iter().flat_map(|line| line.points.iter().map(|point| point.0));
    let (least, most) = (xs().fold(f64::INFINITY, f64::min), xs().fold(0.0, f64::max));
    svg(900, 300, "Distribution", |area| {
        let mut chart = ChartBuilder::on(area);
        chart.margin(8).margin_top(12).margin_right(218).x_label_area_size(42).y_label_area_size(58);
        if least > 0.0 && most / least > 10.0 {
            let mut chart = chart.build_cartesian_2d((least / 1.1..most * 1.1).log_scale(), 0.0..1.0)?;
            frame(&mut chart, x_title, "fraction of the time", &of_decade, (12, 6))?;
            for (n, line) in lines.iter().enumerate() {
                let points = step_points(line, least / 1.1, most * 1.1);
                chart.draw_series(LineSeries::new(points, colour(n).stroke_width(2)))?;
            }
        } else {
            let end = ceiling(most);
            let mut chart = chart.build_cartesian_2d(0.0..end, 0.0..1.0)?;
            frame(&mut chart, x_title, "fraction of the time", &short, (10, 6))?;
            for (n, line) in lines.iter().enumerate() {
                let points = step_points(line, 0.0, end);
                chart.draw_series(LineSeries::new(points, colour(n).stroke_width(2)))?;
            }
        }
        key(area, 695, &names(lines))
    })
}

/// A label of a logarithmic axis. Only 1, 2 and 5 of each decade have one: those of 6 to 10 would
/// overlap.
fn of_decade(value: &f64) -> String {
    let digit = value / 10f64.powf((value.log10() + 1e-9).floor());
    if [1.0, 2.0, 5.0].into_iter().any(|labelled| (digit - labelled).abs() < 1e-6) {
        short(value)
    } else {
        String::new()
    }
}

/// The steps of a distribution, from 0 at the beginning of the axis to 1 at its end.
fn step_points(line: &Line, from: f64, to: f64) -> Vec<(f64, f64)> {
    let begin = line.points.first().map_or(to, |point| point.0);
    let end = line.points.last().map_or(0.0, |point| point.1);
    [(from, 0.0), (begin, 0.0)].into_iter().chain(line.points.iter().copied()).chain([(to, end)]).collect()
}

fn names(lines: &[Line]) -> Vec<(String, usize)> {
    lines.iter().enumerate().map(|(n, line)| (line.name.clone(), n)).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// The numbers below the axis of a distribution, and where their middle is, pixels.
    fn labels(svg: &str) -> Vec<(i32, String)> {
        let below = |text: &str| {
            let (tag, words) = text.split_once('>')?;
            let words = words.split_once("</text>")?.0.trim();
            let x = tag.split_once("x=\"")?.1.split_once('"')?.0.parse().ok()?;
            (tag.contains("y=\"260\"") && !words.is_empty()).then(|| (x, words.to_owned()))
        };
        let mut labels: Vec<(i32, String)> = svg.split("<text ").filter_map(below).collect();
        labels.sort();
        labels.dedup();
        labels
    }

    #[test]
    fn labels_of_a_logarithmic_axis_do_not_overlap() {
        for most in [900.0, 4_600.0, 60_000.0] {
            let line = Line { name: "a".into(), points: vec![(64.0, 0.5), (most, 1.0)] };
            let labels = labels(&distributions(&[line], "ms").unwrap());
            assert!(labels.len() > 1 && labels.iter().any(|(_, words)| words == "100"), "{labels:?}");
            for pair in labels.windows(2) {
                // A digit is at most 8 pixels wide.
                let wide = 4 * (pair[0].1.len() + pair[1].1.len()) as i32;
                assert!(pair[1].0 - pair[0].0 > wide, "up to {most}: {pair:?}");
            }
        }
    }
}
