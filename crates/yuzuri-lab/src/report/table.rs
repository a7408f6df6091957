//! One figure of all points as a Markdown table: one column for each value of one field, one row
//! for each combination of the others.

use super::data::{Estimate, FigureOf, Group, Summary};
use crate::LabError;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::str::FromStr;

/// Compares points: a point whose values contain `word` with the point that has `other` instead,
/// for equal seeds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PointComparison {
    /// The word of the points shown.
    pub word: String,
    /// The word of the reference points.
    pub other: String,
}

/// A text that does not name two words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("give two different words separated by a slash, as in ios/linux")]
pub struct ParseComparisonError;

impl FromStr for PointComparison {
    type Err = ParseComparisonError;

    fn from_str(text: &str) -> Result<PointComparison, ParseComparisonError> {
        match text.split_once('/') {
            Some((word, other)) if !word.is_empty() && !other.is_empty() && word != other => {
                Ok(PointComparison { word: word.into(), other: other.into() })
            }
            _ => Err(ParseComparisonError),
        }
    }
}

/// How the values of several seeds are combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Average {
    /// The mean, with half the width of its 95 % confidence interval.
    #[default]
    Mean,
    /// The median, because a few seeds give no meaningful interval.
    Median,
}

/// The figures that can be selected, in addition to the kinds of terminals.
const FIGURES: [(&str, FigureOf); 11] = [
    ("throughput_mbps", |group| group.throughput_mbps),
    ("jain", |group| group.jain),
    ("jain_weighted", |group| group.jain_weighted),
    ("rtt_mean_ms", |group| group.rtt_mean_ms),
    ("rtt_p95_ms", |group| group.rtt_p95_ms),
    ("retransmissions", |group| group.retransmissions),
    ("loss_percent", |group| group.loss_percent),
    ("min_part", |group| group.min_part),
    ("call_up_p99_ms", |group| group.call_p99_ms[0]),
    ("call_down_p99_ms", |group| group.call_p99_ms[1]),
    ("call_lost", |group| group.call_lost),
];

impl Group {
    /// A figure by its name in [`FIGURES`], or the Mbit/s of one terminal of a kind.
    fn figure(&self, name: &str) -> Option<Estimate> {
        match FIGURES.iter().find(|(known, _)| *known == name) {
            Some((_, figure)) => figure(self),
            None => self.kinds.get(name).copied(),
        }
    }

    /// By how many percent a figure exceeds that of another point, for equal seeds.
    fn percent_above(&self, other: &Group, figure: &str) -> Option<Estimate> {
        let others = other.by_seed();
        let above = self.by_seed().into_iter().filter_map(|(seed, here)| {
            let there = others.get(&seed)?.figure(figure)?.mean;
            (there != 0.0).then_some((here.figure(figure)?.mean / there - 1.0) * 100.0)
        });
        Estimate::of(above.collect::<Vec<_>>())
    }

    fn label(&self, field: &str) -> &str {
        let label = self.labels.iter().find(|label| label.field == field);
        match (label, &self.alone) {
            (Some(label), _) => &label.value,
            (None, Some(_)) if field == "variant" => "alone",
            (None, _) => "",
        }
    }
}

impl Summary {
    /// The table of a figure, with one column for each value of `across`, or by default of the
    /// field with the most values. With `beside`: by how many percent the figure is greater for the
    /// points with the first word than for those with the second, seed by seed.
    ///
    /// # Errors
    /// If the results do not have the figure, the field or the words, with a list of those that
    /// they have.
    pub fn table(
        &self,
        figure: &str,
        across: Option<&str>,
        beside: Option<&PointComparison>,
        middle: Average,
    ) -> Result<String, LabError> {
        match beside {
            None => self.table_of(figure, across, |group| group.figure(figure).map(|e| cell(e, middle))),
            Some(beside) => {
                let pairs = Summary {
                    groups: self.with_partner(beside).map(|(g, _)| g.clone()).collect(),
                    ..self.clone()
                };
                if pairs.groups.is_empty() {
                    let points = self.groups.iter().map(|group| group.point.as_str());
                    let pair = format!("{} with a partner of {}", beside.word, beside.other);
                    return Err(unknown("points", &pair, points));
                }
                pairs.table_of(figure, across, |group| {
                    let (_, other) = self.with_partner(beside).find(|(one, _)| one.point == group.point)?;
                    group.percent_above(other, figure).map(|e| percent_cell(e, middle))
                })
            }
        }
    }

