//! The settings of the sharing daemon.

use crate::OwnSockets;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use yuzuri_policy::{
    Aggregation, COMMON_RANK, GroupId, Key, NodeId, Notice, PolicyConfig, RadioHint, TerminalName,
};

/// The settings of a [`ControlLoop`](crate::ControlLoop).
#[derive(Debug, Clone)]
pub struct ShareConfig {
    /// The interfaces to use. Empty: every interface that is up, is not loopback, and has a default
    /// route or a broadcast address.
    pub interfaces: Vec<InterfaceConfig>,
    /// The policy that computes the bounds.
    pub policy: PolicyConfig,
    /// The key that authenticates members.
    pub key: KeySource,
    /// A second key that is accepted but never used for sending. It allows a key change without
    /// splitting the group.
    pub accepts: Option<KeySource>,
    /// File of the notices that an authority wrote when it excluded a member. They carry the next
    /// group key to the members.
    pub notice_file: Option<PathBuf>,
    /// The latest group key notice that this terminal received before
    /// ([`kept_notice`](crate::kept_notice)).
    pub known_notice: Option<Notice>,
    /// Name under which the congestion control is registered: 1 to 15 letters, digits, `_` and `.`.
    /// Each daemon on a machine needs its own name.
    pub control_name: String,
    /// UDP port of the group messages; the same for every member.
    pub port: u16,
    /// The node ID of this terminal; `None`: a random one.
    pub node: Option<NodeId>,
    /// Rank in the leader election: among the members that send, a lower rank is preferred.
    pub rank: u8,
    /// The name under which the other members show this terminal; `None`: none is announced, and
    /// they show its node ID.
    pub terminal_name: Option<TerminalName>,
    /// The group of every interface that does not set its own.
    pub group: Option<GroupId>,
    /// The rendezvous relay of every interface that does not set its own.
    pub rendezvous: Option<SocketAddr>,
    /// What to do if the congestion control cannot be registered.
    pub without_kernel: WithoutKernel,
    /// File that records flows whose former congestion control was restored, so that the next
    /// process can migrate them again
    /// ([`DaemonFiles::migrated_file`](crate::DaemonFiles::migrated_file)). `None`: only control
    /// loops of this process share that record.
    pub migrated_file: Option<PathBuf>,
    /// Capacity of the kernel's table of bounds, in flows. `None`: as many as this machine may
    /// need, at least 65,536. If the table is full, the flows with the lowest rates stay plain
    /// CUBIC.
    pub bounds_capacity: Option<u32>,
    /// Bound only these sockets of this process, by means that need no privilege, instead of
    /// bounding all flows through the congestion control.
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
            known_notice: None,
            control_name: "yuzuri".into(),
            port: crate::DEFAULT_PORT,
            node: None,
            rank: COMMON_RANK,
            terminal_name: None,
            group: None,
            rendezvous: None,
            without_kernel: WithoutKernel::default(),
            migrated_file: None,
            bounds_capacity: None,
            own: None,
        }
    }
}

/// The settings of one interface.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct InterfaceConfig {
    /// The interface name.
    pub name: String,
    /// The group; `None`: derived from the access point.
    pub group: Option<GroupId>,
    /// A rendezvous relay, for networks where terminals cannot receive each other's multicast or
    /// broadcast.
    pub rendezvous: Option<SocketAddr>,
    /// The radio, if the kernel does not report it.
    pub radio: Option<RadioConfig>,
}

impl InterfaceConfig {
    /// An interface with automatic settings.
    pub fn named(name: impl Into<String>) -> InterfaceConfig {
        InterfaceConfig { name: name.into(), ..InterfaceConfig::default() }
    }

    /// The group ID for a configured group name.
    pub fn group_named(name: &str) -> GroupId {
        GroupId::of(&[b"named ", name.as_bytes()].concat())
    }
}

/// Radio properties set by configuration instead of read through nl80211.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RadioConfig {
    /// PHY rate, Mbit/s; 0.1 to 100,000.
    pub rate_mbps: f64,
    /// Frame aggregation.
    pub aggregation: Aggregation,
}

impl RadioConfig {
    /// The capacity estimate that these properties give.
    pub fn hint(self) -> RadioHint {
        RadioHint::of_link((self.rate_mbps * 1e6) as u64, self.aggregation)
    }
}

/// What to do if the congestion control cannot be registered: missing privilege, a kernel without
/// struct_ops, or a name that is in use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WithoutKernel {
    /// Exit with the error.
    #[default]
    Exit,
    /// Report the error, join the group and observe it, without bounding any flow.
    Watch,
}

/// The source of a key.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum KeySource {
    /// No source is configured: [`ShareError`](crate::ShareError) explains how to create a key.
    #[default]
    Missing,
    /// A file with 32 bytes, with the same as 64 hexadecimal digits, or as issued by an authority.
    File(PathBuf),
    /// A passphrase.
    Passphrase(String),
    /// The key itself.
    Key(Key),
    /// No key: join groups without authentication. Anybody on the network can then forge messages.
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
