//! Creation of a member's messages.

use super::config::{CHALLENGE_AGAIN, MAX_WAITING, MIN_ANSWER_INTERVAL};
use super::election::Role;
use super::member::{Member, Outgoing, To};
use crate::message::{Addressed, Body, Message, relay};
use crate::{GroupKey, Moment, NodeId};
use std::net::SocketAddr;

impl Member {
    /// A hello with the current state; `leader` overrides the leader that this member follows.
    pub(super) fn hello(&self, leader: Option<NodeId>) -> Body {
        Body::Hello { leader: leader.or(self.leader()) }
    }

    /// Queues a message for [`poll`](Member::poll). `at`: the recipient's address; `None`: to all.
    pub(super) fn queue_message(
        &mut self,
        now: Moment,
        body: Body,
        addressed: Option<Addressed>,
        asks: bool,
        at: Option<SocketAddr>,
    ) {
        let key = self.keys.sends.clone();
        self.queue_message_under(now, &key, body, addressed, asks, at);
    }

    /// The same, signed with the given key.
    pub(super) fn queue_message_under(
        &mut self,
        now: Moment,
        key: &GroupKey,
        body: Body,
        addressed: Option<Addressed>,
        asks: bool,
        at: Option<SocketAddr>,
    ) {
        self.challenges.refresh(&mut self.random, now);
        if self.sequence == u32::MAX {
            // The sequence numbers last for decades. When they are used up, a new session begins
            // and proves its liveness like any other.
            self.epoch = self.epoch.wrapping_add(1);
            self.sequence = 0;
        }
        self.sequence += 1;
        let (challenge, _) = self.challenges.current();
        let kind = body.kind();
        let shows_challenge = asks || matches!(body, Body::Hello { .. } | Body::Summary { .. });
        let message = Message {
            group: self.group,
            node: self.node,
            epoch: self.epoch,
            sequence: self.sequence,
            rank: self.rank,
            sends: self.sends_since.is_some(),
            leads: matches!(self.role, Role::Leading(_)),
            access_point: self.access_point,
            asks,
            addressed,
            challenge: shows_challenge.then_some(challenge),
            body,
        };
        let mut bytes = message.encode(key);
        let to = match (&self.relayed, at) {
            (Some(relayed), _) => {
                if let Some(cookie) = relayed.cookie {
                    bytes = relay(cookie, &bytes);
                }
                To::One(relayed.address)
            }
            (None, Some(address)) => To::One(address),
            (None, None) => To::All,
        };
        self.counts.send(kind, bytes.len());
        if self.out.len() >= MAX_WAITING {
            self.out.pop_front();
            self.counts.overflowed += 1;
        }
        self.out.push_back(Outgoing { to, bytes });
    }

    /// The header of a message to one member, with the challenge received from it.
    pub(super) fn addressed(&self, node: NodeId, challenge: Option<u32>) -> Addressed {
        let known = self.peers.get(node).map_or(0, |peer| peer.challenge);
        Addressed { to: node, echo: challenge.unwrap_or(known) }
    }

    /// Answers a member's challenge, and challenges it if it has not proved its liveness.
    pub(super) fn answer(&mut self, now: Moment, node: NodeId, at: SocketAddr, challenge: Option<u32>) {
        let Some(peer) = self.peers.get_mut(node) else { return };
        if peer.answered.is_some_and(|before| now.since(before) < MIN_ANSWER_INTERVAL) {
            return;
        }
        peer.answered = Some(now);
        let asks = !peer.sessions.is_proved();
        let addressed = self.addressed(node, challenge);
        self.queue_message(now, self.hello(None), Some(addressed), asks, Some(at));
    }

    /// Challenges a member at its known address.
    pub(super) fn challenge_member(&mut self, now: Moment, node: NodeId) {
        if let Some(address) = self.peers.get(node).map(|peer| peer.address) {
            self.challenge_at(now, node, address, None);
        }
    }

    /// Challenges the host at an address that spoke as a member.
    pub(super) fn challenge_at(&mut self, now: Moment, node: NodeId, at: SocketAddr, challenge: Option<u32>) {
        if self.may_challenge(now, node) {
            let addressed = self.addressed(node, challenge);
            self.queue_message(now, self.hello(None), Some(addressed), true, Some(at));
        }
    }

    /// Whether a member may be challenged again; if so, records that it was.
    pub(super) fn may_challenge(&mut self, now: Moment, node: NodeId) -> bool {
        let Some(peer) = self.peers.get_mut(node) else { return false };
        let may = peer.challenged.is_none_or(|before| now.since(before) >= CHALLENGE_AGAIN);
        if may {
            peer.challenged = Some(now);
        }
        may
    }
}
