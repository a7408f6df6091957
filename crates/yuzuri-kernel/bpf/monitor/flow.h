/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * A flow's state at a hook: created, taken back from the fast path, decided, announced.
 */
#ifndef YUZURI_MONITOR_FLOW_H
#define YUZURI_MONITOR_FLOW_H

#include "filter.h"
#include "fast_path.h"
#include "ring.h"

/* Writes the flow's identity. */
static __noinline void announce(struct sock *sk, struct flow *flow, u32 cpu)
{
	struct ring_control *ring = ring_control(cpu);
	struct sock *from = untrusted(sk);
	struct flow_record *record;
	struct socket *socket;
	u64 inode = 0;
	u32 seq;

	/* Retried at the next event if the ring buffer has no room. */
	if (!from)
		return;
	socket = from->sk_socket;
	/* Unlike the other hooks' counters, each of which only one program writes, this one may be
	 * updated by an interrupting program. */
	__sync_fetch_and_add(&ring->hooks[HOOK_FLOW].selected, 1);
	record = reserve(ring, cpu, HOOK_FLOW, &seq);
	if (!record)
		return;
	if (socket) {
		unsigned long ino = 0;
		bpf_probe_read_kernel(&ino, sizeof(ino),
				      (void *)socket + bpf_core_field_offset(struct socket_alloc, vfs_inode) +
					  bpf_core_field_offset(struct inode, i_ino));
		inode = ino;
	}
	record->mono_ns = bpf_ktime_get_ns();
	record->cookie = flow->cookie;
	addresses(sk, (u32 *)record->local, (u32 *)record->remote);
	record->local_port = local_port(sk);
	record->remote_port = bpf_ntohs(sk->__sk_common.skc_dport);
	record->cgroup = from->sk_cgrp_data.cgroup ? from->sk_cgrp_data.cgroup->kn->id : 0;
	record->inode = inode;
	record->netns = from->__sk_common.skc_net.net->ns.inum;
	record->pid = flow->pid;
	__builtin_memcpy(record->name, flow->name, sizeof(record->name));
	/* Not as a string: the longest name fills the field, without a NUL. */
	bpf_probe_read_kernel(record->control, sizeof(record->control),
			      ((struct inet_connection_sock *)from)->icsk_ca_ops->name);
	record->undecided = flow->undecided;
	record->role = flow->role;
	record->kind = RECORD_FLOW;
	publish(&record->seq, seq);
	flow->announced = true;
	flow->detached = !socket;
	/* User space searches for its process, which may end soon. */
	if (!flow->pid)
		wake_reader();
}

/* Creates the state for a flow that has none yet. */
static __noinline struct flow *new_flow(struct sock *sk, u32 cpu, u32 hook)
{
	struct flow *flow = bpf_sk_storage_get(&flows, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);

	if (!flow) {
		struct hook_counters *counters = &ring_control(cpu)->hooks[hook];
		counters->selected++;
		counters->lost_memory++;
		return NULL;
	}
	flow->cookie = bpf_get_socket_cookie(sk);
	/*
	 * The kernel may skip a program, so we may have missed the end of a previous socket at this
	 * address.
	 */
	struct fast_path *fast_path = fast_path_of(sk);
	if (unlikely(fast_path->sk == sk))
		release_fast_path(fast_path);
	return flow;
}

/* Counts a hook run of an undecided flow. Once the flow is decided, the earlier runs were lost if
 * it is selected, and irrelevant if it is not. */
static __noinline void count_undecided_run(struct flow *flow, u32 cpu)
{
	struct ring_control *ring = ring_control(cpu);

	if (flow->undecided) {
		flow->undecided_runs++;
		__sync_fetch_and_add(&ring->undecided, 1);
		return;
	}
	__sync_fetch_and_add(&ring->undecided, -(u64)flow->undecided_runs);
	if (flow->selected)
		__sync_fetch_and_add(&ring->lost_owner, flow->undecided_runs);
	flow->undecided_runs = 0;
}

static __always_inline bool has_file(struct sock *sk)
{
	struct sock *from = untrusted(sk);

	return from && from->sk_socket;
}

/* The flow's state if it is selected. A flow that is not selected is not looked up again at its
 * next segments. */
static __always_inline struct flow *selected_flow(struct sock *sk, u32 cpu, u32 hook)
{
	struct flow *flow = bpf_sk_storage_get(&flows, sk, 0, 0);

	if (unlikely(!flow)) {
		flow = new_flow(sk, cpu, hook);
		if (!flow)
			return NULL;
	}
	if (flow->has_fast_path)
		leave_fast_path(sk, flow);
	if (unlikely(flow->generation != *(volatile u32 *)&config.generation || flow->undecided)) {
		decide(sk, flow);
		if (flow->undecided || flow->undecided_runs)
			count_undecided_run(flow, cpu);
	}
	if (unlikely(!flow->announced || (flow->detached && has_file(sk))) &&
	    (flow->selected || flow->undecided))
		announce(sk, flow, cpu);
	if (flow->selected)
		return flow;
	if (hook == HOOK_ACK && !flow->undecided && !flow->has_fast_path)
		fill_fast_path_unselected(sk, flow);
	return NULL;
}

#endif
