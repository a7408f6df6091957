//! The kernel's answers over netlink, from datagrams to messages. neli takes the length in a message's head at its word: one that is shorter than the
//! head makes it subtract beyond zero. So lengths are looked at before, and what does not come from the kernel is not read at all.
//! (`cargo test -p yuzuri-share fuzz` and the fuzz target `kernel_answers` hold against it what no kernel says.)

use neli::nl::Nlmsghdr;
use neli::{FromBytes, FromBytesWithInput, Size, consts::nl::NlType};
use nix::sys::socket::{NetlinkAddr, recvfrom};
use std::io::Cursor;
use std::os::fd::AsRawFd;

/// `struct nlmsghdr`: length, type, flags, sequence, port.
const HEAD_BYTES: usize = 16;
/// More than the kernel puts into a datagram of a dump (32 KiB).
const DATAGRAM_BYTES: usize = 64 << 10;

/// The next datagram of the kernel: its port is 0, which no process can have.
pub(crate) fn receive(socket: &impl AsRawFd) -> Result<Vec<u8>, String> {
    let mut buffer = vec![0; DATAGRAM_BYTES];
    loop {
        let (length, from) =
            recvfrom::<NetlinkAddr>(socket.as_raw_fd(), &mut buffer).map_err(|e| e.to_string())?;
        if from.is_some_and(|from| from.pid() == 0) {
            buffer.truncate(length);
            return Ok(buffer);
        }
    }
}

/// What ends an answer: a code, and behind it what it is about. A refusal of the kernel comes back as its words.
fn check_end(message: &[u8]) -> Result<(), String> {
    const NLMSG_ERROR: u16 = 2;
    const NLMSG_DONE: u16 = 3;
    let word = |at: usize| message.get(at..)?.first_chunk().map(|bytes| i32::from_ne_bytes(*bytes));
    let broken = || Err("the end of an answer is broken".to_owned());
    match (u16::from_ne_bytes([message[4], message[5]]), word(HEAD_BYTES)) {
        (NLMSG_ERROR, None) => broken(),
        // An acknowledgement holds the head of the question.
        (NLMSG_ERROR, Some(0)) => match word(HEAD_BYTES + 4) {
            Some(length) if length >= HEAD_BYTES as i32 => Ok(()),
            _ => broken(),
        },
        (NLMSG_ERROR, Some(code)) => {
            Err(std::io::Error::from_raw_os_error(code.saturating_neg()).to_string())
        }
        (NLMSG_DONE, None) if message.len() > HEAD_BYTES => broken(),
        _ => Ok(()),
    }
}

/// The messages of a datagram, up to the first that is none.
pub(crate) fn messages<T, P>(mut bytes: &[u8]) -> impl Iterator<Item = Result<Nlmsghdr<T, P>, String>>
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
            return Some(Err(format!("a message of {length} bytes cannot be")));
        };
        if let Err(why) = check_end(message) {
            bytes = &[];
            return Some(Err(why));
        }
        // The next one begins at a multiple of four.
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        let mut padded = message.to_vec();
        padded.resize(length.next_multiple_of(4), 0);
        Some(Nlmsghdr::from_bytes(&mut Cursor::new(padded)).map_err(|e| e.to_string()))
    })
}
