//! The group's key and what is derived from it.

use super::GroupId;
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
pub struct Key([u8; KEY_BYTES]);

impl Key {
    /// 32 random bytes, as a key file holds them.
    pub const fn from_bytes(bytes: [u8; KEY_BYTES]) -> Key {
        Key(bytes)
    }

    /// From words: PBKDF2-HMAC-SHA-256 (RFC 8018) with [`PASSPHRASE_ROUNDS`] rounds. Takes a part of a second; once per start.
    pub fn from_passphrase(passphrase: &str) -> Key {
        let mut key = [0; KEY_BYTES];
        pbkdf2::pbkdf2_hmac::<Sha256>(
            passphrase.as_bytes(),
            b"yuzuri passphrase 1",
            PASSPHRASE_ROUNDS,
            &mut key,
        );
        Key(key)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(secret)")
    }
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
        let mut derived = [0; KEY_BYTES];
        let secret = key.map_or(&[0; KEY_BYTES], |key| &key.0);
        let mut info = *b"yuzuri group 1 ........";
        info[15..].copy_from_slice(&group.0);
        // The only error is a length beyond 255 hashes: 32 bytes are one.
        let salt: &[u8] = if key.is_some() { b"yuzuri" } else { b"yuzuri keyless" };
        let expanded = Hkdf::<Sha256>::new(Some(salt), secret).expand(&info, &mut derived);
        debug_assert!(expanded.is_ok());
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
