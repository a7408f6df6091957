//! Serves all clients of all listeners in one thread, which waits in `poll` alone.

use super::answers::Clerk;
use super::client::{Client, Protocol};
use crate::StatusCell;
use crate::event::Order;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use socket2::Socket;
use std::collections::VecDeque;
use std::io::{ErrorKind, PipeReader};
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

/// Most clients of a listener at once. One more takes the place of the oldest, so that a new one always gets
/// in.
const MAX_CLIENTS: usize = 128;
/// Most clients taken from a listener's queue before others have their turn.
const MAX_ACCEPTS_IN_A_ROW: usize = 64;
/// How long a listener is left alone after the process ran out of descriptors or memory.
const PAUSE: Duration = Duration::from_millis(250);
/// How often is looked whether the status with all flows was made, while somebody waits for it.
const LOOK: Duration = Duration::from_millis(50);

/// A listener with its clients, the oldest first. No listener takes the place of another's clients.
pub(super) struct Counter {
    listener: Socket,
    protocol: Protocol,
    clients: VecDeque<Client>,
    paused_until: Option<Instant>,
}

impl Counter {
    /// For the status and orders; the listener does not block.
    pub(super) fn status(listener: UnixListener) -> Counter {
        Counter::new(listener.into(), Protocol::Json)
    }

    /// For metrics; the listener does not block.
    pub(super) fn metrics(listener: TcpListener) -> Counter {
        Counter::new(listener.into(), Protocol::Http)
    }

    fn new(listener: Socket, protocol: Protocol) -> Counter {
        Counter { listener, protocol, clients: VecDeque::new(), paused_until: None }
    }

    fn awaits_all(&self) -> bool {
        self.clients.iter().any(Client::awaits_all)
    }

    fn accept(&mut self, now: Instant, clerk: &mut Clerk) {
        for _ in 0..MAX_ACCEPTS_IN_A_ROW {
            let socket = match self.listener.accept() {
                Ok((socket, _)) => socket,
                Err(e) => match e.raw_os_error() {
                    Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM) => {
                        // The oldest makes room for the next; where there is none the process itself has to.
                        if self.clients.pop_front().is_none() {
                            self.paused_until = Some(now + PAUSE);
                            return;
                        }
                        continue;
                    }
                    _ if e.kind() == ErrorKind::WouldBlock => return,
                    // That connection died in the queue (accept(2)): others may wait behind it.
                    _ => continue,
                },
            };
            if socket.set_nonblocking(true).is_err() {
                continue;
            }
            let mut client = Client::new(socket, self.protocol, now);
            // Whose question has come already is answered before anybody can take its place.
            client.advance(clerk);
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
pub(super) fn serve(
    mut counters: Vec<Counter>,
    status_cell: StatusCell,
    orders: Sender<Order>,
    stop: &PipeReader,
) {
    let mut clerk = Clerk::new(status_cell, orders);
    let mut awaited = false;
    while !wait(&mut counters, &mut clerk, stop) {
        let now = Instant::now();
        for counter in &mut counters {
            counter.clients.retain(|client| !client.is_over() && now < client.deadline);
        }
        let awaits = counters.iter().any(Counter::awaits_all);
        if awaited && !awaits {
            clerk.forget_all();
        }
        awaited = awaits;
    }
}

/// Waits until something can go on, and lets it; whether the end has come.
fn wait(counters: &mut [Counter], clerk: &mut Clerk, stop: &PipeReader) -> bool {
    let now = Instant::now();
    let mut fds = vec![PollFd::new(stop.as_fd(), PollFlags::empty())];
    let mut next: Option<Instant> = None;
    for counter in counters.iter_mut() {
        counter.paused_until = counter.paused_until.filter(|until| *until > now);
        let deadlines = counter.clients.iter().map(|client| client.deadline).min();
        let look = counter.awaits_all().then(|| now + LOOK);
        next = next.into_iter().chain(deadlines).chain(counter.paused_until).chain(look).min();
    }
    for counter in counters.iter() {
        let accepts = if counter.paused_until.is_none() { PollFlags::POLLIN } else { PollFlags::empty() };
        fds.push(PollFd::new(counter.listener.as_fd(), accepts));
        fds.extend(counter.clients.iter().map(|c| PollFd::new(c.socket.as_fd(), c.waits_for())));
    }
    // Rounded up, so that a deadline has passed when it is looked at.
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
    for counter in counters {
        let waiting = ready.next() == Some(true);
        for (client, ready) in counter.clients.iter_mut().zip(ready.by_ref()) {
            if ready || client.awaits_all() {
                client.advance(clerk);
            }
        }
        if waiting {
            counter.accept(now, clerk);
        }
    }
    false
}
