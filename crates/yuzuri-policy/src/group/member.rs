//! A group member: its state, its inputs, and its outgoing messages.

use super::config::*;
use super::counts::Counts;
use super::election::Role;
use super::exclude::NoticesSent;
use super::keys::{KeyRing, Keys};
use super::limiter::Limiter;
use super::peers::Peers;
use super::random::Generator;
use super::senders::SenderChallenges;
use super::session::Challenges;
use super::trickle::{Trickle, up_to};
use crate::message::{Addressed, Body, WEIGHT_PERMILLE};
use crate::{GroupId, Moment, NodeId, Report, Summary, TerminalName};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// An outgoing message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// The destination.
    pub to: To,
    /// The UDP payload.
    pub bytes: Vec<u8>,
}

/// The destination of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum To {
    /// All hosts on the link: IPv4 broadcast, IPv6 link-local multicast.
    All,
    /// One address.
    One(SocketAddr),
}

/// A member as shown in the status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemberSeen {
    /// Its node ID.
    pub node: NodeId,
    /// The source address of its last message; `None`: this terminal.
    pub address: Option<SocketAddr>,
    /// Whether it has flows that send.
    pub sends: bool,
    /// Time since its last message; zero for this terminal.
    pub age: Duration,
    /// Whether it leads, as far as this terminal knows.
    pub leads: bool,
    /// Whether it claims to be the access point.
    pub access_point: bool,
    /// Whether it has answered a challenge of this terminal, which proves that its messages are not
    /// replayed. Members that do not need each other's messages do not challenge each other.
    pub proved: bool,
    /// Whether it sends with this terminal's second accepted key.
    pub other_key: bool,
    /// Its own name.
    pub name: Option<TerminalName>,
}

/// The state of the connection to a rendezvous.
#[derive(Debug)]
pub(super) struct Relayed {
    pub address: SocketAddr,
    pub cookie: Option<[u8; crate::message::COOKIE_BYTES]>,
    pub keep_alive: Moment,
}

/// This terminal's member state. It reads no clock and opens no socket: the caller passes in the
/// time, and sends what [`poll`](Member::poll) returns.
///
/// The caller runs the steps below every 500 ms. In addition it passes in each datagram on arrival,
/// and polls at the time that [`next`](Member::next) returns:
///
/// ```
/// # use yuzuri_policy::{Capacity, GroupId, Key, Member, MemberConfig, Moment, NodeId, Report};
/// # let now = Moment::default();
/// # let mut capacity = Capacity::default();
/// let config = MemberConfig::new(NodeId(7), GroupId::of(b"bssid"), Some(Key::from_bytes([1; 32])), 1, 42);
/// let mut member = Member::new(config, now)?;
/// let mut out = Vec::new();
/// // The report about this terminal's flows; None if nothing is sent.
/// member.report(now, Some(Report { flows: 1, ..Report::default() }));
/// if member.is_leader(now) {
///     let members = member.members(now).count() as u16;
///     let summary = capacity.sum(now, members, member.reports(now).map(|(_, report)| report));
///     member.summarize(now, summary);
/// }
/// member.poll(now, &mut out);
/// let _bounds_follow_from = member.summary(now);
/// # Ok::<(), yuzuri_policy::MemberError>(())
/// ```
#[derive(Debug)]
pub struct Member {
    pub(super) node: NodeId,
    pub(super) group: GroupId,
    pub(super) keys: KeyRing,
    pub(super) epoch: u64,
    pub(super) sequence: u32,
    pub(super) rank: u8,
    pub(super) access_point: bool,
    pub(super) vouched: Option<NodeId>,
    /// This terminal's weight relative to a terminal of weight 1: the access point that sent it,
    /// the weight, and its time.
    pub(super) weight: Option<(NodeId, f64, Moment)>,
    pub(super) station_count: Option<u16>,
    name: Option<TerminalName>,
    /// When to send the name next; `None` while no other member is known.
    name_at: Option<Moment>,
    pub(super) relayed: Option<Relayed>,
    pub(super) random: Generator,
    /// The latest time passed in; it never goes back.
    pub(super) now: Moment,
    pub(super) challenges: Challenges,
    pub(super) peers: Peers,
    pub(super) role: Role,
    /// Since when this terminal has been a sender.
    pub(super) sends_since: Option<Moment>,
    /// The last report and its time.
    pub(super) own: Option<(Moment, Report)>,
    pub(super) trickle: Trickle,
    /// The leader's last summary, or this terminal's own if it leads.
    pub(super) heard_summary: Option<(Moment, Summary)>,
    pub(super) out: VecDeque<Outgoing>,
    pub(super) counts: Counts,
    /// Message budgets of the members that have proved their liveness.
    pub(super) of_members: Limiter<NodeId>,
    /// Message budgets of other sources, per address and in total.
    pub(super) of_addresses: Limiter<IpAddr>,
    pub(super) of_unproved: Limiter<()>,
    pub(super) notices_sent: NoticesSent,
    pub(super) challenged: SenderChallenges,
    pub(super) left: bool,
    prune_at: Moment,
    pub(super) collided: Option<Moment>,
}

