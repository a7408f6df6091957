//! A scenario's file: its text, where each field stands in it, and what is wrong with it.

use crate::{Point, Scenario, Variant, expand};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Something that is wrong, at a field: `path.rtt_ms`, `terminal[1].phy.mcs`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The field; empty where it is the whole file.
    pub field: String,
    /// What is wrong, and what would be right.
    pub what: String,
}

impl Problem {
    /// A problem of a field.
    pub fn new(field: impl Into<String>, what: impl Into<String>) -> Problem {
        Problem { field: field.into(), what: what.into() }
    }
}

/// All that is wrong with a file; shown as `FILE:LINE: FIELD: WHAT`, one a line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Problems {
    /// With the line, from 1, where it is known.
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

/// A scenario's file, read.
#[derive(Debug, Clone)]
pub struct Document {
    /// The file's name without its ending.
    pub name: String,
    file: PathBuf,
    text: String,
    /// The scenario without what is varied.
    table: toml::Table,
    base: Scenario,
    sweep: BTreeMap<String, Vec<toml::Value>>,
    variants: Vec<Variant>,
}

impl Document {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn open(file: &Path) -> Result<Document, Problems> {
        let text = std::fs::read_to_string(file).map_err(|e| Problems {
            list: vec![(None, Problem::new("", format!("cannot be read: {e}")))],
            file: file.to_owned(),
        })?;
        Document::parse(file, text)
    }

    /// Reads and checks a file's text.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn parse(file: &Path, text: String) -> Result<Document, Problems> {
        let name = file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let refuse = |error: &toml::de::Error| {
            let place = error.span();
            let field = match &place {
                // What is missing at the top is missing in no field.
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

    /// The scenario without anything varied.
    pub fn base(&self) -> &Scenario {
        &self.base
    }

    /// The file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// What is varied: field and values.
    pub fn sweep(&self) -> &BTreeMap<String, Vec<toml::Value>> {
        &self.sweep
    }

    pub(super) fn variants(&self) -> &[Variant] {
        &self.variants
    }

    pub(super) fn table(&self) -> &toml::Table {
        &self.table
    }

    /// Every combination of what is varied.
    ///
    /// # Errors
    /// None for a document that was read: this was checked then.
    pub fn points(&self) -> Result<Vec<Point>, Problems> {
        expand::points(self, &good).map_err(|list| self.located(list))
    }

    /// Asks `check` what is wrong with each point that has the name `is_chosen` looks for: what whoever is to run them
    /// cannot do. Where a sweep or a variant brings what is wrong, its entry is named.
    ///
    /// # Errors
    /// All that `check` finds.
    pub fn check_points(
        &self,
        is_chosen: &dyn Fn(&str) -> bool,
        check: &dyn Fn(&Scenario) -> Vec<Problem>,
    ) -> Result<(), Problems> {
        let chosen = |name: &str, point: &Scenario| if is_chosen(name) { check(point) } else { Vec::new() };
        expand::points(self, &chosen).map(drop).map_err(|list| self.located(list))
    }

    /// The document with other values of fields (`path.rtt_ms`, `terminal.phone.window`), which are then no longer
    /// varied. What holds between fields is checked when all are set.
    ///
    /// # Errors
    /// Where there is no such field or a value is not possible.
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

    /// The document without anything varied.
    pub fn without_variation(mut self) -> Document {
        self.sweep.clear();
        self.variants.clear();
        self
    }

    /// A value as it is written in TOML; text where it is nothing else.
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

/// What every point must fulfil.
fn good(_name: &str, scenario: &Scenario) -> Vec<Problem> {
    scenario.problems()
}

/// The error's words in one line.
fn sentence(error: &toml::de::Error) -> String {
    error.message().lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ")
}

fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
}

/// One step of a field's path: a key, or a place in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Key(String),
    Place(usize),
}

/// `terminal[1].phy.mcs` in steps; a key in quotes (`sweep."path.rtt_ms"`) is one.
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

/// Where a field stands; where it is not written, what it would stand in.
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

/// The field whose value or key stands at a place of the text.
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
