//! An interface that takes part: its sockets, its group, and the policy for its flows.

use crate::ShareError;
use crate::batch::Batch;
use crate::clock;
use crate::config::{InterfaceConfig, ShareConfig};
use crate::discover::{GroupFrom, Interface};
use crate::sockets::Sockets;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use yuzuri_kernel::steer::FlowState;
use yuzuri_policy::{
    Capacity, Decision, FlowSeen, GroupId, Keys, Member, MemberConfig, Moment, NodeId, Outgoing, Policy,
    PolicyConfig, RadioHint, Randomness, Report, SendersSeen, Summary, To,
};

/// How long the former leader's last summary is a valid starting point for a new leader.
const RESUMED_WITHIN: Duration = Duration::from_secs(15);

/// What a group member needs apart from its group.
#[derive(Clone)]
pub(crate) struct Identity {
    pub(crate) node: NodeId,
    pub(crate) rank: u8,
    pub(crate) port: u16,
}

pub(crate) struct Link {
    pub(crate) interface: Interface,
    pub(crate) config: InterfaceConfig,
    pub(crate) group_from: Option<GroupFrom>,
    pub(crate) sockets: Sockets,
    /// `None` until the group is known.
    pub(crate) member: Option<Member>,
    pub(crate) policy: Policy,
    pub(crate) radio: RadioHint,
    pub(crate) seen: Vec<FlowSeen>,
    pub(crate) states: Vec<FlowState>,
    pub(crate) decisions: Vec<Decision>,
    pub(crate) own_report: Option<Report>,
    pub(crate) send_errors: u64,
    pub(crate) last_send_error: Option<String>,
    /// The keys last given to the member.
    keys: Option<Keys>,
    capacity: Option<Capacity>,
    last_summary: Option<(Moment, Summary)>,
}

impl Link {
    /// Opens the sockets of an interface.
    pub(crate) fn open(
        interface: Interface,
        config: InterfaceConfig,
        policy: PolicyConfig,
        port: u16,
    ) -> Result<Link, String> {
        let sockets = Sockets::open(&interface.name, interface.index, port)?;
        Ok(Link {
            interface,
            config,
            group_from: None,
            sockets,
            member: None,
            policy: Policy::new(policy),
            radio: RadioHint::default(),
            seen: Vec::new(),
            states: Vec::new(),
            decisions: Vec::new(),
            own_report: None,
            send_errors: 0,
            last_send_error: None,
            keys: None,
            capacity: None,
            last_summary: None,
        })
    }

    /// Whether `address` is one of this interface's addresses.
    pub(crate) fn has(&self, address: IpAddr) -> bool {
        self.interface.addresses.contains(&address.to_canonical())
    }

    /// Sets the group. Returns whether it has changed.
    pub(crate) fn set_group(
        &mut self,
        now: Moment,
        group: (GroupId, GroupFrom),
        keys: Keys,
        identity: &Identity,
    ) -> Result<bool, ShareError> {
        self.group_from = Some(group.1);
        let same_keys = self.keys.as_ref() == Some(&keys);
        self.keys = Some(keys.clone());
        match &mut self.member {
            Some(member) if member.group() == group.0 => {
                if !same_keys {
                    member.set_keys(now, keys);
                }
                return Ok(false);
            }
            Some(member) => member.set_group_and_keys(now, group.0, keys),
            None => {
                let epoch = yuzuri_policy::epoch(clock::unix_time(), u32::from_ne_bytes(clock::random()?));
                let random = Randomness::System(clock::draw);
                let mut config = MemberConfig::new(identity.node, group.0, keys.key, epoch, random);
                (config.accepts, config.notices) = (keys.accepts, keys.notices);
                // Whether a key may be missing was decided when the secrets were loaded.
                config.allow_keyless = config.key.is_none();
                config.rank = identity.rank;
                config.rendezvous = self.config.rendezvous;
                self.member = Some(Member::new(config, now)?);
            }
        }
        // The capacity of the new group's channel is unknown.
        (self.capacity, self.last_summary) = (None, None);
        self.policy.choose(self.policy.config());
        Ok(true)
    }

    /// Changes the policy. A leader keeps its capacity estimate if the objective is unchanged.
    pub(crate) fn choose(&mut self, now: Moment, policy: PolicyConfig) {
        let objective = policy.objective;
        if objective != self.policy.config().objective {
            self.capacity = self.begin_capacity(now, objective);
        }
        self.policy.choose(policy);
    }

