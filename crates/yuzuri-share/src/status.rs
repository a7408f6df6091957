//! The status of a sharing daemon: the JSON document of `yuzuri share status --json`. New versions
//! add fields but do not change existing ones.

use crate::benefit::Benefit;
use crate::discover::GroupFrom;
use crate::flows::{Flows, IdleFlow};
use crate::link::Link;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use yuzuri_kernel::steer::FlowState;
use yuzuri_policy::{
    Bound, Counts, Decision, FlowSeen, Kind, MemberSeen, Moment, Objective, PolicyConfig, PolicyName,
    Refusal, Rule, Summary,
};
use yuzuri_trace::FlowId;

/// The present status of a sharing daemon.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Yuzuri's version.
    pub version: String,
    /// The process ID.
    pub pid: u32,
    /// Seconds since the start, including suspend.
    pub uptime_s: f64,
    /// Whether flows are bounded.
    pub steers: bool,
    /// Why flows are not bounded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_not: Option<String>,
    /// Name of the congestion control.
    pub control: String,
    /// Why new flows are migrated only at the next tick; absent: they start under the congestion
    /// control.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_flows_wait: Option<String>,
    /// The policy that computes the bounds.
    pub policy: PolicyStatus,
    /// Whether members authenticate with a key.
    pub keyed: bool,
    /// Conditions that work but should be fixed, such as a key file that other users can read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The result of the last reload; absent: there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reload: Option<ReloadStatus>,
    /// The interfaces that take part.
    pub interfaces: Vec<InterfaceStatus>,
    /// Flows with a local address of another interface.
    pub flows_elsewhere: u32,
    /// Ticks processed (one every 500 ms).
    pub ticks: u64,
    /// Ticks that were at least 500 ms late (suspend, load).
    pub late_ticks: u64,
    /// Calls that the kernel failed.
    pub kernel_refusals: u64,
    /// Flows that should be bounded but are plain CUBIC because the kernel's table of bounds is
    /// full. They are the flows with the lowest rates.
    #[serde(default)]
    pub bounds_refused: u64,
    /// Conditions that will resolve without action, such as a missing gateway link address.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<String>,
    /// Unresolved problems, such as an interface that cannot be opened or an unknown group.
    pub problems: Vec<String>,
}

/// Reloads of the settings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReloadStatus {
    /// Number of reloads.
    pub count: u64,
    /// Why the last reload failed; absent: it succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The active policy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct PolicyStatus {
    /// Its name.
    pub name: PolicyName,
    /// Its objective.
    pub objective: Objective,
    /// The configured path capacity, bit/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_bps: Option<u64>,
}

impl From<PolicyConfig> for PolicyStatus {
    fn from(config: PolicyConfig) -> PolicyStatus {
        let PolicyConfig { name, objective, capacity_bps } = config;
        PolicyStatus { name, objective, capacity_bps }
    }
}

/// An interface and its group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InterfaceStatus {
    /// The interface name.
    pub name: String,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// Its group, 16 hexadecimal digits; absent: not known yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The source of the group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_from: Option<GroupFrom>,
    /// The rendezvous relay, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rendezvous: Option<SocketAddr>,
    /// This terminal's node ID in the group, 16 hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The leader, as far as this terminal knows it and needs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader: Option<String>,
    /// Whether this terminal is the leader.
    pub leads: bool,
    /// The members heard within the last minute, this terminal first.
    pub members: Vec<MemberStatus>,
    /// The leader's last summary; absent: none was received recently.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<SummaryStatus>,
    /// This terminal's figures before sharing began, and since; absent: sharing has not begun, or
    /// too little was sent before or since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub benefit: Option<Benefit>,
    /// This terminal's delivery rate, bit/s.
    pub rate_bps: u64,
    /// The rate that this terminal would reach alone on the channel, bit/s; 0: unknown.
    pub alone_bps: u64,
    /// The largest flows by rate; all flows if requested.
    pub flows: Vec<FlowStatus>,
    /// The number of flows.
    #[serde(default)]
    pub flow_counts: FlowCounts,
    /// Message counters since the group was joined.
    pub messages: MessageCounts,
    /// Datagrams that could not be sent.
    pub send_errors: u64,
    /// The last send error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_send_error: Option<String>,
    /// This terminal's member number and the group key generation; absent: the group has no
    /// authority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub membership: Option<MembershipStatus>,
}

