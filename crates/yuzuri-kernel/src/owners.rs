//! Which process holds a socket, from `/proc`.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use yuzuri_trace::Owner;

/// Owners of the sockets with these inode numbers, as far as `/proc` shows them to us. Where several processes
/// hold a socket, the one with the lowest id.
pub(crate) fn find(wanted: &HashSet<u64>) -> HashMap<u64, Owner> {
    let mut found = HashMap::new();
    if wanted.is_empty() {
        return found;
    }
    let Ok(processes) = std::fs::read_dir("/proc") else { return found };
    let mut pids: Vec<u32> =
        processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    pids.sort_unstable();
    for pid in pids {
        // A process may end at any moment, and others' are closed to us without privilege: both are no error.
        let Ok(files) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { continue };
        let mut owner = None;
        for file in files.flatten() {
            let Some(inode) = std::fs::read_link(file.path()).ok().and_then(|target| socket_inode(&target))
            else {
                continue;
            };
            if wanted.contains(&inode) && !found.contains_key(&inode) {
                let owner = owner.get_or_insert_with(|| Owner { pid, name: name(pid) });
                found.insert(inode, owner.clone());
            }
        }
        if found.len() == wanted.len() {
            break;
        }
    }
    found
}

fn socket_inode(target: &Path) -> Option<u64> {
    target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

fn name(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn our_own_socket_is_ours() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let link = std::fs::read_link(format!("/proc/self/fd/{}", listener.as_raw_fd())).unwrap();
        let inode = socket_inode(&link).unwrap();
        let found = find(&HashSet::from([inode]));
        assert_eq!(found.get(&inode).map(|owner| owner.pid), Some(std::process::id()));
        assert!(find(&HashSet::from([u64::MAX])).is_empty());
    }
}
