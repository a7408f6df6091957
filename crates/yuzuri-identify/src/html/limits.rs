//! What limited a sender, round by round.

use yuzuri_infer::window_trace::Round;
use yuzuri_limits::Limit;
use yuzuri_plot::limits;

/// Stretches of rounds with one limit, from and to in nanoseconds.
pub(super) fn intervals(rounds: &[Round]) -> Vec<(i64, i64, Limit)> {
    let mut intervals: Vec<(i64, i64, Limit)> = Vec::new();
    for round in rounds {
        let Some(limit) = round.limited_by else { continue };
        match intervals.last_mut() {
            // The time between two rounds belongs to neither.
            Some((_, to, of)) if *of == limit => *to = round.end_ns,
            _ => intervals.push((round.start_ns, round.end_ns, limit)),
        }
    }
    intervals
}

/// The legend of the limits that a flow met, by their share of the time.
pub(super) fn legend(rounds: &[Round]) -> String {
    limits::legend(intervals(rounds).into_iter().map(|(from, to, limit)| (limit, (to - from) as f64)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use yuzuri_plot::hex;

    #[test]
    fn rounds_of_one_limit_are_one_stretch() {
        let round = |n: i64, limited_by| Round { start_ns: n, end_ns: n + 1, limited_by, ..Round::default() };
        let rounds = [
            round(0, Some(Limit::Path)),
            round(1, Some(Limit::Path)),
            round(2, None),
            round(3, Some(Limit::Recovery)),
            round(4, Some(Limit::Path)),
        ];
        assert_eq!(intervals(&rounds), [(0, 2, Limit::Path), (3, 4, Limit::Recovery), (4, 5, Limit::Path)]);
        let legend = legend(&rounds);
        assert!(legend.contains("path 75 %") && legend.contains("recovery 25 %"), "{legend}");
        assert!(!legend.contains("pacing"), "{legend}");
    }

    #[test]
    fn colours_are_all_different() {
        let mut all: Vec<String> = limits::dark().map(|(colour, _)| hex(colour)).collect();
        all.extend(super::super::svg::DARK.map(|(colour, _)| hex(colour)));
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count, "one that is two things has one colour in the dark");
    }
}
