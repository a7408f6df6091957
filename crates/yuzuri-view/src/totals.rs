//! What each flow did during an observation, in total.

use crate::Tally;
use crate::deferred_limits::DeferredLimits;
use crate::flow_delays::{FlowDelays, TimedFlows, share_bottlenecks};
use crate::limited::FlowLimits;
use crate::shared_bottleneck::SharedBottleneck;
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::sync::Arc;
use yuzuri_trace::{Event, Flow, FlowId, Item};

/// A flow's counters at one of its records.
#[derive(Debug, Clone, Copy)]
struct Counters {
    mono_ns: u64,
    moved_bytes: u64,
}

impl Counters {
    fn of(event: &Event) -> Counters {
        let moved_bytes = event.snapshot.bytes_acked + event.snapshot.bytes_received;
        Counters { mono_ns: event.mono_ns, moved_bytes }
    }
}

/// What one flow did.
///
/// It is small on purpose: where many connections exchange small messages, each record finds its
/// flow's totals outside the caches.
#[derive(Debug, Clone)]
pub struct FlowTotals {
    /// The flow, once its identity is known.
    pub flow: Option<Arc<Flow>>,
    /// Counts of its records.
    pub tally: Tally,
    limits: DeferredLimits,
    delays: FlowDelays,
    first: Option<Counters>,
    last: Option<Counters>,
    cwnd_sum_segments: f64,
    srtt_sum_us: f64,
}

impl Default for FlowTotals {
    fn default() -> FlowTotals {
        FlowTotals {
            flow: None,
            tally: Tally::default(),
            limits: DeferredLimits::default(),
            delays: FlowDelays::default(),
            first: None,
            last: None,
            cwnd_sum_segments: 0.0,
            srtt_sum_us: 0.0,
        }
    }
}

impl FlowTotals {
    fn add(&mut self, event: &Event, timed: &mut TimedFlows) {
        self.limits.add(event);
        self.delays.add_event(event, self.limits.sends(), timed);
        // A close that was not seen has no other information.
        if !event.has_snapshot() {
            return;
        }
        self.tally.add(event);
        self.cwnd_sum_segments += f64::from(event.snapshot.cwnd);
        self.srtt_sum_us += f64::from(event.snapshot.srtt_us);
        let counters = Counters::of(event);
        self.first.get_or_insert(counters);
        self.last = Some(counters);
    }

    /// What limited it, without figures.
    pub fn limits(&self) -> FlowLimits {
        self.limits.limits()
    }

    /// Bytes that it sent and received, acknowledged ones only.
    pub fn moved_bytes(&self) -> u64 {
        self.first
            .zip(self.last)
            .map_or(0, |(first, last)| last.moved_bytes.saturating_sub(first.moved_bytes))
    }

    /// The time between its first and its last record, seconds.
    pub fn seconds(&self) -> f64 {
        let nanoseconds =
            self.first.zip(self.last).map_or(0, |(first, last)| last.mono_ns.saturating_sub(first.mono_ns));
        nanoseconds as f64 / 1e9
    }

    /// Mean congestion window over its records, segments.
    pub fn mean_cwnd_segments(&self) -> f64 {
        self.cwnd_sum_segments / self.tally.events.max(1) as f64
    }

    /// Mean smoothed RTT over its records, microseconds.
    pub fn mean_srtt_us(&self) -> f64 {
        self.srtt_sum_us / self.tally.events.max(1) as f64
    }
}

/// The totals of every flow.
#[derive(Debug)]
pub struct Totals {
    // The keys are socket cookies, which the kernel numbers: nobody can choose them to collide.
    flows: HashMap<FlowId, FlowTotals, RandomState>,
    max_flows: usize,
    beyond: u64,
    timed: TimedFlows,
}

impl Totals {
    /// Follows at most `max_flows` flows.
    pub fn of_at_most(max_flows: usize) -> Totals {
        Totals { flows: HashMap::default(), max_flows, beyond: 0, timed: TimedFlows::default() }
    }

    /// Adds items in their order.
    // Inlined into a command that is optimised for size, a record would cost half as much again.
    #[inline(never)]
    pub fn take(&mut self, items: &[Item]) {
        // Segments come in bursts: looking up each burst's flow costs a fraction of looking up each
        // record's.
        let same =
            |a: &Item, b: &Item| matches!((a, b), (Item::Event(a), Item::Event(b)) if a.flow == b.flow);
        for run in items.chunk_by(same) {
            match &run[0] {
                Item::Flow(flow) => {
                    if let Some(totals) = self.of(flow.id) {
                        totals.limits.controlled_by(&flow.congestion_control);
                        totals.flow = Some(flow.clone());
                    }
                }
                Item::Event(event) => {
                    let mut timed = self.timed;
                    if let Some(totals) = self.of(event.flow) {
                        for item in run {
                            if let Item::Event(event) = item {
                                totals.add(event, &mut timed);
                            }
                        }
                    }
                    self.timed = timed;
                }
                Item::Account(_) | Item::Setting(_) => {}
            }
        }
    }

    fn of(&mut self, id: FlowId) -> Option<&mut FlowTotals> {
        if self.flows.len() >= self.max_flows && !self.flows.contains_key(&id) {
            self.beyond += 1;
            return None;
        }
        Some(self.flows.entry(id).or_default())
    }

    /// The flows that had a record.
    pub fn flows(&self) -> impl Iterator<Item = (FlowId, &FlowTotals)> {
        self.flows.iter().filter(|(_, totals)| totals.tally.events > 0).map(|(id, totals)| (*id, totals))
    }

    /// The flows that had a record, ordered by the data that they moved, most first.
    pub fn ranked(&self) -> Vec<(FlowId, &FlowTotals)> {
        let mut flows: Vec<_> = self.flows().collect();
        flows.sort_by_key(|(id, totals)| (std::cmp::Reverse(totals.moved_bytes()), *id));
        flows
    }

    /// The flows that share a bottleneck, among those that moved the most data, as far as it can be
    /// known.
    pub fn shared_bottlenecks(&self) -> Vec<(Vec<&FlowTotals>, SharedBottleneck)> {
        share_bottlenecks(self.ranked().into_iter().map(|(_, totals)| (totals, &totals.delays)))
    }

    /// Identities and bursts of records of flows beyond the maximum.
    pub fn beyond(&self) -> u64 {
        self.beyond
    }
}
