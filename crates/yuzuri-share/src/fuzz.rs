//! Entry point for the fuzzer: decodes kernel replies without a kernel.

use crate::{netlink, own, wireless};

/// Decodes a datagram as a netlink reply about routes, neighbours, families and stations, and as
/// `TCP_INFO`. Returns how many such items it contains.
pub fn fuzz_kernel_answers(bytes: &[u8]) -> usize {
    netlink::fuzz(bytes) + wireless::fuzz(bytes) + usize::from(own::fuzz(bytes))
}
