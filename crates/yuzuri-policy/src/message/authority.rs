//! Keys issued by an authority: one key for each member, under which the next group key can be sent
//! to that member. A member that does not receive it is excluded. `docs/group-keys.md` explains the
//! design.
//!
//! Everything is derived from the authority's 32 random bytes. The group keys, one per
//! *generation*, form a chain: each is derived from the next one by HKDF. A member can thus compute
//! former keys and recognise members that still use them, but not future keys.

use super::key::{KEY_BYTES, Key, TAG_BYTES, derive, keyed_hash};
use hmac::Mac;
use std::collections::BTreeMap;
use std::fmt;

/// The last generation of the group key: how often an authority can exclude members.
pub const MAX_GENERATION: u32 = 1000;

/// The authority that issues keys. Its bytes stay with the administrator of the group, not on any
/// member's device.
#[derive(Clone)]
pub struct Authority([u8; KEY_BYTES]);

impl Authority {
    /// Creates an authority from 32 random bytes.
    pub const fn from_bytes(master: [u8; KEY_BYTES]) -> Authority {
        Authority(master)
    }

    /// The group key of a generation, 1 to [`MAX_GENERATION`].
    fn key(&self, generation: u32) -> [u8; KEY_BYTES] {
        let last = derive(&self.0, b"yuzuri last key 1");
        (generation..MAX_GENERATION).fold(last, |key, _| before(&key))
    }

    fn own(&self, number: u32) -> [u8; KEY_BYTES] {
        derive(&self.0, &[&b"yuzuri member 1 "[..], &number.to_be_bytes()].concat())
    }

    /// The key of member `number`, from 1, with the group key of this generation. `None`: no such
    /// member number or generation.
    pub fn member(&self, number: u32, generation: u32) -> Option<Key> {
        let exists = number > 0 && (1..=MAX_GENERATION).contains(&generation);
        exists.then(|| Key::of_member(self.key(generation), self.membership(number, generation)))
    }

    fn membership(&self, number: u32, generation: u32) -> Membership {
        Membership { number, own: self.own(number), generation }
    }

    /// The notices that carry the key of a generation to these members, one for each. Invalid
    /// numbers are skipped; `None`: no such generation.
    pub fn notices(&self, numbers: impl IntoIterator<Item = u32>, generation: u32) -> Option<Notices> {
        // Computed once for all: the chain from the last generation is long.
        let key = (1..=MAX_GENERATION).contains(&generation).then(|| self.key(generation))?;
        let notice = |number: u32| {
            let membership = self.membership(number, generation);
            let wrapped = xor(&membership.pad(generation), &key);
            (number, Notice { generation, wrapped, proof: membership.proof(generation, &wrapped) })
        };
        Some(Notices(numbers.into_iter().filter(|number| *number > 0).map(notice).collect()))
    }

    /// The notice for one member.
    pub fn notice(&self, number: u32, generation: u32) -> Option<Notice> {
        self.notices([number], generation)?.0.remove(&number)
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authority(secret)")
    }
}

/// The key of the previous generation.
pub(super) fn before(key: &[u8; KEY_BYTES]) -> [u8; KEY_BYTES] {
    derive(key, b"yuzuri key before 1")
}

fn xor(one: &[u8; KEY_BYTES], other: &[u8; KEY_BYTES]) -> [u8; KEY_BYTES] {
    std::array::from_fn(|place| one[place] ^ other[place])
}

/// The individual part of a member's key, known to this member and the authority only.
#[derive(Clone, PartialEq, Eq)]
pub struct Membership {
    /// The member number, from 1. It is the lower half of the member's node ID.
    pub number: u32,
    /// The member's individual secret.
    pub own: [u8; KEY_BYTES],
    /// The generation of the accompanying group key.
    pub generation: u32,
}

impl Membership {
    /// The one-time pad that encrypts a generation's key for this member. It encrypts nothing else,
    /// so that it is used once.
    fn pad(&self, generation: u32) -> [u8; KEY_BYTES] {
        derive(&self.own, &[&b"yuzuri notice 1 "[..], &generation.to_be_bytes()].concat())
    }

    fn proof(&self, generation: u32, wrapped: &[u8; KEY_BYTES]) -> [u8; TAG_BYTES] {
        let mac = keyed_hash(&derive(&self.own, b"yuzuri proof 1"));
        let whole = mac.chain_update(generation.to_be_bytes()).chain_update(wrapped).finalize().into_bytes();
        let mut proof = [0; TAG_BYTES];
        proof.copy_from_slice(&whole[..TAG_BYTES]);
        proof
    }

