//! The policy `yuzuri`: the upper bound of each flow's window is its share of the group's capacity
//! times the minimum RTT plus a short queue. A lower bound prevents losses that are not congestion
//! from reducing the window far below that.

use super::room::{Answer, BoundedFlow, Room};
use super::standing::QueueSeen;
use super::trust::{Claim, Trust, Verdict};
use super::unbounded;
use crate::capacity::{self, GROWS, LOSSY_QUEUE_S, STEADY, STEP, settles, target_s};
use crate::own::{FlowHistory, OwnFlows};
use crate::{Bound, Decision, FlowSeen, Moment, Objective, Phase, RadioHint, Rule, SendersSeen, Summary};
use std::collections::BTreeMap;
use std::time::Duration;

/// Below this many segments, delayed ACKs stall a flow.
const MIN_WINDOW: f64 = 4.0;
/// The lower bound is at most this multiple of the data delivered in the last round trip: it is
/// reached by growth, never by a jump.
const FLOOR_GROWS: f64 = 3.0;
/// No lower bound while more than this fraction of segments is lost: then loss is the limit.
const LOSS_ENDS_FLOOR: f64 = 0.03;

/// A flow's rate still grows if it has grown within this many round trips (BBR, as [`GROWS`]).
const GROWS_WITHIN: u32 = 3;

/// Segments per burst if windows are paced over the round trip: few enough for a queue of 50
/// packets, enough for the radio to aggregate.
const BURST: u32 = 16;

/// If the upper bound keeps a flow below this fraction of its share, other senders' queues delay
/// it, or the group's minimum RTT is false. A false minimum can halve the window, so this fraction
/// is above a half. While the rate stays below it, the bound doubles with each decision, up to the
/// second factor.
const BELOW_SHARE: f64 = 0.6;
const MAX_STRETCH: f64 = 16.0;

/// The state kept between decisions.
#[derive(Debug, Clone, Default)]
pub(super) struct FairShare {
    flows: BTreeMap<u64, FlowBounds>,
    trust: Trust,
}

/// The state kept of a flow.
#[derive(Debug, Clone, Copy)]
struct FlowBounds {
    /// The lower bound reached, segments.
    floor: f64,
    /// The upper bound set, and the least one that any share sets, segments.
    upper: f64,
    least: f64,
    /// The factor for the upper bound while others' queues keep the flow below its share.
    stretch: f64,
    /// Consecutive decisions at which it was below its share.
    short: u32,
    /// Whether it is still determining its rate.
    growth: Growth,
    /// Whether the path has room beyond its share.
    room: Room,
}

/// Whether a flow's delivery rate is still rising.
#[derive(Debug, Clone, Copy)]
struct Growth {
    /// The best delivery rate, and its time.
    best_bps: f64,
    since: Moment,
}

impl Growth {
    fn of(before: Option<Growth>, now: Moment, rate_bps: f64) -> Growth {
        match before {
            Some(growth) if rate_bps < GROWS * growth.best_bps => growth,
            _ => Growth { best_bps: rate_bps, since: now },
        }
    }

    fn continues(&self, now: Moment, srtt_us: u32) -> bool {
        let round_trips = GROWS_WITHIN * Duration::from_micros(srtt_us.into());
        now.since(self.since) <= round_trips.max(settles(Duration::ZERO))
    }
}

/// The inputs of a decision.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) own: &'a OwnFlows,
    pub(super) objective: Objective,
    pub(super) radio: RadioHint,
    pub(super) summary: Option<&'a Summary>,
    /// Senders that this terminal has observed itself.
    pub(super) senders: SendersSeen,
    /// Flows that are left out because they are inactive.
    pub(super) resting: usize,
}

