//! The model data of one frame, and its order.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use yuzuri_limits::Limit;
use yuzuri_trace::{Account, CaState, Density, Event, Flow, FlowId, Session};
use yuzuri_view::order::{self, SortValues};
use yuzuri_view::{LiveModel, Row, SortKey};

/// Maximum points of a sparkline: 15 s.
pub(crate) const SPARKLINE_POINTS: usize = 30;

/// The name of a bottleneck that several flows share: a word, so that its flows can be found by it.
pub(crate) fn bottleneck_name(number: usize) -> String {
    format!("bottleneck-{number}")
}

/// One row of the table.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) flow: Arc<Flow>,
    pub(crate) last: Event,
    pub(crate) first_ns: u64,
    /// When it was closed, or since when the filter no longer selects it.
    pub(crate) closed_ns: Option<u64>,
    pub(crate) is_unwatched: bool,
    /// Sending plus receiving rate over the last second, bits per second.
    pub(crate) rate_bps: f64,
    /// What limited it for most of the last two seconds, and its share of them.
    pub(crate) limit: Option<(Limit, f64)>,
    /// The other end's host name, if requested and known.
    pub(crate) remote_name: Option<Arc<str>>,
    /// The number of the bottleneck that it shares with other flows, if that is known.
    pub(crate) bottleneck: Option<usize>,
    /// Newest last.
    pub(crate) sparkline_bps: Vec<f32>,
}

impl Line {
    fn of(row: &Row, now_ns: u64) -> Line {
        let skip = row.spark_rate_bps.len().saturating_sub(SPARKLINE_POINTS);
        Line {
            flow: row.flow.clone(),
            last: row.last,
            first_ns: row.first_ns,
            closed_ns: row.ended_ns(),
            is_unwatched: row.closed_ns.is_none() && row.unwatched_ns.is_some(),
            rate_bps: row.sent_bps(now_ns) + row.received_bps(now_ns),
            limit: row.limited_by(now_ns),
            remote_name: None,
            bottleneck: None,
            sparkline_bps: row.spark_rate_bps.iter().skip(skip).copied().collect(),
        }
    }

    pub(crate) fn id(&self) -> FlowId {
        self.flow.id
    }

    /// The state as a word.
    pub(crate) fn state_word(&self) -> &'static str {
        match (self.is_unwatched, self.closed_ns) {
            (true, _) => "unwatched",
            (_, Some(_)) => "closed",
            _ => self.last.ca_state.name(),
        }
    }

    /// The state as a letter, for narrow columns.
    pub(crate) fn state_letter(&self) -> char {
        match (self.is_unwatched, self.closed_ns) {
            (true, _) => '–',
            (_, Some(_)) => '×',
            _ => crate::theme::letter(self.last.ca_state),
        }
    }

    /// The state, unless the flow is closed.
    pub(crate) fn live_state(&self) -> Option<CaState> {
        self.closed_ns.is_none().then_some(self.last.ca_state)
    }

    /// Process name and id; empty if unknown.
    pub(crate) fn process(&self) -> String {
        self.flow.owner.as_ref().map(|o| format!("{}/{}", o.name, o.pid)).unwrap_or_default()
    }

    /// Whether each word of `find` (lower case) occurs in the flow's text.
    pub(crate) fn is_found_by(&self, find: &str) -> bool {
        if find.is_empty() {
            return true;
        }
        let flow = &self.flow;
        let netns = flow.netns_name.as_deref().unwrap_or_default();
        let all = format!(
            "{flow} {} {} {} {} {} {} {netns} {}",
            self.process(),
            flow.congestion_control,
            self.state_word(),
            self.limit.map_or("", |(limit, _)| limit.name()),
            self.remote_name.as_deref().unwrap_or_default(),
            self.bottleneck.map(bottleneck_name).unwrap_or_default(),
            flow.netns
        );
        let all = all.to_lowercase();
        find.split_whitespace().all(|word| all.contains(word))
    }
}

/// Sorts lines. They are copies, so sorting does not lock the model and works on a frozen screen,
/// too.
pub(crate) fn sort(lines: &mut [Line], key: SortKey, reverse: bool) {
    order::sort(lines, key, reverse, |line| SortValues {
        flow: &line.flow,
        last: &line.last,
        first_ns: line.first_ns,
        rate_bps: line.rate_bps,
    });
}

/// Restores the previous order, with new lines at the end in their current order: rows must not
/// move between two sorts.
pub(crate) fn keep_order(lines: &mut [Line], ranks: &HashMap<FlowId, usize>) {
    lines.sort_by_key(|line| ranks.get(&line.id()).copied().unwrap_or(usize::MAX));
}

/// A notable event and its flow.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) number: u64,
    pub(crate) event: Event,
    /// `None` if the model has dropped the flow.
    pub(crate) flow: Option<Arc<Flow>>,
}

/// The notable events, copied from the model as they arrive.
#[derive(Debug, Default)]
pub(crate) struct Log {
    pub(crate) entries: VecDeque<Entry>,
}

impl Log {
    const MAX: usize = 2000;

    fn update(&mut self, model: &LiveModel) {
        let last = self.entries.back().map_or(0, |entry| entry.number);
        if let Some(mine) = self.entries.back() {
            let same =
                model.log_after(last - 1).next().is_some_and(|l| l.number == last && l.event == mine.event);
            if !same {
                // A replay seek restarted the model, or more events arrived than the model keeps.
                self.entries.clear();
            }
        }
        let after = self.entries.back().map_or(0, |entry| entry.number);
        for logged in model.log_after(after) {
            if self.entries.len() == Self::MAX {
                self.entries.pop_front();
            }
            let flow = model.row(logged.event.flow).map(|row| row.flow.clone());
            self.entries.push_back(Entry { number: logged.number, event: logged.event, flow });
        }
    }
}

/// The model data of one frame, except the chart.
#[derive(Debug)]
pub(crate) struct FrameData {
    pub(crate) session: Arc<Session>,
    pub(crate) filter: String,
    pub(crate) density: Density,
    pub(crate) account: Option<Arc<Account>>,
    pub(crate) now_ns: u64,
    pub(crate) wall_offset_ns: i64,
    pub(crate) discarded_flows: u64,
    /// All flows of the model.
    pub(crate) lines: Vec<Line>,
    pub(crate) log: Log,
}

impl FrameData {
    /// Copies the model; `log` continues the previous frame's log.
    pub(crate) fn at(model: &LiveModel, mut log: Log) -> FrameData {
        log.update(model);
        let now_ns = model.now_ns();
        FrameData {
            session: model.session().clone(),
            filter: model.filter().to_owned(),
            density: model.density(),
            account: model.account().cloned(),
            now_ns,
            wall_offset_ns: model.wall_offset_ns(),
            discarded_flows: model.discarded_flows(),
            lines: model.rows().map(|row| Line::of(row, now_ns)).collect(),
            log,
        }
    }

    /// Converts a time of the model to nanoseconds since the Unix epoch.
    pub(crate) fn unix_ns(&self, mono_ns: u64) -> i64 {
        (mono_ns as i64).saturating_add(self.wall_offset_ns)
    }
}
