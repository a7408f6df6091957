/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * Selects flows: the filter as set by user space, evaluated once per flow and setting.
 */
#ifndef YUZURI_MONITOR_FILTER_H
#define YUZURI_MONITOR_FILTER_H

#include "state.h"
#include <bpf/bpf_endian.h>

static __always_inline void addresses(struct sock *sk, u32 local[4], u32 remote[4])
{
	if (sk->__sk_common.skc_family == AF_INET6) {
		__builtin_memcpy(local, &sk->__sk_common.skc_v6_rcv_saddr, 16);
		__builtin_memcpy(remote, &sk->__sk_common.skc_v6_daddr, 16);
	} else {
		local[0] = remote[0] = local[1] = remote[1] = 0;
		local[2] = remote[2] = bpf_htonl(0xffff);
		local[3] = sk->__sk_common.skc_rcv_saddr;
		remote[3] = sk->__sk_common.skc_daddr;
	}
}

/* The filter's input. */
struct filter_input {
	u32 local[4], remote[4];
	u16 local_port, remote_port;
	u32 netns;
	u64 cgroup; /* address of the socket's struct cgroup */
	char name[16];
	u32 pid;
};

enum selection {
	NOT_SELECTED,
	SELECTED,
	UNDECIDED, /* selected if the owner matches, and the owner is not known */
};

static __always_inline bool in_prefix(const u32 addr[4], const struct prefix_term *term)
{
	return !(((addr[0] & term->mask[0]) ^ term->addr[0]) | ((addr[1] & term->mask[1]) ^ term->addr[1]) |
		 ((addr[2] & term->mask[2]) ^ term->addr[2]) | ((addr[3] & term->mask[3]) ^ term->addr[3]));
}

/* These four are not `static`, so that the verifier checks each once and not at each call. */

__noinline bool address_matches(const struct filter_input *filter_input)
{
	bool matches = !config.ports;

	if (!filter_input)
		return false;
	for (u32 i = 0; i < MAX_TERMS && i < config.ports; i++) {
		const struct port_term *term = &config.port[i];
		if ((term->end != 2 && term->port == filter_input->local_port) ||
		    (term->end != 1 && term->port == filter_input->remote_port)) {
			matches = true;
			break;
		}
	}
	if (!matches || !config.prefixes)
		return matches;
	for (u32 i = 0; i < MAX_TERMS && i < config.prefixes; i++) {
		const struct prefix_term *term = &config.prefix[i];
		if ((term->end != 2 && in_prefix(filter_input->local, term)) ||
		    (term->end != 1 && in_prefix(filter_input->remote, term)))
			return true;
	}
	return false;
}

__noinline bool cgroup_is_listed(u64 id)
{
	for (u32 i = 0; i < MAX_TERMS && i < config.cgroups; i++)
		if (config.cgroup[i] == id)
			return true;
	return false;
}

__noinline bool cgroup_matches(const struct filter_input *filter_input)
{
	struct cgroup *cgroup, *ancestor;

	if (!filter_input)
		return false;
	cgroup = (struct cgroup *)filter_input->cgroup;
	if (!cgroup)
		return false;
	if (cgroup_is_listed(BPF_CORE_READ(cgroup, kn, id)))
		return true;
	if (!bpf_core_field_exists(cgroup->ancestors))
		return false; /* before 6.1: only the group itself */
	for (int level = 0; level < 16 && level < BPF_CORE_READ(cgroup, level); level++) {
		if (bpf_probe_read_kernel(&ancestor, sizeof(ancestor), &cgroup->ancestors[level]))
			return false;
		if (cgroup_is_listed(BPF_CORE_READ(ancestor, kn, id)))
			return true;
	}
	return false;
}

__noinline bool owner_matches(const struct filter_input *filter_input)
{
	bool matches = !config.pids;

	if (!filter_input)
		return false;
	for (u32 i = 0; i < MAX_TERMS && i < config.pids; i++) {
		if (config.pid[i] == filter_input->pid) {
			matches = true;
			break;
		}
	}
	if (!matches || !config.names)
		return matches;
	for (u32 i = 0; i < MAX_TERMS && i < config.names; i++) {
		const u64 *name = (const u64 *)filter_input->name, *wanted = (const u64 *)config.name[i];
		if (name[0] == wanted[0] && name[1] == wanted[1])
			return true;
	}
	return false;
}

static __always_inline enum selection match_filter(const struct filter_input *filter_input)
{
	bool matches = !config.netns;

	for (u32 i = 0; i < MAX_TERMS && i < config.netns; i++) {
		if (config.ns[i] == filter_input->netns) {
			matches = true;
			break;
		}
	}
	if (!matches || !address_matches(filter_input) || (config.cgroups && !cgroup_matches(filter_input)))
		return NOT_SELECTED;
	if (!config.pids && !config.names)
		return SELECTED;
	if (!filter_input->pid)
		return UNDECIDED;
	return owner_matches(filter_input) ? SELECTED : NOT_SELECTED;
}

/* Decides whether the flow is selected by the current config. */
static __noinline void decide(struct sock *sk, struct flow *flow)
{
	u32 generation = *(volatile u32 *)&config.generation;
	struct filter_input filter_input = {};
	struct sock *from = untrusted(sk);
	enum selection selection;

	if ((config.pids || config.names) && !flow->pid) {
		struct owner *owner = bpf_map_lookup_elem(&owners, &flow->cookie);
		if (owner) {
			flow->pid = owner->pid;
			__builtin_memcpy(flow->name, owner->name, sizeof(flow->name));
			bpf_map_delete_elem(&owners, &flow->cookie);
		}
	}
	addresses(sk, filter_input.local, filter_input.remote);
	filter_input.local_port = local_port(sk);
	filter_input.remote_port = bpf_ntohs(sk->__sk_common.skc_dport);
	filter_input.netns = from ? from->__sk_common.skc_net.net->ns.inum : 0;
	bpf_probe_read_kernel(&filter_input.cgroup, sizeof(filter_input.cgroup), &sk->sk_cgrp_data.cgroup);
	filter_input.pid = flow->pid;
	__builtin_memcpy(filter_input.name, flow->name, sizeof(filter_input.name));

	selection = match_filter(&filter_input);
	/* User space does not report an undecided flow; once decided, the flow is announced
	 * again. */
	if (flow->generation != generation || (flow->undecided && selection != UNDECIDED))
		flow->announced = false;
	/* Events under an earlier filter remain undecided. */
	if (flow->generation != generation)
		flow->undecided_runs = 0;
	flow->selected = selection == SELECTED;
	flow->undecided = selection == UNDECIDED;
	flow->generation = generation;
}

#endif
