//! A terminal's evaluation of its own flows: their rates, losses and limits, and the report about
//! them.

use crate::capacity::{GROWS_TO_LOSS, STEADY};
use crate::report::min_round_trips;
use crate::{FlowSeen, Moment, RadioHint, Report};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// The rate of a flow is measured over two round trips, but at least over two ticks, and at most
/// over two round trips of 2 s: longer ones are mostly queuing delay.
pub(crate) const MIN_SPAN: Duration = Duration::from_secs(1);
pub(crate) const MAX_SPAN: Duration = Duration::from_secs(4);
/// The least rate of a flow that counts as sending, bit/s.
const SENDS_FROM_BPS: f64 = 8_000.0;

/// The history of a flow.
#[derive(Debug, Clone, Default)]
pub(crate) struct FlowHistory {
    history: VecDeque<Sample>,
    /// Payload delivered per second over two round trips, bit/s.
    pub(crate) rate_bps: f64,
    /// The same over about the last round trip.
    pub(crate) last_rate_bps: f64,
    /// Fraction of segments lost, over the same time and at least 100 segments.
    pub(crate) lost: f64,
    /// Whether its congestion window is the limit.
    pub(crate) elastic: bool,
    seen: Moment,
}

#[derive(Debug, Clone, Copy)]
struct Sample {
    at: Moment,
    delivered: u64,
    lost: u64,
    app_limited: bool,
}

/// This terminal's flows over time.
#[derive(Debug, Clone, Default)]
pub(crate) struct OwnFlows {
    flows: BTreeMap<u64, FlowHistory>,
}

impl OwnFlows {
    /// Processes the current flows; flows not among them are forgotten.
    pub(crate) fn observe(&mut self, now: Moment, flows: &[FlowSeen]) {
        for flow in flows {
            self.flows.entry(flow.id).or_default().observe(now, flow);
        }
        self.flows.retain(|_, known| known.seen == now);
    }

    /// Processes a flow as it was at each of these moments, at which it was left out because it was
    /// inactive.
    pub(crate) fn recall(&mut self, flow: &FlowSeen, moments: impl Iterator<Item = Moment>) {
        let known = self.flows.entry(flow.id).or_default();
        moments.for_each(|at| known.observe(at, flow));
    }

    pub(crate) fn of(&self, flow: u64) -> Option<&FlowHistory> {
        self.flows.get(&flow)
    }

    /// Whether a flow takes part: it delivers something, or its congestion window limits it.
    pub(crate) fn sends(&self, flow: u64) -> bool {
        self.of(flow).is_some_and(|known| known.rate_bps >= SENDS_FROM_BPS || known.elastic)
    }

    /// The report to the leader; `None` while nothing is sent.
    pub(crate) fn report(&self, flows: &[FlowSeen], radio: RadioHint) -> Option<Report> {
        let mut report = Report { alone_bps: radio.alone_bps, ..Report::default() };
        let (mut rate_bps, mut lost_bps) = (0.0, 0.0);
        let mut round_trips = Vec::new();
        for flow in flows.iter().filter(|flow| self.sends(flow.id)) {
            let Some(known) = self.of(flow.id) else { continue };
            report.flows = report.flows.saturating_add(1);
            report.elastic |= known.elastic;
            rate_bps += known.rate_bps;
            lost_bps += known.rate_bps * known.lost;
            if flow.min_rtt_us > 0 {
                report.queue_us = report.queue_us.max(flow.srtt_us.saturating_sub(flow.min_rtt_us));
                report.srtt_us = report.srtt_us.max(flow.srtt_us);
                round_trips.push((flow.destination, flow.min_rtt_us, known.rate_bps));
            }
        }
        if report.flows == 0 {
            return None;
        }
        report.rate_bps = rate_bps as u64;
        report.lost_permille = if rate_bps > 0.0 { (lost_bps / rate_bps * 1000.0) as u16 } else { 0 };
        report.destinations = min_round_trips(round_trips.into_iter());
        Some(report)
    }
}

