//! Flows and events as lines for people: rows of 80 columns with both ends on each, repeated events
//! in one row with their number.

use crate::words::one_line;
use std::collections::HashMap;
use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};
use yuzuri_trace::{CaState, Event, Flow, FlowId, Kind, Marks, Reason};
use yuzuri_view::limited::FlowLimits;
use yuzuri_view::{short, text};

/// How long an event waits for others like it.
const WAIT: Duration = Duration::from_millis(100);
/// Number of terminal columns from which rows include the columns that a narrow terminal has no
/// room for.
const WIDE: usize = 140;
const WHAT_COLUMNS: usize = 18;

/// How rows look.
#[derive(Debug, Clone, Copy)]
pub struct RowStyle {
    /// Columns of the terminal; `None` if the reader is a program or a file.
    pub columns: Option<usize>,
    /// Whether to use colours.
    pub colour: bool,
}

impl RowStyle {
    /// The style for standard output: colours only on a terminal, and not with `NO_COLOR`
    /// (<https://no-color.org>).
    pub fn of_stdout() -> RowStyle {
        let is_terminal = std::io::stdout().is_terminal();
        let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let columns = is_terminal.then(|| yuzuri_top::terminal_columns().unwrap_or(80).into());
        RowStyle { columns, colour: is_terminal && !no_colour }
    }

    fn is_wide(self) -> bool {
        self.columns.is_none_or(|columns| columns >= WIDE)
    }
}

struct PrintedFlow {
    flow: Arc<Flow>,
    limits: FlowLimits,
}

/// A row that waits for events to be shown with it.
struct Waiting {
    /// Time of the first of these events.
    first_ns: u64,
    last: Event,
    count: u64,
    ends: String,
    limit: &'static str,
}

/// The state of the output.
pub struct Rows {
    look: RowStyle,
    started_mono_ns: u64,
    flows: HashMap<FlowId, PrintedFlow>,
    waiting: Vec<Waiting>,
    since: Instant,
    has_head: bool,
}

impl Rows {
    /// An empty state.
    pub fn new(look: RowStyle, started_mono_ns: u64) -> Rows {
        Rows {
            look,
            started_mono_ns,
            flows: HashMap::new(),
            waiting: Vec::new(),
            since: Instant::now(),
            has_head: false,
        }
    }

    /// Adds a flow's identity.
    pub fn flow(&mut self, flow: &Arc<Flow>, out: &mut impl Write) -> std::io::Result<()> {
        let owner = flow.owner.as_ref().map(|o| format!("  {}[{}]", o.name, o.pid)).unwrap_or_default();
        if let Some(known) = self.flows.get_mut(&flow.id) {
            known.limits.controlled_by(&flow.congestion_control);
            let before = std::mem::replace(&mut known.flow, flow.clone());
            // The process of a flow that predates the observation is found only after the flow was
            // first reported.
            if before.owner.is_none() && !owner.is_empty() {
                self.flush(out)?;
                writeln!(out, "{}", one_line(&format!("flow {}:{owner}", flow.id)))?;
            }
            return Ok(());
        }
        self.flush(out)?;
        let netns = flow.netns_name.as_ref().map(|n| format!("  netns {n}")).unwrap_or_default();
        let line = format!("flow {}: {flow}  {}{owner}{netns}", flow.id, flow.congestion_control);
        writeln!(out, "{}", one_line(&line))?;
        let mut limits = FlowLimits::default();
        limits.controlled_by(&flow.congestion_control);
        self.flows.insert(flow.id, PrintedFlow { flow: flow.clone(), limits });
        Ok(())
    }