    fn begin_capacity(&self, now: Moment, objective: yuzuri_policy::Objective) -> Option<Capacity> {
        let last = self.last_summary.as_ref().filter(|(at, _)| now.since(*at) <= RESUMED_WITHIN);
        Some(match last {
            Some((_, summary)) => Capacity::resume(now, summary, objective),
            None => Capacity::new(objective),
        })
    }

    /// Processes the received datagrams. Returns how many were refused.
    pub(crate) fn receive(&mut self, now: Moment, batch: &mut Batch) -> u64 {
        let refused =
            |member: &Option<Member>| member.as_ref().map_or(0, |member| member.counts().refused_total());
        let before = refused(&self.member);
        let addresses = &self.interface.addresses;
        let member = &mut self.member;
        self.sockets.drain(batch, |from, bytes| {
            // A broadcast is also delivered to its sender.
            if let Some(member) = member.as_mut().filter(|_| !addresses.contains(&from.ip())) {
                member.receive(now, from, bytes);
            }
        });
        refused(&self.member) - before
    }

    /// First part of a tick: reports this terminal's flows; the leader aggregates all reports into a
    /// summary.
    pub(crate) fn tick(&mut self, now: Moment) {
        let report = self.policy.observe(now, &self.seen, self.radio);
        self.own_report.clone_from(&report);
        let Some(member) = &mut self.member else { return };
        member.report(now, report);
        if member.is_leader(now) {
            if self.capacity.is_none() {
                self.capacity = self.begin_capacity(now, self.policy.config().objective);
            }
            let Some(member) = &mut self.member else { return };
            let members = member.members(now).count().min(u16::MAX.into()) as u16;
            if let Some(capacity) = &mut self.capacity {
                let reports = member.reports(now).map(|(_, report)| report);
                let summary = capacity.sum(now, members, reports);
                member.summarize(now, summary);
            }
        } else {
            self.capacity = None;
        }
    }

    /// Second part of a tick: computes the bounds.
    pub(crate) fn decide(&mut self, now: Moment) {
        let member = self.member.as_ref();
        let summary = member.and_then(|member| member.summary(now));
        let alone = SendersSeen { proved: 1, unproved: 0 };
        let senders = member.map_or(alone, |member| member.senders(now));
        self.policy.decide(now, &self.seen, self.radio, summary, senders, &mut self.decisions);
        if let Some(summary) = summary {
            self.last_summary = Some((now, summary.clone()));
        }
        if self.policy.wants_proof()
            && let Some(member) = &mut self.member
        {
            member.ask_senders(now);
        }
    }

    /// Sends the messages that are due.
    pub(crate) fn send(&mut self, now: Moment, out: &mut Vec<Outgoing>) {
        let Some(member) = &mut self.member else { return };
        out.clear();
        member.poll(now, out);
        if out.is_empty() {
            return;
        }
        let by_v6 = self.interface.has_link_local_v6();
        // Evaluated lazily: only broadcasts need it.
        let some_by_v4 = || {
            member
                .members(now)
                .any(|m| m.address.is_some_and(|a| matches!(a.ip().to_canonical(), IpAddr::V4(_))))
        };
        for outgoing in out.drain(..) {
            let sent = match outgoing.to {
                To::All => self.sockets.tell_all(&outgoing.bytes, by_v6, some_by_v4()),
                To::One(address) => self.sockets.tell(&outgoing.bytes, address),
            };
            if let Err(error) = sent {
                self.send_errors += 1;
                let to = match outgoing.to {
                    To::All => "everybody".to_owned(),
                    To::One(address) => address.to_string(),
                };
                let advice = match error.raw_os_error() {
                    Some(libc::EPERM) => {
                        ": a rule of the firewall or IPAddressDeny= of the service keeps it in"
                    }
                    _ => "",
                };
                self.last_send_error = Some(format!("to {to}: {error}{advice}"));
            }
        }
    }

    /// Announces the departure to the group.
    pub(crate) fn leave(&mut self, now: Moment, out: &mut Vec<Outgoing>) {
        if let Some(member) = &mut self.member {
            member.leave(now);
            self.send(now, out);
        }
    }

    /// The next time at which [`send`](Link::send) must be called.
    pub(crate) fn next(&self) -> Option<Moment> {
        self.member.as_ref().map(Member::next)
    }
}

/// The settings of an interface, completed by those for all interfaces.
pub(crate) fn with_defaults(config: &InterfaceConfig, all: &ShareConfig) -> InterfaceConfig {
    let rendezvous: Option<SocketAddr> = config.rendezvous.or(all.rendezvous);
    InterfaceConfig { rendezvous, group: config.group.or(all.group), ..config.clone() }
}
