/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * Reads the kernel's clocks for user space: bpf_ktime_get_ns() is the machine's CLOCK_MONOTONIC,
 * which a process in a time namespace cannot read by any system call, and no interface reports the
 * tick rate on every kernel. Run by BPF_PROG_TEST_RUN, never attached.
 */
#include "types.h"
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

__u64 clock_ns = 0;
__u64 clock_jiffies = 0;

/*
 * A socket filter: this type can be test-run with CAP_BPF alone, and on every kernel that has typed
 * tracepoints.
 */
SEC("socket")
int read_clocks(void *packet)
{
	clock_jiffies = bpf_jiffies64();
	clock_ns = bpf_ktime_get_ns();
	return 0;
}
