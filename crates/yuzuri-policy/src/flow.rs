//! What is seen of a terminal's own flows, and what is decided for them.

use crate::Destination;
use serde::{Deserialize, Serialize};
use std::fmt;

/// One flow of this terminal, as it stands now. Counters run from the flow's beginning; names are `struct tcp_sock`'s.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct FlowSeen {
    /// The socket's cookie.
    pub id: u64,
    /// Where it goes.
    pub destination: Destination,
    /// Payload of a full segment, bytes (`mss_cache`).
    pub mss_bytes: u32,
    /// Window, segments.
    pub cwnd: u32,
    /// Segments in flight.
    pub in_flight: u32,
    /// Smoothed round-trip time, µs; 0 before the first sample.
    pub srtt_us: u32,
    /// Least round-trip time of this flow, µs; 0 before the first sample.
    pub min_rtt_us: u32,
    /// Segments delivered (`delivered`).
    pub delivered: u64,
    /// Payload acknowledged, bytes.
    pub bytes_acked: u64,
    /// Segments marked lost, all the time (kernel: `total_retrans` stands in where `lost` is not counted).
    pub lost: u64,
    /// Segments sent again (`total_retrans`).
    pub retransmitted: u64,
    /// The application, not the window, holds it back.
    pub app_limited: bool,
    /// Payload that the send buffer and the receive window admit, bytes; 0: unknown.
    pub window_bytes: u64,
}

/// Bounds of one flow's window, segments; 0 is none. The semantics are the kernel control's (`docs/control.md`): growth stops at the
/// upper one and a window above it shrinks by what is acknowledged; the lower one is approached by growth per ACK, in Open state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Bound {
    /// Least window.
    pub lower: u32,
    /// Largest window.
    pub upper: u32,
}

impl Bound {
    /// No bound.
    pub const NONE: Bound = Bound { lower: 0, upper: 0 };
}

/// What was decided for a flow, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// The socket's cookie.
    pub flow: u64,
    /// Its bounds.
    pub bound: Bound,
    /// Reductions are switched off (the mode of the kernel monitor's paper).
    pub no_decrease: bool,
    /// Not 0: segments leave at the pacing rate (`sk_pacing_rate`), so many at once.
    pub burst: u32,
    /// Which rule set them.
    pub why: Rule,
}

/// Which rule set a bound: shown to people beside the bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// Nothing bounds it: the policy is `off`, or has nothing to say of this flow.
    None,
    /// By the number of terminals: a part of the bandwidth-delay product.
    Count,
    /// By the table of round-trip times.
    RttTable,
    /// By the round-trip time from which nothing is cut.
    Steady,
    /// The group is finding out what the cell carries.
    StartUp,
    /// A share of what the group carries.
    Share,
    /// The same, a little more for a round trip, to see whether there is more.
    Probe,
    /// The same behind the queues of others, who do not take part: as much more as its share takes there.
    Contend,
    /// The application sends less than its share.
    AppLimited,
    /// Sharing did not help here: plain congestion control for a while.
    GaveUp,
    /// What the group says does not fit what this terminal carries itself: it keeps the share it had.
    Doubt,
    /// What this terminal carries refutes what the group says: plain congestion control for a while.
    Mistrust,
    /// Not enough is known yet.
    Unknown,
}

impl Rule {
    /// Every rule.
    pub const ALL: [Rule; 13] = [
        Rule::None,
        Rule::Count,
        Rule::RttTable,
        Rule::Steady,
        Rule::StartUp,
        Rule::Share,
        Rule::Probe,
        Rule::Contend,
        Rule::AppLimited,
        Rule::GaveUp,
        Rule::Doubt,
        Rule::Mistrust,
        Rule::Unknown,
    ];

    /// The word for it on screens and in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Rule::None => "none",
            Rule::Count => "count",
            Rule::RttTable => "rtt-table",
            Rule::Steady => "steady",
            Rule::StartUp => "start-up",
            Rule::Share => "share",
            Rule::Probe => "probe",
            Rule::Contend => "contend",
            Rule::AppLimited => "app-limited",
            Rule::GaveUp => "gave-up",
            Rule::Doubt => "doubt",
            Rule::Mistrust => "mistrust",
            Rule::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
