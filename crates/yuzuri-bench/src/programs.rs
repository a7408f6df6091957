//! Two BPF programs of two instructions each. One does nothing at each ACK and measures the
//! kernel's own cost of running a program. The other passes injected frames.

#![expect(unsafe_code, reason = "calls of libbpf")]

use anyhow::{Context, bail};
use libbpf_rs::libbpf_sys::{self, bpf_insn};
use std::ffi::CStr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

fn instruction(code: u8, imm: i32) -> bpf_insn {
    bpf_insn { code, imm, ..Default::default() }
}

/// `return value`: leaves every register except the result unchanged.
fn return_value(value: i32) -> [bpf_insn; 2] {
    const MOV64_IMM_R0: u8 = 0xb7;
    const EXIT: u8 = 0x95;
    [instruction(MOV64_IMM_R0, value), instruction(EXIT, 0)]
}

fn load(
    prog_type: libbpf_sys::bpf_prog_type,
    name: &CStr,
    code: &[bpf_insn],
    mut options: libbpf_sys::bpf_prog_load_opts,
) -> anyhow::Result<OwnedFd> {
    options.sz = size_of_val(&options) as u64;
    // SAFETY: name, licence, instructions and options outlive the call, and the count matches them.
    let fd = unsafe {
        libbpf_sys::bpf_prog_load(
            prog_type,
            name.as_ptr(),
            c"GPL".as_ptr(),
            code.as_ptr(),
            code.len() as u64,
            &mut options,
        )
    };
    if fd < 0 {
        bail!("loading {name:?}: {}", std::io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: the descriptor is new, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A program that does nothing at tcp:tcp_probe, attached for the lifetime of this value.
pub struct NoopProgram {
    _link: OwnedFd,
    program: OwnedFd,
}

impl NoopProgram {
    /// Loads and attaches the program.
    pub fn attach() -> anyhow::Result<NoopProgram> {
        // SAFETY: the name is a C string; the call reads BTF and returns a number.
        let id = unsafe {
            libbpf_sys::libbpf_find_vmlinux_btf_id(c"tcp_probe".as_ptr(), libbpf_sys::BPF_TRACE_RAW_TP)
        };
        if id <= 0 {
            bail!("finding tcp:tcp_probe: {}", std::io::Error::from_raw_os_error(-id));
        }
        let options = libbpf_sys::bpf_prog_load_opts {
            expected_attach_type: libbpf_sys::BPF_TRACE_RAW_TP,
            attach_btf_id: id as u32,
            ..Default::default()
        };
        let program = load(libbpf_sys::BPF_PROG_TYPE_TRACING, c"noop", &return_value(0), options)?;
        // SAFETY: a program loaded for its tracepoint needs no name.
        let link = unsafe { libbpf_sys::bpf_raw_tracepoint_open(std::ptr::null(), program.as_raw_fd()) };
        if link < 0 {
            bail!("attaching to tcp:tcp_probe: {}", std::io::Error::from_raw_os_error(-link));
        }
        // SAFETY: the descriptor is new, and nothing else owns it.
        Ok(NoopProgram { _link: unsafe { OwnedFd::from_raw_fd(link) }, program })
    }

    /// The number of runs, and the nanoseconds that the kernel counted for them.
    pub fn runs_and_ns(&self) -> anyhow::Result<(u64, u64)> {
        let mut info = libbpf_sys::bpf_prog_info::default();
        let mut size = size_of_val(&info) as u32;
        // SAFETY: the kernel writes at most `size` bytes into `info`, for which any bit pattern is
        // valid.
        let result = unsafe {
            libbpf_sys::bpf_obj_get_info_by_fd(self.program.as_raw_fd(), (&raw mut info).cast(), &mut size)
        };
        if result < 0 {
            return Err(std::io::Error::from_raw_os_error(-result)).context("reading a program's run count");
        }
        Ok((info.run_cnt, info.run_time_ns))
    }
}

/// An XDP program that passes frames to the network stack of the interface given as their origin.
pub struct PassProgram(OwnedFd);

/// Maximum batch size of the kernel.
const MAX_BATCH: u32 = 256;
const XDP_PASS: i32 = 2;
/// `BPF_F_TEST_XDP_LIVE_FRAMES` (Linux 5.18): passed frames enter the network stack instead of
/// being discarded.
const LIVE_FRAMES: u32 = 2;

impl PassProgram {
    /// Loads the program.
    pub fn load() -> anyhow::Result<PassProgram> {
        load(libbpf_sys::BPF_PROG_TYPE_XDP, c"pass", &return_value(XDP_PASS), Default::default())
            .map(PassProgram)
    }

    /// Delivers `count` copies of a frame to an interface in the calling thread's network
    /// namespace.
    pub fn inject(&self, frame: &[u8], interface: u32, count: u32) -> anyhow::Result<()> {
        let context = libbpf_sys::xdp_md {
            data_end: frame.len() as u32,
            ingress_ifindex: interface,
            ..Default::default()
        };
        let mut options = libbpf_sys::bpf_test_run_opts {
            data_in: frame.as_ptr().cast(),
            data_size_in: frame.len() as u32,
            ctx_in: (&raw const context).cast(),
            ctx_size_in: size_of_val(&context) as u32,
            repeat: count as i32,
            flags: LIVE_FRAMES,
            batch_size: count.min(MAX_BATCH),
            ..Default::default()
        };
        options.sz = size_of_val(&options) as u64;
        // SAFETY: frame and context outlive the call and have the sizes given.
        let result = unsafe { libbpf_sys::bpf_prog_test_run_opts(self.0.as_raw_fd(), &mut options) };
        if result < 0 {
            return Err(std::io::Error::from_raw_os_error(-result)).context("injecting frames");
        }
        Ok(())
    }
}
