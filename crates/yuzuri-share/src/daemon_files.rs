//! The files of a daemon, and the lock that prevents a second instance.

use crate::folder::{self, Folder};
use crate::keys::{from_hex, to_hex};
use crate::{ShareError, clock, netns};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::unistd::geteuid;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{ErrorKind, Read, Seek, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use yuzuri_policy::{KEY_BYTES, NodeId, Notice};

const RUNTIME: &str = "/run/yuzuri";
const STATE: &str = "/var/lib/yuzuri";
/// The group of the service's user, created by the package.
const SERVICE_GROUP: &str = "yuzuri";

/// The folders and files of a daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DaemonFiles {
    runtime: PathBuf,
    /// The prefix of its file names.
    daemon: &'static str,
}

/// The default name of the congestion control: `yuzuri`, with the namespace number appended unless
/// this is certainly the initial network namespace. Congestion control names are shared by the
/// whole machine.
pub fn default_control_name() -> String {
    match netns::foreign() {
        Some(number) => format!("yuzuri_{:x}", number & 0xffff_ffff),
        None => "yuzuri".into(),
    }
}

impl DaemonFiles {
    /// Uses the given runtime folder. The default is `/run/yuzuri`, with `netns-NUMBER` below it
    /// unless this is certainly the initial network namespace.
    pub fn new(runtime: Option<PathBuf>) -> DaemonFiles {
        let usual = || match netns::foreign() {
            Some(number) => Path::new(RUNTIME).join(format!("netns-{number}")),
            None => RUNTIME.into(),
        };
        DaemonFiles { runtime: runtime.unwrap_or_else(usual), daemon: "share" }
    }

    /// The files of an access point's daemon.
    pub fn of_access_point(runtime: Option<PathBuf>) -> DaemonFiles {
        DaemonFiles { daemon: "ap", ..DaemonFiles::new(runtime) }
    }

    /// The status file of an access point's daemon.
    pub fn status_file(&self) -> PathBuf {
        self.runtime.join(format!("{}.json", self.daemon))
    }

    /// The control socket.
    pub fn socket(&self) -> PathBuf {
        self.runtime.join(format!("{}.sock", self.daemon))
    }

    /// The record of restored flows; see
    /// [`ShareConfig::migrated_file`](crate::ShareConfig::migrated_file).
    pub fn migrated_file(&self) -> PathBuf {
        self.runtime.join("share.migrated")
    }

    fn lock_file(&self) -> PathBuf {
        self.runtime.join(format!("{}.lock", self.daemon))
    }

    /// Creates the folder and takes the lock. The lock is held until the result is dropped.
    ///
    /// # Errors
    /// If another instance holds the lock, with its process ID; or if the folder cannot be created.
    pub fn take(&self) -> Result<InstanceLock, ShareError> {
        let doing = |what: &str, path: &Path| format!("{what} {}", path.display());
        let refused = |doing: String, e: std::io::Error| match e.kind() {
            ErrorKind::PermissionDenied => ShareError::system(
                doing,
                format!("{e}: run it as root (`yuzuri doctor` shows what it needs)"),
            ),
            _ => ShareError::system(doing, e),
        };
        let folder =
            Folder::make(&self.runtime).map_err(|e| refused(doing("making the folder", &self.runtime), e))?;
        let path = self.lock_file();
        let file = folder
            .open_file(&format!("{}.lock", self.daemon))
            .map_err(|e| refused(doing("opening the lock", &path), e))?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(mut lock) => {
                let pid = std::process::id();
                let written =
                    lock.set_len(0).and_then(|()| lock.rewind()).and_then(|()| writeln!(lock, "{pid}"));
                written.map_err(|e| ShareError::system(doing("writing the lock", &path), e))?;
                Ok(InstanceLock { _lock: lock })
            }
            Err((mut file, Errno::EWOULDBLOCK)) => {
                let mut pid = String::new();
                // An instance that has just taken the lock may not have written its process ID yet.
                let _ = file.read_to_string(&mut pid);
                let pid = if pid.trim().is_empty() { "?".into() } else { pid.trim().to_owned() };
                Err(ShareError::Running { pid, lock: path, daemon: self.daemon })
            }
            Err((_, error)) => Err(ShareError::system(doing("locking", &path), error)),
        }
    }
}

