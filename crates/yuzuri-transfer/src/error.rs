//! What can go wrong, in one line each: what was being done, to what, why it failed, and what to do.

use crate::{SendSummary, Target};
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

/// Why a transfer did not take place or ended early.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// An option is out of range.
    #[error("{0}")]
    Option(String),
    /// The name has no address.
    #[error("cannot find the address of {host}: {reason}; check the name, or give an address")]
    Resolve {
        /// The name.
        host: String,
        /// In the resolver's words.
        reason: String,
    },
    /// No address of the target could be connected to.
    #[error("cannot connect to {target}: {}", attempts_text(.attempts))]
    Connect {
        /// What was asked for.
        target: Target,
        /// Each address that was tried, and why it failed.
        attempts: Vec<(SocketAddr, io::Error)>,
    },
    /// The kernel refused the congestion control.
    #[error("cannot use congestion control `{name}`: {}", congestion_control_text(.name, .available, .source))]
    CongestionControl {
        /// Its name.
        name: String,
        /// What the kernel offers (`net.ipv4.tcp_available_congestion_control`), empty where unreadable.
        available: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The socket could not be made, bound to an address or tied to an interface.
    #[error("cannot {doing}: {source}; {}", advice(.source))]
    Socket {
        /// What was being done.
        doing: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The other end closed or reset a connection while buffers were being sent.
    #[error("connection {connection} to {peer} was closed by the other end after {acked_bytes} bytes: {source}{}; look there for the reason", said_text(.said))]
    Closed {
        /// Number of the connection.
        connection: u32,
        /// The other end.
        peer: SocketAddr,
        /// Bytes acknowledged before.
        acked_bytes: u64,
        /// What the other end said in text before, if anything.
        said: Option<String>,
        /// The kernel's answer.
        source: io::Error,
        /// What was sent until then.
        summary: Box<SendSummary>,
    },
    /// Nothing was acknowledged for too long.
    #[error("connection {connection} to {peer} stands still: nothing acknowledged for {:.0} s after {acked_bytes} bytes; {}", .silent_for.as_secs_f64(), stall_text(*.window_closed))]
    Stalled {
        /// Number of the connection.
        connection: u32,
        /// The other end.
        peer: SocketAddr,
        /// Bytes acknowledged before.
        acked_bytes: u64,
        /// For how long.
        silent_for: Duration,
        /// Whether the other end's window was closed: it is there and does not read.
        window_closed: bool,
        /// What was sent until then.
        summary: Box<SendSummary>,
    },
    /// The network failed under a connection.
    #[error("connection {connection} to {peer} failed after {acked_bytes} bytes: {source}; {}", advice(.source))]
    Network {
        /// Number of the connection.
        connection: u32,
        /// The other end.
        peer: SocketAddr,
        /// Bytes acknowledged before.
        acked_bytes: u64,
        /// The kernel's answer.
        source: io::Error,
        /// What was sent until then.
        summary: Box<SendSummary>,
    },
    /// The report could not be written: a full disk, or a pipe whose reader went away.
    #[error("cannot write the report: {0}; check where the output goes")]
    Report(#[source] io::Error),
    /// The stop flag was set before the transfer began.
    #[error("stopped before the transfer began")]
    Stopped,
}

/// Why the receiver could not start or had to end.
#[derive(Debug, thiserror::Error)]
pub enum ReceiveError {
    /// An option is out of range.
    #[error("{0}")]
    Option(String),
    /// The port is in use.
    #[error("cannot listen on {address}: the port is busy; see who holds it with `ss -ltnp 'sport = :{}'`, or choose another port", .address.port())]
    Busy {
        /// Where.
        address: SocketAddr,
    },
    /// Listening failed for another reason.
    #[error("cannot listen on {address}: {source}; {}", advice(.source))]
    Listen {
        /// Where.
        address: SocketAddr,
        /// The kernel's answer.
        source: io::Error,
    },
    /// Waiting for connections failed.
    #[error("cannot wait for senders: {0}; start the receiver again")]
    Poll(#[source] io::Error),
    /// The report could not be written: a full disk, or a pipe whose reader went away.
    #[error("cannot write the report: {0}; check where the output goes")]
    Report(#[source] io::Error),
}

fn attempts_text(attempts: &[(SocketAddr, io::Error)]) -> String {
    match attempts {
        [(address, error)] => format!("{address}: {error}; {}", advice(error)),
        _ => {
            let each: Vec<String> = attempts.iter().map(|(address, e)| format!("{address}: {e}")).collect();
            let last = attempts.last().map(|(_, error)| advice(error)).unwrap_or_default();
            format!("{}; {last}", each.join("; "))
        }
    }
}

fn congestion_control_text(name: &str, available: &str, source: &io::Error) -> String {
    match source.raw_os_error() {
        Some(libc::ENOENT) => {
            format!(
                "this kernel does not have it; it has: {available}; a module may bring it: modprobe tcp_{name}"
            )
        }
        Some(libc::EPERM) => format!(
            "only root may choose it; allowed to all are those in /proc/sys/net/ipv4/tcp_allowed_congestion_control{}",
            allowed_congestion_control().map(|names| format!(" ({names})")).unwrap_or_default()
        ),
        _ => format!("{source}; this kernel has: {available}"),
    }
}

fn read_names(path: &str) -> Option<String> {
    Some(std::fs::read_to_string(Path::new(path)).ok()?.trim().to_owned())
}

pub(crate) fn available_congestion_control() -> String {
    read_names("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default()
}

fn allowed_congestion_control() -> Option<String> {
    read_names("/proc/sys/net/ipv4/tcp_allowed_congestion_control")
}

fn said_text(said: &Option<String>) -> String {
    said.as_ref().map(|text| format!(" (it said: {text})")).unwrap_or_default()
}

fn stall_text(window_closed: bool) -> &'static str {
    if window_closed {
        "its window is closed: the program there does not read; look whether it hangs, or wait longer with a longer stall timeout"
    } else {
        "the path went silent: look whether the other end is still up and reachable"
    }
}

/// What to do about an error of the network.
pub(crate) fn advice(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::ECONNREFUSED) => {
            "nothing listens there: start `yuzuri receive` on that host, or check the port"
        }
        Some(libc::ENETUNREACH | libc::EHOSTUNREACH) => {
            "there is no way to it: see `ip route get` with that address, and the link"
        }
        Some(libc::EADDRNOTAVAIL) => "this host does not have that address: see `ip addr`",
        Some(libc::ENODEV) => "there is no such interface: see `ip link`",
        Some(libc::EACCES | libc::EPERM) => {
            "a privilege or a firewall rule is in the way: try as root, or see `nft list ruleset`"
        }
        Some(libc::EADDRINUSE) => "the address is in use: choose another",
        Some(libc::EAFNOSUPPORT) => "this host does not speak that family of addresses: use the other",
        Some(libc::EMFILE | libc::ENFILE) => {
            "too many files are open: raise `ulimit -n`, or use fewer connections"
        }
        _ if error.kind() == io::ErrorKind::TimedOut => {
            "no answer came: check the address and whether a firewall drops it"
        }
        _ => "check the network and try again",
    }
}
