//! What limits the flows of each terminal over time, as `yuzuri why` reports it for the same
//! recording.

use std::collections::HashMap;
use yuzuri_limits::{Limit, LimitTimes};
use yuzuri_plot::limits::Piece;
use yuzuri_trace::{Event, Flow, FlowId};
use yuzuri_view::limited::FlowLimits;

/// Number of parts of a lane, from left to right.
const PARTS: usize = 300;

/// One flow.
struct FlowLane {
    terminal: usize,
    limits: FlowLimits,
    parts: Vec<LimitTimes>,
}

/// All flows of a run.
pub(super) struct Lanes {
    flows: HashMap<FlowId, FlowLane>,
    origin_us: u64,
    part_us: u64,
}

impl Lanes {
    /// The lanes of a run that began at this time of the monotonic clock and has this duration.
    pub(super) fn new(origin_mono_ns: u64, to_s: f64) -> Lanes {
        let part_us = ((to_s * 1e6 / PARTS as f64).ceil() as u64).max(1);
        Lanes { flows: HashMap::new(), origin_us: origin_mono_ns / 1000, part_us }
    }

    /// Adds a flow of a terminal, or its next congestion control.
    pub(super) fn flow(&mut self, flow: &Flow, terminal: usize) {
        let lane = self.flows.entry(flow.id).or_insert_with(|| FlowLane {
            terminal,
            limits: FlowLimits::default(),
            parts: vec![LimitTimes::default(); PARTS],
        });
        lane.limits.controlled_by(&flow.congestion_control);
    }

    /// Processes a record of a flow.
    pub(super) fn event(&mut self, event: &Event) {
        let Some(FlowLane { limits, parts, .. }) = self.flows.get_mut(&event.flow) else { return };
        let (origin_us, part_us) = (self.origin_us, self.part_us);
        limits.add(event, |interval| {
            // The time before the run's beginning is not drawn.
            let (mut from, to) =
                (interval.from_us.saturating_sub(origin_us), interval.to_us.saturating_sub(origin_us));
            while from < to {
                let part = from / part_us;
                let Some(times) = parts.get_mut(part as usize) else { break };
                let end = to.min((part + 1) * part_us);
                times.add(interval.limit, end - from);
                from = end;
            }
        });
    }

    /// The lane of a terminal: in each part of the time, the limits of its senders, stacked.
    pub(super) fn pieces(&self, terminal: usize) -> Vec<Piece> {
        let mut pieces: Vec<Piece> = Vec::new();
        let senders = || self.flows.values().filter(|lane| lane.terminal == terminal && lane.limits.sends());
        for part in 0..PARTS {
            let sum = |limit| senders().map(|lane| lane.parts[part].time_us(limit)).sum::<u64>();
            let sums: Vec<(Limit, u64)> = Limit::ALL.into_iter().map(|limit| (limit, sum(limit))).collect();
            let all = sums.iter().map(|(_, us)| *us).sum::<u64>();
            let (from_us, to_us) = (part as u64 * self.part_us, (part as u64 + 1) * self.part_us);
            let (from_s, to_s) = (from_us as f64 / 1e6, to_us as f64 / 1e6);
            let mut below = 0;
            for (limit, us) in sums.into_iter().filter(|(_, us)| *us > 0) {
                let of = |us: u64| us as f64 / all as f64;
                let piece = Piece { from_s, to_s, part: (of(below), of(below + us)), limit };
                below += us;
                // Consecutive parts with one limit are one piece.
                let same =
                    |last: &&mut Piece| last.limit == limit && last.part == piece.part && last.to_s == from_s;
                match pieces.iter_mut().rev().take(2 * Limit::ALL.len()).find(same) {
                    Some(last) => last.to_s = to_s,
                    None => pieces.push(piece),
                }
            }
        }
        // The records do not show the limit.
        if pieces.iter().all(|piece| piece.limit == Limit::Unknown) {
            pieces.clear();
        }
        pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use yuzuri_trace::{Kind, Sender, Snapshot};

    /// A sender with this much unsent data and this many of ten segments in flight at each ACK.
    fn event(flow: u64, ms: u64, notsent: u32, packets_out: u32) -> Event {
        let sender = Sender {
            sndbuf: 1 << 20,
            outstanding_bytes: packets_out * 1000,
            max_window: 1 << 20,
            pacing_wait_us: 0,
            prior_cwnd: 0,
            wmem_alloc: 0,
            ..Sender::UNKNOWN
        };
        Event {
            mono_ns: 5_000_000_000 + ms * 1_000_000,
            flow: FlowId(flow),
            kind: Kind::Sample,
            snapshot: Snapshot {
                cwnd: 10,
                ssthresh: Snapshot::SSTHRESH_INFINITE,
                mss: 1000,
                packets_out,
                notsent,
                snd_wnd: 1 << 20,
                wmem_queued: 5000,
                srtt_us: 20_000,
                min_rtt_us: 20_000,
                rttvar_us: 1000,
                bytes_acked: ms * 1000,
                pacing_rate_bps: u64::MAX,
                sender,
                ..Snapshot::default()
            },
            ..Event::default()
        }
    }

    fn flow(id: u64) -> Flow {
        let address = "10.0.0.1:1".parse().unwrap_or_else(|_| unreachable!());
        Flow {
            id: FlowId(id),
            local: address,
            remote: address,
            netns: 0,
            netns_name: None,
            owner: None,
            cgroup: 0,
            congestion_control: "cubic".into(),
            role: yuzuri_trace::Role::Opened,
            inode: 0,
        }
    }

    #[test]
    fn two_flows_of_a_terminal_share_its_lane_and_a_receiver_has_none() {
        let mut lanes = Lanes::new(5_000_000_000, 3.0);
        (1..=3).for_each(|id| lanes.flow(&flow(id), usize::from(id == 3)));
        for ms in (0..=3000).step_by(10) {
            // One flow's window is full; the other flow has nothing to send in the first half.
            lanes.event(&event(1, ms, 50_000, 10));
            lanes.event(&event(2, ms, if ms > 1500 { 50_000 } else { 0 }, if ms > 1500 { 10 } else { 2 }));
            lanes.event(&Event {
                snapshot: Snapshot { bytes_received: ms, ..Snapshot::default() },
                ..event(3, ms, 0, 0)
            });
        }
        let pieces = lanes.pieces(0);
        let time = |limit| -> f64 {
            let of = pieces.iter().filter(|piece| piece.limit == limit);
            of.map(|piece| (piece.to_s - piece.from_s) * (piece.part.1 - piece.part.0)).sum()
        };
        let seconds_of = (time(Limit::SlowStart), time(Limit::Application));
        assert!(
            (seconds_of.0 - 2.25).abs() < 0.1 && (seconds_of.1 - 0.75).abs() < 0.1,
            "{seconds_of:?} {pieces:?}"
        );
        // The whole lane is covered, with few pieces.
        let all: f64 = Limit::ALL.into_iter().map(time).sum();
        assert!((all - 3.0).abs() < 0.02 && pieces.len() < 10, "{all} {pieces:?}");
        assert!(lanes.pieces(1).is_empty(), "a receiver");
    }
}
