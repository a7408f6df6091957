//! The observed state of a terminal's own flows, and the decisions about them.

use crate::Destination;
use serde::{Deserialize, Serialize};
use std::fmt;

/// One flow of this terminal at this moment. Counters start with the flow; names are
/// `struct tcp_sock`'s.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct FlowSeen {
    /// The socket's cookie.
    pub id: u64,
    /// Its destination.
    pub destination: Destination,
    /// Payload of a full segment, bytes (`mss_cache`).
    pub mss_bytes: u32,
    /// Congestion window, segments.
    pub cwnd: u32,
    /// Segments in flight.
    pub in_flight: u32,
    /// Smoothed round-trip time, µs; 0 before the first sample.
    pub srtt_us: u32,
    /// Minimum RTT of this flow, µs; 0 before the first sample.
    pub min_rtt_us: u32,
    /// Segments delivered (`delivered`).
    pub delivered: u64,
    /// Payload acknowledged, bytes.
    pub bytes_acked: u64,
    /// Segments ever marked lost (`total_retrans` if the kernel does not count `lost`).
    pub lost: u64,
    /// Segments retransmitted (`total_retrans`).
    pub retransmitted: u64,
    /// Whether the application, not the window, limits the flow (`app_limited`).
    pub app_limited: bool,
    /// Payload that the send buffer and the receive window admit, bytes; 0: unknown.
    pub window_bytes: u64,
}

/// Bounds of one flow's window, segments; 0 is none. They work as in the kernel's congestion
/// control (`docs/control.md`): growth stops at the upper bound, and a window above it shrinks by
/// the segments acknowledged; the lower bound is approached by growth per ACK, in the Open state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Bound {
    /// Smallest window.
    pub lower: u32,
    /// Largest window.
    pub upper: u32,
}

impl Bound {
    /// No bound.
    pub const NONE: Bound = Bound { lower: 0, upper: 0 };
}

/// The decision about a flow, and its reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// The socket's cookie.
    pub flow: u64,
    /// Its bounds.
    pub bound: Bound,
    /// Whether reductions are disabled (the mode of the kernel monitor's paper).
    pub no_decrease: bool,
    /// Not 0: segments leave at the pacing rate (`sk_pacing_rate`) in bursts of this size.
    pub burst: u32,
    /// The rule that set the bounds.
    pub why: Rule,
}

/// The rule that set a bound, as shown to users.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// No bound: the policy is `off`, or does not apply to this flow.
    None,
    /// By the number of terminals: a fraction of the bandwidth-delay product.
    Count,
    /// By the table of round-trip times.
    RttTable,
    /// No reductions on loss, because the round-trip time is long.
    Steady,
    /// The group is determining its capacity.
    StartUp,
    /// A share of the group's capacity.
    Share,
    /// The share and a little more for a round trip, to probe for more capacity.
    Probe,
    /// The share behind the queues of senders that do not obey the group's bounds, for example
    /// because they are outside it: the bound is as much larger as the share needs there.
    Contend,
    /// The application sends less than its share.
    AppLimited,
    /// Sharing did not help: plain congestion control for a while.
    GaveUp,
    /// The group's share contradicts this terminal's own rate: it keeps its previous share.
    Doubt,
    /// This terminal's own rate refutes the group's share: plain congestion control for a while.
    Mistrust,
    /// Too little is known so far.
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

    /// Its name on screens and in metrics.
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
