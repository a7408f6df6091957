//! Which system calls a process still needs. All others fail with EPERM, and the kernel's audit log names them; nothing
//! is killed, so that a call that was forgotten here costs a function and not the recording.

#![expect(unsafe_code, reason = "seccomp(2)")]
// `c_long` has 32 bits on some machines.
#![allow(clippy::useless_conversion)]

use crate::ConfineError;
use libc::c_long;
use seccompiler::SeccompCmpOp::{Eq, MaskedEq};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};
use std::collections::BTreeMap;

/// Of a library and a runtime in any program: memory, threads, time, signals, what is open already.
const ALWAYS: &[c_long] = &[
    libc::SYS_brk,
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_close,
    libc::SYS_dup,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_fallocate,
    libc::SYS_fcntl,
    libc::SYS_fdatasync,
    libc::SYS_flock,
    libc::SYS_fstat,
    libc::SYS_fsync,
    libc::SYS_ftruncate,
    libc::SYS_futex,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_gettid,
    libc::SYS_gettimeofday,
    libc::SYS_getuid,
    libc::SYS_lseek,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_nanosleep,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_sigaltstack,
    libc::SYS_sysinfo,
    libc::SYS_tgkill,
    libc::SYS_uname,
    libc::SYS_wait4,
    libc::SYS_waitid,
    libc::SYS_write,
    libc::SYS_writev,
];

/// Of sockets that are open already, and of those they accept.
const SOCKETS: &[c_long] = &[
    libc::SYS_accept4,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_eventfd2,
    libc::SYS_getpeername,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_ppoll,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
];

/// Of files that are only looked at.
const FILES: &[c_long] = &[
    libc::SYS_fstatfs,
    libc::SYS_getdents64,
    libc::SYS_newfstatat,
    libc::SYS_readlinkat,
    libc::SYS_statfs,
    libc::SYS_statx,
];

/// Older forms that only some machines have.
#[cfg(target_arch = "x86_64")]
const OLDER: &[c_long] = &[libc::SYS_poll, libc::SYS_epoll_wait];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[c_long] = &[];
#[cfg(target_arch = "x86_64")]
const OLDER_FILES: &[c_long] = &[libc::SYS_stat, libc::SYS_lstat, libc::SYS_readlink, libc::SYS_access];
#[cfg(not(target_arch = "x86_64"))]
const OLDER_FILES: &[c_long] = &[];

const BPF_MAP_LOOKUP_ELEM: u64 = 1;
const BPF_MAP_UPDATE_ELEM: u64 = 2;
const BPF_MAP_DELETE_ELEM: u64 = 3;
const BPF_MAP_GET_NEXT_KEY: u64 = 4;
const BPF_OBJ_GET_INFO_BY_FD: u64 = 15;
/// `PR_SET_VMA`, by which the C library names its memory.
const PR_SET_VMA: u64 = 0x5356_4d41;

/// The system calls that stay.
#[derive(Debug, Clone)]
pub struct SystemCalls {
    rules: BTreeMap<i64, Vec<[Option<Condition>; 2]>>,
}

/// Argument, comparison, value.
type Condition = (u8, SeccompCmpOp, u64);

impl SystemCalls {
    /// What a program needs that only works with sockets and files that are open already. It may start threads, but no
    /// processes; it may open nothing and make no memory executable.
    pub fn of_open_sockets() -> SystemCalls {
        let mut calls = SystemCalls { rules: BTreeMap::new() };
        calls.permit_all(ALWAYS);
        calls.permit_all(SOCKETS);
        calls.permit_all(OLDER);
        // A pipe of both directions within the process.
        calls.permit_if(libc::SYS_socketpair, (0, Eq, libc::AF_UNIX as u64));
        let executable = libc::PROT_EXEC as u64;
        calls.permit_if(libc::SYS_mmap, (2, MaskedEq(executable), 0));
        calls.permit_if(libc::SYS_mprotect, (2, MaskedEq(executable), 0));
        let thread = libc::CLONE_THREAD as u64;
        calls.permit_if(libc::SYS_clone, (0, MaskedEq(thread), thread));
        // Asked, not set: a limit that is raised needs a privilege anyway.
        calls.permit_if(libc::SYS_prlimit64, (2, Eq, 0));
        for what in [libc::PR_SET_NAME as u64, libc::PR_GET_NAME as u64, PR_SET_VMA] {
            calls.permit_if(libc::SYS_prctl, (0, Eq, what));
        }
        for what in [libc::FIONBIO, libc::FIONREAD, libc::TCGETS, libc::TIOCGWINSZ] {
            #[allow(clippy::unnecessary_cast)] // another type with another C library
            calls.permit_if(libc::SYS_ioctl, (1, Eq, what as u64));
        }
        calls
    }

    /// And files may be read: none written, made, renamed or removed. `openat2` stays refused, since a filter cannot see
    /// what it asks for.
    #[must_use]
    pub fn reading_files(mut self) -> SystemCalls {
        self.permit_all(FILES);
        self.permit_all(OLDER_FILES);
        let writing = (libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC) as u64;
        self.permit_if(libc::SYS_openat, (2, MaskedEq(writing), 0));
        #[cfg(target_arch = "x86_64")]
        self.permit_if(libc::SYS_open, (1, MaskedEq(writing), 0));
        self
    }

