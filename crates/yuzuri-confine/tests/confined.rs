//! A confined process, inspected from inside and outside. The process is this test program itself.

#![expect(unsafe_code, reason = "a child of fork")]
#![allow(clippy::unwrap_used)]

use std::ffi::CString;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use yuzuri_confine::{Identity, SystemCalls, drop_capabilities, give_up_privileges};

const AS_CHILD: &str = "YUZURI_CONFINE_TEST_CHILD";

/// 32-bit ARM's takes the offset in pages.
#[cfg(not(target_arch = "arm"))]
const SYS_MMAP: libc::c_long = libc::SYS_mmap;
#[cfg(target_arch = "arm")]
const SYS_MMAP: libc::c_long = libc::SYS_mmap2;

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Runs the test `child` in a separate process that confines itself as `way` says. Returns the
/// contents of its status file.
fn confined(way: &str) -> String {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture"])
        .env(AS_CHILD, way)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let ready = lines.by_ref().any(|line| line.ends_with("READY"));
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    drop(child.stdin.take());
    let rest: Vec<String> = lines.collect();
    let ended = child.wait().unwrap();
    assert!(ready && ended.success(), "{way}: {ended} {:?} {rest:?}", ended.signal());
    status
}

fn field(status: &str, name: &str) -> String {
    let line =
        status.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name} in {status}"));
    line.split_once(':').unwrap().1.trim().to_owned()
}

/// The kernel's result of a call: 0 or the errno.
fn answer(result: libc::c_long) -> i32 {
    if result >= 0 { 0 } else { std::io::Error::last_os_error().raw_os_error().unwrap() }
}

#[test]
fn child() {
    let Ok(way) = std::env::var(AS_CHILD) else { return };
    match way.as_str() {
        "root" => give_up_privileges(Identity::of_its_own().unwrap()).unwrap(),
        "kept" => {
            // The thread that runs the tests keeps its capabilities and must be detected.
            let error = give_up_privileges(None).unwrap_err().to_string();
            assert!(error.contains("keeps capabilities"), "{error}");
            println!("READY");
            return;
        }
        "user" => drop_capabilities().unwrap(),
        other => panic!("{other}"),
    }
    SystemCalls::of_open_sockets().reading_files().permit_only().unwrap();
    attempts();
    println!("READY");
    std::io::stdin().lines().for_each(drop);
}

