//! Errors of transfers. Each message is one line that states what was being done, to what, why it
//! failed, and what to do.

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
    /// The host name could not be resolved, or it has no address of the requested family.
    #[error("cannot find the address of {host}: {reason}; check the name, or give an address")]
    Resolve {
        /// The host name.
        host: String,
        /// The resolver's error message.
        reason: String,
    },
    /// None of the target's addresses accepted a connection.
    #[error("cannot connect to {target}: {}", attempts_text(.target, .attempts))]
    Connect {
        /// The requested target.
        target: Target,
        /// Each address that was tried, and its error.
        attempts: Vec<(SocketAddr, io::Error)>,
    },
    /// The kernel refused the congestion control.
    #[error("cannot use congestion control `{name}`: {}", congestion_control_text(.name, .available, .source))]
    CongestionControl {
        /// Name of the congestion control.
        name: String,
        /// Available congestion controls (`net.ipv4.tcp_available_congestion_control`); empty if
        /// the list cannot be read.
        available: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The socket could not be created, configured, bound to an address or tied to an interface.
    #[error("cannot {doing}: {source}; {}", advice(.source))]
    Socket {
        /// The operation that failed.
        doing: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The peer closed or reset a connection while buffers were being sent.
    #[error("connection {connection} to {peer} was closed by the peer after {acked_bytes} bytes: {source}{}; {}", peer_text_note(.peer_text), closed_advice(.peer_text))]
    Closed {
        /// Number of the connection.
        connection: u32,
        /// Address of the peer.
        peer: SocketAddr,
        /// Bytes acknowledged before the failure.
        acked_bytes: u64,
        /// Text that the peer sent, if any.
        peer_text: Option<String>,
        /// The kernel's error.
        source: io::Error,
        /// Summary of the transfer up to the failure.
        summary: Box<SendSummary>,
    },
    /// Nothing was acknowledged for [`stall_timeout`](crate::SendOptions::stall_timeout).
    #[error("connection {connection} to {peer} stalled: nothing acknowledged for {:.0} s after {acked_bytes} bytes; {}", .silent_for.as_secs_f64(), stall_text(*.window_closed))]
    Stalled {
        /// Number of the connection.
        connection: u32,
        /// Address of the peer.
        peer: SocketAddr,
        /// Bytes acknowledged before the stall.
        acked_bytes: u64,
        /// Time without an acknowledgement.
        silent_for: Duration,
        /// Whether the peer's receive window was closed: the peer responds but does not read.
        window_closed: bool,
        /// Summary of the transfer up to the failure.
        summary: Box<SendSummary>,
    },
    /// The network failed while a connection was established.
    #[error("connection {connection} to {peer} failed after {acked_bytes} bytes: {source}; {}", advice(.source))]
    Network {
        /// Number of the connection.
        connection: u32,
        /// Address of the peer.
        peer: SocketAddr,
        /// Bytes acknowledged before the failure.
        acked_bytes: u64,
        /// The kernel's error.
        source: io::Error,
        /// Summary of the transfer up to the failure.
        summary: Box<SendSummary>,
    },
    /// The other end was asked to send, and does not.
    #[error("{peer} does not send in reverse: {}; {}", not_reversed_text(.peer_text), not_reversed_advice(.peer_text))]
    NotReversed {
        /// Address of the other end.
        peer: SocketAddr,
        /// The peer's message instead, if any.
        peer_text: Option<String>,
    },
    /// The other end was sending, and a connection failed, or nothing arrived for
    /// [`stall_timeout`](crate::SendOptions::stall_timeout).
    #[error("connection {connection} from {peer} failed after {bytes} bytes: {source}; {}", advice(.source))]
    Interrupted {
        /// Number of the connection.
        connection: u32,
        /// Address of the other end.
        peer: SocketAddr,
        /// Bytes received before.
        bytes: u64,
        /// The kernel's error.
        source: io::Error,
    },
    /// The report could not be written, for example because of a full disk or a closed pipe.
    #[error("cannot write the report: {0}; check the output file or pipe")]
    Report(#[source] io::Error),
    /// The stop flag was set before the transfer began.
    #[error("stopped before the transfer began")]
    Stopped,
}

/// Machine-readable kind of a failure. The accompanying messages are for people and may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// An option is out of range or contradicts another.
    Option,
    /// The host name could not be resolved, or it has no address of the requested family.
    UnknownHost,
    /// The host answered, but nothing listens on the port.
    Refused,
    /// There is no route to the host, or the network is down.
    Unreachable,
    /// The host did not answer the connection attempt in time.
    TimedOut,
    /// A connection could not be established, or an established one failed, for another network
    /// reason.
    Network,
    /// The kernel does not have the requested congestion control.
    ControlUnknown,
    /// The kernel has the congestion control but does not allow this user to select it.
    ControlRefused,
    /// This host does not have the source address.
    UnknownAddress,
    /// This host does not have the requested interface.
    UnknownInterface,
    /// A missing privilege or a firewall rule prevents the operation.
    Permission,
    /// The kernel refused for another reason, such as the limit on open files or an unsupported
    /// address family.
    System,
    /// The peer closed or reset the connection.
    ClosedByPeer,
    /// The peer closed or reset the connection and answered like a web server. Either the port is
    /// wrong or the network requires a sign-in first (captive portal).
    WebServer,
    /// Nothing is acknowledged any more: the path or the peer went silent.
    Silent,
    /// Nothing is acknowledged any more because the program at the peer does not read.
    NotReading,
    /// The other end was asked to send, and does not: it is an older version, another program, or
    /// not allowed to.
    NotReversed,
    /// The report could not be written.
    Report,
    /// The transfer was stopped before it began.
    Stopped,
    /// The sharing options cannot be used, for example without a key and without permission to
    /// share without one.
    Sharing,
}

impl SendError {
    /// The other end was asked to send, and answered this instead.
    pub(crate) fn not_reversed(peer: SocketAddr, text: &str) -> SendError {
        let clean: String =
            text.chars().filter(|c| !c.is_control() && *c != char::REPLACEMENT_CHARACTER).collect();
        SendError::NotReversed { peer, peer_text: (!clean.is_empty()).then_some(clean) }
    }

    /// The kind of this failure.
    pub fn kind(&self) -> FailureKind {
        match self {
            SendError::Option(_) => FailureKind::Option,
            SendError::Resolve { .. } => FailureKind::UnknownHost,
            // The kind of the last address tried, which the advice in the message also refers to.
            SendError::Connect { attempts, .. } => attempts
                .last()
                .map_or(FailureKind::Network, |(_, source)| kind_of(source, FailureKind::Network)),
            SendError::CongestionControl { source, .. } => match source.raw_os_error() {
                Some(libc::ENOENT) => FailureKind::ControlUnknown,
                _ => FailureKind::ControlRefused,
            },
            SendError::Socket { source, .. } => kind_of(source, FailureKind::System),
            SendError::Closed { peer_text, .. } if is_http_response(peer_text) => FailureKind::WebServer,
            SendError::Closed { .. } => FailureKind::ClosedByPeer,
            SendError::Stalled { window_closed: true, .. } => FailureKind::NotReading,
            SendError::Stalled { .. } => FailureKind::Silent,
            SendError::Network { source, .. } => kind_of(source, FailureKind::Network),
            SendError::NotReversed { peer_text, .. } if is_http_response(peer_text) => FailureKind::WebServer,
            SendError::NotReversed { .. } => FailureKind::NotReversed,
            SendError::Interrupted { source, .. } => match source.raw_os_error() {
                Some(libc::ECONNRESET) => FailureKind::ClosedByPeer,
                _ if source.kind() == io::ErrorKind::TimedOut => FailureKind::Silent,
                _ => kind_of(source, FailureKind::Network),
            },
            SendError::Report(_) => FailureKind::Report,
            SendError::Stopped => FailureKind::Stopped,
        }
    }
}

/// Maps the kernel's error to a kind; `otherwise` if the error has no specific meaning.
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
    #[error("cannot listen on {address}: the port is busy; find the process with `ss -ltnp 'sport = :{}'`, or choose another port", .address.port())]
    Busy {
        /// The address it was to listen on.
        address: SocketAddr,
    },
    /// Listening failed for another reason.
    #[error("cannot listen on {address}: {source}; {}", advice(.source))]
    Listen {
        /// The address it was to listen on.
        address: SocketAddr,
        /// The kernel's error.
        source: io::Error,
    },
    /// Waiting for connections failed.
    #[error("cannot accept connections: {0}; restart the receiver")]
    Poll(#[source] io::Error),
    /// The report could not be written, for example because of a full disk or a closed pipe.
    #[error("cannot write the report: {0}; check the output file or pipe")]
    Report(#[source] io::Error),
}

fn attempts_text(target: &Target, attempts: &[(SocketAddr, io::Error)]) -> String {
    match attempts {
        [(address, error)] if *address.to_string() == target.to_string() => {
            format!("{error}; {}", advice(error))
        }
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
                "this kernel does not have it; it has: {available}; a module may provide it: modprobe tcp_{name}"
            )
        }
        Some(libc::EPERM) => format!(
            "only root may choose it; all users may choose those in /proc/sys/net/ipv4/tcp_allowed_congestion_control{}",
            allowed_congestion_control().map(|names| format!(" ({names})")).unwrap_or_default()
        ),
        _ => format!("{source}; this kernel has: {available}"),
    }
}

