//! Serves the clients of all listeners in one thread. The thread blocks only in `poll`.

use super::answers::Responder;
use super::client::{Client, Protocol};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use socket2::Socket;
use std::collections::VecDeque;
use std::io::{ErrorKind, PipeReader};
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

/// Maximum number of clients per listener. A further connection replaces the oldest, so that a new
/// client is always accepted.
const MAX_CLIENTS: usize = 128;
/// Maximum number of connections accepted from one listener before others are served.
const MAX_ACCEPTS_IN_A_ROW: usize = 64;
/// How long a listener is not polled after the process ran out of file descriptors or memory.
const PAUSE: Duration = Duration::from_millis(250);
/// Poll interval for the status with all flows while a client waits for it.
const POLL_EVERY: Duration = Duration::from_millis(50);

/// A listener and its clients, oldest first. A listener never replaces another listener's clients.
pub(super) struct ClientListener {
    socket: Socket,
    protocol: Protocol,
    clients: VecDeque<Client>,
    paused_until: Option<Instant>,
}

impl ClientListener {
    /// A listener for the status and commands, in non-blocking mode.
    pub(super) fn status(listener: UnixListener) -> ClientListener {
        ClientListener::new(listener.into(), Protocol::Json)
    }

    /// A listener for metrics, in non-blocking mode.
    pub(super) fn metrics(listener: TcpListener) -> ClientListener {
        ClientListener::new(listener.into(), Protocol::Http)
    }

    fn new(socket: Socket, protocol: Protocol) -> ClientListener {
        ClientListener { socket, protocol, clients: VecDeque::new(), paused_until: None }
    }

    fn awaits_all(&self) -> bool {
        self.clients.iter().any(Client::awaits_all)
    }

    fn accept(&mut self, now: Instant, responder: &mut Responder) {
        for _ in 0..MAX_ACCEPTS_IN_A_ROW {
            let socket = match self.socket.accept() {
                Ok((socket, _)) => socket,
                Err(e) => match e.raw_os_error() {
                    Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM) => {
                        // Close the oldest client to free resources. Without a client to close,
                        // wait until the process has resources again.
                        if self.clients.pop_front().is_none() {
                            self.paused_until = Some(now + PAUSE);
                            return;
                        }
                        continue;
                    }
                    _ if e.kind() == ErrorKind::WouldBlock => return,
                    // That connection was aborted in the queue (accept(2)); others may follow it.
                    _ => continue,
                },
            };
            if socket.set_nonblocking(true).is_err() {
                continue;
            }
            let mut client = Client::new(socket, self.protocol, now);
            // If its request has already arrived, answer it before another client can replace it.
            client.advance(responder);
            if !client.is_over() {
                if self.clients.len() >= MAX_CLIENTS {
                    self.clients.pop_front();
                }
                self.clients.push_back(client);
            }
        }
    }
}

/// Serves until the other end of the pipe is closed.
pub(super) fn serve(mut listeners: Vec<ClientListener>, mut responder: Responder, stop: &PipeReader) {
    let mut awaited = false;
    while !wait(&mut listeners, &mut responder, stop) {
        let now = Instant::now();
        for listener in &mut listeners {
            listener.clients.retain(|client| !client.is_over() && now < client.deadline);
        }
        let awaits = listeners.iter().any(ClientListener::awaits_all);
        if awaited && !awaits {
            responder.forget_all();
        }
        awaited = awaits;
    }
}

/// Waits for the next event and processes it. Returns whether to stop.
fn wait(listeners: &mut [ClientListener], responder: &mut Responder, stop: &PipeReader) -> bool {
    let now = Instant::now();
    let mut fds = vec![PollFd::new(stop.as_fd(), PollFlags::empty())];
    let mut next: Option<Instant> = None;
    for listener in listeners.iter_mut() {
        listener.paused_until = listener.paused_until.filter(|until| *until > now);
        let deadlines = listener.clients.iter().map(|client| client.deadline).min();
        let poll_at = listener.awaits_all().then(|| now + POLL_EVERY);
        next = next.into_iter().chain(deadlines).chain(listener.paused_until).chain(poll_at).min();
    }
    for listener in listeners.iter() {
        let accepts = if listener.paused_until.is_none() { PollFlags::POLLIN } else { PollFlags::empty() };
        fds.push(PollFd::new(listener.socket.as_fd(), accepts));
        fds.extend(listener.clients.iter().map(|c| PollFd::new(c.socket.as_fd(), c.waits_for())));
    }
    // Round up, so that the deadline has passed when it is checked.
    let timeout = next.map_or(PollTimeout::NONE, |next| {
        let ms = next.saturating_duration_since(now).as_nanos().div_ceil(1_000_000);
        PollTimeout::from(u16::try_from(ms).unwrap_or(u16::MAX))
    });
    if poll(&mut fds, timeout).is_err() {
        return false;
    }
    let ready: Vec<bool> = fds.iter().map(|fd| fd.any().unwrap_or(true)).collect();
    drop(fds);
    let mut ready = ready.into_iter();
    if ready.next() == Some(true) {
        return true;
    }
    let now = Instant::now();
    for listener in listeners {
        let waiting = ready.next() == Some(true);
        for (client, ready) in listener.clients.iter_mut().zip(ready.by_ref()) {
            if ready || client.awaits_all() {
                client.advance(responder);
            }
        }
        if waiting {
            listener.accept(now, responder);
        }
    }
    false
}
