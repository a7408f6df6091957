/*
 * Starts a program that was built with glibc inside an Android app: starter PROGRAM WORD...
 *
 * Android's seccomp filter ends an app's process with SIGSYS at system calls that Android's C
 * library does not make. glibc makes some of them and also works without: set_robust_list and rseq
 * at the start of every program and thread, clone3 for every thread. The starter traces the
 * program. If the kernel sends SIGSYS for a forbidden call, the starter lets the call return
 * ENOSYS, as on a kernel without it. No other call stops, so that the measured program runs at full
 * speed.
 *
 * The starter also ends the program: with SIGTERM when its standard input is closed (the app
 * requests a stop, or has ended); with the same signal when it receives SIGTERM, SIGINT or SIGHUP;
 * with SIGKILL when it is killed. Its exit code is that of the program, or 128 plus the number of
 * the signal that ended the program.
 *
 * The starter has no C library, because the build machine's would make the same calls.
 */
#include <asm/unistd.h>
#include <elf.h>
#include <linux/errno.h>
#include <linux/poll.h>
#include <linux/ptrace.h>
#include <linux/signalfd.h>
#include <linux/types.h>
#include <linux/uio.h>
#include <linux/wait.h>
#include <stddef.h>
#include <stdint.h>

/* Signal numbers, the same on both architectures: the kernel's signal headers conflict with the
 * compiler's. */
enum {
    SIG_HUP = 1,
    SIG_INT = 2,
    SIG_TRAP = 5,
    SIG_KILL = 9,
    SIG_TERM = 15,
    SIG_CHLD = 17,
    SIG_STOP = 19,
    SIG_SYS = 31,
};
enum { BLOCK = 0, SETMASK = 2 };
/* si_code of a SIGSYS from a seccomp filter. */
enum { BY_SECCOMP = 1 };

/* The kernel's siginfo_t, of which only the first three fields are read. */
struct signal_info {
    int32_t number;
    int32_t error;
    int32_t code;
    char rest[116];
};

#if defined(__x86_64__)
#include <asm/ptrace.h>
static long call6(long n, long a, long b, long c, long d, long e, long f)
{
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}
__asm__(".globl _start\n_start:\n\txor %ebp, %ebp\n\tmov %rsp, %rdi\n\tand $-16, %rsp\n\tcall begin\n");
typedef struct pt_regs registers;
static void set_result(registers *r, long value)
{
    r->rax = value;
    /* Prevent the restart of the call. */
    r->orig_rax = -1;
}
#elif defined(__aarch64__)
#include <asm/ptrace.h>
static long call6(long n, long a, long b, long c, long d, long e, long f)
{
    register long x8 __asm__("x8") = n;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
}
__asm__(".globl _start\n_start:\n\tmov x29, #0\n\tmov x30, #0\n\tmov x0, sp\n\tbl begin\n");
typedef struct user_pt_regs registers;
static void set_result(registers *r, long value) { r->regs[0] = value; }
#else
#error "unsupported architecture"
#endif

#define call(n, a, b, c, d) call6(n, (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)

static void end(int code)
{
    for (;;)
        call(__NR_exit_group, code, 0, 0, 0);
}

static size_t length(const char *text)
{
    size_t n = 0;
    while (text[n])
        n++;
    return n;
}

static void fail(const char *what, const char *of, long error)
{
    char number[8];
    int at = sizeof(number);
    number[--at] = '\n';
    for (error = error < 0 ? -error : error; at > 0; error /= 10) {
        number[--at] = '0' + error % 10;
        if (error < 10)
            break;
    }
    call(__NR_write, 2, "starter: ", 9, 0);
    call(__NR_write, 2, what, length(what), 0);
    call(__NR_write, 2, of, length(of), 0);
    call(__NR_write, 2, ": error ", 8, 0);
    call(__NR_write, 2, number + at, sizeof(number) - at, 0);
    end(127);
}

