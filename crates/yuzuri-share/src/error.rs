//! The errors of the sharing daemon, with messages for its operator.

use std::path::PathBuf;
use yuzuri_kernel::control::ControlError;
use yuzuri_policy::MemberError;

/// Why sharing failed.
#[derive(Debug, thiserror::Error)]
pub enum ShareError {
    /// No key is configured, and groups without a key are not allowed.
    #[error(
        "no key is configured, so members cannot be authenticated: create one with `yuzuri share key FILE`, give the same file to every \
         terminal and name it with --key-file (key_file in the configuration); or join groups without a \
         key with --keyless, where anybody on the network can forge messages"
    )]
    NoKey,
    /// The key file cannot be used.
    #[error("key file {}: {why}", file.display())]
    KeyFile {
        /// The file.
        file: PathBuf,
        /// What is wrong and how to fix it.
        why: String,
    },
    /// The configuration file is invalid.
    #[error("{0}")]
    Config(String),
    /// A setting is out of range.
    #[error("{field}: {why}")]
    Setting {
        /// The name of the setting.
        field: String,
        /// What is wrong and which values are valid.
        why: String,
    },
    /// Another instance is running.
    #[error(
        "another instance is running as process {pid} (it holds {}): `yuzuri {daemon} status` shows it; stop it first, or use another --runtime \
         folder and --control name for another network namespace",
        lock.display()
    )]
    Running {
        /// Its process ID.
        pid: String,
        /// The lock file that it holds.
        lock: PathBuf,
        /// Which daemon: `share` or `ap`.
        daemon: &'static str,
    },
    /// The congestion control cannot be set up.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The group member rejects the settings.
    #[error(transparent)]
    Member(#[from] MemberError),
    /// A configured interface does not exist.
    #[error("there is no network interface '{name}'; available: {there}")]
    NoInterface {
        /// Its name.
        name: String,
        /// The interfaces that exist.
        there: String,
    },
    /// An access point has no interface to serve.
    #[error(
        "no interface: name the bridge towards the stations, or the device of each radio, by --interface or in \
         the configuration file; `ip link` lists them"
    )]
    NoDevice,
    /// The group of an interface is not known yet.
    #[error(
        "{interface}: waiting for the gateway's link address, which determines the group; or set `group` \
         in the configuration"
    )]
    NoGatewayYet {
        /// Its name.
        interface: String,
    },
    /// The group of an interface cannot be found out.
    #[error(
        "{interface}: cannot determine which terminals share this interface; set `group` and `rendezvous` in the configuration"
    )]
    NoGroup {
        /// Its name.
        interface: String,
    },
    /// The gate of an access point cannot be set up.
    #[error(transparent)]
    Gate(#[from] yuzuri_gate::GateError),
    /// A system call failed.
    #[error("{doing}: {why}")]
    System {
        /// The failed operation and its object.
        doing: String,
        /// The reason.
        why: String,
    },
}

impl ShareError {
    /// Whether it resolves without action when a network is joined, and so is not a problem.
    pub(crate) fn is_wait(&self) -> bool {
        matches!(self, ShareError::NoGatewayYet { .. })
    }

    /// An error of a system call.
    pub(crate) fn system(doing: impl Into<String>, why: impl ToString) -> ShareError {
        ShareError::System { doing: doing.into(), why: why.to_string() }
    }
}
