//! The plots, drawn by `plotters` as SVG.

use super::data::{Estimate, Group};
use super::series::{QueueSeries, TerminalSeries};
use plotters::coord::combinators::IntoLogRange;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use yuzuri_plot::limits::{LANE, lane};
use yuzuri_plot::{Area, DrawError, Drawn, FONT, GRID, INK, ceiling, frame, short, steps};
use yuzuri_trace::CaState;

/// Colours that remain distinguishable with colour vision deficiency (Okabe and Ito).
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(110, 110, 110),
    RGBColor(0, 0, 0),
];

pub(super) fn colour(number: usize) -> RGBColor {
    COLOURS[number % COLOURS.len()]
}

/// Draws into an SVG of this size, on white.
pub(super) fn svg(
    width: u32,
    height: u32,
    words: &str,
    draw: impl FnOnce(&Area<'_>) -> Drawn,
) -> Result<String, DrawError> {
    yuzuri_plot::svg((width, height), words, Some(WHITE), draw)
}

fn state_colour(state: CaState) -> RGBAColor {
    match state {
        CaState::Open => WHITE.mix(0.0),
        CaState::Disorder => RGBColor(240, 228, 66).mix(0.45),
        CaState::Cwr => RGBColor(86, 180, 233).mix(0.35),
        CaState::Recovery => RGBColor(230, 159, 0).mix(0.4),
        CaState::Loss => RGBColor(213, 94, 0).mix(0.45),
    }
}

fn max_or_zero(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, f64::max)
}

/// Each terminal over time, one plot below the other: window and bounds (left axis), throughput
/// (right axis), state (bands), and below them what limits its flows.
pub fn timelines(series: &[TerminalSeries], warm_up_s: f64, end_s: f64) -> Result<String, DrawError> {
    const ROW: u32 = 206;
    const MARGIN: u32 = 8;
    const LABELS: u32 = 58;
    let rate = ceiling(max_or_zero(series.iter().flat_map(|s| s.throughput.iter().map(|p| p.1))));
    svg(900, ROW * series.len().max(1) as u32 + 34, "Terminals over time", |area| {
        let (legend, rest) = area.split_vertically(34);
        let entries: [(&str, RGBAColor); 7] = [
            ("window (left)", colour(0).mix(1.0)),
            ("its bounds (left)", colour(2).mix(1.0)),
            ("throughput (right)", colour(3).mix(1.0)),
            ("disorder", state_colour(CaState::Disorder)),
            ("CWR", state_colour(CaState::Cwr)),
            ("recovery", state_colour(CaState::Recovery)),
            ("loss", state_colour(CaState::Loss)),
        ];
        let mut x = 62;
        for (name, tint) in entries {
            legend.draw(&Rectangle::new([(x, 12), (x + 22, 22)], tint.filled()))?;
            legend.draw(&Text::new(name, (x + 28, 11), (FONT, 13).into_font().color(&INK)))?;
            x += 44 + 7 * name.len() as i32;
        }
        for (area, s) in rest.split_evenly((series.len().max(1), 1)).iter().zip(series) {
            let window = ceiling(max_or_zero(s.cwnd.iter().map(|p| p.1)));
            let lane_height = if s.limits.is_empty() { 0 } else { LANE };
            let (upper, limits) = area.split_vertically(ROW - lane_height);
            if lane_height > 0 {
                lane(&limits, (MARGIN + LABELS, MARGIN + LABELS), end_s, &s.limits)?;
            }
            let mut chart = ChartBuilder::on(&upper)
                .margin_left(MARGIN)
                .margin_right(MARGIN)
                .margin_top(4)
                .x_label_area_size(30)
                .y_label_area_size(LABELS)
                .right_y_label_area_size(LABELS)
                .build_cartesian_2d(0.0..end_s, 0.0..window)?
                .set_secondary_coord(0.0..end_s, 0.0..rate);
            chart.draw_series(s.states.iter().map(|(from, to, state)| {
                // At least as wide as a line, so that short states remain visible.
                let to = to.max(from + end_s / 900.0).min(end_s);
                Rectangle::new([(from.max(0.0), 0.0), (to, window)], state_colour(*state).filled())
            }))?;
            if warm_up_s > 0.0 {
                chart.draw_series(DashedLineSeries::new(
                    [(warm_up_s, 0.0), (warm_up_s, window)],
                    4,
                    4,
                    INK.stroke_width(1),
                ))?;
            }
            chart
                .configure_mesh()
                .light_line_style(TRANSPARENT)
                .bold_line_style(GRID)
                .axis_style(INK)
                .y_labels(5)
                .x_labels(10)
                .y_label_formatter(&short)
                .x_label_formatter(&|t| format!("{t:.0} s"))
                .y_desc("segments")
                .label_style((FONT, 12).into_font().color(&INK))
                .draw()?;
            chart
                .configure_secondary_axes()
                .y_labels(5)
                .axis_style(INK)
                .y_label_formatter(&short)
                .y_desc("Mbit/s")
                .label_style((FONT, 12).into_font().color(&INK))
                .draw()?;
            chart.draw_secondary_series(LineSeries::new(
                s.throughput.iter().copied(),
                colour(3).stroke_width(1),
            ))?;
            chart.draw_series(LineSeries::new(steps(&s.cwnd), colour(0).stroke_width(2)))?;
            // Omit bounds far above the window, which would flatten its curve.
            let seen = s.bounds.iter().filter(|(_, _, bound)| *bound <= window);
            chart.draw_series(seen.map(|(from, to, bound)| {
                PathElement::new([(*from, *bound), (*to, *bound)], colour(2).stroke_width(1))
            }))?;
            let marks =
                s.timeouts.iter().map(|t| TriangleMarker::new((*t, window * 0.96), 5, colour(1).filled()));
            chart.draw_series(marks)?;
            let font = (FONT, 14).into_font().style(FontStyle::Bold).color(&BLACK);
            let at = area.get_pixel_range().0.end - area.get_pixel_range().0.start - 76;
            let right = font.pos(Pos::new(HPos::Right, VPos::Top));
            area.draw(&Text::new(s.name.clone(), (at, 8), right))?;
        }
        Ok(())
    })
}

