//! Turns rows back into items.

use super::events::{EventView, typed};
use super::rows::{ACCOUNT, END, FLOW, SETTING};
use crate::{
    Account, CaState, CpuAccount, Density, Event, Flow, FlowId, Item, Kind, LossReason, Marks, Owner, Place,
    Reason, Role, Setting,
};
use arrow_array::types::ArrowPrimitiveType;
use arrow_array::{
    Array, BooleanArray, Int64Array, PrimitiveArray, RecordBatch, StringArray, UInt16Array, UInt32Array,
    UInt64Array,
};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::sync::Arc;

#[inline]
fn number<T: ArrowPrimitiveType>(column: Option<&PrimitiveArray<T>>, row: usize) -> Option<T::Native> {
    column.filter(|column| column.is_valid(row)).map(|column| column.value(row))
}

#[inline]
fn text(column: Option<&StringArray>, row: usize) -> &str {
    column.filter(|column| column.is_valid(row)).map_or("", |column| column.value(row))
}

/// The columns of a batch; any but the first two may be missing.
struct View<'a> {
    kind: &'a StringArray,
    mono_ns: &'a UInt64Array,
    flow: Option<&'a UInt64Array>,
    reason: Option<&'a StringArray>,
    place: Option<&'a StringArray>,
    ca_state: Option<&'a StringArray>,
    ca_before: Option<&'a StringArray>,
    events: EventView<'a>,
    marks: Vec<(Marks, &'a BooleanArray)>,
    cpu: Option<&'a UInt16Array>,
    local: Option<&'a StringArray>,
    local_port: Option<&'a UInt16Array>,
    remote: Option<&'a StringArray>,
    remote_port: Option<&'a UInt16Array>,
    netns: Option<&'a UInt32Array>,
    netns_name: Option<&'a StringArray>,
    pid: Option<&'a UInt32Array>,
    process: Option<&'a StringArray>,
    cgroup: Option<&'a UInt64Array>,
    congestion_control: Option<&'a StringArray>,
    role: Option<&'a StringArray>,
    inode: Option<&'a UInt64Array>,
    wall_offset_ns: Option<&'a Int64Array>,
    seen: Option<&'a UInt64Array>,
    kept: Option<&'a UInt64Array>,
    lost: Option<&'a UInt64Array>,
    lost_reason: Option<&'a StringArray>,
    thinned: Option<&'a UInt64Array>,
    filter: Option<&'a StringArray>,
    density_interval_ns: Option<&'a UInt64Array>,
}

/// The content of a batch.
pub(super) struct Decoded {
    pub(super) items: Vec<Item>,
    /// Rows of a kind that this version does not know.
    pub(super) unknown_rows: u64,
    /// Whether the last row is the end mark.
    pub(super) ends: bool,
}

/// Reads a batch.
pub(super) fn batch(batch: &RecordBatch) -> Decoded {
    let mut items = Vec::with_capacity(batch.num_rows());
    let Some(view) = View::new(batch) else {
        return Decoded { items, unknown_rows: batch.num_rows() as u64, ends: false };
    };
    let mut unknown = 0;
    let mut ends = false;
    let mut open_account: Option<Account> = None;
    let mut last_place = ("", Place::UNKNOWN);
    for row in 0..batch.num_rows() {
        let kind = text(Some(view.kind), row);
        ends = kind == END;
        if ends {
            continue;
        }
        if kind == ACCOUNT {
            unknown += u64::from(!view.account(row, &mut open_account, &mut items));
            continue;
        }
        items.extend(open_account.take().map(account));
        let item = match kind {
            FLOW => view.flow(row),
            SETTING => Some(view.setting(row)),
            _ => Kind::from_name(kind).and_then(|kind| view.event(row, kind, &mut last_place)),
        };
        unknown += u64::from(item.is_none());
        items.extend(item);
    }
    items.extend(open_account.map(account));
    Decoded { items, unknown_rows: unknown, ends }
}

fn account(account: Account) -> Item {
    Item::Account(Arc::new(account))
}