/// A member whose key was issued by an authority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MembershipStatus {
    /// Its number, assigned by the authority.
    pub number: u32,
    /// The generation of the group key; it increases whenever a member is excluded.
    pub generation: u32,
}

/// A group member.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MemberStatus {
    /// Its node ID, 16 hexadecimal digits.
    pub node: String,
    /// Its own name, which proves nothing; absent: it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The source address of its last message; absent: this terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<SocketAddr>,
    /// Whether it has flows that send.
    pub sends: bool,
    /// Whether it is the leader.
    pub leads: bool,
    /// Whether it is the access point, which leads without sending.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub access_point: bool,
    /// Whether it has answered a challenge, which proves that its messages are not replayed.
    /// Members are challenged only if the result matters.
    pub proved: bool,
    /// Whether it sends with the second, accepted key instead of this terminal's key.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub other_key: bool,
    /// Seconds since its last message.
    pub age_s: f64,
}

impl From<MemberSeen> for MemberStatus {
    fn from(seen: MemberSeen) -> MemberStatus {
        MemberStatus {
            node: seen.node.to_string(),
            name: seen.name.map(|name| name.to_string()),
            address: seen.address,
            sends: seen.sends,
            leads: seen.leads,
            access_point: seen.access_point,
            proved: seen.proved,
            other_key: seen.other_key,
            age_s: seen.age.as_secs_f64(),
        }
    }
}

/// The leader's summary.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SummaryStatus {
    /// The phase of the group.
    pub phase: yuzuri_policy::Phase,
    /// All members, including those without flows that send.
    pub members: u16,
    /// Members that send.
    pub senders: u16,
    /// The estimated capacity of the group, bit/s.
    pub capacity_bps: u64,
    /// The share of a member that does not know its radio's rate, bit/s.
    pub share_bps: u64,
    /// The share of airtime, in millionths of the rate that a member would reach alone.
    pub air_share_ppm: u32,
    /// If not 0: the wired path behind the access point is the bottleneck, with this capacity,
    /// bit/s.
    pub wire_bps: u64,
    /// Queueing delay that a window may add, µs.
    pub queue_us: u32,
    /// Largest smoothed round-trip time in the group, µs.
    pub srtt_us: u32,
    /// Whether to pace windows over the round-trip time.
    pub paced: bool,
}

impl From<&Summary> for SummaryStatus {
    fn from(summary: &Summary) -> SummaryStatus {
        SummaryStatus {
            phase: summary.phase,
            members: summary.members,
            senders: summary.senders,
            capacity_bps: summary.capacity_bps,
            share_bps: summary.share_bps,
            air_share_ppm: summary.air_share_ppm,
            wire_bps: summary.alone_max_bps,
            queue_us: summary.queue_us,
            srtt_us: summary.srtt_us,
            paced: summary.paced,
        }
    }
}

/// A flow, its bounds and the rule that set them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FlowStatus {
    /// The socket cookie.
    pub id: u64,
    /// The local address and port.
    pub local: SocketAddr,
    /// The remote address and port.
    pub remote: SocketAddr,
    /// Payload acknowledged within the last 500 ms, bit/s.
    pub rate_bps: u64,
    /// Congestion window, segments.
    pub cwnd: u32,
    /// Smoothed round-trip time, µs.
    pub srtt_us: u32,
    /// Minimum round-trip time, µs.
    pub min_rtt_us: u32,
    /// Segments retransmitted since the start of the connection.
    pub retransmitted: u64,
    /// Its congestion control.
    pub control: String,
    /// Whether the bounds apply to it.
    pub obeys: bool,
    /// Who chose its congestion control, as text.
    pub control_state: String,
    /// Its bounds.
    pub bound: Bound,
    /// The rule that set the bounds.
    pub rule: Rule,
    /// Whether it is exempt from window reductions.
    pub no_decrease: bool,
    /// Segments that may be sent back to back if the window is paced over the round trip; 0: not
    /// paced.
    pub burst: u32,
}

