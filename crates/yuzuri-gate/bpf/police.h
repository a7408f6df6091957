/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * Polices traffic without a window: QUIC and other UDP, tunnels. In competition with bounded TCP it
 * would take the whole capacity, so each station has a token bucket for it, as long as user space
 * maintains one. Small streams, such as calls, DNS and games, have priority: they use the bucket as
 * well, but may overdraw it.
 */
#ifndef YUZURI_GATE_POLICE_H
#define YUZURI_GATE_POLICE_H

#include "maps.h"
#include "packet.h"

#define IPV4_SUM_AT 10 /* in the header */
#define NS_PER_S 1000000000ULL
#define MAX_RATE (1ULL << 33) /* bytes a second: its product with a second in ns fits */
/* A bucket holds the rate of a 20th of a second, and at least this many bytes: a congestion
 * window's burst. */
#define BURST_PARTS 20
#define MIN_BURST 32768
/* A stream with fewer bytes per second, beyond its first ones, is small: 512 kbit/s. */
#define SMALL_PER_S 65536
#define SMALL_BURST 32768

/* The tokens since a given time, bytes; at most those of a second. */
static __always_inline u64 since(u64 then, u64 now, u64 bytes_per_s)
{
	u64 ns = now > then ? now - then : 0;

	return (ns > NS_PER_S ? NS_PER_S : ns) * bytes_per_s / NS_PER_S;
}

static __always_inline bool is_small(struct segment *s, u64 now)
{
	struct allowance *a = bpf_map_lookup_elem(&allowances, &s->key);
	u64 tokens;

	if (!a) {
		struct allowance begun = {.filled_ns = now, .tokens = SMALL_BURST};

		if (s->packet > SMALL_BURST)
			return false;
		begun.tokens -= s->packet;
		bpf_map_update_elem(&allowances, &s->key, &begun, 0);
		return true;
	}
	/* Two concurrent CPUs may give a packet too much or too little: the allowance need not be
	 * exact. */
	tokens = a->tokens + since(a->filled_ns, now, SMALL_PER_S);
	if (tokens > SMALL_BURST)
		tokens = SMALL_BURST;
	a->filled_ns = now;
	if (tokens < s->packet) {
		a->tokens = tokens;
		return false;
	}
	a->tokens = tokens - s->packet;
	return true;
}

/* Fills the bucket; if several CPUs run concurrently, only one does. */
static __always_inline s64 fill(struct bucket *b, u64 bytes_per_s, u64 now)
{
	s64 burst = bytes_per_s / BURST_PARTS, tokens;
	u64 then = *(volatile u64 *)&b->filled_ns;

	if (burst < MIN_BURST)
		burst = MIN_BURST;
	if (now > then && __sync_val_compare_and_swap(&b->filled_ns, then, now) == then)
		__sync_fetch_and_add(&b->tokens, since(then, now, bytes_per_s));
	tokens = *(volatile s64 *)&b->tokens;
	if (tokens > burst)
		*(volatile s64 *)&b->tokens = tokens = burst;
	return tokens;
}

/*
 * Marks a packet (Congestion Experienced) if its sender supports ECN. bpf_skb_ecn_set_ce() is no
 * alternative: it mistakes the data after a VLAN tag for the network header, and changes bytes of
 * the tag.
 */
static __always_inline bool mark(struct __sk_buff *skb, struct segment *s)
{
	/* The low two bits of the byte behind the version in IPv4, and two above its middle in
	 * IPv6. */
	u16 ce = s->version == 4 ? bpf_htons(ECN_CE) : bpf_htons(ECN_CE << 4), first = s->first | ce;

	if (!(s->first & ce))
		return false;
	if (first == s->first)
		return true;
	if (s->version == 4 && bpf_l3_csum_replace(skb, s->ip + IPV4_SUM_AT, s->first, first, sizeof(first)))
		return false;
	return !bpf_skb_store_bytes(skb, s->ip, &first, sizeof(first), 0);
}

/* Counts a packet that passes. */
static __always_inline u64 passed(struct segment *s)
{
	return __sync_fetch_and_add(&other_passed, s->packet) + s->packet;
}

/* Whether a packet of traffic without a window passes. */
static __always_inline bool police(struct __sk_buff *skb, struct segment *s, u64 now)
{
	struct mac mac = {};
	struct bucket *b;
	struct rate *r;
	u64 bytes_per_s;
	s64 tokens;
	bool small;

	count(COUNT_OTHER);
	__builtin_memcpy(mac.address, s->mac, sizeof(mac.address));
	b = bpf_map_lookup_elem(&buckets, &mac);
	if (!b) {
		struct bucket begun = {.filled_ns = now, .last_ns = now, .bytes = s->packet, .packets = 1};

		begun.all_passed = passed(s);
		bpf_map_update_elem(&buckets, &mac, &begun, 0);
		return true;
	}
	b->last_ns = now;
	__sync_fetch_and_add(&b->bytes, s->packet);
	__sync_fetch_and_add(&b->packets, 1);
	r = bpf_map_lookup_elem(&rates, &mac);
	if (!r || r->until_ns <= now) {
		b->all_passed = passed(s);
		return true;
	}
	bytes_per_s = r->bytes_per_s > MAX_RATE ? MAX_RATE : r->bytes_per_s;
	small = is_small(s, now);
	tokens = fill(b, bytes_per_s, now);
	/* Small streams may go up to one second into debt. */
	if (tokens < (s64)s->packet && !(small && tokens > -(s64)bytes_per_s)) {
		/* Senders that support marks get one; those that ignore them may owe at most a
		 * small burst. */
		if (tokens < -MIN_BURST || !mark(skb, s)) {
			__sync_fetch_and_add(&b->dropped, 1);
			count(COUNT_DROPPED);
			return false;
		}
		__sync_fetch_and_add(&b->marked, 1);
		count(COUNT_MARKED);
	}
	__sync_fetch_and_add(&b->tokens, -(s64)s->packet);
	b->all_passed = passed(s);
	return true;
}

#endif
