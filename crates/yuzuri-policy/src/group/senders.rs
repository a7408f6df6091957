//! Which members send, according to this terminal's own observation.
//!
//! Anybody who holds the key, or anybody in a group without one, can invent members. Therefore an
//! address counts as one member, a session counts once it has answered a challenge, and new IDs are
//! accepted at a limited rate. Most senders need no proof of each other's liveness: a terminal
//! challenges all of them at once, and only if their number decides
//! ([`Policy::wants_proof`](crate::Policy::wants_proof)).

use super::config::{
    ANSWERS_PER_SECOND, CALL_AGAIN, MAX_WAITING_ANSWERS, PROOF_FRESH, PROOF_FRESH_PER_SENDER,
};
use super::limiter::Limiter;
use super::member::Member;
use super::peers::Peer;
use super::trickle::up_to;
use crate::message::Addressed;
use crate::{Moment, NodeId};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// The number of senders that a terminal knows, one per address, this terminal included whether it
/// sends or not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SendersSeen {
    /// Senders whose session has proved its liveness recently, this terminal included.
    pub proved: u16,
    /// Other senders.
    pub unproved: u16,
}

/// An answer to a terminal that challenged all senders.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answer {
    at: Moment,
    node: NodeId,
    address: SocketAddr,
    challenge: u32,
}

/// The received and sent challenges to all senders.
#[derive(Debug, Default)]
pub(super) struct SenderChallenges {
    /// When this terminal last challenged all senders.
    called: Option<Moment>,
    answers: Vec<Answer>,
    /// Rate limit of answers to such challenges.
    answered: Limiter<()>,
}

impl Member {
    /// The senders that this terminal has observed.
    pub fn senders(&self, now: Moment) -> SendersSeen {
        let now = now.max(self.now);
        // With a rendezvous all members have its address; the rendezvous limits the IDs of each.
        let relayed = self.relayed.is_some();
        let mut proved: BTreeSet<(IpAddr, NodeId)> = BTreeSet::new();
        let mut unproved = BTreeSet::new();
        let known: Vec<(NodeId, &Peer)> =
            self.peers.iter().filter(|(_, peer)| peer.sends && !peer.gone).collect();
        let fresh = PROOF_FRESH.max(PROOF_FRESH_PER_SENDER * known.len().min(1_000) as u32);
        for (node, peer) in known {
            let place = (peer.address.ip(), if relayed { node } else { NodeId::default() });
            if peer.is_proved_since(now, fresh) {
                proved.insert(place);
            } else {
                unproved.insert(place);
            }
        }
        let count = |n: usize| u16::try_from(n).unwrap_or(u16::MAX);
        // Stations without yuzuri prove nothing; the access point knows them.
        let last_summary = self.weighted_summary(now).filter(|_| self.is_led_by_vouched());
        SendersSeen {
            proved: count(proved.len() + 1).max(last_summary.map_or(0, |summary| summary.senders)),
            unproved: count(unproved.difference(&proved).count()),
        }
    }

    /// Challenges all senders, unless this was done recently.
    pub fn challenge_senders(&mut self, now: Moment) {
        let now = self.advance(now);
        if self.challenged.called.is_some_and(|at| now.since(at) < CALL_AGAIN) {
            return;
        }
        self.challenged.called = Some(now);
        let hello = self.hello(None);
        self.queue_message(now, hello, None, true, None);
    }

    /// Schedules the answer to a terminal that challenged all senders, with a random delay so that
    /// not all answer at once.
    pub(super) fn hear_call(
        &mut self,
        now: Moment,
        node: NodeId,
        address: SocketAddr,
        challenge: Option<u32>,
    ) {
        let Some(challenge) = challenge.filter(|_| self.sends_since.is_some()) else { return };
        let waiting = &mut self.challenged.answers;
        if waiting.len() >= MAX_WAITING_ANSWERS
            || waiting.iter().any(|answer| answer.node == node)
            || !self.challenged.answered.admits(now, (), ANSWERS_PER_SECOND)
        {
            return;
        }
        let at = now + up_to(&mut self.random, Duration::from_millis(300));
        waiting.push(Answer { at, node, address, challenge });
    }

    /// Sends the answers that are due.
    pub(super) fn answer_calls(&mut self, now: Moment) {
        let (due, waiting) = self.challenged.answers.drain(..).partition(|answer| answer.at <= now);
        self.challenged.answers = waiting;
        for Answer { node, address, challenge, .. } in due {
            let hello = self.hello(None);
            self.queue_message(
                now,
                hello,
                Some(Addressed { to: node, echo: challenge }),
                false,
                Some(address),
            );
        }
    }

    /// Whether a member's report counts: of several reporting members with one address, only the
    /// one whose liveness was proved first counts.
    pub(super) fn may_report(&self, now: Moment, node: NodeId) -> bool {
        let Some(own) = self.peers.get(node) else { return false };
        let kept = self.report_timeout();
        let earlier = |(other, peer): (NodeId, &Peer)| {
            other != node
                && peer.address.ip() == own.address.ip()
                && peer.report.as_ref().is_some_and(|(at, _)| now.since(*at) <= kept)
                && (peer.proved_since, other) < (own.proved_since, node)
        };
        !self.peers.iter().any(earlier)
    }

    pub(super) fn next_answer(&self) -> Option<Moment> {
        self.challenged.answers.iter().map(|answer| answer.at).min()
    }
}
