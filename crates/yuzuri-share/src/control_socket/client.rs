//! One who asks: what came of the question, and how much of the answer went out.

use super::answers::{Answered, Clerk, Reply};
use nix::poll::PollFlags;
use socket2::Socket;
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::time::{Duration, Instant};

/// A client has so long in all to ask and to take the answer; who asks for all flows has it twice: until they are there, and to take them.
const PATIENCE: Duration = Duration::from_secs(2);
/// Bytes read at a time.
const PART_BYTES: usize = 4096;
/// Most parts read from a client before others have their turn.
const MAX_PARTS_IN_A_ROW: usize = 16;

/// How a question is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    /// A JSON document, ended by the end of writing.
    Json,
    /// A request of HTTP/1.
    Http,
}

enum Stage {
    /// The question so far.
    Asking(Vec<u8>),
    /// The status with all flows is waited for.
    Waiting(u64),
    /// The answer, and how many of its bytes are written.
    Answering(Reply, usize),
    /// All is said. What the client still sends is read and thrown away: closing before it was read would
    /// reset the connection, and the answer could be lost with it (RFC 9112, section 9.6).
    Ending,
    /// Over.
    Over,
}

/// A client. No call waits for it.
pub(super) struct Client {
    pub(super) socket: Socket,
    pub(super) deadline: Instant,
    protocol: Protocol,
    stage: Stage,
    /// The client has ended its writing.
    ended: bool,
}

impl Client {
    /// The socket does not block.
    pub(super) fn new(socket: Socket, protocol: Protocol, now: Instant) -> Client {
        Client { socket, deadline: now + PATIENCE, protocol, stage: Stage::Asking(Vec::new()), ended: false }
    }

    /// What it waits for.
    pub(super) fn waits_for(&self) -> PollFlags {
        match self.stage {
            Stage::Answering(..) => PollFlags::POLLOUT,
            // The end of its question is there to be read all the time.
            Stage::Waiting(_) => PollFlags::empty(),
            _ => PollFlags::POLLIN,
        }
    }

    /// Whether it waits for what no socket tells of.
    pub(super) fn awaits_all(&self) -> bool {
        matches!(self.stage, Stage::Waiting(_))
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over)
    }

    /// Goes on as far as is possible without waiting.
    pub(super) fn advance(&mut self, clerk: &mut Clerk) {
        // A client who goes away in the middle is not our trouble.
        if self.go_on(clerk).is_err_and(|e| e.kind() != ErrorKind::WouldBlock) {
            self.stage = Stage::Over;
        }
    }

    fn go_on(&mut self, clerk: &mut Clerk) -> std::io::Result<()> {
        let mut part = [0; PART_BYTES];
        for _ in 0..MAX_PARTS_IN_A_ROW {
            match &mut self.stage {
                Stage::Asking(asked) => {
                    let length = read(&self.socket, &mut part)?;
                    self.ended = length == 0;
                    asked.extend_from_slice(&part[..length]);
                    match clerk.answer(self.protocol, asked, self.ended) {
                        Some(Answered::Now(reply)) => self.stage = Stage::Answering(reply, 0),
                        Some(Answered::WithAll(number)) => self.stage = Stage::Waiting(number),
                        None if self.ended => self.stage = Stage::Over,
                        None => {}
                    }
                }
                Stage::Waiting(number) => match clerk.all(*number) {
                    Some(reply) => {
                        self.stage = Stage::Answering(reply, 0);
                        // Until now it waited for us.
                        self.deadline = Instant::now() + PATIENCE;
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
    fn who_waited_for_all_flows_has_all_the_time_to_take_them() {
        let (own, mut theirs) = UnixStream::pair().unwrap();
        own.set_nonblocking(true).unwrap();
        theirs.write_all(b"\"status-all\"").unwrap();
        theirs.shutdown(Shutdown::Write).unwrap();
        let cell = StatusCell::default();
        let mut clerk = Clerk::new(cell.clone(), std::sync::mpsc::channel().0);
        // Its time is nearly over when the daemon has them ready.
        let asked = Instant::now().checked_sub(PATIENCE - Duration::from_millis(1)).unwrap();
        let mut client = Client::new(own.into(), Protocol::Json, asked);
        client.advance(&mut clerk);
        assert!(client.awaits_all() && client.deadline == asked + PATIENCE);
        cell.write_all(Status::default());
        let ready = Instant::now();
        client.advance(&mut clerk);
        assert!(client.deadline >= ready + PATIENCE);
        let mut answer = String::new();
        drop(client);
        theirs.read_to_string(&mut answer).unwrap();
        assert!(serde_json::from_str::<Status>(&answer).is_ok(), "{answer}");
    }
}
