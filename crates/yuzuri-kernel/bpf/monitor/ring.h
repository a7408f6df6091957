/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * The ring buffers through which records reach user space.
 */
#ifndef YUZURI_MONITOR_RING_H
#define YUZURI_MONITOR_RING_H

#include "../kernel.h"
#include <bpf/bpf_helpers.h>
#include "../event.h"

/* The ring buffers: `slots_per_cpu` slots for each CPU in one array that user space maps. The
 * kernel's own BPF ring buffer costs 50 ns more per record: all CPUs share it behind a lock, and
 * each record takes two helper calls. Here a record's slot is reserved by one atomic add on a cache
 * line that only this CPU writes. */
const volatile u32 slots_per_cpu = 4096; /* a power of two */
const volatile u32 cpu_mask = 0;         /* `controls` has one more element than this, a power of two */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, union record);
} slots SEC(".maps");

/* One for each CPU; user space enlarges it. A variable and not a map: a look-up would take seven
 * instructions more, also in runs that only count a segment. */
struct ring_control controls[1] SEC(".bss.controls");

/* Records that one CPU may write concurrently: one program can be interrupted by another. */
#define NESTING 8

/* Wakes a waiting reader. It carries no records: its content is not read. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} wakeup SEC(".maps");

/* Nonzero while a reader waits to be woken. User space sets it. */
u32 wakeup_armed SEC(".data");

/* The reader is woken when one CPU's ring buffer has this many unread records. User space sets it,
 * by the number of slots. */
const volatile u32 wakeup_at = 512;

static __noinline void wake_reader(void)
{
	u64 nothing = 0;

	if (!*(volatile u32 *)&wakeup_armed)
		return;
	/* Two CPUs may both find it armed: the reader is woken twice, which is harmless. */
	*(volatile u32 *)&wakeup_armed = 0;
	bpf_ringbuf_output(&wakeup, &nothing, sizeof(nothing), BPF_RB_FORCE_WAKEUP);
}

static __always_inline struct ring_control *ring_control(u32 cpu)
{
	struct ring_control *first = controls;

	/* Otherwise the compiler assumes that the array has one element. */
	asm volatile("" : "+r"(first));
	return first + (cpu & cpu_mask);
}

/* A slot for a record, or NULL (counted). The record becomes visible by publish(). */
static __always_inline void *reserve(struct ring_control *ring, u32 cpu, u32 hook, u32 *seq)
{
	u64 head = *(volatile u64 *)&ring->head, tail = *(volatile u64 *)&ring->tail;

	if (unlikely(head - tail >= slots_per_cpu - NESTING)) {
		__sync_fetch_and_add(&ring->hooks[hook].lost_ring, 1);
		return NULL;
	}
	head = __sync_fetch_and_add(&ring->head, 1);
	/* True for exactly one record of those that fill the ring buffer. */
	if (unlikely(head - tail == wakeup_at))
		wake_reader();
	*seq = (u32)head + 1;
	u32 slot = cpu * slots_per_cpu + ((u32)head & (slots_per_cpu - 1));
	return bpf_map_lookup_elem(&slots, &slot);
}

static __always_inline void publish(u32 *where, u32 seq)
{
#ifdef __TARGET_ARCH_arm64
	/* An exchange is the only full barrier in every BPF instruction set. */
	__sync_lock_test_and_set(where, seq);
#else
	/* x86 keeps stores in order; this makes the compiler do so, too. */
	asm volatile("" ::: "memory");
	*(volatile u32 *)where = seq;
#endif
}

#endif
