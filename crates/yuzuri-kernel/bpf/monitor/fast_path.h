/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * Fast paths: the data needed for a flow's next segments, in one cache line.
 */
#ifndef YUZURI_MONITOR_FAST_PATH_H
#define YUZURI_MONITOR_FAST_PATH_H

#include "ring.h"
#include "state.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_core_read.h>

/* Nearly every segment changes nothing in struct flow. The data needed for such a segment is copied
 * into a table of its own, indexed by the socket's address. A merged segment then takes 94
 * instructions (117 without payload) instead of 210, of which the call for struct flow took 45 and
 * the checks of rarely changing variables took the most (x86 adds seven instructions to each load
 * from a tcp_sock). With tens of thousands of flows, cache misses cost more than instructions. A
 * fast path is one cache line, found directly; struct flow is the last of four lines that point to
 * each other (the socket's pointer to its storage, the storage, the value's header, the value). A
 * flow that is not selected has a fast path too, so that only this line is read for it. Only the
 * socket that holds a fast path reads and writes it, under the socket's lock. See
 * fill_fast_path(). */
struct fast_path {
	const struct sock *sk; /* the socket that holds it; NULL: free */
	u64 due_ns;            /* from this time on a sample is due; see defers_sample() */
	u32 generation;        /* or unselected_generation() */
	u32 tick;              /* jiffies when it was filled, or when the clock was last read for it */
	u32 usual;             /* the value of the TCP header's bits UNUSUAL */
	u32 ssthresh;
	u32 acks;      /* segments since the flow's last record */
	u8 header;     /* bytes of the TCP header */
	u8 data;       /* at every ACK: recorded segments that only brought data, at most MANY_ACKS */
	u8 defers;     /* enum defers */
	u8 unselected; /* the flow is not selected */
	u64 cookie;
	u64 last_ns;
	const void *ca_ops;
};

_Static_assert(sizeof(struct fast_path) == 64, "a cache line");

/* The usual segments whose sample may be deferred without reading the clock. */
enum defers {
	DEFERS_NONE,
	DEFERS_ALL,  /* more than MANY_ACKS came in the last interval */
	DEFERS_DATA, /* at every ACK: those that only bring data */
};

/* 8 MiB, and a page before them. `static` prevents user space from mapping them. */
#define FAST_PATHS (1 << 17)
#define PAGE_BYTES 4096
static __attribute__((used)) char before_fast_paths[PAGE_BYTES] SEC(".bss.fast_paths");
static struct fast_path fast_paths[FAST_PATHS] SEC(".bss.fast_paths");

/* Each socket has two places. They follow the sockets' order in memory: sockets are allocated side
 * by side and take more than 2048 bytes each, so the fast paths of flows that were opened together
 * lie on few pages and cause few TLB misses. Sockets that are a multiple of 256 MiB apart share
 * their first place; the second is half a table away. A flow whose two places are taken has no fast
 * path. */
static __always_inline u32 index_of(const struct sock *sk)
{
	u32 low;

	/* The verifier does not track half of a pointer as one. */
	asm volatile("%[low] = %[sk]" : [low] "=w"(low) : [sk] "w"((u32)(u64)sk));
	return low >> 11 & (FAST_PATHS - 1);
}

static __always_inline struct fast_path *fast_path_at(u32 index)
{
	/* The kernel stores an array's values behind its own variables, not at the start of a cache
	 * line. They are shifted back by the length of these variables, which is less than a
	 * page. */
	u64 offset = bpf_core_field_offset(struct bpf_array, value);
	struct fast_path *fast_path;
	void *start;

	/* In C, the compiler would add the negated offset, and older verifiers do not track a
	 * negated constant. */
	asm volatile("%[start] = %[table] ll\n%[start] -= %[offset]"
		     : [start] "=&r"(start)
		     : [table] "i"(fast_paths), [offset] "r"(offset));
	fast_path = start + index * sizeof(struct fast_path);
	/* Otherwise the compiler recomputes the address at each use. */
	asm volatile("" : "+r"(fast_path));
	return fast_path;
}

