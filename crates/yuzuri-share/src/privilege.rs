//! Drops privileges once the congestion control is registered.

#![expect(unsafe_code, reason = "system calls that no library here wraps")]

use crate::ShareError;

/// Permanently drops every capability of the calling thread and of threads that it starts later.
/// Writing bounds, walking the flows and migrating them need no capability, because the kernel
/// checked when the programs were loaded. Call it before starting other threads.
///
/// # Errors
/// If the kernel refuses.
pub fn drop_privileges() -> Result<(), ShareError> {
    yuzuri_confine::drop_capabilities().map_err(|e| ShareError::system("giving up privileges", e))
}

/// Returns the allocator's unused memory to the system, after the programs were loaded or after
/// many flows began to rest.
pub fn give_back_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: `malloc_trim` takes a number and touches only the allocator's free memory.
    unsafe {
        libc::malloc_trim(0);
    }
}
