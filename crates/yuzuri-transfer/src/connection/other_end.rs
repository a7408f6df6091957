//! Input from the peer, and detection of how the peer ends the connection.

use super::{Connection, Failure};
use crate::sys;
use std::io::{self, Read};

/// Maximum length of the peer's text that is kept for the error message, bytes.
const MAX_PEER_TEXT_BYTES: usize = 200;

impl Connection<'_> {
    /// Reads what the peer sends. Input is not part of a transfer and must not accumulate. Its
    /// beginning is kept for the error message, because a receiver that refuses a connection states
    /// the reason.
    pub(super) fn read_input(&mut self) -> Result<(), Failure> {
        let result = if self.peer_text.len() < MAX_PEER_TEXT_BYTES {
            let mut text = [0u8; MAX_PEER_TEXT_BYTES];
            let room = MAX_PEER_TEXT_BYTES - self.peer_text.len();
            let read = (&*self.socket).read(&mut text[..room]);
            if let Ok(count) = read {
                self.peer_text.extend_from_slice(&text[..count]);
            }
            read
        } else {
            sys::discard(&self.socket, 1 << 20)
        };
        match result {
            // The peer may close its direction and still receive data; `nc -l </dev/null` does.
            Ok(0) => self.input_open = false,
            Ok(_) => {}
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(error) => return Err(self.failure(error)),
        }
        Ok(())
    }

    pub(super) fn check_closed(&mut self, revents: libc::c_short) -> Result<(), Failure> {
        if let Some(error) = self.socket.take_error().map_err(Failure::Network)? {
            return Err(self.failure(error));
        }
        if revents & libc::POLLHUP != 0 {
            return Err(self.failure(io::ErrorKind::ConnectionReset.into()));
        }
        Ok(())
    }

    pub(super) fn failure(&mut self, source: io::Error) -> Failure {
        let source = match source.raw_os_error() {
            // EPIPE means that an earlier call already returned the reset. The user would take
            // "broken pipe" for an error of the program's own output.
            Some(libc::EPIPE) => io::Error::from_raw_os_error(libc::ECONNRESET),
            _ => source,
        };
        match source.raw_os_error() {
            Some(libc::ECONNRESET) => {}
            _ if source.kind() == io::ErrorKind::ConnectionReset => {}
            Some(libc::ETIMEDOUT) => {
                let silent_for = self.last_progress.elapsed();
                return Failure::Stalled { silent_for, window_closed: false };
            }
            _ => return Failure::Network(source),
        }
        // Data that the peer sent before the reset can still be read.
        while self.peer_text.len() < MAX_PEER_TEXT_BYTES {
            let mut text = [0u8; MAX_PEER_TEXT_BYTES];
            match (&*self.socket).read(&mut text[..MAX_PEER_TEXT_BYTES - self.peer_text.len()]) {
                Ok(count) if count > 0 => self.peer_text.extend_from_slice(&text[..count]),
                _ => break,
            }
        }
        Failure::Closed { source, peer_text: readable(&self.peer_text) }
    }
}

/// Printable text of the first line; `None` if there is none.
fn readable(peer_text: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(peer_text);
    let line = text.lines().next().unwrap_or_default().trim();
    let clean: String =
        line.chars().filter(|c| !c.is_control() && *c != char::REPLACEMENT_CHARACTER).collect();
    (!clean.is_empty()).then_some(clean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_printable_text_is_shown() {
        assert_eq!(readable(b"full\r\nsecond line"), Some("full".to_owned()));
        assert_eq!(readable(b"\x1b[31mred\x07"), Some("[31mred".to_owned()));
        assert_eq!(readable(&[0xff, 0xfe, 0]), None);
        assert_eq!(readable(b""), None);
    }
}
