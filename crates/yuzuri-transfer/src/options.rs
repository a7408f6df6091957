//! What a transfer is asked to do.

use crate::{Family, Gate, SendError, Target};
use std::fmt;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How a transfer is to be made. The fields are public: take [`SendOptions::new`] and change what is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SendOptions {
    /// Where to.
    pub target: Target,
    /// Which addresses of the target are tried; all of them, in the resolver's order.
    pub family: Family,
    /// Address of this host to send from.
    pub bind: Option<IpAddr>,
    /// Interface to send through (`SO_BINDTODEVICE`).
    pub interface: Option<String>,
    /// Connections side by side, 1 to [`SendOptions::MAX_CONNECTIONS`]; 1.
    pub connections: u32,
    /// Bytes of a buffer, 1 to [`SendOptions::MAX_BUFFER_BYTES`]; 1,000,000 (1 MB).
    pub buffer_bytes: u64,
    /// When to end.
    pub limits: Limits,
    /// Whether each connection waits for a buffer's last ACK before it writes the next.
    ///
    /// Without it (the default) buffers follow each other without a pause, so that the connection never idles and
    /// its window shows what the path allows. With it each buffer is a transfer of its own: the path drains in
    /// between, and the throughput of a buffer includes one round trip during which little is sent.
    pub wait_ack: bool,
    /// Congestion control (`TCP_CONGESTION`); the system's default where `None`.
    pub congestion_control: Option<String>,
    /// Whether segments leave spread over the round trip at `sk_pacing_rate`, as behind the queueing discipline fq, whatever the congestion
    /// control (`SO_MAX_PACING_RATE`, without a limit of its own below 34 Gbit/s).
    pub paced: bool,
    /// How long each address may take to answer; 10 s.
    pub connect_timeout: Duration,
    /// How long nothing may be acknowledged while bytes are outstanding; 20 s.
    pub stall_timeout: Duration,
    /// How long to wait for the acknowledgement of what is under way after the time is over or the stop flag is
    /// set; 3 s. What is not acknowledged then is abandoned (the connection is reset) and counted.
    pub linger: Duration,
    /// How often progress is reported; 200 ms.
    pub progress_interval: Duration,
    /// Who is shown each connection; nobody.
    pub shown: Option<Shown>,
    /// Whether the kernel's stamps are used where it has them. Without, `TCP_INFO` is polled every 2 ms.
    pub stamps: bool,
}

impl SendOptions {
    /// Most connections side by side.
    pub const MAX_CONNECTIONS: u32 = 1000;
    /// Largest buffer, bytes: the kernel numbers stamped bytes modulo 2^32.
    pub const MAX_BUFFER_BYTES: u64 = 1 << 30;
    /// How long a transfer runs that was given no limit.
    pub const DEFAULT_TIME: Duration = Duration::from_secs(10);

    /// One connection, buffers of 1 MB, for ten seconds.
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
            return wrong("there is nothing to send: ask for at least one buffer or byte".to_owned());
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

/// A connection as it is shown.
#[derive(Clone)]
pub struct ShownConnection {
    /// Its socket: gone once the connection has let go of it.
    pub socket: Weak<dyn AsFd + Send + Sync>,
    /// What bounds what it leaves outstanding.
    pub gate: Arc<Gate>,
}

/// Who is shown each connection once it is open, so as to measure or bound it beside the transfer.
#[derive(Clone)]
pub struct Shown(Arc<dyn Fn(ShownConnection) + Send + Sync>);

impl Shown {
    /// Calls `to` on the thread that sends, before the first byte.
    pub fn new(to: impl Fn(ShownConnection) + Send + Sync + 'static) -> Shown {
        Shown(Arc::new(to))
    }

    /// Both are shown it.
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

/// When a transfer ends: as soon as one of the limits is reached. All connections together share `buffers` and
/// `bytes`: whichever is ready takes the next buffer. Without any limit it ends after
/// [`SendOptions::DEFAULT_TIME`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// After this many buffers.
    pub buffers: Option<u64>,
    /// After this many bytes; the last buffer may be shorter.
    pub bytes: Option<u64>,
    /// After this time, counted from when all connections are open; the buffer then being written is cut short.
    /// Zero: until the stop flag is set.
    pub time: Option<Duration>,
}

impl Limits {
    /// The time after which the transfer ends, `None` when only another limit or the stop flag ends it.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        match (self.time, self.buffers, self.bytes) {
            (Some(time), _, _) => Some(time).filter(|time| !time.is_zero()),
            (None, None, None) => Some(SendOptions::DEFAULT_TIME),
            _ => None,
        }
    }

    /// The bytes the transfer sends if nothing else ends it.
    pub(crate) fn total_bytes(&self, buffer_bytes: u64) -> Option<u64> {
        let by_buffers = self.buffers.map(|count| count.saturating_mul(buffer_bytes));
        match (by_buffers, self.bytes) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}

/// What is left to be sent, shared by all connections.
#[derive(Debug)]
pub(crate) struct Budget {
    left: Option<u64>,
    buffer_bytes: u64,
}

impl Budget {
    pub(crate) fn new(options: &SendOptions) -> Budget {
        Budget { left: options.limits.total_bytes(options.buffer_bytes), buffer_bytes: options.buffer_bytes }
    }

    /// The bytes of the next buffer, `None` when nothing is left.
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
    fn what_cannot_be_done_is_refused() {
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
        fn the_budget_gives_exactly_what_was_asked_for(
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