    /// Decrypts the key in a notice, if the authority made the notice for this member.
    pub(super) fn open(&self, notice: &Notice) -> Option<[u8; KEY_BYTES]> {
        let mac = keyed_hash(&derive(&self.own, b"yuzuri proof 1"));
        let mac = mac.chain_update(notice.generation.to_be_bytes()).chain_update(notice.wrapped);
        mac.verify_truncated_left(&notice.proof).ok()?;
        Some(xor(&self.pad(notice.generation), &notice.wrapped))
    }
}

impl fmt::Debug for Membership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Membership({}, generation {})", self.number, self.generation)
    }
}

/// Carries a generation's key to one member. It is useless to others and need not be kept secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Notice {
    /// The generation.
    pub generation: u32,
    /// The group key, encrypted with the member's secret.
    pub wrapped: [u8; KEY_BYTES],
    /// Authentication by the authority: HMAC-SHA-256 with the member's secret, truncated.
    pub proof: [u8; TAG_BYTES],
}

impl Notice {
    /// Size of a notice in bytes.
    pub const BYTES: usize = 4 + KEY_BYTES + TAG_BYTES;

    /// The file format.
    pub fn to_bytes(&self) -> [u8; Notice::BYTES] {
        let mut bytes = [0; Notice::BYTES];
        bytes[..4].copy_from_slice(&self.generation.to_be_bytes());
        bytes[4..4 + KEY_BYTES].copy_from_slice(&self.wrapped);
        bytes[4 + KEY_BYTES..].copy_from_slice(&self.proof);
        bytes
    }

    /// Parses the file format.
    pub fn from_bytes(bytes: &[u8; Notice::BYTES]) -> Notice {
        let mut notice = Notice { generation: 0, wrapped: [0; KEY_BYTES], proof: [0; TAG_BYTES] };
        let (generation, rest) = bytes.split_at(4);
        generation.iter().for_each(|byte| notice.generation = notice.generation << 8 | u32::from(*byte));
        notice.wrapped.copy_from_slice(&rest[..KEY_BYTES]);
        notice.proof.copy_from_slice(&rest[KEY_BYTES..]);
        notice
    }
}

/// The notices of a generation for all remaining members, by member number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Notices(pub BTreeMap<u32, Notice>);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const AUTHORITY: Authority = Authority::from_bytes([0x5c; 32]);

    #[test]
    fn a_notice_gives_the_next_key_to_its_member_only() {
        let (one, other) = (AUTHORITY.member(1, 1).unwrap(), AUTHORITY.member(2, 1).unwrap());
        assert_eq!(one.secret(), other.secret());
        let notice = AUTHORITY.notice(1, 3).unwrap();
        let next_key = one.take(&notice).unwrap();
        assert_eq!(next_key, AUTHORITY.member(1, 3).unwrap());
        assert_ne!(next_key.secret(), one.secret());
        assert_eq!(other.take(&notice), None);
        assert_eq!(next_key.take(&notice), None, "it is no news");
        assert_eq!(next_key.take(&AUTHORITY.notice(1, 2).unwrap()), None, "there is no way back");
        for bit in 0..Notice::BYTES * 8 {
            let mut bytes = notice.to_bytes();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(one.take(&Notice::from_bytes(&bytes)), None, "bit {bit}");
        }
        assert_eq!(Notice::from_bytes(&notice.to_bytes()), notice);
        let stranger = Authority::from_bytes([0x5d; 32]);
        assert_eq!(one.take(&stranger.notice(1, 2).unwrap()), None);
        assert_eq!(Key::from_bytes([9; 32]).take(&notice), None);
    }

    #[test]
    fn a_key_yields_earlier_keys_and_no_later_ones() {
        let third = AUTHORITY.member(1, 3).unwrap();
        assert_eq!(third.before().unwrap(), AUTHORITY.member(1, 2).unwrap());
        assert_eq!(third.before().unwrap().before().unwrap().before(), None);
        assert!(AUTHORITY.member(1, MAX_GENERATION).is_some());
        assert!(AUTHORITY.member(0, 1).is_none() && AUTHORITY.member(1, 0).is_none());
        assert!(AUTHORITY.member(1, MAX_GENERATION + 1).is_none());
    }
}
