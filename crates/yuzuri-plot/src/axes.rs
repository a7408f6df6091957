//! Axes: rounded limits, short numbers, grid and labels.

use crate::svg::Drawn;
use plotters::coord::ranged1d::ValueFormatter;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

/// Colour of text and axes.
pub const INK: RGBColor = RGBColor(90, 90, 90);
/// Colour of the grid.
pub const GRID: RGBColor = RGBColor(225, 225, 225);
/// Font family of all text.
pub const FONT: &str = "sans-serif";

/// A round number at least 2 % above `value`, for the end of an axis.
pub fn ceiling(value: f64) -> f64 {
    if value <= 0.0 || !value.is_finite() {
        return 1.0;
    }
    let power = 10f64.powf(value.log10().floor());
    let steps = [1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    steps.into_iter().map(|s| s * power).find(|s| *s >= value * 1.02).unwrap_or(12.0 * power)
}

/// The finite value nearest to the position of a quantile, for the end of an axis. Not for figures
/// that people read: `yuzuri-stats` has those.
pub fn axis_quantile(mut values: Vec<f64>, part: f64) -> Option<f64> {
    values.retain(|value| value.is_finite());
    values.sort_by(f64::total_cmp);
    values.get(((values.len().max(1) - 1) as f64 * part).round() as usize).copied()
}

/// The end of an axis that a single spike does not stretch: at most twice what 99 % of the values
/// stay below.
pub fn ceiling_without_spikes(values: Vec<f64>) -> f64 {
    let greatest = values.iter().copied().fold(0.0, f64::max);
    ceiling(axis_quantile(values, 0.99).map_or(greatest, |high| greatest.min(high * 2.0)))
}

/// Formats a number of an axis without superfluous digits.
pub fn short(value: &f64) -> String {
    match value.abs() {
        v if v >= 100.0 || (v - v.round()).abs() < 1e-9 => format!("{:.0}", value + 0.0),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.0e}"),
    }
}

/// Draws grid, axes and their labels; about `labels` labels on each axis.
///
/// # Errors
/// If an element could not be drawn.
pub fn frame<X>(
    chart: &mut ChartContext<'_, SVGBackend<'_>, Cartesian2d<X, RangedCoordf64>>,
    x_words: &str,
    y_words: &str,
    x_label: &dyn Fn(&f64) -> String,
    labels: (usize, usize),
) -> Drawn
where
    X: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(INK)
        .x_labels(labels.0)
        .y_labels(labels.1)
        .x_label_formatter(x_label)
        .y_label_formatter(&short)
        .x_desc(x_words)
        .y_desc(y_words)
        .label_style((FONT, 12).into_font().color(&INK))
        .axis_desc_style((FONT, 13).into_font().color(&INK))
        .draw()?;
    Ok(())
}

/// A step line: each value is valid until the next point.
pub fn steps(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut line = Vec::with_capacity(points.len() * 2);
    for pair in points.windows(2) {
        line.push(pair[0]);
        line.push((pair[1].0, pair[0].1));
    }
    line.extend(points.last());
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_numbers() {
        let ends: Vec<f64> = [23.9, 0.0, 98.0, 99.0, 101.0, f64::NAN].into_iter().map(ceiling).collect();
        assert_eq!(ends, [25.0, 1.0, 100.0, 120.0, 120.0, 1.0]);
    }

    #[test]
    fn an_outlier_does_not_extend_an_axis() {
        let spike = |count| [vec![1.0; count], vec![f64::NAN, 50.0]].concat();
        assert_eq!(axis_quantile(spike(2), 0.5), Some(1.0));
        assert_eq!(axis_quantile(vec![f64::NAN], 0.5), None);
        assert_eq!(ceiling_without_spikes(spike(500)), 2.5);
        assert_eq!(ceiling_without_spikes(spike(2)), 60.0);
        assert_eq!(ceiling_without_spikes(Vec::new()), 1.0);
    }

    #[test]
    fn numbers_are_short() {
        let all: Vec<String> = [-0.0, 1234.5, 12.34, 0.123, 0.0123].iter().map(short).collect();
        assert_eq!(all, ["0", "1234", "12.3", "0.12", "1e-2"]);
    }

    #[test]
    fn a_value_holds_until_the_next() {
        assert_eq!(steps(&[(0.0, 1.0), (2.0, 3.0)]), [(0.0, 1.0), (2.0, 1.0), (2.0, 3.0)]);
        assert!(steps(&[]).is_empty());
    }
}
