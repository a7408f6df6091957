/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * Records: a connection's variables, their changes, and the hook's own information.
 */
#ifndef YUZURI_MONITOR_RECORD_H
#define YUZURI_MONITOR_RECORD_H

#include "../bound_report.h"
#include "flow.h"

struct {
	__uint(type, BPF_MAP_TYPE_STACK_TRACE);
	__uint(max_entries, 2048);
	__uint(key_size, sizeof(u32));
	__uint(value_size, 12 * sizeof(u64));
} stacks SEC(".maps");

/* The call stack: its key in `stacks`. Its hash selects its place there; if another stack has that
 * place, the kernel refuses it permanently. Then it is tried again with one more of the innermost
 * frames left out, which changes the hash: they are our own program's (this function, emit() and
 * the hook). */
static __noinline u32 stack_of(void *ctx, u32 cpu)
{
	long id = bpf_get_stackid(ctx, &stacks, 1);

	if (id == -EEXIST)
		id = bpf_get_stackid(ctx, &stacks, 2);
	if (id == -EEXIST)
		id = bpf_get_stackid(ctx, &stacks, 3);
	if (id >= 0)
		return id;
	__sync_fetch_and_add(&ring_control(cpu)->lost_stack, 1);
	return NO_STACK;
}

/* The connection's variables, grouped by cache line. */
static __always_inline void write_variables(struct event_record *record, struct sock *sk, struct tcp_sock *tp)
{
	record->bytes_acked = tp->bytes_acked;
	record->bytes_received = tp->bytes_received;
	record->pacing_rate = sk->sk_pacing_rate;
	record->total_retrans = tp->total_retrans;
	record->snd_cwnd = tp->snd_cwnd;
	record->mdev_us = tp->mdev_us;
	record->srtt_us = tp->srtt_us;
	record->snd_ssthresh = tp->snd_ssthresh;
	record->min_rtt_us = tp->rtt_min.s[0].v;
	record->packets_out = tp->packets_out;
	record->sacked_out = tp->sacked_out;
	record->lost_out = tp->lost_out;
	record->retrans_out = tp->retrans_out;
	record->snd_wnd = tp->snd_wnd;
	record->rcv_wnd = tp->rcv_wnd;
	record->wmem_queued = sk->sk_wmem_queued;
	record->notsent = tp->write_seq - tp->snd_nxt;
	record->rate_delivered = tp->rate_delivered;
	record->rate_interval_us = tp->rate_interval_us;
	record->sndbuf = sk->sk_sndbuf;
	record->wmem_alloc = sk->sk_wmem_alloc.refs.counter;
	record->outstanding = tp->snd_nxt - tp->snd_una;
	record->max_window = tp->max_window;
	record->prior_cwnd = tp->prior_cwnd;
	record->mss = tp->mss_cache;
	record->reordering = tp->reordering;
}

/* For how long pacing still delays the next segment. Without pacing, the time is that of the last
 * segment. */
static __always_inline u32 pacing_wait_us(u64 next_ns, u64 now)
{
	u64 wait_ns = next_ns - now;

	return next_ns <= now ? 0 : wait_ns >> 32 ? 0xfffffffe : (u32)wait_ns / 1000;
}

/* Marks from the connection's bits. */
static __always_inline u16 state_marks(struct sock *sk, struct tcp_sock *tp, const struct event_record *record)
{
	/* In the cache line of max_window, which the record needs, too. */
	u64 report = tp->inet_conn.icsk_ca_priv[BOUND_REPORT];
	u16 marks = 0;

	if ((report & ~0xffull) == BOUND_REPORT_BY_CONTROL)
		marks |=
		    report & BOUND_REPORT_AT_BOUND ? MARK_REPORTS_BOUND | MARK_AT_BOUND : MARK_REPORTS_BOUND;
	if (BPF_CORE_READ_BITFIELD(tp, rate_app_limited))
		marks |= MARK_APP_LIMITED;
	if (BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited))
		marks |= MARK_CWND_LIMITED;
	if (sk->sk_tsq_flags & (1 << TSQ_THROTTLED | 1 << TSQ_QUEUED))
		marks |= MARK_THROTTLED;
	/* Two more cache lines, one found through the other, whose latency no other load can hide:
	 * they are read only if the flag can be set. A writer that waits for room sets it, and at
	 * the end of every ACK the kernel clears it once a third of the buffer is free
	 * (sk_stream_write_space), so a flow of small messages never has it. */
	if (!record->notsent && record->outstanding && record->wmem_queued > record->sndbuf >> 1) {
		struct socket *socket = ((struct sock *)tp)->sk_socket;
		if (socket && socket->flags & 1 << SOCK_NOSPACE)
			marks |= MARK_NO_SPACE;
	}
	return marks;
}

