//! The beginning of a connection, and sending on request.

use super::{End, MAX_READ_BYTES, Role, Server};
use crate::payload::piece;
use crate::reverse::{ANSWER, FirstBytes, MAX_REQUEST_BYTES, Request};
use crate::sys;
use std::io::{self, Read};
use std::time::Instant;

impl Server<'_> {
    /// Reads the beginning of a connection: a request to send, or the first bytes of data to
    /// discard.
    pub(super) fn begin(&mut self, at: usize) -> Option<End> {
        let remaining = self.total_remaining();
        let sender = &mut self.senders[at];
        let Role::Begins(first_bytes) = &mut sender.role else { return None };
        let mut bytes = [0u8; MAX_REQUEST_BYTES];
        let most = self.listener.options.max_bytes.unwrap_or(u64::MAX).min(remaining);
        let room = (MAX_REQUEST_BYTES - first_bytes.len()).min(usize::try_from(most).unwrap_or(usize::MAX));
        let ended = match (&sender.socket).read(&mut bytes[..room]) {
            Ok(count) => {
                first_bytes.extend_from_slice(&bytes[..count]);
                count == 0
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                return None;
            }
            Err(_) => return Some(End::Failed),
        };
        let count = first_bytes.len();
        match FirstBytes::of(first_bytes) {
            FirstBytes::Part if !ended && (count as u64) < most => None,
            FirstBytes::Request(request) => self.answer(at, &request),
            FirstBytes::Unknown => Some(End::NotReversed),
            FirstBytes::Data | FirstBytes::Part => {
                sender.role = Role::Receives;
                if count > 0 && self.count(at, count as u64, remaining) {
                    return Some(End::TotalLimit);
                }
                if ended {
                    return Some(End::Closed);
                }
                (count as u64 >= most).then_some(End::Limit)
            }
        }
    }

    /// Serves a request, if that is allowed.
    fn answer(&mut self, at: usize, request: &Request) -> Option<End> {
        let options = &self.listener.options;
        let most = options.max_bytes.unwrap_or(u64::MAX);
        let sender = &mut self.senders[at];
        if !options.reverse || sys::write(&sender.socket, ANSWER.as_bytes(), None).is_err() {
            return Some(End::NotReversed);
        }
        sender.role = Role::Sends {
            left: request.bytes.unwrap_or(u64::MAX).min(most),
            until: request.time.and_then(|time| Instant::now().checked_add(time)),
        };
        None
    }

    /// Sends as much as the socket accepts. Returns why the connection has ended, or `None` if it
    /// has not.
    pub(super) fn send(&mut self, at: usize) -> Option<End> {
        let total_remaining = self.total_remaining();
        let sender = &mut self.senders[at];
        let Role::Sends { left, until } = &mut sender.role else { return None };
        let mut count = 0;
        let ended = loop {
            let most = (*left).min(total_remaining - count);
            if most == 0 || until.is_some_and(|until| Instant::now() >= until) {
                break Some(if *left > 0 && most == 0 { End::TotalLimit } else { End::Sent });
            }
            if count >= MAX_READ_BYTES as u64 {
                break None;
            }
            match sys::write(&sender.socket, piece(sender.sent_bytes + count, most), None) {
                Ok(accepted) => {
                    count += accepted as u64;
                    *left -= accepted as u64;
                }
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) =>
                {
                    break None;
                }
                Err(_) => break Some(End::Failed),
            }
        };
        if count > 0 {
            sender.sent_bytes += count;
            self.summary.sent_bytes += count;
            self.note_time(at);
        }
        ended
    }
}
