//! The access point in an experiment: what forwards packets, and whether it shares on behalf of
//! terminals without Yuzuri.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use yuzuri_policy::{Objective, PolicyConfig, PolicyName, SlowRadio};

/// What forwards packets between cell and wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ApForwarding {
    /// The laboratory's driver, as hardware does; cheaper, and no program at the access point sees
    /// the packets.
    #[default]
    Driver,
    /// The kernel of the access point's host.
    Host,
}

impl ApForwarding {
    pub(crate) fn is_usual(&self) -> bool {
        *self == ApForwarding::default()
    }
}

/// `[gate]`: the access point shares on behalf of terminals without Yuzuri (`yuzuri ap`).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GateSpec {
    /// The objective; default: `balanced`.
    pub objective: Objective,
    /// When it begins to bound, seconds; before that, it only measures. 0: before the flows start.
    pub starts_s: f64,
    /// The radios on which ACKs that a later one makes redundant are dropped: g, n. Default: none.
    pub thin_acks: Vec<SlowRadio>,
    /// Whether traffic without a TCP window (UDP, QUIC, tunnels) stays unlimited; default: it is
    /// limited to a share.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_police: bool,
    /// Weights of terminals by the name of their kind; default: 1.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub weight: BTreeMap<String, f64>,
    /// Maximum rate of all uploads of a terminal, Mbit/s, by the name of its kind; default: no
    /// limit.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub max_mbps: BTreeMap<String, f64>,
}

/// A shaping queueing discipline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Qdisc {
    /// CAKE, with its own shaper and fairness between hosts (`triple-isolate`).
    Cake,
    /// FQ-CoDel behind the token bucket of HTB.
    FqCodel,
}

/// `[shaper]`: a queueing discipline at the access point's device towards the wire, at a configured
/// rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShaperSpec {
    /// The queueing discipline.
    pub qdisc: Qdisc,
    /// Its rate, Mbit/s, with the headers of Ethernet.
    pub rate_mbps: f64,
}

impl GateSpec {
    /// The policy settings for the daemon.
    pub fn policy_config(&self) -> PolicyConfig {
        PolicyConfig { name: PolicyName::Yuzuri, objective: self.objective, capacity_bps: None }
    }
}