/// Proof that no other instance uses the same files.
#[derive(Debug)]
pub struct InstanceLock {
    _lock: Flock<File>,
}

/// The stored node ID, from `/var/lib/yuzuri` or the given folder.
pub fn stored_node(state: Option<&Path>) -> Option<NodeId> {
    let path = state.unwrap_or(Path::new(STATE)).join("node");
    let text = folder::read(&path).ok()?;
    u64::from_str_radix(text.trim(), 16).ok().filter(|node| *node != 0).map(NodeId)
}

/// Draws a random node ID.
///
/// # Errors
/// If the system's random number generator fails.
pub fn new_node() -> Result<NodeId, ShareError> {
    Ok(NodeId(u64::from_ne_bytes(clock::random()?).max(1)))
}

/// Stores the node ID for the next start.
///
/// # Errors
/// If the file cannot be written. The next start then draws a new ID; only the continuity of logs
/// is lost.
pub fn store_node(state: Option<&Path>, node: NodeId) -> Result<(), ShareError> {
    let path = state.unwrap_or(Path::new(STATE)).join("node");
    folder::replace(&path, &format!("{node}\n"))
        .map_err(|e| ShareError::system(format!("storing the terminal's id in {}", path.display()), e))
}

/// The stored group key notice.
pub fn stored_notice(state: Option<&Path>) -> Option<Notice> {
    let path = state.unwrap_or(Path::new(STATE)).join("notice");
    let text = folder::read(&path).ok()?;
    Some(Notice::from_bytes(&from_hex(text.trim())?))
}

/// Stores a group key notice for the next start.
///
/// # Errors
/// If the file cannot be written. After the next start another member has to send the notice again.
pub fn store_notice(state: Option<&Path>, notice: &Notice) -> Result<(), ShareError> {
    let path = state.unwrap_or(Path::new(STATE)).join("notice");
    folder::replace(&path, &format!("{}\n", to_hex(&notice.to_bytes())))
        .map_err(|e| ShareError::system(format!("storing the group's key in {}", path.display()), e))
}

/// Creates a key file that only its owner can read: 64 hexadecimal digits. If root creates it and
/// the service's group exists, that group can read it as well (mode 0640).
///
/// # Errors
/// If the file already exists or cannot be written.
pub fn new_key_file(file: &Path) -> Result<(), ShareError> {
    let key: [u8; KEY_BYTES] = clock::random()?;
    let text = to_hex(&key);
    let wrong = |why: String| ShareError::KeyFile { file: file.to_owned(), why };
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file);
    let mut opened = opened.map_err(|e| match e.kind() {
        ErrorKind::AlreadyExists => wrong("it exists already; a key is never replaced".into()),
        ErrorKind::NotFound => {
            wrong("cannot create it: there is no such folder; create the folder first".into())
        }
        _ => wrong(e.to_string()),
    })?;
    let written = writeln!(opened, "{text}").and_then(|()| opened.sync_all());
    let group = geteuid().is_root().then(|| group_number("/etc/group", SERVICE_GROUP)).flatten();
    let shared = group.map_or(Ok(()), |group| {
        fchown(&opened, None, Some(group))?;
        opened.set_permissions(Permissions::from_mode(0o640))
    });
    written.and(shared).map_err(|e| wrong(e.to_string()))
}

