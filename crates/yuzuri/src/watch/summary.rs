//! The closing table: what each flow did during the observation, and which flows share a
//! bottleneck.

use crate::words::{flow_name, one_line, shared_bottleneck, wrapped};
use std::io::IsTerminal;
use yuzuri_trace::{CaState, Item};
use yuzuri_view::why::percent;
use yuzuri_view::{FlowTotals, Totals, text};
use yuzuri_watch::Sink;

/// Maximum number of rows. The flows that moved the least data are omitted, and counted.
const MAX_ROWS: usize = 20;
/// Maximum number of flows that are followed; later flows are only counted.
const MAX_FLOWS: usize = 10_000;

/// What limited the flow for most of the time; `-` if it sent nothing.
fn limited_by(totals: &FlowTotals) -> String {
    let limits = totals.limits();
    match limits.times().ranked().first() {
        Some((limit, share)) if limits.sends() => format!("{} {limit}", percent(*share)),
        _ => "-".into(),
    }
}

fn row(totals: &FlowTotals) -> [String; COLUMNS] {
    let flow = totals.flow.as_deref();
    let (seconds, bytes) = (totals.seconds(), totals.moved_bytes() as f64);
    let recoveries = totals.tally.entered[CaState::Recovery as usize - 1];
    [
        flow.map_or("?".into(), |f| f.to_string()),
        flow.and_then(|f| f.owner.as_ref()).map_or("-".into(), |o| one_line(&o.name)),
        flow.map_or("?".into(), |f| one_line(&f.congestion_control)),
        format!("{seconds:.1}"),
        text::bytes(bytes),
        if seconds > 0.0 { text::rate(bytes * 8.0 / seconds) } else { "-".into() },
        format!("{:.0}", totals.mean_cwnd_segments()),
        text::time_us(totals.mean_srtt_us()),
        // The kernel counts segments; one event may cover several.
        text::count(totals.limits().retransmitted().into()),
        text::count(recoveries + totals.tally.local_congestion),
        text::count(totals.tally.timeouts),
        limited_by(totals),
    ]
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

/// Columns that a narrow terminal omits, as indices into [`HEAD`], the least important first.
const DROPPED_FIRST: [usize; 8] = [10, 9, 6, 1, 2, 7, 8, 3];
/// Spaces between two columns.
const GAP: usize = 2;

/// Follows the flows and prints the table at the end, on standard error.
pub struct Summary {
    totals: Totals,
}

impl Default for Summary {
    fn default() -> Summary {
        Summary { totals: Totals::of_at_most(MAX_FLOWS) }
    }
}

impl Summary {
    /// `room`: the columns of the terminal; `None`: no limit. The columns flow, bytes, rate and
    /// limit are never omitted.
    fn table(&self, room: Option<usize>) -> String {
        let flows = self.totals.ranked();
        let left_out = flows.len().saturating_sub(MAX_ROWS) as u64 + self.totals.beyond();
        let mut rows = vec![HEAD.map(str::to_owned)];
        rows.extend(flows.iter().take(MAX_ROWS).map(|(_, totals)| row(totals)));
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..HEAD.len()).map(width).collect();
        let mut shown: Vec<usize> = (0..COLUMNS).collect();
        for column in DROPPED_FIRST {
            let all = shown.iter().map(|&column| widths[column] + GAP).sum::<usize>() - GAP;
            if room.is_none_or(|room| all <= room) {
                break;
            }
            shown.retain(|&of| of != column);
        }
        let mut out = String::new();
        for row in &rows {
            // Text is left-aligned, numbers are right-aligned.
            let cells = shown.iter().map(|&column| {
                let (cell, width) = (&row[column], widths[column]);
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

    /// The flows that share a bottleneck, in lines of at most `room` characters; empty if no flows
    /// are known to share one.
    fn shared_bottlenecks(&self, room: Option<usize>) -> String {
        let found = self.totals.shared_bottlenecks();
        let text = |(flows, found): &(Vec<&FlowTotals>, _)| {
            shared_bottleneck(found, flows.iter().map(|totals| flow_name(totals.flow.as_deref())))
        };
        wrapped(&found.iter().map(text).collect::<String>(), room)
    }
}

impl Sink for Summary {
    fn take(&mut self, items: &[Item]) -> anyhow::Result<()> {
        self.totals.take(items);
        Ok(())
    }

    fn finish(self: Box<Self>) -> anyhow::Result<()> {
        if self.totals.flows().next().is_some() {
            let is_terminal = std::io::stderr().is_terminal();
            let room = is_terminal.then(|| yuzuri_top::terminal_columns().unwrap_or(80).into());
            eprint!("{}{}", self.table(room), self.shared_bottlenecks(room));
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "../../../yuzuri-view/tests/tools/two_queues.rs"]
mod two_queues;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::sync::Arc;
    use yuzuri_trace::{Event, Flow, FlowId, Snapshot};

    /// A process name may contain escape sequences, which must not reach the terminal.
    #[test]
    fn control_characters_in_names_are_printed_as_text() {
        let mut summary = Summary::default();
        let owner = Some(yuzuri_trace::Owner { pid: 1, name: "\x1b[2J\n\x07".into() });
        let flow = Flow { id: FlowId(1), owner, congestion_control: "\x1bc".into(), ..Flow::default() };
        let event = Event { flow: FlowId(1), ..Event::default() };
        summary.take(&[Item::Flow(Arc::new(flow)), Item::Event(event)]).unwrap();
        let table = summary.table(None);
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
        let table = summary.table(None);
        let row = table.lines().nth(1).unwrap();
        // The columns that are never omitted take 62 characters here; all of them take more
        // than 100.
        let narrow = summary.table(Some(70));
        let head = narrow.lines().next().unwrap();
        assert!(table.lines().any(|line| line.chars().count() > 70), "{table}");
        assert!(narrow.lines().all(|line| line.chars().count() <= 70), "{narrow}");
        assert!(
            head.starts_with("flow") && head.contains("rate") && head.ends_with("limited by"),
            "{narrow}"
        );
        for part in ["cubic", "2.0", "1.00 MB", "4.00 Mbit/s", "20.0 ms", "100 % application", "  1000  "] {
            assert!(row.contains(part), "{part} in {table}");
        }
    }

    /// Two flows whose queues rise and fall together, and one with a queue of its own.
    #[test]
    fn flows_that_share_a_bottleneck_are_named() {
        let mut summary = Summary::default();
        summary.take(&two_queues::items(1_000_000_000)).unwrap();
        let found = summary.shared_bottlenecks(None);
        let lines: Vec<&str> = found.lines().collect();
        assert_eq!(lines.len(), 3, "{found}");
        assert!(lines[0].starts_with("These 2 flows share a bottleneck"), "{found}");
        assert!(lines[1].starts_with("  10.0.0.1:1 ") && lines[2].starts_with("  10.0.0.1:3 "), "{found}");
        let narrow = summary.shared_bottlenecks(Some(80));
        assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
    }
}