/// Queues over time.
pub fn queues(series: &[QueueSeries], end_s: f64) -> Result<String, DrawError> {
    let used: Vec<&QueueSeries> = series.iter().filter(|s| s.packets.iter().any(|p| p.1 > 0.0)).collect();
    let most = ceiling(max_or_zero(used.iter().flat_map(|s| s.packets.iter().map(|p| p.1))));
    svg(900, 240, "Queues over time", |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .margin_right(138)
            .x_label_area_size(30)
            .y_label_area_size(58)
            .build_cartesian_2d(0.0..end_s, 0.0..most)?;
        frame(&mut chart, "", "packets", &|t| format!("{t:.0} s"), (10, 6))?;
        for (n, s) in used.iter().enumerate() {
            chart.draw_series(LineSeries::new(s.packets.iter().copied(), colour(n).stroke_width(1)))?;
        }
        let names: Vec<(String, usize)> = used.iter().enumerate().map(|(n, s)| (s.name.clone(), n)).collect();
        key(area, 775, &names)
    })
}

/// A curve with confidence intervals.
pub struct Curve {
    /// Its name.
    pub name: String,
    /// x, y.
    pub points: Vec<(f64, Estimate)>,
}

/// Curves over a varied field, with a logarithmic axis if its range is large. `top`: the upper end
/// of the y axis if it has a natural one.
pub fn curves(curves: &[Curve], x_title: &str, y_title: &str, top: Option<f64>) -> Result<String, DrawError> {
    let xs = || curves.iter().flat_map(|c| c.points.iter().map(|p| p.0));
    let points = || curves.iter().flat_map(|c| c.points.iter().map(|p| p.1));
    // The interval from two repetitions may be many times the value: clip it instead of flattening
    // the rest.
    let highest = max_or_zero(points().map(|e| e.range().1)).min(max_or_zero(points().map(|e| e.mean)) * 1.6);
    let top = top.unwrap_or_else(|| ceiling(highest));
    let (least, most) = (xs().fold(f64::INFINITY, f64::min), xs().fold(f64::NEG_INFINITY, f64::max));
    let positive = xs().filter(|x| *x > 0.0).fold(f64::INFINITY, f64::min);
    let logarithmic = least >= 0.0 && positive.is_finite() && most / positive >= 20.0;
    svg(900, 330, &format!("{y_title} over {x_title}"), |area| {
        let mut chart = ChartBuilder::on(area);
        chart.margin(8).margin_top(12).margin_right(218).x_label_area_size(42).y_label_area_size(62);
        let label = |x: &f64| short(x);
        if logarithmic {
            // Zero has no logarithm: it is drawn one step left of the smallest value and labelled.
            let zero = positive / 2.0;
            let place = |x: f64| if x > 0.0 { x } else { zero };
            let from = if least > 0.0 { least } else { zero };
            let tick_label = |x: &f64| {
                if least <= 0.0 && (*x / zero - 1.0).abs() < 0.01 { "0".to_owned() } else { short(x) }
            };
            let mut points: Vec<f64> = xs().map(place).collect();
            points.sort_by(f64::total_cmp);
            points.dedup();
            let axis = (from / 1.15..most * 1.15).log_scale().with_key_points(points);
            let mut chart = chart.build_cartesian_2d(axis, 0.0..top)?;
            frame(&mut chart, x_title, y_title, &tick_label, (14, 6))?;
            draw_curves(&mut chart, curves, &place)?;
        } else {
            let room = ((most - least) * 0.04).max(1e-9);
            let mut chart = chart.build_cartesian_2d(least - room..most + room, 0.0..top)?;
            frame(&mut chart, x_title, y_title, &label, (10, 6))?;
            draw_curves(&mut chart, curves, &|x| x)?;
        }
        let names: Vec<(String, usize)> =
            curves.iter().enumerate().map(|(n, c)| (c.name.clone(), n)).collect();
        key(area, 695, &names)
    })
}