/// The ID of a group of this machine. The C library's function would load NSS modules, which a
/// static program cannot do.
fn group_number(file: &str, name: &str) -> Option<u32> {
    let groups = std::fs::read_to_string(file).ok()?;
    let fields = groups.lines().map(|line| line.split(':').collect::<Vec<_>>());
    fields.into_iter().find(|fields| fields[0] == name).and_then(|fields| fields.get(2)?.parse().ok())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::KeySource;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn a_second_instance_is_refused_and_the_first_named() {
        let folder = tempfile::tempdir().unwrap();
        let places = DaemonFiles::new(Some(folder.path().join("run")));
        let first = places.take().unwrap();
        let refused = places.take().unwrap_err();
        assert!(
            matches!(&refused, ShareError::Running { pid, .. } if *pid == std::process::id().to_string())
        );
        assert!(refused.to_string().contains("share.lock"), "{refused}");
        drop(first);
        places.take().unwrap();
    }

    #[test]
    fn ids_and_keys_are_stored() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        assert_eq!(stored_node(Some(&state)), None);
        store_node(Some(&state), NodeId(0xfe)).unwrap();
        assert_eq!(stored_node(Some(&state)), Some(NodeId(0xfe)));
        let file = folder.path().join("key");
        new_key_file(&file).unwrap();
        let found = file.metadata().unwrap();
        match group_number("/etc/group", SERVICE_GROUP).filter(|_| geteuid().is_root()) {
            Some(group) => assert_eq!((found.mode() & 0o777, found.gid()), (0o640, group)),
            None => assert_eq!(found.mode() & 0o777, 0o600),
        }
        let load = || KeySource::File(file.clone()).load(&mut Vec::new()).unwrap();
        let key = load();
        assert!(key.is_some());
        assert!(new_key_file(&file).unwrap_err().to_string().contains("exists already"));
        assert!(load() == key);
        let authority = yuzuri_policy::Authority::from_bytes([1; 32]);
        let notice = authority.notice(2, 3).unwrap();
        assert_eq!(stored_notice(Some(&state)), None);
        store_notice(Some(&state), &notice).unwrap();
        assert_eq!(stored_notice(Some(&state)), Some(notice));
    }

    #[test]
    fn groups_are_found_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("group");
        std::fs::write(&file, "root:x:0:\n\nyuzurisan:x:7:\nyuzuri:x:998:alice\nbroken\n").unwrap();
        let file = file.to_str().unwrap();
        assert_eq!(group_number(file, "yuzuri"), Some(998));
        assert_eq!(group_number(file, "broken"), None);
        assert_eq!(group_number("/nowhere", "yuzuri"), None);
    }

    #[test]
    fn a_planted_lock_is_refused_with_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let victim = folder.path().join("victim");
        std::fs::write(&victim, "whole").unwrap();
        let run = folder.path().join("run");
        std::fs::create_dir(&run).unwrap();
        std::os::unix::fs::symlink(&victim, run.join("share.lock")).unwrap();
        let error = DaemonFiles::new(Some(run)).take().unwrap_err().to_string();
        assert!(error.contains("share.lock") && error.contains("symbolic link"), "{error}");
        assert_eq!(std::fs::read_to_string(victim).unwrap(), "whole");
    }

    /// Runs `f` on a separate thread in a new network namespace; `None` without privilege.
    fn in_a_new_namespace<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let thread = std::thread::spawn(|| {
            nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).ok()?;
            Some(f())
        });
        thread.join().unwrap()
    }

    #[test]
    fn namespaces_have_names_and_folders_of_their_own() {
        const TEST: &str = "namespaces_have_names_and_folders_of_their_own";
        let here = || (default_control_name(), DaemonFiles::new(None).socket());
        // Keep both namespaces alive: the number of one that is gone may be reused.
        let both = in_a_new_namespace(move || (here(), in_a_new_namespace(here)));
        let Some((one, Some(other))) = both else {
            println!("{TEST}: skipped: network namespaces need root");
            return;
        };
        assert_ne!(one.0, other.0);
        assert_ne!(one.1, other.1);
        for (control, socket) in [one, other] {
            assert!(control.starts_with("yuzuri_") && control.len() <= 15, "{control}");
            assert!(
                socket.starts_with("/run/yuzuri") && socket.to_str().unwrap().contains("netns-"),
                "{socket:?}"
            );
        }
    }
}