static __always_inline void write_record(struct event_record *record, struct sock *sk, struct tcp_sock *tp,
					 struct flow *flow, u64 now, u8 kind, u8 ca_state, u8 ca_before,
					 u32 stack, u32 seq)
{
	write_variables(record, sk, tp);
	record->mono_ns = now;
	record->cookie = flow->cookie;
	record->stack = stack;
	record->kind = kind;
	record->ca_state = ca_state;
	record->ca_before = ca_before;
	record->marks = flow->marks | state_marks(sk, tp, record);
	record->pacing_wait_us = pacing_wait_us(tp->tcp_wstamp_ns, now);
	record->acks = flow->acks;
	record->dup_acks = flow->dup_acks;
	record->sacks = flow->sacks;
	record->dsacks = flow->dsacks;
	publish(&record->seq, seq);

	flow->last_ns = now;
	flow->marks = 0;
	flow->acks = 0;
	flow->dup_acks = 0;
	flow->sacks = 0;
	flow->dsacks = 0;
}

/* Differences from the last record that are worth a record of their own, even between two
 * samples. */
static __always_inline u16 changes(struct tcp_sock *tp, struct flow *flow, u8 ca_before)
{
	const void *ca_ops = tp->inet_conn.icsk_ca_ops;
	u32 ssthresh = tp->snd_ssthresh, reord_seen = tp->reord_seen;
	u16 marks = 0;

	if (unlikely(ssthresh != flow->ssthresh)) {
		/* The first record of a flow is not a change. */
		if (flow->ssthresh)
			marks |= MARK_SSTHRESH;
		flow->ssthresh = ssthresh;
	}
	/*
	 * Set at the beginning of Recovery or Loss, reset by tcp_undo_cwnd_reduction: in the state
	 * that it undoes, or by a DSACK long after. Unlike ssthresh, it also works for algorithms
	 * without ssthresh, such as BBR.
	 */
	if (unlikely(flow->undoable)) {
		if (!tp->undo_marker) {
			flow->undoable = false;
			marks |= MARK_UNDO;
		}
	} else if (unlikely(ca_before >= TCP_CA_Recovery)) {
		flow->undoable = tp->undo_marker != 0;
	}
	if (unlikely(reord_seen != flow->reord_seen)) {
		if (flow->last_ns)
			marks |= MARK_REORDERING;
		flow->reord_seen = reord_seen;
	}
	if (unlikely(ca_ops != flow->ca_ops)) {
		if (flow->ca_ops) {
			marks |= MARK_CONTROL;
			flow->announced = false;
		}
		flow->ca_ops = ca_ops;
	}
	flow->ca_state = ca_before;
	return marks;
}

/* A record for one of the pending marks that the hook's own record cannot carry. Not a loop over
 * all of them: the verifier would follow each path through it, and loading would take three times
 * as long. */
static __noinline void emit_mark(struct sock *sk, struct flow *flow, u32 hook, u32 stack)
{
	u32 cpu = bpf_get_smp_processor_id(), seq;
	struct tcp_sock *tp = tcp_of(sk);
	struct ring_control *ring = ring_control(cpu);
	struct event_record *record;
	u8 pending = flow->pending, ca_state;

	if (!tp)
		return;
	ring->hooks[hook].selected++;
	record = reserve(ring, cpu, hook, &seq);
	flow->pending = pending & (pending - 1);
	if (!record)
		return;
	flow->marks |= (u16)(pending ^ flow->pending) << 8;
	ca_state = BPF_CORE_READ_BITFIELD(&tp->inet_conn, icsk_ca_state);
	write_record(record, sk, tp, flow, bpf_ktime_get_ns(), RECORD_MARK, ca_state, ca_state, stack, seq);
}