fn read_text(path: &str) -> Option<String> {
    Some(std::fs::read_to_string(Path::new(path)).ok()?.trim().to_owned())
}

pub(crate) fn available_congestion_control() -> String {
    read_text("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default()
}

fn allowed_congestion_control() -> Option<String> {
    read_text("/proc/sys/net/ipv4/tcp_allowed_congestion_control")
}

fn peer_text_note(peer_text: &Option<String>) -> String {
    peer_text.as_ref().map(|text| format!(" (its message: {text})")).unwrap_or_default()
}

fn not_reversed_text(peer_text: &Option<String>) -> String {
    match peer_text {
        Some(text) => format!("its message is: {text}"),
        None => "it did not answer the request".to_owned(),
    }
}

fn not_reversed_advice(peer_text: &Option<String>) -> &'static str {
    if is_http_response(peer_text) {
        closed_advice(peer_text)
    } else if peer_text.is_some() {
        "change that there, or run `yuzuri send` on that host"
    } else {
        "an older `yuzuri receive` or another program listens there: update it, or run `yuzuri send` on that host"
    }
}

/// Whether the peer's text begins like an HTTP response (RFC 9112, section 4).
fn is_http_response(peer_text: &Option<String>) -> bool {
    peer_text.as_ref().is_some_and(|text| text.starts_with("HTTP/"))
}

