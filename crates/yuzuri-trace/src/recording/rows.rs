//! Turns items into rows, and gathers them until a batch is due.

use super::columns::COLUMNS;
use super::events::EventColumns;
use super::gather::{Numbers, Texts};
use crate::{Account, Event, Flow, Item, Marks, Place, Session, Setting};
use arrow_array::types::{Int64Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{ArrayRef, BooleanArray, RecordBatch, TimestampNanosecondArray, UInt32Array, UInt64Array};
use arrow_buffer::{BooleanBuffer, NullBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, SchemaRef};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Rows of a full batch: few enough that a writer holds few megabytes, and enough that a batch's
/// own description (6 kB) does not matter.
pub const BATCH_ROWS: usize = 8_192;

/// Filters can be of any length: a batch is also full when it holds this many bytes of them.
const MAX_FREE_TEXT: usize = 1 << 20;

/// The value of `kind` in rows that are not a flow's record.
pub(super) const FLOW: &str = "flow";
pub(super) const ACCOUNT: &str = "account";
pub(super) const SETTING: &str = "setting";
pub(super) const END: &str = "end";

/// Rows on their way into a batch.
pub(super) struct Rows {
    schema: SchemaRef,
    /// Wall time minus monotonic time.
    wall_offset_ns: i64,
    last_mono_ns: u64,
    /// The last place and its name: most consecutive rows have the same.
    last_place: (Place, &'static str),
    time: Vec<i64>,
    mono_ns: Vec<u64>,
    is_event: Vec<bool>,
    kind: Texts,
    flow: Numbers<UInt64Type>,
    reason: Texts,
    place: Texts,
    ca_state: Texts,
    ca_before: Texts,
    events: EventColumns,
    in_flight: Vec<u32>,
    marks: Vec<u16>,
    has_sender_marks: Vec<bool>,
    cpu: Numbers<UInt16Type>,
    local: Texts,
    local_port: Numbers<UInt16Type>,
    remote: Texts,
    remote_port: Numbers<UInt16Type>,
    netns: Numbers<UInt32Type>,
    netns_name: Texts,
    pid: Numbers<UInt32Type>,
    process: Texts,
    cgroup: Numbers<UInt64Type>,
    congestion_control: Texts,
    role: Texts,
    inode: Numbers<UInt64Type>,
    wall_offset: Numbers<Int64Type>,
    seen: Numbers<UInt64Type>,
    kept: Numbers<UInt64Type>,
    lost: Numbers<UInt64Type>,
    lost_reason: Texts,
    thinned: Numbers<UInt64Type>,
    filter: Texts,
    density_interval_ns: Numbers<UInt64Type>,
}

impl Rows {
    pub(super) fn new(schema: SchemaRef, session: &Session) -> Rows {
        Rows {
            schema,
            wall_offset_ns: session.wall_offset_ns(),
            last_mono_ns: session.started_mono_ns,
            last_place: (Place::UNKNOWN, ""),
            time: Vec::new(),
            mono_ns: Vec::new(),
            is_event: Vec::new(),
            kind: Texts::default(),
            flow: Numbers::default(),
            reason: Texts::default(),
            place: Texts::default(),
            ca_state: Texts::default(),
            ca_before: Texts::default(),
            events: EventColumns::default(),
            in_flight: Vec::new(),
            marks: Vec::new(),
            has_sender_marks: Vec::new(),
            cpu: Numbers::default(),
            local: Texts::default(),
            local_port: Numbers::default(),
            remote: Texts::default(),
            remote_port: Numbers::default(),
            netns: Numbers::default(),
            netns_name: Texts::default(),
            pid: Numbers::default(),
            process: Texts::default(),
            cgroup: Numbers::default(),
            congestion_control: Texts::default(),
            role: Texts::default(),
            inode: Numbers::default(),
            wall_offset: Numbers::default(),
            seen: Numbers::default(),
            kept: Numbers::default(),
            lost: Numbers::default(),
            lost_reason: Texts::default(),
            thinned: Numbers::default(),
            filter: Texts::default(),
            density_interval_ns: Numbers::default(),
        }
    }

    /// Rows held.
    pub(super) fn len(&self) -> usize {
        self.mono_ns.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the rows fill a batch.
    pub(super) fn is_full(&self) -> bool {
        self.len() >= BATCH_ROWS || self.filter.size() >= MAX_FREE_TEXT
    }

    /// Reserves room for a batch, once.
    pub(super) fn reserve(&mut self, rows: usize) {
        self.time.reserve_exact(rows);
        self.mono_ns.reserve_exact(rows);
        self.in_flight.reserve_exact(rows);
        self.events.reserve(rows);
    }

    /// Adds an item: one row, for an account one per CPU and reason.
    pub(super) fn push(&mut self, item: &Item) {
        match item {
            Item::Event(event) => {
                self.event(event);
            }
            Item::Flow(flow) => self.flow(flow),
            Item::Account(account) => self.account(account),
            Item::Setting(setting) => self.setting(setting),
        }
    }

    /// Adds an event together with its flow's identity.
    #[cfg(feature = "convert")]
    pub(super) fn push_with_identity(&mut self, event: &Event, flow: Option<&Flow>) {
        let row = self.event(event);
        if let Some(flow) = flow {
            self.identity(row, flow);
        }
    }

    fn common(&mut self, mono_ns: u64, kind: &str, is_event: bool) -> usize {
        let row = self.len();
        self.last_mono_ns = mono_ns;
        self.mono_ns.push(mono_ns);
        self.time.push((mono_ns as i64).wrapping_add(self.wall_offset_ns));
        self.is_event.push(is_event);
        self.kind.set(row, kind);
        row
    }

    fn event(&mut self, event: &Event) -> usize {
        if !event.has_snapshot() {
            return self.event_without_snapshot(event);
        }
        let row = self.common(event.mono_ns, event.kind.name(), true);
        if event.place != self.last_place.0 {
            self.last_place = (event.place, event.place.name());
        }
        self.flow.set(row, event.flow.0);
        self.reason.set(row, event.reason.name());
        self.place.set(row, self.last_place.1);
        self.ca_state.set(row, event.ca_state.name());
        if event.ca_before != event.ca_state {
            self.ca_before.set(row, event.ca_before.name());
        }
        self.events.push(event);
        self.in_flight.push(event.snapshot.in_flight());
        self.marks.push(event.marks.0);
        self.has_sender_marks.push(event.snapshot.sender.has_marks());
        self.cpu.set(row, event.cpu);
        row
    }

    /// Unknown values are null.
    fn event_without_snapshot(&mut self, event: &Event) -> usize {
        let row = self.other(event.mono_ns, event.kind.name());
        self.flow.set(row, event.flow.0);
        self.reason.set(row, event.reason.name());
        self.place.set(row, event.place.name());
        row
    }

    fn other(&mut self, mono_ns: u64, kind: &str) -> usize {
        let row = self.common(mono_ns, kind, false);
        self.events.push_absent();
        self.in_flight.push(0);
        self.marks.push(0);
        self.has_sender_marks.push(false);
        row
    }

    fn flow(&mut self, flow: &Flow) {
        let row = self.other(self.last_mono_ns, FLOW);
        self.flow.set(row, flow.id.0);
        self.identity(row, flow);
    }

    fn identity(&mut self, row: usize, flow: &Flow) {
        self.local.set(row, &address(flow.local));
        self.local_port.set(row, flow.local.port());
        self.remote.set(row, &address(flow.remote));
        self.remote_port.set(row, flow.remote.port());
        self.netns.set(row, flow.netns);
        self.netns_name.set(row, flow.netns_name.as_deref().unwrap_or(""));
        if let Some(owner) = &flow.owner {
            self.pid.set(row, owner.pid);
            self.process.set(row, &owner.name);
        }
        self.cgroup.set_some(row, Some(flow.cgroup).filter(|id| *id != 0));
        self.congestion_control.set(row, &flow.congestion_control);
        self.role.set(row, flow.role.name());
        self.inode.set_some(row, Some(flow.inode).filter(|number| *number != 0));
    }

    fn account(&mut self, account: &Account) {
        self.wall_offset_ns = account.wall_offset_ns;
        let mut row = self.other(account.mono_ns, ACCOUNT);
        self.wall_offset.set(row, account.wall_offset_ns);
        for (place, cpu) in account.cpus.iter().enumerate() {
            if place > 0 {
                row = self.other(account.mono_ns, ACCOUNT);
            }
            self.cpu.set_some(row, cpu.cpu);
            self.seen.set(row, cpu.seen);
            self.kept.set(row, cpu.kept);
            self.thinned.set(row, cpu.thinned);
            if cpu.lost.is_empty() {
                self.lost.set(row, 0);
            }
            for (place, (reason, lost)) in cpu.lost.iter().enumerate() {
                if place > 0 {
                    row = self.other(account.mono_ns, ACCOUNT);
                    self.cpu.set_some(row, cpu.cpu);
                }
                self.lost.set(row, *lost);
                self.lost_reason.set(row, reason.name());
            }
        }
    }

    /// The end mark, with the sums of the last account.
    pub(super) fn end(&mut self, account: Option<&Account>) {
        let row = self.other(account.map_or(self.last_mono_ns, |account| account.mono_ns), END);
        if let Some(account) = account {
            self.seen.set(row, account.seen());
            self.kept.set(row, account.kept());
            self.lost.set(row, account.lost());
            self.thinned.set(row, account.thinned());
        }
    }

    fn setting(&mut self, setting: &Setting) {
        let row = self.other(setting.mono_ns, SETTING);
        self.filter.set(row, &setting.filter);
        let interval = match setting.density {
            crate::Density::EveryAck => None,
            crate::Density::Interval { ns } => Some(ns),
        };
        self.density_interval_ns.set_some(row, interval);
    }

    /// Returns all rows as a batch, and leaves none.
    pub(super) fn take(&mut self) -> Result<RecordBatch, ArrowError> {
        let rows = self.len();
        let is_event = BooleanBuffer::from(self.is_event.as_slice());
        self.is_event.clear();
        let present = Some(NullBuffer::new(is_event)).filter(|nulls| nulls.null_count() > 0);
        let time = std::mem::take(&mut self.time);
        let mono_ns = std::mem::take(&mut self.mono_ns);
        let in_flight = std::mem::take(&mut self.in_flight);

        let mut columns: Vec<(&'static str, ArrayRef)> = Vec::with_capacity(COLUMNS.len());
        columns
            .push(("time", Arc::new(TimestampNanosecondArray::new(time.into(), None).with_timezone("UTC"))));
        columns.push(("mono_ns", Arc::new(UInt64Array::new(mono_ns.into(), None))));
        columns.push(("kind", self.kind.take(rows)?));
        columns.push(("flow", self.flow.take(rows)));
        columns.push(("reason", self.reason.take(rows)?));
        columns.push(("place", self.place.take(rows)?));
        columns.push(("ca_state", self.ca_state.take(rows)?));
        columns.push(("ca_before", self.ca_before.take(rows)?));
        for (name, column) in self.events.take(&present) {
            columns.push((name, column));
            if name == "ssthresh" {
                let values = ScalarBuffer::from(in_flight.clone());
                columns.push(("in_flight", Arc::new(UInt32Array::new(values, present.clone()))));
            }
        }
        let has_sender_marks = Some(NullBuffer::from(self.has_sender_marks.as_slice()));
        let reports_bound: NullBuffer =
            self.marks.iter().map(|marks| Marks(*marks).contains(Marks::REPORTS_BOUND)).collect();
        let marks = COLUMNS.iter().filter(|column| column.name.starts_with("mark_"));
        for (column, (mark, _)) in marks.zip(Marks::ALL) {
            let set = BooleanBuffer::collect_bool(rows, |row| Marks(self.marks[row]).contains(mark));
            let nulls = match mark {
                Marks::AT_BOUND => Some(reports_bound.clone()),
                _ if Marks::OF_SENDER.contains(mark) => has_sender_marks.clone(),
                _ => present.clone(),
            };
            columns.push((column.name, Arc::new(BooleanArray::new(set, nulls))));
        }
        self.marks.clear();
        self.has_sender_marks.clear();
        columns.push(("cpu", self.cpu.take(rows)));
        columns.push(("local", self.local.take(rows)?));
        columns.push(("local_port", self.local_port.take(rows)));
        columns.push(("remote", self.remote.take(rows)?));
        columns.push(("remote_port", self.remote_port.take(rows)));
        columns.push(("netns", self.netns.take(rows)));
        columns.push(("netns_name", self.netns_name.take(rows)?));
        columns.push(("pid", self.pid.take(rows)));
        columns.push(("process", self.process.take(rows)?));
        columns.push(("cgroup", self.cgroup.take(rows)));
        columns.push(("congestion_control", self.congestion_control.take(rows)?));
        columns.push(("role", self.role.take(rows)?));
        columns.push(("inode", self.inode.take(rows)));
        columns.push(("wall_offset_ns", self.wall_offset.take(rows)));
        columns.push(("seen", self.seen.take(rows)));
        columns.push(("kept", self.kept.take(rows)));
        columns.push(("lost", self.lost.take(rows)));
        columns.push(("lost_reason", self.lost_reason.take(rows)?));
        columns.push(("thinned", self.thinned.take(rows)));
        columns.push(("filter", self.filter.take(rows)?));
        columns.push(("density_interval_ns", self.density_interval_ns.take(rows)));
        debug_assert!(columns.iter().map(|(name, _)| *name).eq(COLUMNS.iter().map(|column| column.name)));

        RecordBatch::try_new(self.schema.clone(), columns.into_iter().map(|(_, column)| column).collect())
    }
}

/// The address without its port; a link-local one with its scope, as `fe80::1%2`.
fn address(address: SocketAddr) -> String {
    match address {
        SocketAddr::V6(v6) if v6.scope_id() != 0 => format!("{}%{}", v6.ip(), v6.scope_id()),
        other => match other.ip() {
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => ip.to_string(),
        },
    }
}
