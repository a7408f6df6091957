//! The screen's state, and the effect of each key on it, independent of terminal and drawing.

mod keys;
mod mouse;

use crate::bottlenecks::Bottlenecks;
use crate::chart_view::ChartView;
use crate::clock::Clock;
use crate::edit::Edit;
use crate::frame_data::{self, Entry, FrameData, Line};
use crate::names::Names;
use crate::theme::Theme;
use crate::totals::{Total, TotalsBy, totals};
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet, VecDeque};
use std::net::IpAddr;
use std::time::Duration;
use yuzuri_trace::{Density, FlowId};
use yuzuri_view::{Control, LiveModel, Replay, SortKey};

/// An action that a key requests from the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    None,
    Quit,
    Suspend,
    Clear,
    /// Has the terminal report the mouse, or leaves it to the terminal.
    Mouse(bool),
}

/// The main view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    Table,
    Chart,
}

/// Where events are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Events {
    Off,
    /// Below the table or chart, newest last.
    Panel,
    /// Full screen, scrollable.
    Full,
}

/// The purpose of the input line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Search in rows and events; applied while typing.
    Find,
    /// Filter of the source's flows; applied on Enter.
    Filter,
}

#[derive(Debug)]
pub(crate) struct Input {
    pub(crate) purpose: Purpose,
    pub(crate) edit: Edit,
    pub(crate) error: Option<String>,
    /// The text that Esc restores.
    before: String,
}

/// A message above the key bar, shown for a few seconds.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) text: String,
    pub(crate) is_error: bool,
    until: Duration,
}

/// The complete state.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) theme: Theme,
    pub(crate) clock: Clock,
    pub(crate) view: View,
    pub(crate) events: Events,
    /// Scroll position of the help, if it is shown.
    pub(crate) help: Option<usize>,
    pub(crate) input: Option<Input>,
    pub(crate) message: Option<Message>,
    pub(crate) sort: SortKey,
    pub(crate) reverse: bool,
    /// Totals instead of flows, and which one is marked.
    pub(crate) totals: Option<TotalsBy>,
    pub(crate) totals_at: usize,
    pub(crate) totals_top: usize,
    totals_order: Vec<String>,
    /// Interfaces of this machine's addresses; empty for a recording.
    pub(crate) interfaces: HashMap<IpAddr, String>,
    /// Looks up the other ends' names, if requested.
    pub(crate) names: Option<Names>,
    pub(crate) look_up: fn(IpAddr) -> Option<String>,
    /// Finds shared bottlenecks; `None`: nothing looks for them.
    pub(crate) bottlenecks: Option<Bottlenecks>,
    /// Flows that stay at the top.
    pub(crate) pinned: HashSet<FlowId>,
    /// The sum of all flows' rates each [`App::SUM_NS`], newest last, and when the next one is due.
    pub(crate) sum_bps: VecDeque<f32>,
    sum_due_ns: u64,
    pub(crate) find: String,
    /// The live screen is frozen; monitoring continues.
    pub(crate) frozen: bool,
    pub(crate) replay: Option<Replay>,
    pub(crate) frame_data: Option<FrameData>,
    /// Indices of the visible lines in `frame_data.lines`, in display order.
    pub(crate) shown: Vec<usize>,
    /// The flow that the user selected; `None` while the marker is on the first row by default.
    pub(crate) chosen: Option<FlowId>,
    /// Last position of the chosen flow, used when it disappears.
    chosen_at: usize,
    /// First row and number of rows when the table was last drawn.
    pub(crate) table_top: usize,
    pub(crate) table_rows: usize,
    /// Positions of the columns by which the table can be sorted: first cell, end, key.
    pub(crate) titles: Vec<(u16, u16, SortKey)>,
    /// The terminal reports the mouse.
    pub(crate) has_mouse: bool,
    pub(crate) chart: ChartView,
    /// Events between the newest one and the end of the events view; the view's height when last
    /// drawn.
    pub(crate) events_back: usize,
    pub(crate) events_rows: usize,
    pub(crate) help_most: usize,
    /// An IPv6 address has been seen; address columns stay wide from then on.
    pub(crate) long_addresses: bool,
    sorted_at: Option<Duration>,
}

