//! The reverse of [`send`](crate::send): asks a receiver to send, which the receiver must allow,
//! and measures the data that arrives.

use crate::clock::mono_ns;
use crate::connect::{connect, resolve};
use crate::error::SendError;
use crate::events::rate_bps;
use crate::report::{Report, report_failure};
use crate::reverse::{ANSWER, Request};
use crate::sys::{self, PollFd, discard, poll_fd};
use crate::{FailureKind, SendOptions};
use serde::Serialize;
use socket2::Socket;
use std::io::{self, Read};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Interval at which the stop flag and the limits are checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Maximum number of bytes read from one connection before the next one is served.
const MAX_READ_BYTES: usize = 4 << 20;
/// How much longer than requested the other end may send: data in flight still arrives.
const OUTSTANDING_TIMEOUT: Duration = Duration::from_secs(2);

/// An event of a transfer in reverse. With `--json`, each event is one line of JSON with its kind
/// under `type`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum FetchEvent {
    /// A connection is open, and the other end was asked to send.
    ReverseConnected {
        /// Number of the connection, from 0.
        connection: u32,
        /// Local address.
        local: SocketAddr,
        /// Address of the other end.
        peer: SocketAddr,
        /// The kernel's socket cookie, which identifies the flow in recordings.
        cookie: u64,
    },
    /// Progress of all connections.
    ReverseProgress {
        /// Time since all connections were open, nanoseconds.
        elapsed_ns: u64,
        /// Bytes received.
        bytes: u64,
        /// Rate since the previous progress event, bits per second.
        rate_bps: u64,
    },
    /// The transfer is over.
    ReverseSummary(FetchSummary),
    /// The transfer did not take place or ended early.
    Failed {
        /// Kind of the failure, for programs.
        kind: FailureKind,
        /// The error message, in one line, for people.
        message: String,
    },
}

/// The result of one connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fetched {
    /// Number of the connection, from 0.
    pub connection: u32,
    /// Address of the other end.
    pub peer: SocketAddr,
    /// Bytes received.
    pub bytes: u64,
    /// From the first to the last byte, as read by this process, nanoseconds.
    pub duration_ns: u64,
    /// `bytes` × 8 / `duration_ns`, bits per second; 0 if all bytes were read at once.
    pub throughput_bps: u64,
}

/// Result of a transfer in reverse.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FetchSummary {
    /// Bytes received on all connections.
    pub bytes: u64,
    /// From the first to the last byte on any connection, nanoseconds.
    pub duration_ns: u64,
    /// `bytes` × 8 / `duration_ns`, bits per second.
    pub throughput_bps: u64,
    /// Whether the stop flag ended it.
    pub stopped: bool,
    /// Each connection.
    pub connections: Vec<Fetched>,
}

/// Asks the target to send on the number of connections in `options`, up to its limits of bytes and
/// time, discards the data and passes events to `report`. The other options of a sender (buffers,
/// congestion control) do not apply: the other end uses its own.
///
/// # Errors
/// Returns a [`SendError`] if the transfer did not take place or ended before its limit:
/// [`SendError::NotReversed`] if the other end does not send.
pub fn fetch(
    options: &SendOptions,
    report: &mut dyn Report<FetchEvent>,
    stop: &AtomicBool,
) -> Result<FetchSummary, SendError> {
    let fetched = Fetch::open(options, report, stop).and_then(|fetch| fetch.run(options, report, stop));
    report_failure(fetched, report, |kind, message| FetchEvent::Failed { kind, message })
}

struct Connection {
    number: u32,
    socket: Socket,
    peer: SocketAddr,
    /// The answer so far; `None` once it is complete.
    answer: Option<Vec<u8>>,
    open: bool,
    bytes: u64,
    first_mono_ns: Option<u64>,
    last_mono_ns: u64,
    last_read: Instant,
}

struct Fetch {
    connections: Vec<Connection>,
    started: Instant,
}

impl Fetch {
    fn open(
        options: &SendOptions,
        report: &mut dyn Report<FetchEvent>,
        stop: &AtomicBool,
    ) -> Result<Fetch, SendError> {
        options.check()?;
        let addresses = resolve(&options.target, options)?;
        let mut connections = Vec::new();
        for number in 0..options.connections {
            let (socket, peer) = connect(&addresses, options, stop)?;
            let local = socket.local_addr().ok().and_then(|address| address.as_socket());
            let cookie = sys::cookie(&socket).unwrap_or(0);
            connections.push(Connection {
                number,
                socket,
                peer,
                answer: Some(Vec::new()),
                open: true,
                bytes: 0,
                first_mono_ns: None,
                last_mono_ns: 0,
                last_read: Instant::now(),
            });
            let local = local.unwrap_or(peer);
            let event = FetchEvent::ReverseConnected { connection: number, local, peer, cookie };
            report.report(&event).map_err(SendError::Report)?;
        }
        for connection in &connections {
            // Together they send the requested amount.
            let share = |all: u64| {
                let count = u64::from(options.connections);
                all / count + u64::from(u64::from(connection.number) < all % count)
            };
            let total = options.limits.total_bytes(options.buffer_bytes);
            let request = Request { bytes: total.map(share), time: options.limits.deadline() };
            connection.send_request(&request)?;
        }
        Ok(Fetch { connections, started: Instant::now() })
    }

