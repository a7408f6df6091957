//! A child process in a time namespace: its `CLOCK_MONOTONIC` and `CLOCK_BOOTTIME` have another
//! zero than the machine's.

#![expect(unsafe_code, reason = "system calls of the test")]

use std::ffi::CString;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Offsets to test, seconds; prints which ones this machine cannot have. The kernel refuses an
/// offset that would make a clock negative, so a namespace can be 10^6 s behind only on a machine
/// that has been up for 10^6 s.
pub fn offsets(test: &str) -> [i64; 2] {
    const OFFSET_S: i64 = 1_000_000;
    let up_s = (yuzuri_kernel::clock::mono_ns() / 1_000_000_000) as i64;
    // A clock just above zero is the harder case: subtractions from it must not wrap.
    let lowest = -OFFSET_S.min(up_s - 5);
    if lowest > -OFFSET_S {
        println!("{test}: -{OFFSET_S} s skipped: this machine has been up for {up_s} s; {lowest} s instead");
    }
    [OFFSET_S, lowest]
}

/// Makes the command start in its own time namespace, this many seconds ahead of the machine.
pub fn enter(command: &mut Command, offset_s: i64) {
    let offsets = format!("monotonic {offset_s} 0\nboottime {offset_s} 0\n");
    let (file, namespace) = (c"/proc/self/timens_offsets", c"/proc/self/ns/time_for_children");
    let offsets = CString::new(offsets).unwrap();
    let enter = move || {
        // SAFETY: system calls on live memory only: nothing here allocates or locks between fork
        // and exec.
        unsafe {
            check(libc::unshare(libc::CLONE_NEWTIME))?;
            let fd = check(libc::open(file.as_ptr(), libc::O_WRONLY))?;
            let bytes = offsets.as_bytes();
            check(libc::write(fd, bytes.as_ptr().cast(), bytes.len()) as i32)?;
            libc::close(fd);
            let fd = check(libc::open(namespace.as_ptr(), libc::O_RDONLY))?;
            check(libc::setns(fd, libc::CLONE_NEWTIME))?;
            libc::close(fd);
        }
        Ok(())
    };
    // SAFETY: the closure keeps to what may be done between fork and exec; see there.
    unsafe { command.pre_exec(enter) };
}

fn check(result: i32) -> std::io::Result<i32> {
    if result < 0 { Err(std::io::Error::last_os_error()) } else { Ok(result) }
}

/// Whether this kernel has time namespaces; prints a note if not.
pub fn there(test: &str) -> bool {
    let there = std::path::Path::new("/proc/self/ns/time").exists();
    if !there {
        println!("{test}: skipped: this kernel has no time namespaces (CONFIG_TIME_NS, Linux 5.6)");
    }
    there
}