/// The display name of a sort key.
pub(crate) fn sort_name(key: SortKey) -> &'static str {
    match key {
        SortKey::Rate => "rate",
        SortKey::Cwnd => "cwnd",
        SortKey::Srtt => "srtt",
        SortKey::Retransmits => "retransmissions",
        SortKey::Address => "address",
        SortKey::Process => "process",
        SortKey::Control => "congestion control",
        SortKey::Age => "age",
    }
}

/// Interval at which rows are re-sorted. Values update with each frame.
const SORT_EVERY: Duration = Duration::from_secs(1);

impl App {
    /// Interval between two points of the graph of the sum, nanoseconds of the model's time.
    pub(crate) const SUM_NS: u64 = 500_000_000;
    /// Maximum number of points of that graph: more than any terminal has columns.
    const SUM_POINTS: usize = 1000;

    pub(crate) fn new(theme: Theme, clock: Clock) -> App {
        App {
            theme,
            clock,
            view: View::Table,
            events: Events::Off,
            help: None,
            input: None,
            message: None,
            sort: SortKey::default(),
            reverse: false,
            totals: None,
            totals_at: 0,
            totals_top: 0,
            totals_order: Vec::new(),
            interfaces: HashMap::new(),
            names: None,
            look_up: |_| None,
            bottlenecks: None,
            pinned: HashSet::new(),
            sum_bps: VecDeque::new(),
            sum_due_ns: 0,
            find: String::new(),
            frozen: false,
            replay: None,
            frame_data: None,
            shown: Vec::new(),
            chosen: None,
            chosen_at: 0,
            table_top: 0,
            table_rows: 1,
            titles: Vec::new(),
            has_mouse: true,
            chart: ChartView::new(),
            events_back: 0,
            events_rows: 1,
            help_most: 0,
            long_addresses: false,
            sorted_at: None,
        }
    }

    /// Copies the next frame's data from the model. `elapsed` is any monotonic clock.
    pub(crate) fn refresh(&mut self, model: &Mutex<LiveModel>, control: &dyn Control, elapsed: Duration) {
        self.replay = control.replay();
        if self.message.as_ref().is_some_and(|m| m.until <= elapsed) {
            self.message = None;
        }
        let newest = self.frame_data.as_ref().and_then(|l| l.log.entries.back()).map(|e| e.number);
        let due = self.sorted_at.is_none_or(|at| elapsed.saturating_sub(at) >= SORT_EVERY);
        let ranks = if due { HashMap::new() } else { self.ranks() };
        {
            let model = model.lock();
            if !self.frozen || self.frame_data.is_none() {
                let log = self.frame_data.take().map(|frame_data| frame_data.log).unwrap_or_default();
                self.frame_data = Some(FrameData::at(&model, log));
                if let Some(bottlenecks) = &mut self.bottlenecks {
                    bottlenecks.refresh(&model, elapsed);
                }
            }
            self.copy_chart(&model);
        }
        self.hold_events(newest);
        self.name_remotes();
        self.number_bottlenecks();
        self.note_sum();
        if due {
            self.sorted_at = Some(elapsed);
        }
        self.arrange(&ranks);
        if let (true, Some(by)) = (due, self.totals) {
            self.totals_order = totals(self.lines(), by, &[]).into_iter().map(|total| total.name).collect();
        }
    }

    /// Names the other ends, as far as their names are known.
    pub(crate) fn name_remotes(&mut self) {
        let Some(frame_data) = &mut self.frame_data else { return };
        for line in &mut frame_data.lines {
            line.remote_name = self.names.as_ref().and_then(|names| names.of(line.flow.remote.ip()));
        }
    }

    /// Numbers the bottleneck of each flow, as far as it is known.
    fn number_bottlenecks(&mut self) {
        let (Some(frame_data), Some(bottlenecks)) = (&mut self.frame_data, &self.bottlenecks) else { return };
        for line in &mut frame_data.lines {
            line.bottleneck = bottlenecks.of(line.id());
        }
    }

