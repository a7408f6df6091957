//! Where a daemon keeps its things, and that there is one only.

use crate::keys::{from_hex, to_hex};
use crate::{ShareError, clock};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use yuzuri_policy::{KEY_BYTES, NodeId, Notice};

const RUNTIME: &str = "/run/yuzuri";
const STATE: &str = "/var/lib/yuzuri";

/// The folders and files of a daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    runtime: PathBuf,
}

/// Inode number of a process's network namespace.
fn netns_of(process: &str) -> Option<u64> {
    std::fs::metadata(format!("/proc/{process}/ns/net")).ok().map(|m| m.ino())
}

/// The own namespace's number, unless it is that of process 1.
fn foreign_netns() -> Option<u64> {
    let own = netns_of("thread-self")?;
    match netns_of("1") {
        Some(init) => (own != init).then_some(own),
        // Without the privilege to ask: whoever runs in another namespace has a folder there.
        None => Path::new(RUNTIME).join(format!("netns-{own}")).exists().then_some(own),
    }
}

/// The control's usual name: `yuzuri`, in another network namespace than that of process 1 with its number, since the names of congestion
/// controls are the whole machine's.
pub fn default_control_name() -> String {
    match foreign_netns() {
        Some(number) => format!("yuzuri_{:x}", number & 0xffff_ffff),
        None => "yuzuri".into(),
    }
}

impl Places {
    /// In a runtime folder; the usual one is `/run/yuzuri`, and below it `netns-NUMBER` in another network namespace than that of
    /// process 1.
    pub fn new(runtime: Option<PathBuf>) -> Places {
        let usual = || match foreign_netns() {
            Some(number) => Path::new(RUNTIME).join(format!("netns-{number}")),
            None => RUNTIME.into(),
        };
        Places { runtime: runtime.unwrap_or_else(usual) }
    }

    /// Where the daemon is asked.
    pub fn socket(&self) -> PathBuf {
        self.runtime.join("share.sock")
    }

    /// Which flows were given back; see [`ShareConfig::moved_file`](crate::ShareConfig::moved_file).
    pub fn moved_file(&self) -> PathBuf {
        self.runtime.join("share.moved")
    }

    fn lock_file(&self) -> PathBuf {
        self.runtime.join("share.lock")
    }

    /// Makes the folder and takes the lock, for as long as the result lives.
    ///
    /// # Errors
    /// Another instance has it, which is named; or the folder cannot be made.
    pub fn take(&self) -> Result<Sole, ShareError> {
        let doing = |what: &str, path: &Path| format!("{what} {}", path.display());
        std::fs::create_dir_all(&self.runtime)
            .map_err(|e| ShareError::system(doing("making the folder", &self.runtime), e))?;
        let path = self.lock_file();
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o644).open(&path);
        let file = file.map_err(|e| ShareError::system(doing("opening the lock", &path), e))?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(mut lock) => {
                let pid = std::process::id();
                let written =
                    lock.set_len(0).and_then(|()| lock.rewind()).and_then(|()| writeln!(lock, "{pid}"));
                written.map_err(|e| ShareError::system(doing("writing the lock", &path), e))?;
                Ok(Sole { _lock: lock })
            }
            Err((mut file, Errno::EWOULDBLOCK)) => {
                let mut pid = String::new();
                // Who has just taken it may not have written it yet.
                let _ = file.read_to_string(&mut pid);
                let pid = if pid.trim().is_empty() { "?".into() } else { pid.trim().to_owned() };
                Err(ShareError::Running { pid, lock: path })
            }
            Err((_, error)) => Err(ShareError::system(doing("locking", &path), error)),
        }
    }
}

/// Shows that no other instance uses the same places.
#[derive(Debug)]
pub struct Sole {
    _lock: Flock<File>,
}

