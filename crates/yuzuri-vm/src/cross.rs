//! Libraries of another architecture for cross-building programs.

use crate::cache::Cache;
use crate::error::{AtPath, output};
use crate::lock::{Lock, sha256};
use crate::{Arch, VmError, apt};
use std::path::PathBuf;
use std::process::Command;

/// Folder that contains an architecture's libelf and zlib in Debian's layout (`usr/include`,
/// `usr/lib/TRIPLET`). Fetches and unpacks them if necessary.
///
/// # Errors
/// Returns an error if apt, a tool or a file operation fails.
pub fn cross_libraries(
    cache: &Cache,
    arch: Arch,
    progress: &mut dyn FnMut(&str),
) -> Result<PathBuf, VmError> {
    let packages = Lock::pinned()?.cross(arch);
    let identity = sha256(&[Lock::new(packages.clone()).text().as_bytes()]);
    let name = format!("cross-{}-{}", arch.debian(), &identity[..16]);
    let folder = cache.path(&name);
    let _one = cache.lock(&name, progress)?;
    if folder.exists() {
        return Ok(folder);
    }
    let root = cache.path("");
    let fresh = tempfile::Builder::new().prefix("partial-").tempdir_in(&root).at("making", &root)?;
    for package in apt::fetch(cache, &packages, progress)? {
        let advice = "is the disk full? Otherwise remove the file: it will be fetched again";
        output(Command::new("dpkg-deb").arg("-x").arg(&package).arg(fresh.path()), advice)?;
    }
    std::fs::rename(fresh.keep(), &folder).at("moving into place", &folder)?;
    Ok(folder)
}