    /// The number of other flows that are known to share the flow's bottleneck.
    pub(crate) fn shares_with(&self, line: &Line) -> usize {
        let Some(frame_data) = self.frame_data.as_ref().filter(|_| line.bottleneck.is_some()) else {
            return 0;
        };
        frame_data.lines.iter().filter(|other| other.bottleneck == line.bottleneck).count().saturating_sub(1)
    }

    /// Adds a point to the graph of the sum, once its time has come.
    fn note_sum(&mut self) {
        let Some(frame_data) = &self.frame_data else { return };
        if frame_data.now_ns.saturating_add(10 * Self::SUM_NS) < self.sum_due_ns {
            // A replay was moved back.
            self.sum_bps.clear();
        } else if frame_data.now_ns < self.sum_due_ns {
            return;
        }
        let open = frame_data.lines.iter().filter(|line| line.closed_ns.is_none());
        let sum: f64 = open.map(|line| line.rate_bps).sum();
        self.sum_due_ns = frame_data.now_ns + Self::SUM_NS;
        if self.sum_bps.len() == Self::SUM_POINTS {
            self.sum_bps.pop_front();
        }
        self.sum_bps.push_back(sum as f32);
    }

    /// The totals in their order.
    pub(crate) fn totals_by(&self, by: TotalsBy) -> Vec<Total> {
        totals(self.lines(), by, &self.totals_order)
    }

    /// Keeps the marked group in sight.
    pub(crate) fn scroll_totals(&mut self, groups: usize, rows: usize) {
        self.table_rows = rows.max(1);
        self.totals_at = self.totals_at.min(groups.saturating_sub(1));
        let least = (self.totals_at + 1).saturating_sub(self.table_rows);
        self.totals_top = self.totals_top.min(self.totals_at).max(least);
    }

    /// Keeps a scrolled-back events view on the same events while new ones arrive.
    fn hold_events(&mut self, newest: Option<u64>) {
        if self.events_back == 0 {
            return;
        }
        let come = self.events_shown().filter(|e| newest.is_none_or(|n| e.number > n)).count();
        self.events_back += come;
        self.limit_events_back();
    }

    fn limit_events_back(&mut self) {
        let most = self.events_shown().count().saturating_sub(self.events_rows);
        self.events_back = self.events_back.min(most);
    }

    fn copy_chart(&mut self, model: &LiveModel) {
        self.chart.buckets.clear();
        let Some(frame_data) = &self.frame_data else { return };
        if self.view != View::Chart {
            return;
        }
        let Some(row) = self.chosen.and_then(|id| model.row(id)) else { return };
        let from = self.chart.left_ns(frame_data.now_ns);
        let to = from + self.chart.column_ns() * self.chart.columns as u64;
        // Include data before the left edge: values that hold into the view, and the counter for
        // the first throughput.
        let early = self.chart.span_ns() / 4 + 2_000_000_000;
        self.chart.first_ns = row.first_ns;
        self.chart.buckets = row.history.window(from.saturating_sub(early), to.min(frame_data.now_ns), 4096);
    }

    /// Sorts and filters the lines; lines in `ranks` keep their order.
    fn arrange(&mut self, ranks: &HashMap<FlowId, usize>) {
        let Some(frame_data) = &mut self.frame_data else { return };
        frame_data::sort(&mut frame_data.lines, self.sort, self.reverse);
        if !ranks.is_empty() {
            frame_data::keep_order(&mut frame_data.lines, ranks);
        }
        let pinned = &self.pinned;
        frame_data.lines.sort_by_key(|line| !pinned.contains(&line.id()));
        self.long_addresses |=
            frame_data.lines.iter().any(|l| l.flow.local.is_ipv6() || l.flow.remote.is_ipv6());
        let find = self.find.to_lowercase();
        self.shown =
            (0..frame_data.lines.len()).filter(|n| frame_data.lines[*n].is_found_by(&find)).collect();
        if let Some(chosen) = self.chosen {
            let at = self.ids().position(|id| id == chosen);
            match at {
                Some(at) => self.chosen_at = at,
                // The flow left the table: mark the row in its place. A chart keeps showing its
                // flow.
                None if self.view == View::Table => self.choose_at(self.chosen_at),
                None => {}
            }
        }
    }

