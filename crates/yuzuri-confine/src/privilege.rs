//! Capabilities and root's user id are given up for good.

use crate::{ConfineError, Identity};
use caps::{CapSet, Capability, CapsHashSet};
use nix::errno::Errno;
use nix::sys::prctl;
use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};
use std::fs;
use std::time::{Duration, Instant};

/// How long a thread that is about to end may take to do so.
const PATIENCE: Duration = Duration::from_secs(10);

/// Whether the calling thread has anything to give up.
pub fn has_privilege() -> bool {
    nix::unistd::geteuid().is_root()
        || caps::read(None, CapSet::Permitted).map_or(true, |permitted| !permitted.is_empty())
}

/// Gives up every capability of the calling thread and of those it starts from now on, for good. The user id stays.
///
/// # Errors
/// What the kernel says.
pub fn drop_capabilities() -> Result<(), ConfineError> {
    keep_only(&[], None)
}

/// Gives up every capability of the calling thread but these, of which those that it does not have stay missing, and
/// changes to another user where one is given.
///
/// # Errors
/// What the kernel says.
pub fn keep_only(kept: &[Capability], identity: Option<Identity>) -> Result<(), ConfineError> {
    let failed =
        |e| ConfineError::system("setting the capability sets", std::io::Error::other(format!("{e}")));
    prctl::set_no_new_privs().map_err(|e| ConfineError::system("prctl(PR_SET_NO_NEW_PRIVS)", e))?;
    // Without CAP_SETPCAP the bounding set stays; no_new_privs keeps the process from getting anything out of it.
    let _ = caps::clear(None, CapSet::Bounding);
    let _ = caps::clear(None, CapSet::Ambient);
    let permitted = caps::read(None, CapSet::Permitted).map_err(failed)?;
    if let Some(identity) = identity {
        // Across the change of user; the sets below are what stays.
        prctl::set_keepcaps(true).map_err(|e| ConfineError::system("prctl(PR_SET_KEEPCAPS)", e))?;
        become_user(identity)?;
    }
    let kept: CapsHashSet = kept.iter().copied().filter(|cap| permitted.contains(cap)).collect();
    caps::set(None, CapSet::Inheritable, &CapsHashSet::new()).map_err(failed)?;
    caps::set(None, CapSet::Effective, &kept).map_err(failed)?;
    caps::set(None, CapSet::Permitted, &kept).map_err(failed)
}

/// Gives up every capability of the process and, where root runs it, root's user id with all its groups. Nobody else can
/// look into the process's memory from then on (`PR_SET_DUMPABLE`). Verified: where a thread keeps a capability after
/// all, this is an error. Of a change of user
/// all threads learn; none may have dropped its capabilities before, or the C library ends the process. Without a change of
/// user, threads that run already must have dropped theirs or be about to end.
///
/// # Errors
/// What the kernel says; the process must not go on then.
pub fn give_up_privileges(identity: Option<Identity>) -> Result<(), ConfineError> {
    // Before the user id changes: afterwards CAP_SETPCAP is gone.
    let _ = caps::clear(None, CapSet::Bounding);
    if let Some(identity) = identity {
        become_user(identity)?;
    }
    drop_capabilities()?;
    prctl::set_dumpable(false).map_err(|e| ConfineError::system("prctl(PR_SET_DUMPABLE)", e))?;
    let until = Instant::now() + PATIENCE;
    while let Some((thread, kept)) = privileged_thread()? {
        if Instant::now() >= until {
            return Err(ConfineError::Kept { thread, kept });
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Changes to a user and a group for good, and leaves all other groups.
fn become_user(Identity { uid, gid }: Identity) -> Result<(), ConfineError> {
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    match setgroups(&[]) {
        // A user namespace of somebody without privilege: the groups are that one's.
        Err(Errno::EPERM) if fs::read_to_string("/proc/self/setgroups").is_ok_and(|s| s.trim() == "deny") => {
        }
        result => result.map_err(|e| ConfineError::system("leaving all groups", e))?,
    }
    setresgid(gid, gid, gid).map_err(|e| ConfineError::system(format!("changing to group {gid}"), e))?;
    setresuid(uid, uid, uid).map_err(|e| ConfineError::system(format!("changing to user {uid}"), e))
}

/// A thread of this process that has a capability, and the line of its `status` that says so.
fn privileged_thread() -> Result<Option<(String, String)>, ConfineError> {
    let tasks = fs::read_dir("/proc/self/task")
        .map_err(|e| ConfineError::system("listing the threads in /proc/self/task", e))?;
    for task in tasks.flatten() {
        // A thread may end meanwhile.
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
