//! What terminals tell each other: a member's report to its leader, the leader's summary to all.

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

/// Where flows go, as a short hash of the far end's prefix: the same far network has the same hash at every terminal, and a message does
/// not say which it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Destination(pub u32);

/// Most destinations in a report or a summary.
pub const MAX_DESTINATIONS: usize = 4;

/// The least round-trip time that was seen to each destination, µs, of those that carry most; seen are a destination, a round-trip time and
/// what goes there, bit/s.
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
    // Stable: of those that carry as much the lower one comes first, at each terminal the same.
    busiest.sort_by(|a, b| b.1.1.total_cmp(&a.1.1));
    busiest.into_iter().take(MAX_DESTINATIONS).map(|(to, (us, _))| (to, us)).collect()
}

/// What a member tells its leader twice a second while it sends.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// What its flows deliver, payload bits per second.
    pub rate_bps: u64,
    /// What it could deliver if it were alone on the air, payload bits per second; 0: it does not know.
    pub alone_bps: u64,
    /// Flows that send.
    pub flows: u16,
    /// Whether it would send more if its windows let it: neither its applications nor its buffers hold it back.
    pub elastic: bool,
    /// How far its round-trip time is above the least, µs.
    pub queue_us: u32,
    /// Largest smoothed round-trip time of its flows, µs.
    pub srtt_us: u32,
    /// Segments lost of a thousand delivered.
    pub lost_permille: u16,
    /// Its destinations with the least round-trip time it has seen to each, µs; those that carry most.
    pub destinations: Vec<(Destination, u32)>,
}

/// How far the group is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// What the group carries still grows: nobody is bounded from above.
    #[default]
    StartUp,
    /// Each keeps to its share.
    Hold,
    /// Each takes a little more for a round trip.
    Probe,
    /// Others, who do not take part, fill queues: each takes windows that carry its share behind them.
    Contend,
    /// Nobody is bounded: what leaders of older versions say where sharing does not help.
    Off,
}

impl Phase {
    /// The word for it on screens and in tables: the same as in JSON.
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

/// What the leader tells all members once or twice a second.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Summary {
    /// Members, silent ones included.
    pub members: u16,
    /// Members that send.
    pub senders: u16,
    /// How far the group is.
    pub phase: Phase,
    /// What the group carries at its best, payload bits per second.
    pub capacity_bps: u64,
    /// The share of one member: of the air, in millionths of what it would deliver alone.
    pub air_share_ppm: u32,
    /// The share of a member that does not know what it would deliver alone, payload bits per second.
    pub share_bps: u64,
    /// Not 0: the wire behind the access point is what limits, and this is what it carries, payload bits per second: nobody would get more alone.
    pub alone_max_bps: u64,
    /// How much queue above the least round-trip time a window may hold, µs.
    pub queue_us: u32,
    /// Segments are lost while the air is not full: windows are to leave spread over the round trip.
    pub paced: bool,
    /// Largest smoothed round-trip time in the group, µs.
    pub srtt_us: u32,
    /// The least round-trip time that any member has seen to each destination, µs.
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

    /// As a member of this weight takes it: to its policy it is one of a group that is so much smaller.
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

    /// The group's least round-trip time to a destination, µs.
    pub fn base_rtt_us(&self, destination: Destination) -> Option<u32> {
        self.destinations.iter().find(|(d, _)| *d == destination).map(|(_, us)| *us)
    }
}
