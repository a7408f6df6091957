//! Shared by all pictures of the page: colours, thinning.

use plotters::prelude::*;
use yuzuri_infer::window_trace::Round;
use yuzuri_plot::{GRID, INK};

/// The observations (in Okabe and Ito's colours, which remain distinguishable with colour
/// blindness).
pub(super) const SEEN: RGBColor = RGBColor(0, 114, 178);
/// The algorithm's prediction.
pub(super) const REPLAYED: RGBColor = RGBColor(213, 94, 0);
/// A second algorithm for comparison.
pub(super) const OTHER: RGBColor = RGBColor(0, 158, 115);
/// Losses.
pub(super) const LOSS: RGBColor = RGBColor(204, 51, 17);
/// Rounds of loss recovery, and rounds with another limit than the window.
pub(super) const REPAIR: RGBColor = RGBColor(245, 214, 190);
pub(super) const LIMITED: RGBColor = RGBColor(222, 226, 232);

/// The colours above on a dark page, as the page's style replaces them in pictures.
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

/// Maximum number of points of a line: more than the pixels of a picture are not visible.
const MAX_POINTS: usize = 1200;

/// Indices of the rounds that are drawn: all of them, or of each group those with the least and the
/// greatest window.
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
    fn thinned_rounds_include_the_extremes_in_order() {
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
}
