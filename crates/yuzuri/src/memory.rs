//! Settings of the C library's allocator for commands that run for days.

#![allow(unsafe_code, reason = "mallopt(3), which no library here wraps; only glibc has it")]

/// Allocations of at least this size get their own pages, which return to the system when they are
/// freed. This is glibc's initial value of `M_MMAP_THRESHOLD`.
#[cfg(target_env = "gnu")]
const OWN_PAGES_BYTES: libc::c_int = 128 * 1024;

/// Free memory that a heap keeps at its end: as much as the columns of a full batch of a recording
/// (2 MB) and its message take. With less, each batch would return its pages and fault them in
/// again.
#[cfg(target_env = "gnu")]
const MAX_FREE_BYTES: libc::c_int = 4 * 1024 * 1024;

/// One heap for the thread that reads the kernel's events and one for all others.
#[cfg(target_env = "gnu")]
const HEAPS: libc::c_int = 2;

/// Prevents bursts from enlarging the process permanently.
///
/// By default glibc raises the size from which allocations get pages of their own whenever a large
/// allocation is freed, up to 32 MB, and gives threads up to eight heaps per processor. A single
/// request for a table of all flows then fragments a heap that never shrinks. With these settings,
/// the resident memory of a `watch` of 20,000 flows is unchanged after an hour (`make soak`).
/// When heaps kept only 128 kB, recording 650,000 events/s cost about a tenth more CPU time
/// (`yuzuri-bench throughput`). Call it before other threads start. Other C libraries are not
/// affected.
pub fn release_after_bursts() {
    #[cfg(target_env = "gnu")]
    for (parameter, value) in [
        (libc::M_MMAP_THRESHOLD, OWN_PAGES_BYTES),
        (libc::M_TRIM_THRESHOLD, MAX_FREE_BYTES),
        (libc::M_ARENA_MAX, HEAPS),
    ] {
        // SAFETY: `mallopt` takes two numbers and changes only the allocator's own settings; a
        // setting that it does not know is refused and changes nothing.
        unsafe { libc::mallopt(parameter, value) };
    }
}
