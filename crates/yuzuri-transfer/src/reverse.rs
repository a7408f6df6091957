//! The request that the other end send, and the answer to it: [`fetch`](crate::fetch) and a
//! receiver that [may send](crate::ReceiveOptions::reverse).
//!
//! A connection begins with a line, after which the requester closes its direction. A receiver that
//! does not know the line discards it, sees the end of the stream and closes. The lack of an answer
//! is therefore detected immediately, without a timeout.

use std::time::Duration;

/// The beginning of a request, up to its version.
const REQUEST: &str = "yuzuri-reverse ";
/// The protocol version of this code.
const VERSION: &str = "1";
/// The answer to an accepted request. The buffers follow it.
pub(crate) const ANSWER: &str = "yuzuri-reverse 1 sends\n";
/// Maximum length of a request, bytes; a longer one is refused.
pub(crate) const MAX_REQUEST_BYTES: usize = 128;

/// A request to send. Both limits apply; without any, the transfer continues until the requester
/// closes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Request {
    pub(crate) bytes: Option<u64>,
    pub(crate) time: Option<Duration>,
}

/// The kinds of beginnings of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FirstBytes {
    /// Buffers, of which these are the first bytes.
    Data,
    /// The beginning of a request.
    Part,
    Request(Request),
    /// A request of another version, with something unknown in it, or too long.
    Unknown,
}

impl Request {
    pub(crate) fn line(&self) -> String {
        let mut line = format!("{REQUEST}{VERSION}");
        if let Some(bytes) = self.bytes {
            line += &format!(" bytes={bytes}");
        }
        if let Some(time) = self.time {
            line += &format!(" ms={}", time.as_millis());
        }
        line + "\n"
    }

    fn read(line: &str) -> Option<Request> {
        let mut words = line.split(' ');
        if words.next() != Some(VERSION) {
            return None;
        }
        let mut request = Request::default();
        for word in words {
            match word.split_once('=')? {
                ("bytes", bytes) => request.bytes = Some(bytes.parse().ok()?),
                ("ms", ms) => request.time = Some(Duration::from_millis(ms.parse().ok()?)),
                _ => return None,
            }
        }
        Some(request)
    }
}

impl FirstBytes {
    /// Classifies the first bytes of a connection.
    pub(crate) fn of(bytes: &[u8]) -> FirstBytes {
        let known = bytes.len().min(REQUEST.len());
        if bytes[..known] != REQUEST.as_bytes()[..known] {
            return FirstBytes::Data;
        }
        let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
            return if bytes.len() < MAX_REQUEST_BYTES { FirstBytes::Part } else { FirstBytes::Unknown };
        };
        let line = std::str::from_utf8(&bytes[known..end]).ok();
        line.and_then(Request::read).map_or(FirstBytes::Unknown, FirstBytes::Request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_request_is_parsed_back(bytes in proptest::option::of(any::<u64>()), ms in proptest::option::of(any::<u64>()), cut in any::<prop::sample::Index>()) {
            let request = Request { bytes, time: ms.map(Duration::from_millis) };
            let line = request.line();
            prop_assert!(line.len() < MAX_REQUEST_BYTES);
            prop_assert_eq!(FirstBytes::of(line.as_bytes()), FirstBytes::Request(request));
            // Wherever the line is cut, the receiver waits for the rest.
            prop_assert_eq!(FirstBytes::of(&line.as_bytes()[..cut.index(line.len())]), FirstBytes::Part);
        }

        #[test]
        fn arbitrary_bytes_are_parsed(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = FirstBytes::of(&bytes);
            let _ = FirstBytes::of(&[REQUEST.as_bytes(), &bytes].concat());
        }
    }

    #[test]
    fn buffers_are_not_requests_and_other_versions_are_unknown() {
        assert_eq!(FirstBytes::of(crate::payload()), FirstBytes::Data);
        assert_eq!(FirstBytes::of(b"yuzuri-reversed"), FirstBytes::Data);
        assert_eq!(FirstBytes::of(b"yuzuri-reverse 2\n"), FirstBytes::Unknown);
        assert_eq!(FirstBytes::of(b"yuzuri-reverse 1 colour=red\n"), FirstBytes::Unknown);
        assert_eq!(FirstBytes::of(b"yuzuri-reverse 1 bytes=-1\n"), FirstBytes::Unknown);
        let long = [b"yuzuri-reverse 1 ".to_vec(), vec![b'0'; MAX_REQUEST_BYTES]].concat();
        assert_eq!(FirstBytes::of(&long), FirstBytes::Unknown);
    }
}
