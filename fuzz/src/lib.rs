//! A file in memory, for readers that need a path.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::path::PathBuf;

/// An empty file in memory.
pub fn memory_file() -> File {
    let name = nix::sys::memfd::memfd_create(c"yuzuri-fuzz", nix::sys::memfd::MFdFlags::empty());
    name.expect("the kernel has files in memory").into()
}

/// Rewrites the file; returns its path.
pub fn rewrite(file: &mut File, write: impl FnOnce(&mut File) -> io::Result<()>) -> PathBuf {
    let written = file.set_len(0).and_then(|()| file.seek(SeekFrom::Start(0))).and_then(|_| write(file));
    written.expect("memory takes it");
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}