/// The terminal's id as it was kept, in `/var/lib/yuzuri` or another folder.
pub fn kept_node(state: Option<&Path>) -> Option<NodeId> {
    let path = state.unwrap_or(Path::new(STATE)).join("node");
    let text = std::fs::read_to_string(path).ok()?;
    u64::from_str_radix(text.trim(), 16).ok().filter(|node| *node != 0).map(NodeId)
}

/// Draws an id.
///
/// # Errors
/// Where the system has no random numbers.
pub fn new_node() -> Result<NodeId, ShareError> {
    Ok(NodeId(u64::from_ne_bytes(clock::random()?).max(1)))
}

/// Keeps the terminal's id for the next start.
///
/// # Errors
/// Where it cannot be written: the next start draws another one then, which costs nothing but continuity in logs.
pub fn keep_node(state: Option<&Path>, node: NodeId) -> Result<(), ShareError> {
    let path = state.unwrap_or(Path::new(STATE)).join("node");
    replace(&path, &format!("{node}\n"))
        .map_err(|e| ShareError::system(format!("keeping the terminal's id in {}", path.display()), e))
}

/// What the terminal was told of the group's key, as it was kept.
pub fn kept_notice(state: Option<&Path>) -> Option<Notice> {
    let path = state.unwrap_or(Path::new(STATE)).join("notice");
    let text = std::fs::read_to_string(path).ok()?;
    Some(Notice::from_bytes(&from_hex(text.trim())?))
}

/// Keeps what the terminal was told of the group's key for the next start.
///
/// # Errors
/// Where it cannot be written: after the next start another member has to tell it again.
pub fn keep_notice(state: Option<&Path>, notice: &Notice) -> Result<(), ShareError> {
    let path = state.unwrap_or(Path::new(STATE)).join("notice");
    replace(&path, &format!("{}\n", to_hex(&notice.to_bytes())))
        .map_err(|e| ShareError::system(format!("keeping the group's key in {}", path.display()), e))
}

/// Writes a file, with its folder; whoever reads it meanwhile finds the old one or the new one, whole.
pub(crate) fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    std::fs::write(&new, text)?;
    std::fs::rename(&new, path)
}

/// Makes a key file that only its owner reads: 64 hexadecimal digits.
///
/// # Errors
/// Where it exists already or cannot be written.
pub fn new_key_file(file: &Path) -> Result<(), ShareError> {
    let key: [u8; KEY_BYTES] = clock::random()?;
    let text = to_hex(&key);
    let wrong = |why: String| ShareError::KeyFile { file: file.to_owned(), why };
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file);
    let mut opened = opened.map_err(|e| match e.kind() {
        ErrorKind::AlreadyExists => wrong("it exists already; a key is never replaced".into()),
        _ => wrong(e.to_string()),
    })?;
    writeln!(opened, "{text}").and_then(|()| opened.sync_all()).map_err(|e| wrong(e.to_string()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::KeySource;

    #[test]
    fn a_second_instance_is_refused_and_the_first_named() {
        let folder = tempfile::tempdir().unwrap();
        let places = Places::new(Some(folder.path().join("run")));
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
    fn ids_and_keys_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        assert_eq!(kept_node(Some(&state)), None);
        keep_node(Some(&state), NodeId(0xfe)).unwrap();
        assert_eq!(kept_node(Some(&state)), Some(NodeId(0xfe)));
        let file = folder.path().join("key");
        new_key_file(&file).unwrap();
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600);
        let load = || KeySource::File(file.clone()).load(&mut Vec::new()).unwrap();
        let key = load();
        assert!(key.is_some());
        assert!(new_key_file(&file).unwrap_err().to_string().contains("exists already"));
        assert!(load() == key);
        let authority = yuzuri_policy::Authority::from_bytes([1; 32]);
        let notice = authority.notice(2, 3).unwrap();
        assert_eq!(kept_notice(Some(&state)), None);
        keep_notice(Some(&state), &notice).unwrap();
        assert_eq!(kept_notice(Some(&state)), Some(notice));
    }
}
