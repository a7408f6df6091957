//! Figures: sample count, median, spread, and whether the target is met.

use serde::Serialize;
use std::fmt::Write;
use yuzuri_stats::median_of_sorted;

/// The target of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    AtMost(f64),
    AtLeast(f64),
    Below(f64),
}

impl Target {
    fn is_met_by(self, value: f64) -> bool {
        match self {
            Target::AtMost(bound) => value <= bound,
            Target::AtLeast(bound) => value >= bound,
            Target::Below(bound) => value < bound,
        }
    }
}

/// One line of a table: the median of the measurements, and their spread.
#[derive(Debug, Clone, Serialize)]
pub struct Figure {
    pub name: String,
    pub unit: &'static str,
    pub median: f64,
    pub min: f64,
    pub max: f64,
    /// Number of measurements.
    pub n: usize,
    pub target: Option<Target>,
    /// Whether the median meets the target; none without a target.
    pub pass: Option<bool>,
    /// A remark that the table heading does not cover.
    pub note: String,
}

impl Figure {
    /// The figure of these measurements; none if there are none.
    pub fn of(name: impl Into<String>, unit: &'static str, values: &[f64]) -> Option<Figure> {
        let sorted = sorted(values);
        Some(Figure {
            name: name.into(),
            unit,
            median: median_of_sorted(&sorted)?,
            min: *sorted.first()?,
            max: *sorted.last()?,
            n: sorted.len(),
            target: None,
            pass: None,
            note: String::new(),
        })
    }

    /// Sets the target.
    pub fn with_target(mut self, target: Target) -> Figure {
        self.target = Some(target);
        self.pass = Some(target.is_met_by(self.median));
        self
    }

    /// Sets the remark.
    pub fn note(mut self, note: impl Into<String>) -> Figure {
        self.note = note.into();
        self
    }
}

/// The finite values, sorted.
fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// A confidence interval of at least 95 % for the true median, by the binomial distribution of the
/// number of values below it; none for fewer than 6 values.
pub fn median_interval(values: &[f64]) -> Option<(f64, f64)> {
    let sorted = sorted(values);
    let n = sorted.len();
    // The probability that at most `rank` of `n` values lie below the median, for increasing ranks
    // until it exceeds 2.5 %.
    let mut term = 0.5f64.powi(i32::try_from(n).ok()?);
    let mut below = 0.0;
    let mut rank = 0;
    while below + term <= 0.025 {
        below += term;
        term *= (n - rank) as f64 / (rank + 1) as f64;
        rank += 1;
    }
    let low = rank.checked_sub(1)?;
    Some((*sorted.get(low)?, *sorted.get(n - 1 - low)?))
}

/// The results of one benchmark.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Section {
    pub title: &'static str,
    /// The method, in a few sentences.
    pub how: String,
    pub figures: Vec<Figure>,
    /// Measurements that failed, and why.
    pub missing: Vec<String>,
}

impl Section {
    /// Creates an empty section.
    pub fn new(title: &'static str, how: impl Into<String>) -> Section {
        Section { title, how: how.into(), ..Default::default() }
    }

    /// Adds a figure; without any measurement, records it as missing.
    pub fn add(&mut self, figure: Option<Figure>, what: &str) {
        match figure {
            Some(figure) => self.figures.push(figure),
            None => self.missing.push(format!("{what}: no measurement")),
        }
    }

    /// Number of figures that miss their target.
    pub fn missed(&self) -> usize {
        self.figures.iter().filter(|f| f.pass == Some(false)).count()
    }

