//! Processes that accept network connections drop all privileges after setup.

use yuzuri_confine::{Identity, SystemCalls};

/// Help of `--user`.
pub const USER_HELP: &str =
    "If started by root, switch to this user after setup [default: an unused user id]";

/// Drops all privileges and permits only these system calls.
///
/// # Errors
/// If privileges remain.
pub fn to(identity: Option<Identity>, calls: &SystemCalls) -> anyhow::Result<()> {
    yuzuri_confine::give_up_privileges(identity)?;
    // A kernel without seccomp does not prevent serving: the capabilities and user are already
    // dropped.
    if let Err(error) = calls.permit_only() {
        yuzuri_exit::note!("yuzuri: the system calls of this process are not restricted: {error}");
    }
    Ok(())
}
