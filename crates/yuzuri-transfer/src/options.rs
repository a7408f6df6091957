//! Options of a transfer.

use crate::{Family, Gate, SendError, Target};
use std::fmt;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Options of a transfer. The fields are public: start with [`SendOptions::new`] and change the
/// ones you need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SendOptions {
    /// Host and port to send to.
    pub target: Target,
    /// Which of the target's addresses are tried, in the resolver's order. Default: all.
    pub family: Family,
    /// Local source address.
    pub bind: Option<IpAddr>,
    /// Interface to send through (`SO_BINDTODEVICE`).
    pub interface: Option<String>,
    /// Number of parallel connections, 1 to [`SendOptions::MAX_CONNECTIONS`]. Default: 1.
    pub connections: u32,
    /// Length of a buffer, bytes, 1 to [`SendOptions::MAX_BUFFER_BYTES`]. Default: 1,000,000 (1
    /// MB).
    pub buffer_bytes: u64,
    /// When the transfer ends.
    pub limits: Limits,
    /// Whether each connection waits for a buffer's last ACK before it writes the next one.
    ///
    /// If `false` (the default), buffers follow each other without a pause. The connection never
    /// idles, and its window shows the capacity of the path. If `true`, each buffer is a transfer
    /// of its own: the path drains in between, and the throughput of a buffer includes one round
    /// trip during which little is sent.
    pub wait_ack: bool,
    /// Congestion control (`TCP_CONGESTION`); the system default if `None`.
    pub congestion_control: Option<String>,
    /// Whether TCP paces segments over the round trip at `sk_pacing_rate`, as the fq queueing
    /// discipline does, whatever the congestion control. Set through `SO_MAX_PACING_RATE` with a
    /// maximum of 34 Gbit/s.
    pub paced: bool,
    /// Timeout of the connection attempt to each address. Default: 10 s.
    pub connect_timeout: Duration,
    /// Maximum time without an acknowledgement while bytes are outstanding. Default: 20 s.
    pub stall_timeout: Duration,
    /// How long to wait for acknowledgements of outstanding data after the time limit expires or
    /// the stop flag is set. Default: 3 s. Data that is still unacknowledged is then abandoned (the
    /// connection is reset) and counted.
    pub linger: Duration,
    /// Interval of progress events. Default: 200 ms.
    pub progress_interval: Duration,
    /// Callback that receives each connection once it is open. Default: none.
    pub shown: Option<Shown>,
    /// Whether kernel timestamps are used if available. Otherwise `TCP_INFO` is polled every 2 ms.
    pub stamps: bool,
}

impl SendOptions {
    /// Maximum number of parallel connections.
    pub const MAX_CONNECTIONS: u32 = 1000;
    /// Maximum buffer length, bytes. The kernel numbers timestamped bytes modulo 2^32.
    pub const MAX_BUFFER_BYTES: u64 = 1 << 30;
    /// Duration of a transfer without limits.
    pub const DEFAULT_TIME: Duration = Duration::from_secs(10);

    /// Default options: one connection, 1 MB buffers, ten seconds.
    pub fn new(target: Target) -> SendOptions {
        SendOptions {
            target,
            family: Family::Any,
            bind: None,
            interface: None,
            connections: 1,
            buffer_bytes: 1_000_000,
            limits: Limits::default(),
            wait_ack: false,
            congestion_control: None,
            paced: false,
            connect_timeout: Duration::from_secs(10),
            stall_timeout: Duration::from_secs(20),
            linger: Duration::from_secs(3),
            progress_interval: Duration::from_millis(200),
            shown: None,
            stamps: true,
        }
    }

    pub(crate) fn check(&self) -> Result<(), SendError> {
        let wrong = |text: String| Err(SendError::Option(text));
        if !(1..=Self::MAX_CONNECTIONS).contains(&self.connections) {
            return wrong(format!(
                "{} connections are not possible: choose 1 to {}",
                self.connections,
                Self::MAX_CONNECTIONS
            ));
        }
        if !(1..=Self::MAX_BUFFER_BYTES).contains(&self.buffer_bytes) {
            return wrong(format!(
                "a buffer of {} bytes is not possible: choose 1 to {}",
                self.buffer_bytes,
                Self::MAX_BUFFER_BYTES
            ));
        }
        if self.limits.buffers == Some(0) || self.limits.bytes == Some(0) {
            return wrong("there is nothing to send: set a limit of at least one buffer or byte".to_owned());
        }
        for (what, time) in [
            ("connect timeout", self.connect_timeout),
            ("stall timeout", self.stall_timeout),
            ("progress interval", self.progress_interval),
        ] {
            if time.is_zero() {
                return wrong(format!("the {what} cannot be zero: choose a longer time"));
            }
        }
        Ok(())
    }
}

/// An open connection as passed to a [`Shown`] callback.
#[derive(Clone)]
pub struct ShownConnection {
    /// The socket. The weak reference expires when the connection closes.
    pub socket: Weak<dyn AsFd + Send + Sync>,
    /// Limits the outstanding data of the connection.
    pub gate: Arc<Gate>,
}

/// Callback that receives each connection once it is open, to measure or bound it during the
/// transfer.
#[derive(Clone)]
pub struct Shown(Arc<dyn Fn(ShownConnection) + Send + Sync>);

