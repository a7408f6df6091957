//! What an unprivileged program may ask and set of its own sockets, where neither `std` nor `socket2` offer it: all `unsafe` of this crate's
//! sockets is here.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

fn set<T: Copy>(fd: BorrowedFd<'_>, name: libc::c_int, value: T) -> io::Result<()> {
    let size = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel reads `size` bytes at `value`, which lives through the call.
    let result =
        unsafe { libc::setsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, name, (&raw const value).cast(), size) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Fills as much of `value` as the kernel knows and says how much that is.
fn get(fd: BorrowedFd<'_>, level: libc::c_int, name: libc::c_int, value: &mut [u8]) -> io::Result<usize> {
    let mut size = value.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `size` bytes into `value` and the written length into `size`.
    let result =
        unsafe { libc::getsockopt(fd.as_raw_fd(), level, name, value.as_mut_ptr().cast(), &raw mut size) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok((size as usize).min(value.len())) }
}

fn get_int(fd: BorrowedFd<'_>, name: libc::c_int) -> io::Result<libc::c_int> {
    let mut value = [0; 4];
    get(fd, libc::SOL_SOCKET, name, &mut value)?;
    Ok(libc::c_int::from_ne_bytes(value))
}

/// `TCP_INFO`, as long as this kernel has it.
pub(super) fn tcp_info(fd: BorrowedFd<'_>) -> io::Result<Vec<u8>> {
    let mut raw = vec![0; 512];
    let length = get(fd, libc::IPPROTO_TCP, libc::TCP_INFO, &mut raw)?;
    raw.truncate(length);
    Ok(raw)
}

/// The kernel's cookie of the socket.
pub(super) fn cookie(fd: BorrowedFd<'_>) -> io::Result<u64> {
    let mut value = [0; 8];
    get(fd, libc::SOL_SOCKET, libc::SO_COOKIE, &mut value)?;
    Ok(u64::from_ne_bytes(value))
}

/// The send buffer (`sk_sndbuf`), bytes of memory.
pub(super) fn send_buffer(fd: BorrowedFd<'_>) -> io::Result<u32> {
    Ok(get_int(fd, libc::SO_SNDBUF)?.max(0) as u32)
}

/// Bytes per second that pacing lets go at most; `u64::MAX`: as the congestion control has it.
pub(super) fn set_most_pacing_rate(fd: BorrowedFd<'_>, bytes_per_s: u64) -> io::Result<()> {
    // An `unsigned long`.
    set(fd, libc::SO_MAX_PACING_RATE, usize::try_from(bytes_per_s).unwrap_or(usize::MAX))
}
