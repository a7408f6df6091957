//! A row per flow, the latest notable events, and the account.

use crate::dominant_limit::{LimitMeter, RecordLimits};
use crate::history::History;
use crate::limited::FlowLimits;
use crate::rate::RateMeter;
use crate::shared_bottleneck::{Delays, MAX_FLOWS as MAX_COMPARED};
use crate::shown_bound::ShownBound;
use serde::Serialize;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use yuzuri_limits::Limit;
use yuzuri_trace::{Account, Event, Filter, Flow, FlowId, Item, Kind, Marks, Reason, Session, Setting};

/// How much a model remembers.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Maximum number of flows. Beyond it, closed flows are dropped first, then those silent for
    /// longest.
    pub flows: usize,
    /// How long a closed flow stays, nanoseconds.
    pub closed_ns: u64,
    /// Maximum number of notable events.
    pub log: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { flows: 1000, closed_ns: 600_000_000_000, log: 2000 }
    }
}

/// Counts of a flow's events while it was watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Tally {
    /// Records.
    pub events: u64,
    /// Segments received that passed `tcp:tcp_probe`.
    pub acks: u64,
    /// Duplicate ACKs.
    pub dup_acks: u64,
    /// ACKs with SACK blocks.
    pub sacks: u64,
    /// ACKs with a DSACK.
    pub dsacks: u64,
    /// Retransmissions seen as events.
    pub retransmits: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Entries into Disorder, CWR, Recovery, Loss.
    pub entered: [u64; 4],
    /// Reductions caused by the device's own queue.
    pub local_congestion: u64,
    /// Undone reductions.
    pub undos: u64,
}

impl Tally {
    /// Counts a record.
    pub fn add(&mut self, event: &Event) {
        self.events += 1;
        self.acks += u64::from(event.counts.acks);
        self.dup_acks += u64::from(event.counts.dup_acks);
        self.sacks += u64::from(event.counts.sacks);
        self.dsacks += u64::from(event.counts.dsacks);
        match event.kind {
            Kind::Retransmit => self.retransmits += 1,
            Kind::Timeout => self.timeouts += 1,
            _ => {}
        }
        match event.reason {
            Reason::LocalCongestion => self.local_congestion += 1,
            Reason::Undo => self.undos += 1,
            _ => {}
        }
        // A timeout is a change of state, too.
        if event.ca_state != event.ca_before
            && let Some(n) = (event.ca_state as usize).checked_sub(1)
        {
            self.entered[n] += 1;
        }
    }
}

/// A flow as user interfaces show it.
#[derive(Debug, Clone)]
pub struct Row {
    /// The flow's identity.
    pub flow: Arc<Flow>,
    /// The latest record.
    pub last: Event,
    /// Time of the first record.
    pub first_ns: u64,
    /// When it was closed.
    pub closed_ns: Option<u64>,
    /// Since when the filter no longer selects the flow. From then on its state is unknown, which
    /// differs from zero. The kernel evaluates control groups, so a change of only a `cgroup:` term
    /// has no effect here.
    pub unwatched_ns: Option<u64>,
    /// When a record first reported that the window is at its upper bound by sharing; `first_ns` if
    /// the first record did: then the window was at its bound before.
    pub bound_since_ns: Option<u64>,
    /// Counts.
    pub tally: Tally,
    /// The history.
    pub history: History,
    /// Sending rate, bits per second: one value each half second, the newest last, at most 60.
    pub spark_rate_bps: VecDeque<f32>,
    /// cwnd, segments, at the same times.
    pub spark_cwnd: VecDeque<u32>,
    /// What limits it.
    pub limits: FlowLimits,
    /// Its round-trip times; `None` until it has sent data.
    delays: Option<Box<Delays>>,
    bound: ShownBound,
    limited: LimitMeter,
    sent: RateMeter,
    received: RateMeter,
}

/// The time over which the queues of flows are compared, microseconds.
const COMPARED_US: u64 = 60_000_000;
const SPARK_NS: u64 = 500_000_000;
const SPARK_POINTS: usize = 60;

