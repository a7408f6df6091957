/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * The state kept for each flow, and the settings.
 */
#ifndef YUZURI_MONITOR_STATE_H
#define YUZURI_MONITOR_STATE_H

#include "../kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include "../event.h"

/* False if the kernel has no tcp:tcp_cong_state_set (before 5.19): then the next ACK shows the
 * change. */
const volatile bool state_hook = true;

/* Owners that user space passes to the flows; a flow's next event removes its entry. User space
 * sizes it by the number of sockets. Not LRU, which would drop entries silently. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u64);
	__type(value, struct owner);
} owners SEC(".maps");

/* The state of a flow, freed with the socket. The fields that each ACK uses are in the first 64
 * bytes. */
struct flow {
	u64 cookie;
	u64 last_ns; /* time of the last record */
	const void *ca_ops;
	u32 generation; /* of the config that it was decided under; 0: none */
	u32 ssthresh;
	u32 reord_seen;
	u16 marks; /* since the last record, as the counts */
	u16 acks;
	u16 dup_acks;
	u16 sacks;
	u8 dsacks;
	u8 selected;
	u8 undecided;
	u8 announced;     /* its identity reached the ring buffer */
	u8 detached;      /* when announced, the socket had no file: it was not accepted yet */
	u8 ca_state;      /* at the last record */
	u8 pending;       /* EVENT_MARKS that have no record yet, >> 8 */
	u8 undoable;      /* undo_marker was set: a reduction may still be undone */
	u8 has_fast_path; /* last_ns and acks are in it */
	u32 restored;     /* the window restored by an undo at the last segment; 0: none larger */
	/* 64 */
	u32 pid;
	char name[16];
	u8 role;
	u8 after_rto;
	u32 undecided_runs; /* hook runs while undecided, counted in `undecided` */
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct flow);
} flows SEC(".maps");

struct config config = {.generation = 1, .interval_ns = 1000000};

/* Since 6.2 a pointer can be cast to a type; before, its target is copied. */
extern void *bpf_rdonly_cast(const void *obj, u32 btf_id) __ksym __weak;

/* For sockets known to be TCP. */
static __always_inline struct tcp_sock *tcp_of(struct sock *sk)
{
	if (&bpf_rdonly_cast != NULL)
		return bpf_rdonly_cast(sk, bpf_core_type_id_kernel(struct tcp_sock));
	return bpf_skc_to_tcp_sock(sk);
}

/* The same socket, to follow the pointers in it. If the verifier trusts a pointer, as the
 * tracepoint's, it searches all kernel types by name at each such step, to determine whether to
 * trust the target: loading took half a second longer on a machine of 10^9 instructions per
 * second. */
static __always_inline struct sock *untrusted(struct sock *sk)
{
	return (struct sock *)tcp_of(sk);
}

/* The local port, host order. A socket that closes has given it back before the tracepoint runs:
 * inet_put_port() clears skc_num, and leaves inet_sport. */
static __always_inline u16 local_port(struct sock *sk)
{
	struct tcp_sock *tp = tcp_of(sk);

	return tp ? bpf_ntohs(tp->inet_conn.icsk_inet.inet_sport) : 0;
}

#endif
