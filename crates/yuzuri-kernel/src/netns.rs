//! Network namespaces by name.

use crate::diag::Diag;
use crate::helper;
use std::collections::HashMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const NAMED: &str = "/run/netns";

/// Why a network namespace cannot be found or entered.
#[derive(Debug, thiserror::Error)]
pub enum NamespaceError {
    /// The name would lead out of `/run/netns`.
    #[error("'{0}' is not the name of a network namespace")]
    BadName(String),
    /// The namespace does not exist.
    #[error(
        "there is no network namespace '{name}' ({path}: {source}); `ip netns list` shows the named ones"
    )]
    Missing {
        /// The name as given.
        name: String,
        /// Where it was expected.
        path: String,
        /// Why it cannot be used.
        source: io::Error,
    },
    /// The file is not a namespace.
    #[error("{0} is not a network namespace")]
    NotANamespace(String),
    /// The namespace was given by its number, and has no file through which to enter it.
    #[error("namespace {0} has no name in {NAMED} to enter it by")]
    Unnamed(u32),
    /// Its file cannot be opened.
    #[error("opening {}: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The kernel refuses to enter it.
    #[error("entering network namespace {}: {source} (it needs root)", path.display())]
    Enter {
        /// Its file.
        path: PathBuf,
        /// The reason.
        source: nix::Error,
    },
    /// Its sockets cannot be listed.
    #[error("opening a sock_diag socket in namespace '{name}': {source}")]
    Diag {
        /// Name or number.
        name: String,
        /// The reason.
        source: io::Error,
    },
}

/// Inode number of a namespace given by its name in `/run/netns`, its number, or `self`.
///
/// # Errors
/// If there is no namespace of that name.
pub fn inode(name: &str) -> Result<u32, NamespaceError> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let path = if name == "self" { "/proc/self/ns/net".to_owned() } else { named(name)? };
    match std::fs::metadata(&path) {
        Ok(file) => u32::try_from(file.ino()).map_err(|_| NamespaceError::NotANamespace(path)),
        Err(source) => Err(NamespaceError::Missing { name: name.to_owned(), path, source }),
    }
}

/// The path of a name: in that folder, and nowhere else.
fn named(name: &str) -> Result<String, NamespaceError> {
    if name.contains(['/', '\0']) || matches!(name, "" | "." | "..") {
        return Err(NamespaceError::BadName(name.to_owned()));
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

/// A network namespace and the path through which it can be entered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NetNamespace {
    /// Its inode number.
    pub(crate) number: u32,
    /// Its name in `/run/netns`.
    pub(crate) name: Option<String>,
    pub(crate) path: PathBuf,
}

/// Every namespace that has a name or a process.
pub(crate) fn all() -> Vec<NetNamespace> {
    helper::spaces().unwrap_or_else(all_seen)
}

/// The same, as far as this process itself can see.
pub(crate) fn all_seen() -> Vec<NetNamespace> {
    let named = names();
    let mut spaces: HashMap<u32, NetNamespace> = HashMap::new();
    let mut add = |number: u32, path: PathBuf| {
        let space = || NetNamespace { number, name: named.get(&number).cloned(), path };
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
/// If it does not exist, or cannot be entered (it needs CAP_SYS_ADMIN).
pub(crate) fn enter<T: Send>(path: &Path, f: impl FnOnce() -> T + Send) -> Result<T, NamespaceError> {
    let file =
        std::fs::File::open(path).map_err(|source| NamespaceError::Open { path: path.to_owned(), source })?;
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            nix::sched::setns(file, nix::sched::CloneFlags::CLONE_NEWNET)
                .map_err(|source| NamespaceError::Enter { path: path.to_owned(), source })?;
            Ok(f())
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Runs a closure inside a namespace, on a thread of its own.
///
/// # Errors
/// If the namespace cannot be found or entered (it needs CAP_SYS_ADMIN).
pub fn inside<T: Send>(name: &str, f: impl FnOnce() -> T + Send) -> Result<T, NamespaceError> {
    if name == "self" {
        return Ok(f());
    }
    let path = match name.parse::<u32>() {
        Ok(number) => {
            let names = names();
            let name = names.get(&number).ok_or(NamespaceError::Unnamed(number))?;
            format!("{NAMED}/{name}")
        }
        Err(_) => named(name)?,
    };
    enter(Path::new(&path), f)
}

/// Whether the calling process is in the namespace of a descriptor.
pub(crate) fn is_at(home: &std::fs::File) -> bool {
    let here = std::fs::metadata("/proc/self/ns/net");
    here.and_then(|here| Ok(here.ino() == home.metadata()?.ino())).unwrap_or(false)
}

/// A `sock_diag` socket in a namespace, where it stays.
///
/// # Errors
/// If it cannot be entered.
pub(crate) fn diag_in(space: &NetNamespace) -> Result<Diag, NamespaceError> {
    let opened = match helper::diag(space.number) {
        Some(opened) => opened,
        None => enter(&space.path, Diag::open)?,
    };
    opened.map_err(|source| NamespaceError::Diag { name: space.number.to_string(), source })
}

/// The same in a namespace by its name in `/run/netns`, its number, or `self`.
///
/// # Errors
/// If it cannot be found or entered.
pub(crate) fn diag_named(name: &str) -> Result<Diag, NamespaceError> {
    let failed = |source| NamespaceError::Diag { name: name.to_owned(), source };
    let number = inode(name)?;
    if name == "self" || is_own(number) {
        return Diag::open().map_err(failed);
    }
    match helper::diag(number) {
        Some(opened) => opened.map_err(failed),
        None => inside(name, Diag::open)?.map_err(failed),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_namespace_is_named_within_its_folder() {
        for name in ["../../etc", "..", ".", "", "a/b", "/proc/1/ns/net", "a\0b"] {
            assert!(
                inode(name).unwrap_err().to_string().contains("is not the name of a network namespace"),
                "{name}"
            );
            assert!(
                inside(name, || ())
                    .unwrap_err()
                    .to_string()
                    .contains("is not the name of a network namespace"),
                "{name}"
            );
        }
    }
}
