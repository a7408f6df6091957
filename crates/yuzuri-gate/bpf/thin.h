/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * Drops ACKs on the way down (RFC 3449, 5.2): on a radio without aggregation each takes almost as
 * much airtime as a full segment. Only ACKs that a later one makes redundant, and only while that
 * one must come: segments passed up that it will acknowledge.
 */
#ifndef YUZURI_GATE_THIN_H
#define YUZURI_GATE_THIN_H

#include "window.h"

/* The longest time without an ACK for the station, which paces and measures by ACKs. */
#define THIN_GAP_NS 10000000ULL
/* How long after a sign of a loss every ACK counts: senders recover by them, and losses come
 * again. */
#define LOSS_NS 10000000000ULL

/* Signs of a loss in a segment down, before whose time the highest ACK was `before`. */
static __always_inline void note_loss(struct flow *f, struct segment *s, u32 before, u64 now)
{
	bool is_duplicate = !s->payload && s->ack == before &&
			    f->offered == (u32)s->window << (f->scale & 15) && (f->flags & FLOW_DATA) &&
			    after(f->up_end, s->ack);

	/* SACK, and unknown options. */
	if (is_duplicate || s->has_more || (s->flags & TCP_ECE))
		f->loss_ns = now;
}

/* Whether the station does not need an ACK, before whose time the highest was `before`. */
static __always_inline bool is_needless(struct flow *f, struct segment *s, struct bound *b, u32 before, u64 now)
{
	u32 thin = b->thin, step = s->ack - f->ack_down;
	u32 offered = (u32)s->window << (f->scale & 15);

	if (!thin || thin > MAX_BOUND || !s->is_plain || !s->window || !f->advertised)
		return false;
	/* A duplicate, or older than the last ACK that went down; or it acknowledges too much to be
	 * dropped. */
	if (!after(s->ack, before) || (s32)step <= 0 || step >= thin)
		return false;
	/* The last one for now: only segments known to be in flight behind it cause another. */
	if (!(f->flags & FLOW_DATA) || (s32)(f->up_end - s->ack) < (s32)(thin / 2))
		return false;
	/* It opens the window. */
	if (offered > f->offered && offered - f->offered >= thin)
		return false;
	return now - f->ack_ns < THIN_GAP_NS && (!f->loss_ns || now - f->loss_ns > LOSS_NS);
}

#endif
