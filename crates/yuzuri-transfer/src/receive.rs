//! The receiver: discards the data of any number of senders within configured limits, and sends on
//! request if that is allowed. It runs in one thread. Apart from the first bytes of a connection,
//! data is discarded without being copied to user space.

mod events;
mod options;
mod reverse;

pub use events::{End, ReceiveEvent, ReceiveSummary, Received};
pub use options::ReceiveOptions;

use crate::ReceiveError;
use crate::clock::mono_ns;
use crate::events::rate_bps;
use crate::report::Report;
use crate::sys::{self, PollFd, discard, poll_fd};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Maximum number of bytes read from one connection before the next one is served.
const MAX_READ_BYTES: usize = 4 << 20;
/// Interval at which the stop flag and the timeouts are checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum number of consecutive `accept` calls.
const MAX_CONSECUTIVE_ACCEPTS: usize = 64;
/// How long the receiver stops accepting after the process ran out of file descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(250);

/// The purpose of a connection.
enum Role {
    /// Not known yet: its first bytes look like a request to send.
    Begins(Vec<u8>),
    Receives,
    /// The peer asked for buffers: how many bytes are left, and until when.
    Sends {
        left: u64,
        until: Option<Instant>,
    },
}

struct Sender {
    number: u64,
    socket: Socket,
    peer: SocketAddr,
    role: Role,
    bytes: u64,
    sent_bytes: u64,
    first_mono_ns: Option<u64>,
    last_mono_ns: u64,
    accepted: Instant,
    last_read: Instant,
}

/// A listening receiver socket.
#[derive(Debug)]
pub struct Listener {
    options: ReceiveOptions,
    socket: Socket,
    address: SocketAddr,
}

impl Listener {
    /// Binds and listens according to the options. Without an address it listens on all addresses
    /// of both families, or of IPv4 only if the host has no IPv6.
    ///
    /// # Errors
    /// Returns [`ReceiveError::Option`] if an option is out of range, [`ReceiveError::Busy`] if the
    /// port is in use, and [`ReceiveError::Listen`] if listening fails for another reason.
    pub fn bind(options: ReceiveOptions) -> Result<Listener, ReceiveError> {
        options.check()?;
        let at = |ip: IpAddr| SocketAddr::new(ip, options.port);
        let socket = match options.bind {
            Some(ip) => listen(at(ip)),
            None => listen(at(Ipv6Addr::UNSPECIFIED.into())).or_else(|error| match error {
                ReceiveError::Listen { source, .. }
                    if matches!(source.raw_os_error(), Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL)) =>
                {
                    listen(at(Ipv4Addr::UNSPECIFIED.into()))
                }
                _ => Err(error),
            }),
        }?;
        let requested = at(options.bind.unwrap_or(Ipv6Addr::UNSPECIFIED.into()));
        let address = socket.local_addr().ok().and_then(|address| address.as_socket()).unwrap_or(requested);
        Ok(Listener { options, socket, address })
    }

    /// The listening address, including the port if the kernel chose it.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Receives until `stop` is set, [`ReceiveOptions::max_total_bytes`] have been received or,
    /// with [`ReceiveOptions::once`], the first senders are done. Memory use grows neither with the
    /// amount of data nor with time.
    ///
    /// # Errors
    /// Returns [`ReceiveError::Poll`] if waiting for connections fails and [`ReceiveError::Report`]
    /// if the report cannot be written. Failures of a single connection are events, not errors.
    pub fn run(
        self,
        report: &mut dyn Report<ReceiveEvent>,
        stop: &AtomicBool,
    ) -> Result<ReceiveSummary, ReceiveError> {
        Server::new(self, report).run(stop)
    }
}

/// Binds and runs a [`Listener`].
///
/// # Errors
/// Returns the errors of [`Listener::bind`] and [`Listener::run`].
pub fn receive(
    options: &ReceiveOptions,
    report: &mut dyn Report<ReceiveEvent>,
    stop: &AtomicBool,
) -> Result<ReceiveSummary, ReceiveError> {
    Listener::bind(options.clone())?.run(report, stop)
}

