/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * The gate: tc programs at an access point's devices towards its stations. `down` runs at egress
 * and lowers the receive window in ACKs, so that a connection's flight stays within its bound, and
 * may drop ACKs that later ones make redundant; `up` runs at ingress and measures, and polices
 * traffic without such a window. Packets that are not completely understood pass untouched.
 * docs/access-point.md explains each rule.
 */
#include "gate.h"
#include "packet.h"
#include "maps.h"
#include "window.h"
#include "handshake.h"
#include "measure.h"
#include "thin.h"
#include "police.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define TC_ACT_UNSPEC -1 /* leave the decision to other programs and filters */
#define TC_ACT_SHOT 2
#define WINDOW_AT 14 /* in the TCP header */
#define SUM_AT 16

/* Writes a window into the packet; updates the checksum by RFC 1624, or not at all if hardware will
 * compute it. */
static __always_inline bool write_window(struct __sk_buff *skb, struct segment *s, u16 window)
{
	u16 from = bpf_htons(s->window), to = bpf_htons(window);

	if (bpf_l4_csum_replace(skb, s->at + SUM_AT, from, to, sizeof(to)))
		return false;
	if (!bpf_skb_store_bytes(skb, s->at + WINDOW_AT, &to, sizeof(to), 0))
		return true;
	bpf_l4_csum_replace(skb, s->at + SUM_AT, to, from, sizeof(to));
	return false;
}

SEC("tc")
int down(struct __sk_buff *skb)
{
	struct segment s = {};
	struct flow *f;
	struct bound *b;
	u64 now, edge;
	u32 before;
	u16 window;

	if (parse(skb, &s, true) != PARSED)
		return TC_ACT_UNSPEC;
	count(COUNT_DOWN);
	now = bpf_ktime_get_ns();
	f = bpf_map_lookup_elem(&flows, &s.key);
	if (on_handshake(skb, f, &s, FLOW_SERVER_SYN, now))
		return TC_ACT_UNSPEC;
	if (!f || !(f->flags & FLOW_KNOWN)) {
		count(COUNT_UNKNOWN_HANDSHAKE);
		return TC_ACT_UNSPEC;
	}
	if (!(s.flags & TCP_ACK))
		return TC_ACT_UNSPEC;
	f->last_ns = now;
	before = f->ack;
	if (!(f->flags & FLOW_NEVER_MODIFIED))
		measure_wait(f, now);
	measure_ack(f, &s, now);
	if (f->flags & FLOW_NEVER_MODIFIED) {
		count(COUNT_NEVER_MODIFIED);
		return TC_ACT_UNSPEC;
	}
	note_loss(f, &s, before);
	b = bound_of(&s.key, now);
	if (b && is_needless(f, &s, b, before, now)) {
		f->thinned++;
		count(COUNT_THINNED);
		return TC_ACT_SHOT;
	}
	if (after(s.ack, f->ack_down))
		f->ack_down = s.ack;
	measure_stamp(f, &s, now);
	edge = f->right_edge;
	window = window_for(f, s.ack, s.window, s.window ? bytes_of(b) : 0);
	if (window != s.window && !write_window(skb, &s, window)) {
		/* The packet advertises more than we stored: the next ACK starts over. */
		*(volatile u64 *)&f->right_edge = 0;
		count(COUNT_FAILED);
		return TC_ACT_UNSPEC;
	}
	if (window != s.window) {
		f->lowered++;
		count(COUNT_LOWERED);
	} else {
		f->passed++;
	}
	f->advertised = (u32)window << (f->scale & 15);
	f->offered = (u32)s.window << (f->scale & 15);
	f->ack_ns = now;
	measure_edge(f, edge, now);
	return TC_ACT_UNSPEC;
}

SEC("tc")
int up(struct __sk_buff *skb)
{
	struct segment s = {};
	struct flow *f;
	int parsed;
	u64 now;

	count_up(COUNT_BYTES, skb->len);
	parsed = parse(skb, &s, false);
	now = bpf_ktime_get_ns();
	if (parsed == PARSED_OTHER)
		return police(skb, &s, now) ? TC_ACT_UNSPEC : TC_ACT_SHOT;
	if (parsed != PARSED)
		return TC_ACT_UNSPEC;
	count(COUNT_UP);
	f = bpf_map_lookup_elem(&flows, &s.key);
	if (on_handshake(skb, f, &s, FLOW_STATION_SYN, now))
		return TC_ACT_UNSPEC;
	if (!f || !(f->flags & FLOW_KNOWN))
		return TC_ACT_UNSPEC;
	f->last_ns = now;
	measure_data(f, &s, now);
	return TC_ACT_UNSPEC;
}

/*
 * The kernel's monotonic clock, which a process in a time namespace cannot read: user space runs
 * this program directly.
 */
u64 clock_ns = 0;

SEC("tc")
int read_clock(struct __sk_buff *skb)
{
	clock_ns = bpf_ktime_get_ns();
	return 0;
}
