//! The errors of the laboratory; each message says what to do.

use crate::report::DrawError;
use std::io;
use std::path::{Path, PathBuf};
use yuzuri_scenario::Problems;

/// Why an experiment failed.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The scenario cannot be run as written.
    #[error("{0}")]
    Scenario(Problems),
    /// A tool that the laboratory needs is missing or failed.
    #[error("{0}")]
    Tool(String),
    /// The kernel returned an error while the network was built or used.
    #[error("{doing}: {source}{hint}")]
    Network {
        /// The failed operation and its object.
        doing: String,
        /// The reason.
        source: io::Error,
        /// The remedy; empty, or starting with `; `.
        hint: &'static str,
    },
    /// A results file could not be written or read.
    #[error("{path}: {source}{}", file_hint(source))]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A results file does not have the format of this version.
    #[error("{path}: {why}")]
    Results {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A workload or the monitor failed.
    #[error("{0}")]
    Run(String),
    /// A plot of a report could not be drawn.
    #[error("drawing the plot '{caption}': {source}; please report this with the results folder")]
    Plot {
        /// The plot's caption.
        caption: String,
        /// The reason.
        source: DrawError,
    },
    /// The user stopped the run.
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

    /// For `map_err` on file operations.
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> LabError {
        let path = path.to_owned();
        move |source| LabError::File { path, source }
    }
}

fn file_hint(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; free some space and start again: finished runs are kept and not repeated"
        }
        _ => "",
    }
}
