//! The system calls of an allowlist by purpose, with the numbers of this architecture.

use libc::c_long;

/// Calls that any program's libraries and runtime make: memory, threads, time, signals and open
/// files.
pub(crate) const ALWAYS: &[c_long] = &[
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
pub(crate) const SOCKETS: &[c_long] = &[
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
pub(crate) const FILES: &[c_long] =
    &[libc::SYS_fstatfs, libc::SYS_getdents64, libc::SYS_readlinkat, libc::SYS_statfs, libc::SYS_statx];

#[cfg(not(target_arch = "arm"))]
mod architecture {
    use libc::c_long;

    pub(crate) const MMAP: c_long = libc::SYS_mmap;

    // Calls that newer ones replace; only some architectures have them.
    #[cfg(target_arch = "x86_64")]
    pub(crate) const OF_THIS_ARCHITECTURE: &[c_long] = &[libc::SYS_poll, libc::SYS_epoll_wait];
    #[cfg(not(target_arch = "x86_64"))]
    pub(crate) const OF_THIS_ARCHITECTURE: &[c_long] = &[];
    #[cfg(target_arch = "x86_64")]
    pub(crate) const OLDER_FILES: &[c_long] =
        &[libc::SYS_newfstatat, libc::SYS_stat, libc::SYS_lstat, libc::SYS_readlink, libc::SYS_access];
    #[cfg(not(target_arch = "x86_64"))]
    pub(crate) const OLDER_FILES: &[c_long] = &[libc::SYS_newfstatat];
    #[cfg(target_arch = "x86_64")]
    pub(crate) const OLDER_OPEN: &[c_long] = &[libc::SYS_open];
    #[cfg(not(target_arch = "x86_64"))]
    pub(crate) const OLDER_OPEN: &[c_long] = &[];
}

/// 32-bit ARM has further calls for user ids of 32 bits, and for file offsets and times of 64 bits.
#[cfg(target_arch = "arm")]
mod architecture {
    use libc::c_long;

    // Numbers that the libc crate lacks; all 32-bit architectures have the same.
    const CLOCK_GETTIME64: c_long = 403;
    const CLOCK_GETRES_TIME64: c_long = 406;
    const CLOCK_NANOSLEEP_TIME64: c_long = 407;
    const PPOLL_TIME64: c_long = 414;
    const FUTEX_TIME64: c_long = 422;

    pub(crate) const MMAP: c_long = libc::SYS_mmap2;
    pub(crate) const OF_THIS_ARCHITECTURE: &[c_long] = &[
        CLOCK_GETRES_TIME64,
        CLOCK_GETTIME64,
        CLOCK_NANOSLEEP_TIME64,
        FUTEX_TIME64,
        PPOLL_TIME64,
        libc::SYS__llseek,
        libc::SYS_epoll_wait,
        libc::SYS_fcntl64,
        libc::SYS_fstat64,
        libc::SYS_ftruncate64,
        libc::SYS_getegid32,
        libc::SYS_geteuid32,
        libc::SYS_getgid32,
        libc::SYS_getuid32,
        libc::SYS_poll,
        libc::SYS_recv,
        libc::SYS_send,
        libc::SYS_sigreturn,
    ];
    pub(crate) const OLDER_FILES: &[c_long] = &[
        libc::SYS_access,
        libc::SYS_fstatat64,
        libc::SYS_fstatfs64,
        libc::SYS_lstat,
        libc::SYS_lstat64,
        libc::SYS_readlink,
        libc::SYS_stat,
        libc::SYS_stat64,
        libc::SYS_statfs64,
    ];
    pub(crate) const OLDER_OPEN: &[c_long] = &[libc::SYS_open];
}

pub(crate) use architecture::{MMAP, OF_THIS_ARCHITECTURE, OLDER_FILES, OLDER_OPEN};
