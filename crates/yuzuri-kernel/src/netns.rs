//! Network namespaces and control groups by name.

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
    let path = match name {
        "self" => "/proc/self/ns/net".to_owned(),
        name if name.contains('/') => return Err(format!("'{name}' is no name of a network namespace")),
        name => format!("{NAMED}/{name}"),
    };
    let number = std::fs::metadata(&path).map(|m| m.ino()).map_err(|e| {
        format!("there is no network namespace '{name}' ({path}: {e}); `ip netns list` shows the named ones")
    })?;
    u32::try_from(number).map_err(|_| format!("{path} is no namespace"))
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
        Err(_) => format!("{NAMED}/{name}"),
    };
    enter(Path::new(&path), f)
}

/// Folder of the control group (version 2) at a path below the mount point.
///
/// # Errors
/// Where there is no such group.
pub(crate) fn cgroup_folder(path: &str) -> Result<std::path::PathBuf, String> {
    let mount = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
        .into_iter()
        .find(|mount| std::path::Path::new(mount).join("cgroup.controllers").exists())
        .ok_or("no version 2 control groups are mounted at /sys/fs/cgroup")?;
    let full = std::path::PathBuf::from(format!("{mount}/{}", path.trim_start_matches('/')));
    match std::fs::metadata(&full) {
        Ok(meta) if meta.is_dir() => Ok(full),
        Ok(_) => Err(format!("'{}' is no control group", full.display())),
        Err(e) => Err(format!("there is no control group '{path}' ({}: {e})", full.display())),
    }
}

/// Id of a control group: its folder's inode number.
pub(crate) fn cgroup_id(path: &str) -> Result<u64, String> {
    let folder = cgroup_folder(path)?;
    std::fs::metadata(&folder).map(|m| m.ino()).map_err(|e| format!("{}: {e}", folder.display()))
}
