//! Libraries of another architecture for cross-building programs.

use crate::cache::Cache;
use crate::error::{AtPath, output};
use crate::lock::{Lock, sha256};
use crate::{VmError, apt};
use std::path::PathBuf;
use std::process::Command;

/// The architectures for which programs can be built, by Debian's names. There are no guests of
/// armhf (armv7 with hardware floating point).
pub const CROSS_ARCHITECTURES: [&str; 3] = ["amd64", "arm64", "armhf"];

/// Folder that contains an architecture's libelf and zlib in Debian's layout (`usr/include`,
/// `usr/lib/TRIPLET`). Fetches and unpacks them if necessary. `architecture` is one of
/// [`CROSS_ARCHITECTURES`].
///
/// # Errors
/// Returns an error if apt, a tool or a file operation fails.
pub fn cross_libraries(
    cache: &Cache,
    architecture: &str,
    progress: &mut dyn FnMut(&str),
) -> Result<PathBuf, VmError> {
    let packages = Lock::pinned()?.cross(architecture);
    if packages.is_empty() {
        return Err(VmError::Unfit(format!(
            "packages.lock pins no libraries for {architecture}: choose one of {}",
            CROSS_ARCHITECTURES.join(", ")
        )));
    }
    let identity = sha256(&[Lock::new(packages.clone()).text().as_bytes()]);
    let name = format!("cross-{architecture}-{}", &identity[..16]);
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
