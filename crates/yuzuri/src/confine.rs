//! What listens to strangers gives up all that it does not need any more.

use yuzuri_confine::{Identity, SystemCalls};

/// Of `--user`.
pub const USER_HELP: &str =
    "If started by root, switch to this user after setup [default: an unused user id]";

/// Gives up privileges, and all system calls but these.
///
/// # Errors
/// Where privileges stay.
pub fn to(identity: Option<Identity>, calls: &SystemCalls) -> anyhow::Result<()> {
    yuzuri_confine::give_up_privileges(identity)?;
    // A kernel without seccomp is no reason not to serve: what matters most has gone already.
    if let Err(error) = calls.permit_only() {
        eprintln!("yuzuri: all system calls stay possible to this process: {error}");
    }
    Ok(())
}
