//! A sender's limits: a lane under its window, in the colours of `yuzuri watch`'s page, and the
//! legend.

use crate::svg::{Area, Drawn, hex};
use plotters::prelude::*;
use std::fmt::Write as _;
use yuzuri_limits::Limit;

/// Height of the lane.
pub const LANE: u32 = 16;
/// Maximum number of stretches side by side in a lane: shorter ones are drawn wide enough to be
/// visible.
const ACROSS: f64 = 900.0;

/// A limit's colour, and its counterpart on a dark page.
fn colours(limit: Limit) -> (RGBColor, &'static str) {
    match limit {
        Limit::Application => (RGBColor(0x7b, 0x87, 0x94), "#8b98a8"),
        Limit::SendBuffer => (RGBColor(0x0f, 0x7f, 0x93), "#59b8c9"),
        Limit::ReceiverWindow => (RGBColor(0x8a, 0x52, 0xd6), "#c9a0ff"),
        Limit::SlowReader => (RGBColor(0xc5, 0x3b, 0x86), "#ff9fce"),
        Limit::Receiver => (RGBColor(0xa8, 0x47, 0xae), "#e4a0e7"),
        Limit::SlowStart => (RGBColor(0x3f, 0x86, 0xd9), "#9fc7ff"),
        Limit::CongestionAvoidance => (RGBColor(0x1f, 0x5f, 0xbf), "#5c9dff"),
        Limit::Loss => (RGBColor(0xc4, 0x28, 0x1b), "#ff6b5e"),
        Limit::Sharing => (RGBColor(0x6f, 0x4f, 0xd0), "#b79bff"),
        Limit::Recovery => (RGBColor(0xc3, 0x54, 0x00), "#ff9a4a"),
        Limit::Timeout => (RGBColor(0xb3, 0x12, 0x4a), "#ff4f7d"),
        Limit::Pacing => (RGBColor(0x8f, 0x73, 0x00), "#f0d24a"),
        Limit::OwnDevice => (RGBColor(0x0b, 0x7f, 0x6b), "#4fd1b5"),
        Limit::SenderRate => (RGBColor(0x5c, 0x7a, 0x29), "#b5d16a"),
        Limit::Path => (RGBColor(0x2b, 0x7a, 0x38), "#7fd18b"),
        Limit::Unknown => (RGBColor(0xa9, 0xb3, 0xbf), "#4a5563"),
    }
}

/// A limit's colour.
pub fn colour(limit: Limit) -> RGBColor {
    colours(limit).0
}

/// Colours of pictures and their counterparts for a dark page.
pub fn dark() -> impl Iterator<Item = (RGBColor, &'static str)> {
    Limit::ALL.into_iter().map(colours)
}

/// Time in which something limited a sender, or a part of all senders: from its start to its end in
/// seconds, and from bottom to top as fractions of the lane's height.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Piece {
    /// When it begins.
    pub from_s: f64,
    /// When it ends.
    pub to_s: f64,
    /// From bottom to top, as fractions of the lane's height.
    pub part: (f64, f64),
    /// The limit.
    pub limit: Limit,
}

/// Draws the lane. Its axis begins and ends where that of the chart above does: `left` and `right`
/// pixels from the area's edges.
///
/// # Errors
/// If an element could not be drawn.
pub fn lane(area: &Area<'_>, (left, right): (u32, u32), end_s: f64, pieces: &[Piece]) -> Drawn {
    let mut chart = ChartBuilder::on(area)
        .margin(2)
        .margin_left(left)
        .margin_right(right)
        .build_cartesian_2d(0.0..end_s, 0.0..1.0)?;
    chart.draw_series(pieces.iter().map(|piece| {
        let from = piece.from_s.clamp(0.0, end_s);
        let to = piece.to_s.max(from + end_s / ACROSS).min(end_s);
        Rectangle::new([(from, piece.part.0), (to, piece.part.1)], colour(piece.limit).filled())
    }))?;
    Ok(())
}

/// The legend of the limits that occurred, by their share of the time.
pub fn legend(times: impl IntoIterator<Item = (Limit, f64)>) -> String {
    let mut sums: Vec<(Limit, f64)> = Limit::ALL.into_iter().map(|limit| (limit, 0.0)).collect();
    for (limit, time) in times {
        if let Some((_, sum)) = sums.iter_mut().find(|(of, _)| *of == limit) {
            *sum += time;
        }
    }
    let all: f64 = sums.iter().map(|(_, time)| *time).sum();
    sums.sort_by(|a, b| b.1.total_cmp(&a.1));
    let mut text = String::new();
    for (limit, time) in sums.into_iter().filter(|(_, time)| *time > 0.0) {
        let share = match time * 100.0 / all {
            percent if percent < 0.5 => "&lt;1".into(),
            percent => format!("{percent:.0}"),
        };
        let _ = write!(text, " <span class=\"key {0}\">{0} {share} %</span>", limit.name());
    }
    text
}

/// The legend's colours as style: of light and dark pages, or of pages that are always light.
pub fn style(has_dark: bool) -> String {
    let mut light = String::new();
    let mut dark = String::new();
    for limit in Limit::ALL {
        let (colour, instead) = colours(limit);
        let _ = write!(light, ".key.{}{{--key:{}}}", limit.name(), hex(colour));
        let _ = write!(dark, ".key.{}{{--key:{instead}}}", limit.name());
    }
    if has_dark { format!("{light}@media(prefers-color-scheme:dark){{{dark}}}") } else { light }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::svg;

    #[test]
    fn a_legend_rounds_no_share_to_zero() {
        let shares = legend([(Limit::Path, 0.995), (Limit::Loss, 0.005), (Limit::SlowReader, 0.004)]);
        assert!(shares.contains("slow-reader &lt;1 %") && !shares.contains(" 0 %"), "{shares}");
    }

    #[test]
    fn a_legend_has_the_shares_of_the_time_the_largest_first() {
        let legend_text = legend([(Limit::Path, 2.0), (Limit::Recovery, 1.0), (Limit::Path, 1.0)]);
        assert!(legend_text.contains("path 75 %") && legend_text.contains("recovery 25 %"), "{legend_text}");
        assert!(
            legend_text.find("path") < legend_text.find("recovery") && !legend_text.contains("pacing"),
            "{legend_text}"
        );
        assert_eq!(legend([]), "");
    }

    #[test]
    fn colours_are_all_different() {
        for of in [|(light, _): (RGBColor, &str)| hex(light), |(_, dark): (RGBColor, &str)| dark.to_owned()] {
            let mut all: Vec<String> = dark().map(of).collect();
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), Limit::ALL.len());
        }
    }

    #[test]
    fn a_lane_has_each_piece_and_short_ones_can_be_seen() {
        let piece = |from_s, to_s, limit| Piece { from_s, to_s, part: (0.0, 1.0), limit };
        let pieces = [
            piece(0.0, 6.0, Limit::Path),
            piece(6.0, 6.0001, Limit::Timeout),
            piece(6.0001, 99.0, Limit::Loss),
        ];
        let picture =
            svg((916, LANE), "What limited it", None, |area| lane(area, (8, 8), 10.0, &pieces)).unwrap();
        for limit in [Limit::Path, Limit::Timeout, Limit::Loss] {
            assert!(picture.contains(&format!("fill=\"{}\"", hex(colour(limit)))), "{limit}: {picture}");
        }
        // 0.1 ms of 10 s is less than a pixel.
        let wide = picture.lines().find(|line| line.contains(&hex(colour(Limit::Timeout)))).unwrap();
        assert!(wide.contains("h1v"), "{wide}");
    }
}