    /// Adds a record; `shows`: it gets a row; `folds`: the row waits for similar events.
    pub fn event(
        &mut self,
        event: &Event,
        shows: bool,
        folds: bool,
        out: &mut impl Write,
    ) -> std::io::Result<()> {
        let known = self.flows.get_mut(&event.flow);
        let (ends, limit) = match known {
            Some(known) => {
                known.limits.add(event, |_| {});
                if !shows {
                    return Ok(());
                }
                let limit = if known.limits.sends() { short(known.limits.limit()) } else { "-" };
                (ends(&known.flow), limit)
            }
            None if !shows => return Ok(()),
            None => (format!("{:<28}", event.flow.to_string()), "-"),
        };
        if event.kind == Kind::Close {
            self.flows.remove(&event.flow);
        }
        let same = |waiting: &&mut Waiting| waiting.last.flow == event.flow;
        match self.waiting.iter_mut().rev().find(same) {
            Some(waiting) if may_share_row(&waiting.last, event) => {
                waiting.last = *event;
                waiting.count += 1;
                waiting.limit = limit;
            }
            _ => {
                if self.waiting.is_empty() {
                    self.since = Instant::now();
                }
                let first_ns = event.mono_ns;
                self.waiting.push(Waiting { first_ns, last: *event, count: 1, ends, limit });
            }
        }
        if folds { Ok(()) } else { self.flush(out) }
    }

    /// Prints rows that have waited for [`WAIT`].
    pub fn tick(&mut self, out: &mut impl Write) -> std::io::Result<()> {
        if self.waiting.is_empty() || self.since.elapsed() < WAIT { Ok(()) } else { self.flush(out) }
    }

    /// Prints all rows.
    pub fn flush(&mut self, out: &mut impl Write) -> std::io::Result<()> {
        if !self.waiting.is_empty() && !self.has_head {
            self.has_head = true;
            let head = format!(
                "{:>8} {:>6} {:<21} s {:<18} {:>5} {:>7} {:<6}",
                "seconds", "local", "remote", "event", "cwnd", "srtt", "limit"
            );
            writeln!(out, "{}", head.trim_end())?;
        }
        for waiting in std::mem::take(&mut self.waiting) {
            let row = self.row(&waiting);
            writeln!(out, "{}", row.trim_end())?;
        }
        Ok(())
    }

    fn row(&self, waiting: &Waiting) -> String {
        let event = &waiting.last;
        let s = waiting.first_ns.saturating_sub(self.started_mono_ns) as f64 / 1e9;
        let times =
            if waiting.count > 1 { format!(" ×{}", text::count(waiting.count)) } else { String::new() };
        let room = WHAT_COLUMNS - times.chars().count();
        let mut what = what(event);
        if what.chars().count() > room {
            what = what.chars().take(room - 1).chain(['…']).collect();
        }
        what += &times;
        if !event.has_snapshot() {
            return format!("{s:8.3} {} - {what}", waiting.ends);
        }
        let snapshot = &event.snapshot;
        let srtt = snapshot.measured_srtt_us().map_or("-".to_owned(), |us| text::time_us(us.into()));
        let (begin, end) = if self.look.colour { (colour(event), "\x1b[0m") } else { ("", "") };
        let end = if begin.is_empty() { "" } else { end };
        let mut row = format!(
            "{s:8.3} {} {begin}{} {what:<18}{end} {:>5} {srtt:>7} {:<6}",
            waiting.ends,
            letter(event.ca_state),
            text::count(snapshot.cwnd.into()),
            waiting.limit,
        );
        if self.look.is_wide() {
            let ssthresh = snapshot.finite_ssthresh().map_or("-".to_owned(), |v| v.to_string());
            row += &format!("  ssthresh {ssthresh:<5} in flight {:<5}", snapshot.in_flight());
            if event.kind != Kind::Sample {
                row += &format!(" at {}", event.place);
            }
            if event.marks != Marks::default() {
                row += &format!("  {}", event.marks.words().collect::<Vec<_>>().join(","));
            }
        }
        row
    }
}

/// Whether two events of a flow may share a row: they differ only in their numbers.
fn may_share_row(a: &Event, b: &Event) -> bool {
    (a.kind, a.reason, a.ca_state) == (b.kind, b.reason, b.ca_state) && a.has_snapshot() && b.has_snapshot()
}

