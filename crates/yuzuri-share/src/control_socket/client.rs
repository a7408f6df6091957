//! The connection state of one client: the request received so far, and how much of the answer has
//! been sent.

use super::answers::{Answered, Reply, Responder};
use nix::poll::PollFlags;
use socket2::Socket;
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::time::{Duration, Instant};

/// Time limit for sending the request and reading the answer. A request for all flows has the limit
/// twice: until the flows are available, and for reading the answer.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Bytes per read.
const PART_BYTES: usize = 4096;
/// Maximum number of reads from one client before other clients are served.
const MAX_PARTS_IN_A_ROW: usize = 16;

/// The protocol of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    /// A JSON document; the client ends it by shutting down its side of the connection.
    Json,
    /// An HTTP/1 request.
    Http,
}

enum Stage {
    /// Receiving the request; the bytes so far.
    Asking(Vec<u8>),
    /// Waiting for the status with all flows.
    Waiting(u64),
    /// Sending the answer; the number of bytes sent.
    Answering(Reply, usize),
    /// The answer has been sent. Further input is read and discarded: closing a socket with unread
    /// data resets the connection, and the client could lose the answer (RFC 9112, section 9.6).
    Ending,
    /// Finished.
    Over,
}

/// A client connection. No call blocks.
pub(super) struct Client {
    pub(super) socket: Socket,
    pub(super) deadline: Instant,
    protocol: Protocol,
    stage: Stage,
    /// The client has shut down its sending side.
    ended: bool,
}

impl Client {
    /// Takes a socket in non-blocking mode.
    pub(super) fn new(socket: Socket, protocol: Protocol, now: Instant) -> Client {
        Client { socket, deadline: now + TIMEOUT, protocol, stage: Stage::Asking(Vec::new()), ended: false }
    }

    /// The events to poll for.
    pub(super) fn waits_for(&self) -> PollFlags {
        match self.stage {
            Stage::Answering(..) => PollFlags::POLLOUT,
            // The request has ended, so that the socket would be readable all the time.
            Stage::Waiting(_) => PollFlags::empty(),
            _ => PollFlags::POLLIN,
        }
    }

    /// Whether the client waits for the status with all flows, which no file descriptor signals.
    pub(super) fn awaits_all(&self) -> bool {
        matches!(self.stage, Stage::Waiting(_))
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over)
    }

    /// Makes as much progress as possible without blocking.
    pub(super) fn advance(&mut self, responder: &mut Responder) {
        // A client that disconnects early is not an error of the daemon.
        if self.step(responder).is_err_and(|e| e.kind() != ErrorKind::WouldBlock) {
            self.stage = Stage::Over;
        }
    }

    fn step(&mut self, responder: &mut Responder) -> std::io::Result<()> {
        let mut part = [0; PART_BYTES];
        for _ in 0..MAX_PARTS_IN_A_ROW {
            match &mut self.stage {
                Stage::Asking(asked) => {
                    let length = read(&self.socket, &mut part)?;
                    self.ended = length == 0;
                    asked.extend_from_slice(&part[..length]);
                    match responder.answer(self.protocol, asked, self.ended) {
                        Some(Answered::Now(reply)) => self.stage = Stage::Answering(reply, 0),
                        Some(Answered::WithAll(number)) => self.stage = Stage::Waiting(number),
                        None if self.ended => self.stage = Stage::Over,
                        None => {}
                    }
                }
                Stage::Waiting(number) => match responder.all(*number) {
                    Some(reply) => {
                        self.stage = Stage::Answering(reply, 0);
                        // The client was waiting for the daemon until now: restart its time limit.
                        self.deadline = Instant::now() + TIMEOUT;
                    }
                    None => return Ok(()),
                },
                Stage::Answering(reply, written) => {
                    while let Some(rest) = rest(reply, *written) {
                        *written += write(&self.socket, rest)?;
                    }
                    self.stage = if self.ended { Stage::Over } else { Stage::Ending };
                    self.socket.shutdown(Shutdown::Write)?;
                }
                Stage::Ending => {
                    if read(&self.socket, &mut part)? == 0 {
                        self.stage = Stage::Over;
                    }
                }
                Stage::Over => return Ok(()),
            }
        }
        Ok(())
    }
}

fn rest(reply: &Reply, written: usize) -> Option<&[u8]> {
    let head = reply.head.len();
    let rest = match reply.head.get(written..) {
        Some(rest) if !rest.is_empty() => rest,
        _ => reply.body.get(written - head..)?,
    };
    (!rest.is_empty()).then_some(rest)
}

fn read(mut socket: &Socket, part: &mut [u8]) -> std::io::Result<usize> {
    loop {
        match socket.read(part) {
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

fn write(mut socket: &Socket, bytes: &[u8]) -> std::io::Result<usize> {
    loop {
        match socket.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{Status, StatusCell};
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_client_that_waited_for_all_flows_gets_the_full_time_limit_to_read_them() {
        let (own, mut theirs) = UnixStream::pair().unwrap();
        own.set_nonblocking(true).unwrap();
        theirs.write_all(b"\"status-all\"").unwrap();
        theirs.shutdown(Shutdown::Write).unwrap();
        let cell = StatusCell::default();
        let mut responder = Responder::new(cell.clone(), std::sync::mpsc::channel().0);
        // Almost all of the time limit has passed when the daemon has the flows ready.
        let asked = Instant::now().checked_sub(TIMEOUT - Duration::from_millis(1)).unwrap();
        let mut client = Client::new(own.into(), Protocol::Json, asked);
        client.advance(&mut responder);
        assert!(client.awaits_all() && client.deadline == asked + TIMEOUT);
        cell.write_all(Status::default());
        let ready = Instant::now();
        client.advance(&mut responder);
        assert!(client.deadline >= ready + TIMEOUT);
        let mut answer = String::new();
        drop(client);
        theirs.read_to_string(&mut answer).unwrap();
        assert!(serde_json::from_str::<Status>(&answer).is_ok(), "{answer}");
    }
}