impl Row {
    fn new(flow: Arc<Flow>, mono_ns: u64) -> Row {
        let mut limits = FlowLimits::default();
        limits.controlled_by(&flow.congestion_control);
        Row {
            last: Event { flow: flow.id, mono_ns, ..Event::default() },
            flow,
            first_ns: mono_ns,
            closed_ns: None,
            unwatched_ns: None,
            bound_since_ns: None,
            tally: Tally::default(),
            history: History::default(),
            spark_rate_bps: VecDeque::new(),
            spark_cwnd: VecDeque::new(),
            limits,
            delays: None,
            bound: ShownBound::default(),
            limited: LimitMeter::default(),
            sent: RateMeter::default(),
            received: RateMeter::default(),
        }
    }

    /// Acknowledged bits per second over the last second.
    pub fn sent_bps(&self, now_ns: u64) -> f64 {
        self.sent.rate_bps(now_ns)
    }

    /// Received bits per second over the last second.
    pub fn received_bps(&self, now_ns: u64) -> f64 {
        self.received.rate_bps(now_ns)
    }

    /// What limited the flow for most of the last two seconds, and its share of them. `None` where
    /// that is unknown: the flow was silent, it is closed, or it only receives (only the sender
    /// sees what limits a transfer).
    pub fn limited_by(&self, now_ns: u64) -> Option<(Limit, f64)> {
        let is_active = self.ended_ns().is_none() && self.limits.sends();
        self.limited.most(now_ns / 1000).filter(|_| is_active)
    }

    /// When the flow ended for the viewer: closed, or no longer selected.
    pub fn ended_ns(&self) -> Option<u64> {
        self.closed_ns.or(self.unwatched_ns)
    }

    fn select(&mut self, filter: &Filter, at_ns: u64) {
        // Terms that cannot be decided here count as matching: unknown owners, and the watcher's
        // own namespace.
        let is_open = (filter.needs_owner() && self.flow.owner.is_none())
            || filter.netns.iter().any(|netns| netns == "self");
        let is_selected = is_open || filter.matches(&self.flow, |_, _| true);
        self.unwatched_ns = if is_selected { None } else { self.unwatched_ns.or(Some(at_ns)) };
    }

    fn apply(&mut self, event: &Event) {
        if self.unwatched_ns.is_some_and(|since| event.mono_ns > since) {
            self.unwatched_ns = None;
        }
        if !event.has_snapshot() {
            // Only the end of the flow is known: the last record stays.
            self.tally.events += 1;
            self.closed_ns = Some(event.mono_ns);
            return;
        }
        self.tally.add(event);
        if event.marks.at_bound() == Some(true) {
            let is_first = self.tally.events == 1;
            self.bound_since_ns.get_or_insert(if is_first { self.first_ns } else { event.mono_ns });
        }
        self.sent.record(event.mono_ns, event.snapshot.bytes_acked);
        self.received.record(event.mono_ns, event.snapshot.bytes_received);
        let known = RecordLimits::by(&mut self.limits, event);
        known.iter().for_each(|interval| self.limited.add(*interval));
        self.history.push(event, &known, self.bound.segments(event));
        if let Some(srtt_us) = event.snapshot.measured_srtt_us().filter(|_| self.limits.sends()) {
            let delays = self.delays.get_or_insert_with(|| Box::new(Delays::of_the_last(COMPARED_US)));
            delays.add(event.mono_ns / 1000, srtt_us);
        }
        match event.kind {
            Kind::Close => self.closed_ns = Some(event.mono_ns),
            Kind::Open => self.closed_ns = None,
            _ => {}
        }
        self.last = *event;
    }

    fn append_sparkline(&mut self, now_ns: u64) {
        if self.spark_cwnd.len() == SPARK_POINTS {
            self.spark_cwnd.pop_front();
            self.spark_rate_bps.pop_front();
        }
        let rate = self.sent_bps(now_ns) + self.received_bps(now_ns);
        self.spark_rate_bps.push_back(rate as f32);
        self.spark_cwnd.push_back(self.last.snapshot.cwnd);
    }
}

/// A notable event with its sequence number.
#[derive(Debug, Clone, Copy)]
pub struct Logged {
    /// 1 for the first since the model was opened, then without gaps.
    pub number: u64,
    /// The event.
    pub event: Event,
}

