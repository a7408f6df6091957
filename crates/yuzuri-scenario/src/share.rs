//! Sharing in an experiment: which terminals run the sharing library, and with which policy.

use crate::{Scenario, TerminalSpec};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use yuzuri_policy::{Objective, PolicyConfig, PolicyName};

/// `[share]`: how the terminals share.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ShareSpec {
    /// The policy that computes the bounds; default: `yuzuri`.
    pub policy: PolicyName,
    /// The objective of the policy `yuzuri`; default: `balanced`.
    pub objective: Objective,
    /// Path capacity for the policies that divide it by the number of members, Mbit/s; absent: they
    /// set no such bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity_mbps: Option<f64>,
    /// When sharing starts, seconds; before that, flows are plain CUBIC. 0: before the flows start.
    pub starts_s: f64,
    /// What enforces the bounds; default: `control`.
    #[serde(skip_serializing_if = "BoundBy::is_usual")]
    pub by: BoundBy,
}

/// What enforces the bounds of a terminal's flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BoundBy {
    /// The congestion control in the kernel.
    #[default]
    Control,
    /// The sending program, without privilege (`yuzuri send --share`).
    Program,
}

impl BoundBy {
    fn is_usual(&self) -> bool {
        *self == BoundBy::default()
    }
}

impl ShareSpec {
    /// The policy settings for the daemon.
    pub fn policy_config(&self) -> PolicyConfig {
        let capacity_bps = self.capacity_mbps.map(|rate| (rate * 1e6).round() as u64);
        PolicyConfig { name: self.policy, objective: self.objective, capacity_bps }
    }
}

/// The settings of a kind of terminal that differ from `[share]`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ShareChange {
    /// The policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyName>,
    /// The objective of the policy `yuzuri`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objective: Option<Objective>,
    /// Path capacity, Mbit/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity_mbps: Option<f64>,
    /// When sharing starts, seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub starts_s: Option<f64>,
    /// What enforces the bounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<BoundBy>,
}

/// Whether and how a kind of terminal shares.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum ShareChoice {
    /// Shares as in `[share]`, or not at all.
    Whether(bool),
    /// Shares, with these fields instead of those in `[share]`.
    With(ShareChange),
}

impl<'de> Deserialize<'de> for ShareChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ShareChoice, D::Error> {
        struct Words;
        impl<'de> Visitor<'de> for Words {
            type Value = ShareChoice;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true, false, or a table with fields of [share]")
            }

            fn visit_bool<E: Error>(self, takes_part: bool) -> Result<ShareChoice, E> {
                Ok(ShareChoice::Whether(takes_part))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ShareChoice, A::Error> {
                ShareChange::deserialize(MapAccessDeserializer::new(map)).map(ShareChoice::With)
            }
        }
        deserializer.deserialize_any(Words)
    }
}

impl Scenario {
    /// How a kind of terminal shares; `None`: not at all.
    pub fn share_of(&self, kind: &TerminalSpec) -> Option<ShareSpec> {
        let general = || self.share.clone().unwrap_or_default();
        match &kind.share {
            None => self.share.clone(),
            Some(ShareChoice::Whether(takes_part)) => takes_part.then(general),
            Some(ShareChoice::With(change)) => {
                let general = general();
                Some(ShareSpec {
                    policy: change.policy.unwrap_or(general.policy),
                    objective: change.objective.unwrap_or(general.objective),
                    capacity_mbps: change.capacity_mbps.or(general.capacity_mbps),
                    starts_s: change.starts_s.unwrap_or(general.starts_s),
                    by: change.by.unwrap_or(general.by),
                })
            }
        }
    }
}
