//! The identity of flows.

use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// A flow's identity, the kernel's socket cookie (`sock_gen_cookie`): unique until the next reboot.
/// Each end of a connection on one machine is a flow of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FlowId(pub u64);

impl std::fmt::Display for FlowId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

/// Which end opened the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// The flow was already open when the observation began, so its opener is unknown.
    #[default]
    Unknown,
    /// This socket sent the SYN (`TCP_SYN_SENT`).
    Opened,
    /// This socket answered a SYN (`TCP_SYN_RECV`).
    Accepted,
}

impl Role {
    /// Every role.
    pub const ALL: [Role; 3] = [Role::Unknown, Role::Opened, Role::Accepted];

    /// The word used in recordings and on screens.
    pub fn name(self) -> &'static str {
        match self {
            Role::Unknown => "unknown",
            Role::Opened => "opened",
            Role::Accepted => "accepted",
        }
    }

    /// The role of that name.
    pub fn from_name(name: &str) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.name() == name)
    }
}

/// The process that owns a socket.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Owner {
    /// Process id in the initial pid namespace (in the watcher's, if the watcher polls).
    pub pid: u32,
    /// The process' name (`/proc/PID/comm`, at most 15 bytes).
    pub name: String,
}

/// A TCP connection as seen from one of its ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flow {
    /// The socket cookie.
    pub id: FlowId,
    /// This end's address and port. IPv4 over an IPv6 socket appears as IPv4.
    pub local: SocketAddr,
    /// The other end's address and port.
    pub remote: SocketAddr,
    /// Inode number of the network namespace the socket lives in (`ls -iL /run/netns`).
    pub netns: u32,
    /// The namespace's name in `/run/netns`, if it has one there.
    pub netns_name: Option<String>,
    /// The owner, once known: immediately for connections opened during the observation, within
    /// about a second otherwise, never for sockets that no process holds any more.
    pub owner: Option<Owner>,
    /// Id of the socket's cgroup (version 2; inode number of its folder); 0 where unknown.
    pub cgroup: u64,
    /// Name of the congestion control in use (`icsk_ca_ops->name`), empty where unknown.
    pub congestion_control: String,
    /// Which end opened the connection.
    pub role: Role,
    /// The socket's inode number (`socket:[N]` in `/proc/PID/fd`), 0 where unknown.
    pub inode: u64,
}

impl Default for Flow {
    fn default() -> Self {
        let nowhere = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
        Flow {
            id: FlowId(0),
            local: nowhere,
            remote: nowhere,
            netns: 0,
            netns_name: None,
            owner: None,
            cgroup: 0,
            congestion_control: String::new(),
            role: Role::Unknown,
            inode: 0,
        }
    }
}

impl std::fmt::Display for Flow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} > {}", self.local, self.remote)
    }
}
