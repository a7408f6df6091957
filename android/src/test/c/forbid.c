/*
 * Runs a program under a seccomp filter like Android's for apps: forbid PROGRAM WORD...
 *
 * Allows the system calls that `yuzuri send --record`, its C library and the starter make and that
 * every Android since 8 permits to apps on arm64 (bionic's lists of system calls for apps); all
 * others get SIGSYS. On x86_64 it also allows older calls that arm64 does not have (poll for ppoll,
 * access for faccessat and so on), since the test is about arm64.
 */
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const int allowed[] = {
    SYS_brk, SYS_clock_gettime, SYS_clock_nanosleep, SYS_clone, SYS_close, SYS_connect, SYS_dup, SYS_execve, SYS_exit,
    SYS_exit_group, SYS_faccessat, SYS_fcntl, SYS_fdatasync, SYS_flock, SYS_fstat, SYS_ftruncate, SYS_futex, SYS_getdents64,
    SYS_getegid, SYS_geteuid, SYS_getgid, SYS_getpeername, SYS_getpid, SYS_getrandom, SYS_getsockname, SYS_getsockopt, SYS_gettid, SYS_getuid, SYS_ioctl, SYS_kill, SYS_lseek, SYS_madvise, SYS_mmap,
    SYS_mprotect, SYS_mremap, SYS_munmap, SYS_nanosleep, SYS_newfstatat, SYS_openat, SYS_ppoll, SYS_prctl, SYS_pread64, SYS_prlimit64,
    SYS_ptrace, SYS_pwrite64, SYS_read, SYS_readlinkat, SYS_recvfrom, SYS_recvmsg, SYS_restart_syscall, SYS_rt_sigaction, SYS_rt_sigprocmask,
    SYS_rt_sigreturn, SYS_sched_getaffinity, SYS_sched_yield, SYS_sendmsg, SYS_sendto, SYS_set_tid_address, SYS_setsockopt,
    SYS_shutdown, SYS_sigaltstack, SYS_signalfd4, SYS_socket, SYS_tgkill, SYS_uname, SYS_wait4, SYS_write, SYS_writev,
#ifdef __x86_64__
    SYS_access, SYS_arch_prctl, SYS_poll, SYS_readlink,
#endif
};
#define COUNT (sizeof(allowed) / sizeof(allowed[0]))

int main(int count, char **words)
{
    struct sock_filter rules[COUNT + 3];
    size_t n = 0;
    if (count < 2) {
        fprintf(stderr, "usage: forbid PROGRAM WORD...\n");
        return 2;
    }
    rules[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < COUNT; i++)
        rules[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)allowed[i], COUNT - i, 0);
    rules[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP);
    rules[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {(unsigned short)n, rules};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        perror("forbid: cannot set the filter");
        return 2;
    }
    execv(words[1], words + 1);
    perror("forbid: cannot run the program");
    return 2;
}