    /// The current rank of every line.
    fn ranks(&self) -> HashMap<FlowId, usize> {
        self.frame_data.iter().flat_map(|l| &l.lines).enumerate().map(|(n, line)| (line.id(), n)).collect()
    }

    fn arrange_now(&mut self) {
        self.arrange(&HashMap::new());
    }

    fn ids(&self) -> impl Iterator<Item = FlowId> + '_ {
        self.lines().map(Line::id)
    }

    /// The visible lines, in display order.
    pub(crate) fn lines(&self) -> impl ExactSizeIterator<Item = &Line> + '_ {
        let lines = self.frame_data.as_ref().map_or(&[][..], |frame_data| &frame_data.lines);
        self.shown.iter().map(|n| &lines[*n])
    }

    /// Number of flows in the model.
    pub(crate) fn total(&self) -> usize {
        self.frame_data.as_ref().map_or(0, |frame_data| frame_data.lines.len())
    }

    /// Position of the marked row among the visible rows.
    pub(crate) fn marked(&self) -> Option<usize> {
        if self.shown.is_empty() {
            return None;
        }
        let at = self.chosen.and_then(|chosen| self.ids().position(|id| id == chosen));
        Some(at.unwrap_or(self.chosen_at.min(self.shown.len() - 1)))
    }

    /// The line of the chosen flow, even if it is not visible.
    pub(crate) fn chosen_line(&self) -> Option<&Line> {
        let chosen = self.chosen?;
        self.frame_data.as_ref()?.lines.iter().find(|line| line.id() == chosen)
    }

    /// The events to show, oldest first: those of the charted flow or of all flows, filtered by the
    /// search text.
    pub(crate) fn events_shown(&self) -> impl DoubleEndedIterator<Item = &Entry> + '_ {
        let find = self.find.to_lowercase();
        let only = if self.view == View::Chart { self.chosen } else { None };
        let entries = self.frame_data.iter().flat_map(|frame_data| &frame_data.log.entries);
        entries.filter(move |entry| {
            only.is_none_or(|id| entry.event.flow == id) && (only.is_some() || is_found(entry, &find))
        })
    }

    fn choose_at(&mut self, at: usize) {
        let at = at.min(self.shown.len().saturating_sub(1));
        self.chosen_at = at;
        let chosen = self.ids().nth(at);
        self.chosen = chosen;
    }

    fn move_by(&mut self, by: isize) {
        let at = self.marked().unwrap_or(0).saturating_add_signed(by);
        self.choose_at(at);
    }

    /// Scrolls the marked row into view. Call this when the table's height is known.
    pub(crate) fn scroll_to_marked(&mut self, rows: usize) {
        self.table_rows = rows.max(1);
        let marked = self.marked().unwrap_or(0);
        let most = self.shown.len().saturating_sub(self.table_rows);
        self.table_top =
            self.table_top.min(marked).max((marked + 1).saturating_sub(self.table_rows)).min(most);
    }
}

/// The display text of a density.
pub(crate) fn density_words(density: Density) -> String {
    match density {
        Density::EveryAck => "every ACK".into(),
        Density::Interval { ns } if ns % 1_000_000 == 0 => format!("one per {} ms", ns / 1_000_000),
        other => format!("one per {other}"),
    }
}

/// The display text of a replay speed: `2×`, `0.25×`.
pub(crate) fn speed_words(speed: f64) -> String {
    format!("{}×", (speed * 1000.0).round() / 1000.0)
}

fn is_found(entry: &Entry, find: &str) -> bool {
    if find.is_empty() {
        return true;
    }
    let event = &entry.event;
    let flow = entry.flow.as_ref().map(|f| {
        let owner = f.owner.as_ref().map(|o| o.name.as_str()).unwrap_or_default();
        format!("{f} {owner}")
    });
    let all = format!(
        "{} {} {} {} {} {}",
        flow.unwrap_or_default(),
        event.kind.name(),
        event.reason.name(),
        event.place,
        event.ca_before.name(),
        event.ca_state.name()
    );
    let all = all.to_lowercase();
    find.split_whitespace().all(|word| all.contains(word))
}