/// The number of flows of an interface.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowCounts {
    /// All flows.
    pub all: u32,
    /// Of these, flows that wrote nothing and had nothing in flight for 5 s.
    pub idle: u32,
    /// Of all flows, those that the list omits.
    pub left_out: u32,
    /// Flows with bounds, by the rule that set them; rules without flows are omitted.
    pub rules: BTreeMap<String, u32>,
}

/// Message counters of a group.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MessageCounts {
    /// Datagrams received from others.
    pub received: u64,
    /// Messages accepted, by kind.
    pub accepted: BTreeMap<String, u64>,
    /// Messages refused, by reason; reasons that never occurred are omitted.
    pub refused: BTreeMap<String, u64>,
    /// Messages sent, by kind.
    pub sent: BTreeMap<String, u64>,
    /// Bytes sent, excluding UDP and IP headers.
    pub sent_bytes: u64,
    /// Messages accepted under the second key.
    #[serde(default)]
    pub by_other_key: u64,
    /// How often this terminal became leader.
    pub led: u64,
}

impl From<&Counts> for MessageCounts {
    fn from(counts: &Counts) -> MessageCounts {
        let kinds = |of: &dyn Fn(Kind) -> u64| Kind::ALL.iter().map(|k| (k.name().into(), of(*k))).collect();
        let refused = Refusal::ALL.iter().map(|why| (why.name().to_owned(), counts.refused(*why)));
        MessageCounts {
            received: counts.received,
            accepted: kinds(&|kind| counts.accepted(kind)),
            refused: refused.filter(|(_, count)| *count > 0).collect(),
            sent: kinds(&|kind| counts.sent(kind)),
            sent_bytes: counts.sent_bytes,
            by_other_key: counts.by_other_key,
            led: counts.led,
        }
    }
}

impl InterfaceStatus {
    /// Builds the status. `max_rows` limits the flows listed. `without_room`: flows whose bounds do
    /// not fit into the kernel's table.
    pub(crate) fn of(
        link: &Link,
        now: Moment,
        known: &Flows,
        max_rows: Option<usize>,
        without_room: &HashSet<FlowId>,
    ) -> InterfaceStatus {
        let member = link.member.as_ref();
        let members = member.iter().flat_map(|member| member.members(now)).map(MemberStatus::from);
        let (flows, flow_counts) = flows(link, known, max_rows, without_room);
        let leader = member.and_then(|member| member.leader());
        InterfaceStatus {
            name: link.interface.name.clone(),
            addresses: link.interface.addresses.clone(),
            group: member.map(|member| member.group().to_string()),
            group_from: link.group_from,
            rendezvous: link.config.rendezvous,
            node: member.map(|member| member.node().to_string()),
            leader: leader.map(|node| node.to_string()),
            leads: member.is_some_and(|member| member.is_leader(now)),
            members: members.collect(),
            summary: member.and_then(|member| member.summary(now)).map(SummaryStatus::from),
            benefit: link.ledger.benefit(),
            rate_bps: link.terminal.report().map_or(0, |report| report.rate_bps),
            alone_bps: link.radio.alone_bps,
            flows,
            flow_counts,
            messages: member.map(|member| member.counts().into()).unwrap_or_default(),
            send_errors: link.sockets.send_errors.count,
            last_send_error: link.sockets.send_errors.last.clone(),
            membership: member.and_then(|member| member.keys().key.as_ref()?.membership()).map(
                |membership| MembershipStatus {
                    number: membership.number,
                    generation: membership.generation,
                },
            ),
        }
    }
}

