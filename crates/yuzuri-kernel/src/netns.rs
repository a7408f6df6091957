//! Network namespaces and control groups by name.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;

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

/// Id of the control group (version 2) at a path below the mount point.
///
/// # Errors
/// Where there is no such group.
pub(crate) fn cgroup_id(path: &str) -> Result<u64, String> {
    let mount = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
        .into_iter()
        .find(|mount| std::path::Path::new(mount).join("cgroup.controllers").exists())
        .ok_or("no version 2 control groups are mounted at /sys/fs/cgroup")?;
    let full = format!("{mount}/{}", path.trim_start_matches('/'));
    let meta =
        std::fs::metadata(&full).map_err(|e| format!("there is no control group '{path}' ({full}: {e})"))?;
    if meta.is_dir() { Ok(meta.ino()) } else { Err(format!("'{full}' is no control group")) }
}
