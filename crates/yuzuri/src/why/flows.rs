//! The flows of a run, each with its limit.

use super::Shared;
use std::collections::HashMap;
use std::sync::Arc;
use yuzuri_infer::packets::PacketLimits;
use yuzuri_trace::{Account, Filter, Flow, FlowId, Item};
use yuzuri_view::limited::{Chronographs, FlowLimits};
use yuzuri_view::shared_bottleneck::SharedBottleneck;
use yuzuri_view::{FlowDelays, TimedFlows, share_bottlenecks};
use yuzuri_watch::Sink;

/// Maximum number of flows that are followed; later flows are only counted.
pub const MAX_FLOWS: usize = 65_536;

/// A flow and its limit.
#[derive(Default)]
pub struct LimitedFlow {
    /// The identity; unknown if its record was lost.
    pub flow: Option<Arc<Flow>>,
    /// Its limit.
    pub limits: FlowLimits,
    /// Its round-trip times while it sends.
    delays: FlowDelays,
}

/// All flows.
#[derive(Default)]
pub struct Flows {
    flows: HashMap<FlowId, LimitedFlow>,
    filter: Filter,
    timed: TimedFlows,
    beyond: u64,
    missed: u64,
    one_way: u64,
    account: Option<Arc<Account>>,
}

/// SYN and FIN count as a byte each.
const WITHOUT_DATA: u64 = 2;

impl LimitedFlow {
    /// Whether the flow carried data in either direction, or tried to send some.
    pub fn carries(&self) -> bool {
        self.limits.sends() || self.limits.acked_bytes().max(self.limits.received_bytes()) > WITHOUT_DATA
    }
}

impl Flows {
    /// For the flows of a recording that match the filter.
    pub fn chosen_by(filter: Filter) -> Flows {
        Flows { filter, ..Flows::default() }
    }

    /// Adds records.
    pub fn take(&mut self, items: &[Item]) {
        for item in items {
            match item {
                Item::Flow(flow) => {
                    if let Some(answer) = self.answer(flow.id) {
                        answer.limits.controlled_by(&flow.congestion_control);
                        answer.flow = Some(flow.clone());
                    }
                }
                Item::Event(event) => {
                    let mut timed = self.timed;
                    if let Some(answer) = self.answer(event.flow) {
                        answer.limits.add(event, |_| {});
                        answer.delays.add_event(event, answer.limits.sends(), &mut timed);
                    }
                    self.timed = timed;
                }
                Item::Account(account) => self.account = Some(account.clone()),
                Item::Setting(_) => {}
            }
        }
    }

    /// Sets the initial values of the kernel's chronographs from a poll before the first record.
    /// Those of a flow that did not exist then begin at zero.
    pub fn begin_chronographs(&mut self, earlier: &[Item]) {
        let before: HashMap<FlowId, Chronographs> = earlier
            .iter()
            .filter_map(|item| match item {
                Item::Event(event) => {
                    Chronographs::of(&event.snapshot.sender).map(|times| (event.flow, times))
                }
                _ => None,
            })
            .collect();
        for (id, answer) in &mut self.flows {
            answer.limits.chronographs_from(before.get(id).copied().unwrap_or_default());
        }
    }

    /// Adds a later poll of known flows, and ignores unknown ones.
    pub fn look_again(&mut self, items: &[Item]) {
        for item in items {
            if let Item::Event(event) = item
                && let Some(answer) = self.flows.get_mut(&event.flow)
            {
                answer.limits.add(event, |_| {});
            }
        }
    }

    /// Adds a sender's observations from packets.
    pub fn take_packets(&mut self, flow: Arc<Flow>, packets: &PacketLimits) {
        let mut timed = self.timed;
        if let Some(answer) = self.answer(flow.id) {
            answer.limits.scaled_by(packets.window_scale);
            for now in &packets.observations {
                answer.limits.add_packets(now, |_| {});
                if let Some(rtt_us) = now.round_min_rtt_us.or(now.srtt_us).filter(|_| answer.limits.sends()) {
                    answer.delays.add(now.time_us, rtt_us, &mut timed);
                }
            }
            // A capture contains the whole flow.
            answer.delays.close(&mut timed);
            answer.flow = Some(flow);
        }
        self.timed = timed;
    }

    /// The flows that share a bottleneck, among those that moved the most data, if that can be
    /// determined.
    pub fn together(&self) -> Vec<(Vec<&LimitedFlow>, SharedBottleneck)> {
        share_bottlenecks(self.ranked().into_iter().map(|answer| (answer, &answer.delays)))
    }

    /// Counts a connection of which a capture has only one direction.
    pub fn leave_out_one_way(&mut self, flow: &Flow) {
        let chosen = self.filter.is_empty() || self.filter.matches(flow, |_, _| false);
        self.one_way += u64::from(chosen);
    }

    /// How many connections were captured in one direction only.
    pub fn one_way(&self) -> u64 {
        self.one_way
    }

    /// Counts a flow beyond [`MAX_FLOWS`].
    pub fn leave_out(&mut self) {
        self.beyond += 1;
    }

    fn answer(&mut self, id: FlowId) -> Option<&mut LimitedFlow> {
        if self.flows.len() >= MAX_FLOWS && !self.flows.contains_key(&id) {
            self.beyond += 1;
            return None;
        }
        Some(self.flows.entry(id).or_default())
    }

    fn is_chosen(&self, answer: &LimitedFlow) -> bool {
        self.filter.is_empty()
            || answer.flow.as_ref().is_some_and(|flow| self.filter.matches(flow, |_, _| false))
    }

    /// The chosen flows that were observed for more than an instant, ordered by whether they send,
    /// and then by the data that they moved.
    pub fn ranked(&self) -> Vec<&LimitedFlow> {
        let seen = |answer: &&LimitedFlow| answer.limits.times().total_us() > 0 && self.is_chosen(answer);
        let mut ranked: Vec<&LimitedFlow> = self.flows.values().filter(seen).collect();
        ranked.sort_by_key(|answer| {
            let moved = answer.limits.acked_bytes().max(answer.limits.received_bytes());
            let id = answer.flow.as_ref().map(|flow| flow.id);
            (!answer.limits.sends(), std::cmp::Reverse(moved), id)
        });
        ranked
    }

    /// Number of flows that were observed for more than an instant.
    pub fn len(&self) -> usize {
        self.ranked().len()
    }

    /// How many of these flows only received, and how many carried no data.
    pub fn silent(&self) -> (usize, usize) {
        let ranked = self.ranked();
        let receive = ranked.iter().filter(|answer| answer.carries() && !answer.limits.sends()).count();
        (receive, ranked.iter().filter(|answer| !answer.carries()).count())
    }

    /// Number of records of flows beyond [`MAX_FLOWS`], and of records that arrived faster than
    /// they could be processed.
    pub fn left_out(&self) -> (u64, u64) {
        (self.beyond, self.missed)
    }

    /// The last account of a recording.
    pub fn account(&self) -> Option<&Account> {
        self.account.as_deref()
    }
}

/// The flows as a sink.
#[derive(Clone, Default)]
pub struct Collector(Shared);

impl Collector {
    /// Returns the collected flows.
    pub fn take(&self) -> Flows {
        std::mem::take(&mut self.0.lock())
    }
}

impl Sink for Collector {
    fn take(&mut self, items: &[Item]) -> anyhow::Result<()> {
        self.0.lock().take(items);
        Ok(())
    }

    fn missed(&mut self, events: u64) {
        self.0.lock().missed = events;
    }
}
