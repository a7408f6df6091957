//! The group's key and what is derived from it.

use super::GroupId;
use super::authority::{MAX_GENERATION, Membership, Notice, before};
use hkdf::Hkdf;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;

/// Bytes of a key and of a key file.
pub const KEY_BYTES: usize = 32;
/// Bytes of a tag: HMAC-SHA-256 truncated to its first half (RFC 2104, section 5).
pub const TAG_BYTES: usize = 16;
/// Rounds of PBKDF2 from a passphrase to a key: what makes guessing passphrases from recorded messages dear.
pub const PASSPHRASE_ROUNDS: u32 = 600_000;

/// What the members of a group have in common and nobody else knows.
#[derive(Clone, PartialEq, Eq)]
pub struct Key {
    secret: [u8; KEY_BYTES],
    membership: Option<Membership>,
}

impl Key {
    /// 32 random bytes, as a key file holds them.
    pub const fn from_bytes(secret: [u8; KEY_BYTES]) -> Key {
        Key { secret, membership: None }
    }

    /// The key of one member of a group whose keys an [`Authority`](super::Authority) gives out, as its key file holds it.
    pub const fn of_member(secret: [u8; KEY_BYTES], membership: Membership) -> Key {
        Key { secret, membership: Some(membership) }
    }

    /// From words: PBKDF2-HMAC-SHA-256 (RFC 8018) with [`PASSPHRASE_ROUNDS`] rounds, salted with the group's id, so that a table of
    /// passphrases is worth something for one group alone. Takes a part of a second: keep the result, and compute it where nobody waits.
    pub fn from_passphrase(passphrase: &str, group: GroupId) -> Key {
        let mut key = [0; KEY_BYTES];
        let salt = [&b"yuzuri passphrase 2 "[..], &group.0].concat();
        pbkdf2::pbkdf2_hmac::<Sha256>(passphrase.as_bytes(), &salt, PASSPHRASE_ROUNDS, &mut key);
        Key::from_bytes(key)
    }

    /// Whose key it is, where each member has its own.
    pub fn membership(&self) -> Option<&Membership> {
        self.membership.as_ref()
    }

    /// The part that all members have.
    pub fn secret(&self) -> &[u8; KEY_BYTES] {
        &self.secret
    }

    /// This member's key as the notice tells it. None: the notice is for another member, not from the authority, or no news.
    pub fn take(&self, notice: &Notice) -> Option<Key> {
        let membership = self.membership.as_ref()?;
        if notice.generation <= membership.generation || notice.generation > MAX_GENERATION {
            return None;
        }
        let secret = membership.open(notice)?;
        // The chain leads back to the present key, or it is the key of another group.
        let back = (membership.generation..notice.generation).fold(secret, |key, _| before(&key));
        let membership = Membership { generation: notice.generation, ..membership.clone() };
        (back == self.secret).then(|| Key::of_member(secret, membership))
    }

    /// The key of the generation before; none where there was none.
    pub fn before(&self) -> Option<Key> {
        let membership = self.membership.as_ref().filter(|membership| membership.generation > 1)?;
        let generation = membership.generation - 1;
        Some(Key::of_member(before(&self.secret), Membership { generation, ..membership.clone() }))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.membership {
            None => f.write_str("Key(secret)"),
            Some(membership) => write!(f, "Key(secret, {membership:?})"),
        }
    }
}

/// Why bytes are no key: somebody who tries simple things first finds them. The errors of random keys are not among them: 32 random
/// bytes have such a form once in 10^13 keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WeakKey {
    /// One pattern of at most half the length, again and again.
    #[error("it repeats a pattern of {0} bytes")]
    Repeated(usize),
    /// Each differs from the one before by the same, as in 00 01 02.
    #[error("it is a sequence: each byte differs from the previous one by {0}")]
    Counting(u8),
    /// Letters, digits and signs alone: words, which are guessed a million times faster than random bytes.
    #[error(
        "it is text, not random bytes; use it as a `passphrase` instead, which makes it much harder to guess"
    )]
    Text,
}

/// Whether bytes have a form that somebody who guesses would try.
///
/// # Errors
/// Which form.
pub fn check_pattern(bytes: &[u8]) -> Result<(), WeakKey> {
    let repeated = (1..=bytes.len() / 2)
        .find(|period| bytes.iter().zip(&bytes[*period..]).all(|(before, after)| before == after));
    if let Some(period) = repeated {
        return Err(WeakKey::Repeated(period));
    }
    let steps = || bytes.windows(2).map(|pair| pair[1].wrapping_sub(pair[0]));
    match steps().next() {
        Some(first) if steps().all(|step| step == first) => Err(WeakKey::Counting(first)),
        _ => Ok(()),
    }
}

