//! Reserves room for the end of a recording: blocks are allocated before they are needed, so that a
//! recording can state its losses even after the disk has filled up.

#![expect(unsafe_code, reason = "fallocate64(3)")]

use nix::errno::Errno;
use nix::libc;
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Room for the last account and the end mark: a description of 6 kB, and rows of about 30 bytes
/// for each CPU and reason.
pub(super) const RESERVE_BYTES: u64 = 32 << 10;

/// Ensures that the file can hold `bytes` bytes without further allocation; its length does not
/// change.
///
/// # Errors
/// If there is no room, or the process may not write files of that length.
pub(super) fn reserve(file: &File, from: u64, bytes: u64) -> io::Result<()> {
    // Writing beyond the limit would also raise SIGXFSZ, which ends the process.
    let (limit, _) = getrlimit(Resource::RLIMIT_FSIZE)?;
    #[allow(clippy::useless_conversion, reason = "it has 32 bits on 32-bit architectures")]
    if limit != RLIM_INFINITY && bytes > u64::from(limit) {
        return Err(Errno::EFBIG.into());
    }
    let signed = |number: u64| i64::try_from(number).map_err(|_| io::Error::from(Errno::EFBIG));
    let (from, length) = (signed(from)?, signed(bytes.saturating_sub(from))?);
    if length == 0 {
        return Ok(());
    }
    loop {
        return match keep(file, from, length) {
            Ok(()) => Ok(()),
            Err(Errno::EINTR) => continue,
            // Not every file system can reserve room: there a full disk may cost the end mark.
            Err(Errno::EOPNOTSUPP | Errno::ENOSYS) => Ok(()),
            Err(errno) => Err(errno.into()),
        };
    }
}

/// Allocates without changing the length. The offsets of nix's function have 32 bits on 32-bit
/// architectures.
fn keep(file: &File, from: i64, length: i64) -> Result<(), Errno> {
    // SAFETY: the descriptor is open, and no memory is passed.
    let result = unsafe { libc::fallocate64(file.as_raw_fd(), libc::FALLOC_FL_KEEP_SIZE, from, length) };
    Errno::result(result).map(drop)
}