    /// The points with the first word, each with the corresponding point with the other word.
    fn with_partner<'a>(
        &'a self,
        beside: &'a PointComparison,
    ) -> impl Iterator<Item = (&'a Group, &'a Group)> {
        let partner = |group: &Group| {
            let wanted: Vec<(String, String)> = group
                .labels
                .iter()
                .map(|label| (label.field.clone(), label.value.replacen(&beside.word, &beside.other, 1)))
                .collect();
            self.groups.iter().find(|other| {
                let labels = other.labels.iter().map(|label| (label.field.as_str(), label.value.as_str()));
                other.alone == group.alone
                    && other.point != group.point
                    && labels.eq(wanted.iter().map(|(f, v)| (f.as_str(), v.as_str())))
            })
        };
        self.groups.iter().filter_map(move |group| Some((group, partner(group)?)))
    }

    fn table_of(
        &self,
        figure: &str,
        across: Option<&str>,
        value_of: impl Fn(&Group) -> Option<String>,
    ) -> Result<String, LabError> {
        let kinds: BTreeSet<&str> =
            self.groups.iter().flat_map(|group| group.kinds.keys().map(String::as_str)).collect();
        let figures = || FIGURES.iter().map(|(name, _)| *name).chain(kinds.iter().copied());
        if !figures().any(|known| known == figure) {
            return Err(unknown("figure", figure, figures()));
        }
        let fields = in_order(self.groups.iter().flat_map(|g| g.labels.iter().map(|l| l.field.as_str())));
        let values = |field: &str| in_order(self.groups.iter().map(|group| group.label(field)));
        let across = match across {
            Some(field) if fields.contains(&field) => Some(field),
            Some(field) => return Err(unknown("field", field, fields.iter().copied())),
            // If there are several such fields, use the first.
            None => fields.iter().copied().rev().max_by_key(|field| values(field).len()),
        };
        let rows: Vec<&str> = fields.iter().copied().filter(|field| Some(*field) != across).collect();
        let columns = across.map_or_else(|| vec![""], values);
        let key = |group: &Group| -> Vec<String> {
            let alone = group.alone.clone().unwrap_or_default();
            rows.iter().map(|field| group.label(field).to_owned()).chain([alone]).collect()
        };
        let mut keys: Vec<Vec<String>> = Vec::new();
        for group in &self.groups {
            let key = key(group);
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        let has_alone = self.groups.iter().any(|group| group.alone.is_some());
        let mut head: Vec<String> = rows.iter().map(|field| (*field).to_owned()).collect();
        if has_alone {
            head.push("alone".into());
        }
        head.extend(columns.iter().map(|value| match across {
            Some(field) => format!("{} {value}", field.rsplit('.').next().unwrap_or(field)),
            None => figure.to_owned(),
        }));
        let mut text = String::new();
        let _ = writeln!(text, "| {} |", head.join(" | "));
        let _ = writeln!(text, "|{}", "---|".repeat(head.len()));
        for row in keys {
            let cells = columns.iter().map(|value| {
                let here =
                    |group: &&Group| key(group) == row && across.is_none_or(|f| group.label(f) == *value);
                self.groups.iter().find(here).and_then(&value_of).unwrap_or_default()
            });
            let names = row.iter().take(row.len() - usize::from(!has_alone)).cloned();
            let _ = writeln!(text, "| {} |", names.chain(cells).collect::<Vec<_>>().join(" | "));
        }
        Ok(text)
    }
}

/// A figure, with half the width of its interval if it is a mean of several values.
fn cell(estimate: Estimate, middle: Average) -> String {
    let digits = |value: f64| if value.abs() < 10.0 { 3 } else { 1 };
    let text = |value: f64| format!("{value:.*}", digits(value));
    match (middle, estimate.half_width) {
        (Average::Median, _) => text(estimate.median),
        (Average::Mean, None) => text(estimate.mean),
        (Average::Mean, Some(half)) => {
            format!("{} ± {half:.*}", text(estimate.mean), digits(estimate.mean))
        }
    }
}

/// The same in percent, with its sign.
fn percent_cell(estimate: Estimate, middle: Average) -> String {
    match (middle, estimate.half_width) {
        (Average::Median, _) => format!("{:+.1} %", estimate.median),
        (Average::Mean, None) => format!("{:+.1} %", estimate.mean),
        (Average::Mean, Some(half)) => format!("{:+.1} % ± {half:.1}", estimate.mean),
    }
}

