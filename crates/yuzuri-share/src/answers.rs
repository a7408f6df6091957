//! Splits the kernel's netlink datagrams into messages. neli trusts the length in a message header:
//! a length below the header size makes its subtraction underflow. This module therefore checks
//! every length before neli parses the message, and discards datagrams that did not come from the
//! kernel. (`cargo test -p yuzuri-share fuzz` and the fuzz target `kernel_answers` feed it input
//! that no kernel sends.)

use neli::nl::Nlmsghdr;
use neli::{FromBytes, FromBytesWithInput, Size, consts::nl::NlType};
use nix::sys::socket::{NetlinkAddr, recvfrom};
use std::io::Cursor;
use std::os::fd::AsRawFd;

/// Size of `struct nlmsghdr`: length, type, flags, sequence number, port ID.
const HEAD_BYTES: usize = 16;
/// Receive buffer size. The kernel puts at most 32 KiB into one datagram of a dump.
const DATAGRAM_BYTES: usize = 64 << 10;

/// Why an answer of the kernel cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AnswerError {
    /// No datagram could be received.
    #[error("{0}")]
    Receive(nix::Error),
    /// The kernel refused the request.
    #[error("{0}")]
    Refused(std::io::Error),
    /// A message states a length that the datagram does not have.
    #[error("a message of {0} bytes is impossible")]
    Length(usize),
    /// The message that ends an answer is too short.
    #[error("the end of the answer is malformed")]
    End,
    /// neli cannot read a message.
    #[error("{0}")]
    Malformed(neli::err::DeError),
}

/// Returns the next datagram from the kernel. The kernel sends from port ID 0, which no process can
/// have.
pub(crate) fn receive(socket: &impl AsRawFd) -> Result<Vec<u8>, AnswerError> {
    let mut buffer = vec![0; DATAGRAM_BYTES];
    loop {
        let (length, from) =
            recvfrom::<NetlinkAddr>(socket.as_raw_fd(), &mut buffer).map_err(AnswerError::Receive)?;
        if from.is_some_and(|from| from.pid() == 0) {
            buffer.truncate(length);
            return Ok(buffer);
        }
    }
}

/// Checks `NLMSG_ERROR` and `NLMSG_DONE`, which end a reply: an error code, followed by the header
/// of the request.
fn check_end(message: &[u8]) -> Result<(), AnswerError> {
    const NLMSG_ERROR: u16 = 2;
    const NLMSG_DONE: u16 = 3;
    let word = |at: usize| message.get(at..)?.first_chunk().map(|bytes| i32::from_ne_bytes(*bytes));
    let broken = || Err(AnswerError::End);
    match (u16::from_ne_bytes([message[4], message[5]]), word(HEAD_BYTES)) {
        (NLMSG_ERROR, None) => broken(),
        // An acknowledgement carries the header of the request.
        (NLMSG_ERROR, Some(0)) => match word(HEAD_BYTES + 4) {
            Some(length) if length >= HEAD_BYTES as i32 => Ok(()),
            _ => broken(),
        },
        (NLMSG_ERROR, Some(code)) => {
            Err(AnswerError::Refused(std::io::Error::from_raw_os_error(code.saturating_neg())))
        }
        (NLMSG_DONE, None) if message.len() > HEAD_BYTES => broken(),
        _ => Ok(()),
    }
}

/// Iterates over the messages of a datagram; stops after the first malformed one.
pub(crate) fn messages<T, P>(mut bytes: &[u8]) -> impl Iterator<Item = Result<Nlmsghdr<T, P>, AnswerError>>
where
    T: NlType,
    P: Size + FromBytesWithInput<Input = usize>,
{
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let length = bytes.first_chunk().map_or(0, |length| u32::from_ne_bytes(*length) as usize);
        let Some(message) = bytes.get(..length).filter(|message| message.len() >= HEAD_BYTES) else {
            bytes = &[];
            return Some(Err(AnswerError::Length(length)));
        };
        if let Err(why) = check_end(message) {
            bytes = &[];
            return Some(Err(why));
        }
        // Netlink messages are aligned to 4 bytes.
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        let mut padded = message.to_vec();
        padded.resize(length.next_multiple_of(4), 0);
        Some(Nlmsghdr::from_bytes(&mut Cursor::new(padded)).map_err(AnswerError::Malformed))
    })
}
