//! The window over time with the replayed algorithm's window, and their difference below.

use super::limits::intervals;
use super::svg::{LIMITED, LOSS, REPAIR, REPLAYED, SEEN, drawn};
use plotters::prelude::*;
use yuzuri_infer::verdict::Verdict;
use yuzuri_infer::window_trace::Cause;
use yuzuri_limits::Limit;
use yuzuri_plot::limits::{LANE, Piece, lane as draw_lane};
use yuzuri_plot::{DrawError, FONT, INK, axis_quantile, ceiling, frame, short, svg};

const SIZE: (u32, u32) = (940, 470);
const RESIDUALS: u32 = 150;

/// The picture.
pub(super) fn windows(verdict: &Verdict) -> Result<String, DrawError> {
    let window_trace = &verdict.window_trace;
    let rounds = &window_trace.rounds;
    let zero_ns = rounds.first().map_or(0, |round| round.start_ns);
    let at = |ns: i64| (ns - zero_ns) as f64 / 1e9;
    let end_s = window_trace.seconds().max(1e-3);
    let top = ceiling(f64::from(rounds.iter().map(|round| round.window).fold(1.0, f32::max)));
    let predicted = |place: usize| verdict.predicted.get(place).copied().filter(|cca| cca.is_finite());
    let places = drawn(rounds);
    svg(SIZE, "Window over time", None, |area| {
        let intervals = intervals(rounds);
        let lane = if intervals.is_empty() { 0 } else { LANE };
        let (upper, lower) = area.split_vertically(SIZE.1 - RESIDUALS - lane);
        let (limits, lower) = lower.split_vertically(lane);
        let mut chart = ChartBuilder::on(&upper)
            .margin(8)
            .margin_right(16)
            .x_label_area_size(26)
            .y_label_area_size(62)
            .build_cartesian_2d(0.0..end_s, 0.0..top)?;
        let mut bands = Vec::new();
        for round in rounds.iter().filter(|round| round.limits.any()) {
            let colour = if round.limits.recovery { REPAIR } else { LIMITED };
            match bands.last_mut() {
                // Bands that touch are one.
                Some((_, to, of)) if *of == colour && at(round.start_ns) - *to < end_s / 900.0 => {
                    *to = at(round.end_ns)
                }
                _ => bands.push((at(round.start_ns), at(round.end_ns), colour)),
            }
        }
        chart.draw_series(bands.iter().map(|(from, to, colour)| {
            let to = to.max(from + end_s / 900.0).min(end_s);
            Rectangle::new([(*from, 0.0), (to, top)], colour.filled())
        }))?;
        frame(&mut chart, "", "window, segments", &short, (10, 6))?;
        let radius = if places.len() > 500 { 1 } else { 2 };
        let seen = places.iter().map(|&place| (at(rounds[place].end_ns), f64::from(rounds[place].window)));
        chart.draw_series(seen.map(|point| Circle::new(point, radius, SEEN.filled())))?;
        // The algorithm's line has gaps where it predicted nothing.
        for run in places.chunk_by(|a, b| predicted(*a).is_some() == predicted(*b).is_some()) {
            let line = run
                .iter()
                .filter_map(|&place| Some((at(rounds[place].end_ns), f64::from(predicted(place)?))));
            let line = line.map(|(t, cca)| (t, cca.min(top)));
            chart.draw_series(LineSeries::new(line, REPLAYED.stroke_width(1)))?;
        }
        let marks = window_trace.reductions.iter().map(|reduction| {
            let at = (at(reduction.at_ns).clamp(0.0, end_s), f64::from(reduction.before).min(top));
            let size = if reduction.cause == Cause::Timeout { 7 } else { 4 };
            TriangleMarker::new(at, size, LOSS.filled())
        });
        chart.draw_series(marks)?;

        if lane > 0 {
            let piece = |&(from, to, limit): &(i64, i64, Limit)| Piece {
                from_s: at(from),
                to_s: at(to),
                part: (0.0, 1.0),
                limit,
            };
            let pieces: Vec<Piece> = intervals.iter().map(piece).collect();
            draw_lane(&limits, (70, 16), end_s, &pieces)?;
        }

        let differences =
            || (0..rounds.len()).filter_map(|place| Some(predicted(place)? - rounds[place].window));
        let sizes = differences().map(|d| f64::from(d.abs())).collect();
        let reach = axis_quantile(sizes, 0.98).unwrap_or(1.0).max(1.0);
        let reach = ceiling(reach);
        let mut chart = ChartBuilder::on(&lower)
            .margin(8)
            .margin_top(2)
            .margin_right(16)
            .x_label_area_size(40)
            .y_label_area_size(62)
            .build_cartesian_2d(0.0..end_s, -reach..reach)?;
        frame(&mut chart, "time, s", "algorithm - window", &short, (10, 5))?;
        chart.draw_series([PathElement::new([(0.0, 0.0), (end_s, 0.0)], INK.stroke_width(1))])?;
        let points = places.iter().filter_map(|&place| {
            let difference = f64::from(predicted(place)? - rounds[place].window);
            Some((at(rounds[place].end_ns), difference.clamp(-reach, reach)))
        });
        chart.draw_series(points.map(|point| Circle::new(point, radius, REPLAYED.filled())))?;
        if differences().next().is_none() {
            let words = Text::new(
                "the algorithm predicted no round",
                (end_s * 0.4, reach * 0.3),
                (FONT, 13).into_font().color(&INK),
            );
            chart.draw_series([words])?;
        }
        Ok(())
    })
}