/// The distinct values in the order of their first occurrence.
fn in_order<'a>(all: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    for one in all.filter(|one| !one.is_empty()) {
        if !seen.contains(&one) {
            seen.push(one);
        }
    }
    seen
}

fn unknown<'a>(what: &str, word: &str, there: impl Iterator<Item = &'a str>) -> LabError {
    LabError::Run(format!(
        "the results have no {what} '{word}': there are {}",
        there.collect::<Vec<_>>().join(", ")
    ))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use yuzuri_scenario::Label;

    fn group(loss: &str, variant: &str, mbps: &[f64]) -> Group {
        let label = |field: &str, value: &str| Label {
            field: field.into(),
            value: value.into(),
            number: value.parse().ok(),
        };
        Group {
            point: format!("{loss},{variant}"),
            labels: vec![label("path.loss", loss), label("variant", variant)],
            valid: mbps.len(),
            throughput_mbps: Estimate::of(mbps.iter().copied()),
            kinds: [("phone".to_owned(), Estimate::of([mbps[0] / 2.0]).unwrap())].into(),
            ..Group::default()
        }
    }

    fn summary() -> Summary {
        let groups = vec![
            group("0", "none", &[43.6]),
            group("0", "floor", &[44.9]),
            group("0.001", "none", &[18.0, 18.2]),
            group("0.001", "floor", &[40.0]),
            group("0.01", "none", &[6.0]),
        ];
        Summary { title: "six".into(), made_by: Vec::new(), groups }
    }

    #[test]
    fn each_value_is_a_column_and_missing_runs_are_gaps() {
        let table = summary().table("throughput_mbps", None, None, Average::Mean).unwrap();
        assert_eq!(
            table,
            "| variant | loss 0 | loss 0.001 | loss 0.01 |\n|---|---|---|---|\n\
             | none | 43.6 | 18.1 ± 1.3 | 6.000 |\n| floor | 44.9 | 40.0 |  |\n"
        );
        let turned = summary().table("phone", Some("variant"), None, Average::Mean).unwrap();
        assert!(turned.starts_with("| path.loss | variant none | variant floor |\n"), "{turned}");
        assert!(turned.contains("| 0 | 21.8 | 22.4 |\n"), "{turned}");
    }

    #[test]
    fn an_unknown_name_is_reported_with_the_known_ones() {
        let error = summary().table("tablet", None, None, Average::Mean).unwrap_err().to_string();
        assert!(error.contains("'tablet'") && error.contains("phone") && error.contains("jain"), "{error}");
        let error =
            summary().table("jain", Some("path.rtt_ms"), None, Average::Mean).unwrap_err().to_string();
        assert!(error.contains("path.rtt_ms") && error.contains("path.loss, variant"), "{error}");
    }

    /// The stored runs: the iPhone's constants compared with Linux's, with the same packets lost
    /// for each seed.
    #[test]
    fn points_are_compared_seed_by_seed() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../results/identification");
        let beside: PointComparison = "ios/linux".parse().unwrap();
        let table = crate::report::read(&folder).unwrap();
        let table = table.table("throughput_mbps", Some("path.loss"), Some(&beside), Average::Mean).unwrap();
        let total = |variant: &str, seed: u32| -> f64 {
            let run = folder.join(format!("path.loss=0.1,64M-25ms-{variant}/seed-{seed}/run.json"));
            let run: serde_json::Value = serde_json::from_slice(&std::fs::read(run).unwrap()).unwrap();
            run["totals"]["throughput_mbps"].as_f64().unwrap()
        };
        let above: f64 = (1..=10).map(|seed| total("ios", seed) / total("linux", seed) - 1.0).sum();
        let row = table.lines().find(|line| line.starts_with("| 64M-25ms-ios |")).unwrap();
        assert!(row.contains(&format!("| {:+.1} % ± ", above * 10.0)), "{above} {table}");
        assert!(!table.contains("linux"), "{table}");
    }

    #[test]
    fn words_that_match_no_pair_of_points_are_refused() {
        for (text, right) in [("a/b", true), ("a", false), ("/b", false), ("a/", false), ("a/a", false)] {
            assert_eq!(text.parse::<PointComparison>().is_ok(), right, "{text}");
        }
        let beside: PointComparison = "floor/cap".parse().unwrap();
        let error = summary().table("jain", None, Some(&beside), Average::Mean).unwrap_err().to_string();
        assert!(error.contains("floor with a partner of cap") && error.contains("0.001,floor"), "{error}");
    }
}