fn draw_curves<X>(
    chart: &mut ChartContext<'_, SVGBackend<'_>, Cartesian2d<X, plotters::coord::types::RangedCoordf64>>,
    curves: &[Curve],
    place: &dyn Fn(f64) -> f64,
) -> Drawn
where
    X: Ranged<ValueType = f64>,
{
    for (n, curve) in curves.iter().enumerate() {
        let line = curve.points.iter().map(|(x, y)| (place(*x), y.mean));
        chart.draw_series(LineSeries::new(line.clone(), colour(n).stroke_width(2)))?;
        chart.draw_series(line.map(|point| Circle::new(point, 3, colour(n).filled())))?;
        chart.draw_series(curve.points.iter().filter(|(_, y)| y.half_width.is_some()).map(|(x, y)| {
            let (low, high) = y.range();
            ErrorBar::new_vertical(
                place(*x),
                low.max(0.0),
                y.mean,
                high,
                colour(n).mix(0.6).stroke_width(1),
                8,
            )
        }))?;
    }
    Ok(())
}

fn shortened(name: &str, most: usize) -> String {
    let mut text: String = name.chars().take(most).collect();
    if text.len() < name.len() {
        text.push('…');
    }
    text
}

/// The legend, from top to bottom.
pub(super) fn key(area: &Area<'_>, x: i32, names: &[(String, usize)]) -> Drawn {
    let rows = (area.get_pixel_range().1.end - area.get_pixel_range().1.start - 20) / 18;
    for (row, (name, tint)) in names.iter().enumerate().take(rows.max(1) as usize) {
        let y = 14 + row as i32 * 18;
        area.draw(&Rectangle::new([(x, y), (x + 14, y + 10)], colour(*tint).filled()))?;
        area.draw(&Text::new(shortened(name, 32), (x + 20, y - 1), (FONT, 12).into_font().color(&INK)))?;
    }
    Ok(())
}

