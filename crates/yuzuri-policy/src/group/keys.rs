//! A member's keys at work: the one it sends with, one that it accepts besides, and those that were replaced to shut somebody out.

use super::limiter::Limiter;
use crate::message::{Notice, Notices, Sealed};
use crate::{GroupId, GroupKey, Key, Message, Moment, NodeId, Refusal};
use std::sync::Arc;

/// Generations of the group's key that are told from garbage, so that who still uses them can be told the present one.
const MAX_RETIRED: usize = 16;
/// A message under any other key is compared with the key of the generation before, always. With older ones only so often a second: each
/// comparison costs as much as the first one, and garbage is none of them.
const MAX_OLDER_TRIES: u32 = 64;

/// The keys of a member, as they are configured.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Keys {
    /// What messages are signed with, and what is accepted. None: a group without a key.
    pub key: Option<Key>,
    /// A second key that is accepted, and nothing is sent with: for changing keys without splitting the group.
    pub accepts: Option<Key>,
    /// The notices of a generation of the group's key that replaces the one before, for those members that stay.
    pub notices: Option<Arc<Notices>>,
}

impl Keys {
    /// This key and nothing besides.
    pub fn of(key: Option<Key>) -> Keys {
        Keys { key, ..Keys::default() }
    }

    /// Takes the key that the notices have for this member, where they have one that is news; which.
    fn update(&mut self) -> Option<Notice> {
        let key = self.key.as_ref()?;
        let notice = *self.notices.as_ref()?.0.get(&key.membership()?.number)?;
        self.key = Some(key.take(&notice)?);
        Some(notice)
    }

    /// The member's id, where its key says who it is: the key's number is the id's lower half.
    pub fn bind(&self, node: NodeId) -> NodeId {
        match self.key.as_ref().and_then(Key::membership) {
            Some(membership) => NodeId(node.0 & !0xffff_ffff | u64::from(membership.number)),
            None => node,
        }
    }
}

/// Which key a message was signed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Under {
    /// The one that is sent with.
    Sent,
    /// The one that is accepted besides.
    Accepted,
    /// One that was replaced: its place among them.
    Retired(usize),
}

/// The same for one group.
#[derive(Debug)]
pub(super) struct KeyRing {
    pub keys: Keys,
    pub sends: GroupKey,
    accepts: Option<GroupKey>,
    /// The newest first.
    retired: Vec<GroupKey>,
    older_tries: Limiter<()>,
    /// What told the key, where it is another one than was configured.
    pub told: Option<Notice>,
}

impl KeyRing {
    pub fn new(mut keys: Keys, group: GroupId) -> KeyRing {
        let told = keys.update();
        let of = |key: &Key| GroupKey::new(Some(key), group);
        let before = std::iter::successors(keys.key.as_ref().and_then(Key::before), Key::before);
        KeyRing {
            sends: GroupKey::new(keys.key.as_ref(), group),
            accepts: keys.accepts.as_ref().map(of),
            retired: before.take(MAX_RETIRED).map(|key| of(&key)).collect(),
            older_tries: Limiter::default(),
            told,
            keys,
        }
    }

    /// Reads a message of the group: what costs nothing to look at, then the tag, then the rest.
    pub fn open(&mut self, now: Moment, bytes: &[u8], group: GroupId) -> Result<(Message, Under), Refusal> {
        let sealed = Sealed::of(bytes, group, self.sends.is_keyed())?;
        let under = if sealed.is_signed_with(&self.sends) {
            Under::Sent
        } else if self.accepts.as_ref().is_some_and(|key| sealed.is_signed_with(key)) {
            Under::Accepted
        } else {
            self.retired(now, &sealed).ok_or(Refusal::Tag)?
        };
        Ok((sealed.read()?, under))
    }

    fn retired(&mut self, now: Moment, sealed: &Sealed<'_>) -> Option<Under> {
        let (last, older) = self.retired.split_first()?;
        if sealed.is_signed_with(last) {
            return Some(Under::Retired(0));
        }
        if older.is_empty() || !self.older_tries.admits(now, (), MAX_OLDER_TRIES) {
            return None;
        }
        older.iter().position(|key| sealed.is_signed_with(key)).map(|place| Under::Retired(place + 1))
    }

    pub fn retired_key(&self, place: usize) -> Option<&GroupKey> {
        self.retired.get(place)
    }
}