/// The live model.
#[derive(Debug)]
pub struct LiveModel {
    limits: Limits,
    rows: HashMap<FlowId, Row>,
    log: VecDeque<Logged>,
    logged: u64,
    account: Option<Arc<Account>>,
    session: Arc<Session>,
    setting: Option<Arc<Setting>>,
    now_ns: u64,
    spark_due_ns: u64,
    discarded_flows: u64,
}

impl LiveModel {
    /// An empty model for a stream.
    pub fn new(session: Arc<Session>, limits: Limits) -> LiveModel {
        LiveModel {
            limits,
            rows: HashMap::new(),
            log: VecDeque::new(),
            logged: 0,
            account: None,
            now_ns: session.started_mono_ns,
            spark_due_ns: session.started_mono_ns + SPARK_NS,
            session,
            setting: None,
            discarded_flows: 0,
        }
    }

    /// Applies an item.
    pub fn apply(&mut self, item: &Item) {
        match item {
            Item::Flow(flow) => {
                let now = self.now_ns;
                match self.rows.get_mut(&flow.id) {
                    Some(row) => {
                        row.limits.controlled_by(&flow.congestion_control);
                        row.flow = flow.clone();
                    }
                    None => {
                        self.make_room();
                        self.rows.insert(flow.id, Row::new(flow.clone(), now));
                    }
                }
            }
            Item::Event(event) => {
                self.now_ns = self.now_ns.max(event.mono_ns);
                let mut event = *event;
                if !self.rows.contains_key(&event.flow) {
                    if !event.has_snapshot() {
                        return;
                    }
                    // The identity was lost (and counted in the account): show what is known.
                    self.make_room();
                    let flow = Arc::new(Flow { id: event.flow, ..Flow::default() });
                    self.rows.insert(event.flow, Row::new(flow, event.mono_ns));
                }
                if let Some(row) = self.rows.get_mut(&event.flow) {
                    if !event.has_snapshot() {
                        // The list of events shows the last known state.
                        event = Event {
                            mono_ns: event.mono_ns,
                            kind: event.kind,
                            reason: event.reason,
                            ..row.last
                        };
                    }
                    row.apply(&event);
                }
                if event.kind != Kind::Sample || event.marks.contains(Marks::DSACK) {
                    self.logged += 1;
                    if self.log.len() == self.limits.log {
                        self.log.pop_front();
                    }
                    self.log.push_back(Logged { number: self.logged, event });
                }
            }
            Item::Account(account) => {
                self.now_ns = self.now_ns.max(account.mono_ns);
                self.account = Some(account.clone());
            }
            Item::Setting(setting) => {
                if let Ok(filter) = setting.filter.parse::<Filter>()
                    && setting.filter != self.filter()
                {
                    let open = self.rows.values_mut().filter(|row| row.closed_ns.is_none());
                    open.for_each(|row| row.select(&filter, setting.mono_ns));
                }
                self.setting = Some(setting.clone());
            }
        }
    }

    /// Advances the model's time, so that rates fall when nothing arrives and closed flows are
    /// dropped.
    pub fn advance(&mut self, now_ns: u64) {
        self.now_ns = self.now_ns.max(now_ns);
        if self.now_ns < self.spark_due_ns {
            return;
        }
        // After a long silence (suspend, a replay's gap) the missing sparks are not filled in.
        let missed = (self.now_ns - self.spark_due_ns) / SPARK_NS;
        self.spark_due_ns += (missed + 1) * SPARK_NS;
        let now = self.now_ns;
        for row in self.rows.values_mut().filter(|row| row.ended_ns().is_none()) {
            row.append_sparkline(now);
        }
        let keep = self.limits.closed_ns;
        self.rows.retain(|_, row| row.closed_ns.is_none_or(|closed| now.saturating_sub(closed) < keep));
    }

    fn make_room(&mut self) {
        if self.rows.len() < self.limits.flows {
            return;
        }
        // Drop a tenth in one go, so that a storm of short flows does not sort the table for each.
        let mut candidates: Vec<(bool, u64, FlowId)> =
            self.rows.values().map(|r| (r.closed_ns.is_none(), r.last.mono_ns, r.flow.id)).collect();
        candidates.sort_unstable();
        for (_, _, id) in candidates.into_iter().take((self.limits.flows / 10).max(1)) {
            self.rows.remove(&id);
            self.discarded_flows += 1;
        }
    }

