/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * Loaded by `yuzuri doctor` to find out whether this kernel lets programs attach to functions.
 * Never left attached.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

SEC("fentry/tcp_enter_loss")
int BPF_PROG(on_function, struct sock *sk)
{
	return 0;
}