/// The local port and the other end, 28 columns.
fn ends(flow: &Flow) -> String {
    let remote = flow.remote.to_string();
    let remote = if remote.len() <= 21 {
        remote
    } else {
        // An IPv6 address: its middle is the least informative part.
        format!("{}…{}", &remote[..8], &remote[remote.len() - 12..])
    };
    format!("{:>6} {remote:<21}", format!(":{}", flow.local.port()))
}

/// The event as text.
fn what(event: &Event) -> String {
    match (event.kind, event.reason) {
        (Kind::Retransmit, Reason::FastRetransmit) => "retransmit fast".into(),
        (Kind::Retransmit, Reason::TailLossProbe) => "tail-loss probe".into(),
        (Kind::Retransmit, Reason::LossRecovery) => "retransmit (loss)".into(),
        (Kind::Timeout, _) => "timeout".into(),
        (Kind::Open | Kind::State, reason) if reason != Reason::None => reason.name().into(),
        (Kind::Close, Reason::CloseNotSeen) => Reason::CloseNotSeen.name().into(),
        (Kind::Undo, _) => "undo".into(),
        (kind, Reason::None) => kind.name().into(),
        (kind, reason) => format!("{} {}", kind.name(), reason.name()),
    }
}

fn letter(state: CaState) -> char {
    match state {
        CaState::Open => 'O',
        CaState::Disorder => 'D',
        CaState::Cwr => 'C',
        CaState::Recovery => 'R',
        CaState::Loss => 'L',
    }
}

