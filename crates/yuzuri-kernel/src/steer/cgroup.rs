//! The control group at which new flows are observed.

#![expect(unsafe_code, reason = "calls of libbpf")]

use std::ffi::CStr;
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Opens a control group of version 2: the given one, or the root.
///
/// # Errors
/// If there is none.
pub(super) fn open(given: Option<&Path>) -> std::io::Result<OwnedFd> {
    let opened = |path: &Path| {
        File::open(path)
            .map(OwnedFd::from)
            .map_err(|e| std::io::Error::new(e.kind(), format!("{}: {e}", path.display())))
    };
    match given.map(Path::to_owned).or_else(|| mounted(&std::fs::read_to_string("/proc/self/mounts").ok()?)) {
        Some(path) => opened(&path),
        // `ip netns exec` mounts /sys again, without it.
        None => own_mount(),
    }
}

/// The first mount of cgroup2 in a list like /proc/self/mounts.
fn mounted(mounts: &str) -> Option<PathBuf> {
    let path = mounts.lines().find_map(|line| {
        let mut words = line.split(' ');
        let (_, path, kind) = (words.next()?, words.next()?, words.next()?);
        (kind == "cgroup2").then_some(path)
    })?;
    // Spaces and similar characters are written in octal (proc(5)).
    Some(
        path.replace("\\040", " ")
            .replace("\\011", "\t")
            .replace("\\012", "\n")
            .replace("\\134", "\\")
            .into(),
    )
}

/// The root of the control groups, by a mount that no folder shows and that ends when its
/// descriptor is closed.
fn own_mount() -> std::io::Result<OwnedFd> {
    const FSOPEN_CLOEXEC: libc::c_long = 1;
    const FSCONFIG_CMD_CREATE: libc::c_long = 6;
    const FSMOUNT_CLOEXEC: libc::c_long = 1;
    const KIND: &CStr = c"cgroup2";
    const HERE: &CStr = c".";
    let zero: libc::c_long = 0;
    let checked = |result: libc::c_long| {
        if result >= 0 {
            return Ok(result as i32);
        }
        let error = std::io::Error::last_os_error();
        Err(std::io::Error::new(error.kind(), format!("no cgroup2 is mounted, and mounting it: {error}")))
    };
    // SAFETY: the calls take a name that ends with 0 and integers, and return new descriptors,
    // which are owned from then on.
    unsafe {
        let context =
            OwnedFd::from_raw_fd(checked(libc::syscall(libc::SYS_fsopen, KIND.as_ptr(), FSOPEN_CLOEXEC))?);
        checked(libc::syscall(
            libc::SYS_fsconfig,
            context.as_raw_fd(),
            FSCONFIG_CMD_CREATE,
            zero,
            zero,
            zero,
        ))?;
        let mount = OwnedFd::from_raw_fd(checked(libc::syscall(
            libc::SYS_fsmount,
            context.as_raw_fd(),
            FSMOUNT_CLOEXEC,
            zero,
        ))?);
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
        Ok(OwnedFd::from_raw_fd(checked(libc::openat(mount.as_raw_fd(), HERE.as_ptr(), flags).into())?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_of_version_2_is_found_beside_version_1() {
        let mounts = "proc /proc proc rw 0 0\ncgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw,nosuid 0 0\n";
        assert_eq!(mounted(mounts), Some("/sys/fs/cgroup/unified".into()));
        assert_eq!(mounted("none /a\\040b cgroup2 rw 0 0\n"), Some("/a b".into()));
        assert_eq!(mounted("cgroup2 /cgroup2 tmpfs rw 0 0\n"), None);
    }
}
