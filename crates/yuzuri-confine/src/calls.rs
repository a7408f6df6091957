//! Allowlist of system calls. All others fail with EPERM and are written to the kernel's audit log.
//! Nothing is killed, so a call that is missing here disables one function and not the recording.

#![expect(unsafe_code, reason = "seccomp(2)")]
// `c_long` is 32 bits wide on some architectures.
#![allow(clippy::useless_conversion)]

use crate::ConfineError;
use libc::c_long;
use seccompiler::SeccompCmpOp::{Eq, MaskedEq};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};
use std::collections::BTreeMap;

/// Calls that any program's libraries and runtime make: memory, threads, time, signals and open
/// files.
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

/// Calls on open sockets and on the sockets they accept.
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

/// Calls that inspect files without changing them.
const FILES: &[c_long] = &[
    libc::SYS_fstatfs,
    libc::SYS_getdents64,
    libc::SYS_newfstatat,
    libc::SYS_readlinkat,
    libc::SYS_statfs,
    libc::SYS_statx,
];

/// Legacy calls that only some architectures have.
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
/// `PR_SET_VMA`, which the C library uses to name its mappings.
const PR_SET_VMA: u64 = 0x5356_4d41;

/// An allowlist of system calls.
#[derive(Debug, Clone)]
pub struct SystemCalls {
    rules: BTreeMap<i64, Vec<[Option<Condition>; 2]>>,
}

/// Argument index, comparison, value.
type Condition = (u8, SeccompCmpOp, u64);

impl SystemCalls {
    /// Calls of a program that only uses sockets and files that are already open. It may start
    /// threads but not processes, cannot open anything and cannot make memory executable.
    pub fn of_open_sockets() -> SystemCalls {
        let mut calls = SystemCalls { rules: BTreeMap::new() };
        calls.permit_all(ALWAYS);
        calls.permit_all(SOCKETS);
        calls.permit_all(OLDER);
        // A bidirectional pipe within the process.
        calls.permit_if(libc::SYS_socketpair, (0, Eq, libc::AF_UNIX as u64));
        let executable = libc::PROT_EXEC as u64;
        calls.permit_if(libc::SYS_mmap, (2, MaskedEq(executable), 0));
        calls.permit_if(libc::SYS_mprotect, (2, MaskedEq(executable), 0));
        let thread = libc::CLONE_THREAD as u64;
        calls.permit_if(libc::SYS_clone, (0, MaskedEq(thread), thread));
        // Reading limits only (`new_limit` is null). Raising a hard limit requires a privilege
        // anyway.
        calls.permit_if(libc::SYS_prlimit64, (2, Eq, 0));
        for what in [libc::PR_SET_NAME as u64, libc::PR_GET_NAME as u64, PR_SET_VMA] {
            calls.permit_if(libc::SYS_prctl, (0, Eq, what));
        }
        for what in [libc::FIONBIO, libc::FIONREAD, libc::TCGETS, libc::TIOCGWINSZ] {
            #[allow(clippy::unnecessary_cast)] // the type depends on the C library
            calls.permit_if(libc::SYS_ioctl, (1, Eq, what as u64));
        }
        calls
    }

    /// Also allows files to be read, but not written, created, renamed or removed. `openat2` stays
    /// refused, because a filter cannot see its flags, which are passed in memory.
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

    /// Also allows the kernel to be queried for sockets (`sock_diag`) and local daemons to be
    /// contacted over Unix sockets.
    #[must_use]
    pub fn asking_this_machine(mut self) -> SystemCalls {
        self.permit_all(&[libc::SYS_connect]);
        self.permit_if(libc::SYS_socket, (0, Eq, libc::AF_UNIX as u64));
        let netlink = (0, Eq, libc::AF_NETLINK as u64);
        self.permit_if_both(libc::SYS_socket, netlink, (2, Eq, libc::NETLINK_SOCK_DIAG as u64));
        self
    }

    /// Also allows reading and writing the maps of BPF programs that are already loaded.
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

    /// Also allows network namespaces to be entered, as far as capabilities permit.
    #[must_use]
    pub fn entering_network_namespaces(mut self) -> SystemCalls {
        self.permit_if(libc::SYS_setns, (1, Eq, libc::CLONE_NEWNET as u64));
        self
    }

    /// Calls of a process that serves the web page: sockets, reading files, local queries and BPF
    /// maps.
    pub fn of_a_page() -> SystemCalls {
        SystemCalls::of_open_sockets().reading_files().asking_this_machine().using_bpf_maps()
    }

    fn permit_all(&mut self, calls: &[c_long]) {
        for call in calls {
            // An empty list of rules allows the call unconditionally.
            self.rules.insert(i64::from(*call), Vec::new());
        }
    }

    fn permit_if(&mut self, call: c_long, condition: Condition) {
        self.rules.entry(i64::from(call)).or_default().push([Some(condition), None]);
    }

    fn permit_if_both(&mut self, call: c_long, one: Condition, other: Condition) {
        self.rules.entry(i64::from(call)).or_default().push([Some(one), Some(other)]);
    }

    /// Restricts all threads of this process to these calls, permanently. Sets `no_new_privs`.
    ///
    /// # Errors
    /// Returns an error if the kernel lacks seccomp or filters cannot be built for this
    /// architecture.
    pub fn permit_only(&self) -> Result<(), ConfineError> {
        nix::sys::prctl::set_no_new_privs()
            .map_err(|e| ConfineError::system("prctl(PR_SET_NO_NEW_PRIVS)", e))?;
        // The flags of clone3 are passed in memory, where a filter cannot see them. With ENOSYS the
        // C library falls back to clone.
        let fallback = BTreeMap::from([(i64::from(libc::SYS_clone3), Vec::new())]);
        install(&compile(fallback, SeccompAction::Allow, SeccompAction::Errno(libc::ENOSYS as u32))?)?;
        let mut rules = BTreeMap::from([(i64::from(libc::SYS_clone3), Vec::new())]);
        for (call, alternatives) in &self.rules {
            let alternatives = alternatives.iter().map(|all| {
                // Pointers are compared in all 64 bits, ints in the 32 bits that the kernel uses.
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

/// Installs a filter for all threads and makes the kernel log refused calls
/// (`kernel.seccomp.actions_logged`).
fn install(program: &BpfProgram) -> Result<(), ConfineError> {
    let length = u16::try_from(program.len()).map_err(|_| ConfineError::Filter("it is too long".into()))?;
    let program = libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut().cast() };
    let flags = libc::SECCOMP_FILTER_FLAG_TSYNC | libc::SECCOMP_FILTER_FLAG_LOG;
    // SAFETY: `program` points to `len` instructions in the kernel's format. The kernel copies them
    // and does not modify them.
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
