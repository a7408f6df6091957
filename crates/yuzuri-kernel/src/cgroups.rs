//! Control groups (version 2) by their path.

use nix::fcntl::{OFlag, openat};
use nix::sys::stat::{Mode, fstat};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Why a control group cannot be found.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    /// No version 2 hierarchy is mounted.
    #[error("no version 2 control groups are mounted at /sys/fs/cgroup")]
    NotMounted,
    /// No group has this path.
    #[error("there is no control group '{path}' below {mount}")]
    Missing {
        /// The path as given.
        path: String,
        /// The mount point.
        mount: &'static str,
    },
    /// The group's folder, or the mount point, cannot be opened.
    #[error("opening {}: {source}", path.display())]
    Open {
        /// The folder.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

/// The folder of the control group (version 2) at a path below the mount point. The path cannot
/// leave it: each part is opened separately, and none may be a link or another file system.
///
/// # Errors
/// If there is no such group.
pub(crate) fn folder(path: &str) -> Result<PathBuf, CgroupError> {
    let mount = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
        .into_iter()
        .find(|mount| Path::new(mount).join("cgroup.controllers").exists())
        .ok_or(CgroupError::NotMounted)?;
    // The same answer for any missing part.
    let none = || CgroupError::Missing { path: path.to_owned(), mount };
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let mut folder = nix::fcntl::open(mount, flags, Mode::empty())
        .map_err(|source| CgroupError::Open { path: mount.into(), source: source.into() })?;
    let device = fstat(&folder)
        .map_err(|source| CgroupError::Open { path: mount.into(), source: source.into() })?
        .st_dev;
    let mut full = PathBuf::from(mount);
    for part in path.split('/').filter(|part| !part.is_empty()) {
        if matches!(part, "." | "..") {
            return Err(none());
        }
        folder = openat(&folder, part, flags, Mode::empty()).map_err(|_| none())?;
        if fstat(&folder).map_or(true, |stat| stat.st_dev != device) {
            return Err(none());
        }
        full.push(part);
    }
    Ok(full)
}

/// Id of a control group: its folder's inode number.
pub(crate) fn id(path: &str) -> Result<u64, CgroupError> {
    let folder = folder(path)?;
    std::fs::metadata(&folder).map(|m| m.ino()).map_err(|source| CgroupError::Open { path: folder, source })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn no_path_leads_out_of_the_cgroup_hierarchy() {
        let Ok(root) = folder("/") else { return println!("skipped: no version 2 control groups") };
        let answer = |path: &str| folder(path).unwrap_err().to_string().replace(path, "PATH");
        let missing = answer("no-such-group");
        for path in
            ["../../etc", "../../no-such", "..", "a/../b", "/../..", ".", "./", "cgroup.procs", "../cgroup"]
        {
            assert_eq!(answer(path), missing, "{path}");
        }
        let below =
            std::fs::read_dir(&root).unwrap().flatten().find(|e| e.file_type().is_ok_and(|t| t.is_dir()));
        if let Some(below) = below {
            let name = below.file_name().into_string().unwrap();
            assert_eq!(folder(&format!("//{name}/")).unwrap(), below.path());
            assert_eq!(id(&name).unwrap(), below.metadata().unwrap().ino());
        }
    }
}
