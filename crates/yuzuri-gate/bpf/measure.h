/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * Measures a connection from the middle: bytes, repetitions, and the round-trip time in two halves,
 * one measurement at a time in each. Counters may miss a packet if two CPUs handle one connection.
 */
#ifndef YUZURI_GATE_MEASURE_H
#define YUZURI_GATE_MEASURE_H

#include "window.h"

static __always_inline u32 since_us(u64 now, u64 then)
{
	return (now - then) / 1000 + 1;
}

static __always_inline void wire_sample(struct flow *f, u64 now)
{
	u32 us = since_us(now, f->wire_sent_ns);

	f->wire_sent_ns = 0;
	f->arrived_other = f->wire_other;
	f->arrived_ns = now;
	f->wire_samples++;
	f->wire_sum_us += us;
	if (!f->wire_min_us || us < f->wire_min_us)
		f->wire_min_us = us;
}

static __always_inline void air_sample(struct flow *f, u64 now)
{
	u32 us = since_us(now, f->air_sent_ns);

	f->air_sent_ns = 0;
	f->air_samples++;
	f->air_sum_us += us;
	if (!f->air_min_us || us < f->air_min_us)
		f->air_min_us = us;
}

/* Counts how long bytes that the server acknowledged wait for an ACK that goes to the station; all
 * ACKs that could have gone since the last one were dropped. */
static __always_inline void measure_wait(struct flow *f, u64 now)
{
	u32 waiting = f->ack - f->ack_down;

	if ((s32)waiting > 0)
		f->waited_byte_us += waiting * ((now - f->counted_ns) / 1000);
	f->counted_ns = now;
}

/* Call this before the window of a segment towards the station is evaluated. */
static __always_inline void measure_ack(struct flow *f, struct segment *s, u64 now)
{
	if (after(s->ack, f->ack)) {
		/* An acknowledgement of more than the station sent, or of a FIN, does not count. */
		if ((f->flags & FLOW_DATA) && !after(s->ack, f->up_end + 1))
			f->acked_bytes += s->ack - f->ack;
		f->ack = s->ack;
	}
	if ((f->flags & FLOW_DATA) && !after(f->up_end, f->ack) && !f->quiet_ns)
		f->quiet_ns = now;
	if (f->wire_sent_ns && after_or_at(s->ack, f->wire_end))
		wire_sample(f, now);
}

/* Measures a segment towards the station. */
static __always_inline void measure_stamp(struct flow *f, struct segment *s, u64 now)
{
	if (s->has_stamps) {
		/* Time the first segment with a timestamp, and only while the station has data in
		 * flight: otherwise its silence would be measured. */
		if (s->stamp != f->stamp && !f->air_sent_ns && (f->flags & FLOW_DATA) &&
		    after(f->up_end, f->ack)) {
			f->air_mark = s->stamp;
			f->air_sent_ns = now;
		}
		f->stamp = s->stamp;
		f->flags |= FLOW_STAMPS;
	}
}

/* Call this after the window is evaluated. `before`: the right edge that the station knew before. A
 * station without timestamps that fills its window answers an edge that moves with a segment beyond
 * the old one. */
static __always_inline void measure_edge(struct flow *f, u64 before, u64 now)
{
	u32 edge = before;

	if ((f->flags & FLOW_STAMPS) || f->air_sent_ns || !(f->flags & FLOW_DATA) || !(before & EDGE_KNOWN))
		return;
	if (after((u32)f->right_edge, edge) && after(f->up_end, f->ack)) {
		f->air_mark = edge;
		f->air_sent_ns = now;
	}
}

/* Measures how much of its window the station leaves unused, or by how much it exceeds it. A
 * station limited by its window leaves hardly more than the ACKs in transit to it will open. */
static __always_inline void measure_room(struct flow *f, u32 end, u32 payload, u64 now)
{
	u32 period = now >> PERIOD_SHIFT, room = ROOM_UNKNOWN;

	if (f->right_edge & EDGE_KNOWN) {
		room = (u32)f->right_edge - end;
		if ((s32)room < 0) {
			/* The edge of a connection that is never modified is not tracked. */
			if (!(f->flags & FLOW_NEVER_MODIFIED))
				f->beyond_edge += -room < payload ? -room : payload;
			room = 0;
		}
	}
	if (period != f->room_period) {
		f->room_before = period == f->room_period + 1 ? f->room : ROOM_UNKNOWN;
		f->room_period = period;
		f->room = room;
	} else if (room < f->room) {
		f->room = room;
	}
}

/* Measures a segment from the station. */
static __always_inline void measure_data(struct flow *f, struct segment *s, u64 now)
{
	u32 end = s->seq + s->payload;

	if (!s->payload)
		return;
	f->up_bytes += s->payload;
	f->up_segments++;
	if ((f->flags & FLOW_DATA) && !after(end, f->up_end)) {
		/* It is unknown which copy was answered (RFC 6298, section 3). */
		f->repeated_segments++;
		f->recover = RECOVERS | f->up_end;
		/* The station waited for ACKs that it did not get (a timeout), not for its
		 * application. */
		f->quiet_ns = 0;
		f->wire_sent_ns = 0;
		if (!(f->flags & FLOW_STAMPS))
			f->air_sent_ns = 0;
		return;
	}
	if (f->air_sent_ns) {
		if (f->flags & FLOW_STAMPS) {
			if (s->has_stamps && after_or_at(s->echo, f->air_mark))
				air_sample(f, now);
		} else if (after(end, f->air_mark)) {
			air_sample(f, now);
		}
	}
	if (f->quiet_ns) {
		f->quiet_sum_ns += now - f->quiet_ns;
		f->quiets++;
		f->quiet_ns = 0;
	}
	measure_room(f, end, s->payload, now);
	f->up_end = end;
	f->flags |= FLOW_DATA;
	if (!f->wire_sent_ns) {
		f->wire_end = end;
		f->wire_sent_ns = now;
		f->wire_other = *(volatile u64 *)&other_passed;
	}
}

#endif
