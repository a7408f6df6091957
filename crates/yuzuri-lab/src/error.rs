//! What can go wrong, in words that say what to do.

use std::io;
use std::path::{Path, PathBuf};
use yuzuri_scenario::Problems;

/// Why an experiment did not take place or did not end well.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The scenario cannot be run as it is written.
    #[error("{0}")]
    Scenario(Problems),
    /// A program that the lab calls is not there or failed.
    #[error("{0}")]
    Tool(String),
    /// The kernel refused something while the network was built or run.
    #[error("{doing}: {source}{hint}")]
    Network {
        /// What was being done, to what.
        doing: String,
        /// Why it failed.
        source: io::Error,
        /// What to do about it; empty, or beginning with `; `.
        hint: &'static str,
    },
    /// A file of the results could not be written or read.
    #[error("{path}: {source}{}", file_hint(source))]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file of the results is not what this version writes.
    #[error("{path}: {why}")]
    Results {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A terminal's work or the watching failed.
    #[error("{0}")]
    Run(String),
    /// The user ended it.
    #[error("stopped early; finished runs are kept")]
    Stopped,
}

impl LabError {
    /// For `map_err` on system calls.
    pub(crate) fn network<E: Into<io::Error>>(doing: impl Into<String>) -> impl FnOnce(E) -> LabError {
        let doing = doing.into();
        move |source| {
            let source = source.into();
            let hint = match source.raw_os_error() {
                Some(libc::EPERM | libc::EACCES) => {
                    "; the lab makes network namespaces and TAP devices: run it as root"
                }
                Some(libc::ENODEV | libc::ENOENT) => {
                    "; the kernel needs TUN/TAP (CONFIG_TUN): try `modprobe tun`"
                }
                _ => "",
            };
            LabError::Network { doing, source, hint }
        }
    }

    /// For `map_err` on files.
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> LabError {
        let path = path.to_owned();
        move |source| LabError::File { path, source }
    }
}

fn file_hint(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; make room and start again: finished runs are kept and not repeated"
        }
        _ => "",
    }
}