impl FairShare {
    pub(super) fn decide(&mut self, now: Moment, flows: &[FlowSeen], view: View, out: &mut Vec<Decision>) {
        let queue = view.summary.and_then(|summary| self.queue_seen(flows, view, summary));
        let verdict =
            view.summary.map(|summary| self.trust.judge(now, Claim { queue, ..claim(flows, view, summary) }));
        // While the group starts up, there are no upper bounds, and so nothing to mistrust.
        let starts = view.summary.is_some_and(|s| s.phase == Phase::StartUp);
        let verdict = verdict.filter(|_| !starts);
        let not_obeyed = match verdict {
            Some(Verdict::Mistrust) => Some(Rule::Mistrust),
            Some(Verdict::KeepUnbounded) => Some(Rule::Doubt),
            Some(Verdict::Obey | Verdict::Keep(_) | Verdict::Undecided(_) | Verdict::Contend(_)) | None => {
                None
            }
        };
        if let Some(why) = not_obeyed {
            self.flows.clear();
            out.extend(flows.iter().map(|flow| unbounded(flow.id, why)));
            return;
        }
        let mut held = BTreeMap::new();
        let known = |flow: &FlowSeen| view.own.of(flow.id);
        let willing = flows.iter().filter_map(known).filter(|k| k.elastic).count().max(1);
        // The rate of flows with another limit is not available to this terminal's other
        // flows.
        let held_bps: f64 = flows.iter().filter_map(known).filter(|k| !k.elastic).map(|k| k.rate_bps).sum();
        let part_bps = |summary: &Summary| {
            let share_bps = summary.share_of(view.radio);
            let left_bps = (share_bps - held_bps).max(share_bps / (flows.len() + view.resting) as f64);
            left_bps / willing as f64
        };
        let kept = match (view.summary, verdict) {
            (Some(summary), Some(Verdict::Keep(share_bps))) => Some(as_before(summary, share_bps)),
            (Some(summary), Some(Verdict::Undecided(least_bps)))
                if is_shared(summary) && least_bps > summary.share_of(view.radio) =>
            {
                Some(as_before(summary, least_bps))
            }
            (Some(summary), Some(Verdict::Contend(windows))) => {
                let share_bps = summary.share_of(view.radio).max(windows.least_bps);
                Some(contending(summary, share_bps, windows.queue_s))
            }
            _ => None,
        };
        let doubts = matches!(verdict, Some(Verdict::Keep(_)));
        let group = kept.as_ref().or(view.summary).map(|summary| (summary, part_bps(summary)));
        for flow in flows {
            let sends = view.own.sends(flow.id) && flow.min_rtt_us > 0 && flow.mss_bytes > 0;
            out.push(match (group, known(flow).filter(|_| sends)) {
                (Some((summary, part_bps)), Some(known)) if known.elastic => {
                    let (mut decision, state) = self.of_flow(now, flow, known, summary, part_bps, view);
                    if doubts {
                        decision.why = Rule::Doubt;
                    }
                    held.insert(flow.id, state);
                    decision
                }
                (Some(_), Some(_)) => unbounded(flow.id, Rule::AppLimited),
                _ => unbounded(flow.id, Rule::Unknown),
            });
        }
        self.flows = held;
    }

    /// What the flows that have an upper bound show of the queue that the leader announces.
    fn queue_seen(&self, flows: &[FlowSeen], view: View, summary: &Summary) -> Option<QueueSeen> {
        if !is_shared(summary) {
            return None;
        }
        let announced_s = announced_queue_s(summary);
        let mut seen = QueueSeen { rate_bps: 0.0, srtt_s: 0.0, base_s: 0.0, announced_s, bound: false };
        let mut count = 0.0;
        for flow in flows {
            let Some((known, bounds)) = view.own.of(flow.id).zip(self.flows.get(&flow.id)) else { continue };
            seen.rate_bps += known.rate_bps;
            seen.srtt_s += f64::from(flow.srtt_us) / 1e6;
            seen.base_s += f64::from(flow.min_rtt_us) / 1e6;
            seen.bound |= f64::from(flow.cwnd) + 1.0 >= bounds.upper && STEP * bounds.upper >= bounds.least;
            count += 1.0;
        }
        for mean in [&mut seen.srtt_s, &mut seen.base_s] {
            *mean /= count;
        }
        (count > 0.0).then_some(seen)
    }

