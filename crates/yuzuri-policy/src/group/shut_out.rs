//! Changing keys: by whoever administers the terminal, and by a notice of the group's authority.

use super::keys::{KeyRing, Keys, Under};
use super::limiter::Limiter;
use super::member::Member;
use super::session::Challenges;
use crate::message::{Addressed, Body, Notice};
use crate::{Key, Message, Moment, NodeId, Refusal};
use std::net::SocketAddr;

/// Notices a second to all, and to one member: each costs an addressed message, caused by one that may be forged.
const MAX_NOTICES: u32 = 64;
const MAX_NOTICES_TO_ONE: u32 = 1;

/// What was handed out lately.
#[derive(Debug, Default)]
pub(super) struct HandedOut {
    in_all: Limiter<()>,
    to_each: Limiter<u32>,
}

impl Member {
    /// Other keys from now on. Where one of them was the one before, as in changing keys step by step, nothing else changes; else everybody
    /// has to prove himself anew.
    pub fn set_keys(&mut self, now: Moment, mut keys: Keys) {
        let now = self.advance(now);
        let before = self.keys.keys.clone();
        // A notice may have told the group's next key since the key was configured: there is no way back.
        if std::iter::successors(before.key.clone(), Key::before).any(|key| Some(&key) == keys.key.as_ref()) {
            keys.key.clone_from(&before.key);
        }
        self.keys = KeyRing::new(keys, self.group);
        let keys = &self.keys.keys;
        let goes_on = keys.key == before.key || before.key.is_some() && keys.accepts == before.key;
        let node = keys.bind(self.node);
        let known: Vec<(NodeId, SocketAddr)> =
            self.peers.iter().map(|(node, peer)| (node, peer.address)).collect();
        let is_news = keys.notices.is_some() && keys.notices != before.notices;
        if !goes_on || node != self.node {
            self.node = node;
            self.start_over(now);
        }
        if is_news {
            self.hand_out_to_all(now, &known, before.key.as_ref());
        }
    }

    /// The keys at work. The key is another one than it was configured once a notice has told the group's next key.
    pub fn keys(&self) -> &Keys {
        &self.keys.keys
    }

    /// The notice that told this member the present key since the last call, to be kept for the next start.
    pub fn told(&mut self) -> Option<Notice> {
        self.keys.told.take()
    }

    /// Whatever was believed under another key counts no more.
    fn start_over(&mut self, now: Moment) {
        self.peers.clear();
        self.challenges = Challenges::new(&mut self.random, now);
        self.begin_anew(now);
    }

    /// A notice of our authority, from whomever: it proves itself.
    pub(super) fn take_notice(&mut self, now: Moment, notice: &Notice) -> Result<(), Refusal> {
        let told = self.keys.keys.key.as_ref().and_then(|key| key.take(notice)).ok_or(Refusal::Replay)?;
        let keys = Keys { key: Some(told), ..self.keys.keys.clone() };
        self.keys = KeyRing::new(keys, self.group);
        self.keys.told = Some(*notice);
        self.start_over(now);
        Ok(())
    }

    /// Somebody uses a key that was replaced. Where the notices have its number, it is told the present one.
    pub(super) fn hand_out(&mut self, now: Moment, from: SocketAddr, message: &Message, under: Under) {
        let Under::Retired(place) = under else { return };
        let Some((number, notice)) = self.notice_for(message.node) else { return };
        let handed_out = &mut self.handed_out;
        if !handed_out.to_each.admits(now, number, MAX_NOTICES_TO_ONE)
            || !handed_out.in_all.admits(now, (), MAX_NOTICES)
        {
            return;
        }
        self.say_notice(now, place, Addressed { to: message.node, echo: 0 }, notice, from);
    }

    /// Those that were heard lately are told at once. They use the key that was ours until now.
    fn hand_out_to_all(&mut self, now: Moment, known: &[(NodeId, SocketAddr)], before: Option<&Key>) {
        let generation = |key: Option<&Key>| key.and_then(Key::membership).map(|it| it.generation);
        let (Some(now_at), Some(was_at)) = (generation(self.keys.keys.key.as_ref()), generation(before))
        else {
            return;
        };
        let Some(place) = now_at.checked_sub(was_at + 1) else { return };
        for (node, address) in known {
            if let Some((_, notice)) = self.notice_for(*node) {
                let to = Addressed { to: *node, echo: 0 };
                self.say_notice(now, place as usize, to, notice, *address);
            }
        }
    }

    fn notice_for(&self, node: NodeId) -> Option<(u32, Notice)> {
        let number = node.0 as u32;
        Some((number, *self.keys.keys.notices.as_ref()?.0.get(&number)?))
    }

    fn say_notice(&mut self, now: Moment, retired: usize, to: Addressed, notice: Notice, at: SocketAddr) {
        let Some(key) = self.keys.retired_key(retired).cloned() else { return };
        self.say_under(now, &key, Body::Notice(notice), Some(to), false, Some(at));
    }
}