    /// The section as a text table.
    pub fn table(&self) -> String {
        let mut rows = vec![["", "median", "min", "max", "n", "target", ""].map(String::from).to_vec()];
        for f in &self.figures {
            let target = match f.target {
                None => String::new(),
                Some(Target::AtMost(bound)) => format!("<= {}", number(bound)),
                Some(Target::AtLeast(bound)) => format!(">= {}", number(bound)),
                Some(Target::Below(bound)) => format!("< {}", number(bound)),
            };
            let pass = match f.pass {
                None => "",
                Some(true) => "pass",
                Some(false) => "MISS",
            };
            rows.push(vec![
                if f.unit.is_empty() { f.name.clone() } else { format!("{}, {}", f.name, f.unit) },
                number(f.median),
                number(f.min),
                number(f.max),
                f.n.to_string(),
                target,
                if f.note.is_empty() { pass.to_owned() } else { format!("{pass:4}  {}", f.note) },
            ]);
        }
        let widths: Vec<usize> =
            (0..7).map(|i| rows.iter().map(|r| r[i].chars().count()).max().unwrap_or(0)).collect();
        let mut text = format!("\n{}\n{}\n\n", self.title, textwrap::fill(&self.how, 110));
        for row in &rows {
            let _ = write!(text, "  {:<width$}", row[0], width = widths[0]);
            for (cell, width) in row[1..6].iter().zip(&widths[1..6]) {
                let _ = write!(text, "  {cell:>width$}");
            }
            let _ = writeln!(text, "  {}", row[6].trim_end());
            while text.ends_with(" \n") {
                text.truncate(text.len() - 2);
                text.push('\n');
            }
        }
        for missing in &self.missing {
            let _ = writeln!(text, "  not measured: {missing}");
        }
        text
    }
}

/// Formats with four significant digits and thousands separators.
fn number(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 100.0 || v == 0.0 => 0,
        v if v >= 10.0 => 1,
        _ => 3,
    };
    let text = format!("{value:.digits$}");
    let (whole, rest) = text.split_once('.').map_or((text.as_str(), None), |(w, r)| (w, Some(r)));
    let (sign, whole) = whole.strip_prefix('-').map_or(("", whole), |w| ("-", w));
    let mut grouped = String::new();
    for (i, c) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(c);
    }
    match rest {
        Some(rest) => format!("{sign}{grouped}.{rest}"),
        None => format!("{sign}{grouped}"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn medians_and_targets() {
        let odd = Figure::of("x", "ns", &[3.0, 1.0, 2.0]).unwrap().with_target(Target::AtMost(2.0));
        assert_eq!((odd.median, odd.min, odd.max, odd.n, odd.pass), (2.0, 1.0, 3.0, 3, Some(true)));
        let even = Figure::of("x", "ns", &[4.0, 1.0]).unwrap().with_target(Target::Below(2.5));
        assert_eq!((even.median, even.pass), (2.5, Some(false)));
        assert!(Figure::of("x", "ns", &[f64::NAN]).is_none());
        assert!(Figure::of("x", "ns", &[]).is_none());
    }

    #[test]
    fn the_interval_of_a_median() {
        // Textbook ranks: 2nd and 9th of 10, 6th and 15th of 20; no interval for 5.
        let values: Vec<f64> = (1..=20).map(f64::from).collect();
        assert_eq!(median_interval(&values[..10]), Some((2.0, 9.0)));
        assert_eq!(median_interval(&values), Some((6.0, 15.0)));
        assert_eq!(median_interval(&values[..5]), None);
        assert_eq!(median_interval(&values[..6]), Some((1.0, 6.0)));
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(number(1234567.4), "1,234,567");
        assert_eq!(number(0.98765), "0.988");
        assert_eq!(number(-12.34), "-12.3");
        assert_eq!(number(0.0), "0");
    }

    #[test]
    fn a_missed_target_is_marked() {
        let mut section = Section::new("Title", "How.");
        section.add(Figure::of("cost", "ns", &[151.0]).map(|f| f.with_target(Target::AtMost(150.0))), "cost");
        section.add(Figure::of("empty", "ns", &[]), "empty");
        assert_eq!(section.missed(), 1);
        let table = section.table();
        assert!(table.contains("MISS") && table.contains("empty: no measurement"), "{table}");
    }
}