impl<'a> View<'a> {
    fn new(batch: &'a RecordBatch) -> Option<View<'a>> {
        let marks = Marks::ALL.into_iter().filter_map(|(mark, word)| {
            let name = format!("mark_{}", word.replace('-', "_"));
            Some((mark, typed(batch, &name)?))
        });
        Some(View {
            kind: typed(batch, "kind")?,
            mono_ns: typed(batch, "mono_ns")?,
            flow: typed(batch, "flow"),
            reason: typed(batch, "reason"),
            place: typed(batch, "place"),
            ca_state: typed(batch, "ca_state"),
            ca_before: typed(batch, "ca_before"),
            events: EventView::new(batch),
            marks: marks.collect(),
            cpu: typed(batch, "cpu"),
            local: typed(batch, "local"),
            local_port: typed(batch, "local_port"),
            remote: typed(batch, "remote"),
            remote_port: typed(batch, "remote_port"),
            netns: typed(batch, "netns"),
            netns_name: typed(batch, "netns_name"),
            pid: typed(batch, "pid"),
            process: typed(batch, "process"),
            cgroup: typed(batch, "cgroup"),
            congestion_control: typed(batch, "congestion_control"),
            role: typed(batch, "role"),
            inode: typed(batch, "inode"),
            wall_offset_ns: typed(batch, "wall_offset_ns"),
            seen: typed(batch, "seen"),
            kept: typed(batch, "kept"),
            lost: typed(batch, "lost"),
            lost_reason: typed(batch, "lost_reason"),
            thinned: typed(batch, "thinned"),
            filter: typed(batch, "filter"),
            density_interval_ns: typed(batch, "density_interval_ns"),
        })
    }

    fn mono_ns(&self, row: usize) -> u64 {
        number(Some(self.mono_ns), row).unwrap_or_default()
    }

    /// `None` if the congestion state is one that this version does not know.
    fn event(&self, row: usize, kind: Kind, last_place: &mut (&'a str, Place)) -> Option<Item> {
        let place = text(self.place, row);
        if place != last_place.0 {
            *last_place = (place, Place::named(place));
        }
        let state = |name: &str| if name.is_empty() { None } else { Some(CaState::from_name(name)) };
        let ca_state = state(text(self.ca_state, row)).unwrap_or(Some(CaState::Open))?;
        let ca_before = state(text(self.ca_before, row)).unwrap_or(Some(ca_state))?;
        let mut marks = Marks::default();
        for (mark, column) in &self.marks {
            if !column.is_valid(row) {
                continue;
            }
            if *mark == Marks::AT_BOUND {
                marks.insert(Marks::REPORTS_BOUND);
            }
            if column.value(row) {
                marks.insert(*mark);
            }
        }
        let mut event = Event {
            mono_ns: self.mono_ns(row),
            flow: FlowId(number(self.flow, row).unwrap_or_default()),
            kind,
            reason: Reason::from_name(text(self.reason, row)).unwrap_or_default(),
            place: last_place.1,
            ca_state,
            ca_before,
            marks,
            cpu: number(self.cpu, row).unwrap_or_default(),
            ..Event::default()
        };
        self.events.fill(row, &mut event);
        Some(Item::Event(event))
    }

    /// `None` if the addresses are invalid.
    fn flow(&self, row: usize) -> Option<Item> {
        let netns_name = text(self.netns_name, row);
        Some(Item::Flow(Arc::new(Flow {
            id: FlowId(number(self.flow, row)?),
            local: address(text(self.local, row), number(self.local_port, row)?)?,
            remote: address(text(self.remote, row), number(self.remote_port, row)?)?,
            netns: number(self.netns, row).unwrap_or_default(),
            netns_name: (!netns_name.is_empty()).then(|| netns_name.to_owned()),
            owner: number(self.pid, row).map(|pid| Owner { pid, name: text(self.process, row).to_owned() }),
            cgroup: number(self.cgroup, row).unwrap_or_default(),
            congestion_control: text(self.congestion_control, row).to_owned(),
            role: Role::from_name(text(self.role, row)).unwrap_or_default(),
            inode: number(self.inode, row).unwrap_or_default(),
        })))
    }

    fn setting(&self, row: usize) -> Item {
        let interval = number(self.density_interval_ns, row);
        Item::Setting(Arc::new(Setting {
            mono_ns: self.mono_ns(row),
            filter: text(self.filter, row).to_owned(),
            density: interval.map_or(Density::EveryAck, |ns| Density::Interval { ns }),
        }))
    }

    /// Adds the row to the open account, or closes that and opens another. `false` if that is
    /// impossible: a loss for an unknown reason, or a further row without a first one.
    fn account(&self, row: usize, open: &mut Option<Account>, items: &mut Vec<Item>) -> bool {
        if let Some(wall_offset_ns) = number(self.wall_offset_ns, row) {
            items.extend(open.take().map(account));
            *open = Some(Account { mono_ns: self.mono_ns(row), wall_offset_ns, cpus: Vec::new() });
        }
        let Some(account) = open else { return false };
        if let Some(seen) = number(self.seen, row) {
            account.cpus.push(CpuAccount {
                cpu: number(self.cpu, row),
                seen,
                kept: number(self.kept, row).unwrap_or_default(),
                lost: Vec::new(),
                thinned: number(self.thinned, row).unwrap_or_default(),
            });
        }
        let Some(lost) = number(self.lost, row) else { return true };
        match (LossReason::from_name(text(self.lost_reason, row)), account.cpus.last_mut()) {
            (Some(reason), Some(cpu)) => cpu.lost.push((reason, lost)),
            _ => return lost == 0,
        }
        true
    }
}

/// An address as the writer formats it; `fe80::1%2` has scope 2.
fn address(ip: &str, port: u16) -> Option<SocketAddr> {
    if let Some((ip, scope)) = ip.split_once('%') {
        let ip: Ipv6Addr = ip.parse().ok()?;
        return Some(SocketAddrV6::new(ip, port, 0, scope.parse().ok()?).into());
    }
    Some(SocketAddr::new(ip.parse::<IpAddr>().ok()?, port))
}
