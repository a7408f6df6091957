//! Allowlist of system calls. All others fail with EPERM and are written to the kernel's audit log.
//! Nothing is killed, so a call that is missing here disables one function and not the recording.

#![expect(unsafe_code, reason = "seccomp(2)")]
// `c_long` is 32 bits wide on some architectures.
#![allow(clippy::useless_conversion)]

use crate::ConfineError;
use crate::numbers::{ALWAYS, FILES, MMAP, OF_THIS_ARCHITECTURE, OLDER_FILES, OLDER_OPEN, SOCKETS};
use libc::c_long;
use seccompiler::SeccompCmpOp::{Eq, MaskedEq};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};
use std::collections::BTreeMap;

const BPF_MAP_LOOKUP_ELEM: u64 = 1;
const BPF_MAP_UPDATE_ELEM: u64 = 2;
const BPF_MAP_DELETE_ELEM: u64 = 3;
const BPF_MAP_GET_NEXT_KEY: u64 = 4;
const BPF_OBJ_GET_INFO_BY_FD: u64 = 15;
/// `PR_SET_VMA`, which the C library uses to name its mappings.
const PR_SET_VMA: u64 = 0x5356_4d41;

/// `BPF_LD | BPF_W | BPF_ABS` and `BPF_JMP | BPF_JEQ | BPF_K` (linux/bpf_common.h).
const LOAD_WORD: u16 = 0x20;
const JUMP_IF_EQUAL: u16 = 0x15;
/// Offset of `arch` in `struct seccomp_data`.
const ARCH_OFFSET: u32 = 4;
/// Values of `arch` (linux/audit.h).
const AUDIT_ARCH_AARCH64: u32 = 0xC000_00B7;
const AUDIT_ARCH_ARM: u32 = 0x4000_0028;

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
        calls.permit_all(OF_THIS_ARCHITECTURE);
        // A bidirectional pipe within the process.
        calls.permit_if(libc::SYS_socketpair, (0, Eq, libc::AF_UNIX as u64));
        let executable = libc::PROT_EXEC as u64;
        calls.permit_if(MMAP, (2, MaskedEq(executable), 0));
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
        for open in OLDER_OPEN {
            self.permit_if(*open, (1, MaskedEq(writing), 0));
        }
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
    // The library has no 32-bit ARM. Its filters depend on the architecture only in one value.
    let is_arm = cfg!(target_arch = "arm");
    let arch = if is_arm { Ok(TargetArch::aarch64) } else { TargetArch::try_from(std::env::consts::ARCH) };
    let mut program: BpfProgram = SeccompFilter::new(rules, otherwise, action, arch.map_err(failed)?)
        .and_then(TryInto::try_into)
        .map_err(failed)?;
    if is_arm {
        turn_to_arm(&mut program)?;
    }
    Ok(program)
}

/// Makes a filter of 64-bit ARM one of 32-bit ARM: the kernel passes arguments as 64-bit values
/// there, too, with zeros in the upper halves (`struct seccomp_data`), so only the value with which
/// the filter compares the caller's architecture differs.
fn turn_to_arm(program: &mut BpfProgram) -> Result<(), ConfineError> {
    match program.as_mut_slice() {
        [load, compare, ..]
            if (load.code, load.k) == (LOAD_WORD, ARCH_OFFSET)
                && (compare.code, compare.k) == (JUMP_IF_EQUAL, AUDIT_ARCH_AARCH64) =>
        {
            compare.k = AUDIT_ARCH_ARM;
            Ok(())
        }
        _ => Err(ConfineError::Filter("it does not begin with the check of the architecture".into())),
    }
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// A filter that refuses `write` (4 on 32-bit ARM).
    fn filter(arch: TargetArch) -> BpfProgram {
        let rules = BTreeMap::from([(4, Vec::new())]);
        let refused = SeccompAction::Errno(libc::EPERM as u32);
        SeccompFilter::new(rules, SeccompAction::Allow, refused, arch).unwrap().try_into().unwrap()
    }

    #[test]
    fn a_filter_for_32_bit_arm_differs_in_the_architecture_only() {
        let of_64_bit = filter(TargetArch::aarch64);
        let mut program = of_64_bit.clone();
        turn_to_arm(&mut program).unwrap();
        let changed: Vec<_> = (0..program.len()).filter(|&i| program[i] != of_64_bit[i]).collect();
        assert_eq!(changed, [1]);
        assert_eq!(program[1].k, AUDIT_ARCH_ARM);
        // A filter that begins otherwise is refused, not changed.
        let mut other = filter(TargetArch::x86_64);
        let before = other.clone();
        assert!(turn_to_arm(&mut other).is_err());
        assert_eq!(other, before);
    }
}
