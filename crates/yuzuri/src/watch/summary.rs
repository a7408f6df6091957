//! The closing table: what each flow did during the observation.

use std::collections::HashMap;
use std::sync::Arc;
use yuzuri_trace::{CaState, Event, Flow, FlowId, Item, visible};
use yuzuri_view::limited::FlowLimits;
use yuzuri_view::why::percent;
use yuzuri_view::{Tally, text};
use yuzuri_watch::Sink;

/// Flows that the table has room for; beyond it the ones that moved the least are left out, and
/// counted.
const MAX_ROWS: usize = 20;
/// Flows that are followed; later ones are only counted.
const MAX_FLOWS: usize = 10_000;

#[derive(Default)]
struct FlowSummary {
    flow: Option<Arc<Flow>>,
    first: Option<Event>,
    last: Event,
    cwnd_sum: f64,
    srtt_sum_us: f64,
    tally: Tally,
    limits: FlowLimits,
}

impl FlowSummary {
    /// Adds the flow's next items.
    fn add(&mut self, run: &[Item]) {
        // A close that was not seen has no other information.
        let events = || {
            run.iter().filter_map(|item| match item {
                Item::Event(event) if event.has_snapshot() => Some(event),
                _ => None,
            })
        };
        if self.first.is_none() {
            self.first = events().next().copied();
        }
        for event in events() {
            self.tally.add(event);
            self.limits.add(event, |_| {});
            self.cwnd_sum += f64::from(event.snapshot.cwnd);
            self.srtt_sum_us += f64::from(event.snapshot.srtt_us);
        }
        self.last = events().next_back().copied().unwrap_or(self.last);
    }

    fn bytes(&self) -> u64 {
        let moved = |e: &Event| e.snapshot.bytes_acked + e.snapshot.bytes_received;
        self.first.as_ref().map_or(0, |first| moved(&self.last).saturating_sub(moved(first)))
    }

    fn seconds(&self) -> f64 {
        let first_ns = self.first.as_ref().map_or(0, |first| first.mono_ns);
        self.last.mono_ns.saturating_sub(first_ns) as f64 / 1e9
    }

    /// What limited it for most of the time; `-` if it sent nothing.
    fn limited_by(&self) -> String {
        match self.limits.times().ranked().first() {
            Some((limit, share)) if self.limits.sends() => format!("{} {limit}", percent(*share)),
            _ => "-".into(),
        }
    }

    fn row(&self) -> [String; COLUMNS] {
        let flow = self.flow.as_deref();
        let records = self.tally.events.max(1) as f64;
        let recoveries = self.tally.entered[CaState::Recovery as usize - 1];
        [
            flow.map_or("?".into(), |f| f.to_string()),
            flow.and_then(|f| f.owner.as_ref()).map_or("-".into(), |o| shown(&o.name)),
            flow.map_or("?".into(), |f| shown(&f.congestion_control)),
            format!("{:.1}", self.seconds()),
            text::bytes(self.bytes() as f64),
            if self.seconds() > 0.0 {
                text::rate(self.bytes() as f64 * 8.0 / self.seconds())
            } else {
                "-".into()
            },
            format!("{:.0}", self.cwnd_sum / records),
            text::time_us(self.srtt_sum_us / records),
            // As the kernel counts: segments, of which one event may cover several.
            text::count(self.limits.retransmitted().into()),
            text::count(recoveries + self.tally.local_congestion),
            text::count(self.tally.timeouts),
            self.limited_by(),
        ]
    }
}

/// A name that others chose, in a line.
fn shown(name: &str) -> String {
    visible(name).replace('\n', "?")
}

const COLUMNS: usize = 12;
const HEAD: [&str; COLUMNS] = [
    "flow",
    "process",
    "cc",
    "s",
    "moved",
    "rate",
    "cwnd",
    "srtt",
    "retrans segs",
    "reduced",
    "timeouts",
    "limited by",
];

/// Follows the flows and prints the table at the end, on standard error.
#[derive(Default)]
pub struct Summary {
    flow_summaries: HashMap<FlowId, FlowSummary>,
    beyond: u64,
}

impl Summary {
    fn flow_summary(&mut self, id: FlowId) -> Option<&mut FlowSummary> {
        if self.flow_summaries.len() >= MAX_FLOWS && !self.flow_summaries.contains_key(&id) {
            self.beyond += 1;
            return None;
        }
        Some(self.flow_summaries.entry(id).or_default())
    }

