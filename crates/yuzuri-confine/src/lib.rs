//! Drops a process's privileges once everything it works with is open: all capabilities, root's
//! user id, any way to regain them, and the system calls that it does not need.
//!
//! ```no_run
//! use yuzuri_confine::{Identity, SystemCalls, give_up_privileges};
//! // Bind, open and attach first. Then:
//! give_up_privileges(Identity::of_its_own()?)?;
//! SystemCalls::of_open_sockets().permit_only()?;
//! # Ok::<(), yuzuri_confine::ConfineError>(())
//! ```
//!
//! See also: docs/share.md, "Privilege", and
//! docs/journal/2026-11-24-page-and-other-local-users.md.

mod calls;
mod identity;
mod numbers;
mod privilege;

pub use calls::SystemCalls;
pub use caps::Capability;
pub use identity::Identity;
pub use privilege::{drop_capabilities, give_up_privileges, has_privilege, keep_only};

use std::io;

/// Why a process could not be confined.
#[derive(Debug, thiserror::Error)]
pub enum ConfineError {
    /// The kernel refused a step.
    #[error("giving up privileges: {doing}: {source}")]
    System {
        /// The step that failed.
        doing: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// A thread still has a capability.
    #[error(
        "giving up privileges: thread '{thread}' of this process keeps capabilities ({kept}); this is a bug"
    )]
    CapabilitiesLeft {
        /// The thread's name.
        thread: String,
        /// The line of its `status` file that lists the capability set.
        kept: String,
    },
    /// The user given by `--user` does not exist.
    #[error(
        "changing to user '{0}': /etc/passwd has no such user; name one that it has, or write a number UID or UID:GID"
    )]
    NoSuchUser(String),
    /// `--user` was given, but the caller is not root.
    #[error("changing to user '{0}': only root can change users; run as root, or leave --user out")]
    NotRoot(String),
    /// The system call filter could not be built.
    #[error("restricting system calls: {0}")]
    Filter(String),
}

impl ConfineError {
    pub(crate) fn system(doing: impl Into<String>, source: impl Into<io::Error>) -> ConfineError {
        ConfineError::System { doing: doing.into(), source: source.into() }
    }
}
