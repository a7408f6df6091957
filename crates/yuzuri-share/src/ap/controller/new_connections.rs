//! Bounds for connections that begin before the next tick.

use super::{Controller, Plan, SEGMENT_BYTES, Sharers};
use yuzuri_gate::Bound;
use yuzuri_policy::{RadioHint, Summary};

/// A new connection gets at least an initial window (RFC 6928), segments.
const INITIAL_SEGMENTS: u32 = 10;

/// The window for a share. The connection's destination is unknown: assume the longest known path.
fn bytes(summary: &Summary, share_bps: f64) -> Option<u32> {
    let base_us = summary.destinations.iter().map(|(_, us)| *us).max()?;
    let seconds = (f64::from(base_us) + f64::from(summary.queue_us)) / 1e6;
    let bytes = share_bps / 8.0 * seconds;
    Some((bytes as u32).max(INITIAL_SEGMENTS * SEGMENT_BYTES))
}

/// The fraction of its group's share that each sender has once there is one more.
fn one_more(summary: &Summary) -> f64 {
    let senders = f64::from(summary.senders.max(1));
    senders / (senders + 1.0)
}

/// The group's summary, while shares are enforced.
fn enforced(sharers: &Sharers) -> Option<&Summary> {
    sharers.summary.as_ref().filter(|_| sharers.holds() && !sharers.bound_trials.is_off())
}

impl Controller {
    /// Sets the bound for new connections: the share of one more sender.
    pub(super) fn bound_new_connections(&self, plan: &mut Plan) {
        // The radio of an unknown station is unknown, so it gets the largest share.
        let of = |sharers: &Sharers| {
            let summary = enforced(sharers)?;
            bytes(summary, summary.share_of(RadioHint::default()) * one_more(summary))
        };
        plan.others = self.in_use().filter_map(|(_, sharers)| of(sharers)).max();
        if plan.others.is_none() {
            return;
        }
        for (id, station) in &self.stations {
            let is_free =
                self.is_exempt(*id) || station.membership.bounds_itself() || station.windows.is_ignored();
            let summary = self.sharers.get(&station.bottleneck).and_then(enforced).filter(|_| !is_free);
            let bound = summary.and_then(|summary| {
                let share_bps = station.share_bps.unwrap_or_else(|| summary.share_of(station.radio));
                let part = match &station.report {
                    Some(report) => 1.0 / (f64::from(report.flows) + 1.0),
                    None => one_more(summary),
                };
                bytes(summary, share_bps * part)
            });
            // The bound for unknown stations does not apply to known ones.
            let bound = bound.unwrap_or(0);
            plan.stations.extend(station.addresses.iter().map(|address| (*address, bound)));
            // The bound for new connections does not apply to known, unbounded ones.
            let free = station.rows.iter().filter(|row| row.bytes.is_none());
            plan.flows.extend(free.map(|row| (row.key, Bound::default())));
        }
    }
}
