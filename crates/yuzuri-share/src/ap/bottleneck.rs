//! Determines which bottleneck stations share: the air of their radio's channel, or the wire behind
//! all radios. Stations that share a bottleneck form a group with its own capacity and shares. No
//! I/O and no clock.
//!
//! The gate is between air and wire, and measures both parts of the RTT. The queue of the wire
//! delays the stations of all radios, and appears in the part on the wire. The queue of the air
//! appears in the other part, and at one radio only.

use super::bound_trials::BoundTrials;
use super::controller::Station;
use super::loss_cause::LossCause;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use yuzuri_policy::{Destination, Phase, PolicyConfig, Summary, Terminal};

/// A channel, by its centre frequency, MHz; 0: wired, or not known. All radios on one channel share
/// its air.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Channel(pub u32);

/// The bottleneck of a group of stations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Bottleneck {
    /// The wire, behind several radios.
    Wire,
    /// The path behind one radio: its air, or a wire that stations of other radios do not fill.
    Channel(Channel),
}

/// Stations that share a bottleneck.
#[derive(Debug)]
pub(crate) struct Sharers {
    /// The access point itself, which leads the group and sends nothing.
    pub(super) leader: Terminal,
    pub(crate) summary: Option<Summary>,
    pub(super) bound_trials: BoundTrials,
    pub(super) loss_cause: LossCause,
    /// Whether nothing was bounded at the last tick because bounds do not help this group.
    pub(super) is_suspended: bool,
}

impl Sharers {
    /// The state before the first tick.
    pub(super) fn new(config: PolicyConfig) -> Sharers {
        Sharers {
            leader: Terminal::new(config),
            summary: None,
            bound_trials: BoundTrials::default(),
            loss_cause: LossCause::default(),
            is_suspended: false,
        }
    }

    /// Whether shares are enforced.
    pub(super) fn holds(&self) -> bool {
        self.summary.as_ref().is_some_and(|s| matches!(s.phase, Phase::Hold | Phase::Probe))
    }
}

/// Weight of a tick in the mean of a radio's queues: about 4 s, the memory of the policy.
const NEW: f64 = 0.125;
/// A queue shorter than this, seconds, is not located: it is below the granularity of ACKs.
const SHORT_S: f64 = 0.005;

/// Where the queue of a radio's stations is: on the air or on the wire.
#[derive(Debug, Clone, Copy, Default)]
struct QueueLocation {
    air_s: f64,
    wire_s: f64,
    ticks: u32,
    is_behind_wire: bool,
}

impl QueueLocation {
    fn observe(&mut self, [air_s, wire_s]: [f64; 2]) {
        let new = NEW.max(1.0 / f64::from(self.ticks + 1));
        self.ticks = self.ticks.saturating_add(1);
        self.air_s += new * (air_s - self.air_s);
        self.wire_s += new * (wire_s - self.wire_s);
        // A single tick changes nothing.
        if self.air_s + self.wire_s > SHORT_S && f64::from(self.ticks) * NEW >= 1.0 {
            self.is_behind_wire = self.wire_s > self.air_s;
        }
    }
}

/// The radios over time.
#[derive(Debug, Default)]
pub(super) struct Radios {
    halves: BTreeMap<Channel, QueueLocation>,
}

impl Radios {
    /// The mean queue for the air of a channel over the last seconds, seconds.
    pub(super) fn air_queue_s(&self, channel: Channel) -> f64 {
        self.halves.get(&channel).map_or(0.0, |halves| halves.air_s)
    }

    /// Finds the radios whose stations have a queue on the wire. They share the wire if there are
    /// at least two.
    pub(super) fn behind_wire<'a>(
        &mut self,
        stations: impl Iterator<Item = &'a Station> + Clone,
    ) -> BTreeSet<Channel> {
        let rows = || stations.clone().flat_map(|station| station.rows.iter().map(move |row| (station, row)));
        // The wire is the same from each radio, and so is its minimum RTT.
        let mut least_us: HashMap<Destination, u32> = HashMap::new();
        for (_, row) in rows().filter(|(_, row)| row.gated.wire.samples > 0) {
            let us = least_us.entry(row.seen.destination).or_insert(u32::MAX);
            *us = (*us).min(row.gated.wire.min_us);
        }
        let mut sums: BTreeMap<Channel, [f64; 3]> = BTreeMap::new();
        for (station, row) in rows().filter(|(_, row)| row.seen.srtt_us > 0 && row.seen.in_flight > 0) {
            let [air_us, wire_us] = row.halves_us;
            let least_us = least_us.get(&row.seen.destination).copied().unwrap_or(0);
            let above = |us: u64, least_us: u32| us.saturating_sub(least_us.into()) as f64 / 1e6;
            let sum = sums.entry(station.channel).or_default();
            sum[0] += above(air_us, row.gated.air.min_us);
            sum[1] += above(wire_us, least_us);
            sum[2] += 1.0;
        }
        let there: BTreeSet<Channel> = stations.clone().map(|station| station.channel).collect();
        self.halves.retain(|channel, _| there.contains(channel));
        for (channel, [air_s, wire_s, rows]) in sums {
            self.halves.entry(channel).or_default().observe([air_s / rows, wire_s / rows]);
        }
        let behind: BTreeSet<Channel> =
            self.halves.iter().filter(|(_, halves)| halves.is_behind_wire).map(|(at, _)| *at).collect();
        if behind.len() > 1 { behind } else { BTreeSet::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_located_where_most_of_it_stays_for_seconds() {
        let mut halves = QueueLocation::default();
        (0..7).for_each(|_| halves.observe([0.001, 0.030]));
        assert!(!halves.is_behind_wire, "too few ticks for a decision");
        (0..2).for_each(|_| halves.observe([0.001, 0.030]));
        assert!(halves.is_behind_wire);
        halves.observe([0.060, 0.030]);
        assert!(halves.is_behind_wire, "one tick that contradicts the mean decides nothing");
        (0..40).for_each(|_| halves.observe([0.002, 0.001]));
        let before = halves.is_behind_wire;
        (0..40).for_each(|_| halves.observe([0.001, 0.002]));
        assert_eq!(halves.is_behind_wire, before, "a queue that is too short decides nothing");
        (0..40).for_each(|_| halves.observe([0.020, 0.010]));
        assert!(!halves.is_behind_wire);
    }
}
