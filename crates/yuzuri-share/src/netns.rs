//! Identifies the network namespace. The result does not depend on privilege, because the daemon
//! and its clients must arrive at the same folder.
//!
//! Process 1 is no reference: its namespace cannot be read without privilege (namespaces(7),
//! `hidepid`), and in a container it is the container's own.

#![expect(unsafe_code, reason = "system calls that no library here wraps")]

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;

/// The first inode number that the kernel allocates dynamically, for namespaces created later
/// (`PROC_DYNAMIC_FIRST`, `fs/proc/generic.c`). The initial namespaces have lower numbers, if the
/// kernel has a fixed number for the network namespace (`NET_NS_INIT_INO`,
/// `include/uapi/linux/nsfs.h`).
const FIRST_DRAWN_INODE: u64 = 0xf000_0000;
/// Without a fixed number, the initial network namespace is the first one that receives a cookie
/// (`net_ns_init`, `net/core/net_namespace.c`; the generator starts at 1,
/// `include/linux/cookie.h`).
const FIRST_COOKIE: u64 = 1;

/// The number of the calling thread's namespace; `None` if it is certainly the initial one.
pub(crate) fn foreign() -> Option<u64> {
    let inode = std::fs::metadata("/proc/thread-self/ns/net").ok().map(|m| m.ino());
    let cookie = cookie().ok();
    // Without /proc, use the cookie.
    (!is_initial(inode, cookie)).then(|| inode.or(cookie).unwrap_or(0))
}

fn is_initial(inode: Option<u64>, cookie: Option<u64>) -> bool {
    inode.is_some_and(|inode| inode < FIRST_DRAWN_INODE) || cookie == Some(FIRST_COOKIE)
}

/// The cookie of the calling thread's namespace (`SO_NETNS_COOKIE`, since Linux 5.14).
fn cookie() -> io::Result<u64> {
    let socket = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::DGRAM, None)?;
    let mut cookie = 0u64;
    let mut size = size_of::<u64>() as libc::socklen_t;
    let (level, name) = (libc::SOL_SOCKET, libc::SO_NETNS_COOKIE);
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the kernel writes at most `size` bytes to `cookie`, and the length to `size`; both
    // outlive the call.
    let result = unsafe { libc::getsockopt(fd, level, name, (&raw mut cookie).cast(), &raw mut size) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(cookie) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn only_a_certain_namespace_counts_as_the_initial_one() {
        assert!(is_initial(Some(0xefff_fff9), Some(3)));
        assert!(is_initial(Some(0xf000_0000), Some(1)));
        assert!(!is_initial(Some(0xf000_0000), Some(3)));
        assert!(!is_initial(Some(0xf000_0000), None));
        assert!(!is_initial(None, None));
    }

    #[test]
    fn the_kernel_gives_the_cookie() {
        // The cookie needs Linux 5.14; sharing needs 5.19.
        assert_ne!(cookie().unwrap(), 0);
    }
}