fn attempts() {
    let path = CString::new("/tmp/yuzuri-confine-must-not-be").unwrap();
    let program = CString::new("/bin/true").unwrap();
    let attribute = [0u64; 16];
    let how = [libc::O_WRONLY as u64 | libc::O_CREAT as u64, 0o600, 0];
    let zero: libc::c_long = 0;
    // SAFETY: strings are null-terminated, structures have the size that is passed, and none of the
    // calls is expected to have an effect.
    let refused = unsafe {
        [
            ("execve", libc::syscall(libc::SYS_execve, program.as_ptr(), zero, zero)),
            (
                "execveat",
                libc::syscall(libc::SYS_execveat, libc::AT_FDCWD, program.as_ptr(), zero, zero, zero),
            ),
            ("ptrace", libc::syscall(libc::SYS_ptrace, libc::PTRACE_TRACEME, zero, zero, zero)),
            ("bpf(BPF_PROG_LOAD)", libc::syscall(libc::SYS_bpf, 5, &raw const attribute, 128)),
            ("bpf(BPF_MAP_CREATE)", libc::syscall(libc::SYS_bpf, 0, &raw const attribute, 128)),
            ("setns", libc::syscall(libc::SYS_setns, 0, libc::CLONE_NEWNET)),
            ("unshare", libc::syscall(libc::SYS_unshare, libc::CLONE_NEWUSER)),
            (
                "mount",
                libc::syscall(libc::SYS_mount, path.as_ptr(), path.as_ptr(), path.as_ptr(), zero, zero),
            ),
            ("openat for writing", {
                let flags = libc::O_WRONLY | libc::O_CREAT;
                libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), flags, 0o600)
            }),
            ("openat2 for writing", {
                libc::syscall(libc::SYS_openat2, libc::AT_FDCWD, path.as_ptr(), &raw const how, 24)
            }),
            ("unlinkat", libc::syscall(libc::SYS_unlinkat, libc::AT_FDCWD, path.as_ptr(), zero)),
            ("renameat2", {
                libc::syscall(
                    libc::SYS_renameat2,
                    libc::AT_FDCWD,
                    path.as_ptr(),
                    libc::AT_FDCWD,
                    path.as_ptr(),
                    zero,
                )
            }),
            ("fchmodat", libc::syscall(libc::SYS_fchmodat, libc::AT_FDCWD, path.as_ptr(), 0o777)),
            ("socket(AF_INET)", libc::syscall(libc::SYS_socket, libc::AF_INET, libc::SOCK_STREAM, zero)),
            ("socket(AF_PACKET)", libc::syscall(libc::SYS_socket, libc::AF_PACKET, libc::SOCK_RAW, zero)),
            ("kill", libc::syscall(libc::SYS_kill, libc::getppid(), zero)),
            ("setresuid", libc::syscall(libc::SYS_setresuid, zero, zero, zero)),
            ("fork", libc::syscall(libc::SYS_clone, libc::SIGCHLD as libc::c_long, zero, zero, zero, zero)),
            (
                "process_vm_readv",
                libc::syscall(libc::SYS_process_vm_readv, zero, zero, zero, zero, zero, zero),
            ),
            ("io_uring_setup", libc::syscall(libc::SYS_io_uring_setup, 8, &raw const attribute)),
            ("executable memory", {
                let prot = libc::PROT_READ | libc::PROT_EXEC;
                let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
                libc::syscall(SYS_MMAP, zero, 4096, prot, flags, -1, zero)
            }),
            (
                "prctl(PR_SET_DUMPABLE)",
                libc::syscall(libc::SYS_prctl, libc::PR_SET_DUMPABLE, 1, zero, zero, zero),
            ),
        ]
        .map(|(what, result)| (what, answer(result)))
    };
    for (what, errno) in refused {
        assert_eq!(errno, libc::EPERM, "{what}");
    }
    // The calls on the list still work.
    assert_eq!(std::thread::spawn(|| 7).join().unwrap(), 7);
    assert!(std::fs::read_to_string("/proc/self/status").unwrap().contains("Seccomp:\t2"));
    assert!(std::fs::read_dir("/proc/self/task").unwrap().count() >= 1);
    let mut block = vec![0u8; 8 << 20];
    block.extend_from_within(..4096);
    std::thread::sleep(std::time::Duration::from_millis(1));
}

#[test]
fn root_becomes_somebody_without_any_capability() {
    if !is_root() {
        return println!("skipped: not root");
    }
    let status = confined("root");
    // The bounding set is not checked. Each thread has its own, and `no_new_privs` prevents the
    // process from gaining anything from it.
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert_eq!(field(&status, set), "0000000000000000", "{set}");
    }
    for ids in ["Uid", "Gid"] {
        let ids: Vec<u32> = field(&status, ids).split_whitespace().map(|id| id.parse().unwrap()).collect();
        assert!(ids.iter().all(|id| *id == ids[0] && (60_578..=61_183).contains(id)), "{ids:?}");
    }
    assert_eq!(field(&status, "Groups"), "");
    assert_eq!((field(&status, "NoNewPrivs"), field(&status, "Seccomp")), ("1".into(), "2".into()));
}

#[test]
fn a_thread_that_keeps_capabilities_is_found() {
    if !is_root() {
        return println!("skipped: not root");
    }
    confined("kept");
}

#[test]
fn without_privilege_system_calls_are_restricted_all_the_same() {
    let status = confined("user");
    assert_eq!((field(&status, "NoNewPrivs"), field(&status, "Seccomp")), ("1".into(), "2".into()));
}