impl FlowHistory {
    fn observe(&mut self, now: Moment, flow: &FlowSeen) {
        self.seen = now;
        self.history.push_back(Sample {
            at: now,
            delivered: flow.delivered,
            lost: flow.lost,
            app_limited: flow.app_limited,
        });
        let srtt = Duration::from_micros(flow.srtt_us.into());
        let span = (2 * srtt).clamp(MIN_SPAN, MAX_SPAN);
        while self.history.len() > 2 && now.since(self.history[1].at) >= span {
            self.history.pop_front();
        }
        let segment_bits = f64::from(flow.mss_bytes) * 8.0;
        let rate = |from: &Sample| {
            let seconds = now.since(from.at).as_secs_f64();
            let segments = flow.delivered.saturating_sub(from.delivered) as f64;
            if seconds > 0.0 { segments * segment_bits / seconds } else { 0.0 }
        };
        let Some(first) = self.history.front() else { return };
        self.rate_bps = rate(first);
        // The newest sample that is at least a round trip old, or the oldest one.
        let last = self.history.iter().rev().skip(1).find(|s| now.since(s.at) >= srtt).unwrap_or(first);
        self.last_rate_bps = rate(last);
        let (delivered, lost) =
            (flow.delivered - first.delivered.min(flow.delivered), flow.lost - first.lost.min(flow.lost));
        // One segment alone is no more than the loss that ends growth.
        self.lost = lost as f64 / ((delivered + lost) as f64).max(1.0 / GROWS_TO_LOSS);
        let buffers_bind = flow.window_bytes > 0
            && f64::from(flow.in_flight) * f64::from(flow.mss_bytes) >= flow.window_bytes as f64 * STEADY;
        // A pause of a single observation does not yet mean that the application limits the flow.
        let paused = self.history.iter().rev().take(2).all(|s| s.app_limited);
        self.elastic = !paused && !buffers_bind;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// A daemon leaves a flow out while it is inactive. Once it is active again, its state is as if
    /// it had been observed all the time.
    #[test]
    fn a_flow_left_out_while_idle_has_the_same_state_as_one_observed() {
        const TICK: Duration = Duration::from_millis(500);
        for (srtt_us, left_out_for) in [(0, 1), (20_000, 1), (600_000, 40), (1_500_000, 3), (9_000_000, 200)]
        {
            let mut flow = FlowSeen {
                id: 7,
                mss_bytes: 1448,
                cwnd: 10,
                srtt_us,
                delivered: 4_000,
                lost: 12,
                window_bytes: 100_000,
                ..FlowSeen::default()
            };
            let (mut always, mut left_out) = (OwnFlows::default(), OwnFlows::default());
            let mut now = Moment::at(TICK);
            let mut moments = VecDeque::new();
            for tick in 0..30 + left_out_for {
                now = now + TICK;
                // The flow sends at first, then is inactive, and is left out after ten inactive
                // observations.
                if tick < 20 {
                    flow.delivered += 100;
                }
                flow.app_limited = tick >= 19;
                always.observe(now, &[flow]);
                left_out.observe(now, if tick < 30 { std::slice::from_ref(&flow) } else { &[] });
                moments.push_back(now);
                if moments.len() > 10 {
                    moments.pop_front();
                }
            }
            assert!(left_out.of(7).is_none());
            left_out.recall(&flow, moments.into_iter());
            for tick in 0..10 {
                now = now + TICK;
                flow.delivered += 70;
                flow.lost += u64::from(tick == 1);
                flow.app_limited = tick % 3 == 1;
                always.observe(now, &[flow]);
                left_out.observe(now, &[flow]);
                let of = |own: &OwnFlows| {
                    let known = own.of(7).unwrap();
                    (known.rate_bps, known.last_rate_bps, known.lost, known.elastic)
                };
                assert_eq!(of(&left_out), of(&always), "srtt {srtt_us} µs, tick {tick}");
            }
        }
    }
}
