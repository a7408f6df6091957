/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * Drops ACKs towards the station (RFC 3449, 5.2): on a radio without aggregation each takes almost
 * as much airtime as a full segment. Drops only ACKs that a later one makes redundant, and only
 * while that later ACK is certain: segments that it will acknowledge have passed.
 */
#ifndef YUZURI_GATE_THIN_H
#define YUZURI_GATE_THIN_H

#include "window.h"

/* The longest time without an ACK for the station, whose pacing and RTT samples depend on ACKs. */
#define THIN_GAP_NS 10000000ULL

/* Notes signs of a loss in a segment towards the station; `before`: the highest previous ACK.
 * Recovery needs every ACK until everything sent before is acknowledged (RFC 6675). */
static __always_inline void note_loss(struct flow *f, struct segment *s, u32 before)
{
	bool is_duplicate = !s->payload && s->ack == before &&
			    f->offered == (u32)s->window << (f->scale & 15) && (f->flags & FLOW_DATA) &&
			    after(f->up_end, s->ack);

	if (f->recover && after(s->ack, (u32)f->recover))
		f->recover = 0;
	/* SACK, and unknown options. */
	if (is_duplicate || s->has_more || (s->flags & TCP_ECE))
		f->recover = RECOVERS | (f->flags & FLOW_DATA ? f->up_end : s->ack);
}

/* Whether the station does not need an ACK; `before`: the highest previous one. */
static __always_inline bool is_needless(struct flow *f, struct segment *s, struct bound *b, u32 before, u64 now)
{
	u32 thin = b->thin, step = s->ack - f->ack_down;
	u32 offered = (u32)s->window << (f->scale & 15);

	if (!thin || thin > MAX_BOUND || !s->is_plain || !s->window || !f->advertised)
		return false;
	/* A duplicate, older than the last ACK sent to the station, or an ACK of too much to be
	 * dropped. */
	if (!after(s->ack, before) || (s32)step <= 0 || step >= thin)
		return false;
	/* Possibly the last one for now: only segments known to be in flight cause another. */
	if (!(f->flags & FLOW_DATA) || (s32)(f->up_end - s->ack) < (s32)(thin / 2))
		return false;
	/* It opens the window. */
	if (offered > f->offered && offered - f->offered >= thin)
		return false;
	return !f->recover && now - f->ack_ns < THIN_GAP_NS;
}

#endif
