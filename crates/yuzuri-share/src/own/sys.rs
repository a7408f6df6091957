//! What neither `std` nor `socket2` set of a socket: all `unsafe` of this module is here.

#![expect(unsafe_code, reason = "system calls that no library here wraps")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Bytes per second that pacing lets go at most (`SO_MAX_PACING_RATE`); `u64::MAX`: as the congestion control has it.
pub(super) fn set_max_pacing_rate(fd: BorrowedFd<'_>, bytes_per_s: u64) -> io::Result<()> {
    // An `unsigned long`.
    let value = usize::try_from(bytes_per_s).unwrap_or(usize::MAX);
    let size = size_of::<usize>() as libc::socklen_t;
    let (level, name) = (libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE);
    // SAFETY: the kernel reads `size` bytes at `value`, which lives through the call.
    let result = unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, (&raw const value).cast(), size) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
