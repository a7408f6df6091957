//! Errors of building images and running guests.
use std::path::{Path, PathBuf};

/// Why a guest could not be built or did not run to completion.
#[derive(Debug, thiserror::Error)]
pub enum VmError {
    /// A required program is missing on the host or failed.
    #[error("{program}: {why}; {advice}")]
    Tool {
        /// Name of the program.
        program: String,
        /// Its error message.
        why: String,
        /// What to do next.
        advice: String,
    },
    /// A file operation failed.
    #[error("{doing} {}: {source}", path.display())]
    File {
        /// The operation, such as `writing`.
        doing: &'static str,
        /// Path of the file or folder.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A package of `packages.lock` is no longer in the archive.
    #[error(
        "{wanted} is not in the package archive (it offers {offered}). {}Take what the archive has now \
         with --latest (the results then name its versions), or pin it again with `yuzuri-vm lock`",
        if *security {
            ""
        } else {
            "This machine's apt has no archive of security updates, which may contain it: add it to apt's sources, or set \
             YUZURI_DEBIAN_SECURITY_ARCHIVE to the address of a mirror. Or: "
        }
    )]
    Gone {
        /// Package and version.
        wanted: String,
        /// Versions that the archive offers.
        offered: String,
        /// Whether an archive of security updates was searched, too.
        security: bool,
    },
    /// A fetched package does not match the lock file.
    #[error(
        "{file} has SHA-256 {found}, but packages.lock expects {wanted}: the archive's file was changed; it was not used"
    )]
    Checksum {
        /// File name of the package.
        file: String,
        /// SHA-256 of the file.
        found: String,
        /// SHA-256 in the lock file.
        wanted: String,
    },
    /// Input is not as expected, or the host or guest does not meet a requirement.
    #[error("{0}")]
    Unfit(String),
    /// The guest ended without an exit code of its program.
    #[error("{why}; the guest's clock was at {guest_s:.1} s; its last output:\n{tail}")]
    Guest {
        /// What happened, and what to do.
        why: String,
        /// Time of the guest's clock since its boot, as far as known, seconds.
        guest_s: f64,
        /// End of the console output.
        tail: String,
    },
    /// The caller asked to stop.
    #[error("stopped; the guest was removed")]
    Stopped,
}

/// Adds operation and path to an I/O error.
pub(crate) trait AtPath<T> {
    fn at(self, doing: &'static str, path: &Path) -> Result<T, VmError>;
}

impl<T> AtPath<T> for std::io::Result<T> {
    fn at(self, doing: &'static str, path: &Path) -> Result<T, VmError> {
        self.map_err(|source| VmError::File { doing, path: path.to_owned(), source })
    }
}

/// Runs a program to completion and returns its standard output.
pub(crate) fn output(command: &mut std::process::Command, advice: &str) -> Result<String, VmError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let tool = |why: String| VmError::Tool { program: program.clone(), why, advice: advice.to_owned() };
    let output = command.output().map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => VmError::Tool {
            program: program.clone(),
            why: "it is not installed".into(),
            advice: "`scripts/setup.sh vm` installs it, as root".into(),
        },
        _ => tool(e.to_string()),
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(tool(format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim())))
}
