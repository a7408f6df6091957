//! Any input from a netlink socket: parsed or refused, never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| yuzuri_kernel::fuzz_sock_diag(bytes));
