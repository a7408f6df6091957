//! What a sharing tells of itself. The JSON document of `yuzuri share status --json`; fields are added, not changed.

use crate::discover::GroupFrom;
use crate::flows::{Flows, Resting};
use crate::link::Link;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use yuzuri_kernel::steer::FlowState;
use yuzuri_policy::{
    Bound, Counts, Decision, FlowSeen, Kind, Moment, Objective, PolicyConfig, PolicyName, Refusal, Rule,
    Summary,
};
use yuzuri_trace::FlowId;

/// A sharing as it is now.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Yuzuri's version.
    pub version: String,
    /// The process.
    pub pid: u32,
    /// Since the start, seconds; suspension counts.
    pub uptime_s: f64,
    /// Whether flows are bounded.
    pub steers: bool,
    /// Why they are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_not: Option<String>,
    /// Name of the congestion control.
    pub control: String,
    /// Why new flows come under the control only at the next half second; absent: they come at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_flows_wait: Option<String>,
    /// Which rules bound the windows.
    pub policy: PolicyStatus,
    /// Whether members prove themselves with a key.
    pub keyed: bool,
    /// What works, but should not stay as it is: a key file that others read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// How the last reload went; absent: there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reload: Option<ReloadStatus>,
    /// The interfaces that take part.
    pub interfaces: Vec<InterfaceStatus>,
    /// Flows of other interfaces' addresses.
    pub flows_elsewhere: u32,
    /// Half seconds that were worked through.
    pub ticks: u64,
    /// Those that came more than half a second late (suspension, load).
    pub late_ticks: u64,
    /// Calls that the kernel refused.
    pub kernel_refusals: u64,
    /// Flows that are to be bounded and are plain CUBIC, because the kernel's table of bounds is full; those
    /// that send least.
    #[serde(default)]
    pub bounds_refused: u64,
    /// What went wrong lately and is not over: an interface that cannot be opened, an unknown group.
    pub problems: Vec<String>,
}

/// Other settings that were read while it ran.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReloadStatus {
    /// How often.
    pub count: u64,
    /// Why those of the last time were not taken over; absent: they were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The policy in force.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct PolicyStatus {
    /// Its name.
    pub name: PolicyName,
    /// What it aims at.
    pub objective: Objective,
    /// What it is told that the path carries, bit/s.
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
    /// Its name.
    pub name: String,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// Its group, 16 hexadecimal digits; absent: not known yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// What the group was told from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_from: Option<GroupFrom>,
    /// The relay, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rendezvous: Option<SocketAddr>,
    /// This terminal in the group, 16 hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Who leads, as far as this terminal knows and needs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader: Option<String>,
    /// Whether this terminal leads.
    pub leads: bool,
    /// The members heard in the last minute, this terminal first.
    pub members: Vec<MemberStatus>,
    /// What the leader said last; absent: nothing, lately.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<SummaryStatus>,
    /// What this terminal delivers, bit/s.
    pub rate_bps: u64,
    /// What it could deliver alone on the air, bit/s; 0: not known.
    pub alone_bps: u64,
    /// Its flows: those that carry most, the largest first; all, where all are asked for.
    pub flows: Vec<FlowStatus>,
    /// How many flows it has.
    #[serde(default)]
    pub flow_counts: FlowCounts,
    /// Messages since the group was joined.
    pub messages: MessageCounts,
    /// Datagrams that could not be sent.
    pub send_errors: u64,
    /// The last of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_send_error: Option<String>,
    /// Which member of an authority's group this terminal is, and the generation of the group's key; absent: there is no authority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub membership: Option<MembershipStatus>,
}

/// A terminal whose key an authority gave out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MembershipStatus {
    /// Its number at the authority.
    pub number: u32,
    /// The generation of the group's key: it grows when somebody is shut out.
    pub generation: u32,
}

/// A member.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MemberStatus {
    /// Who, 16 hexadecimal digits.
    pub node: String,
    /// Where it was last heard from; absent: it is this terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<SocketAddr>,
    /// It has flows that send.
    pub sends: bool,
    /// It leads.
    pub leads: bool,
    /// It has proved that it is no recording; asked for only where it matters.
    pub proved: bool,
    /// It sends with the key that is accepted besides the one in use here.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub other_key: bool,
    /// Since it was last heard, seconds.
    pub age_s: f64,
}

/// What the leader said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SummaryStatus {
    /// How far the group is.
    pub phase: yuzuri_policy::Phase,
    /// Members, silent ones included.
    pub members: u16,
    /// Members that send.
    pub senders: u16,
    /// What the group is thought to carry, bit/s.
    pub capacity_bps: u64,
    /// The share of a member that does not know its radio, bit/s.
    pub share_bps: u64,
    /// The share of the air, millionths of what a member would deliver alone.
    pub air_share_ppm: u32,
    /// Not 0: the wire behind the access point limits, at this many bit/s.
    pub wire_bps: u64,
    /// Queue that a window may hold, µs.
    pub queue_us: u32,
    /// Largest smoothed round-trip time in the group, µs.
    pub srtt_us: u32,
    /// Windows are to be spread over the round trip.
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

