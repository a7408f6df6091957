//! What limited a sender, round by round: a lane under its window, in the colours of the page of `yuzuri watch`.

use super::svg::hex;
use plotters::prelude::RGBColor;
use std::fmt::Write as _;
use yuzuri_infer::window_trace::Round;
use yuzuri_limits::Limit;

/// A limit's colour, and the same in the dark.
fn colours(limit: Limit) -> (RGBColor, &'static str) {
    match limit {
        Limit::Application => (RGBColor(0x7b, 0x87, 0x94), "#8b98a8"),
        Limit::SendBuffer => (RGBColor(0x0f, 0x7f, 0x93), "#59b8c9"),
        Limit::ReceiverWindow => (RGBColor(0x8a, 0x52, 0xd6), "#c9a0ff"),
        Limit::SlowReader => (RGBColor(0xc5, 0x3b, 0x86), "#ff9fce"),
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
pub(super) fn colour(limit: Limit) -> RGBColor {
    colours(limit).0
}

/// Colours of pictures and what stands for them in the dark.
pub(super) fn dark() -> impl Iterator<Item = (RGBColor, &'static str)> {
    Limit::ALL.into_iter().map(colours)
}

/// Stretches of rounds with one limit, from and to in nanoseconds.
pub(super) fn stretches(rounds: &[Round]) -> Vec<(i64, i64, Limit)> {
    let mut stretches: Vec<(i64, i64, Limit)> = Vec::new();
    for round in rounds {
        let Some(limit) = round.limited_by else { continue };
        match stretches.last_mut() {
            // What lies between two rounds is no round of either.
            Some((_, to, of)) if *of == limit => *to = round.end_ns,
            _ => stretches.push((round.start_ns, round.end_ns, limit)),
        }
    }
    stretches
}

/// The legend of the limits that a flow met, by their share of the time.
pub(super) fn legend(rounds: &[Round]) -> String {
    let mut times: Vec<(Limit, i64)> = Limit::ALL.into_iter().map(|limit| (limit, 0)).collect();
    for (from, to, limit) in stretches(rounds) {
        if let Some((_, time)) = times.iter_mut().find(|(of, _)| *of == limit) {
            *time += to - from;
        }
    }
    let all = times.iter().map(|(_, time)| *time).sum::<i64>().max(1);
    times.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
    let mut text = String::new();
    for (limit, time) in times.into_iter().filter(|(_, time)| *time > 0) {
        let percent = time as f64 * 100.0 / all as f64;
        let _ = write!(text, " <span class=\"key {0}\">{0} {percent:.0} %</span>", limit.name());
    }
    text
}

/// The legend's colours as style.
pub(super) fn style() -> String {
    let mut light = String::new();
    let mut dark = String::new();
    for limit in Limit::ALL {
        let (colour, instead) = colours(limit);
        let _ = write!(light, ".key.{}{{--key:{}}}", limit.name(), hex(colour));
        let _ = write!(dark, ".key.{}{{--key:{instead}}}", limit.name());
    }
    format!("{light}@media(prefers-color-scheme:dark){{{dark}}}")
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(stretches(&rounds), [(0, 2, Limit::Path), (3, 4, Limit::Recovery), (4, 5, Limit::Path)]);
        let legend = legend(&rounds);
        assert!(legend.contains("path 75 %") && legend.contains("recovery 25 %"), "{legend}");
        assert!(!legend.contains("pacing"), "{legend}");
    }

    #[test]
    fn colours_are_all_different() {
        let mut all: Vec<String> = dark().map(|(colour, _)| hex(colour)).collect();
        all.extend(super::super::svg::DARK.map(|(colour, _)| hex(colour)));
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count, "one that is two things has one colour in the dark");
    }
}
