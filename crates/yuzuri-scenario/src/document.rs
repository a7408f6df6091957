//! A scenario file: its text, the positions of its fields, and its problems.

use crate::{Point, Scenario, Variant, expand};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A problem with a field, such as `path.rtt_ms` or `terminal[1].phy.mcs`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The field; empty for the whole file.
    pub field: String,
    /// What is wrong and what would be valid.
    pub what: String,
}

impl Problem {
    /// A problem with a field.
    pub fn new(field: impl Into<String>, what: impl Into<String>) -> Problem {
        Problem { field: field.into(), what: what.into() }
    }
}

/// All problems of a file, displayed as `FILE:LINE: FIELD: WHAT`, one per line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Problems {
    /// Each with its line number, from 1, if known.
    pub list: Vec<(Option<usize>, Problem)>,
    /// The file.
    pub file: PathBuf,
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (line, problem)) in self.list.iter().enumerate() {
            if at > 0 {
                writeln!(f)?;
            }
            write!(f, "{}", self.file.display())?;
            if let Some(line) = line {
                write!(f, ":{line}")?;
            }
            if !problem.field.is_empty() {
                write!(f, ": {}", problem.field)?;
            }
            write!(f, ": {}", problem.what)?;
        }
        Ok(())
    }
}

/// A parsed scenario file.
#[derive(Debug, Clone)]
pub struct Document {
    /// The file name without its extension.
    pub name: String,
    file: PathBuf,
    text: String,
    /// The scenario without the sweep and the variants.
    table: toml::Table,
    base: Scenario,
    sweep: BTreeMap<String, Vec<toml::Value>>,
    variants: Vec<Variant>,
}

impl Document {
    /// Reads and validates a file.
    ///
    /// # Errors
    /// If the file cannot be read or is invalid, with all problems.
    pub fn open(file: &Path) -> Result<Document, Problems> {
        let text = std::fs::read_to_string(file).map_err(|e| Problems {
            list: vec![(None, Problem::new("", format!("cannot be read: {e}")))],
            file: file.to_owned(),
        })?;
        Document::parse(file, text)
    }

    /// Parses and validates a file's text.
    ///
    /// # Errors
    /// If the text is invalid, with all problems.
    pub fn parse(file: &Path, text: String) -> Result<Document, Problems> {
        let name = file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let refuse = |error: &toml::de::Error| {
            let place = error.span();
            let field = match &place {
                // A field missing at the top level belongs to no other field.
                Some(place) if place.start == 0 && error.message().starts_with("missing field") => {
                    String::new()
                }
                Some(place) => field_at(&text, place),
                None => String::new(),
            };
            let line = place.map(|place| line_of(&text, place.start));
            Problems { list: vec![(line, Problem::new(field, sentence(error)))], file: file.to_owned() }
        };
        let mut base: Scenario = toml::from_str(&text).map_err(|e| refuse(&e))?;
        let mut table: toml::Table = toml::from_str(&text).map_err(|e| refuse(&e))?;
        table.remove("sweep");
        table.remove("variant");
        let sweep = std::mem::take(&mut base.sweep);
        let variants = std::mem::take(&mut base.variant);
        let document = Document { name, file: file.to_owned(), table, base, sweep, variants, text };
        let mut problems = document.located(document.base.problems());
        if problems.list.is_empty() {
            match expand::points(&document, &good) {
                Ok(_) => return Ok(document),
                Err(list) => problems = document.located(list),
            }
        }
        Err(problems)
    }

    /// The scenario without any variation.
    pub fn base(&self) -> &Scenario {
        &self.base
    }

    /// The file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The swept fields and their values.
    pub fn sweep(&self) -> &BTreeMap<String, Vec<toml::Value>> {
        &self.sweep
    }

    pub(super) fn variants(&self) -> &[Variant] {
        &self.variants
    }

    pub(super) fn table(&self) -> &toml::Table {
        &self.table
    }

    /// Every combination of the swept values and variants.
    ///
    /// # Errors
    /// None for a parsed document, whose points were already checked.
    pub fn points(&self) -> Result<Vec<Point>, Problems> {
        expand::points(self, &good).map_err(|list| self.located(list))
    }

    /// Runs `check` for each chosen point, for example for what the executor does not support. If a
    /// sweep or a variant causes a problem, its entry is named.
    ///
    /// # Errors
    /// All problems that `check` finds.
    pub fn check_points(
        &self,
        is_chosen: &dyn Fn(&str) -> bool,
        check: &dyn Fn(&Scenario) -> Vec<Problem>,
    ) -> Result<(), Problems> {
        let chosen = |name: &str, point: &Scenario| if is_chosen(name) { check(point) } else { Vec::new() };
        expand::points(self, &chosen).map(drop).map_err(|list| self.located(list))
    }

