//! A socket's pacing limit.

#![expect(unsafe_code, reason = "socket2 has no such option")]

use std::os::fd::AsRawFd;

/// Limits a socket's rate (`SO_MAX_PACING_RATE`), bytes per second; `u64::MAX`: no limit.
///
/// # Panics
/// Where the kernel refuses.
pub fn set_max_pacing_rate(socket: &impl AsRawFd, bytes_per_s: u64) {
    // SAFETY: the option takes a number of 8 bytes, which lives during the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MAX_PACING_RATE,
            (&raw const bytes_per_s).cast(),
            size_of::<u64>() as libc::socklen_t,
        )
    };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}
