//! The settings of a sharing.

use crate::{OwnSockets, ShareError};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use yuzuri_policy::{Aggregation, COMMON_RANK, GroupId, KEY_BYTES, Key, NodeId, PolicyConfig, RadioHint};

/// How to share.
#[derive(Debug, Clone)]
pub struct ShareConfig {
    /// The interfaces that take part. Empty: each that is up, is not loopback, and has a default route or a broadcast address.
    pub interfaces: Vec<InterfaceConfig>,
    /// Which rules bound the windows.
    pub policy: PolicyConfig,
    /// What proves membership.
    pub key: KeySource,
    /// Name under which the congestion control is registered, 1 to 15 letters, digits, `_` and `.`. Each sharing of a machine has its own.
    pub control_name: String,
    /// UDP port of the messages, the same at each member.
    pub port: u16,
    /// Who this terminal is; `None`: drawn at random.
    pub node: Option<NodeId>,
    /// The lower, the rather it leads among those that send.
    pub rank: u8,
    /// The group of all interfaces that do not name one.
    pub group: Option<GroupId>,
    /// A relay for all interfaces that do not name one.
    pub rendezvous: Option<SocketAddr>,
    /// What to do where the kernel part cannot be had.
    pub without_kernel: WithoutKernel,
    /// Where flows that were given back are kept, so that the next process takes them again ([`Places::moved_file`](crate::Places::moved_file)).
    /// `None`: sharings of this process alone know of each other's.
    pub moved_file: Option<PathBuf>,
    /// Flows that the kernel's table of bounds has room for; `None`: as many as this machine may need, at
    /// least 65,536. Beyond it the flows that send least stay plain CUBIC.
    pub bounds_room: Option<u32>,
    /// Bound these sockets of this process alone, by what their owner may set without privilege, instead of all flows by the control.
    pub own: Option<OwnSockets>,
}

impl Default for ShareConfig {
    fn default() -> ShareConfig {
        ShareConfig {
            interfaces: Vec::new(),
            policy: PolicyConfig::default(),
            key: KeySource::Missing,
            control_name: "yuzuri".into(),
            port: crate::DEFAULT_PORT,
            node: None,
            rank: COMMON_RANK,
            group: None,
            rendezvous: None,
            without_kernel: WithoutKernel::default(),
            moved_file: None,
            bounds_room: None,
            own: None,
        }
    }
}

/// An interface that takes part.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct InterfaceConfig {
    /// Its name.
    pub name: String,
    /// The group, where it is not to be told from the access point.
    pub group: Option<GroupId>,
    /// A relay for networks where terminals do not hear each other.
    pub rendezvous: Option<SocketAddr>,
    /// The radio, where the kernel does not tell it.
    pub radio: Option<RadioConfig>,
}

impl InterfaceConfig {
    /// An interface of which everything is found out.
    pub fn named(name: impl Into<String>) -> InterfaceConfig {
        InterfaceConfig { name: name.into(), ..InterfaceConfig::default() }
    }

    /// The group of a name that people choose.
    pub fn group_named(name: &str) -> GroupId {
        GroupId::of(&[b"named ", name.as_bytes()].concat())
    }
}

/// A radio that is told, not asked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RadioConfig {
    /// Physical rate, Mbit/s; 0.1 to 100,000.
    pub rate_mbps: f64,
    /// How it aggregates.
    pub aggregation: Aggregation,
}

impl RadioConfig {
    /// What it is worth.
    pub fn hint(self) -> RadioHint {
        RadioHint::of_link((self.rate_mbps * 1e6) as u64, self.aggregation)
    }
}

/// What to do where the control cannot be registered: no privilege, a kernel without struct_ops, a name that is taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WithoutKernel {
    /// End with the reason.
    #[default]
    Exit,
    /// Say so, join the group and watch it; bound nothing.
    Watch,
}

/// Where the key is.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum KeySource {
    /// Nowhere: an error in so many words.
    #[default]
    Missing,
    /// A file of 32 bytes, or of their 64 hexadecimal digits.
    File(PathBuf),
    /// Words.
    Passphrase(String),
    /// The key itself.
    Key(Key),
    /// None, and groups without one are joined: anybody on the network can then say anything.
    Keyless,
}

