//! Processes that the kernel shields even from root.
//!
//! Some hardened guests shield a process, often their own agent or init, from everybody: even root
//! with every capability cannot read `/proc/PID/exe`. One such kernel (Linux 6.18) runs no attached
//! BPF tracing program for packets whose softirq interrupts a thread of such a process, and counts
//! no miss, although `tcp:tcp_probe` in tracefs reports these packets. A program cannot count runs
//! that do not happen, so such processes are detected and reported.

use std::fs;
use std::io::ErrorKind;

/// A process shielded from root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shielded {
    /// Its process id.
    pub pid: u32,
    /// Its name, from `/proc/PID/comm`.
    pub name: String,
}

/// The shielded processes, for a caller that may read every process (root with `CAP_SYS_PTRACE`).
/// Other callers are denied other users' processes and learn nothing: then the list is empty.
pub fn shielded() -> Vec<Shielded> {
    if !may_read_all() {
        return Vec::new();
    }
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let mut found: Vec<Shielded> = processes
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| {
            // A kernel thread has no executable (ENOENT), nor has a process that ended meanwhile.
            fs::read_link(format!("/proc/{pid}/exe"))
                .is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
        })
        .map(|pid| {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            Shielded { pid, name: name.trim_end().to_owned() }
        })
        .collect();
    found.sort_by_key(|process| process.pid);
    found
}

/// Whether the effective capabilities have CAP_SYS_PTRACE (19, `include/uapi/linux/capability.h`).
fn may_read_all() -> bool {
    const CAP_SYS_PTRACE: u32 = 19;
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask >> CAP_SYS_PTRACE & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_readable_process_is_not_shielded() {
        let found = shielded();
        assert!(found.iter().all(|p| p.pid != std::process::id()), "{found:?}");
        for process in found {
            let error = fs::read_link(format!("/proc/{}/exe", process.pid)).map_err(|e| e.kind());
            assert_eq!(error, Err(ErrorKind::PermissionDenied), "{process:?}");
        }
    }
}
