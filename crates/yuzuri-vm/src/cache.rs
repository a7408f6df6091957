//! Cache of packages and images between runs.

use crate::VmError;
use crate::error::AtPath;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use std::fs::File;
use std::path::{Path, PathBuf};

/// The cache folder, `${XDG_CACHE_HOME:-~/.cache}/yuzuri/vm`.
#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
}

impl Cache {
    /// Opens the cache and creates its folder if necessary.
    ///
    /// # Errors
    /// Returns an error if neither HOME nor XDG_CACHE_HOME is set or the folder cannot be created.
    pub fn open() -> Result<Cache, VmError> {
        let home = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        let base = home("XDG_CACHE_HOME").or_else(|| home("HOME").map(|h| h.join(".cache")));
        let base = base.ok_or_else(|| {
            VmError::Unfit(
                "neither HOME nor XDG_CACHE_HOME is set: no place for the cache of packages".into(),
            )
        })?;
        Cache::at(&base.join("yuzuri/vm"))
    }

    pub(crate) fn at(root: &Path) -> Result<Cache, VmError> {
        let cache = Cache { root: root.to_owned() };
        for folder in ["packages", "images", "runs"] {
            let path = cache.path(folder);
            std::fs::create_dir_all(&path).at("making", &path)?;
        }
        Ok(cache)
    }

    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.root.join(name)
    }

    /// Acquires an exclusive lock, which is released on drop. The kernel also releases it when the
    /// process dies.
    pub(crate) fn lock(&self, name: &str, progress: &mut dyn FnMut(&str)) -> Result<Flock<File>, VmError> {
        if let Some(held) = self.try_lock(name)? {
            return Ok(held);
        }
        let (path, file) = self.lock_file(name)?;
        progress(&format!("waiting for another yuzuri-vm, which holds {}", path.display()));
        Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, e)| e.into()).at("locking", &path)
    }

    /// Like [`lock`](Cache::lock), but returns `None` if another process holds the lock.
    pub(crate) fn try_lock(&self, name: &str) -> Result<Option<Flock<File>>, VmError> {
        let (path, file) = self.lock_file(name)?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(held) => Ok(Some(held)),
            Err((_, Errno::EWOULDBLOCK)) => Ok(None),
            Err((_, errno)) => Err(errno.into()).at("locking", &path),
        }
    }

    fn lock_file(&self, name: &str) -> Result<(PathBuf, File), VmError> {
        let path = self.path(format!("{name}.lock"));
        let file = File::options().create(true).truncate(false).write(true).open(&path);
        file.at("opening", &path).map(|file| (path, file))
    }

    /// Creates a folder for one run, which is removed on drop. First removes the folders of killed
    /// runs: their locks are free.
    pub(crate) fn run_folder(&self) -> Result<RunFolder, VmError> {
        let runs = self.path("runs");
        let entries = std::fs::read_dir(&runs).at("reading", &runs)?;
        for folder in entries.filter_map(Result::ok).map(|e| e.path()) {
            // A folder without a lock file is being created or removed.
            let Ok(file) = File::open(folder.join("lock")) else { continue };
            if let Ok(_free) = Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                let _ = std::fs::remove_dir_all(&folder);
            }
        }
        let folder = tempfile::Builder::new().prefix("run-").tempdir_in(&runs).at("making", &runs)?;
        let path = folder.path().join("lock");
        let file = File::create(&path).at("making", &path)?;
        let lock = Flock::lock(file, FlockArg::LockExclusiveNonblock);
        let _lock = lock.map_err(|(_, e)| e.into()).at("locking", &path)?;
        Ok(RunFolder { folder, _lock })
    }
}

/// The temporary folder of one run.
pub(crate) struct RunFolder {
    folder: tempfile::TempDir,
    _lock: Flock<File>,
}

impl RunFolder {
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn folders_of_killed_runs_are_removed_and_those_of_live_runs_stay() {
        let root = tempfile::tempdir().unwrap();
        let cache = Cache::at(root.path()).unwrap();
        std::fs::create_dir_all(cache.path("runs/run-dead")).unwrap();
        std::fs::write(cache.path("runs/run-dead/lock"), "").unwrap();
        let living = cache.run_folder().unwrap();
        assert!(!cache.path("runs/run-dead").exists());
        let other = cache.run_folder().unwrap();
        assert!(living.path("lock").exists() && other.path("lock").exists());
        let path = other.path("");
        drop(other);
        assert!(!path.exists());
    }

    #[test]
    fn a_lock_is_given_back_when_dropped() {
        let root = tempfile::tempdir().unwrap();
        let cache = Cache::at(root.path()).unwrap();
        drop(cache.lock("x", &mut |_| {}).unwrap());
        let held = cache.lock("x", &mut |_| panic!("nobody holds it")).unwrap();
        let mut reported = String::new();
        std::thread::scope(|scope| {
            let (sender, waiting) = std::sync::mpsc::channel();
            let (cache, reported) = (&cache, &mut reported);
            let second = scope.spawn(move || {
                cache
                    .lock("x", &mut |text| {
                        *reported = text.to_owned();
                        sender.send(()).unwrap();
                    })
                    .map(drop)
            });
            waiting.recv().unwrap();
            drop(held);
            second.join().unwrap().unwrap();
        });
        assert!(reported.contains("waiting"), "{reported}");
    }
}