/* The fast path held by this socket, or by another one. */
static __always_inline struct fast_path *fast_path_of(const struct sock *sk)
{
	u32 index = index_of(sk);
	struct fast_path *fast_path = fast_path_at(index);

	return likely(fast_path->sk == sk) ? fast_path : fast_path_at(index ^ FAST_PATHS / 2);
}

static __always_inline void release_fast_path(struct fast_path *fast_path)
{
	/* An exchange: no load from the fast path may be delayed until after another socket took
	 * it. */
	__sync_lock_test_and_set((u64 *)&fast_path->sk, 0);
}

/* The generation in the fast path of a flow that is not selected: so segments of selected flows
 * need only one comparison. */
static __always_inline u32 unselected_generation(u32 generation)
{
	return ~generation;
}

/* Copies the counters back into the flow, and releases its fast path. Everything that reads or
 * changes the flow must do this first. */
static __noinline void leave_fast_path(struct sock *sk, struct flow *flow)
{
	struct fast_path *fast_path = fast_path_of(sk);

	flow->has_fast_path = false;
	if (fast_path->sk != sk)
		return;
	if (!fast_path->unselected) {
		flow->acks = fast_path->acks < 0xffff ? fast_path->acks : 0xffff;
		flow->last_ns = fast_path->last_ns;
	}
	release_fast_path(fast_path);
}

/* Counts a usual segment without a record of its own into the flow's next one. */
static __always_inline void merge(struct fast_path *fast_path, struct ring_control *ring)
{
	ring->merged++;
	fast_path->acks++;
}

/* The bits that are the same in every usual segment: the header's length, and no flag that matters
 * here. */
#define UNUSUAL bpf_htonl(0xf0000000 | (TCPHDR_ECE | TCPHDR_RST | TCPHDR_SYN | TCPHDR_FIN) << 16)

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the first word is the lower half");

/* As tcp_of(), and `words`: the third and fourth word of the TCP header, which are the
 * acknowledgement number and the bits of UNUSUAL. One load, since x86 takes eight instructions for
 * each. */
static __always_inline bool read_header(struct sock *sk, const struct sk_buff *skb, struct tcp_sock **tp,
					u64 *words)
{
	if (&bpf_rdonly_cast != NULL) {
		const struct timespec64 *pair;
		*tp = bpf_rdonly_cast(sk, bpf_core_type_id_kernel(struct tcp_sock));
		pair = bpf_rdonly_cast(skb->data, bpf_core_type_id_kernel(struct timespec64));
		*words = pair->tv_nsec;
		return true;
	}
	*tp = bpf_skc_to_tcp_sock(sk);
	u64 read = 0;
	bpf_probe_read_kernel(&read, sizeof(read), skb->data + 8);
	*words = read;
	return *tp;
}

static __always_inline bool acknowledges(struct tcp_sock *tp, u64 words)
{
	return bpf_ntohl((u32)words) != tp->snd_una;
}

/* Whether the segment has no information but its arrival. One without payload may be a duplicate
 * ACK, or the first after HyStart has set ssthresh; for segments with payload,
 * sample_on_fast_path() checks the latter. */
static __always_inline bool is_usual(struct tcp_sock *tp, const struct sk_buff *skb, u64 words,
				     const struct fast_path *fast_path)
{
	return ((u32)(words >> 32) & UNUSUAL) == fast_path->usual &&
	       (skb->len != fast_path->header ||
		(acknowledges(tp, words) && tp->snd_ssthresh == fast_path->ssthresh));
}

/* With so few ACKs per interval, reading the clock at each is affordable. */
#define MANY_ACKS 4

/* Segments that only bring data are thinned further: if many arrive, even at "every ACK". They
 * change nothing for congestion control, and at a receiver nearly all segments are such. */
#define DATA_INTERVAL_NS 10000000
#define DATA_INTERVAL_EVERY_ACK_NS 1000000

/* The earliest time after one sample at which another is due. */
static __always_inline u64 fast_path_interval_ns(void)
{
	return config.interval_ns ? config.interval_ns : DATA_INTERVAL_EVERY_ACK_NS;
}

