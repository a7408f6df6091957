//! Network namespaces and control groups by name.

use crate::diag::Diag;
use crate::helper;
use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::{Mode, fstat};
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const NAMED: &str = "/run/netns";

/// Inode number of a namespace given by its name in `/run/netns`, its number, or `self`.
///
/// # Errors
/// Where there is no namespace of that name.
pub fn inode(name: &str) -> Result<u32, String> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let path = if name == "self" { "/proc/self/ns/net".to_owned() } else { named(name)? };
    let number = std::fs::metadata(&path).map(|m| m.ino()).map_err(|e| {
        format!("there is no network namespace '{name}' ({path}: {e}); `ip netns list` shows the named ones")
    })?;
    u32::try_from(number).map_err(|_| format!("{path} is no namespace"))
}

/// Where a name stands: in that folder, and nowhere else.
fn named(name: &str) -> Result<String, String> {
    if name.contains(['/', '\0']) || matches!(name, "" | "." | "..") {
        return Err(format!("'{name}' is no name of a network namespace"));
    }
    Ok(format!("{NAMED}/{name}"))
}

/// Names of the namespaces in `/run/netns` by inode number.
pub(crate) fn names() -> HashMap<u32, String> {
    let entries = std::fs::read_dir(NAMED).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let number = u32::try_from(std::fs::metadata(entry.path()).ok()?.ino()).ok()?;
            Some((number, entry.file_name().to_string_lossy().into_owned()))
        })
        .collect()
}

/// A network namespace and where it can be entered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Space {
    /// Its inode number.
    pub(crate) number: u32,
    /// Its name in `/run/netns`.
    pub(crate) name: Option<String>,
    pub(crate) path: PathBuf,
}

/// Every namespace that has a name or a process.
pub(crate) fn all() -> Vec<Space> {
    helper::spaces().unwrap_or_else(all_seen)
}

/// The same, as far as this process sees them itself.
pub(crate) fn all_seen() -> Vec<Space> {
    let named = names();
    let mut spaces: HashMap<u32, Space> = HashMap::new();
    let mut add = |number: u32, path: PathBuf| {
        let space = || Space { number, name: named.get(&number).cloned(), path };
        spaces.entry(number).or_insert_with(space);
    };
    named.iter().for_each(|(number, name)| add(*number, format!("{NAMED}/{name}").into()));
    for process in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let path = process.path().join("ns/net");
        // `net:[4026531840]`
        let link = std::fs::read_link(&path).ok();
        let number =
            link.as_ref().and_then(|l| l.to_str()?.strip_prefix("net:[")?.strip_suffix(']')?.parse().ok());
        if let Some(number) = number {
            add(number, path);
        }
    }
    spaces.into_values().collect()
}

/// Whether the calling thread is in that namespace.
pub(crate) fn is_own(number: u32) -> bool {
    std::fs::metadata("/proc/thread-self/ns/net").is_ok_and(|m| m.ino() == u64::from(number))
}

/// Runs a closure inside the namespace at a path, on a thread of its own.
///
/// # Errors
/// Where there is none, or it cannot be entered (it needs CAP_SYS_ADMIN).
pub(crate) fn enter<T: Send>(path: &Path, f: impl FnOnce() -> T + Send) -> Result<T, String> {
    let file = std::fs::File::open(path).map_err(|e| format!("opening {}: {e}", path.display()))?;
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            nix::sched::setns(file, nix::sched::CloneFlags::CLONE_NEWNET)
                .map_err(|e| format!("entering network namespace {}: {e} (it needs root)", path.display()))?;
            Ok(f())
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Runs a closure inside a namespace, on a thread of its own.
///
/// # Errors
/// Where the namespace cannot be entered (it needs CAP_SYS_ADMIN) or found.
pub fn inside<T: Send>(name: &str, f: impl FnOnce() -> T + Send) -> Result<T, String> {
    if name == "self" {
        return Ok(f());
    }
    let path = match name.parse::<u32>() {
        Ok(number) => {
            let names = names();
            let name = names
                .get(&number)
                .ok_or(format!("namespace {number} has no name in {NAMED} to enter it by"))?;
            format!("{NAMED}/{name}")
        }
        Err(_) => named(name)?,
    };
    enter(Path::new(&path), f)
}

/// Whether the calling process is in the namespace that a descriptor stands for.
pub(crate) fn is_at(home: &std::fs::File) -> bool {
    let here = std::fs::metadata("/proc/self/ns/net");
    here.and_then(|here| Ok(here.ino() == home.metadata()?.ino())).unwrap_or(false)
}

/// A `sock_diag` socket in a namespace, which stays there.
///
/// # Errors
/// Where it cannot be entered.
pub(crate) fn diag_in(space: &Space) -> Result<Diag, String> {
    let opened = match helper::diag(space.number) {
        Some(opened) => opened,
        None => enter(&space.path, Diag::open)?,
    };
    opened.map_err(|e| format!("opening a sock_diag socket in namespace {}: {e}", space.number))
}

/// The same in a namespace by its name in `/run/netns`, its number, or `self`.
///
/// # Errors
/// Where it cannot be found or entered.
pub(crate) fn diag_named(name: &str) -> Result<Diag, String> {
    let failed = |e| format!("opening a sock_diag socket in namespace '{name}': {e}");
    let number = inode(name)?;
    if name == "self" || is_own(number) {
        return Diag::open().map_err(failed);
    }
    match helper::diag(number) {
        Some(opened) => opened.map_err(failed),
        None => inside(name, Diag::open)?.map_err(failed),
    }
}

/// Folder of the control group (version 2) at a path below the mount point. No part of the path leads out of there: each
/// is opened by itself, and none is a link or another file system.
///
/// # Errors
/// Where there is no such group.
pub(crate) fn cgroup_folder(path: &str) -> Result<PathBuf, String> {
    let mount = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
        .into_iter()
        .find(|mount| Path::new(mount).join("cgroup.controllers").exists())
        .ok_or("no version 2 control groups are mounted at /sys/fs/cgroup")?;
    // The same answer whatever is or is not there.
    let none = || format!("there is no control group '{path}' below {mount}");
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let mut folder = open(mount, flags, Mode::empty()).map_err(|e| format!("opening {mount}: {e}"))?;
    let device = fstat(&folder).map_err(|e| format!("looking at {mount}: {e}"))?.st_dev;
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
pub(crate) fn cgroup_id(path: &str) -> Result<u64, String> {
    let folder = cgroup_folder(path)?;
    std::fs::metadata(&folder).map(|m| m.ino()).map_err(|e| format!("{}: {e}", folder.display()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn no_path_leads_out_of_the_control_groups() {
        let Ok(root) = cgroup_folder("/") else { return println!("skipped: no version 2 control groups") };
        let answer = |path: &str| cgroup_folder(path).unwrap_err().replace(path, "PATH");
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
            assert_eq!(cgroup_folder(&format!("//{name}/")).unwrap(), below.path());
            assert_eq!(cgroup_id(&name).unwrap(), below.metadata().unwrap().ino());
        }
    }

    #[test]
    fn a_namespace_is_named_within_its_folder() {
        for name in ["../../etc", "..", ".", "", "a/b", "/proc/1/ns/net", "a\0b"] {
            assert!(inode(name).unwrap_err().contains("is no name of a network namespace"), "{name}");
            assert!(inside(name, || ()).unwrap_err().contains("is no name of a network namespace"), "{name}");
        }
    }
}
