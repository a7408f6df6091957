//! Decides which messages are sent to which browsers, and when. Each message is encoded once and
//! shared by its receivers.

use crate::client::{Client, message};
use crate::encode::{self, TimeBase};
use crate::page::Shared;
use axum::body::Bytes;
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::sync::Arc;
use tokio::sync::mpsc;
use yuzuri_trace::{Flow, FlowId};
use yuzuri_view::{LiveModel, Logged};

/// Maximum number of browsers.
pub(crate) const MAX_BROWSERS: usize = 32;
/// Maximum number of flows to which one browser may subscribe.
pub(crate) const MAX_FLOWS: usize = 16;
/// Maximum number of events per message of flows to which a browser is not subscribed.
const OTHER_EVENTS: usize = 100;
/// Events of different CPUs may be out of order by this much; buckets are sent once it has passed.
const SETTLE_NS: u64 = 10_000_000;

/// The browsers, and the state last sent to them.
#[derive(Debug, Default)]
pub(crate) struct Broadcaster {
    clients: Vec<Client>,
    epoch: u64,
    browsers_lost: u64,
    /// Events that never reached the page.
    missed: u64,
    sent: HashMap<FlowId, (Arc<Flow>, String)>,
    event: u64,
    now_ns: u64,
}

/// There is no room for another browser.
#[derive(Debug)]
pub(crate) struct TooManyBrowsers;

impl Broadcaster {
    pub(crate) fn len(&self) -> usize {
        self.clients.len()
    }

    pub(crate) fn set_missed(&mut self, events: u64) {
        self.missed = events;
    }

    pub(crate) fn not_shown(&self) -> u64 {
        self.browsers_lost + self.missed
    }