/// The ANSI colour of an event, from the terminal's own sixteen.
fn colour(event: &Event) -> &'static str {
    match (event.kind, event.ca_state) {
        (Kind::Timeout, _) | (Kind::State, CaState::Loss) => "\x1b[1;31m",
        (Kind::Retransmit, _) | (Kind::State, CaState::Recovery) => "\x1b[33m",
        (Kind::State, CaState::Cwr) => "\x1b[36m",
        (Kind::Open | Kind::Close, _) => "\x1b[32m",
        (Kind::Undo, _) => "\x1b[34m",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use yuzuri_trace::Snapshot;

    const NARROW: RowStyle = RowStyle { columns: Some(80), colour: false };

    fn event(ms: u64, kind: Kind, reason: Reason, ca_state: CaState) -> Event {
        let snapshot = Snapshot {
            cwnd: 123_456,
            srtt_us: 123_400,
            ssthresh: 12_345,
            packets_out: 12_345,
            ..Snapshot::default()
        };
        Event {
            flow: FlowId(1),
            mono_ns: ms * 1_000_000,
            kind,
            reason,
            ca_state,
            snapshot,
            ..Event::default()
        }
    }

    fn flow(remote: &str) -> Arc<Flow> {
        let local = "[2001:db8::1]:54321".parse().unwrap();
        Arc::new(Flow { id: FlowId(1), local, remote: remote.parse().unwrap(), ..Flow::default() })
    }

    fn printed(look: RowStyle, remote: &str, events: &[Event]) -> Vec<String> {
        let mut rows = Rows::new(look, 0);
        let mut out = Vec::new();
        rows.flow(&flow(remote), &mut out).unwrap();
        for event in events {
            rows.event(event, event.kind != Kind::Sample, true, &mut out).unwrap();
        }
        rows.flush(&mut out).unwrap();
        String::from_utf8(out).unwrap().lines().skip(1).map(str::to_owned).collect()
    }

    #[test]
    fn every_row_fits_into_80_columns_and_has_both_ends() {
        for remote in ["[2001:db8:1234:5678:9abc:def0:1234:5678]:65535", "192.168.100.101:65535"] {
            for kind in Kind::ALL {
                for reason in Reason::ALL {
                    let rows = printed(NARROW, remote, &[event(999_999, *kind, *reason, CaState::Loss)]);
                    for row in &rows {
                        assert!(row.chars().count() <= 80, "{row}");
                    }
                    let Some(row) = rows.get(1) else { continue };
                    assert!(row.contains(":54321") && row.contains(":65535"), "{row}");
                }
            }
        }
    }

    /// The window's behaviour is meaningful only with the name of the congestion control, at first
    /// and after a change.
    #[test]
    fn rows_state_the_congestion_control() {
        let mut rows = Rows::new(NARROW, 0);
        let mut out = Vec::new();
        let named = |name: &str| {
            let flow = Flow { congestion_control: name.into(), ..(*flow("10.0.0.1:443")).clone() };
            Arc::new(flow)
        };
        let full = |ms: u64, kind: Kind| {
            let snapshot = Snapshot {
                cwnd: 20,
                ssthresh: Snapshot::SSTHRESH_INFINITE,
                packets_out: 20,
                mss: 1000,
                notsent: 100_000,
                srtt_us: 20_000,
                min_rtt_us: 20_000,
                snd_wnd: 1_000_000,
                bytes_acked: ms * 1000,
                ..Snapshot::default()
            };
            Event { snapshot, ..event(ms, kind, Reason::None, CaState::Open) }
        };
        rows.flow(&named("cubic"), &mut out).unwrap();
        for ms in 0..2 {
            rows.event(&full(ms, Kind::Sample), false, true, &mut out).unwrap();
        }
        rows.event(&full(2, Kind::Reordering), true, true, &mut out).unwrap();
        rows.flow(&named("yuzuri"), &mut out).unwrap();
        for ms in 3..60 {
            rows.event(&full(ms, Kind::Sample), false, true, &mut out).unwrap();
        }
        rows.event(&full(60, Kind::Undo), true, true, &mut out).unwrap();
        rows.flush(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let limits: Vec<_> = text.lines().skip(2).filter_map(|row| row.split_whitespace().last()).collect();
        assert_eq!(limits, ["start", "share"], "{text}");
    }

    #[test]
    fn the_process_of_a_flow_is_printed_when_it_is_found() {
        let (mut rows, mut out) = (Rows::new(NARROW, 0), Vec::new());
        let found = Flow {
            owner: Some(yuzuri_trace::Owner { pid: 7, name: "rsync".into() }),
            ..(*flow("10.0.0.2:443")).clone()
        };
        for flow in [flow("10.0.0.2:443"), Arc::new(found.clone()), Arc::new(found)] {
            rows.flow(&flow, &mut out).unwrap();
        }
        let out = String::from_utf8(out).unwrap();
        let lines: Vec<_> = out.lines().collect();
        assert_eq!(lines.len(), 2, "{out}");
        assert!(!lines[0].contains("rsync") && lines[1].ends_with("  rsync[7]"), "{out}");
    }

    #[test]
    fn consecutive_equal_events_are_one_row_with_their_count() {
        let resent = |ms| event(ms, Kind::Retransmit, Reason::FastRetransmit, CaState::Recovery);
        let entered = event(1, Kind::State, Reason::FastRetransmit, CaState::Recovery);
        let rows = printed(NARROW, "10.0.0.1:443", &[entered, resent(2), resent(3), resent(4), entered]);
        assert_eq!(rows.len(), 4, "{rows:?}");
        assert!(rows[2].contains("retransmit fast ×3") && rows[2].contains("0.002 "), "{rows:?}");
        assert!(!rows[1].contains('×') && !rows[3].contains('×'));
    }

    #[test]
    fn colours_only_where_asked_for_and_more_where_there_is_room() {
        let timeout = [event(1, Kind::Timeout, Reason::Timeout, CaState::Loss)];
        let coloured = printed(RowStyle { colour: true, ..NARROW }, "10.0.0.1:443", &timeout);
        assert!(
            coloured[1].contains("\x1b[1;31mL timeout") && coloured[1].contains("\x1b[0m"),
            "{coloured:?}"
        );
        let narrow = printed(NARROW, "10.0.0.1:443", &timeout);
        assert!(!narrow[1].contains('\x1b') && !narrow[1].contains("ssthresh"));
        for columns in [None, Some(200)] {
            assert!(
                printed(RowStyle { columns, colour: false }, "10.0.0.1:443", &timeout)[1]
                    .contains("ssthresh 12345")
            );
        }
    }
}
