//! The kernel's statistics of BPF programs.

#![expect(unsafe_code, reason = "calls of libbpf")]

use libbpf_rs::AsRawLibbpf;

/// The kernel's statistics of one of our programs (`struct bpf_prog_info`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramStats {
    /// The program's name.
    pub name: String,
    /// Runs; counted only while `kernel.bpf_stats_enabled` is 1.
    pub runs: u64,
    /// Time spent in them, nanoseconds, including the kernel's own time-keeping for each run;
    /// counted only then.
    pub run_time_ns: u64,
    /// Runs that the kernel skipped because the program was already running on that CPU.
    pub recursion_misses: u64,
}

impl ProgramStats {
    pub(crate) fn read(
        name: String,
        program: &impl AsRawLibbpf<LibbpfType = libbpf_rs::libbpf_sys::bpf_program>,
    ) -> Option<ProgramStats> {
        use libbpf_rs::libbpf_sys;
        // SAFETY: the pointer is to a program of a live object.
        let fd = unsafe { libbpf_sys::bpf_program__fd(program.as_libbpf_object().as_ptr()) };
        let mut info = libbpf_sys::bpf_prog_info::default();
        let mut size = size_of_val(&info) as u32;
        // SAFETY: the kernel writes at most `size` bytes into `info`, a plain structure for which
        // any content is valid.
        let result = unsafe { libbpf_sys::bpf_obj_get_info_by_fd(fd, (&raw mut info).cast(), &mut size) };
        (fd >= 0 && result == 0).then_some(ProgramStats {
            name,
            runs: info.run_cnt,
            run_time_ns: info.run_time_ns,
            recursion_misses: info.recursion_misses,
        })
    }
}

/// Makes the kernel measure the time of BPF programs (`BPF_STATS_RUN_TIME`) while the returned
/// guard exists.
///
/// # Errors
/// Without CAP_SYS_ADMIN, or before Linux 5.8.
pub fn time_programs() -> std::io::Result<impl Send> {
    // SAFETY: the call takes a number and returns a descriptor or an error.
    let fd = unsafe { libbpf_rs::libbpf_sys::bpf_enable_stats(libbpf_rs::libbpf_sys::BPF_STATS_RUN_TIME) };
    if fd < 0 {
        return Err(std::io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: the descriptor is new and ours.
    Ok(unsafe { <std::os::fd::OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(fd) })
}
