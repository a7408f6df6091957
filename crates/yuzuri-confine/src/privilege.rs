//! Permanent removal of capabilities and of root's user id.

use crate::{ConfineError, Identity};
use caps::{CapSet, Capability, CapsHashSet};
use nix::errno::Errno;
use nix::sys::prctl;
use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};
use std::fs;
use std::time::{Duration, Instant};

/// How long to wait for threads that are about to end.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Whether the calling thread is root or has any capability.
pub fn has_privilege() -> bool {
    nix::unistd::geteuid().is_root()
        || caps::read(None, CapSet::Permitted).map_or(true, |permitted| !permitted.is_empty())
}

/// Permanently drops every capability of the calling thread and of the threads it starts later. The
/// user id stays.
///
/// # Errors
/// Returns the kernel's error if a step is refused.
pub fn drop_capabilities() -> Result<(), ConfineError> {
    keep_only(&[], None)
}

/// Drops every capability of the calling thread except `kept` and changes to `identity` if one is
/// given. Capabilities in `kept` that the thread does not have are not added.
///
/// # Errors
/// Returns the kernel's error if a step is refused.
pub fn keep_only(kept: &[Capability], identity: Option<Identity>) -> Result<(), ConfineError> {
    let failed =
        |e| ConfineError::system("setting the capability sets", std::io::Error::other(format!("{e}")));
    prctl::set_no_new_privs().map_err(|e| ConfineError::system("prctl(PR_SET_NO_NEW_PRIVS)", e))?;
    // Clearing the bounding set requires CAP_SETPCAP. If that is missing, no_new_privs still
    // prevents the process from gaining a capability from the set.
    let _ = caps::clear(None, CapSet::Bounding);
    let _ = caps::clear(None, CapSet::Ambient);
    let permitted = caps::read(None, CapSet::Permitted).map_err(failed)?;
    if let Some(identity) = identity {
        // Keeps the permitted set across the change of user. The calls below then reduce it.
        prctl::set_keepcaps(true).map_err(|e| ConfineError::system("prctl(PR_SET_KEEPCAPS)", e))?;
        become_user(identity)?;
    }
    let kept: CapsHashSet = kept.iter().copied().filter(|cap| permitted.contains(cap)).collect();
    caps::set(None, CapSet::Inheritable, &CapsHashSet::new()).map_err(failed)?;
    caps::set(None, CapSet::Effective, &kept).map_err(failed)?;
    caps::set(None, CapSet::Permitted, &kept).map_err(failed)
}

/// Drops every capability of the process and, if an identity is given, changes from root to that
/// user and leaves all groups. Other processes can no longer read this process's memory
/// (`PR_SET_DUMPABLE`). The result is verified: a thread that keeps a capability is an error.
///
/// A change of user applies to all threads; no thread may have dropped its capabilities before, or
/// the C library aborts the process. Without a change of user, threads that are already running
/// must have dropped their capabilities or be about to end.
///
/// # Errors
/// Returns the kernel's error if a step is refused, and [`ConfineError::CapabilitiesLeft`] if a
/// thread still has a capability after 10 s. The process must not continue after an error.
pub fn give_up_privileges(identity: Option<Identity>) -> Result<(), ConfineError> {
    // Must precede the change of user, which removes CAP_SETPCAP.
    let _ = caps::clear(None, CapSet::Bounding);
    if let Some(identity) = identity {
        become_user(identity)?;
    }
    drop_capabilities()?;
    prctl::set_dumpable(false).map_err(|e| ConfineError::system("prctl(PR_SET_DUMPABLE)", e))?;
    let until = Instant::now() + TIMEOUT;
    while let Some((thread, kept)) = privileged_thread()? {
        if Instant::now() >= until {
            return Err(ConfineError::CapabilitiesLeft { thread, kept });
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Permanently changes to a user and a group and leaves all supplementary groups.
fn become_user(Identity { uid, gid }: Identity) -> Result<(), ConfineError> {
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    match setgroups(&[]) {
        // An unprivileged user namespace denies setgroups(2). The groups are those of its creator.
        Err(Errno::EPERM) if fs::read_to_string("/proc/self/setgroups").is_ok_and(|s| s.trim() == "deny") => {
        }
        result => result.map_err(|e| ConfineError::system("leaving all groups", e))?,
    }
    setresgid(gid, gid, gid).map_err(|e| ConfineError::system(format!("changing to group {gid}"), e))?;
    setresuid(uid, uid, uid).map_err(|e| ConfineError::system(format!("changing to user {uid}"), e))
}

/// Finds a thread of this process that has a capability. Returns its name and the line of its
/// `status` file that lists the set.
fn privileged_thread() -> Result<Option<(String, String)>, ConfineError> {
    let tasks = fs::read_dir("/proc/self/task")
        .map_err(|e| ConfineError::system("listing the threads in /proc/self/task", e))?;
    for task in tasks.flatten() {
        // The thread may end in the meantime.
        let Ok(status) = fs::read_to_string(task.path().join("status")) else { continue };
        let sets = ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"];
        let is_kept = |line: &&str| {
            sets.iter()
                .any(|set| line.strip_prefix(set).is_some_and(|bits| bits.trim().bytes().any(|b| b != b'0')))
        };
        if let Some(line) = status.lines().find(is_kept) {
            let name = status.lines().next().unwrap_or_default();
            return Ok(Some((name.trim_start_matches("Name:").trim().to_owned(), line.replace('\t', " "))));
        }
    }
    Ok(None)
}
