//! Options of the receiver.

use crate::{DEFAULT_PORT, ReceiveError};
use std::net::IpAddr;
use std::time::Duration;

/// Options of the receiver. The fields are public: start with the default and change the ones you
/// need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceiveOptions {
    /// Address to listen on. Default `None`: all addresses of this host, IPv4 and IPv6.
    pub bind: Option<IpAddr>,
    /// TCP port. Default: [`DEFAULT_PORT`]. 0 lets the kernel choose.
    pub port: u16,
    /// Maximum number of simultaneous connections, 1 to [`ReceiveOptions::MAX_CONNECTIONS`].
    /// Default: 256. Further connections receive the reason as one line of text and are closed.
    pub max_connections: usize,
    /// Maximum number of simultaneous connections from one address. Default: 64.
    pub max_per_peer: usize,
    /// A connection that sends nothing for this time is closed. Default: 60 s.
    pub idle_timeout: Duration,
    /// Limit of bytes per connection, after which it is closed. Default: 100 GB; `None`: no limit.
    pub max_bytes: Option<u64>,
    /// Limit of bytes over all connections, after which the receiver ends. Default: 1 TB; `None`:
    /// no limit.
    pub max_total_bytes: Option<u64>,
    /// Maximum duration of a connection, after which it is closed. Default `None`: no limit.
    pub max_time: Option<Duration>,
    /// Whether the receiver ends when the first senders are done: bytes have been received and no
    /// connection is open.
    pub once: bool,
    /// Whether it also sends buffers on request ([`fetch`](crate::fetch)), within the limits above.
    /// Anyone who can reach the port can then make this host send. Default: no.
    pub reverse: bool,
    /// Interval of progress events while connections are open. Default: 1 s.
    pub progress_interval: Duration,
}

impl Default for ReceiveOptions {
    fn default() -> Self {
        ReceiveOptions {
            bind: None,
            port: DEFAULT_PORT,
            max_connections: 256,
            max_per_peer: 64,
            idle_timeout: Duration::from_secs(60),
            max_bytes: Some(Self::USUAL_MAX_BYTES),
            max_total_bytes: Some(Self::USUAL_MAX_TOTAL_BYTES),
            max_time: None,
            once: false,
            reverse: false,
            progress_interval: Duration::from_secs(1),
        }
    }
}

impl ReceiveOptions {
    /// Maximum number of simultaneous connections.
    pub const MAX_CONNECTIONS: usize = 10_000;
    /// Default limit of bytes per connection. Strangers may reach the receiver, so what it accepts
    /// is limited.
    pub const USUAL_MAX_BYTES: u64 = 100_000_000_000;
    /// Default limit of bytes over all connections.
    pub const USUAL_MAX_TOTAL_BYTES: u64 = 1_000_000_000_000;

    pub(super) fn check(&self) -> Result<(), ReceiveError> {
        let wrong = |text: String| Err(ReceiveError::Option(text));
        if !(1..=Self::MAX_CONNECTIONS).contains(&self.max_connections) {
            return wrong(format!(
                "at most {} connections is not possible: choose 1 to {}",
                self.max_connections,
                Self::MAX_CONNECTIONS
            ));
        }
        if self.max_per_peer == 0 {
            return wrong("no connection per sender is not possible: choose at least 1".to_owned());
        }
        if self.max_bytes == Some(0) || self.max_total_bytes == Some(0) {
            return wrong("a limit of no bytes is not possible: choose at least 1".to_owned());
        }
        if self.idle_timeout.is_zero()
            || self.progress_interval.is_zero()
            || self.max_time == Some(Duration::ZERO)
        {
            return wrong("a time limit cannot be zero: choose a longer time".to_owned());
        }
        Ok(())
    }
}
