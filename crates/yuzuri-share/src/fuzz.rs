//! For the fuzzer: what the daemon decodes of the kernel's, without a kernel.

use crate::{netlink, own, wireless};

/// Reads a datagram as the kernel's answers about routes, neighbours, families and stations, and as `TCP_INFO`.
pub fn fuzz_kernel_answers(bytes: &[u8]) {
    netlink::fuzz(bytes);
    wireless::fuzz(bytes);
    own::fuzz(bytes);
}
