/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * The window clamp: how far a window is lowered. The station may send up to the highest right edge
 * that it was ever advertised, so that edge is kept and never moved left (RFC 9293, 3.8.6): a bound
 * takes effect once the data advertised beyond it is acknowledged. crates/yuzuri-gate/src/model.rs
 * is the same in Rust; a test compares the two.
 */
#ifndef YUZURI_GATE_WINDOW_H
#define YUZURI_GATE_WINDOW_H

#include "maps.h"
#include "packet.h"

#define after(a, b) ((s32)((a) - (b)) > 0)
#define after_or_at(a, b) ((s32)((a) - (b)) >= 0)

#define MAX_BOUND (1U << 30) /* no window is larger (RFC 7323, 2.3) */
/* A right edge that lies further ahead of an ACK than any window reaches, reordering included, was
 * advertised in a part of the connection whose end we did not see. */
#define MAX_AHEAD (3U << 29)
/* In larger units, a window that is rounded up would never shrink: no ACK acknowledges a whole
 * unit. */
#define MAX_ROUND_UP 1024
#define TRIES 8

/* The bound of a connection; NULL: none. */
static __always_inline struct bound *bound_of(struct flow_key *key, u64 now)
{
	struct bound *b = bpf_map_lookup_elem(&bounds, key);
	u32 zero = 0;

	if (!b || b->until_ns <= now)
		b = bpf_map_lookup_elem(&station_bounds, &key->station);
	if (!b || b->until_ns <= now)
		b = bpf_map_lookup_elem(&default_bound, &zero);
	return b && b->until_ns > now ? b : NULL;
}

static __always_inline u32 bytes_of(struct bound *b)
{
	u32 bytes = b ? b->bytes : 0;

	return bytes > MAX_BOUND ? MAX_BOUND : bytes;
}

/* The window field that replaces `window` in a segment that acknowledges up to `ack`. */
static __always_inline u16 window_for(struct flow *f, u32 ack, u16 window, u32 bound)
{
	u8 scale = f->scale & 15;
	u32 unit = 1U << scale;

	for (int i = 0; i < TRIES; i++) {
		u64 old = *(volatile u64 *)&f->right_edge, new;
		/* Bytes advertised beyond the ACK. An ACK beyond the right edge leaves none. */
		s32 ahead = (u32)old - ack;
		u32 offered = (u32)window << scale, promised = ahead > 0 ? ahead : 0, want, lower, right;
		u16 field = window;

		if (!(old & EDGE_KNOWN) || promised > MAX_AHEAD) {
			new = EDGE_KNOWN | (u32)(ack + offered);
		} else {
			want = bound > promised ? bound : promised;
			if (bound && window && offered > want) {
				/* Rounded up, or the edge would move left. In large units rounded
				 * down, by less than one: receivers do that, and senders bear it
				 * (RFC 7323, 2.4). */
				lower = (want + unit - 1) >> scale;
				if (unit > MAX_ROUND_UP && lower > 1 && want & (unit - 1))
					lower--;
				if (lower && lower < window)
					field = lower;
			}
			right = (u32)field << scale;
			new = right > promised || ahead < 0 ? EDGE_KNOWN | (u32)(ack + right) : old;
		}
		if (new == old || __sync_val_compare_and_swap(&f->right_edge, old, new) == old)
			return field;
	}
	/* Other CPUs changed it each time: the next ACK starts over. */
	*(volatile u64 *)&f->right_edge = 0;
	return window;
}

#endif
