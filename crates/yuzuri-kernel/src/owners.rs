//! Finds the process that holds a socket, from `/proc`. If many processes have many open files, a
//! search takes seconds. It has its own thread, so that neither the ring buffers nor the polls wait
//! for it.

use crate::helper;
use crate::worker::{Cancellation, Worker};
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::Duration;
use yuzuri_trace::{FlowId, Owner};

/// How long the end of the observation waits for a search, so that the last flows have owners, too.
pub(crate) const LAST_WAIT: Duration = Duration::from_secs(1);

/// Owners by inode number.
pub(crate) type Found = HashMap<u64, Owner>;

/// Looks for owners, one search at a time.
pub(crate) struct Owners {
    worker: Worker<HashSet<u64>, Found>,
    /// The flows of the search in progress, with their sockets' inode numbers.
    asked: Vec<(FlowId, u64)>,
}

impl Owners {
    /// # Errors
    /// If the system has no room for a thread.
    pub(crate) fn new() -> std::io::Result<Owners> {
        Owners::found_by(|wanted, cancellation| {
            let found = helper::owners(&wanted, &|| !cancellation.is_cancelled());
            found.unwrap_or_else(|| find(&wanted, &|| cancellation.is_cancelled()))
        })
    }

    /// As [`Owners::new`] with another search function.
    pub(crate) fn found_by(
        search: impl FnMut(HashSet<u64>, &Cancellation) -> Found + Send + 'static,
    ) -> std::io::Result<Owners> {
        Ok(Owners { worker: Worker::new("yuzuri-owners", search)?, asked: Vec::new() })
    }

    /// Whether a search may begin.
    pub(crate) fn is_free(&self) -> bool {
        self.worker.is_free()
    }

    /// Begins a search for these flows' sockets, unless one is in progress.
    pub(crate) fn look_for(&mut self, flows: impl IntoIterator<Item = (FlowId, u64)>) {
        if !self.is_free() {
            return;
        }
        // The number does not matter: a search always visits all processes once.
        self.asked = flows.into_iter().collect();
        if !self.asked.is_empty() {
            let _ = self.worker.send(self.asked.iter().map(|(_, inode)| *inode).collect());
        }
    }

    /// The result of the search, if it has ended: an owner or none for each flow of the request.
    pub(crate) fn take(&mut self) -> Option<Vec<(FlowId, Option<Owner>)>> {
        let found = self.worker.take()?;
        Some(self.answer(&found))
    }

    /// As [`Owners::take`], waiting at most this long.
    pub(crate) fn wait(&mut self, timeout: Duration) -> Option<Vec<(FlowId, Option<Owner>)>> {
        if self.is_free() {
            return None;
        }
        let found = self.worker.wait(timeout)?;
        Some(self.answer(&found))
    }

    fn answer(&mut self, found: &Found) -> Vec<(FlowId, Option<Owner>)> {
        self.asked.drain(..).map(|(id, inode)| (id, found.get(&inode).cloned())).collect()
    }
}

/// Owners of the sockets with these inode numbers, as far as `/proc` shows them to us. If several
/// processes hold a socket, the one with the lowest id.
pub(crate) fn find(wanted: &HashSet<u64>, given_up: &dyn Fn() -> bool) -> Found {
    let mut found = HashMap::new();
    let Ok(processes) = std::fs::read_dir("/proc") else { return found };
    let mut pids: Vec<u32> =
        processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    pids.sort_unstable();
    for pid in pids {
        // A process may end at any moment, and those of others are inaccessible without privilege:
        // neither is an error.
        let Ok(files) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { continue };
        let mut owner = None;
        for file in files.flatten() {
            if given_up() {
                return found;
            }
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
    fn our_own_socket_has_our_process_as_owner() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let link = std::fs::read_link(format!("/proc/self/fd/{}", listener.as_raw_fd())).unwrap();
        let inode = socket_inode(&link).unwrap();
        let mut owners = Owners::new().unwrap();
        assert!(owners.is_free() && owners.take().is_none());
        owners.look_for([(FlowId(1), inode), (FlowId(2), u64::MAX)]);
        let found = owners.wait(Duration::from_secs(20)).unwrap();
        assert_eq!(found[0].1.as_ref().map(|owner| owner.pid), Some(std::process::id()));
        assert_eq!(found[1], (FlowId(2), None));
        owners.look_for([]);
        assert!(owners.is_free());
    }
}