    /// Whether senders should be challenged.
    pub(super) fn wants_proof(&self) -> bool {
        self.trust.wants_proof()
    }

    /// The decision for a flow that shares, and the state to keep.
    fn of_flow(
        &self,
        now: Moment,
        flow: &FlowSeen,
        known: &FlowHistory,
        summary: &Summary,
        share_bps: f64,
        view: View,
    ) -> (Decision, FlowBounds) {
        let per_second = share_bps / (f64::from(flow.mss_bytes) * 8.0);
        // The minimum RTT of a flow that began late includes other senders' queues. A false minimum
        // of the group can halve it at most.
        let group_us = summary.base_rtt_us(flow.destination).unwrap_or(flow.min_rtt_us);
        let base_us = group_us.clamp(flow.min_rtt_us / 2, flow.min_rtt_us);
        let base_s = f64::from(base_us) / 1e6;
        // Growth is measured against the rate of the last round trip: on an empty path, or behind
        // others' queues.
        let contends = summary.phase == Phase::Contend;
        let round_trip_s = base_s + if contends { f64::from(summary.queue_us) / 1e6 } else { 0.0 };
        let delivered = known.last_rate_bps * round_trip_s / (f64::from(flow.mss_bytes) * 8.0);
        let grown = FLOOR_GROWS * delivered;
        let starts = summary.phase == Phase::StartUp;
        let before = self.flows.get(&flow.id).copied();
        let growth = Growth::of(before.map(|b| b.growth), now, known.last_rate_bps);
        let before = before.unwrap_or(FlowBounds {
            floor: 0.0,
            upper: f64::INFINITY,
            least: MIN_WINDOW,
            stretch: 1.0,
            short: 0,
            growth,
            room: Room::default(),
        });
        let at_bound = f64::from(flow.cwnd) + 1.0 >= before.upper;
        let is_below_share =
            at_bound && !before.room.is_testing() && known.rate_bps < BELOW_SHARE * share_bps;
        let short = if is_below_share { before.short + 1 } else { 0 };
        let mut room = before.room;
        let target_s = target_s(view.objective);
        let answer = room.follow(
            now,
            is_shared(summary).then(|| BoundedFlow {
                srtt_us: flow.srtt_us,
                min_rtt_us: flow.min_rtt_us,
                cwnd: flow.cwnd,
                at_bound,
                stretch: before.stretch,
                min_window: MIN_WINDOW,
                part: part_of_all(summary, share_bps, view),
                queue_s: announced_queue_s(summary).min(target_s),
                target_s,
            }),
        );
        let stretch = match answer {
            // A rate measured over two ticks still reflects the bound before them.
            _ if short > 2 => (before.stretch / STEP).min(MAX_STRETCH),
            Answer::Grow => (before.stretch * GROWS.sqrt()).min(MAX_STRETCH),
            Answer::Stay | Answer::Halve(_) => before.stretch,
            Answer::Shrink => (before.stretch * STEADY).max(1.0),
            Answer::Share => 1.0,
        };
        let mut least = MIN_WINDOW;
        let (upper, aim, why) = match summary.phase {
            Phase::Off => return (unbounded(flow.id, Rule::GaveUp), FlowBounds { growth, ..before }),
            Phase::StartUp => (None, grown, Rule::StartUp),
            Phase::Contend => {
                let full = per_second * round_trip_s;
                // A decision at most halves the window. A window twice as large as the share needs
                // leaves room for recovery from losses, and members' rates stay equal.
                let upper = (full / STEP)
                    .max(f64::from(view.radio.aggregate_segments))
                    .max(MIN_WINDOW / STEP)
                    .max(STEP * f64::from(flow.cwnd));
                (Some(upper), full.min(grown.max(before.floor)), Rule::Contend)
            }
            Phase::Hold | Phase::Probe => {
                let queue_s = f64::from(summary.queue_us) / 1e6;
                // With less than an aggregate, the radio's overhead exceeds the benefit of sharing.
                // But the aggregates of many stations form a queue themselves, so sending one may
                // take no longer than the longest target queue. In front of a wire slower than the
                // air there is no aggregate to fill: segments held for one only wait in the wire's
                // queue. A lossy wire is served in bursts of aggregates.
                let is_slow_wire = summary.alone_max_bps > 0 && !summary.paced;
                let aggregate = if is_slow_wire { 0.0 } else { f64::from(view.radio.aggregate_segments) };
                let longest_s = base_s + queue_s.max(capacity::target_s(Objective::Throughput));
                let of_share =
                    |window: f64| window.max(aggregate).min(per_second * longest_s).max(MIN_WINDOW);
                least = of_share(0.0);
                let upper = of_share(per_second * (base_s + queue_s)) * stretch;
                let upper = match answer {
                    Answer::Halve(window) => window.min(upper),
                    _ => upper.max(STEP * f64::from(flow.cwnd)),
                };
                let why = if summary.phase == Phase::Probe { Rule::Probe } else { Rule::Share };
                (Some(upper), (per_second * base_s).min(grown.max(before.floor)).min(upper), why)
            }
        };
        let buffers = flow.window_bytes as f64 / f64::from(flow.mss_bytes);
        // A lower bound beyond the buffers would only fill them. The kernel's buffers grow with the
        // window: require only what the window has.
        let fits = flow.window_bytes == 0 || STEADY * buffers >= aim.min(f64::from(flow.cwnd));
        // While the group starts up, only a flow that is still determining its rate has a lower
        // bound: one that keeps its window although its rate no longer rises takes capacity from
        // others.
        let finds_out = !starts || growth.continues(now, flow.srtt_us);
        let lower = if fits && known.lost <= LOSS_ENDS_FLOOR && finds_out { aim } else { 0.0 };
        let decision = Decision {
            flow: flow.id,
            bound: Bound { lower: lower as u32, upper: upper.unwrap_or(0.0) as u32 },
            no_decrease: false,
            burst: if summary.paced { BURST } else { 0 },
            why,
        };
        // While there are no bounds, earlier knowledge stays.
        let held = upper.map_or(FlowBounds { growth, ..before }, |upper| FlowBounds {
            floor: lower,
            upper,
            least,
            stretch,
            short,
            growth,
            room,
        });
        (decision, held)
    }
}