/// Whether a key's bytes may be random: [`check_pattern`], and not text.
///
/// # Errors
/// Which form they have instead.
pub fn check_key(bytes: &[u8; KEY_BYTES]) -> Result<(), WeakKey> {
    check_pattern(bytes)?;
    if bytes.iter().all(|byte| (b' '..=b'~').contains(byte)) { Err(WeakKey::Text) } else { Ok(()) }
}

/// What a group's messages are signed with: derived from a [`Key`] for this group alone, or known to everybody where the group has none.
#[derive(Clone)]
pub struct GroupKey {
    keyed: bool,
    // With the key's two blocks already hashed: a message costs two blocks less.
    mac: Hmac<Sha256>,
}

impl GroupKey {
    /// The group's key by HKDF-SHA-256 (RFC 5869), so that messages of one access point's group mean nothing at another. Without a
    /// key the "secret" is a constant: the tag is then a checksum, and proves nothing.
    pub fn new(key: Option<&Key>, group: GroupId) -> GroupKey {
        let secret = key.map_or(&[0; KEY_BYTES], |key| &key.secret);
        let salt: &[u8] = if key.is_some() { b"yuzuri" } else { b"yuzuri keyless" };
        let derived = expand(salt, secret, &[&b"yuzuri group 1 "[..], &group.0].concat());
        GroupKey { keyed: key.is_some(), mac: keyed_hash(&derived) }
    }

    /// Whether there is a secret behind it.
    pub fn is_keyed(&self) -> bool {
        self.keyed
    }

    pub(super) fn sign(&self, bytes: &[u8]) -> [u8; TAG_BYTES] {
        let whole = self.mac.clone().chain_update(bytes).finalize().into_bytes();
        let mut tag = [0; TAG_BYTES];
        tag.copy_from_slice(&whole[..TAG_BYTES]);
        tag
    }

    /// In constant time.
    pub(super) fn verify(&self, bytes: &[u8], tag: &[u8; TAG_BYTES]) -> bool {
        self.mac.clone().chain_update(bytes).verify_truncated_left(tag).is_ok()
    }
}

/// HKDF-SHA-256 to one key.
fn expand(salt: &[u8], secret: &[u8; KEY_BYTES], info: &[u8]) -> [u8; KEY_BYTES] {
    let mut derived = [0; KEY_BYTES];
    // The only error is a length beyond 255 hashes: 32 bytes are one.
    let expanded = Hkdf::<Sha256>::new(Some(salt), secret).expand(info, &mut derived);
    debug_assert!(expanded.is_ok());
    derived
}

/// A key for one use alone.
pub(super) fn derive(secret: &[u8; KEY_BYTES], info: &[u8]) -> [u8; KEY_BYTES] {
    expand(b"yuzuri", secret, info)
}

/// HMAC-SHA-256 with a key of 32 bytes; HMAC fills keys up to its block with zeros (RFC 2104).
pub(crate) fn keyed_hash(key: &[u8; KEY_BYTES]) -> Hmac<Sha256> {
    let mut block = hmac::digest::Key::<Hmac<Sha256>>::default();
    block[..KEY_BYTES].copy_from_slice(key);
    Hmac::<Sha256>::new(&block)
}

impl fmt::Debug for GroupKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.keyed { "GroupKey(secret)" } else { "GroupKey(none)" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_no_keys() {
        assert_eq!(check_key(&[0; 32]), Err(WeakKey::Repeated(1)));
        assert_eq!(check_key(&[0xa5; 32]), Err(WeakKey::Repeated(1)));
        assert_eq!(check_key(&std::array::from_fn(|n| (n % 5) as u8)), Err(WeakKey::Repeated(5)));
        assert_eq!(check_key(&std::array::from_fn(|n| (n % 16) as u8 * 7)), Err(WeakKey::Repeated(16)));
        assert_eq!(check_key(&std::array::from_fn(|n| n as u8)), Err(WeakKey::Counting(1)));
        assert_eq!(check_key(&std::array::from_fn(|n| 255 - n as u8)), Err(WeakKey::Counting(255)));
        assert_eq!(
            check_key(&std::array::from_fn(|n| 240_u8.wrapping_add(n as u8 * 3))),
            Err(WeakKey::Counting(3))
        );
        assert_eq!(check_key(b"correct horse battery staple 123"), Err(WeakKey::Text));
        let random = derive(&[0; 32], b"some key");
        assert_eq!(check_key(&random), Ok(()));
        assert_eq!(check_pattern(b"abcabcabcabc"), Err(WeakKey::Repeated(3)));
        assert_eq!(check_pattern(b"abcdefghijklm"), Err(WeakKey::Counting(1)));
        assert_eq!(check_pattern(b"four words or more"), Ok(()));
        assert_eq!(check_pattern(b""), Ok(()));
        assert_eq!(check_pattern(b"a"), Ok(()));
    }
}
