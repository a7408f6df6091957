/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * The scale of a connection's windows, from its SYN and SYN-ACK. A connection with an ambiguous
 * handshake is never modified.
 */
#ifndef YUZURI_GATE_HANDSHAKE_H
#define YUZURI_GATE_HANDSHAKE_H

#include "maps.h"
#include "packet.h"

static const struct flow EMPTY_FLOW;

/* A SYN without ACK: a connection begins, or the SYN is retransmitted. */
static __always_inline void on_syn(struct flow *f, struct segment *s, struct offer *offer, u8 who, u64 now)
{
	if (f && (f->flags & who) && f->iss == s->seq) {
		/* The answer does not indicate which of the two SYNs it answers. */
		if (f->opener_scale != offer->scale && !(f->flags & FLOW_KNOWN))
			f->flags |= FLOW_NEVER_MODIFIED;
		return;
	}

	/* Not built on the stack: Linux 6.1 rounds the frames of nested calls up to 32 bytes each,
	 * and allows 512 for all. Until the flags are set, the entry is that of an unknown flow. */
	if (bpf_map_update_elem(&flows, &s->key, &EMPTY_FLOW, 0))
		return;
	f = bpf_map_lookup_elem(&flows, &s->key);
	if (!f)
		return;
	f->first_ns = f->last_ns = now;
	f->iss = s->seq;
	f->syn_data = s->payload;
	f->opener_scale = offer->scale;
	f->mss = who == FLOW_SERVER_SYN ? offer->mss : 0;
	__builtin_memcpy(f->mac, s->mac, sizeof(f->mac));
	/* A middlebox may drop the server's MPTCP option, so only the answer decides about that
	 * one. */
	f->flags = offer->is_signed || offer->broken ? who | FLOW_NEVER_MODIFIED : who;
}

/* The answer to a SYN of `opener`. */
static __always_inline void on_syn_ack(struct flow *f, struct segment *s, struct offer *offer, u8 opener,
				       u64 now)
{
	if (!f || !(f->flags & opener) || s->ack - f->iss - 1 > f->syn_data)
		return;
	if (f->flags & FLOW_KNOWN) {
		if (f->syn_ack != s->seq || f->answer_scale != offer->scale)
			f->flags |= FLOW_NEVER_MODIFIED;
		return;
	}
	if (offer->is_signed || offer->broken || offer->mptcp)
		f->flags |= FLOW_NEVER_MODIFIED;
	f->syn_ack = s->seq;
	f->answer_scale = offer->scale;
	/* Windows are scaled only if both sides offered it (RFC 7323, 2.2). */
	u8 servers = opener == FLOW_STATION_SYN ? offer->scale : f->opener_scale;

	f->scale = offer->scale != NO_SCALE && f->opener_scale != NO_SCALE ? servers : 0;
	if (opener == FLOW_STATION_SYN) {
		/* The window of a SYN is never scaled. */
		f->mss = offer->mss;
		f->ack = f->ack_down = s->ack;
		f->right_edge = EDGE_KNOWN | (u32)(s->ack + s->window);
	} else {
		f->ack = f->ack_down = s->seq + 1;
	}
	f->last_ns = now;
	f->flags |= FLOW_KNOWN;
}

/* Whether a segment of `who` begins or ends a connection. */
static __always_inline bool on_handshake(struct __sk_buff *skb, struct flow *f, struct segment *s, u8 who,
					 u64 now)
{
	u8 opener = who == FLOW_STATION_SYN ? FLOW_SERVER_SYN : FLOW_STATION_SYN;
	struct offer offer = {};

	if (s->flags & TCP_RST) {
		if (f)
			f->flags |= FLOW_CLOSED;
		return true;
	}
	if (!(s->flags & TCP_SYN))
		return false;
	read_offer(skb, s, &offer);
	if (s->flags & TCP_ACK)
		on_syn_ack(f, s, &offer, opener, now);
	else
		on_syn(f, s, &offer, who, now);
	return true;
}

#endif