    fn table(&self) -> String {
        let mut flow_summaries: Vec<&FlowSummary> =
            self.flow_summaries.values().filter(|c| c.tally.events > 0).collect();
        flow_summaries.sort_by_key(|c| (std::cmp::Reverse(c.bytes()), c.last.flow));
        let left_out = flow_summaries.len().saturating_sub(MAX_ROWS) as u64 + self.beyond;
        let mut rows = vec![HEAD.map(str::to_owned)];
        rows.extend(flow_summaries.iter().take(MAX_ROWS).map(|c| c.row()));
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..HEAD.len()).map(width).collect();
        let mut out = String::new();
        for row in &rows {
            // Words to the left, numbers to the right.
            let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| {
                if column < 3 || column == COLUMNS - 1 {
                    format!("{cell:<width$}")
                } else {
                    format!("{cell:>width$}")
                }
            });
            out += cells.collect::<Vec<_>>().join("  ").trim_end();
            out.push('\n');
        }
        if left_out > 0 {
            out += &format!("and {left_out} more\n");
        }
        out
    }
}

impl Sink for Summary {
    fn take(&mut self, items: &[Item]) -> anyhow::Result<()> {
        // Segments come in bursts: looking up each burst's flow costs a fraction of looking up each
        // record's.
        let same =
            |a: &Item, b: &Item| matches!((a, b), (Item::Event(a), Item::Event(b)) if a.flow == b.flow);
        for run in items.chunk_by(same) {
            match &run[0] {
                Item::Flow(flow) => {
                    if let Some(flow_summary) = self.flow_summary(flow.id) {
                        flow_summary.limits.controlled_by(&flow.congestion_control);
                        flow_summary.flow = Some(flow.clone());
                    }
                }
                Item::Event(event) => {
                    if let Some(flow_summary) = self.flow_summary(event.flow) {
                        flow_summary.add(run);
                    }
                }
                Item::Account(_) | Item::Setting(_) => {}
            }
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> anyhow::Result<()> {
        if self.flow_summaries.values().any(|c| c.tally.events > 0) {
            eprint!("{}", self.table());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use yuzuri_trace::Snapshot;

    /// A process may have any name: the terminal obeys none.
    #[test]
    fn names_that_a_terminal_would_obey_are_only_shown() {
        let mut summary = Summary::default();
        let owner = Some(yuzuri_trace::Owner { pid: 1, name: "\x1b[2J\n\x07".into() });
        let flow = Flow { id: FlowId(1), owner, congestion_control: "\x1bc".into(), ..Flow::default() };
        let event = Event { flow: FlowId(1), ..Event::default() };
        summary.take(&[Item::Flow(Arc::new(flow)), Item::Event(event)]).unwrap();
        let table = summary.table();
        assert_eq!(table.lines().count(), 2, "{table:?}");
        assert!(table.contains("?[2J??") && table.contains("?c"), "{table:?}");
        assert!(!table.contains(|c: char| c.is_control() && c != '\n'), "{table:?}");
    }

    #[test]
    fn the_table_shows_what_moved_and_how_fast() {
        let mut summary = Summary::default();
        let flow = Flow { id: FlowId(1), congestion_control: "cubic".into(), ..Flow::default() };
        let at = |mono_ns: u64, bytes_acked: u64| {
            let total_retrans = (bytes_acked / 1000) as u32;
            let snapshot = Snapshot {
                cwnd: 10,
                srtt_us: 20_000,
                mss: 1448,
                bytes_acked,
                total_retrans,
                ..Snapshot::default()
            };
            Item::Event(Event { flow: FlowId(1), mono_ns, snapshot, ..Event::default() })
        };
        summary
            .take(&[Item::Flow(Arc::new(flow)), at(1_000_000_000, 1000), at(3_000_000_000, 1_001_000)])
            .unwrap();
        let table = summary.table();
        let row = table.lines().nth(1).unwrap();
        for part in ["cubic", "2.0", "1.00 MB", "4.00 Mbit/s", "20.0 ms", "100 % application", "  1000  "] {
            assert!(row.contains(part), "{part} in {table}");
        }
    }
}
