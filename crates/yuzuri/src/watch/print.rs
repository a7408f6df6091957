//! Items as lines.

use super::sinks::Sink;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;
use yuzuri_trace::{Event, Flow, FlowId, Item, Kind, Marks, Session, visible};
use yuzuri_view::text;

/// What is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Events, one a line.
    Events,
    /// Events and samples.
    All,
    /// Everything, as JSON.
    Json,
}

/// Bytes of lines that are printed together.
const MAX_HELD: usize = 1 << 16;

/// Prints to standard output.
pub struct Printer {
    style: Style,
    /// Whole lines: others print to standard output as well.
    out: Vec<u8>,
    flows: HashMap<FlowId, Arc<Flow>>,
    started_mono_ns: u64,
    wall_offset_ns: i64,
    /// Events that it never got.
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
            flows: HashMap::new(),
            started_mono_ns: session.started_mono_ns,
            wall_offset_ns: session.wall_offset_ns(),
            missed: 0,
        };
        // A stream without items is still one of a session.
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
        let value = match item {
            Item::Event(event) => event_json(event, self.wall_offset_ns),
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
            Item::Flow(flow) => {
                if self.flows.insert(flow.id, flow.clone()).is_none() {
                    let owner =
                        flow.owner.as_ref().map(|o| format!("  {}[{}]", o.name, o.pid)).unwrap_or_default();
                    let netns = flow.netns_name.as_ref().map(|n| format!("  netns {n}")).unwrap_or_default();
                    let told = format!("flow {}: {flow}  {}{owner}{netns}", flow.id, flow.congestion_control);
                    writeln!(self.out, "{}", visible(&told).replace('\n', "?"))?;
                }
            }
            Item::Event(event) => {
                if event.kind == Kind::Close {
                    self.flows.remove(&event.flow);
                }
                if self.style == Style::All || event.kind != Kind::Sample {
                    let s = event.mono_ns.saturating_sub(self.started_mono_ns) as f64 / 1e9;
                    writeln!(self.out, "{s:12.6}  {}", sentence(event))?;
                }
            }
            Item::Account(_) => {}
            Item::Setting(setting) => {
                let filter = visible(or_all(&setting.filter));
                writeln!(self.out, "now watching: {filter} at {}", setting.density)?;
            }
        }
        Ok(())
    }
}

/// The filter in words.
pub fn or_all(filter: &str) -> &str {
    if filter.is_empty() { "all flows" } else { filter }
}

fn sentence(event: &Event) -> String {
    if !event.has_snapshot() {
        return format!("{}  close      {}", event.flow, event.reason.name());
    }
    let s = &event.snapshot;
    let state = if event.ca_before == event.ca_state {
        event.ca_state.name().to_owned()
    } else {
        format!("{} > {}", event.ca_before.name(), event.ca_state.name())
    };
    let ssthresh = s.finite_ssthresh().map_or("-".to_owned(), |v| v.to_string());
    let srtt = s.measured_srtt_us().map_or("-".to_owned(), |us| text::time_us(us.into()));
    let mut line = format!(
        "{}  {:<10} {:<16} {:<20} cwnd {:<5} ssthresh {ssthresh:<5} in flight {:<5} srtt {srtt}",
        event.flow,
        event.kind.name(),
        event.reason.name(),
        state,
        s.cwnd,
        s.in_flight(),
    );
    if event.marks != Marks::default() {
        line += &format!("  {}", event.marks.words().collect::<Vec<_>>().join(","));
    }
    if event.kind != Kind::Sample {
        line += &format!("  at {}", event.place);
    }
    line
}

/// An event under the names that the columns of a recording have (docs/recording-format.md).
fn event_json(event: &Event, wall_offset_ns: i64) -> Value {
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
    if !event.has_snapshot() {
        let known = ["kind", "time_unix_ns", "mono_ns", "flow", "reason", "place"];
        map.iter_mut()
            .filter(|(key, _)| !known.contains(&key.as_str()))
            .for_each(|(_, value)| *value = Value::Null);
    }
    Value::Object(map)
}

impl Printer {
    /// Prints a line of JSON of another kind.
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
}
