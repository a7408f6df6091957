//! A member's keys in use: the one for sending, a second accepted one, and former ones that were
//! replaced to exclude a member.

use super::limiter::Limiter;
use crate::message::{Notice, Notices, Sealed};
use crate::{GroupId, GroupKey, Key, Message, Moment, NodeId, Refusal};
use std::sync::Arc;

/// Number of former generations of the group key that are recognised, so that a member that still
/// uses one can be sent the current key.
const MAX_RETIRED: usize = 16;
/// A message with an unknown tag is always checked against the previous generation's key. Older
/// keys are tried only this often per second: each check costs as much as the first one, and
/// garbage matches none.
const MAX_OLDER_TRIES: u32 = 64;

/// The configured keys of a member.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Keys {
    /// The key for sending and receiving; `None`: a group without a key.
    pub key: Option<Key>,
    /// A second key that is accepted but never used for sending. It allows a key change without
    /// splitting the group.
    pub accepts: Option<Key>,
    /// The notices of a group key generation that replaces the previous one, for the remaining
    /// members.
    pub notices: Option<Arc<Notices>>,
}

impl Keys {
    /// One key and nothing else.
    pub fn of(key: Option<Key>) -> Keys {
        Keys { key, ..Keys::default() }
    }

    /// Applies the notice for this member if it carries a newer key; returns that notice.
    fn update(&mut self) -> Option<Notice> {
        let key = self.key.as_ref()?;
        let notice = *self.notices.as_ref()?.0.get(&key.membership()?.number)?;
        self.key = Some(key.take(&notice)?);
        Some(notice)
    }

    /// The node ID with the member number in its lower half, if the key is a member's key.
    pub fn bind(&self, node: NodeId) -> NodeId {
        match self.key.as_ref().and_then(Key::membership) {
            Some(membership) => NodeId(node.0 & !0xffff_ffff | u64::from(membership.number)),
            None => node,
        }
    }
}

/// The key with which a message was signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SigningKey {
    /// The key for sending.
    Sent,
    /// The second accepted key.
    Accepted,
    /// A former key, by its index.
    Retired(usize),
}

/// The keys of one group.
#[derive(Debug)]
pub(super) struct KeyRing {
    pub keys: Keys,
    pub sends: GroupKey,
    accepts: Option<GroupKey>,
    /// Newest first.
    retired: Vec<GroupKey>,
    older_tries: Limiter<()>,
    /// The notice that carried the key, if it differs from the configured one.
    pub new_notice: Option<Notice>,
}

impl KeyRing {
    pub fn new(mut keys: Keys, group: GroupId) -> KeyRing {
        let new_notice = keys.update();
        let of = |key: &Key| GroupKey::new(Some(key), group);
        let before = std::iter::successors(keys.key.as_ref().and_then(Key::before), Key::before);
        KeyRing {
            sends: GroupKey::new(keys.key.as_ref(), group),
            accepts: keys.accepts.as_ref().map(of),
            retired: before.take(MAX_RETIRED).map(|key| of(&key)).collect(),
            older_tries: Limiter::default(),
            new_notice,
            keys,
        }
    }

    /// Decodes a message of the group: first the checks that cost nothing, then the tag, then the
    /// rest.
    pub fn open(
        &mut self,
        now: Moment,
        bytes: &[u8],
        group: GroupId,
    ) -> Result<(Message, SigningKey), Refusal> {
        let sealed = Sealed::of(bytes, group, self.sends.is_keyed())?;
        let signed_with = if sealed.is_signed_with(&self.sends) {
            SigningKey::Sent
        } else if self.accepts.as_ref().is_some_and(|key| sealed.is_signed_with(key)) {
            SigningKey::Accepted
        } else {
            self.retired(now, &sealed).ok_or(Refusal::Tag)?
        };
        Ok((sealed.read()?, signed_with))
    }

    fn retired(&mut self, now: Moment, sealed: &Sealed<'_>) -> Option<SigningKey> {
        let (last, older) = self.retired.split_first()?;
        if sealed.is_signed_with(last) {
            return Some(SigningKey::Retired(0));
        }
        if older.is_empty() || !self.older_tries.admits(now, (), MAX_OLDER_TRIES) {
            return None;
        }
        older.iter().position(|key| sealed.is_signed_with(key)).map(|place| SigningKey::Retired(place + 1))
    }

    pub fn retired_key(&self, place: usize) -> Option<&GroupKey> {
        self.retired.get(place)
    }
}
