//! Access to the kernel's tracefs for a test, even if it is not mounted.

#![expect(unsafe_code, reason = "system calls that no library here wraps")]

use anyhow::anyhow;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::{Path, PathBuf};

/// The usual mount points.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// A readable and writable tracefs. If it is not mounted, this is a detached mount, which no other
/// process sees and which ends when this value is dropped.
#[derive(Debug)]
pub struct Tracefs {
    path: PathBuf,
    _mount: Option<File>,
}

impl Tracefs {
    /// Finds the mount, or creates a detached one.
    ///
    /// # Errors
    /// If tracefs is not available, with the reason for skipping the test.
    pub fn open() -> anyhow::Result<Tracefs> {
        let mounted = |place: &&str| Path::new(place).join("instances").is_dir();
        if let Some(place) = PLACES.into_iter().find(mounted) {
            return Ok(Tracefs { path: place.into(), _mount: None });
        }
        let mount = detached().map_err(|e| anyhow!("tracefs is not mounted and cannot be: {e}"))?;
        Ok(Tracefs { path: format!("/proc/self/fd/{}", mount.as_raw_fd()).into(), _mount: Some(mount) })
    }

    /// Its path, valid for this process.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Creates a detached mount of tracefs (`fsopen`, Linux 5.2).
fn detached() -> io::Result<File> {
    let none = std::ptr::null::<libc::c_char>();
    // SAFETY: the name is a C string that outlives the call.
    let context =
        owned(unsafe { libc::syscall(libc::SYS_fsopen, c"tracefs".as_ptr(), libc::FSOPEN_CLOEXEC) })?;
    // SAFETY: the descriptor is open; the other arguments are not used by this command.
    let made = unsafe {
        libc::syscall(libc::SYS_fsconfig, context.as_raw_fd(), libc::FSCONFIG_CMD_CREATE, none, none, 0)
    };
    if made != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is open; the rest are numbers.
    owned(unsafe { libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), libc::FSMOUNT_CLOEXEC, 0) })
}

fn owned(descriptor: libc::c_long) -> io::Result<File> {
    match i32::try_from(descriptor) {
        // SAFETY: the kernel has just returned this descriptor, and nothing else owns it.
        Ok(descriptor) if descriptor >= 0 => Ok(unsafe { File::from_raw_fd(descriptor) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Mounts tracefs in a new mount namespace, for programs that look for it at its usual place. Runs
/// in a child between fork and exec and therefore only makes system calls. If tracefs is already
/// mounted, nothing changes.
///
/// # Errors
/// If the kernel refuses a call, with its error.
pub fn mount_for_child() -> io::Result<()> {
    use nix::mount::{MsFlags, mount};
    use nix::sched::{CloneFlags, unshare};
    // If this file of tracefs exists, it is mounted. `access` allocates nothing.
    // SAFETY: the path is a C string.
    if unsafe { libc::access(c"/sys/kernel/tracing/instances".as_ptr(), libc::F_OK) } == 0 {
        return Ok(());
    }
    unshare(CloneFlags::CLONE_NEWNS)?;
    let none = None::<&'static std::ffi::CStr>;
    mount(none, c"/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
    mount(Some(c"tracefs"), c"/sys/kernel/tracing", Some(c"tracefs"), MsFlags::empty(), none)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn tcp_events_are_visible_to_this_process_and_a_child() {
        use std::os::unix::process::CommandExt;
        if !nix::unistd::geteuid().is_root() {
            println!("tcp_events_are_visible_to_this_process_and_a_child: skipped: tracefs needs root");
            return;
        }
        let tracefs = Tracefs::open().unwrap();
        assert!(tracefs.path().join("events/tcp/tcp_probe/format").is_file());
        let mut child = std::process::Command::new("test");
        child.args(["-f", "/sys/kernel/tracing/events/tcp/tcp_probe/format"]);
        // SAFETY: only system calls between fork and exec.
        unsafe { child.pre_exec(mount_for_child) };
        assert!(child.status().unwrap().success());
    }
}