/// The rows and the number of an interface's flows.
fn flows(
    link: &Link,
    known: &Flows,
    max_rows: Option<usize>,
    without_room: &HashSet<FlowId>,
) -> (Vec<FlowStatus>, FlowCounts) {
    let max_rows = max_rows.unwrap_or(usize::MAX);
    let idle = known.idle_at(|address| link.has(address));
    let mut counts = FlowCounts { idle: idle.all, ..FlowCounts::default() };
    let mut by_rule = [0; Rule::ALL.len()];
    let mut count = |rule: Rule, flows: u32| {
        if let Some(at) = Rule::ALL.iter().position(|known| *known == rule) {
            by_rule[at] += flows;
        }
    };
    let all = link.seen.iter().zip(&link.states).zip(&link.decisions);
    let mut largest: Vec<((&FlowSeen, &FlowState), &Decision)> = all.collect();
    for ((_, state), decision) in &largest {
        if state.control_state.is_ours() && !without_room.contains(&state.id) {
            count(decision.why, 1);
        }
    }
    let rule = link.terminal.policy.of_resting();
    count(rule, idle.ours);
    counts.all = (largest.len() as u32).saturating_add(idle.all);
    // Of flows with equal rates the older one comes first, so that rows keep their positions.
    let order = |row: &((&FlowSeen, &FlowState), &Decision)| {
        let ((seen, _), _) = row;
        (std::cmp::Reverse(known.rate_bps(seen.id) as u64), seen.id)
    };
    if largest.len() > max_rows {
        largest.select_nth_unstable_by_key(max_rows, order);
        largest.truncate(max_rows);
    }
    largest.sort_unstable_by_key(order);
    let row = |((seen, state), decision): ((&FlowSeen, &FlowState), &Decision)| FlowStatus {
        rate_bps: known.rate_bps(seen.id) as u64,
        retransmitted: seen.retransmitted,
        ..FlowStatus::of(state, decision, !without_room.contains(&state.id))
    };
    let mut rows: Vec<FlowStatus> = largest.into_iter().map(row).collect();
    let free = max_rows - rows.len();
    if idle.all > 0 {
        let of_link = known.idle_flows().filter(|idle| link.has(idle.state.local.ip()));
        rows.extend(of_link.take(free).map(|idle| {
            let IdleFlow { state, .. } = idle;
            let decision =
                Decision { flow: state.id.0, bound: Bound::NONE, no_decrease: false, burst: 0, why: rule };
            FlowStatus { retransmitted: idle.retransmitted(), ..FlowStatus::of(state, &decision, true) }
        }));
    }
    counts.left_out = counts.all.saturating_sub(rows.len() as u32);
    let rules = Rule::ALL.iter().zip(by_rule).filter(|(_, flows)| *flows > 0);
    counts.rules = rules.map(|(rule, flows)| (rule.name().to_owned(), flows)).collect();
    (rows, counts)
}

impl FlowStatus {
    /// Builds a row without rate and retransmissions, which need earlier walks. `has_room`: the
    /// bound fits into the kernel's table.
    fn of(state: &FlowState, decision: &Decision, has_room: bool) -> FlowStatus {
        let obeys = state.control_state.is_ours();
        let bounded = obeys && has_room;
        FlowStatus {
            id: state.id.0,
            local: state.local,
            remote: state.remote,
            rate_bps: 0,
            cwnd: state.cwnd,
            srtt_us: state.srtt_us,
            min_rtt_us: state.min_rtt_us,
            retransmitted: 0,
            control: state.control.to_string(),
            obeys,
            control_state: state.control_state.to_string(),
            bound: if bounded { decision.bound } else { Bound::NONE },
            rule: if bounded { decision.why } else { Rule::None },
            no_decrease: bounded && decision.no_decrease,
            burst: if bounded { decision.burst } else { 0 },
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use yuzuri_policy::Phase;

    #[test]
    fn names_in_json_equal_names_on_screen() {
        for phase in [Phase::StartUp, Phase::Hold, Phase::Probe, Phase::Contend, Phase::Off] {
            assert_eq!(serde_json::to_value(phase).unwrap(), phase.name());
        }
        for rule in Rule::ALL {
            assert_eq!(serde_json::to_value(rule).unwrap(), rule.name());
        }
        let bound = Bound { lower: 4, upper: 40 };
        assert_eq!(serde_json::to_string(&bound).unwrap(), r#"{"lower":4,"upper":40}"#);
    }
}
