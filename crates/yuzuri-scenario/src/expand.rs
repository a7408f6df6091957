//! Expansion of a file with a sweep and variants into single experiments.

use crate::{ApForwarding, Document, Problem, Scenario};
use serde::{Deserialize, Serialize};

/// Maximum number of points per file.
const MAX_POINTS: usize = 10_000;

/// One combination of the varied fields.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// The name of its folder: `path.rtt_ms=64`, `slow-at-10`, `base`.
    pub name: String,
    /// The varied fields with their values at this point.
    pub labels: Vec<Label>,
    /// For a run with a single terminal: its kind.
    pub alone: Option<String>,
    /// The experiment.
    pub scenario: Scenario,
}

/// A varied field, or `variant`, with its value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Label {
    /// The field.
    pub field: String,
    /// The value as text.
    pub value: String,
    /// The value, if it is a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<f64>,
}

/// A value set at a point: the entry of the file that sets it, the field, the value.
struct Choice<'a> {
    entry: String,
    field: &'a str,
    value: &'a toml::Value,
}

/// Finds the problems of a point, given its name.
pub(super) type Check<'a> = &'a dyn Fn(&str, &Scenario) -> Vec<Problem>;

/// All points of a file, in file order.
pub(super) fn points(document: &Document, check: Check<'_>) -> Result<Vec<Point>, Vec<Problem>> {
    let sweep = document.sweep();
    let variants = document.variants();
    let count = sweep.values().map(Vec::len).product::<usize>().saturating_mul(variants.len().max(1));
    if let Some((field, _)) = sweep.iter().find(|(_, values)| values.is_empty()) {
        return Err(vec![Problem::new(format!("sweep.\"{field}\""), "the list is empty")]);
    }
    if count > MAX_POINTS {
        return Err(vec![Problem::new(
            "sweep",
            format!("{count} combinations: at most {MAX_POINTS} are possible"),
        )]);
    }
    let mut points = Vec::new();
    let mut problems = Vec::new();
    for combination in 0..count {
        let mut rest = combination;
        let mut choices = Vec::new();
        let mut labels = Vec::new();
        let variant =
            (!variants.is_empty()).then(|| (rest % variants.len(), &variants[rest % variants.len()]));
        rest /= variants.len().max(1);
        for (field, values) in sweep.iter().rev() {
            let value = &values[rest % values.len()];
            choices.push(Choice { entry: format!("sweep.\"{field}\""), field, value });
            labels.insert(0, label(field, value));
            rest /= values.len();
        }
        choices.reverse();
        if let Some((at, variant)) = variant {
            let entry = |field: &str| format!("variant[{at}].set.\"{field}\"");
            choices.extend(variant.set.iter().map(|(field, value)| Choice {
                entry: entry(field),
                field,
                value,
            }));
            labels.push(Label { field: "variant".into(), value: variant.name.clone(), number: None });
        }
        match point(document, &choices, labels, check) {
            Ok(point) => points.push(point),
            Err(found) => {
                for problem in found {
                    if !problems.contains(&problem) {
                        problems.push(problem);
                    }
                }
            }
        }
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    for (at, point) in points.iter().enumerate() {
        if points[..at].iter().any(|other| other.name == point.name) {
            let what = format!("two points are called '{}': names and values must differ", point.name);
            let field = if variants.is_empty() { "sweep" } else { "variant" };
            return Err(vec![Problem::new(field, what)]);
        }
    }
    with_alone(document, points)
}

fn point(
    document: &Document,
    choices: &[Choice<'_>],
    labels: Vec<Label>,
    check: Check<'_>,
) -> Result<Point, Vec<Problem>> {
    let mut table = document.table().clone();
    for choice in choices {
        set(&mut table, choice.field, choice.value.clone())
            .map_err(|problem| vec![Problem::new(&choice.entry, problem.what)])?;
    }
    let attributed = |problem: Problem| {
        // Attribute the problem to the entry that set the value, if there is one.
        let of = choices.iter().rev().find(|choice| {
            resolve(&table, choice.field)
                .is_some_and(|field| problem.field.starts_with(&field) || field.starts_with(&problem.field))
        });
        match of {
            Some(choice) => Problem::new(
                &choice.entry,
                format!("with {}: {}: {}", choice.value, problem.field, problem.what),
            ),
            None => problem,
        }
    };
    let first = choices.first().map_or("", |choice| &choice.entry);
    let scenario = scenario(&table, first).map_err(|problem| vec![problem])?;
    let words: Vec<String> = labels
        .iter()
        .map(|l| if l.field == "variant" { l.value.clone() } else { format!("{}={}", l.field, l.value) })
        .collect();
    let name = if words.is_empty() { "base".to_owned() } else { folder(&words.join(",")) };
    let problems = check(&name, &scenario);
    if !problems.is_empty() {
        return Err(problems.into_iter().map(attributed).collect());
    }
    Ok(Point { name, labels, alone: None, scenario })
}

/// Adds the runs with one terminal of each kind alone, if the file requests them: one for each
/// combination of the swept fields outside the terminals.
fn with_alone(document: &Document, points: Vec<Point>) -> Result<Vec<Point>, Vec<Problem>> {
    if !document.base().alone {
        return Ok(points);
    }
    let mut alone: Vec<Point> = Vec::new();
    for point in &points {
        for kind in point.scenario.terminal.iter().filter(|kind| kind.count > 0) {
            let mut scenario = point.scenario.clone();
            (scenario.share, scenario.gate, scenario.ap) = (None, None, ApForwarding::default());
            for other in &mut scenario.terminal {
                other.count = u32::from(other.name == kind.name);
                other.free(document.base().terminal.iter().find(|base| base.name == other.name));
            }
            if alone.iter().any(|known| known.scenario == scenario) {
                continue;
            }
            let labels: Vec<Label> = point
                .labels
                .iter()
                .filter(|l| l.field != "variant" && !l.field.starts_with("terminal"))
                .cloned()
                .collect();
            let mut words: Vec<String> = labels.iter().map(|l| format!("{}={}", l.field, l.value)).collect();
            words.push(format!("alone-{}", kind.name));
            let name = folder(&words.join(","));
            if alone.iter().any(|known| known.name == name) {
                let what = format!(
                    "the throughput of '{}' alone would depend on the variant, which also changes fields outside [[terminal]]: sweep these, or write a separate scenario",
                    kind.name
                );
                return Err(vec![Problem::new("alone", what)]);
            }
            alone.push(Point { name, labels, alone: Some(kind.name.clone()), scenario });
        }
    }
    Ok(points.into_iter().chain(alone).collect())
}

fn label(field: &str, value: &toml::Value) -> Label {
    let words = match value {
        toml::Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let number = value.as_float().or(value.as_integer().map(|n| n as f64)).filter(|n| n.is_finite());
    Label { field: field.to_owned(), value: words, number }
}

/// Converts a name to a valid folder name.
fn folder(words: &str) -> String {
    words.chars().map(|c| if c.is_alphanumeric() || "=,.-_".contains(c) { c } else { '_' }).collect()
}

/// Converts a table to a scenario; an error is attributed to `field`.
pub(super) fn scenario(table: &toml::Table, field: &str) -> Result<Scenario, Problem> {
    Scenario::deserialize(table.clone()).map_err(|e| Problem::new(field, e.message().trim()))
}

/// Converts a field as written in a sweep (`terminal.phone.window`) to its position in the table
/// (`terminal[0].window`).
fn resolve(table: &toml::Table, field: &str) -> Option<String> {
    let mut path = String::new();
    let mut value = None::<&toml::Value>;
    for word in words(field) {
        match value {
            Some(toml::Value::Array(list)) => {
                let at = place(list, word)?;
                path += &format!("[{at}]");
                value = list.get(at);
            }
            Some(toml::Value::Table(inner)) => {
                path += &format!(".{word}");
                value = inner.get(word);
            }
            None if path.is_empty() => {
                path += word;
                value = table.get(word);
            }
            _ => path += &format!(".{word}"),
        }
    }
    Some(path)
}

/// Splits a field at its dots. The name of a kernel parameter, which contains dots itself, stays
/// whole.
fn words(field: &str) -> Vec<&str> {
    match field.split_once('.') {
        Some(("sysctl", name)) => vec!["sysctl", name],
        _ => field.split('.').collect(),
    }
}

/// Finds a list element by its `name` or by its index, from 0.
fn place(list: &[toml::Value], word: &str) -> Option<usize> {
    let named = |item: &toml::Value| item.get("name").and_then(toml::Value::as_str) == Some(word);
    list.iter().position(named).or_else(|| word.parse().ok().filter(|at| *at < list.len()))
}

/// Sets a field; missing tables are created.
pub(super) fn set(table: &mut toml::Table, field: &str, value: toml::Value) -> Result<(), Problem> {
    fn within(
        target: &mut toml::Value,
        field: &str,
        rest: &[&str],
        value: toml::Value,
    ) -> Result<(), Problem> {
        let Some((word, rest)) = rest.split_first() else {
            *target = value;
            return Ok(());
        };
        match target {
            toml::Value::Table(table) => {
                let next = table.entry(*word).or_insert_with(|| toml::Value::Table(toml::Table::new()));
                within(next, field, rest, value)
            }
            toml::Value::Array(list) => match place(list, word) {
                Some(at) => within(&mut list[at], field, rest, value),
                None => Err(Problem::new(field, format!("there is no '{word}' in the list"))),
            },
            _ => Err(Problem::new(
                field,
                format!("'{word}' cannot be a field here: its parent is not a table"),
            )),
        }
    }
    let words = words(field);
    if words.iter().any(|word| word.is_empty()) {
        return Err(Problem::new(field, "write a field as path.rtt_ms or terminal.NAME.window"));
    }
    let mut whole = toml::Value::Table(std::mem::take(table));
    let result = within(&mut whole, field, &words, value);
    if let toml::Value::Table(whole) = whole {
        *table = whole;
    }
    result
}