impl fmt::Debug for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeySource::Missing => f.write_str("Missing"),
            KeySource::File(file) => write!(f, "File({})", file.display()),
            KeySource::Passphrase(_) => f.write_str("Passphrase(secret)"),
            KeySource::Key(_) => f.write_str("Key(secret)"),
            KeySource::Keyless => f.write_str("Keyless"),
        }
    }
}

/// Least length of a passphrase, letters: shorter ones are guessed from one recorded message.
const LEAST_PASSPHRASE: usize = 12;

impl KeySource {
    /// The key; none where groups without one are joined.
    ///
    /// # Errors
    /// No key and no leave to do without; a file that cannot be used; a passphrase that is too short.
    pub fn load(&self) -> Result<Option<Key>, ShareError> {
        match self {
            KeySource::Missing => Err(ShareError::NoKey),
            KeySource::Keyless => Ok(None),
            KeySource::Key(key) => Ok(Some(key.clone())),
            KeySource::Passphrase(words) if words.chars().count() < LEAST_PASSPHRASE => {
                Err(ShareError::Setting {
                    field: "passphrase".into(),
                    why: format!("it must have {LEAST_PASSPHRASE} letters at least; better is a key file"),
                })
            }
            KeySource::Passphrase(words) => Ok(Some(Key::from_passphrase(words))),
            KeySource::File(file) => read_key(file).map(Some),
        }
    }
}

fn read_key(file: &Path) -> Result<Key, ShareError> {
    let wrong = |why: String| ShareError::KeyFile { file: file.to_owned(), why };
    let bytes = std::fs::read(file).map_err(|e| match e.kind() {
        ErrorKind::NotFound => wrong("it does not exist; `yuzuri share key FILE` makes one".into()),
        _ => wrong(e.to_string()),
    })?;
    let key = <[u8; KEY_BYTES]>::try_from(bytes.as_slice()).ok().or_else(|| {
        let text = std::str::from_utf8(&bytes).ok()?.trim();
        from_hex(text)
    });
    key.map(Key::from_bytes).ok_or_else(|| {
        wrong(format!(
            "it holds {} bytes; a key is {KEY_BYTES} bytes or their {} hexadecimal digits, as `yuzuri share key FILE` writes them",
            bytes.len(),
            2 * KEY_BYTES
        ))
    })
}

fn from_hex(text: &str) -> Option<[u8; KEY_BYTES]> {
    let digits: Vec<u8> =
        text.chars().map(|c| c.to_digit(16).map(|d| d as u8)).collect::<Option<Vec<u8>>>()?;
    let (pairs, rest) = digits.as_chunks::<2>();
    let bytes: Vec<u8> = pairs.iter().map(|[high, low]| high << 4 | low).collect();
    if rest.is_empty() { bytes.try_into().ok() } else { None }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn keys_are_read_as_bytes_and_as_digits() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        std::fs::write(&file, [0xa5; 32]).unwrap();
        let key = KeySource::File(file.clone()).load().unwrap();
        std::fs::write(&file, format!("{}\n", "a5".repeat(32))).unwrap();
        assert!(KeySource::File(file.clone()).load().unwrap() == key && key.is_some());
        for wrong in [vec![1; 31], b"a5a5".to_vec(), "zz".repeat(32).into_bytes()] {
            std::fs::write(&file, wrong).unwrap();
            let error = KeySource::File(file.clone()).load().unwrap_err().to_string();
            assert!(error.contains("64 hexadecimal digits"), "{error}");
        }
        let error = KeySource::File(folder.path().join("none")).load().unwrap_err().to_string();
        assert!(error.contains("does not exist"), "{error}");
    }

    #[test]
    fn without_a_key_it_says_so() {
        assert!(matches!(KeySource::Missing.load(), Err(ShareError::NoKey)));
        assert!(matches!(KeySource::Keyless.load(), Ok(None)));
        assert!(matches!(KeySource::Passphrase("short".into()).load(), Err(ShareError::Setting { .. })));
        assert!(!format!("{:?}", KeySource::Passphrase("hidden words".into())).contains("hidden"));
    }
}