const PRUNE_EACH: Duration = Duration::from_secs(10);

impl Member {
    /// Creates a member that knows no other members and does not send.
    ///
    /// # Errors
    /// If there is no key and the settings do not allow that, if the node ID is 0, or for an access
    /// point without a key.
    pub fn new(config: MemberConfig, now: Moment) -> Result<Member, MemberError> {
        if config.key.is_none() && !config.allow_keyless {
            return Err(MemberError::NoKey);
        }
        if config.node.0 == 0 {
            return Err(MemberError::NoNode);
        }
        if config.access_point && config.key.is_none() {
            return Err(MemberError::NoKeyToLead);
        }
        let mut random = Generator::new(config.random, config.node.0, config.epoch);
        let keys = Keys { key: config.key, accepts: config.accepts, notices: config.notices };
        Ok(Member {
            node: keys.bind(config.node),
            group: config.group,
            keys: KeyRing::new(keys, config.group),
            epoch: config.epoch,
            sequence: 0,
            rank: config.rank,
            access_point: config.access_point,
            vouched: None,
            weight: None,
            station_count: config.station_count,
            name: config.name,
            name_at: None,
            relayed: config.rendezvous.map(|address| Relayed { address, cookie: None, keep_alive: now }),
            now,
            challenges: Challenges::new(&mut random, now),
            peers: Peers::new(now),
            role: Role::Idle,
            sends_since: None,
            own: None,
            trickle: Trickle::new(&mut random, now),
            random,
            heard_summary: None,
            out: VecDeque::new(),
            counts: Counts::default(),
            of_members: Limiter::default(),
            of_addresses: Limiter::default(),
            of_unproved: Limiter::default(),
            notices_sent: NoticesSent::default(),
            challenged: SenderChallenges::default(),
            left: false,
            prune_at: now + PRUNE_EACH,
            collided: None,
        })
    }

    /// Takes this terminal's report of the tick; `None`: no flow sends. A few ticks without a
    /// report count as a pause, not as the end of sending. An access point has none: it calls
    /// [`lead`](Member::lead).
    pub fn report(&mut self, now: Moment, report: Option<Report>) {
        let now = self.advance(now);
        match report.filter(|_| !self.access_point) {
            Some(report) => {
                self.left = false;
                self.own = Some((now, report.bounded()));
                if self.sends_since.is_none() {
                    self.sends_since = Some(now);
                    self.seek_first(now);
                } else {
                    self.report_if_due(now);
                }
            }
            None => self.stop_if_silent(now),
        }
    }

    /// The latest time for the next [`poll`](Member::poll).
    pub fn next(&self) -> Moment {
        if !self.out.is_empty() {
            return self.now;
        }
        let keep_alive = self.relayed.as_ref().filter(|_| !self.left).map(|relayed| relayed.keep_alive);
        let trickle = self.uses_trickle().then(|| self.trickle.next());
        let linger = self.sends_since.and(self.own.as_ref()).map(|(at, _)| *at + LINGER);
        let name = self.name_at.filter(|_| !self.left);
        [self.next_of_role(), keep_alive, trickle, linger, self.next_answer(), name]
            .into_iter()
            .flatten()
            .fold(self.prune_at, Moment::min)
    }

