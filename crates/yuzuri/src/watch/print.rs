//! Items as lines.

use super::rows::{RowStyle, Rows};
use serde_json::{Map, Value, json};
use std::io::Write;
use yuzuri_limits::Limit;
use yuzuri_trace::{Event, Item, Kind, Session, visible};
use yuzuri_view::LimitedBy;
use yuzuri_watch::Sink;

/// The format of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Events, one a line.
    Events,
    /// Events and samples.
    All,
    /// Everything, as JSON.
    Json,
}

/// Maximum number of bytes that are collected for one write.
const MAX_HELD: usize = 1 << 16;

/// Prints to standard output.
pub struct Printer {
    style: Style,
    /// Complete lines only: other threads write to standard output, too.
    out: Vec<u8>,
    rows: Rows,
    limited: LimitedBy,
    wall_offset_ns: i64,
    /// Events that never reached the printer.
    missed: u64,
}

impl Printer {
    /// A printer for a stream.
    pub fn new(style: Style, session: &Session) -> anyhow::Result<Printer> {
        let mut out = Vec::new();
        if style == Style::Json {
            writeln!(out, "{}", json!({ "kind": "session", "session": session }))?;
        }
        let mut printer = Printer {
            style,
            out,
            rows: Rows::new(RowStyle::of_stdout(), session.started_mono_ns),
            limited: LimitedBy::default(),
            wall_offset_ns: session.wall_offset_ns(),
            missed: 0,
        };
        // A stream without items still has the header of its session.
        printer.print()?;
        Ok(printer)
    }

    fn print(&mut self) -> anyhow::Result<()> {
        let mut out = std::io::stdout().lock();
        out.write_all(&self.out).and_then(|()| out.flush())?;
        self.out.clear();
        Ok(())
    }

    fn json(&mut self, item: &Item) -> anyhow::Result<()> {
        let limited_by = self.limited.limit_of(item).map(Limit::name);
        let value = match item {
            Item::Event(event) => event_json(event, limited_by, self.wall_offset_ns),
            Item::Flow(flow) => json!({ "kind": "flow", "flow": flow.as_ref() }),
            Item::Account(account) => {
                self.wall_offset_ns = account.wall_offset_ns;
                json!({
                    "kind": "account", "mono_ns": account.mono_ns, "seen": account.seen(), "kept": account.kept(),
                    "lost": account.lost(), "thinned": account.thinned(), "cpus": account.cpus,
                    "not_printed": self.missed,
                })
            }
            Item::Setting(setting) => json!({ "kind": "setting", "setting": setting.as_ref() }),
        };
        serde_json::to_writer(&mut self.out, &value)?;
        Ok(self.out.write_all(b"\n")?)
    }

    fn line(&mut self, item: &Item) -> anyhow::Result<()> {
        match item {
            Item::Flow(flow) => self.rows.flow(flow, &mut self.out)?,
            Item::Event(event) => {
                let shows_all = self.style == Style::All;
                let shows = shows_all || event.kind != Kind::Sample;
                self.rows.event(event, shows, !shows_all, &mut self.out)?;
            }
            Item::Account(_) => {}
            Item::Setting(setting) => {
                self.rows.flush(&mut self.out)?;
                let filter = visible(or_all(&setting.filter));
                writeln!(self.out, "now watching: {filter} at {}", setting.density)?;
            }
        }
        Ok(())
    }
}

/// The filter as text.
pub fn or_all(filter: &str) -> &str {
    if filter.is_empty() { "all flows" } else { filter }
}

/// An event with the column names of a converted recording as keys (docs/recording-format.md).
fn event_json(event: &Event, limited_by: Option<&str>, wall_offset_ns: i64) -> Value {
    let mut map = Map::new();
    let mut put = |key: &str, value: Value| {
        map.insert(key.to_owned(), value);
    };
    put("kind", event.kind.name().into());
    put("time_unix_ns", (event.mono_ns as i64).wrapping_add(wall_offset_ns).into());
    put("mono_ns", event.mono_ns.into());
    put("flow", event.flow.0.into());
    put("reason", event.reason.name().into());
    put("place", event.place.name().into());
    put("ca_state", event.ca_state.name().into());
    put("ca_before", event.ca_before.name().into());
    put("in_flight", event.snapshot.in_flight().into());
    for (column, number) in event.numbers() {
        put(column, number.into());
    }
    put("marks", event.marks.words().collect::<Vec<_>>().into());
    put("cpu", event.cpu.into());
    put("limited_by", limited_by.into());
    if !event.has_snapshot() {
        let known = ["kind", "time_unix_ns", "mono_ns", "flow", "reason", "place"];
        map.iter_mut()
            .filter(|(key, _)| !known.contains(&key.as_str()))
            .for_each(|(_, value)| *value = Value::Null);
    }
    Value::Object(map)
}

impl Printer {
    /// Prints a line of JSON that is not an item.
    pub fn value(&mut self, value: &Value) -> anyhow::Result<()> {
        writeln!(self.out, "{value}")?;
        self.print()
    }
}

impl Sink for Printer {
    fn missed(&mut self, events: u64) {
        self.missed = events;
    }

    fn take(&mut self, items: &[Item]) -> anyhow::Result<()> {
        for item in items {
            match self.style {
                Style::Json => self.json(item)?,
                Style::Events | Style::All => self.line(item)?,
            }
            if self.out.len() >= MAX_HELD {
                self.print()?;
            }
        }
        self.print()
    }

    fn tick(&mut self) -> anyhow::Result<()> {
        self.rows.tick(&mut self.out)?;
        if self.out.is_empty() { Ok(()) } else { self.print() }
    }

    fn finish(mut self: Box<Self>) -> anyhow::Result<()> {
        self.rows.flush(&mut self.out)?;
        self.print()
    }
}
