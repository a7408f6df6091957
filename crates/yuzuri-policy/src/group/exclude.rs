//! Key changes: by the terminal's administrator, and by a notice of the group's authority.

use super::keys::{KeyRing, Keys, SigningKey};
use super::limiter::Limiter;
use super::member::Member;
use super::session::Challenges;
use crate::message::{Addressed, Body, Notice};
use crate::{Key, Message, Moment, NodeId, Refusal};
use std::net::SocketAddr;

/// Maximum number of notices per second in total, and to one member. Each is an addressed message
/// whose trigger may be forged.
const MAX_NOTICES: u32 = 64;
const MAX_NOTICES_TO_ONE: u32 = 1;

/// Rate limits of notices.
#[derive(Debug, Default)]
pub(super) struct NoticesSent {
    in_all: Limiter<()>,
    to_each: Limiter<u32>,
}

impl Member {
    /// Sets new keys. If one of them was in use before, as in a step-by-step key change, nothing
    /// else changes; otherwise every member has to prove its liveness again.
    pub fn set_keys(&mut self, now: Moment, mut keys: Keys) {
        let now = self.advance(now);
        let before = self.keys.keys.clone();
        // A notice may have carried a newer group key than the configured one; there is no way back
        // to an older key.
        if std::iter::successors(before.key.clone(), Key::before).any(|key| Some(&key) == keys.key.as_ref()) {
            keys.key.clone_from(&before.key);
        }
        self.keys = KeyRing::new(keys, self.group);
        let keys = &self.keys.keys;
        let continues = keys.key == before.key || before.key.is_some() && keys.accepts == before.key;
        let node = keys.bind(self.node);
        let known: Vec<(NodeId, SocketAddr)> =
            self.peers.iter().map(|(node, peer)| (node, peer.address)).collect();
        let is_news = keys.notices.is_some() && keys.notices != before.notices;
        if !continues || node != self.node {
            self.node = node;
            self.start_over(now);
        }
        if is_news {
            self.send_to_all_terminals(now, &known, before.key.as_ref());
        }
    }

    /// The keys in use. The key differs from the configured one after a notice has carried the next
    /// group key.
    pub fn keys(&self) -> &Keys {
        &self.keys.keys
    }

    /// The notice that carried the current key, if one arrived since the last call. Store it for
    /// the next start.
    pub fn new_notice(&mut self) -> Option<Notice> {
        self.keys.new_notice.take()
    }

    /// Discards everything that was learned under the former key.
    fn start_over(&mut self, now: Moment) {
        self.peers.clear();
        self.challenges = Challenges::new(&mut self.random, now);
        self.discard_group_state(now);
    }

    /// Applies a notice of our authority from any sender: its own proof authenticates it.
    pub(super) fn take_notice(&mut self, now: Moment, notice: &Notice) -> Result<(), Refusal> {
        let new_notice =
            self.keys.keys.key.as_ref().and_then(|key| key.take(notice)).ok_or(Refusal::Replay)?;
        let keys = Keys { key: Some(new_notice), ..self.keys.keys.clone() };
        self.keys = KeyRing::new(keys, self.group);
        self.keys.new_notice = Some(*notice);
        self.start_over(now);
        Ok(())
    }

    /// Answers a message under a former key with the current key, if the notices include its
    /// sender's number.
    pub(super) fn send_notices(
        &mut self,
        now: Moment,
        from: SocketAddr,
        message: &Message,
        signed_with: SigningKey,
    ) {
        let SigningKey::Retired(place) = signed_with else { return };
        let Some((number, notice)) = self.notice_for(message.node) else { return };
        let notices_sent = &mut self.notices_sent;
        if !notices_sent.to_each.admits(now, number, MAX_NOTICES_TO_ONE)
            || !notices_sent.in_all.admits(now, (), MAX_NOTICES)
        {
            return;
        }
        self.queue_notice(now, place, Addressed { to: message.node, echo: 0 }, notice, from);
    }

    /// Sends the notices to all members heard recently. They still use the key that was ours until
    /// now.
    fn send_to_all_terminals(&mut self, now: Moment, known: &[(NodeId, SocketAddr)], before: Option<&Key>) {
        let generation = |key: Option<&Key>| key.and_then(Key::membership).map(|it| it.generation);
        let (Some(now_at), Some(was_at)) = (generation(self.keys.keys.key.as_ref()), generation(before))
        else {
            return;
        };
        let Some(place) = now_at.checked_sub(was_at + 1) else { return };
        for (node, address) in known {
            if let Some((_, notice)) = self.notice_for(*node) {
                let to = Addressed { to: *node, echo: 0 };
                self.queue_notice(now, place as usize, to, notice, *address);
            }
        }
    }

    fn notice_for(&self, node: NodeId) -> Option<(u32, Notice)> {
        let number = node.0 as u32;
        Some((number, *self.keys.keys.notices.as_ref()?.0.get(&number)?))
    }

    fn queue_notice(&mut self, now: Moment, retired: usize, to: Addressed, notice: Notice, at: SocketAddr) {
        let Some(key) = self.keys.retired_key(retired).cloned() else { return };
        self.queue_message_under(now, &key, Body::Notice(notice), Some(to), false, Some(at));
    }
}