    /// Runs the due timers and returns the messages to send.
    pub fn poll(&mut self, now: Moment, out: &mut Vec<Outgoing>) {
        let now = self.advance(now);
        self.stop_if_silent(now);
        if now >= self.prune_at {
            self.prune_at = now + PRUNE_EACH;
            self.peers.prune(now);
        }
        self.poll_role(now);
        self.answer_calls(now);
        if self.uses_trickle() && self.trickle.poll(&mut self.random, now) {
            let hello = self.hello(None);
            self.queue_message(now, hello, None, false, None);
        }
        self.announce_name(now);
        if let Some(relayed) = self.relayed.as_mut().filter(|relayed| !self.left && relayed.keep_alive <= now)
        {
            relayed.keep_alive = now + KEEP_ALIVE;
            let hello = self.hello(None);
            self.queue_message(now, hello, Some(Addressed { to: NodeId(0), echo: 0 }), false, None);
        }
        out.extend(self.out.drain(..));
    }

    /// Sends this terminal's name if there are other members, and less often the more there are.
    fn announce_name(&mut self, now: Moment) {
        let Some(name) = self.name.filter(|_| !self.left) else { return };
        let others = self.peers.count();
        if others == 0 {
            self.name_at = None;
            return;
        }
        let Some(at) = self.name_at else {
            self.name_at = Some(now + up_to(&mut self.random, FIRST_NAME));
            return;
        };
        if at > now {
            return;
        }
        let each = NAME_EACH * others.div_ceil(NAMES_AT_ONCE) as u32;
        self.name_at = Some(now + each / 2 + up_to(&mut self.random, each));
        self.queue_message(now, Body::Name(name), None, false, None);
    }

    fn uses_trickle(&self) -> bool {
        !self.left && matches!(self.role, Role::Idle | Role::Seeking(_)) && !self.waits_for_successor()
    }

    /// The valid summary of the leader, or of this terminal if it leads: one from the last few
    /// seconds.
    pub fn summary(&self, now: Moment) -> Option<&Summary> {
        let now = now.max(self.now);
        self.heard_summary
            .as_ref()
            .filter(|(at, _)| now.since(*at) <= SUMMARY_FRESH)
            .map(|(_, summary)| summary)
    }

    /// The valid summary, scaled by this terminal's weight. A weight is accepted from a
    /// [vouched](Member::vouch) access point only, as its count of senders is: without that count,
    /// a share below the others' cannot be explained.
    pub fn weighted_summary(&self, now: Moment) -> Option<Summary> {
        let (summary, leader) = (self.summary(now)?, self.leader());
        let now = now.max(self.now);
        let is_valid = |(node, _, at): &(NodeId, f64, Moment)| {
            leader == Some(*node) && now.since(*at) <= WEIGHT_FRESH && self.is_led_by_vouched()
        };
        Some(summary.weighted(self.weight.filter(is_valid).map_or(1.0, |(_, weight, _)| weight)))
    }

    /// Whether the leader is an access point that its link-layer address vouches for.
    pub(super) fn is_led_by_vouched(&self) -> bool {
        let leader = self.leading_access_point().map(|(node, _)| node);
        leader.is_some() && leader == self.vouched
    }

    /// Sets a member's weight relative to weight 1; only for an access point. The answer to each of
    /// its reports carries it.
    pub fn weigh(&mut self, node: NodeId, weight: f64) {
        let permille = (weight * 1000.0).round().clamp(1.0, f64::from(u16::MAX)) as u16;
        let permille = permille.min(*WEIGHT_PERMILLE.end());
        if let Some(peer) = self.peers.get_mut(node).filter(|peer| permille != 1000 || peer.weight.is_some())
        {
            peer.weight = Some(permille);
        }
    }

    /// Whether this terminal leads and must make a summary at each tick.
    pub fn is_leader(&self, now: Moment) -> bool {
        matches!(self.role, Role::Leading(_)) && now.since(self.now) < STALL
    }

    /// The senders' latest reports, this terminal's first; empty unless this terminal leads.
    pub fn reports(&self, now: Moment) -> impl Iterator<Item = (NodeId, &Report)> {
        let now = now.max(self.now);
        let leads = self.is_leader(now);
        let own = self.own.as_ref().filter(|(at, _)| now.since(*at) < LINGER);
        let kept = self.report_timeout();
        let others = self.peers.iter().filter_map(|(node, peer)| Some((node, peer.report.as_ref()?)));
        own.map(|own| (self.node, own))
            .into_iter()
            .chain(others.filter(move |(_, (at, _))| now.since(*at) <= kept))
            .filter(move |_| leads)
            .map(|(node, (_, report))| (node, report))
    }

