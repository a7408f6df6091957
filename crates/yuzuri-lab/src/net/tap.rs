//! TAP devices: network interfaces whose other end is a program.

#![expect(unsafe_code, reason = "system calls that no library here wraps")]

use crate::LabError;
use nix::errno::Errno;
use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

/// A TAP device in the network namespace of the thread that created it; removed on drop.
///
/// Without `IFF_VNET_HDR` the kernel offers no offloads on it: segments are cut to the MTU and
/// checksums are filled in before we read a frame, and frames that we write are neither merged nor
/// exempt from checksum validation.
#[derive(Debug)]
pub struct Tap {
    file: File,
}

impl Tap {
    /// Creates a device with this name, at most 15 bytes, in the calling thread's namespace.
    ///
    /// # Errors
    /// Without root, without TUN/TAP in the kernel, or if the device exists.
    pub fn create(name: &str) -> Result<Tap, LabError> {
        const PATH: &str = "/dev/net/tun";
        let open = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(PATH);
        let file = open.map_err(LabError::network(format!("opening {PATH}")))?;
        // SAFETY: all zero bytes are a valid ifreq.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes().take(libc::IFNAMSIZ - 1)) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
        // SAFETY: the descriptor is open and the request outlives the call.
        let made = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) };
        Errno::result(made).map_err(LabError::network(format!("creating TAP device {name}")))?;
        Ok(Tap { file })
    }

    /// Reads a frame; `None` if there is none.
    ///
    /// # Errors
    /// If the device is gone or down.
    pub fn read(&self, into: &mut [u8]) -> Result<Option<usize>, Errno> {
        match nix::unistd::read(&self.file, into) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Delivers a frame to the namespace.
    ///
    /// # Errors
    /// If the kernel has no memory for it, or if the device is down.
    pub fn write(&self, frame: &[u8]) -> Result<(), Errno> {
        nix::unistd::write(&self.file, frame).map(drop)
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
