//! Policies by name: they turn a terminal's own flows and the group's summary into bounds.

mod fair_share;
mod published;
mod room;
mod standing;
mod trust;

pub use published::{RttBounds, RttTable};

use crate::own::OwnFlows;
use crate::{Bound, Decision, FlowSeen, Moment, RadioHint, Report, Rule, SendersSeen, Summary, UnknownName};
use fair_share::{FairShare, View};
use published::Published;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The rules for the windows' bounds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PolicyName {
    /// No rules: every flow is plain CUBIC.
    Off,
    /// The bandwidth-delay product over the number of terminals (Shimada 2016, section 3).
    Count,
    /// Count and table of round-trip times as first published (Shimada 2016, "before").
    Hayakawa2015,
    /// Count and the improved table of round-trip times (Shimada 2016).
    Shimada2016,
    /// No reductions on loss from a round-trip time of 64 ms on (Miki 2010).
    Steady,
    /// This project's: shares of the group's observed capacity, by airtime.
    #[default]
    Yuzuri,
}

impl PolicyName {
    /// Every policy.
    pub const ALL: [PolicyName; 6] = [
        PolicyName::Off,
        PolicyName::Count,
        PolicyName::Hayakawa2015,
        PolicyName::Shimada2016,
        PolicyName::Steady,
        PolicyName::Yuzuri,
    ];

    /// The name on the command line and in messages.
    pub fn name(self) -> &'static str {
        match self {
            PolicyName::Off => "off",
            PolicyName::Count => "count",
            PolicyName::Hayakawa2015 => "hayakawa2015",
            PolicyName::Shimada2016 => "shimada2016",
            PolicyName::Steady => "steady",
            PolicyName::Yuzuri => "yuzuri",
        }
    }
}

impl fmt::Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for PolicyName {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<PolicyName, UnknownName> {
        let unknown = || UnknownName::new("policy", text, &PolicyName::ALL.map(PolicyName::name));
        PolicyName::ALL.into_iter().find(|p| p.name() == text).ok_or_else(unknown)
    }
}

/// The objective of `yuzuri`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Objective {
    /// The highest total throughput, with queues of up to 100 ms.
    Throughput,
    /// Equal shares and short queues, for at most a few percent of the total.
    #[default]
    Balanced,
    /// The shortest queues that still carry most of the total.
    Latency,
}

impl Objective {
    /// Every objective.
    pub const ALL: [Objective; 3] = [Objective::Throughput, Objective::Balanced, Objective::Latency];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Objective::Throughput => "throughput",
            Objective::Balanced => "balanced",
            Objective::Latency => "latency",
        }
    }
}

impl FromStr for Objective {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Objective, UnknownName> {
        let unknown = || UnknownName::new("objective", text, &Objective::ALL.map(Objective::name));
        Objective::ALL.into_iter().find(|o| o.name() == text).ok_or_else(unknown)
    }
}

/// The user's choice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PolicyConfig {
    /// The rules.
    pub name: PolicyName,
    /// The objective of `yuzuri`.
    pub objective: Objective,
    /// The path's capacity, bit/s, for the rules by count; without it they set no bounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity_bps: Option<u64>,
}

/// One terminal's running policy.
#[derive(Debug, Clone)]
pub struct Policy {
    config: PolicyConfig,
    own: OwnFlows,
    share: FairShare,
    /// Flows that are left out because they are inactive.
    resting: usize,
}

impl Policy {
    /// Creates the initial state.
    pub fn new(config: PolicyConfig) -> Policy {
        Policy { config, own: OwnFlows::default(), share: FairShare::default(), resting: 0 }
    }

    /// The current choice.
    pub fn config(&self) -> PolicyConfig {
        self.config
    }

    /// Applies another choice. The measurements of the flows are kept, the state of bounds and
    /// trust is not.
    pub fn configure(&mut self, config: PolicyConfig) {
        self.config = config;
        self.share = FairShare::default();
    }

    /// Whether a flow that was inactive for as long as the policy looks back, 4 s, may be left out:
    /// it gets no bounds.
    pub fn may_omit_resting(&self) -> bool {
        matches!(self.config.name, PolicyName::Off | PolicyName::Yuzuri)
    }

    /// The rule shown for a flow that is left out.
    pub fn of_resting(&self) -> Rule {
        if self.config.name == PolicyName::Off { Rule::None } else { Rule::Unknown }
    }

    /// Sets how many flows are left out from now on.
    pub fn rest(&mut self, flows: usize) {
        self.resting = flows;
    }

    /// Called before [`observe`](Policy::observe) for a flow that was left out, with its state at
    /// each of these moments.
    pub fn recall(&mut self, flow: &FlowSeen, moments: impl Iterator<Item = Moment>) {
        self.own.recall(flow, moments);
    }

    /// Processes this terminal's current flows, and returns the report for the leader: none while
    /// nothing is sent.
    pub fn observe(&mut self, now: Moment, flows: &[FlowSeen], radio: RadioHint) -> Option<Report> {
        self.own.observe(now, flows);
        self.own.report(flows, radio)
    }

    /// Decides for each flow of the last [`observe`](Policy::observe), in the same order. Without a
    /// summary nothing is known about others. A leader that claims more senders than have proved
    /// their liveness to this terminal is not followed.
    pub fn decide(
        &mut self,
        now: Moment,
        flows: &[FlowSeen],
        radio: RadioHint,
        summary: Option<&Summary>,
        senders: SendersSeen,
        out: &mut Vec<Decision>,
    ) {
        out.clear();
        let published = Published { config: self.config, summary };
        match self.config.name {
            PolicyName::Off => out.extend(flows.iter().map(|f| unbounded(f.id, Rule::None))),
            PolicyName::Count => out.extend(flows.iter().map(|f| published.count(f))),
            PolicyName::Hayakawa2015 => {
                out.extend(flows.iter().map(|f| published.table(f, RttTable::BEFORE)))
            }
            PolicyName::Shimada2016 => {
                out.extend(flows.iter().map(|f| published.table(f, RttTable::IMPROVED)))
            }
            PolicyName::Steady => out.extend(flows.iter().map(published::steady)),
            PolicyName::Yuzuri => {
                let (own, objective, resting) = (&self.own, self.config.objective, self.resting);
                let view = View { own, objective, radio, summary, senders, resting };
                self.share.decide(now, flows, view, out);
            }
        }
    }

    /// Whether only senders that have not proved their liveness explain the leader's share. The
    /// caller then challenges them
    /// ([`Member::challenge_senders`](crate::Member::challenge_senders)).
    pub fn wants_proof(&self) -> bool {
        self.config.name == PolicyName::Yuzuri && self.share.wants_proof()
    }
}

fn unbounded(flow: u64, why: Rule) -> Decision {
    Decision { flow, bound: Bound::NONE, no_decrease: false, burst: 0, why }
}
