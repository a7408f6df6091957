//! Messages between terminals: a member's report to its leader, the leader's summary to all.

use crate::RadioHint;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// A terminal: drawn at random when its daemon first starts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeId(pub u64);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A destination of flows, as a short hash of the far end's prefix: a far network has the same hash
/// at every terminal, and a message does not reveal it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Destination(pub u32);

/// Most destinations in a report or a summary.
pub const MAX_DESTINATIONS: usize = 4;

/// The minimum RTT to each of the busiest destinations, µs. The input is a destination, a
/// round-trip time and the rate to it, bit/s.
pub(crate) fn min_round_trips(
    seen: impl Iterator<Item = (Destination, u32, f64)>,
) -> Vec<(Destination, u32)> {
    let mut least: BTreeMap<Destination, (u32, f64)> = BTreeMap::new();
    for (to, min_rtt_us, rate_bps) in seen {
        let entry = least.entry(to).or_insert((u32::MAX, 0.0));
        entry.0 = entry.0.min(min_rtt_us);
        entry.1 += rate_bps;
    }
    let mut busiest: Vec<(Destination, (u32, f64))> = least.into_iter().collect();
    // A stable sort: of equally busy destinations the lower one comes first, at each terminal
    // alike.
    busiest.sort_by(|a, b| b.1.1.total_cmp(&a.1.1));
    busiest.into_iter().take(MAX_DESTINATIONS).map(|(to, (us, _))| (to, us)).collect()
}

/// A sending member's report to its leader. The leader sets the interval: 0.5 s to 25 s.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// The delivery rate of its flows, payload bits per second.
    pub rate_bps: u64,
    /// The rate that it could deliver alone on the air, payload bits per second; 0: unknown.
    pub alone_bps: u64,
    /// Flows that send.
    pub flows: u16,
    /// Whether it would send more if its windows allowed: neither its applications nor its buffers
    /// limit it.
    pub elastic: bool,
    /// The largest difference between smoothed and minimum RTT of its flows, µs.
    pub queue_us: u32,
    /// Largest smoothed round-trip time of its flows, µs.
    pub srtt_us: u32,
    /// Segments lost per thousand, the mean over its flows weighted by rate.
    pub lost_permille: u16,
    /// Its busiest destinations, with the minimum RTT that it has seen to each, µs.
    pub destinations: Vec<(Destination, u32)>,
}

/// The phase of the group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// The group's rate is still growing: no member has an upper bound.
    #[default]
    StartUp,
    /// Each member stays within its share.
    Hold,
    /// Each member takes a little more for a round trip: announced by leaders of older versions.
    Probe,
    /// Senders outside the group fill queues: each member's windows are large enough for its share
    /// behind these queues.
    Contend,
    /// No member is bounded: announced by leaders of older versions if sharing does not help.
    Off,
}

impl Phase {
    /// Its name on screens and in tables: the same as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Phase::StartUp => "start-up",
            Phase::Hold => "hold",
            Phase::Probe => "probe",
            Phase::Contend => "contend",
            Phase::Off => "off",
        }
    }
}

/// The leader's summary to all members, once or twice a second.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Summary {
    /// Members, including silent ones.
    pub members: u16,
    /// Members that send.
    pub senders: u16,
    /// The phase of the group.
    pub phase: Phase,
    /// The group's best rate, payload bits per second.
    pub capacity_bps: u64,
    /// The share of one member: of the air, in millionths of its rate alone.
    pub air_share_ppm: u32,
    /// The share of a member that does not know its rate alone, payload bits per second.
    pub share_bps: u64,
    /// Not 0: the wire behind the access point is the limit, and this is its rate, payload bits per
    /// second: no member would get more alone.
    pub alone_max_bps: u64,
    /// The queue above the minimum RTT that a window may hold, µs.
    pub queue_us: u32,
    /// Segments are lost while the air is not full: windows should be paced over the round trip.
    pub paced: bool,
    /// Largest smoothed round-trip time in the group, µs.
    pub srtt_us: u32,
    /// The minimum RTT that any member has seen to each destination, µs.
    pub destinations: Vec<(Destination, u32)>,
}

impl Summary {
    /// The share of a member with this radio, payload bits per second.
    pub fn share_of(&self, radio: RadioHint) -> f64 {
        if radio.alone_bps > 0 && self.air_share_ppm > 0 {
            let alone_bps = match self.alone_max_bps {
                0 => radio.alone_bps,
                most => radio.alone_bps.min(most),
            };
            alone_bps as f64 * f64::from(self.air_share_ppm) / 1e6
        } else {
            self.share_bps as f64
        }
    }

    /// The summary for a member of this weight: to its policy, the group is smaller by that factor.
    pub fn weighted(&self, weight: f64) -> Summary {
        if weight == 1.0 {
            return self.clone();
        }
        Summary {
            senders: (f64::from(self.senders) / weight).ceil().min(u16::MAX.into()) as u16,
            share_bps: (self.share_bps as f64 * weight) as u64,
            air_share_ppm: (f64::from(self.air_share_ppm) * weight) as u32,
            ..self.clone()
        }
    }

    /// The group's minimum RTT to a destination, µs.
    pub fn base_rtt_us(&self, destination: Destination) -> Option<u32> {
        self.destinations.iter().find(|(d, _)| *d == destination).map(|(_, us)| *us)
    }
}
