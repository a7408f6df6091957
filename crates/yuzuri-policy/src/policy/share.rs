//! The policy `yuzuri`: each keeps its window to its share of what the group carries, over the least round-trip time plus a little
//! queue; and lets no loss that is not congestion bring it far below.

use super::{Objective, unbounded};
use crate::own::{Known, Own};
use crate::{Bound, Decision, FlowSeen, Moment, Phase, RadioHint, Rule, Summary};
use std::collections::BTreeMap;

/// Below so many segments ACKs that are delayed stop a flow.
const LEAST_WINDOW: f64 = 4.0;
/// Below this part of an aggregate the radio's overhead eats what sharing brings.
const OF_AN_AGGREGATE: f64 = 0.75;
/// ... unless that much takes longer to send than this, seconds: many stations' aggregates are a queue of their own.
const FOR_AN_AGGREGATE_S: f64 = 0.080;
/// The lower bound is at most so many times what was delivered in the last round trip: reached by growth, never by a jump ...
const FLOOR_GROWS: f64 = 3.0;
/// ... and at least an initial window (RFC 6928).
const FLOOR_FROM: f64 = 10.0;
/// No lower bound while more than this part of the segments is lost: then loss is what limits.
const LOSS_ENDS_FLOOR: f64 = 0.03;
/// The same while the group finds out what it carries.
const LOSS_ENDS_START: f64 = 0.06;
/// Buffers must admit so many times the lower bound: else it would only fill them.
const BUFFERS_FOR_FLOOR: f64 = 2.0;

/// Segments that leave at once where windows are spread over the round trip: few enough for a queue of 50 packets, enough for the radio to aggregate.
const BURST: u32 = 16;

/// Queue above the least round-trip time that a share may keep, seconds.
fn queue_s(objective: Objective) -> f64 {
    match objective {
        Objective::Throughput => 0.100,
        Objective::Balanced => 0.020,
        Objective::Latency => 0.008,
    }
}

/// What is kept from one decision to the next.
#[derive(Debug, Clone, Default)]
pub(super) struct Share {
    /// Lower bounds that were reached, segments.
    floors: BTreeMap<u64, f64>,
}

impl Share {
    #[allow(clippy::too_many_arguments)]
    pub(super) fn decide(
        &mut self,
        _now: Moment,
        flows: &[FlowSeen],
        own: &Own,
        radio: RadioHint,
        summary: Option<&Summary>,
        objective: Objective,
        out: &mut Vec<Decision>,
    ) {
        let share_bps = summary.map(|s| share_of(s, radio));
        let willing = flows.iter().filter(|f| own.of(f.id).is_some_and(|k| k.elastic)).count().max(1);
        // What flows that are held back elsewhere take is not there for the others of this terminal.
        let held: f64 =
            flows.iter().filter_map(|f| own.of(f.id)).filter(|k| !k.elastic).map(|k| k.rate_bps).sum();
        let mut floors = BTreeMap::new();
        for flow in flows {
            let known =
                own.of(flow.id).filter(|_| own.sends(flow.id) && flow.min_rtt_us > 0 && flow.mss_bytes > 0);
            let decision = match (summary, share_bps, known) {
                (Some(summary), Some(share_bps), Some(known)) if known.elastic => {
                    let flow_bps = (share_bps - held).max(share_bps / (flows.len() as f64)) / willing as f64;
                    self.of_flow(flow, known, summary, flow_bps, radio, objective, &mut floors)
                }
                (Some(_), _, Some(_)) => unbounded(flow.id, Rule::AppLimited),
                _ => unbounded(flow.id, Rule::Unknown),
            };
            out.push(decision);
        }
        self.floors = floors;
    }

    #[allow(clippy::too_many_arguments)]
    fn of_flow(
        &self,
        flow: &FlowSeen,
        known: &Known,
        summary: &Summary,
        share_bps: f64,
        radio: RadioHint,
        objective: Objective,
        floors: &mut BTreeMap<u64, f64>,
    ) -> Decision {
        let segment_bits = f64::from(flow.mss_bytes) * 8.0;
        let base_us = summary.base_rtt_us(flow.destination).unwrap_or(flow.min_rtt_us).min(flow.min_rtt_us);
        let base_s = f64::from(base_us) / 1e6;
        // Growth is measured against what came through in the last round trip.
        let grown = (FLOOR_GROWS * known.last_rate_bps * base_s / segment_bits).max(FLOOR_FROM);
        let (upper, aim, why) = match summary.phase {
            Phase::Off => return unbounded(flow.id, Rule::GaveUp),
            Phase::StartUp => (f64::INFINITY, grown, Rule::StartUp),
            Phase::Hold | Phase::Probe => {
                let probing = summary.phase == Phase::Probe;
                // Where queues overflow they are short.
                let queue_s = if summary.paced { LOSSY_QUEUE_S } else { queue_s(objective) };
                let upper = (share_bps * (base_s + queue_s) / segment_bits)
                    .max(OF_AN_AGGREGATE * f64::from(radio.aggregate_segments))
                    .min(share_bps * (base_s + queue_s.max(FOR_AN_AGGREGATE_S)) / segment_bits)
                    .max(LEAST_WINDOW);
                let aim = share_bps * base_s / segment_bits;
                let before = self.floors.get(&flow.id).copied().unwrap_or(0.0);
                (upper, aim.min(grown.max(before)), if probing { Rule::Probe } else { Rule::Share })
            }
        };
        let buffers = flow.window_bytes as f64 * 8.0 / segment_bits;
        let fits = flow.window_bytes == 0 || buffers >= BUFFERS_FOR_FLOOR * aim;
        let most_lost = if summary.phase == Phase::StartUp { LOSS_ENDS_START } else { LOSS_ENDS_FLOOR };
        let lower = if fits && known.lost <= most_lost { aim.min(upper) } else { 0.0 };
        if summary.phase != Phase::StartUp {
            floors.insert(flow.id, lower);
        }
        let segments = |x: f64| if x.is_finite() { x.min(f64::from(u32::MAX)) as u32 } else { 0 };
        Decision {
            flow: flow.id,
            bound: Bound { lower: segments(lower), upper: segments(upper) },
            no_decrease: false,
            burst: if summary.paced { BURST } else { 0 },
            why,
        }
    }
}

/// The same where segments are lost although the air is not full.
const LOSSY_QUEUE_S: f64 = 0.005;

/// This terminal's share, bit/s.
fn share_of(summary: &Summary, radio: RadioHint) -> f64 {
    if radio.alone_bps > 0 && summary.air_share_ppm > 0 {
        let alone_bps = match summary.alone_most_bps {
            0 => radio.alone_bps,
            most => radio.alone_bps.min(most),
        };
        alone_bps as f64 * f64::from(summary.air_share_ppm) / 1e6
    } else {
        summary.share_bps as f64
    }
}
