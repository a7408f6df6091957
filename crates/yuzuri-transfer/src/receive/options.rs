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
    /// Most connections at once, 1 to [`ReceiveOptions::MOST_CONNECTIONS`]; 256. One more is told so in a line of text and closed.
    pub max_connections: usize,
    /// Most connections at once from one address; 64.
    pub max_per_peer: usize,
    /// A connection that sends nothing for so long is closed; 60 s.
    pub idle_timeout: Duration,
    /// A connection is closed once it has sent so many bytes.
    pub max_bytes: Option<u64>,
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
            max_bytes: None,
            max_time: None,
            once: false,
            progress_interval: Duration::from_secs(1),
        }
    }
}

impl ReceiveOptions {
    /// Most connections at once.
    pub const MOST_CONNECTIONS: usize = 10_000;

    pub(super) fn check(&self) -> Result<(), ReceiveError> {
        let wrong = |text: String| Err(ReceiveError::Option(text));
        if !(1..=Self::MOST_CONNECTIONS).contains(&self.max_connections) {
            return wrong(format!(
                "at most {} connections is not possible: choose 1 to {}",
                self.max_connections,
                Self::MOST_CONNECTIONS
            ));
        }
        if self.max_per_peer == 0 {
            return wrong("no connection per sender is not possible: choose at least 1".to_owned());
        }
        if self.max_bytes == Some(0) {
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