    /// The members heard recently, this terminal first.
    pub fn members(&self, now: Moment) -> impl Iterator<Item = MemberSeen> {
        let now = now.max(self.now);
        let leader = self.leader();
        let own = MemberSeen {
            node: self.node,
            address: None,
            sends: self.sends_since.is_some(),
            age: Duration::ZERO,
            leads: leader == Some(self.node),
            access_point: self.access_point,
            proved: true,
            other_key: false,
            name: self.name,
        };
        let others =
            self.peers.iter().filter(move |(_, peer)| !peer.gone && now.since(peer.heard) <= MEMBER_FRESH);
        std::iter::once(own).chain(others.map(move |(node, peer)| MemberSeen {
            node,
            address: Some(peer.address),
            sends: peer.sends,
            age: now.since(peer.heard),
            leads: leader == Some(node),
            access_point: peer.access_point,
            proved: peer.sessions.is_proved(),
            other_key: peer.other_key,
            name: peer.name,
        }))
    }

    /// The leader, as far as this terminal knows it and needs it.
    pub fn leader(&self) -> Option<NodeId> {
        match &self.role {
            Role::Idle | Role::Seeking(_) => None,
            Role::Following(following) => Some(following.leader),
            Role::Leading(_) => Some(self.node),
        }
    }

    /// The message counters.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The current node ID. It differs from the settings if another member had the same ID; store
    /// it for the next start.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// The group.
    pub fn group(&self) -> GroupId {
        self.group
    }

    /// Sets the number of stations that the access point reports, this one included; `None`: not
    /// reported.
    pub fn set_station_count(&mut self, stations: Option<u16>) {
        self.station_count = stations;
    }

    /// Sets the member that sends from the access point's own link-layer address, as far as this
    /// terminal can determine. While it leads, its count of senders is believed: it forwards all
    /// their traffic, and a device that can impersonate it can stop this terminal's traffic anyway.
    pub fn vouch(&mut self, access_point: Option<NodeId>) {
        self.vouched = access_point;
    }

    /// Changes the group after a move to another access point. All state of the old group is
    /// discarded.
    pub fn set_group(&mut self, now: Moment, group: GroupId) {
        let now = self.advance(now);
        if group == self.group {
            return;
        }
        self.move_to(now, group, self.keys.keys.clone());
    }

    /// Changes the group and the keys after a move, if keys differ between groups.
    pub fn set_group_and_keys(&mut self, now: Moment, group: GroupId, keys: Keys) {
        let now = self.advance(now);
        if group == self.group {
            self.set_keys(now, keys);
        } else {
            self.move_to(now, group, keys);
        }
    }

    fn move_to(&mut self, now: Moment, group: GroupId, keys: Keys) {
        self.group = group;
        self.keys = KeyRing::new(keys, group);
        self.node = self.keys.keys.bind(self.node);
        self.out.clear();
        self.peers.clear();
        self.name_at = None;
        // Answers to former challenges prove nothing any more, because the state that detects
        // replays is discarded.
        self.challenges = Challenges::new(&mut self.random, now);
        self.discard_group_state(now);
    }

    /// Announces the departure. This terminal then sends nothing until there is a report again.
    pub fn leave(&mut self, now: Moment) {
        let now = self.advance(now);
        let successor = self.successor();
        self.role = Role::Idle;
        (self.sends_since, self.own, self.heard_summary) = (None, None, None);
        self.queue_message(now, Body::Goodbye { successor }, None, false, None);
        self.left = true;
    }

    /// Advances the time, which never goes back. After a gap that only a suspend explains, all
    /// state is discarded.
    pub(super) fn advance(&mut self, now: Moment) -> Moment {
        let now = self.now.max(now);
        let stalled = now.since(self.now) > STALL;
        self.now = now;
        self.challenges.refresh(&mut self.random, now);
        if stalled && !matches!(self.role, Role::Idle) {
            self.own = None;
            self.sends_since = None;
            self.discard_group_state(now);
        }
        now
    }
}