    /// The row of a flow.
    pub fn row(&self, id: FlowId) -> Option<&Row> {
        self.rows.get(&id)
    }

    /// All rows, unsorted.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.values()
    }

    /// Notable events numbered above `after`, oldest first.
    pub fn log_after(&self, after: u64) -> impl DoubleEndedIterator<Item = &Logged> {
        let first = self.log.partition_point(|logged| logged.number <= after);
        self.log.range(first..)
    }

    /// The latest account.
    pub fn account(&self) -> Option<&Arc<Account>> {
        self.account.as_ref()
    }

    /// Where and how the stream was recorded.
    pub fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// The current filter.
    pub fn filter(&self) -> &str {
        self.setting.as_ref().map_or(&self.session.filter, |s| &s.filter)
    }

    /// The current density.
    pub fn density(&self) -> yuzuri_trace::Density {
        self.setting.as_ref().map_or(self.session.density, |s| s.density)
    }

    /// The model's current time, `CLOCK_MONOTONIC` of the observed machine, nanoseconds.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Wall time minus monotonic time, nanoseconds, by the latest account or the session.
    pub fn wall_offset_ns(&self) -> i64 {
        self.account.as_ref().map_or(self.session.wall_offset_ns(), |a| a.wall_offset_ns)
    }

    /// The round-trip times of the last minute, for
    /// [`share_a_bottleneck`](crate::shared_bottleneck::share_a_bottleneck): of the flows that
    /// moved the most data, in that order.
    pub fn recent_delays(&self) -> Vec<(FlowId, Delays)> {
        let from_us = (self.now_ns / 1000).saturating_sub(COMPARED_US);
        let mut timed: Vec<_> = self
            .rows
            .values()
            .filter_map(|row| Some((row, row.delays.as_deref()?.since(from_us)?)))
            .collect();
        timed.sort_by_key(|(row, _)| (std::cmp::Reverse(row.limits.acked_bytes()), row.flow.id));
        timed.truncate(MAX_COMPARED);
        timed.into_iter().map(|(row, delays)| (row.flow.id, delays)).collect()
    }

    /// Flows dropped from the table to stay within its limit.
    pub fn discarded_flows(&self) -> u64 {
        self.discarded_flows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use yuzuri_trace::{CaState, Density, Snapshot, Source};

    fn model(limits: Limits) -> LiveModel {
        let session = Session {
            yuzuri: "0".into(),
            host: "h".into(),
            kernel: "k".into(),
            machine: "m".into(),
            source: Source::Events,
            density: Density::default(),
            filter: String::new(),
            hooks: vec![],
            started_unix_ns: 0,
            started_mono_ns: 0,
        };
        LiveModel::new(Arc::new(session), limits)
    }

    fn sample(id: u64, mono_ns: u64, bytes_acked: u64) -> Item {
        let snapshot = Snapshot { bytes_acked, cwnd: 10, ..Default::default() };
        Item::Event(Event { mono_ns, flow: FlowId(id), snapshot, ..Default::default() })
    }

    #[test]
    fn rates_and_sparklines_follow_time() {
        let mut model = model(Limits::default());
        for ms in 0..2000u64 {
            model.apply(&sample(1, ms * 1_000_000, ms * 100));
            model.apply(&sample(2, ms * 1_000_000, ms * 200));
            model.advance(ms * 1_000_000);
        }
        let rate = |id| model.row(FlowId(id)).map_or(0.0, |row| row.sent_bps(model.now_ns()));
        assert!((rate(2) / rate(1) - 2.0).abs() < 0.01, "{} {}", rate(1), rate(2));
        assert_eq!(model.row(FlowId(1)).map(|r| r.spark_cwnd.len()), Some(3));
    }

    #[test]
    fn a_flow_that_the_filter_no_longer_selects_has_an_end_and_no_zeros() {
        let mut model = model(Limits::default());
        for (id, port) in [(1, 80), (2, 443)] {
            let remote = ([192, 0, 2, 1], port).into();
            model.apply(&Item::Flow(Arc::new(Flow { id: FlowId(id), remote, ..Flow::default() })));
            model.apply(&sample(id, 1_000, 100));
        }
        let set = |filter: &str, mono_ns| {
            Item::Setting(Arc::new(Setting { mono_ns, filter: filter.into(), density: Density::default() }))
        };
        let ends = |model: &LiveModel| [1, 2].map(|id| model.row(FlowId(id)).and_then(Row::ended_ns));
        model.apply(&set("port:443", 2_000));
        assert_eq!(ends(&model), [Some(2_000), None]);
        // Another filter that does not select it either: the end stays where it was.
        model.apply(&set("port:22", 3_000));
        assert_eq!(ends(&model), [Some(2_000), Some(3_000)]);
        // A change of the density alone says nothing about flows.
        model.apply(&set("port:22", 3_500));
        assert_eq!(ends(&model), [Some(2_000), Some(3_000)]);
        model.apply(&set("", 4_000));
        assert_eq!(ends(&model), [None, None]);
        // Its owner is unknown, so whether a process filter selects it is unknown, too.
        model.apply(&set("pid:7", 5_000));
        assert_eq!(ends(&model), [None, None]);
        model.apply(&set("port:1", 6_000));
        model.apply(&sample(1, 7_000, 200));
        assert_eq!(ends(&model), [None, Some(6_000)], "a record says that it is watched");
    }

    #[test]
    fn rows_know_when_a_window_first_was_at_its_bound() {
        let mut model = model(Limits::default());
        let marked = |id, mono_ns, marks: &[Marks]| {
            let snapshot = Snapshot { cwnd: 10, ..Default::default() };
            let mut event = Event { mono_ns, flow: FlowId(id), snapshot, ..Default::default() };
            marks.iter().for_each(|mark| event.marks.insert(*mark));
            Item::Event(event)
        };
        let bound = [Marks::REPORTS_BOUND, Marks::AT_BOUND];
        for (mono_ns, marks) in
            [(10, &bound[..0]), (20, &bound[..1]), (30, &bound[..]), (40, &bound[..1]), (50, &bound[..])]
        {
            model.apply(&marked(1, mono_ns, marks));
        }
        // Without a report the mark has no meaning.
        model.apply(&marked(2, 60, &bound[1..]));
        model.apply(&Item::Flow(Arc::new(Flow { id: FlowId(3), ..Flow::default() })));
        model.apply(&marked(3, 90, &bound));
        let since = |id| model.row(FlowId(id)).and_then(|row| row.bound_since_ns);
        assert_eq!([since(1), since(2)], [Some(30), None]);
        assert_eq!(since(3), model.row(FlowId(3)).map(|row| row.first_ns), "it was at its bound before");
    }

    #[test]
    fn flows_beyond_the_limit_are_discarded_closed_ones_first() {
        let mut model = model(Limits { flows: 10, ..Limits::default() });
        for id in 1..=10 {
            model.apply(&sample(id, id, 0));
        }
        let close = Event { kind: Kind::Close, flow: FlowId(9), mono_ns: 100, ..Default::default() };
        model.apply(&Item::Event(close));
        model.apply(&sample(11, 200, 0));
        assert!(model.row(FlowId(9)).is_none());
        assert_eq!((model.rows().count(), model.discarded_flows()), (10, 1));
    }

    #[test]
    fn notable_events_are_numbered_without_gaps() {
        let mut model = model(Limits { log: 3, ..Limits::default() });
        for n in 0..5 {
            let event =
                Event { kind: Kind::State, ca_state: CaState::Recovery, mono_ns: n, ..Default::default() };
            model.apply(&Item::Event(event));
        }
        model.apply(&sample(0, 9, 0));
        assert_eq!(model.log_after(3).map(|l| l.number).collect::<Vec<_>>(), [4, 5]);
        assert_eq!(model.log_after(0).count(), 3);
        assert_eq!(model.row(FlowId(0)).map(|r| r.tally.entered), Some([0, 0, 5, 0]));
    }
}
