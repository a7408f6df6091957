//! Names of hosts in a program without shared libraries.

#![allow(unsafe_code, reason = "only static programs need a call of the C library")]

/// Restricts name lookups to /etc/hosts and DNS. Other sources that /etc/nsswitch.conf may name are
/// libraries for the system's own C library, which a static program would load next to another
/// version of it.
#[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
pub fn without_libraries() {
    use std::ffi::{c_char, c_int};
    unsafe extern "C" {
        fn __nss_configure_lookup(database: *const c_char, sources: *const c_char) -> c_int;
    }
    // SAFETY: both strings end with a zero byte and are static; nothing has been looked up yet, and
    // no other thread runs.
    let failed = unsafe { __nss_configure_lookup(c"hosts".as_ptr(), c"files dns".as_ptr()) } != 0;
    assert!(!failed, "the C library knows its own sources of names");
}

/// A dynamic program uses the system's own C library, whose name sources match it.
#[cfg(not(all(target_env = "gnu", target_feature = "crt-static")))]
pub fn without_libraries() {}
