//! For the fuzzer: what the daemon decodes of the kernel's answers, without a kernel.

use crate::{netlink, own, wireless};

/// Reads a datagram as the kernel's answers about routes, neighbours, families and stations, and as `TCP_INFO`. How much of that is in it.
pub fn fuzz_kernel_answers(bytes: &[u8]) -> usize {
    netlink::fuzz(bytes) + wireless::fuzz(bytes) + usize::from(own::fuzz(bytes))
}
