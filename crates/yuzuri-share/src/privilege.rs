//! Privileges are given up once the control is registered.

use crate::ShareError;
use caps::{CapSet, CapsHashSet};
use nix::sys::prctl::set_no_new_privs;

/// Gives up every capability of the calling thread and of those it starts from now on, for good: writing bounds, walking through the
/// flows and moving them need none, since the kernel asked when the programs were loaded. To be called before other threads are started.
///
/// # Errors
/// What the kernel says.
pub fn drop_privileges() -> Result<(), ShareError> {
    let doing = "giving up privileges";
    set_no_new_privs().map_err(|e| ShareError::system(doing, e))?;
    // Without CAP_SETPCAP the bounding set stays; nothing can be got from it any more.
    let _ = caps::clear(None, CapSet::Bounding);
    let _ = caps::clear(None, CapSet::Ambient);
    for set in [CapSet::Inheritable, CapSet::Effective, CapSet::Permitted] {
        caps::set(None, set, &CapsHashSet::new()).map_err(|e| ShareError::system(doing, e))?;
    }
    Ok(())
}

/// Gives the memory back that loading the programs took.
pub fn give_back_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes a number and touches nothing but what the allocator has free.
    unsafe {
        libc::malloc_trim(0);
    }
}
