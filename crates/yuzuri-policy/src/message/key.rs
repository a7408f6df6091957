//! The group key and the keys derived from it.

use super::GroupId;
use super::authority::{MAX_GENERATION, Membership, Notice, before};
use hkdf::Hkdf;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;

/// Size of a key and of a key file, bytes.
pub const KEY_BYTES: usize = 32;
/// Size of a tag, bytes: HMAC-SHA-256 truncated to its first half (RFC 2104, section 5).
pub const TAG_BYTES: usize = 16;
/// PBKDF2 iterations from a passphrase to a key. They make guessing passphrases from captured
/// messages expensive.
pub const PASSPHRASE_ROUNDS: u32 = 600_000;

/// The secret that the members of a group share.
#[derive(Clone, PartialEq, Eq)]
pub struct Key {
    secret: [u8; KEY_BYTES],
    membership: Option<Membership>,
}

impl Key {
    /// A key from the 32 random bytes of a key file.
    pub const fn from_bytes(secret: [u8; KEY_BYTES]) -> Key {
        Key { secret, membership: None }
    }

    /// The key of one member of a group with an [`Authority`](super::Authority), from the member's
    /// key file.
    pub const fn of_member(secret: [u8; KEY_BYTES], membership: Membership) -> Key {
        Key { secret, membership: Some(membership) }
    }

    /// A key from a passphrase: PBKDF2-HMAC-SHA-256 (RFC 8018) with [`PASSPHRASE_ROUNDS`]
    /// iterations, salted with the group ID, so that a precomputed table is valid for one group
    /// only. It takes a fraction of a second: cache the result, and do not call it on a thread that
    /// must not block.
    pub fn from_passphrase(passphrase: &str, group: GroupId) -> Key {
        let mut key = [0; KEY_BYTES];
        let salt = [&b"yuzuri passphrase 2 "[..], &group.0].concat();
        pbkdf2::pbkdf2_hmac::<Sha256>(passphrase.as_bytes(), &salt, PASSPHRASE_ROUNDS, &mut key);
        Key::from_bytes(key)
    }

    /// The member to which the key was issued, if an authority issued it.
    pub fn membership(&self) -> Option<&Membership> {
        self.membership.as_ref()
    }

    /// The part that all members share.
    pub fn secret(&self) -> &[u8; KEY_BYTES] {
        &self.secret
    }

    /// This member's key after a notice. `None`: the notice is for another member, not from the
    /// authority, or not newer.
    pub fn take(&self, notice: &Notice) -> Option<Key> {
        let membership = self.membership.as_ref()?;
        if notice.generation <= membership.generation || notice.generation > MAX_GENERATION {
            return None;
        }
        let secret = membership.open(notice)?;
        // The chain must lead back to the current key; otherwise the notice belongs to another
        // group.
        let back = (membership.generation..notice.generation).fold(secret, |key, _| before(&key));
        let membership = Membership { generation: notice.generation, ..membership.clone() };
        (back == self.secret).then(|| Key::of_member(secret, membership))
    }

    /// The key of the previous generation, if there was one.
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

/// Why bytes are not accepted as a key: an attacker tries simple patterns first. A false alarm is
/// improbable: of 10^13 random keys, one has such a form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WeakKey {
    /// A repeated pattern of at most half the length.
    #[error("it repeats a pattern of {0} bytes")]
    Repeated(usize),
    /// A constant difference between successive bytes, as in 00 01 02.
    #[error("it is a sequence: each byte differs from the previous one by {0}")]
    Counting(u8),
    /// Printable text only. Text is guessed a million times faster than random bytes.
    #[error(
        "it is text, not random bytes; use it as a `passphrase` instead, which makes it much harder to guess"
    )]
    Text,
}

/// Checks for patterns that an attacker would try.
///
/// # Errors
/// If the bytes have such a pattern, with the pattern.
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

/// Checks that a key may be random: [`check_pattern`], and not text.
///
/// # Errors
/// If the bytes have a pattern or are text, with what was found.
pub fn check_key(bytes: &[u8; KEY_BYTES]) -> Result<(), WeakKey> {
    check_pattern(bytes)?;
    if bytes.iter().all(|byte| (b' '..=b'~').contains(byte)) { Err(WeakKey::Text) } else { Ok(()) }
}

/// The key that signs a group's messages: derived from a [`Key`] for this group only, or publicly
/// known if the group has no key.
#[derive(Clone)]
pub struct GroupKey {
    keyed: bool,
    // The key's two blocks are already hashed, which saves two blocks per message.
    mac: Hmac<Sha256>,
}

impl GroupKey {
    /// Derives the group's key by HKDF-SHA-256 (RFC 5869), so that messages of one access point's
    /// group are not valid at another. Without a key the "secret" is a constant; the tag is then
    /// only a checksum and authenticates nothing.
    pub fn new(key: Option<&Key>, group: GroupId) -> GroupKey {
        let secret = key.map_or(&[0; KEY_BYTES], |key| &key.secret);
        let salt: &[u8] = if key.is_some() { b"yuzuri" } else { b"yuzuri keyless" };
        let derived = expand(salt, secret, &[&b"yuzuri group 1 "[..], &group.0].concat());
        GroupKey { keyed: key.is_some(), mac: keyed_hash(&derived) }
    }

    /// Whether the key is derived from a secret.
    pub fn is_keyed(&self) -> bool {
        self.keyed
    }

    pub(super) fn sign(&self, bytes: &[u8]) -> [u8; TAG_BYTES] {
        let whole = self.mac.clone().chain_update(bytes).finalize().into_bytes();
        let mut tag = [0; TAG_BYTES];
        tag.copy_from_slice(&whole[..TAG_BYTES]);
        tag
    }

    /// Verifies a tag in constant time.
    pub(super) fn verify(&self, bytes: &[u8], tag: &[u8; TAG_BYTES]) -> bool {
        self.mac.clone().chain_update(bytes).verify_truncated_left(tag).is_ok()
    }
}

/// HKDF-SHA-256 with an output of one key.
fn expand(salt: &[u8], secret: &[u8; KEY_BYTES], info: &[u8]) -> [u8; KEY_BYTES] {
    let mut derived = [0; KEY_BYTES];
    // The only possible error is an output beyond 255 hash lengths; 32 bytes are one.
    let expanded = Hkdf::<Sha256>::new(Some(salt), secret).expand(info, &mut derived);
    debug_assert!(expanded.is_ok());
    derived
}

/// Derives a key for a single purpose.
pub(super) fn derive(secret: &[u8; KEY_BYTES], info: &[u8]) -> [u8; KEY_BYTES] {
    expand(b"yuzuri", secret, info)
}

/// HMAC-SHA-256 with a key of 32 bytes; HMAC pads keys to its block size with zeros (RFC 2104).
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
    fn keys_with_a_pattern_are_refused() {
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
