/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * Leaves out ACKs on the way down (RFC 3449, 5.2): on a radio without aggregation each costs the air almost
 * what a full segment does. Only such that a later one says as well, and only while that one must come:
 * segments passed up that it will acknowledge.
 */
#ifndef YUZURI_GATE_THIN_H
#define YUZURI_GATE_THIN_H

#include "window.h"

/* The station hears of its segments at least so often: it paces and measures by ACKs. */
#define THIN_GAP_NS 10000000ULL
/* How long after a sign of a loss every ACK counts: senders recover by them, and losses come again. */
#define LOSS_NS 10000000000ULL

/* Signs of a loss in a segment down, before whose time the highest ACK was `before`. */
static __always_inline void note_loss(struct flow *f, struct segment *s, u32 before, u64 now)
{
	bool is_duplicate = !s->payload && s->ack == before &&
			    f->offered == (u32)s->window << (f->scale & 15) && (f->flags & FLOW_DATA) &&
			    after(f->up_end, s->ack);

	/* SACK, and what we do not know. */
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
	/* A duplicate, or older than what went down; or it says too much to be left out. */
	if (!after(s->ack, before) || (s32)step <= 0 || step >= thin)
		return false;
	/* The last one for now: only what is known to be under way behind it brings another. */
	if (!(f->flags & FLOW_DATA) || (s32)(f->up_end - s->ack) < (s32)(thin / 2))
		return false;
	/* It opens the window. */
	if (offered > f->offered && offered - f->offered >= thin)
		return false;
	return now - f->ack_ns < THIN_GAP_NS && (!f->loss_ns || now - f->loss_ns > LOSS_NS);
}

#endif
