//! An interface that takes part: its sockets, its group, and the policy for its flows.

use crate::ShareError;
use crate::batch::Batch;
use crate::benefit::{Ledger, Point};
use crate::clock;
use crate::config::{InterfaceConfig, ShareConfig};
use crate::discover::{GroupFrom, Interface};
use crate::flows::Flows;
use crate::sockets::Sockets;
use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use yuzuri_kernel::steer::FlowState;
use yuzuri_policy::{
    Bound, Decision, FlowSeen, Group, GroupId, Keys, Member, MemberConfig, Moment, NodeId, Outgoing,
    PolicyConfig, RadioHint, Randomness, Terminal, TerminalName,
};
use yuzuri_trace::FlowId;

/// The context of a group member other than its group.
#[derive(Clone)]
pub(crate) struct Identity {
    pub(crate) node: NodeId,
    pub(crate) rank: u8,
    pub(crate) name: Option<TerminalName>,
    pub(crate) port: u16,
}

pub(crate) struct Link {
    pub(crate) interface: Interface,
    pub(crate) config: InterfaceConfig,
    pub(crate) group_from: Option<GroupFrom>,
    pub(crate) sockets: Sockets,
    /// `None` until the group is known.
    pub(crate) member: Option<Member>,
    pub(crate) terminal: Terminal,
    pub(crate) radio: RadioHint,
    pub(crate) seen: Vec<FlowSeen>,
    pub(crate) states: Vec<FlowState>,
    pub(crate) decisions: Vec<Decision>,
    /// Its flows' figures before sharing began, and since.
    pub(crate) ledger: Ledger,
    /// The keys last given to the member.
    keys: Option<Keys>,
}

impl Link {
    /// Opens the sockets of an interface.
    pub(crate) fn open(
        interface: Interface,
        config: InterfaceConfig,
        policy: PolicyConfig,
        port: u16,
    ) -> Result<Link, ShareError> {
        let sockets = Sockets::open(&interface.name, interface.index, port)?;
        Ok(Link {
            interface,
            config,
            group_from: None,
            sockets,
            member: None,
            terminal: Terminal::new(policy),
            radio: RadioHint::default(),
            seen: Vec::new(),
            states: Vec::new(),
            decisions: Vec::new(),
            ledger: Ledger::default(),
            keys: None,
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
                // Loading the secrets has already checked whether the key may be missing.
                config.allow_keyless = config.key.is_none();
                (config.rank, config.name) = (identity.rank, identity.name);
                config.rendezvous = self.config.rendezvous;
                self.member = Some(Member::new(config, now)?);
            }
        }
        self.terminal.forget_group();
        // Another network: the earlier figures are not comparable.
        self.ledger = Ledger::default();
        Ok(true)
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

    /// One tick: reports this terminal's flows, aggregates all reports if it leads, and computes
    /// the bounds.
    pub(crate) fn tick(&mut self, now: Moment) {
        let group = self.member.as_mut().map(|member| member as &mut dyn Group);
        self.terminal.tick(now, &self.seen, self.radio, group, &mut self.decisions);
    }

    /// Records the flows' deliveries, and which of them have a bound from this tick on.
    pub(crate) fn note(
        &mut self,
        elapsed: Duration,
        known: &Flows,
        steers: bool,
        without_room: &HashSet<FlowId>,
    ) {
        let points = self.states.iter().zip(&self.decisions).map(|(state, decision)| Point {
            rate_bps: known.rate_bps(state.id.0),
            srtt_us: state.srtt_us,
            bounded: steers
                && decision.bound != Bound::NONE
                && state.control_state.is_ours()
                && !without_room.contains(&state.id),
        });
        self.ledger.add(elapsed, points);
    }

    /// Sends the messages that are due.
    pub(crate) fn send(&mut self, now: Moment, out: &mut Vec<Outgoing>) {
        let Some(member) = &mut self.member else { return };
        let by_v6 = self.interface.has_link_local_v6();
        self.sockets.send_due([member], now, by_v6, out);
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
