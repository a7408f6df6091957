//! What all pictures share: colours, axes, thinning.

use super::compact::compact;
use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::drawing::DrawingAreaErrorKind;
use plotters::prelude::*;
use yuzuri_infer::window_trace::Round;

pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
pub(super) type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;
/// Why a picture could not be drawn.
pub(crate) type DrawError = DrawingAreaErrorKind<std::io::Error>;
pub(super) type Drawn = Result<(), DrawError>;

/// What was seen (of Okabe and Ito's colours, which stay apart for people who see few of them).
pub(super) const SEEN: RGBColor = RGBColor(0, 114, 178);
/// What the algorithm predicted.
pub(super) const REPLAYED: RGBColor = RGBColor(213, 94, 0);
/// A second algorithm beside it.
pub(super) const OTHER: RGBColor = RGBColor(0, 158, 115);
/// Losses.
pub(super) const LOSS: RGBColor = RGBColor(204, 51, 17);
/// Words and axes.
pub(super) const INK: RGBColor = RGBColor(90, 90, 90);
pub(super) const GRID: RGBColor = RGBColor(225, 225, 225);
/// Rounds in which losses were repaired, and rounds that something else limited.
pub(super) const REPAIR: RGBColor = RGBColor(245, 214, 190);
pub(super) const LIMITED: RGBColor = RGBColor(222, 226, 232);
pub(super) const FONT: &str = "sans-serif";

/// The colours above in the dark: as the page's style replaces them in pictures.
pub(super) const DARK: [(RGBColor, &str); 9] = [
    (SEEN, "#56b4e9"),
    (REPLAYED, "#ff9248"),
    (OTHER, "#35c99a"),
    (LOSS, "#ff6b57"),
    (INK, "#b4b4b4"),
    (GRID, "#3a3a3a"),
    (REPAIR, "#4d3422"),
    (LIMITED, "#31353b"),
    (BLACK, "#eeeeee"),
];

/// A colour as it stands in a picture.
pub(super) fn hex(colour: RGBColor) -> String {
    format!("#{:02X}{:02X}{:02X}", colour.0, colour.1, colour.2)
}

/// Points of a line at most; more than the pixels of a picture show nothing.
const MAX_POINTS: usize = 1200;

/// Draws into an SVG of this size, whose ground is the page's.
pub(super) fn svg(
    (width, height): (u32, u32),
    words: &str,
    draw: impl FnOnce(&Area<'_>) -> Drawn,
) -> Result<String, DrawError> {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, (width, height)).into_drawing_area();
        draw(&area)?;
        area.present()?;
    }
    // So that it fits its place and is read aloud.
    let text = compact(&text);
    Ok(text.replacen("<svg ", &format!("<svg role=\"img\" aria-label=\"{words}\" "), 1))
}

/// A round number at or above, for the end of an axis.
pub(super) fn ceiling(value: f64) -> f64 {
    if value <= 0.0 || !value.is_finite() {
        return 1.0;
    }
    let power = 10f64.powf(value.log10().floor());
    let steps = [1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    steps.into_iter().map(|s| s * power).find(|s| *s >= value * 1.02).unwrap_or(12.0 * power)
}

/// A number of an axis, no longer than it needs to be.
pub(super) fn short(value: &f64) -> String {
    match value.abs() {
        v if v >= 100.0 || (v - v.round()).abs() < 1e-9 => format!("{:.0}", value + 0.0),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.0e}"),
    }
}

/// Grid, axes and their words.
pub(super) fn frame(
    chart: &mut Chart<'_, '_>,
    x_words: &str,
    y_words: &str,
    labels: (usize, usize),
) -> Drawn {
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(INK)
        .x_labels(labels.0)
        .y_labels(labels.1)
        .x_label_formatter(&short)
        .y_label_formatter(&short)
        .x_desc(x_words)
        .y_desc(y_words)
        .label_style((FONT, 12).into_font().color(&INK))
        .axis_desc_style((FONT, 13).into_font().color(&INK))
        .draw()?;
    Ok(())
}

/// The value that a part of all values lies below.
pub(super) fn quantile(mut values: Vec<f64>, part: f64) -> Option<f64> {
    values.retain(|value| value.is_finite());
    values.sort_by(f64::total_cmp);
    values.get(((values.len().max(1) - 1) as f64 * part).round() as usize).copied()
}

/// Places of the rounds that are drawn: all of them, or of each group the least and the greatest window.
pub(super) fn drawn(rounds: &[Round]) -> Vec<usize> {
    if rounds.len() <= MAX_POINTS {
        return (0..rounds.len()).collect();
    }
    let group = (rounds.len() * 2).div_ceil(MAX_POINTS);
    let mut places = Vec::new();
    for start in (0..rounds.len()).step_by(group) {
        let of = start..(start + group).min(rounds.len());
        let by = |a: &usize, b: &usize| rounds[*a].window.total_cmp(&rounds[*b].window);
        let (least, most) = (of.clone().min_by(by), of.max_by(by));
        places.extend(least.min(most));
        places.extend(least.max(most).filter(|_| least != most));
    }
    places
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn thinned_rounds_keep_the_extremes_in_order() {
        let rounds: Vec<Round> = (0..50_000)
            .map(|n| Round { window: if n == 777 { 1e6 } else { (n % 97) as f32 }, ..Round::default() })
            .collect();
        let places = drawn(&rounds);
        assert!(places.len() <= MAX_POINTS + 2, "{}", places.len());
        assert!(places.contains(&777));
        assert!(places.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(drawn(&rounds[..3]), [0, 1, 2]);
        assert!(drawn(&[]).is_empty());
    }

    #[test]
    fn axes_end_at_round_numbers() {
        assert_eq!(ceiling(23.9), 25.0);
        assert_eq!(ceiling(0.0), 1.0);
        assert_eq!(ceiling(99.0), 120.0);
        assert_eq!(short(&-0.0), "0");
    }

    #[test]
    fn quantiles_pass_over_what_is_no_number() {
        assert_eq!(quantile(vec![3.0, f64::NAN, 1.0, 2.0], 0.5), Some(2.0));
        assert_eq!(quantile(vec![f64::NAN], 0.5), None);
    }
}