    fn run(
        mut self,
        options: &SendOptions,
        report: &mut dyn Report<FetchEvent>,
        stop: &AtomicBool,
    ) -> Result<FetchSummary, SendError> {
        let deadline =
            options.limits.deadline().and_then(|time| self.started.checked_add(time + OUTSTANDING_TIMEOUT));
        let mut last_progress = (self.started, 0);
        let mut fds: Vec<PollFd> = Vec::new();
        let has_ended = |fetch: &Fetch| {
            stop.load(Ordering::Relaxed)
                || deadline.is_some_and(|deadline| Instant::now() >= deadline)
                || !fetch.connections.iter().any(|connection| connection.open)
        };
        while !has_ended(&self) {
            fds.clear();
            let events = |connection: &Connection| if connection.open { libc::POLLIN } else { 0 };
            // Negative descriptors are ignored (poll(2)).
            fds.extend(self.connections.iter().map(|connection| {
                poll_fd(if connection.open { connection.socket.as_raw_fd() } else { -1 }, events(connection))
            }));
            sys::poll(&mut fds, CHECK_INTERVAL).map_err(|source| SendError::Socket {
                doing: "wait for what the other end sends".to_owned(),
                source,
            })?;
            for (connection, fd) in self.connections.iter_mut().zip(&fds) {
                if fd.revents != 0 {
                    connection.read()?;
                }
                connection.check(options)?;
            }
            let (then, bytes_then) = last_progress;
            let now = Instant::now();
            if now - then >= options.progress_interval {
                let bytes = self.bytes();
                last_progress = (now, bytes);
                let progress = FetchEvent::ReverseProgress {
                    elapsed_ns: nanos(now - self.started),
                    bytes,
                    rate_bps: rate_bps(bytes - bytes_then, nanos(now - then)),
                };
                report.report(&progress).map_err(SendError::Report)?;
            }
        }
        let summary = self.summary(stop.load(Ordering::Relaxed));
        report.report(&FetchEvent::ReverseSummary(summary.clone())).map_err(SendError::Report)?;
        Ok(summary)
    }

    fn bytes(&self) -> u64 {
        self.connections.iter().map(|connection| connection.bytes).sum()
    }

    fn summary(&self, stopped: bool) -> FetchSummary {
        let first = self.connections.iter().filter_map(|connection| connection.first_mono_ns).min();
        let last = self.connections.iter().map(|connection| connection.last_mono_ns).max().unwrap_or(0);
        let duration_ns = first.map_or(0, |first| last.saturating_sub(first));
        let fetched = |connection: &Connection| {
            let duration_ns = connection.first_mono_ns.map_or(0, |first| connection.last_mono_ns - first);
            Fetched {
                connection: connection.number,
                peer: connection.peer,
                bytes: connection.bytes,
                duration_ns,
                throughput_bps: rate_bps(connection.bytes, duration_ns),
            }
        };
        FetchSummary {
            bytes: self.bytes(),
            duration_ns,
            throughput_bps: rate_bps(self.bytes(), duration_ns),
            stopped,
            connections: self.connections.iter().map(fetched).collect(),
        }
    }
}

impl Connection {
    /// Sends the request and closes this direction: a peer that does not know the request then
    /// closes, too.
    fn send_request(&self, request: &Request) -> Result<(), SendError> {
        let line = request.line();
        let doing = || format!("ask {} to send", self.peer);
        let written = sys::write(&self.socket, line.as_bytes(), None)
            .and_then(|written| self.socket.shutdown(Shutdown::Write).map(|()| written));
        match written {
            Ok(written) if written == line.len() => Ok(()),
            // A line fits into any new connection's buffer.
            Ok(_) => Err(SendError::Socket { doing: doing(), source: io::ErrorKind::WriteZero.into() }),
            Err(source) => Err(SendError::Socket { doing: doing(), source }),
        }
    }

    fn read(&mut self) -> Result<(), SendError> {
        let read = match &mut self.answer {
            Some(answer) => {
                let mut bytes = [0u8; 256];
                let room =
                    if answer.len() < ANSWER.len() { ANSWER.len() - answer.len() } else { bytes.len() };
                let read = (&self.socket).read(&mut bytes[..room]);
                if let Ok(count) = read {
                    answer.extend_from_slice(&bytes[..count]);
                }
                read
            }
            None => discard(&self.socket, MAX_READ_BYTES),
        };
        let count = match read {
            Ok(count) => count,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                return Ok(());
            }
            Err(source) => return Err(self.interrupted(source)),
        };
        self.last_read = Instant::now();
        if let Some(answer) = &mut self.answer {
            if answer[..] == *ANSWER.as_bytes() {
                self.answer = None;
            } else if count == 0 || answer.contains(&b'\n') || answer.len() > ANSWER.len() {
                let text = String::from_utf8_lossy(answer).lines().next().map(str::trim).map(str::to_owned);
                return Err(SendError::not_reversed(self.peer, text.as_deref().unwrap_or_default()));
            }
        } else if count == 0 {
            self.open = false;
        } else {
            let now = mono_ns();
            self.first_mono_ns.get_or_insert(now);
            self.last_mono_ns = now;
            self.bytes += count as u64;
        }
        Ok(())
    }

    /// Fails if the other end has been silent for too long.
    fn check(&self, options: &SendOptions) -> Result<(), SendError> {
        let silent = self.last_read.elapsed();
        if !self.open {
            Ok(())
        } else if self.answer.is_some() && silent >= options.connect_timeout {
            Err(SendError::not_reversed(self.peer, ""))
        } else if silent >= options.stall_timeout {
            Err(self.interrupted(io::ErrorKind::TimedOut.into()))
        } else {
            Ok(())
        }
    }

    fn interrupted(&self, source: io::Error) -> SendError {
        SendError::Interrupted { connection: self.number, peer: self.peer, bytes: self.bytes, source }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
