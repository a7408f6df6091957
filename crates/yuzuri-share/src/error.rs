//! What can go wrong, in words for who runs it.

use std::path::PathBuf;
use yuzuri_kernel::control::ControlError;
use yuzuri_policy::MemberError;

/// Why there is no sharing.
#[derive(Debug, thiserror::Error)]
pub enum ShareError {
    /// Neither a key nor leave to do without.
    #[error(
        "no key is configured, so members cannot be authenticated: create one with `yuzuri share key FILE`, give the same file to every \
         terminal and name it with --key-file (key_file in the configuration); or join groups without a key with --keyless, where anybody on \
         the network can say anything"
    )]
    NoKey,
    /// The key file cannot be used.
    #[error("key file {}: {why}", file.display())]
    KeyFile {
        /// The file.
        file: PathBuf,
        /// What is wrong and what to do.
        why: String,
    },
    /// The configuration file is wrong.
    #[error("{0}")]
    Config(String),
    /// A setting is out of range.
    #[error("{field}: {why}")]
    Setting {
        /// Which.
        field: String,
        /// What is wrong and what is right.
        why: String,
    },
    /// Another instance runs.
    #[error(
        "another instance is running as process {pid} (it holds {}): `yuzuri share status` shows it; stop it first, or use another --runtime \
         folder and --control name for another network namespace",
        lock.display()
    )]
    Running {
        /// Its process.
        pid: String,
        /// The lock that it holds.
        lock: PathBuf,
    },
    /// The kernel part cannot be set up.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The group part refuses the settings.
    #[error(transparent)]
    Member(#[from] MemberError),
    /// An interface that was named is not there.
    #[error("there is no network interface '{name}'; available: {there}")]
    NoInterface {
        /// The name.
        name: String,
        /// Those that are there.
        there: String,
    },
    /// A call of the system failed.
    #[error("{doing}: {why}")]
    System {
        /// What was being done, to what.
        doing: String,
        /// Why it failed.
        why: String,
    },
}

impl ShareError {
    /// A failed call of the system.
    pub(crate) fn system(doing: impl Into<String>, why: impl ToString) -> ShareError {
        ShareError::System { doing: doing.into(), why: why.to_string() }
    }
}