/* Lets a forbidden call return ENOSYS; returns 0 if the signal has another cause. */
static int answer(int thread)
{
    struct signal_info info;
    registers r;
    struct iovec part = {&r, sizeof(r)};
    if (call(__NR_ptrace, PTRACE_GETSIGINFO, thread, 0, &info) < 0 || info.code != BY_SECCOMP)
        return 0;
    if (call(__NR_ptrace, PTRACE_GETREGSET, thread, NT_PRSTATUS, &part) < 0)
        return 0;
    set_result(&r, -ENOSYS);
    return call(__NR_ptrace, PTRACE_SETREGSET, thread, NT_PRSTATUS, &part) >= 0;
}

/* Handles all events of children. Returns the program's exit code, or -1 while it runs. */
static int attend(int program)
{
    for (;;) {
        int status;
        long thread = call(__NR_wait4, -1, &status, WNOHANG | __WALL, 0);
        if (thread <= 0)
            return -1;
        if ((status & 0x7f) == 0) {
            if (thread == program)
                return status >> 8 & 0xff;
        } else if ((status & 0xff) != 0x7f) {
            if (thread == program)
                return 128 + (status & 0x7f);
        } else {
            int signal = status >> 8 & 0xff;
            int event = status >> 16;
            /* Do not deliver tracing events and the initial stop of new threads to the program. */
            if (event != 0 || signal == SIG_STOP || signal == SIG_TRAP || (signal == SIG_SYS && answer(thread)))
                signal = 0;
            call(__NR_ptrace, PTRACE_CONT, thread, 0, signal);
        }
    }
}

static void run(char **words, char **environment, uint64_t mask)
{
    call(__NR_rt_sigprocmask, SETMASK, &mask, 0, 8);
    /* If tracing is forbidden, start anyway: the program may not need it. */
    if (call(__NR_ptrace, PTRACE_TRACEME, 0, 0, 0) >= 0)
        call(__NR_kill, call(__NR_getpid, 0, 0, 0, 0), SIG_STOP, 0, 0);
    fail("cannot start ", words[0], call(__NR_execve, words[0], words, environment, 0));
}

__attribute__((used)) void begin(long *stack)
{
    long count = stack[0];
    char **words = (char **)(stack + 1);
    char **environment = words + count + 1;
    uint64_t wanted = 1ull << (SIG_CHLD - 1) | 1ull << (SIG_TERM - 1) | 1ull << (SIG_INT - 1) | 1ull << (SIG_HUP - 1);
    uint64_t before;
    if (count < 2)
        fail("usage: starter PROGRAM WORD...", "", EINVAL);
    call(__NR_rt_sigprocmask, BLOCK, &wanted, &before, 8);
    long signals = call(__NR_signalfd4, -1, &wanted, 8, 0);
    if (signals < 0)
        fail("cannot wait for signals", "", signals);

    /* fork(2): arm64 has only clone. */
    long program = call(__NR_clone, SIG_CHLD, 0, 0, 0);
    if (program < 0)
        fail("cannot start a process for ", words[1], program);
    if (program == 0) {
        call(__NR_close, signals, 0, 0, 0);
        run(words + 1, environment, before);
    }
    int status = 0;
    if (call(__NR_wait4, program, &status, __WALL | WUNTRACED, 0) == program && (status & 0xff) == 0x7f) {
        call(__NR_ptrace, PTRACE_SETOPTIONS, program, 0,
             PTRACE_O_EXITKILL | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC);
        call(__NR_ptrace, PTRACE_CONT, program, 0, 0);
    } else {
        end((status & 0x7f) == 0 ? status >> 8 & 0xff : 128 + (status & 0x7f));
    }

    struct pollfd fds[2] = {{(int)signals, POLLIN, 0}, {0, POLLIN, 0}};
    for (;;) {
        int code = attend(program);
        if (code >= 0)
            end(code);
        if (call6(__NR_ppoll, (long)fds, 2, 0, 0, 8, 0) < 0)
            continue;
        if (fds[0].revents) {
            struct signalfd_siginfo info;
            if (call(__NR_read, signals, &info, sizeof(info), 0) == sizeof(info) && info.ssi_signo != SIG_CHLD)
                call(__NR_kill, program, info.ssi_signo, 0, 0);
        }
        if (fds[1].revents) {
            char thrown[64];
            if (call(__NR_read, 0, thrown, sizeof(thrown), 0) <= 0) {
                call(__NR_kill, program, SIG_TERM, 0, 0);
                fds[1].fd = -1;
            }
        }
    }
}