/// The shortest queue that windows within their shares leave, seconds: the announced queue, but at
/// least the shortest one that an honest leader announces.
fn announced_queue_s(summary: &Summary) -> f64 {
    let shortest_s = if summary.paced { LOSSY_QUEUE_S } else { target_s(Objective::Latency) };
    (f64::from(summary.queue_us) / 1e6).max(shortest_s)
}

/// The fraction of all proved senders' shares that this share of a flow is. In front of a wire,
/// another sender's share may be larger than this terminal's by as much as its radio is faster.
fn part_of_all(summary: &Summary, share_bps: f64, view: View) -> f64 {
    let others = f64::from(summary.senders.min(view.senders.proved).max(1)) - 1.0;
    let alone_bps = view.radio.alone_bps;
    let larger = if alone_bps > 0 { (summary.alone_max_bps as f64 / alone_bps as f64).max(1.0) } else { 1.0 };
    let of_terminal = share_bps / summary.share_of(view.radio).max(1.0);
    of_terminal / (1.0 + others * larger)
}

/// Whether windows should enforce shares.
fn is_shared(summary: &Summary) -> bool {
    matches!(summary.phase, Phase::Hold | Phase::Probe)
}

/// The group's summary with the previous share.
fn as_before(summary: &Summary, share_bps: f64) -> Summary {
    Summary {
        phase: Phase::Hold,
        share_bps: share_bps as u64,
        air_share_ppm: 0,
        // A queue that carries a share in any case.
        queue_us: summary.queue_us.max((target_s(Objective::Balanced) * 1e6) as u32),
        destinations: Vec::new(),
        ..summary.clone()
    }
}

