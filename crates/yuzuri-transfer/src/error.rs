//! What can go wrong, in one line each: what was being done, to what, why it failed, and what to do.

use crate::{SendSummary, Target};
use serde::Serialize;
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
    #[error("connection {connection} to {peer} was closed by the other end after {acked_bytes} bytes: {source}{}; {}", said_text(.said), closed_advice(.said))]
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
    #[error("connection {connection} to {peer} stalled: nothing acknowledged for {:.0} s after {acked_bytes} bytes; {}", .silent_for.as_secs_f64(), stall_text(*.window_closed))]
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

/// Which sort of failure it is, for programs: the sentences beside it are for people, and may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// An option is out of range or contradicts another.
    Option,
    /// The name has no address, or none of the family asked for.
    UnknownHost,
    /// The other host answers, but nothing listens at the port.
    Refused,
    /// There is no way to the other host, or to any.
    Unreachable,
    /// The other host did not answer while the connection was being made.
    TimedOut,
    /// A connection could not be made for another reason of the network, or it failed under one that stood.
    Network,
    /// This kernel does not have the congestion control.
    ControlUnknown,
    /// The kernel has the congestion control and does not let this user choose it.
    ControlRefused,
    /// This host does not have the address to send from.
    UnknownAddress,
    /// This host does not have the interface to send through.
    UnknownInterface,
    /// A privilege or a rule of the firewall is in the way.
    Permission,
    /// The kernel refused something else: no more files, a family that it does not speak.
    System,
    /// The other end closed or reset the connection.
    ClosedByPeer,
    /// The other end closed or reset the connection and answered as a web server does: the wrong port, or a network that wants its users to
    /// sign in first (a captive portal).
    WebServer,
    /// Nothing is acknowledged any more: the path or the other host went silent.
    Silent,
    /// Nothing is acknowledged any more, as the program at the other end does not read.
    NotReading,
    /// The report could not be written.
    Report,
    /// It was stopped before the transfer began.
    Stopped,
    /// Sharing was asked for in a way that cannot be: without a key and without leave to do without, for one.
    Sharing,
}

impl SendError {
    /// Which sort of failure it is.
    pub fn kind(&self) -> FailureKind {
        match self {
            SendError::Option(_) => FailureKind::Option,
            SendError::Resolve { .. } => FailureKind::UnknownHost,
            // That of the address that was tried last, which the advice in the sentence is about, too.
            SendError::Connect { attempts, .. } => attempts
                .last()
                .map_or(FailureKind::Network, |(_, source)| kind_of(source, FailureKind::Network)),
            SendError::CongestionControl { source, .. } => match source.raw_os_error() {
                Some(libc::ENOENT) => FailureKind::ControlUnknown,
                _ => FailureKind::ControlRefused,
            },
            SendError::Socket { source, .. } => kind_of(source, FailureKind::System),
            SendError::Closed { said, .. } if is_of_the_web(said) => FailureKind::WebServer,
            SendError::Closed { .. } => FailureKind::ClosedByPeer,
            SendError::Stalled { window_closed: true, .. } => FailureKind::NotReading,
            SendError::Stalled { .. } => FailureKind::Silent,
            SendError::Network { source, .. } => kind_of(source, FailureKind::Network),
            SendError::Report(_) => FailureKind::Report,
            SendError::Stopped => FailureKind::Stopped,
        }
    }
}

/// What the kernel's answer means; `otherwise` where it could mean many things.
fn kind_of(error: &io::Error, otherwise: FailureKind) -> FailureKind {
    match error.raw_os_error() {
        Some(libc::ECONNREFUSED) => FailureKind::Refused,
        Some(libc::ENETUNREACH | libc::EHOSTUNREACH | libc::ENETDOWN | libc::EHOSTDOWN) => {
            FailureKind::Unreachable
        }
        Some(libc::EADDRNOTAVAIL) => FailureKind::UnknownAddress,
        Some(libc::ENODEV) => FailureKind::UnknownInterface,
        Some(libc::EACCES | libc::EPERM) => FailureKind::Permission,
        Some(libc::EADDRINUSE | libc::EAFNOSUPPORT | libc::EMFILE | libc::ENFILE) => FailureKind::System,
        _ if error.kind() == io::ErrorKind::TimedOut => FailureKind::TimedOut,
        _ => otherwise,
    }
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
    #[error("cannot accept connections: {0}; restart the receiver")]
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

/// Whether what was said is the beginning of an answer in HTTP (RFC 9112, section 4).
fn is_of_the_web(said: &Option<String>) -> bool {
    said.as_ref().is_some_and(|text| text.starts_with("HTTP/"))
}

fn closed_advice(said: &Option<String>) -> &'static str {
    if is_of_the_web(said) {
        "that is a web server: check host and port, and sign in with a browser first where the network asks for it"
    } else {
        "look there for the reason"
    }
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