/// A flow, its bounds and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FlowStatus {
    /// The socket's cookie.
    pub id: u64,
    /// This end.
    pub local: SocketAddr,
    /// The far end.
    pub remote: SocketAddr,
    /// Payload acknowledged in the last half second, bit/s.
    pub rate_bps: u64,
    /// Window, segments.
    pub cwnd: u32,
    /// Smoothed round-trip time, µs.
    pub srtt_us: u32,
    /// Least round-trip time, µs.
    pub min_rtt_us: u32,
    /// Segments sent again since it began.
    pub retransmitted: u64,
    /// Its congestion control.
    pub control: String,
    /// Whether it obeys bounds.
    pub obeys: bool,
    /// Whose its control is, in words.
    pub standing: String,
    /// Its bounds.
    pub bound: Bound,
    /// Which rule set them.
    pub rule: Rule,
    /// It is spared reductions.
    pub no_decrease: bool,
    /// Segments that leave at once where the window is spread over the round trip; 0: it is not.
    pub burst: u32,
}

/// How many flows an interface has.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowCounts {
    /// All.
    pub all: u32,
    /// Of these, flows on which nothing was written or under way for five seconds.
    pub resting: u32,
    /// Of all, those that the list of flows leaves out.
    pub left_out: u32,
    /// Flows that obey bounds, by the rule that set them; rules without a flow are left out.
    pub rules: BTreeMap<String, u32>,
}

/// Messages of a group.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MessageCounts {
    /// Datagrams that came from others.
    pub received: u64,
    /// Messages that were believed, by kind.
    pub accepted: BTreeMap<String, u64>,
    /// Messages that were refused, by reason; those that never occurred are left out.
    pub refused: BTreeMap<String, u64>,
    /// Messages that were sent, by kind.
    pub sent: BTreeMap<String, u64>,
    /// Their bytes, without UDP and IP.
    pub sent_bytes: u64,
    /// Messages that were believed under the key that is accepted besides the one in use here.
    #[serde(default)]
    pub by_other_key: u64,
    /// Times this terminal began to lead.
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
    /// `max_rows` bounds the flows that are listed; `without_room` are those whose bounds the kernel's table has no
    /// room for.
    pub(crate) fn of(
        link: &Link,
        now: Moment,
        known: &Flows,
        max_rows: Option<usize>,
        without_room: &HashSet<FlowId>,
    ) -> InterfaceStatus {
        let member = link.member.as_ref();
        let members = member.iter().flat_map(|member| member.members(now)).map(|seen| MemberStatus {
            node: seen.node.to_string(),
            address: seen.address,
            sends: seen.sends,
            leads: seen.leads,
            proved: seen.proved,
            other_key: seen.other_key,
            age_s: seen.age.as_secs_f64(),
        });
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
            rate_bps: link.own_report.as_ref().map_or(0, |report| report.rate_bps),
            alone_bps: link.radio.alone_bps,
            flows,
            flow_counts,
            messages: member.map(|member| member.counts().into()).unwrap_or_default(),
            send_errors: link.send_errors,
            last_send_error: link.last_send_error.clone(),
            membership: member.and_then(|member| member.keys().key.as_ref()?.membership()).map(
                |membership| MembershipStatus {
                    number: membership.number,
                    generation: membership.generation,
                },
            ),
        }
    }
}

/// The rows of an interface's flows, and how many there are.
fn flows(
    link: &Link,
    known: &Flows,
    max_rows: Option<usize>,
    without_room: &HashSet<FlowId>,
) -> (Vec<FlowStatus>, FlowCounts) {
    let max_rows = max_rows.unwrap_or(usize::MAX);
    let resting = known.resting_at(|address| link.has(address));
    let mut counts = FlowCounts { resting: resting.all, ..FlowCounts::default() };
    let mut by_rule = [0; Rule::ALL.len()];
    let mut count = |rule: Rule, flows: u32| {
        if let Some(at) = Rule::ALL.iter().position(|known| *known == rule) {
            by_rule[at] += flows;
        }
    };
    let all = link.seen.iter().zip(&link.states).zip(&link.decisions);
    let mut largest: Vec<((&FlowSeen, &FlowState), &Decision)> = all.collect();
    for ((_, state), decision) in &largest {
        if state.standing.is_ours() && !without_room.contains(&state.id) {
            count(decision.why, 1);
        }
    }
    let rule = link.policy.of_resting();
    count(rule, resting.ours);
    counts.all = (largest.len() as u32).saturating_add(resting.all);
    // Of flows that carry as much, the older one first: rows keep their places.
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
    if resting.all > 0 {
        let of_link = known.resting().filter(|resting| link.has(resting.state.local.ip()));
        rows.extend(of_link.take(free).map(|resting| {
            let Resting { state, .. } = resting;
            let decision =
                Decision { flow: state.id.0, bound: Bound::NONE, no_decrease: false, burst: 0, why: rule };
            FlowStatus { retransmitted: resting.retransmitted(), ..FlowStatus::of(state, &decision, true) }
        }));
    }
    counts.left_out = counts.all.saturating_sub(rows.len() as u32);
    let rules = Rule::ALL.iter().zip(by_rule).filter(|(_, flows)| *flows > 0);
    counts.rules = rules.map(|(rule, flows)| (rule.name().to_owned(), flows)).collect();
    (rows, counts)
}

impl FlowStatus {
    /// Without what only its past tells: rate and retransmissions. `has_room`: the kernel's table of bounds has room
    /// for its bound.
    fn of(state: &FlowState, decision: &Decision, has_room: bool) -> FlowStatus {
        let obeys = state.standing.is_ours();
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
            standing: state.standing.to_string(),
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
    fn words_are_the_same_in_json_and_elsewhere() {
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