/// The group's summary with this share, and windows that carry it behind this queue.
fn contending(summary: &Summary, share_bps: f64, queue_s: f64) -> Summary {
    Summary {
        phase: Phase::Contend,
        share_bps: share_bps as u64,
        air_share_ppm: 0,
        queue_us: (queue_s * 1e6) as u32,
        ..summary.clone()
    }
}

/// The group's claim, with this terminal's own observations.
fn claim(flows: &[FlowSeen], view: View, summary: &Summary) -> Claim {
    let mut claim = Claim {
        share_bps: summary.share_of(view.radio),
        senders: summary.senders.min(view.senders.proved),
        claimed: summary.senders,
        proved: view.senders.proved,
        capacity_bps: summary.capacity_bps as f64,
        alone_bps: if view.radio.alone_bps > 0 { view.radio.alone_bps as f64 } else { f64::INFINITY },
        heard: view.senders.proved.saturating_add(view.senders.unproved),
        bounded: matches!(summary.phase, Phase::Hold | Phase::Probe | Phase::Contend),
        ..Claim::default()
    };
    for (flow, known) in flows.iter().filter_map(|f| view.own.of(f.id).map(|known| (f, known))) {
        claim.rate_bps += known.rate_bps;
        claim.elastic |= known.elastic;
        claim.srtt = claim.srtt.max(Duration::from_micros(flow.srtt_us.into()));
        claim.held = claim.held.max(held(flow, summary, claim.share_bps));
    }
    claim
}

/// The expected round-trip time if all windows are at their bounds: the minimum RTT and the
/// announced queue, at least the longest target queue. If the share takes longer to carry the
/// smallest window, that time.
fn held(flow: &FlowSeen, summary: &Summary, share_bps: f64) -> Duration {
    let queue_s = (f64::from(summary.queue_us) / 1e6).max(target_s(Objective::Throughput));
    let min_s = MIN_WINDOW * f64::from(flow.mss_bytes) * 8.0 / share_bps.max(1.0);
    Duration::from_secs_f64((f64::from(flow.min_rtt_us) / 1e6 + queue_s).max(min_s))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For how long a flow with these rates, one each half second, counts as growing, seconds.
    fn grows_s(rates_bps: impl IntoIterator<Item = f64>, srtt_ms: u32) -> f64 {
        let mut growth = None;
        let mut grows_s = 0.0;
        for (number, rate_bps) in rates_bps.into_iter().enumerate() {
            let now = Moment::at(Duration::from_millis(500) * number as u32);
            let next = Growth::of(growth, now, rate_bps);
            if !next.continues(now, srtt_ms * 1000) {
                break;
            }
            growth = Some(next);
            grows_s = now.since_beginning().as_secs_f64();
        }
        grows_s
    }

    #[test]
    fn a_flow_probes_while_its_rate_rises_and_for_three_more_round_trips() {
        let rises = (0..60).map(|n| 1e6 * 1.3_f64.powi(n.min(20)));
        assert_eq!(grows_s(rises.clone(), 50), 11.5);
        assert_eq!(grows_s(rises, 1000), 13.0);
        assert_eq!(grows_s([5e6; 60], 50), 1.5);
    }

    /// A leader that announces start-up indefinitely does not give members windows that losses
    /// cannot reduce.
    #[test]
    fn rates_that_vary_by_less_than_a_quarter_do_not_rise() {
        assert_eq!(grows_s((0..60).map(|n| 5e6 * if n % 2 == 0 { 1.0 } else { 1.24 }), 50), 1.5);
    }
}