fn closed_advice(peer_text: &Option<String>) -> &'static str {
    if is_http_response(peer_text) {
        "the peer is a web server: check host and port, and sign in with a browser first if the network requires it"
    } else {
        "check the peer for the reason"
    }
}

fn stall_text(window_closed: bool) -> &'static str {
    if window_closed {
        "its receive window is closed because the program there does not read: check whether it hangs, or set a longer stall timeout"
    } else {
        "no acknowledgement arrives: check whether the peer is up and reachable"
    }
}

/// Advice for a network error.
pub(crate) fn advice(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::ECONNREFUSED) => {
            "nothing listens on that port: start `yuzuri receive` on that host, or check the port"
        }
        Some(libc::ENETUNREACH | libc::EHOSTUNREACH) => {
            "there is no route: check the link and `ip route get` with that address"
        }
        Some(libc::EADDRNOTAVAIL) => "this host does not have that address: see `ip addr`",
        Some(libc::ENODEV) => "there is no such interface: see `ip link`",
        Some(libc::EACCES | libc::EPERM) => {
            "a missing privilege or a firewall rule prevents it: try as root, or see `nft list ruleset`"
        }
        Some(libc::EADDRINUSE) => "the address is in use: choose another",
        Some(libc::EAFNOSUPPORT) => "this host does not support that address family: use the other",
        Some(libc::EMFILE | libc::ENFILE) => {
            "too many files are open: raise `ulimit -n`, or use fewer connections"
        }
        _ if error.kind() == io::ErrorKind::TimedOut => {
            "no answer: check the address and whether a firewall drops the packets"
        }
        _ => "check the network and try again",
    }
}
