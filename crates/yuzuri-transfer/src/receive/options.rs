//! What the receiver is asked to do.

use crate::{DEFAULT_PORT, ReceiveError};
use std::net::IpAddr;
use std::time::Duration;

/// What the receiver takes. The fields are public: take the default and change what is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceiveOptions {
    /// Address to listen on; all of this host's, IPv4 and IPv6, where `None`.
    pub bind: Option<IpAddr>,
    /// TCP port; [`DEFAULT_PORT`]. 0 lets the kernel choose.
    pub port: u16,
    /// Most connections at once, 1 to [`ReceiveOptions::MAX_CONNECTIONS`]; 256. One more is told so in a
    /// line of text and closed.
    pub max_connections: usize,
    /// Most connections at once from one address; 64.
    pub max_per_peer: usize,
    /// A connection that sends nothing for so long is closed; 60 s.
    pub idle_timeout: Duration,
    /// A connection is closed once it has sent so many bytes; 100 GB. No limit where `None`.
    pub max_bytes: Option<u64>,
    /// The receiver ends once so many bytes came over all connections; 1 TB. No limit where `None`.
    pub max_total_bytes: Option<u64>,
    /// A connection is closed after this time.
    pub max_time: Option<Duration>,
    /// Ends when the first senders are done: once bytes were received and no connection is open any more.
    pub once: bool,
    /// How often progress is reported while connections are open; 1 s.
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
            progress_interval: Duration::from_secs(1),
        }
    }
}

impl ReceiveOptions {
    /// Most connections at once.
    pub const MAX_CONNECTIONS: usize = 10_000;
    /// What a connection may send where nothing else is said. The receiver may be reached by strangers: what
    /// it takes from them has an end.
    pub const USUAL_MAX_BYTES: u64 = 100_000_000_000;
    /// What all connections together may send where nothing else is said.
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
