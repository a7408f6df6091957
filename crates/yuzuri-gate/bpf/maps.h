/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0 */
#ifndef YUZURI_GATE_MAPS_H
#define YUZURI_GATE_MAPS_H

#include "gate.h"
#include <bpf/bpf_helpers.h>

#define NULL ((void *)0)

/* uapi/linux/bpf.h */
enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_F_NO_PREALLOC = 1,
};

/* A new connection evicts the least recently used one, which then counts as unknown and is not
 * modified. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384); /* user space sizes it */
	__type(key, struct flow_key);
	__type(value, struct flow);
} flows SEC(".maps");

/* Bounds of connections. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384); /* as many as flows */
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct flow_key);
	__type(value, struct bound);
} bounds SEC(".maps");

/* Bounds of a station's connections without one of their own, such as new ones that user space has
 * not seen yet. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct station);
	__type(value, struct bound);
} station_bounds SEC(".maps");

/* Bounds of connections of stations without one. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct bound);
} default_bound SEC(".maps");

/* The rate limits of stations' traffic without a window. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct mac);
	__type(value, struct rate);
} rates SEC(".maps");

/* The token buckets of that traffic. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct mac);
	__type(value, struct bucket);
} buckets SEC(".maps");

/* The small allowance of each of their streams. */
struct allowance {
	u64 filled_ns;
	u64 tokens; /* bytes */
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct flow_key);
	__type(value, struct allowance);
} allowances SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, COUNTS);
	__type(key, u32);
	__type(value, u64);
} counts SEC(".maps");

/* Bytes of all stations' traffic without a window that passed up; each timed segment stores the
 * current value. */
u64 other_passed = 0;

static __always_inline void count_up(u32 what, u64 by)
{
	u64 *n = bpf_map_lookup_elem(&counts, &what);

	if (n)
		*n += by;
}

static __always_inline void count(u32 what)
{
	count_up(what, 1);
}

#endif
