//! How the programs wake a waiting reader: by a BPF ring buffer, the only facility with which every
//! type of program can wake a process. Records do not pass through it.

#![expect(unsafe_code, reason = "memory shared with the kernel")]

use crate::ring::{Mapping, page_size};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::mman::ProtFlags;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The reader's side of the ring buffer `wakeup`.
pub(crate) struct Wakeup {
    map: OwnedFd,
    /// A page with the position up to which the reader has consumed.
    consumed: Mapping,
    /// A page with the position up to which programs have written.
    written: Mapping,
}

impl Wakeup {
    /// `map` is the kernel's ring buffer.
    pub(crate) fn new(map: impl AsFd) -> nix::Result<Wakeup> {
        let page = page_size();
        Ok(Wakeup {
            consumed: Mapping::new(map.as_fd(), 0, page, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE)?,
            written: Mapping::new(map.as_fd(), page, page, ProtFlags::PROT_READ)?,
            map: map.as_fd().try_clone_to_owned().map_err(|_| nix::errno::Errno::last())?,
        })
    }

    /// Whether a program woke the reader since the last call.
    pub(crate) fn take(&mut self) -> bool {
        let position = |mapping: &Mapping| {
            // SAFETY: each page begins with an aligned u64, which is accessed atomically: by us and
            // by the kernel.
            unsafe { AtomicU64::from_ptr(mapping.start().cast().as_ptr()) }
        };
        let written = position(&self.written).load(Ordering::Acquire);
        position(&self.consumed).swap(written, Ordering::AcqRel) != written
    }

    /// Waits until a program wakes the reader, at most `time`.
    pub(crate) fn wait(&self, time: Duration) {
        let timeout = PollTimeout::try_from(time).unwrap_or(PollTimeout::MAX);
        // An error, such as a signal, ends the wait early.
        let _ = poll(&mut [PollFd::new(self.map.as_fd(), PollFlags::POLLIN)], timeout);
    }
}
