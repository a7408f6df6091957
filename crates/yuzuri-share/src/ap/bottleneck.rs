//! What stations share: the air of their radio's channel, or the wire behind all radios. Stations
//! that share a bottleneck are a group with a capacity and shares of its own. No I/O and no clock.
//!
//! The gate is between air and wire, and times both halves of a round trip. A queue that all
//! radios' stations meet is the wire's, and is in the wire's half; a queue of the air is in the
//! other one, and at one radio only.

use super::stand_off::StandOff;
use super::steward::Station;
use super::whose_loss::WhoseLoss;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use yuzuri_policy::{Destination, Phase, PolicyConfig, Summary, Terminal};

/// A channel, by its centre frequency, MHz: radios on one channel share its air, whatever device
/// they are. 0: wired, or not known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Channel(pub u32);

/// What a group of stations shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Bottleneck {
    /// The wire, behind several radios.
    Wire,
    /// What is behind one radio: its air, or a wire that no other radio's stations fill.
    Channel(Channel),
}

/// Stations that share a bottleneck.
#[derive(Debug)]
pub(crate) struct Sharers {
    /// The access point's own part, which sends nothing and leads.
    pub(super) leader: Terminal,
    pub(crate) summary: Option<Summary>,
    pub(super) stand_off: StandOff,
    pub(super) whose_loss: WhoseLoss,
    /// Whether nothing was bounded at the last tick because bounds do not help here.
    pub(super) stands_off: bool,
}

impl Sharers {
    /// Before the first tick.
    pub(super) fn new(config: PolicyConfig) -> Sharers {
        Sharers {
            leader: Terminal::new(config),
            summary: None,
            stand_off: StandOff::default(),
            whose_loss: WhoseLoss::default(),
            stands_off: false,
        }
    }

    /// Shares are enforced.
    pub(super) fn holds(&self) -> bool {
        self.summary.as_ref().is_some_and(|s| matches!(s.phase, Phase::Hold | Phase::Probe))
    }
}

/// Weight of a tick in the means of a radio's queues: about 4 s, as long as the policy remembers.
const NEW: f64 = 0.125;
/// The place of a shorter queue is not known, seconds: acknowledgements are no finer.
const SHORT_S: f64 = 0.005;

/// Where the queue of a radio's stations is.
#[derive(Debug, Clone, Copy, Default)]
struct Halves {
    air_s: f64,
    wire_s: f64,
    looks: u32,
    is_behind_wire: bool,
}

impl Halves {
    fn look(&mut self, [air_s, wire_s]: [f64; 2]) {
        let new = NEW.max(1.0 / f64::from(self.looks + 1));
        self.looks = self.looks.saturating_add(1);
        self.air_s += new * (air_s - self.air_s);
        self.wire_s += new * (wire_s - self.wire_s);
        // Nothing changes on account of a single tick.
        if self.air_s + self.wire_s > SHORT_S && f64::from(self.looks) * NEW >= 1.0 {
            self.is_behind_wire = self.wire_s > self.air_s;
        }
    }
}

/// The radios over time.
#[derive(Debug, Default)]
pub(super) struct Radios {
    halves: BTreeMap<Channel, Halves>,
}

impl Radios {
    /// Finds the radios whose stations meet a queue of the wire. They share it if there are at
    /// least two.
    pub(super) fn behind_wire<'a>(
        &mut self,
        stations: impl Iterator<Item = &'a Station> + Clone,
    ) -> BTreeSet<Channel> {
        let rows = || stations.clone().flat_map(|station| station.rows.iter().map(move |row| (station, row)));
        // The wire is the same from each radio: so is its least.
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
            self.halves.entry(channel).or_default().look([air_s / rows, wire_s / rows]);
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
    fn a_queue_is_where_most_of_it_is_for_seconds() {
        let mut halves = Halves::default();
        (0..7).for_each(|_| halves.look([0.001, 0.030]));
        assert!(!halves.is_behind_wire, "a few looks do not tell");
        (0..2).for_each(|_| halves.look([0.001, 0.030]));
        assert!(halves.is_behind_wire);
        halves.look([0.060, 0.030]);
        assert!(halves.is_behind_wire, "one look that contradicts the mean does not tell");
        (0..40).for_each(|_| halves.look([0.002, 0.001]));
        let before = halves.is_behind_wire;
        (0..40).for_each(|_| halves.look([0.001, 0.002]));
        assert_eq!(halves.is_behind_wire, before, "a queue that is too short does not tell");
        (0..40).for_each(|_| halves.look([0.020, 0.010]));
        assert!(!halves.is_behind_wire);
    }
}
