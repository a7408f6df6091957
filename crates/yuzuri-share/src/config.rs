//! The settings of a sharing.

use crate::OwnSockets;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use yuzuri_policy::{Aggregation, COMMON_RANK, GroupId, Key, NodeId, Notice, PolicyConfig, RadioHint};

/// How to share.
#[derive(Debug, Clone)]
pub struct ShareConfig {
    /// The interfaces that take part. Empty: each that is up, is not loopback, and has a default route or a broadcast address.
    pub interfaces: Vec<InterfaceConfig>,
    /// Which rules bound the windows.
    pub policy: PolicyConfig,
    /// What proves membership.
    pub key: KeySource,
    /// A second key that is accepted, and nothing is sent with: for changing keys without splitting the group.
    pub accepts: Option<KeySource>,
    /// What tells members the group's next key, as an authority wrote it when it shut somebody out.
    pub notice_file: Option<PathBuf>,
    /// What this terminal was told before of the group's key ([`kept_notice`](crate::kept_notice)).
    pub told: Option<Notice>,
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
    /// Where flows that were given back are kept, so that the next process takes them again ([`Places::migrated_file`](crate::Places::migrated_file)).
    /// `None`: sharings of this process alone know of each other's.
    pub migrated_file: Option<PathBuf>,
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
            accepts: None,
            notice_file: None,
            told: None,
            control_name: "yuzuri".into(),
            port: crate::DEFAULT_PORT,
            node: None,
            rank: COMMON_RANK,
            group: None,
            rendezvous: None,
            without_kernel: WithoutKernel::default(),
            migrated_file: None,
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
    /// A file of 32 bytes, of their 64 hexadecimal digits, or of what an authority gave this terminal.
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
