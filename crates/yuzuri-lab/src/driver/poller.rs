//! Waits for frames, with a timeout in nanoseconds.

#![expect(unsafe_code, reason = "system calls that no library here wraps")]

use crate::net::Tap;
use nix::errno::Errno;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

const MAX_READY: usize = 64;
/// Maximum wait, so that a stop flag is noticed.
const MAX_INTERVAL: Duration = Duration::from_millis(50);

/// Reports which devices have frames to read.
#[derive(Debug)]
pub struct Poller {
    epoll: OwnedFd,
}

impl Poller {
    /// Watches the devices; they are identified by their index.
    pub fn new<'a>(taps: impl Iterator<Item = &'a Tap>) -> Result<Poller, Errno> {
        // SAFETY: no pointers; nothing else owns the returned descriptor.
        let epoll = unsafe {
            let fd = Errno::result(libc::epoll_create1(libc::EPOLL_CLOEXEC))?;
            OwnedFd::from_raw_fd(fd)
        };
        for (place, tap) in taps.enumerate() {
            let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: place as u64 };
            let (epoll, tap) = (epoll.as_raw_fd(), tap.as_fd().as_raw_fd());
            // SAFETY: both descriptors are open and the event outlives the call.
            Errno::result(unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, tap, &raw mut event) })?;
        }
        Ok(Poller { epoll })
    }

    /// Waits at most `limit` and appends the indices of readable devices to `ready`.
    pub fn wait(&self, limit: Duration, ready: &mut Vec<usize>) -> Result<(), Errno> {
        let limit = limit.min(MAX_INTERVAL);
        let limit = libc::timespec { tv_sec: limit.as_secs() as _, tv_nsec: limit.subsec_nanos() as _ };
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; MAX_READY];
        // SAFETY: all pointers outlive the call; `events` has room for the requested number; no
        // signal mask is given.
        let count = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.epoll.as_raw_fd(),
                events.as_mut_ptr(),
                MAX_READY as libc::c_int,
                &raw const limit,
                std::ptr::null::<libc::sigset_t>(),
                0usize,
            )
        };
        match Errno::result(count) {
            Ok(count) => {
                ready.extend(events[..count as usize].iter().map(|event| event.u64 as usize));
                Ok(())
            }
            Err(Errno::EINTR) => Ok(()),
            Err(errno) => Err(errno),
        }
    }
}
