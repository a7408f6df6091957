//! Linux 6.1 rounds the stack of each function of a call chain up to 32 bytes, and refuses programs
//! whose chain has more than 512. Later kernels round to 16, so a program may load here and not
//! there. The verifier prints what each function of a program uses.
#![expect(unsafe_code, reason = "libbpf-rs cannot set the buffer of a program's log")]

use super::*;
use libbpf_rs::{AsRawLibbpf, ErrorKind, libbpf_sys};
use std::ffi::CStr;

const MAX_STACK: u32 = 512;
const STEP_OF_LINUX_6_1: u32 = 32;
/// `BPF_LOG_STATS` of the kernel's `bpf_verifier.h`.
const LOG_STATS: u32 = 4;

/// The stack of a program's functions, bytes, from a log with "stack depth 280+40".
fn depths(log: &str) -> Vec<u32> {
    let line = log.lines().find_map(|line| line.strip_prefix("stack depth "));
    line.unwrap_or_default().split('+').filter_map(|depth| depth.trim().parse().ok()).collect()
}

#[test]
fn the_programs_fit_the_stack_of_linux_6_1() {
    let mut object = MaybeUninit::uninit();
    let mut open = GateSkelBuilder::default().open(&mut object).expect("the built-in object");
    let mut logs = [vec![0u8; 1 << 16], vec![0u8; 1 << 16]];
    for (program, log) in [&mut open.progs.down, &mut open.progs.up].into_iter().zip(&mut logs) {
        program.set_log_level(LOG_STATS);
        // SAFETY: the program is open, and the buffer has this length and outlives the load.
        let set = unsafe {
            libbpf_sys::bpf_program__set_log_buf(
                program.as_libbpf_object().as_ptr(),
                log.as_mut_ptr().cast(),
                log.len() as libbpf_sys::size_t,
            )
        };
        assert_eq!(set, 0);
    }
    match open.load() {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            return println!("the_programs_fit_the_stack_of_linux_6_1: skipped: {error}");
        }
        Err(error) => panic!("{error}"),
    }
    for (name, log) in ["down", "up"].into_iter().zip(&logs) {
        let log = CStr::from_bytes_until_nul(log).expect("a terminated log").to_string_lossy();
        let depths = depths(&log);
        assert!(!depths.is_empty(), "{name}: no stack depth in the verifier's log: {log}");
        // No function is called by another than the program itself, so the longest chain has no
        // more than all of them.
        let all: u32 = depths.iter().map(|depth| depth.max(&1).next_multiple_of(STEP_OF_LINUX_6_1)).sum();
        assert!(all <= MAX_STACK, "{name}: {depths:?}, {all} bytes on Linux 6.1");
    }
}