impl Shown {
    /// Registers `to`. It is called on the sending thread before the first byte.
    pub fn new(to: impl Fn(ShownConnection) + Send + Sync + 'static) -> Shown {
        Shown(Arc::new(to))
    }

    /// Combines two callbacks; `self` is called first.
    pub fn and(self, other: Shown) -> Shown {
        Shown::new(move |connection| {
            self.show(connection.clone());
            other.show(connection);
        })
    }

    pub(crate) fn show(&self, connection: ShownConnection) {
        (self.0)(connection);
    }
}

impl PartialEq for Shown {
    fn eq(&self, other: &Shown) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Shown {}

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shown")
    }
}

/// Limits that end a transfer; the first one reached ends it. All connections share `buffers` and
/// `bytes`: a connection that is ready takes the next buffer. A transfer without limits ends after
/// [`SendOptions::DEFAULT_TIME`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// Maximum number of buffers.
    pub buffers: Option<u64>,
    /// Maximum number of bytes; the last buffer may be shorter.
    pub bytes: Option<u64>,
    /// Maximum time from the moment when all connections are open. The buffer being written is cut
    /// short. Zero: no time limit, the transfer runs until the stop flag is set.
    pub time: Option<Duration>,
}

impl Limits {
    /// Time limit of the transfer; `None` if only another limit or the stop flag ends it.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        match (self.time, self.buffers, self.bytes) {
            (Some(time), _, _) => Some(time).filter(|time| !time.is_zero()),
            (None, None, None) => Some(SendOptions::DEFAULT_TIME),
            _ => None,
        }
    }

    /// Number of bytes that the transfer sends if neither time nor the stop flag ends it.
    pub(crate) fn total_bytes(&self, buffer_bytes: u64) -> Option<u64> {
        let by_buffers = self.buffers.map(|count| count.saturating_mul(buffer_bytes));
        match (by_buffers, self.bytes) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}

/// Remaining bytes of the transfer, shared by all connections.
#[derive(Debug)]
pub(crate) struct Budget {
    left: Option<u64>,
    buffer_bytes: u64,
}

impl Budget {
    pub(crate) fn new(options: &SendOptions) -> Budget {
        Budget { left: options.limits.total_bytes(options.buffer_bytes), buffer_bytes: options.buffer_bytes }
    }

    /// Takes the next buffer and returns its length, bytes; `None` if nothing is left.
    pub(crate) fn take(&mut self) -> Option<u64> {
        match &mut self.left {
            None => Some(self.buffer_bytes),
            Some(0) => None,
            Some(left) => {
                let bytes = (*left).min(self.buffer_bytes);
                *left -= bytes;
                Some(bytes)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn options() -> SendOptions {
        SendOptions::new("server".parse().unwrap())
    }

    #[test]
    fn the_defaults_are_ten_seconds_of_one_megabyte_buffers() {
        let options = options();
        assert!(options.check().is_ok());
        assert_eq!(options.buffer_bytes, 1_000_000);
        assert_eq!(options.limits.deadline(), Some(Duration::from_secs(10)));
    }

    #[test]
    fn a_time_of_zero_or_another_limit_has_no_deadline() {
        let limits = |time, buffers| Limits { time, buffers, bytes: None };
        assert_eq!(limits(Some(Duration::ZERO), None).deadline(), None);
        assert_eq!(limits(None, Some(3)).deadline(), None);
        let second = Duration::from_secs(1);
        assert_eq!(limits(Some(second), Some(3)).deadline(), Some(second));
    }

    #[test]
    fn unusable_options_are_refused() {
        for change in [
            (|o| o.connections = 0) as fn(&mut SendOptions),
            |o| o.connections = SendOptions::MAX_CONNECTIONS + 1,
            |o| o.buffer_bytes = 0,
            |o| o.buffer_bytes = SendOptions::MAX_BUFFER_BYTES + 1,
            |o| o.limits.buffers = Some(0),
            |o| o.limits.bytes = Some(0),
            |o| o.connect_timeout = Duration::ZERO,
            |o| o.stall_timeout = Duration::ZERO,
            |o| o.progress_interval = Duration::ZERO,
        ] {
            let mut options = options();
            change(&mut options);
            assert!(matches!(options.check(), Err(SendError::Option(_))), "{options:?}");
        }
    }

    proptest! {
        #[test]
        fn the_budget_is_exactly_the_requested_amount(
            buffer_bytes in 1u64..1000, buffers in proptest::option::of(1u64..50), bytes in proptest::option::of(1u64..20_000)
        ) {
            prop_assume!(buffers.is_some() || bytes.is_some());
            let mut options = options();
            options.buffer_bytes = buffer_bytes;
            options.limits = Limits { buffers, bytes, time: None };
            let mut budget = Budget::new(&options);
            let taken: Vec<u64> = std::iter::from_fn(|| budget.take()).collect();
            prop_assert_eq!(Some(taken.iter().sum::<u64>()), options.limits.total_bytes(buffer_bytes));
            prop_assert!(taken.iter().rev().skip(1).all(|&n| n == buffer_bytes));
            prop_assert!(buffers.is_none_or(|most| taken.len() as u64 <= most));
        }
    }
}
