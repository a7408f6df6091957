//! Sockets of this process, read one by one: this needs neither privilege nor netlink, which
//! Android denies to apps.

#![expect(unsafe_code, reason = "getsockopt(2) of TCP_INFO")]

use crate::diag::{Socket, tcp_info};
use nix::sys::socket::{SockaddrLike, SockaddrStorage, getpeername, getsockname};
use parking_lot::Mutex;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::{Arc, Weak};
use yuzuri_trace::{CaState, Snapshot};

/// Connected sockets, watched as long as their owner keeps them open; clones refer to the same
/// list.
#[derive(Clone, Default)]
pub struct OwnSockets(Arc<Mutex<Vec<Weak<dyn AsFd + Send + Sync>>>>);

impl OwnSockets {
    /// Adds a socket to watch.
    pub fn add(&self, socket: Weak<dyn AsFd + Send + Sync>) {
        self.0.lock().push(socket);
    }

    /// Lists the open ones.
    pub(crate) fn dump(&self, out: &mut Vec<Socket>) {
        self.0.lock().retain(|socket| {
            let Some(socket) = socket.upgrade() else { return false };
            // A socket closed meanwhile has nothing to report; it disappears with its owner.
            out.extend(read_socket(socket.as_fd()).ok());
            true
        });
    }
}

fn read_socket(fd: BorrowedFd<'_>) -> io::Result<Socket> {
    let info = info(fd)?;
    let mut control = [0; 16];
    let length = get(fd, libc::IPPROTO_TCP, libc::TCP_CONGESTION, &mut control)?;
    let mut socket = Socket {
        cookie: cookie(fd)?,
        local: address(getsockname(fd.as_raw_fd())?)?,
        remote: address(getpeername(fd.as_raw_fd())?)?,
        state: info.first().copied().unwrap_or_default(),
        #[allow(clippy::useless_conversion, reason = "it has 32 bits on 32-bit ARM")]
        inode: u64::from(nix::sys::stat::fstat(fd)?.st_ino),
        cgroup: 0,
        control: String::from_utf8_lossy(&control[..length]).trim_end_matches('\0').to_owned(),
        ca_state: CaState::Open,
        app_limited: false,
        snapshot: Snapshot::default(),
    };
    tcp_info(&info, &mut socket).ok_or(io::ErrorKind::InvalidData)?;
    Ok(socket)
}

/// IPv4 as IPv4, on a socket of either family.
fn address(of: SockaddrStorage) -> io::Result<SocketAddr> {
    let (ip, port): (IpAddr, u16) = match (of.as_sockaddr_in(), of.as_sockaddr_in6()) {
        (Some(v4), _) => (v4.ip().into(), v4.port()),
        (_, Some(v6)) => (v6.ip().into(), v6.port()),
        _ => return Err(io::Error::other(format!("no TCP socket: its family is {:?}", of.family()))),
    };
    Ok(SocketAddr::new(ip.to_canonical(), port))
}

/// `TCP_INFO` (`struct tcp_info` of linux/tcp.h), in this kernel's length.
///
/// # Errors
/// The kernel's error: not a TCP socket.
pub fn info(fd: BorrowedFd<'_>) -> io::Result<Vec<u8>> {
    let mut raw = vec![0; 512];
    let length = get(fd, libc::IPPROTO_TCP, libc::TCP_INFO, &mut raw)?;
    raw.truncate(length);
    Ok(raw)
}

/// The kernel's cookie of a socket (`SO_COOKIE`), which identifies a flow.
///
/// # Errors
/// The kernel's error: not a socket.
pub fn cookie(fd: BorrowedFd<'_>) -> io::Result<u64> {
    let mut value = [0; 8];
    get(fd, libc::SOL_SOCKET, libc::SO_COOKIE, &mut value)?;
    Ok(u64::from_ne_bytes(value))
}

/// Fills as much of `value` as the kernel knows and returns that length.
fn get(fd: BorrowedFd<'_>, level: libc::c_int, name: libc::c_int, value: &mut [u8]) -> io::Result<usize> {
    let mut size = value.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `size` bytes into `value` and the written length into
    // `size`.
    let result =
        unsafe { libc::getsockopt(fd.as_raw_fd(), level, name, value.as_mut_ptr().cast(), &raw mut size) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok((size as usize).min(value.len())) }
}