    /// And the kernel may be asked for sockets (`sock_diag`), daemons on this machine over unix sockets.
    #[must_use]
    pub fn asking_this_machine(mut self) -> SystemCalls {
        self.permit_all(&[libc::SYS_connect]);
        self.permit_if(libc::SYS_socket, (0, Eq, libc::AF_UNIX as u64));
        let netlink = (0, Eq, libc::AF_NETLINK as u64);
        self.permit_if_both(libc::SYS_socket, netlink, (2, Eq, libc::NETLINK_SOCK_DIAG as u64));
        self
    }

    /// And maps of BPF programs that are loaded already may be read and written.
    #[must_use]
    pub fn using_bpf_maps(mut self) -> SystemCalls {
        for command in [
            BPF_MAP_LOOKUP_ELEM,
            BPF_MAP_UPDATE_ELEM,
            BPF_MAP_DELETE_ELEM,
            BPF_MAP_GET_NEXT_KEY,
            BPF_OBJ_GET_INFO_BY_FD,
        ] {
            self.permit_if(libc::SYS_bpf, (0, Eq, command));
        }
        self
    }

    /// And network namespaces may be entered, as far as capabilities permit it.
    #[must_use]
    pub fn entering_network_namespaces(mut self) -> SystemCalls {
        self.permit_if(libc::SYS_setns, (1, Eq, libc::CLONE_NEWNET as u64));
        self
    }

    /// What serving a page of what is watched calls for.
    pub fn of_a_page() -> SystemCalls {
        SystemCalls::of_open_sockets().reading_files().asking_this_machine().using_bpf_maps()
    }

    fn permit_all(&mut self, calls: &[c_long]) {
        for call in calls {
            // Without a condition: always.
            self.rules.insert(i64::from(*call), Vec::new());
        }
    }

    fn permit_if(&mut self, call: c_long, condition: Condition) {
        self.rules.entry(i64::from(call)).or_default().push([Some(condition), None]);
    }

    fn permit_if_both(&mut self, call: c_long, one: Condition, other: Condition) {
        self.rules.entry(i64::from(call)).or_default().push([Some(one), Some(other)]);
    }

    /// From now on and for good, no thread of this process can make another call. Sets `no_new_privs`.
    ///
    /// # Errors
    /// Where the kernel has no seccomp, or this machine's architecture is none that filters can be made for.
    pub fn permit_only(&self) -> Result<(), ConfineError> {
        nix::sys::prctl::set_no_new_privs()
            .map_err(|e| ConfineError::system("prctl(PR_SET_NO_NEW_PRIVS)", e))?;
        // The C library falls back from clone3, whose flags a filter cannot see, to clone.
        let fallback = BTreeMap::from([(i64::from(libc::SYS_clone3), Vec::new())]);
        install(&compile(fallback, SeccompAction::Allow, SeccompAction::Errno(libc::ENOSYS as u32))?)?;
        let mut rules = BTreeMap::from([(i64::from(libc::SYS_clone3), Vec::new())]);
        for (call, alternatives) in &self.rules {
            let alternatives = alternatives.iter().map(|all| {
                // A pointer is told by all of its bits; of an int the kernel looks at 32 itself.
                let is_pointer = *call == i64::from(libc::SYS_prlimit64);
                let conditions = all.iter().flatten().map(|(argument, op, value)| {
                    let length = if is_pointer { SeccompCmpArgLen::Qword } else { SeccompCmpArgLen::Dword };
                    SeccompCondition::new(*argument, length, op.clone(), *value)
                });
                SeccompRule::new(conditions.collect::<Result<_, _>>()?)
            });
            let alternatives = alternatives.collect::<Result<_, seccompiler::BackendError>>();
            rules.insert(*call, alternatives.map_err(|e| ConfineError::Filter(e.to_string()))?);
        }
        install(&compile(rules, SeccompAction::Errno(libc::EPERM as u32), SeccompAction::Allow)?)
    }
}

fn compile(
    rules: BTreeMap<i64, Vec<SeccompRule>>,
    otherwise: SeccompAction,
    action: SeccompAction,
) -> Result<BpfProgram, ConfineError> {
    let failed = |e: seccompiler::BackendError| ConfineError::Filter(e.to_string());
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(failed)?;
    SeccompFilter::new(rules, otherwise, action, arch).and_then(TryInto::try_into).map_err(failed)
}

/// Installs a filter for all threads, and has the kernel log what it refuses (`kernel.seccomp.actions_logged`).
fn install(program: &BpfProgram) -> Result<(), ConfineError> {
    let length = u16::try_from(program.len()).map_err(|_| ConfineError::Filter("it is too long".into()))?;
    let program = libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut().cast() };
    let flags = libc::SECCOMP_FILTER_FLAG_TSYNC | libc::SECCOMP_FILTER_FLAG_LOG;
    // SAFETY: `program` points to `len` instructions of the kernel's own form, which it copies and does not change.
    let result =
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program) };
    match result {
        0 => Ok(()),
        ..0 => Err(ConfineError::system(
            "installing the filter of system calls",
            std::io::Error::last_os_error(),
        )),
        thread => Err(ConfineError::Filter(format!("thread {thread} of this process has one of its own"))),
    }
}
