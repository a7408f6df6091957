//! The access point in an experiment: what forwards, and whether it shares for terminals that run nothing.

use serde::{Deserialize, Serialize};
use yuzuri_policy::{Objective, PolicyConfig, PolicyName, SlowRadio};

/// What forwards packets between cell and wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ApForwarding {
    /// The laboratory's driver, as hardware does; cheaper, and no program at the access point sees the packets.
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

/// `[gate]`: the access point shares for terminals that run nothing (`yuzuri ap`).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GateSpec {
    /// The objective; default: `balanced`.
    pub objective: Objective,
    /// When it begins to bound, seconds; before that, it only measures. 0: before the flows start.
    pub starts_s: f64,
    /// On which radios ACKs are left out that later ones make needless: g, n. Default: none.
    pub thin_acks: Vec<SlowRadio>,
}

impl GateSpec {
    /// The policy settings for the daemon.
    pub fn policy_config(&self) -> PolicyConfig {
        PolicyConfig { name: PolicyName::Yuzuri, objective: self.objective, capacity_bps: None }
    }
}