/* The time after one sample at which another is due for segments that only bring data. */
static __always_inline u64 data_interval_ns(void)
{
	u64 interval_ns = config.interval_ns;

	/* If the interval is longer, data-only segments are not thinned further. */
	return interval_ns > DATA_INTERVAL_NS ? interval_ns : DATA_INTERVAL_NS;
}

/* Whether a due sample is deferred because this segment only brings data. If many arrive, this is
 * checked once per interval, not at each segment. */
static __always_inline bool defers_data_sample(struct tcp_sock *tp, u64 words, struct fast_path *fast_path,
					       u64 now)
{
	if (!config.interval_ns || now >= fast_path->last_ns + data_interval_ns() || acknowledges(tp, words))
		return false;
	if (fast_path->defers == DEFERS_ALL)
		fast_path->due_ns = now + config.interval_ns;
	return true;
}

/* For a flow with this many segments in the last interval. */
static __always_inline enum defers deferred(u32 acks)
{
	return !config.interval_ns ? DEFERS_DATA : acks > MANY_ACKS ? DEFERS_ALL : DEFERS_NONE;
}

/* Whether a usual segment waits for the flow's next sample, in a flow with many segments. The time
 * that TCP itself read for the flow's last segment is slightly older, within this tick: a sample is
 * at most one segment late, and the clock is not read. */
static __always_inline bool defers_sample(struct tcp_sock *tp, u64 words, struct fast_path *fast_path)
{
	if (unlikely(fast_path->defers != DEFERS_ALL)) {
		if (fast_path->defers == DEFERS_NONE || acknowledges(tp, words))
			return false;
		if (fast_path->data < MANY_ACKS) {
			fast_path->data++;
			return false;
		}
	}
	return tp->tcp_clock_cache < fast_path->due_ns ||
	       defers_data_sample(tp, words, fast_path, tp->tcp_clock_cache);
}

/* A free place for this socket's fast path, which it then holds; NULL: there is none. */
static __always_inline struct fast_path *claim_fast_path(struct sock *sk)
{
	u32 index = index_of(sk);
	struct fast_path *fast_path = fast_path_at(index);

	if (!fast_path->sk && !__sync_val_compare_and_swap((u64 *)&fast_path->sk, 0, (u64)sk))
		return fast_path;
	fast_path = fast_path_at(index ^ FAST_PATHS / 2);
	if (!fast_path->sk && !__sync_val_compare_and_swap((u64 *)&fast_path->sk, 0, (u64)sk))
		return fast_path;
	return NULL;
}

/* Fills the fast path with what the flow's next segments need, if they can be expected to need no
 * more. In Open, the kernel's own hooks report a change of state, and undo and reordering are
 * preceded by a segment with a SACK option, which is not usual. A change of the congestion control
 * is detected at the next record, or at the next tick of jiffies. */
static __always_inline void fill_fast_path(struct sock *sk, struct tcp_sock *tp, struct flow *flow, u16 acks)
{
	struct fast_path *fast_path;

	if (!state_hook || flow->ca_state != TCP_CA_Open || flow->pending || flow->marks || !flow->announced ||
	    flow->detached)
		return;
	fast_path = claim_fast_path(sk);
	if (!fast_path)
		return;
	fast_path->due_ns = flow->last_ns + fast_path_interval_ns();
	fast_path->generation = flow->generation;
	fast_path->tick = bpf_jiffies64();
	fast_path->header = tp->tcp_header_len;
	fast_path->data = 0;
	fast_path->defers = deferred(acks);
	fast_path->unselected = false;
	fast_path->usual = bpf_htonl((u32)fast_path->header << 26);
	fast_path->ssthresh = flow->ssthresh;
	fast_path->acks = flow->acks;
	fast_path->cookie = flow->cookie;
	fast_path->last_ns = flow->last_ns;
	fast_path->ca_ops = flow->ca_ops;
	flow->has_fast_path = true;
}

/* Marks a flow as not selected, until the filter changes. */
static __always_inline void fill_fast_path_unselected(struct sock *sk, struct flow *flow)
{
	struct fast_path *fast_path = claim_fast_path(sk);

	if (!fast_path)
		return;
	fast_path->generation = unselected_generation(flow->generation);
	fast_path->unselected = true;
	flow->has_fast_path = true;
}

#endif