    /// The document with fields set (`path.rtt_ms`, `terminal.phone.window`), which are then no
    /// longer swept. Constraints between fields are checked after all are set.
    ///
    /// # Errors
    /// If a field does not exist or a value is invalid.
    pub fn with(&self, values: &[(String, toml::Value)]) -> Result<Document, Problems> {
        let mut changed = self.clone();
        let refuse = |problem: Problem| Problems { list: vec![(None, problem)], file: self.file.clone() };
        for (field, value) in values {
            expand::set(&mut changed.table, field, value.clone()).map_err(refuse)?;
            changed.sweep.remove(field);
            for variant in &mut changed.variants {
                variant.set.remove(field);
            }
        }
        let field = values.iter().map(|(field, _)| field.as_str()).collect::<Vec<_>>().join(", ");
        changed.base = expand::scenario(&changed.table, &field).map_err(refuse)?;
        let mut problems = changed.base.problems();
        if problems.is_empty() {
            match expand::points(&changed, &good) {
                Ok(_) => return Ok(changed),
                Err(list) => problems = list,
            }
        }
        Err(self.located(problems))
    }

    /// The document without its sweep and variants.
    pub fn without_variation(mut self) -> Document {
        self.sweep.clear();
        self.variants.clear();
        self
    }

    /// Parses a value as TOML; anything else becomes a string.
    pub fn value(text: &str) -> toml::Value {
        let parsed = toml::from_str::<toml::Table>(&format!("value = {text}"));
        let value = parsed.ok().and_then(|mut table| table.remove("value"));
        value.unwrap_or_else(|| toml::Value::String(text.to_owned()))
    }

    fn located(&self, list: Vec<Problem>) -> Problems {
        let place = DeTable::parse(&self.text).ok();
        let line = |problem: &Problem| Some(line_of(&self.text, offset_of(place.as_ref()?, &problem.field)?));
        let list = list.into_iter().map(|problem| (line(&problem), problem)).collect();
        Problems { list, file: self.file.clone() }
    }
}

/// The checks for every point.
fn good(_name: &str, scenario: &Scenario) -> Vec<Problem> {
    scenario.problems()
}

/// The error message in one line.
fn sentence(error: &toml::de::Error) -> String {
    error.message().lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ")
}

fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
}

/// One step of a field path: a key or a list index.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Key(String),
    Place(usize),
}

/// Splits `terminal[1].phy.mcs` into steps; a quoted key (`sweep."path.rtt_ms"`) is one step.
fn steps(field: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut rest = field;
    while !rest.is_empty() {
        rest = rest.trim_start_matches('.');
        if let Some((key, after)) = rest.strip_prefix('"').and_then(|r| r.split_once('"')) {
            steps.push(Step::Key(key.to_owned()));
            rest = after;
        } else if let Some((place, after)) = rest.strip_prefix('[').and_then(|r| r.split_once(']')) {
            steps.extend(place.parse().map(Step::Place));
            rest = after;
        } else {
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            steps.push(Step::Key(rest[..end].to_owned()));
            rest = &rest[end..];
        }
    }
    steps
}

/// The text offset of a field; if it is absent, that of the table which would contain it.
fn offset_of(table: &Spanned<DeTable<'_>>, field: &str) -> Option<usize> {
    let mut offset = None;
    let mut value: Option<&DeValue<'_>> = None;
    for step in steps(field) {
        let next = match (&step, value) {
            (Step::Key(key), None) => find(table.get_ref(), key),
            (Step::Key(key), Some(DeValue::Table(inner))) => find(inner, key),
            (Step::Place(place), Some(DeValue::Array(list))) => {
                list.get(*place).map(|item| (item.span().start, item.get_ref()))
            }
            _ => None,
        };
        let Some((at, inner)) = next else { break };
        offset = Some(at);
        value = Some(inner);
    }
    offset
}

fn find<'a>(table: &'a DeTable<'_>, key: &str) -> Option<(usize, &'a DeValue<'a>)> {
    let (name, value) = table.iter().find(|(name, _)| name.get_ref().as_ref() == key)?;
    Some((name.span().start, value.get_ref()))
}

/// The field whose value or key is at a position of the text.
fn field_at(text: &str, place: &Range<usize>) -> String {
    fn within(value: &DeValue<'_>, place: &Range<usize>, path: String) -> Option<String> {
        match value {
            DeValue::Table(table) => in_table(table, place, &path),
            DeValue::Array(list) => list.iter().enumerate().find_map(|(at, item)| {
                let path = format!("{path}[{at}]");
                let deeper = within(item.get_ref(), place, path.clone());
                deeper.or_else(|| contains(&item.span(), place).then_some(path))
            }),
            _ => None,
        }
    }
    fn in_table(table: &DeTable<'_>, place: &Range<usize>, path: &str) -> Option<String> {
        table.iter().find_map(|(name, value)| {
            let key = name.get_ref();
            let path = if path.is_empty() { key.to_string() } else { format!("{path}.{key}") };
            let deeper = within(value.get_ref(), place, path.clone());
            let here = contains(&name.span(), place) || contains(&value.span(), place);
            deeper.or_else(|| here.then_some(path))
        })
    }
    fn contains(outer: &Range<usize>, inner: &Range<usize>) -> bool {
        outer.start <= inner.start
            && inner.start < outer.end.max(outer.start + 1)
            && inner.end <= outer.end.max(inner.start)
    }
    DeTable::parse(text).ok().and_then(|table| in_table(table.get_ref(), place, "")).unwrap_or_default()
}