/* A record of anything but an ACK. `detail` is the new state for RECORD_STATE, the error for
 * RECORD_CLOSE. */
static __noinline void emit(void *ctx, struct sock *sk, u8 kind, u32 detail)
{
	u32 hook = HOOK_SOCKET;
	u32 cpu = bpf_get_smp_processor_id(), stack = detail, seq;
	struct tcp_sock *tp = tcp_of(sk);
	struct event_record *record;
	struct ring_control *ring;
	struct flow *flow;
	u8 ca_before, ca_state;
	u16 marks, event_marks, own_marks;

	if (!tp)
		return;
	if (kind == RECORD_STATE || kind == RECORD_RETRANSMIT)
		hook = kind == RECORD_STATE ? HOOK_STATE : HOOK_RETRANSMIT;
	flow = selected_flow(sk, cpu, hook);
	ring = ring_control(cpu);
	if (!flow)
		return;
	ring->hooks[hook].selected++;
	ca_before = BPF_CORE_READ_BITFIELD(&tp->inet_conn, icsk_ca_state);
	/* tcp_enter_cwr and tcp_simple_retransmit clear the marker without undoing anything. */
	if (kind == RECORD_STATE && detail >= TCP_CA_CWR && !tp->undo_marker)
		flow->undoable = false;
	marks = changes(tp, flow, ca_before);
	/*
	 * A DSACK may undo one reduction in the very segment that begins the next, which sets the
	 * marker again. But the next one starts from the restored window.
	 */
	if (kind == RECORD_STATE && detail == TCP_CA_Recovery && ca_before <= TCP_CA_Disorder &&
	    flow->undoable && flow->restored && tp->prior_cwnd >= flow->restored)
		marks |= MARK_UNDO;
	event_marks = EVENT_MARKS;
	/* The reason of a return to Open or Disorder shows that it is an undo. */
	if (kind == RECORD_STATE && detail <= TCP_CA_Disorder)
		event_marks &= ~MARK_UNDO;
	flow->pending |= (marks & event_marks) >> 8;
	own_marks = marks & ~event_marks;
	if (unlikely(!flow->announced))
		announce(sk, flow, cpu);
	ca_state = ca_before;
	if (kind == RECORD_STATE) {
		ca_state = flow->ca_state = detail;
		flow->undoable = tp->undo_marker != 0;
		flow->after_rto = ca_state == TCP_CA_Loss;
		if (ca_state == TCP_CA_Loss && BPF_CORE_READ_BITFIELD(tp, is_sack_reneg))
			own_marks |= MARK_RENEGING;
	} else if (kind == RECORD_RETRANSMIT) {
		if (flow->after_rto)
			own_marks |= MARK_AFTER_RTO;
		flow->after_rto = false;
	} else if (kind == RECORD_OPEN) {
		ca_state = flow->role;
	}
	if (kind == RECORD_STATE || kind == RECORD_RETRANSMIT) {
		/* The stack determines the record's place in the kernel and its reason. */
		stack = stack_of(ctx, cpu);
	}
	if (unlikely(flow->pending) && kind != RECORD_RETRANSMIT)
		emit_mark(sk, flow, hook, kind == RECORD_CLOSE || kind == RECORD_OPEN ? NO_STACK : stack);
	/* After the note, which has only its own mark. */
	flow->marks |= own_marks;
	record = reserve(ring, cpu, hook, &seq);
	if (record)
		write_record(record, sk, tp, flow, bpf_ktime_get_ns(), kind, ca_state, ca_before, stack, seq);
	/* The kernel counts a retransmission before it reports it: total_retrans in a RECORD_MARK
	 * must not be ahead of the reported retransmissions. */
	if (unlikely(flow->pending) && kind == RECORD_RETRANSMIT)
		emit_mark(sk, flow, hook, stack);
}

#endif
