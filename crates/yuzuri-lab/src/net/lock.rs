//! Assigns namespaces to runs with a lock that the kernel releases when its owner dies. The lock
//! distinguishes leftovers of a killed run from namespaces in use.

use super::namespace;
use crate::LabError;
use nix::fcntl::{Flock, FlockArg};
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

const FOLDER: &str = "/run/yuzuri-lab";
const PREFIX: &str = "yzlab";
/// Maximum number of concurrent runs. Each has its own addresses, see [`super::Addresses`].
const RUNS: u16 = 20_000;

/// A run's lock on a unique number, from which its namespace names and its addresses are derived.
/// Dropping it releases the number.
#[derive(Debug)]
pub struct Run {
    number: u16,
    path: PathBuf,
    _lock: Flock<File>,
}

impl Run {
    /// Locks a number that no live run has, and removes leftovers of a dead run with that number.
    /// The search starts at `first` or at a random number.
    ///
    /// # Errors
    /// If the folder of locks cannot be written (not root, disk full).
    pub fn claim(first: Option<u16>) -> Result<Run, LabError> {
        std::fs::create_dir_all(FOLDER).map_err(|source| match source.kind() {
            io::ErrorKind::PermissionDenied => {
                let hint = "; the lab makes network namespaces and TAP devices: run it as root";
                LabError::Network { doing: format!("creating {FOLDER}"), source, hint }
            }
            _ => LabError::File { path: FOLDER.into(), source },
        })?;
        let clock = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.subsec_nanos());
        let random = (clock.wrapping_mul(31).wrapping_add(std::process::id()) % u32::from(RUNS)) as u16;
        let first = first.unwrap_or(random);
        for step in 0..RUNS {
            let number = (first + step) % RUNS;
            let path = lock_path(number);
            if let Some(mut lock) = try_lock(&path).map_err(LabError::file(&path))? {
                namespace::remove_all(&prefix(number))?;
                lock.set_len(0).map_err(LabError::file(&path))?;
                writeln!(lock, "{}", std::process::id()).map_err(LabError::file(&path))?;
                return Ok(Run { number, path, _lock: lock });
            }
        }
        Err(LabError::Run(format!("{RUNS} runs are in progress; wait for one to end")))
    }

    /// The name of one of the run's namespaces.
    pub fn namespace(&self, host: &str) -> String {
        format!("{}{host}", prefix(self.number))
    }

    /// The number.
    pub fn number(&self) -> u16 {
        self.number
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // Remove the file while it is locked: a process that opens the path later creates a new
        // file, and one that opened it before detects below that it is gone.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The result of [`clean`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cleaned {
    /// The removed namespaces of dead runs.
    pub namespaces: Vec<String>,
    /// The number of live runs, which were not touched.
    pub live_runs: usize,
}

/// Removes the leftovers of killed runs; live runs are not touched.
///
/// # Errors
/// If a namespace cannot be removed.
pub fn clean() -> Result<Cleaned, LabError> {
    let mut cleaned = Cleaned::default();
    // Search by lock and by name: a namespace whose removal failed no longer has a lock.
    let locks = std::fs::read_dir(FOLDER).into_iter().flatten().flatten();
    let mut numbers: BTreeSet<u16> = locks.filter_map(|e| number_of(&e.path())).collect();
    numbers.extend(namespace::names(PREFIX).iter().filter_map(|name| {
        let (number, _) = name.strip_prefix(PREFIX)?.split_once('-')?;
        number.parse::<u16>().ok()
    }));
    for number in numbers {
        let path = lock_path(number);
        let Some(lock) = try_lock(&path).map_err(LabError::file(&path))? else {
            cleaned.live_runs += 1;
            continue;
        };
        cleaned.namespaces.extend(namespace::remove_all(&prefix(number))?);
        std::fs::remove_file(&path).map_err(LabError::file(&path))?;
        drop(lock);
    }
    Ok(cleaned)
}

fn prefix(number: u16) -> String {
    format!("{PREFIX}{number:05}-")
}

fn lock_path(number: u16) -> PathBuf {
    Path::new(FOLDER).join(format!("{number:05}.lock"))
}

fn number_of(path: &Path) -> Option<u16> {
    (path.extension()? == "lock").then(|| path.file_stem()?.to_str()?.parse().ok()).flatten()
}

/// Takes the lock; `None` if a live process holds it.
fn try_lock(path: &Path) -> io::Result<Option<Flock<File>>> {
    use std::os::unix::fs::MetadataExt;
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    loop {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => {
                // The former owner may have removed the file after we opened it and before we
                // locked it.
                let (ours, there) = (lock.metadata()?, std::fs::metadata(path));
                if there.is_ok_and(|there| there.ino() == ours.ino()) {
                    return Ok(Some(lock));
                }
            }
            Err((_, nix::errno::Errno::EWOULDBLOCK)) => return Ok(None),
            Err((_, errno)) => return Err(errno.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn runs_have_distinct_numbers() {
        if !nix::unistd::geteuid().is_root() {
            return println!("skipped: the folder of locks belongs to root");
        }
        let (a, b) = (Run::claim(Some(7)).unwrap(), Run::claim(Some(7)).unwrap());
        assert_ne!(a.number(), b.number());
        assert_ne!(a.namespace("ap"), b.namespace("ap"));
        assert!(try_lock(&a.path).unwrap().is_none(), "a live run holds its lock");
        let path = a.path.clone();
        drop(a);
        assert!(!path.exists());
    }
}