/// Total throughput against fairness: a point for each repetition and a large one for the mean.
pub fn scatter(groups: &[&Group], weighted: bool) -> Result<String, DrawError> {
    let index = |g: &Group| if weighted { g.jain_weighted } else { g.jain };
    let estimates = || groups.iter().filter_map(|g| g.throughput_mbps);
    let top =
        max_or_zero(estimates().map(|e| e.range().1)).min(max_or_zero(estimates().map(|e| e.mean)) * 1.6);
    let top = ceiling(top);
    let words = if weighted { "Jain's index of x / alone" } else { "Jain's index" };
    svg(900, 420, "Total throughput against fairness", |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .margin_top(12)
            .margin_right(268)
            .x_label_area_size(42)
            .y_label_area_size(62)
            .build_cartesian_2d(0.0..1.02, 0.0..top)?;
        frame(&mut chart, words, "total, Mbit/s", &short, (11, 6))?;
        let mut names = Vec::new();
        for (n, group) in groups.iter().enumerate() {
            let (Some(x), Some(y)) = (index(group), group.throughput_mbps) else { continue };
            if !weighted {
                let runs = group.runs.iter().map(|(_, r)| r).filter(|r| r.valid);
                let each = runs.filter_map(|r| Some((r.totals.jain?, r.totals.throughput_mbps)));
                chart.draw_series(each.map(|point| Circle::new(point, 2, colour(n).mix(0.5).filled())))?;
            }
            let (low, high) = y.range();
            chart.draw_series([ErrorBar::new_vertical(
                x.mean,
                low.max(0.0),
                y.mean,
                high,
                colour(n).mix(0.6).stroke_width(1),
                6,
            )])?;
            let (low, high) = x.range();
            chart.draw_series([ErrorBar::new_horizontal(
                y.mean,
                low.max(0.0),
                x.mean,
                high.min(1.0),
                colour(n).mix(0.6).stroke_width(1),
                6,
            )])?;
            // When the colours repeat, the shape distinguishes the points.
            let at = (x.mean, y.mean);
            match n / COLOURS.len() {
                0 => chart.draw_series([Circle::new(at, 6, colour(n).filled())]).map(drop)?,
                1 => chart.draw_series([TriangleMarker::new(at, 8, colour(n).filled())]).map(drop)?,
                _ => chart.draw_series([Cross::new(at, 6, colour(n).stroke_width(2))]).map(drop)?,
            }
            names.push((group.name(), n));
        }
        key(area, 645, &names)
    })
}

/// The airtime of each kind of terminal and of the access point, one bar per point.
pub fn airtime(groups: &[&Group]) -> Result<String, DrawError> {
    let mut kinds: Vec<&String> = groups.iter().flat_map(|g| g.airtime_percent.keys()).collect();
    kinds.sort();
    kinds.dedup();
    svg(900, 26 * groups.len() as u32 + 66, "Airtime", |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .margin_top(28)
            .margin_right(28)
            .x_label_area_size(30)
            .y_label_area_size(250)
            .build_cartesian_2d(0.0..100.0, 0.0..groups.len() as f64)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID)
            .axis_style(INK)
            .y_labels(0)
            .x_label_formatter(&|x| format!("{x:.0} %"))
            .label_style((FONT, 12).into_font().color(&INK))
            .draw()?;
        let (_, pixels) = chart.plotting_area().get_pixel_range();
        let row = f64::from(pixels.end - pixels.start) / groups.len() as f64;
        for (n, group) in groups.iter().enumerate() {
            let bottom = (groups.len() - 1 - n) as f64;
            let parts = kinds.iter().map(|k| group.airtime_percent.get(*k).copied().unwrap_or(0.0));
            let mut left = 0.0;
            for (tint, part) in parts.chain([group.ap_airtime_percent]).enumerate() {
                let tint = if tint == kinds.len() { INK } else { colour(tint) };
                chart.draw_series([Rectangle::new(
                    [(left, bottom + 0.18), (left + part, bottom + 0.82)],
                    tint.filled(),
                )])?;
                left += part;
            }
            let name = shortened(&group.name(), 38);
            let y = pixels.start + (row * (n as f64 + 0.5)) as i32;
            let right = (FONT, 12).into_font().color(&INK).pos(Pos::new(HPos::Right, VPos::Center));
            area.draw(&Text::new(name, (250, y), right))?;
        }
        for (n, name) in kinds.iter().map(|k| k.as_str()).chain(["access point"]).enumerate() {
            let x = 262 + n as i32 * 120;
            let tint = if n == kinds.len() { INK } else { colour(n) };
            area.draw(&Rectangle::new([(x, 9), (x + 14, 19)], tint.filled()))?;
            area.draw(&Text::new(name.to_owned(), (x + 20, 8), (FONT, 12).into_font().color(&INK)))?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_empty_plot_is_still_a_picture() {
        assert!(timelines(&[TerminalSeries::default()], 0.0, 10.0).unwrap().contains("<svg"));
        assert!(queues(&[], 10.0).unwrap().contains("<svg"));
        let point = (5.0, Estimate { mean: 1.0, median: 1.0, half_width: None, n: 1 });
        let one = Curve { name: "a".into(), points: vec![point] };
        assert!(curves(&[one], "x", "y", Some(1.0)).unwrap().contains("<svg"));
    }
}