    pub(crate) fn browsers_lost(&self) -> u64 {
        self.browsers_lost
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    pub(crate) fn reset(&mut self) {
        self.epoch += 1;
        self.event = 0;
        self.now_ns = 0;
        self.sent.clear();
        for client in &mut self.clients {
            client.needs_all = true;
        }
    }

    pub(crate) fn join(
        &mut self,
        id: String,
        flows: Vec<FlowId>,
        latest: Bytes,
    ) -> Result<mpsc::Receiver<Bytes>, TooManyBrowsers> {
        if self.clients.len() >= MAX_BROWSERS {
            return Err(TooManyBrowsers);
        }
        let hello = format!("{{\"client\":\"{id}\",\"epoch\":{},\"max_flows\":{MAX_FLOWS}}}", self.epoch);
        let (mut client, outlet) = Client::new(id, flows);
        client.send(message("hello", &hello));
        client.send(latest);
        self.clients.push(client);
        Ok(outlet)
    }

    /// Removes a browser; returns the flows it was subscribed to.
    pub(crate) fn leave(&mut self, id: &str) -> Vec<FlowId> {
        let place = self.clients.iter().position(|client| client.id == id);
        place.map(|n| self.clients.swap_remove(n).flows).unwrap_or_default()
    }

    /// Changes a browser's flows; returns the previous ones, or `None` if there is no such browser.
    pub(crate) fn select_flows(&mut self, id: &str, flows: Vec<FlowId>) -> Option<Vec<FlowId>> {
        let client = self.clients.iter_mut().find(|client| client.id == id)?;
        Some(std::mem::replace(&mut client.flows, flows))
    }

    /// Removes browsers that are gone or stuck; returns the flows they were subscribed to.
    fn sweep(&mut self) -> Vec<FlowId> {
        let mut flows = Vec::new();
        self.clients.retain(|client| {
            if client.is_lost() {
                flows.extend_from_slice(&client.flows);
            }
            !client.is_lost()
        });
        flows
    }

    /// Ends all streams.
    pub(crate) fn close(&mut self) {
        self.clients.clear();
    }
}

/// The latest events, for a browser that has just connected. It may receive some of them twice;
/// they are numbered.
pub(crate) fn latest_events(model: &LiveModel) -> Bytes {
    let base = TimeBase::of(model);
    let newest = model.log_after(0).next_back().map_or(0, |logged| logged.number);
    let mut data = String::from("{\"skipped\":0,\"events\":[");
    encode::list(&mut data, model.log_after(newest.saturating_sub(OTHER_EVENTS as u64)), |out, logged| {
        encode::event(out, base, logged);
    });
    data.push_str("]}");
    message("events", &data)
}

/// Sends fine buckets of subscribed flows, and events.
pub(crate) fn send_chart(shared: &Shared) {
    let (event, wanted) = {
        let mut broadcast = shared.broadcast.lock();
        let gone = broadcast.sweep();
        shared.with_feed(|feed| feed.unsubscribe(&gone));
        (broadcast.event, !broadcast.clients.is_empty())
    };
    if !wanted {
        return;
    }
    let (base, now_ns, events) = {
        let model = shared.model.lock();
        let events: Vec<Logged> = model.log_after(event).copied().collect();
        (TimeBase::of(&model), model.now_ns(), events)
    };
    let taken = shared.with_feed(|feed| feed.take_finished(now_ns.saturating_sub(SETTLE_NS)));
    let mut buckets: HashMap<FlowId, (String, u64)> = HashMap::new();
    let overflown: HashSet<FlowId> = taken.iter().filter(|(_, _, over)| *over).map(|(id, ..)| *id).collect();
    for (id, list, _) in &taken {
        let mut out = format!("\"{id}\":");
        encode::buckets(&mut out, base, list);
        buckets.insert(*id, (out, list.len() as u64));
    }
    let encoded: Vec<String> = events
        .iter()
        .map(|logged| {
            let mut out = String::new();
            encode::event(&mut out, base, logged);
            out
        })
        .collect();

    let mut broadcast = shared.broadcast.lock();
    if now_ns < broadcast.now_ns {
        // Time went back: the model was refilled.
        broadcast.reset();
    }
    broadcast.now_ns = now_ns;
    // Events that fell out of the model's list before they could be sent count as skipped, too.
    let missed = events.first().map_or(0, |first| first.number - 1 - event.min(first.number - 1));
    broadcast.event = events.last().map_or(broadcast.event, |last| last.number);
    let now = base.us(now_ns);
    let epoch = broadcast.epoch;
    let mut lost = 0;
    for client in &mut broadcast.clients {
        client.gap |= client.flows.iter().any(|id| overflown.contains(id));
        if client.gap && client.send(message("gap", "{}")) {
            client.gap = false;
        }
        let mut data = format!("{{\"now\":{now},\"epoch\":{epoch},\"flows\":{{");
        let own = || client.flows.iter().filter_map(|id| buckets.get(id));
        encode::list(&mut data, own(), |out, (text, _)| out.push_str(text));
        let records: u64 = own().map(|(_, n)| n).sum();
        data.push_str("}}");
        if !client.send(message("chart", &data)) {
            lost += records;
            client.gap = true;
        }
        if events.is_empty() {
            continue;
        }
        let is_own = |logged: &Logged| client.flows.contains(&logged.event.flow);
        let others = events.iter().filter(|e| !is_own(e)).count();
        let mut skip = others.saturating_sub(OTHER_EVENTS);
        let skipped = skip as u64 + missed;
        let mut data = format!("{{\"skipped\":{skipped},\"events\":[");
        let mut sent = 0;
        let chosen = events.iter().zip(&encoded).filter(|(logged, _)| {
            let keep = is_own(logged) || skip == 0;
            if !keep {
                skip -= 1;
            }
            sent += u64::from(keep);
            keep
        });
        encode::list(&mut data, chosen, |out, (_, text)| out.push_str(text));
        data.push_str("]}");
        if !client.send(message("events", &data)) {
            lost += sent;
            client.gap = true;
        }
    }
    broadcast.browsers_lost += lost;
}

/// Sends changed rows, and all rows to browsers that are new or missed some.
pub(crate) fn send_rows(shared: &Shared) {
    // Do not hold the broadcaster's lock together with the model's: the thread that fills the model
    // may call `Page::reset`.
    let (mut sent, all_for_some, epoch) = {
        let mut broadcast = shared.broadcast.lock();
        if broadcast.clients.is_empty() {
            return;
        }
        (
            std::mem::take(&mut broadcast.sent),
            broadcast.clients.iter().any(|client| client.needs_all),
            broadcast.epoch,
        )
    };
    let mut part = Rows::default();
    let mut whole = Rows::default();
    let mut present: HashSet<FlowId> = HashSet::with_capacity(sent.len());
    let now = {
        let model = shared.model.lock();
        let base = TimeBase::of(&model);
        let mut text = String::new();
        for row in model.rows() {
            let id = row.flow.id;
            present.insert(id);
            text.clear();
            encode::row(&mut text, base, row, model.now_ns());
            let former = sent.get(&id);
            if former.is_none_or(|(flow, _)| !Arc::ptr_eq(flow, &row.flow)) {
                part.flow(|out| encode::flow(out, base, &row.flow, row.first_ns));
            }
            if former.is_none_or(|(flow, old)| *old != text || !Arc::ptr_eq(flow, &row.flow)) {
                part.row(&text);
                sent.insert(id, (row.flow.clone(), text.clone()));
            }
            if all_for_some {
                whole.flow(|out| encode::flow(out, base, &row.flow, row.first_ns));
                whole.row(&text);
                comma(&mut whole.sparks);
                encode::spark(&mut whole.sparks, row);
            }
        }
        base.us(model.now_ns())
    };
    sent.retain(|id, _| {
        let here = present.contains(id);
        if !here {
            comma(&mut part.gone);
            let _ = write!(part.gone, "\"{id}\"");
        }
        here
    });
    let part_message = part.message(now, epoch, false);
    let whole_message = all_for_some.then(|| whole.message(now, epoch, true));
    let mut broadcast = shared.broadcast.lock();
    if broadcast.epoch != epoch {
        return;
    }
    broadcast.sent = sent;
    let mut lost = 0;
    for client in &mut broadcast.clients {
        let (data, records) = match (&whole_message, client.needs_all) {
            (Some(data), true) => (data, whole.count),
            // It connected after the rows were gathered: next turn.
            (None, true) => continue,
            _ => (&part_message, part.count),
        };
        client.needs_all = !client.send(data.clone());
        if client.needs_all {
            lost += records;
        }
    }
    broadcast.browsers_lost += lost;
}

/// A message of rows under construction.
#[derive(Default)]
struct Rows {
    flows: String,
    rows: String,
    gone: String,
    sparks: String,
    count: u64,
}

impl Rows {
    fn flow(&mut self, write: impl FnOnce(&mut String)) {
        comma(&mut self.flows);
        write(&mut self.flows);
    }

    fn row(&mut self, text: &str) {
        comma(&mut self.rows);
        self.rows.push_str(text);
        self.count += 1;
    }

    fn message(&self, now: i64, epoch: u64, all: bool) -> Bytes {
        let Rows { flows, rows, gone, sparks, .. } = self;
        let data = format!(
            "{{\"now\":{now},\"epoch\":{epoch},\"all\":{all},\"flows\":[{flows}],\"rows\":[{rows}],\
             \"gone\":[{gone}],\"sparks\":{{{sparks}}}}}"
        );
        message("rows", &data)
    }
}

fn comma(out: &mut String) {
    if !out.is_empty() {
        out.push(',');
    }
}

/// Sends account, settings and replay state.
pub(crate) fn send_status(shared: &Shared) {
    if shared.broadcast.lock().clients.is_empty() {
        return;
    }
    let replay = shared.control.replay();
    let (epoch, not_shown, browsers) = {
        let broadcast = shared.broadcast.lock();
        (broadcast.epoch, broadcast.not_shown(), broadcast.len())
    };
    let data = message("status", &encode::status(&shared.model.lock(), replay, epoch, not_shown, browsers));
    for client in &mut shared.broadcast.lock().clients {
        client.send(data.clone());
    }
}
