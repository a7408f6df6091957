//! Socket options by the kernel's own definition (sys/socket.h), read without the code under test.

#![expect(unsafe_code, reason = "system calls of the test")]

use std::mem::size_of_val;
use std::os::fd::AsRawFd;

/// The send side of `SO_MEMINFO` (linux/sock_diag.h), bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendMemory {
    /// `SK_MEMINFO_WMEM_ALLOC`: held by the device.
    pub alloc: u32,
    /// `SK_MEMINFO_SNDBUF`.
    pub buffer: u32,
    /// `SK_MEMINFO_WMEM_QUEUED`: held by the socket's queue.
    pub queued: u32,
}

pub fn send_memory(socket: &impl AsRawFd) -> SendMemory {
    let mut words = [0u32; 9];
    let mut length = size_of_val(&words) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into an array of integers.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            words.as_mut_ptr().cast(),
            &mut length,
        )
    };
    assert_eq!(result, 0, "SO_MEMINFO: {}", std::io::Error::last_os_error());
    SendMemory { alloc: words[2], buffer: words[3], queued: words[5] }
}
