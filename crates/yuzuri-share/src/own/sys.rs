//! Socket options that neither `std` nor `socket2` offers. This file has all `unsafe` code of the
//! module.

#![expect(unsafe_code, reason = "system calls that no library here wraps")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Sets the pacing limit (`SO_MAX_PACING_RATE`), bytes per second; `u64::MAX`: no limit beyond the
/// congestion control's own pacing.
pub(super) fn set_max_pacing_rate(fd: BorrowedFd<'_>, bytes_per_s: u64) -> io::Result<()> {
    // The kernel expects an `unsigned long`.
    let value = usize::try_from(bytes_per_s).unwrap_or(usize::MAX);
    let size = size_of::<usize>() as libc::socklen_t;
    let (level, name) = (libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE);
    // SAFETY: the kernel reads `size` bytes at `value`, which outlives the call.
    let result = unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, (&raw const value).cast(), size) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
