//! Privileges are given up once the control is registered.

#![expect(unsafe_code, reason = "system calls that no library here wraps")]

use crate::ShareError;

/// Gives up every capability of the calling thread and of those it starts from now on, for good: writing bounds, walking through the
/// flows and moving them need none, since the kernel asked when the programs were loaded. To be called before other threads are started.
///
/// # Errors
/// What the kernel says.
pub fn drop_privileges() -> Result<(), ShareError> {
    yuzuri_confine::drop_capabilities().map_err(|e| ShareError::system("giving up privileges", e))
}

/// Gives memory back that the allocator holds and nobody uses: after the programs were loaded, or many flows came to rest.
pub fn give_back_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes a number and touches nothing but what the allocator has free.
    unsafe {
        libc::malloc_trim(0);
    }
}