fn listen(address: SocketAddr) -> Result<Socket, ReceiveError> {
    let attempt = || -> io::Result<Socket> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        if address.is_ipv6() {
            socket.set_only_v6(address.ip() != IpAddr::V6(Ipv6Addr::UNSPECIFIED))?;
        }
        // Connections of an earlier run that are still in TIME_WAIT do not block the port.
        socket.set_reuse_address(true)?;
        socket.bind(&SockAddr::from(address))?;
        socket.listen(128)?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    };
    attempt().map_err(|source| match source.raw_os_error() {
        Some(libc::EADDRINUSE) => ReceiveError::Busy { address },
        _ => ReceiveError::Listen { address, source },
    })
}

struct Server<'a> {
    listener: Listener,
    report: &'a mut dyn Report<ReceiveEvent>,
    senders: Vec<Sender>,
    summary: ReceiveSummary,
    first_mono_ns: Option<u64>,
    last_mono_ns: u64,
    paused_until: Option<Instant>,
}

impl<'a> Server<'a> {
    fn new(listener: Listener, report: &'a mut dyn Report<ReceiveEvent>) -> Server<'a> {
        Server {
            listener,
            report,
            senders: Vec::new(),
            summary: ReceiveSummary::default(),
            first_mono_ns: None,
            last_mono_ns: 0,
            paused_until: None,
        }
    }

    fn report_event(&mut self, event: &ReceiveEvent) -> Result<(), ReceiveError> {
        self.report.report(event).map_err(ReceiveError::Report)
    }

    fn run(mut self, stop: &AtomicBool) -> Result<ReceiveSummary, ReceiveError> {
        let address = self.listener.address;
        let ReceiveOptions { max_bytes, max_total_bytes, .. } = self.listener.options;
        self.report_event(&ReceiveEvent::Listening { address, max_bytes, max_total_bytes })?;
        let mut fds: Vec<PollFd> = Vec::new();
        let mut last_progress = (Instant::now(), 0);
        let mut next_check = Instant::now() + CHECK_INTERVAL;
        while !stop.load(Ordering::Relaxed) && self.total_remaining() > 0 {
            let now = Instant::now();
            self.paused_until = self.paused_until.filter(|&until| until > now);
            fds.clear();
            let accepts = if self.paused_until.is_none() { libc::POLLIN } else { 0 };
            fds.push(poll_fd(self.listener.socket.as_raw_fd(), accepts));
            fds.extend(self.senders.iter().map(|sender| {
                // The requester has closed its direction, which would always be readable.
                let events =
                    if matches!(sender.role, Role::Sends { .. }) { libc::POLLOUT } else { libc::POLLIN };
                poll_fd(sender.socket.as_raw_fd(), events)
            }));
            sys::poll(&mut fds, CHECK_INTERVAL).map_err(ReceiveError::Poll)?;
            // Iterates backwards, so that removing a connection does not move those not yet served.
            for at in (0..self.senders.len()).rev() {
                if fds[at + 1].revents != 0
                    && let Some(end) = self.serve(at)
                {
                    self.close(at, end)?;
                }
            }
            if fds[0].revents != 0 {
                self.accept()?;
            }
            let now = Instant::now();
            if now >= next_check {
                self.check_timeouts(now)?;
                next_check = now + CHECK_INTERVAL;
            }
            let carried = self.carried();
            if self.listener.options.once && carried > 0 && self.senders.is_empty() {
                break;
            }
            let (then, bytes_then) = last_progress;
            if now - then >= self.listener.options.progress_interval {
                let bytes = carried;
                last_progress = (now, bytes);
                if !self.senders.is_empty() || bytes > bytes_then {
                    let nanos = u64::try_from((now - then).as_nanos()).unwrap_or(u64::MAX);
                    let rate_bps = rate_bps(bytes - bytes_then, nanos);
                    let open = self.senders.len();
                    self.report_event(&ReceiveEvent::Progress { open, bytes, rate_bps })?;
                }
            }
        }
        let end = if self.total_remaining() > 0 { End::Stopped } else { End::TotalLimit };
        while let Some(at) = self.senders.len().checked_sub(1) {
            self.close(at, end)?;
        }
        self.summary.limit_reached = end == End::TotalLimit;
        let summary = self.summarize();
        self.report_event(&ReceiveEvent::Summary(summary.clone()))?;
        Ok(summary)
    }

    fn summarize(&self) -> ReceiveSummary {
        let duration_ns = self.first_mono_ns.map_or(0, |first| self.last_mono_ns.saturating_sub(first));
        ReceiveSummary {
            duration_ns,
            throughput_bps: rate_bps(self.carried(), duration_ns),
            ..self.summary.clone()
        }
    }

    /// Bytes of all connections, in both directions.
    fn carried(&self) -> u64 {
        self.summary.bytes + self.summary.sent_bytes
    }

    fn accept(&mut self) -> Result<(), ReceiveError> {
        for _ in 0..MAX_CONSECUTIVE_ACCEPTS {
            let (socket, peer) = match self.listener.socket.accept() {
                Ok((socket, peer)) => (socket, peer),
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN) => return Ok(()),
                    Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM) => {
                        self.paused_until = Some(Instant::now() + ACCEPT_PAUSE);
                        let text = format!(
                            "cannot accept a connection: {error}; trying again in {ACCEPT_PAUSE:?}; raise `ulimit -n` or lower the number of connections"
                        );
                        return self.report_event(&ReceiveEvent::Note { text });
                    }
                    // The connection failed while it was queued (see accept(2)); others may be
                    // queued behind it.
                    _ => continue,
                },
            };
            let Some(peer) = peer.as_socket().map(unmapped) else { continue };
            if let Some(reason) = self.refusal(&peer) {
                refuse(&socket, &reason);
                self.summary.refused += 1;
                self.report_event(&ReceiveEvent::Refused { peer, reason })?;
                continue;
            }
            if socket.set_nonblocking(true).is_err() {
                continue;
            }
            let now = Instant::now();
            let number = self.summary.accepted;
            self.summary.accepted += 1;
            let local = socket.local_addr().ok().and_then(|address| address.as_socket());
            let event = ReceiveEvent::Accepted {
                connection: number,
                peer,
                local: local.map_or(self.listener.address, unmapped),
                cookie: sys::cookie(&socket).unwrap_or(0),
                open: self.senders.len() + 1,
            };
            self.senders.push(Sender {
                number,
                socket,
                peer,
                role: Role::Begins(Vec::new()),
                bytes: 0,
                sent_bytes: 0,
                first_mono_ns: None,
                last_mono_ns: 0,
                accepted: now,
                last_read: now,
            });
            self.report_event(&event)?;
        }
        Ok(())
    }

    fn refusal(&self, peer: &SocketAddr) -> Option<String> {
        let options = &self.listener.options;
        if self.senders.len() >= options.max_connections {
            return Some(format!(
                "yuzuri receive: full ({} connections), try again later",
                options.max_connections
            ));
        }
        let same = self.senders.iter().filter(|sender| sender.peer.ip() == peer.ip()).count();
        (same >= options.max_per_peer).then(|| {
            format!("yuzuri receive: too many connections from your address (limit {})", options.max_per_peer)
        })
    }

    /// Number of bytes that may still be carried over all connections.
    fn total_remaining(&self) -> u64 {
        self.listener.options.max_total_bytes.map_or(u64::MAX, |limit| limit.saturating_sub(self.carried()))
    }

    /// Continues a ready connection. Returns why it has ended, or `None` if it has not.
    fn serve(&mut self, at: usize) -> Option<End> {
        match self.senders[at].role {
            Role::Begins(_) => self.begin(at),
            Role::Receives => self.read(at),
            Role::Sends { .. } => self.send(at),
        }
    }

    /// Counts bytes that were received now. Returns whether no more may be received over all
    /// connections.
    fn count(&mut self, at: usize, count: u64, total_remaining: u64) -> bool {
        self.senders[at].bytes += count;
        self.summary.bytes += count;
        self.note_time(at);
        count >= total_remaining
    }

    /// Notes that a connection carried something now.
    fn note_time(&mut self, at: usize) {
        let now = mono_ns();
        let sender = &mut self.senders[at];
        sender.first_mono_ns.get_or_insert(now);
        sender.last_mono_ns = now;
        sender.last_read = Instant::now();
        self.first_mono_ns.get_or_insert(now);
        self.last_mono_ns = now;
    }

    /// Reads and discards available data. Returns why the connection is over, or `None` if it is
    /// not.
    fn read(&mut self, at: usize) -> Option<End> {
        let total_remaining = self.total_remaining();
        if total_remaining == 0 {
            return Some(End::TotalLimit);
        }
        let sender = &mut self.senders[at];
        let remaining =
            self.listener.options.max_bytes.map_or(u64::MAX, |limit| limit.saturating_sub(sender.bytes));
        let max_bytes =
            MAX_READ_BYTES.min(usize::try_from(remaining.min(total_remaining)).unwrap_or(usize::MAX));
        match discard(&sender.socket, max_bytes) {
            Ok(0) => Some(End::Closed),
            Ok(count) => {
                if self.count(at, count as u64, total_remaining) {
                    return Some(End::TotalLimit);
                }
                (count as u64 >= remaining).then_some(End::Limit)
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                None
            }
            Err(_) => Some(End::Failed),
        }
    }

    fn check_timeouts(&mut self, now: Instant) -> Result<(), ReceiveError> {
        for at in (0..self.senders.len()).rev() {
            let sender = &self.senders[at];
            if let Role::Sends { until: Some(until), .. } = sender.role
                && now >= until
            {
                // Close even if the socket accepts no more data.
                self.close(at, End::Sent)?;
            } else if self.listener.options.max_time.is_some_and(|limit| now - sender.accepted >= limit) {
                self.close(at, End::TimeLimit)?;
            } else if now - sender.last_read >= self.listener.options.idle_timeout {
                self.close(at, End::Idle)?;
            }
        }
        Ok(())
    }

    fn close(&mut self, at: usize, end: End) -> Result<(), ReceiveError> {
        let sender = self.senders.swap_remove(at);
        let send_reason = |text: &str| refuse(&sender.socket, &format!("yuzuri receive: {text}"));
        match end {
            // The requester expects buffers, not a reason.
            End::Closed | End::Failed | End::Sent => {}
            _ if matches!(sender.role, Role::Sends { .. }) => {}
            End::NotReversed if self.listener.options.reverse => {
                send_reason("cannot read the request to send: versions differ, update the older one");
            }
            End::NotReversed => {
                send_reason("does not send to others: start it with `yuzuri receive --reverse`");
            }
            End::Idle => send_reason("closed, idle for too long"),
            End::Limit => send_reason("closed, the byte limit per connection is reached"),
            End::TimeLimit => send_reason("closed, the time limit per connection is reached"),
            End::TotalLimit => send_reason("closed, the total byte limit is reached"),
            End::Stopped => send_reason("closed, the receiver was stopped"),
        }
        let duration_ns = sender.first_mono_ns.map_or(0, |first| sender.last_mono_ns.saturating_sub(first));
        self.report_event(&ReceiveEvent::Closed(Received {
            connection: sender.number,
            peer: sender.peer,
            bytes: sender.bytes,
            sent_bytes: sender.sent_bytes,
            duration_ns,
            throughput_bps: rate_bps(sender.bytes + sender.sent_bytes, duration_ns),
            end,
        }))
    }
}

/// Sends the reason as one line and ends the connection. Delivery is best effort.
fn refuse(socket: &Socket, reason: &str) {
    let _ = sys::write(socket, format!("{reason}\n").as_bytes(), None);
    let _ = socket.shutdown(Shutdown::Write);
}

/// Converts an IPv4-mapped IPv6 address to IPv4.
fn unmapped(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V6(v6) => match v6.ip().to_ipv4_mapped() {
            Some(v4) => SocketAddr::new(v4.into(), v6.port()),
            None => address,
        },
        SocketAddr::V4(_) => address,
    }
}
