/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * The monitor: typed tracepoints of TCP, each of which writes a record of the connection's
 * variables into its CPU's ring buffer. docs/monitor.md explains what each hook can and cannot see.
 */
#include "kernel.h"
#include <bpf/bpf_tracing.h>
#include "monitor/fast_path.h"
#include "monitor/record.h"
#include "monitor/segment.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* The build derives user space's enumerators from these. */
const volatile enum record_kind record_kinds = RECORD_ACK;
const volatile enum hook hooks = HOOK_ACK;
const volatile enum mark marks = MARK_DUP_ACK;
const volatile enum role roles = ROLE_UNKNOWN;

/* Writes the record of a usual segment, or merges it into a later one. False: the segment needs the
 * slow path. */
static __noinline bool sample_on_fast_path(struct sock *sk, struct tcp_sock *tp, u64 words,
					   struct fast_path *fast_path)
{
	u32 cpu = bpf_get_smp_processor_id(), acks = fast_path->acks + 1, seq, tick = bpf_jiffies64();
	struct ring_control *ring = ring_control(cpu);
	struct event_record current, *record;
	u64 now, wstamp_ns;

	if (tp->inet_conn.icsk_ca_ops != fast_path->ca_ops || tp->snd_ssthresh != fast_path->ssthresh)
		return false;
	/* Reading the clock waits for all earlier loads (rdtsc after lfence on x86), and so does
	 * the ring buffer's atomic add. Loading everything before it, including the fast path, lets
	 * the cache misses overlap. */
	write_variables(&current, sk, tp);
	current.ca_state = current.ca_before = BPF_CORE_READ_BITFIELD(&tp->inet_conn, icsk_ca_state);
	current.marks = state_marks(sk, tp, &current);
	wstamp_ns = tp->tcp_wstamp_ns;
	now = bpf_ktime_get_ns();
	if (fast_path->tick != tick) {
		fast_path->tick = tick;
		fast_path->data = 0;
	}
	if (config.interval_ns) {
		if (now < fast_path->due_ns || defers_data_sample(tp, words, fast_path, now)) {
			merge(fast_path, ring);
			return true;
		}
		fast_path->defers = deferred(acks);
	}
	ring->hooks[HOOK_ACK].selected++;
	fast_path->acks = acks;
	record = reserve(ring, cpu, HOOK_ACK, &seq);
	if (!record)
		return true;
	current.mono_ns = now;
	current.pacing_wait_us = pacing_wait_us(wstamp_ns, now);
	current.cookie = fast_path->cookie;
	current.stack = NO_STACK;
	current.kind = RECORD_ACK;
	current.acks = acks < 0xffff ? acks : 0xffff;
	current.dup_acks = 0;
	current.sacks = 0;
	current.dsacks = 0;
	__builtin_memcpy(record, &current, __builtin_offsetof(struct event_record, seq));
	publish(&record->seq, seq);

	fast_path->acks = 0;
	fast_path->last_ns = now;
	fast_path->due_ns = now + fast_path_interval_ns();
	return true;
}

/* Compares all variables with the flow's last record. */
static __noinline void slow_path(struct sock *sk, struct sk_buff *skb)
{
	u32 cpu = bpf_get_smp_processor_id(), seq;
	struct flow *flow = selected_flow(sk, cpu, HOOK_ACK);
	struct tcp_sock *tp = tcp_of(sk);
	struct event_record *record;
	struct ring_control *ring;
	u8 kind = RECORD_ACK, ca_state, ca_before;
	u16 marks, pending, acks;
	u64 now, interval_ns;
	u32 segment_class;

	if (!flow)
		return;
	ring = ring_control(cpu);
	if (!tp)
		return;
	ring->hooks[HOOK_ACK].selected++;
	segment_class = classify_segment(tp, skb, flow);
	interval_ns = config.interval_ns;
	if (interval_ns && segment_class & DATA_ONLY)
		interval_ns = data_interval_ns();
	ca_state = BPF_CORE_READ_BITFIELD(&tp->inet_conn, icsk_ca_state);
	ca_before = flow->last_ns ? flow->ca_state : ca_state;
	if (!state_hook && ca_state != ca_before)
		kind = RECORD_STATE;
	marks = changes(tp, flow, ca_state) | (u16)flow->pending << 8;
	if (unlikely(flow->undoable && !(segment_class & USUAL)))
		flow->restored = tp->prior_cwnd > tp->snd_cwnd ? tp->prior_cwnd : 0;
	acks = flow->acks;
	now = bpf_ktime_get_ns();
	if (likely(!marks && kind == RECORD_ACK) && now - flow->last_ns < interval_ns) {
		ring->hooks[HOOK_ACK].thinned++;
	} else {
		/* This record carries one of EVENT_MARKS as its kind; the next records carry the
		 * others. */
		pending = marks & EVENT_MARKS;
		if (kind == RECORD_ACK)
			pending &= pending - 1;
		flow->pending = pending >> 8;
		flow->marks |= marks & ~pending;
		if (unlikely(!flow->announced))
			announce(sk, flow, cpu);
		record = reserve(ring, cpu, HOOK_ACK, &seq);
		if (record)
			write_record(record, sk, tp, flow, now, kind, ca_state,
				     kind == RECORD_ACK ? ca_state : ca_before, NO_STACK, seq);
	}
	if (segment_class & USUAL)
		fill_fast_path(sk, tp, flow, acks);
}

/* The same for a segment that may be unusual, when jiffies have ticked. */
static __noinline bool sample_at_tick(struct sock *sk, struct sk_buff *skb, struct fast_path *fast_path)
{
	struct tcp_sock *tp;
	u64 words;

	return read_header(sk, skb, &tp, &words) && is_usual(tp, skb, words, fast_path) &&
	       sample_on_fast_path(sk, tp, words, fast_path);
}

/* False: the segment needs the slow path. */
static __always_inline bool on_fast_path(struct sock *sk, struct sk_buff *skb)
{
	u32 generation = *(volatile u32 *)&config.generation;
	struct fast_path *fast_path = fast_path_of(sk);
	struct tcp_sock *tp;
	u64 words;

	if (unlikely(fast_path->sk != sk))
		return false;
	if (unlikely(fast_path->generation != generation))
		return fast_path->generation == unselected_generation(generation);
	if (unlikely((u32)bpf_jiffies64() != fast_path->tick))
		return sample_at_tick(sk, skb, fast_path);
	if (!read_header(sk, skb, &tp, &words) || !is_usual(tp, skb, words, fast_path))
		return false;
	if (defers_sample(tp, words, fast_path)) {
		merge(fast_path, ring_control(bpf_get_smp_processor_id()));
		return true;
	}
	return sample_on_fast_path(sk, tp, words, fast_path);
}

SEC("tp_btf/tcp_probe")
int BPF_PROG(on_ack, struct sock *sk, struct sk_buff *skb)
{
	if (!on_fast_path(sk, skb))
		slow_path(sk, skb);
	return 0;
}

SEC("tp_btf/tcp_cong_state_set")
int BPF_PROG(on_state, struct sock *sk, u8 ca_state)
{
	struct tcp_sock *tp = tcp_of(sk);

	/* Open is sometimes set in Open; Loss is set again by each further timeout. */
	if (tp &&
	    (ca_state == TCP_CA_Loss || BPF_CORE_READ_BITFIELD(&tp->inet_conn, icsk_ca_state) != ca_state))
		emit(ctx, sk, RECORD_STATE, ca_state);
	return 0;
}

SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(on_retransmit, struct sock *sk, struct sk_buff *skb)
{
	emit(ctx, sk, RECORD_RETRANSMIT, 0);
	return 0;
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(on_socket, struct sock *sk, int before, int after)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct flow *flow;

	if (!bpf_skc_to_tcp_sock(sk))
		return 0;
	if (after == TCP_SYN_SENT || (before == TCP_ESTABLISHED && after == TCP_FIN_WAIT1)) {
		/* connect() and close(): the current process is the owner. All other changes are
		 * caused by packets. */
		flow = bpf_sk_storage_get(&flows, sk, 0, 0);
		if (!flow)
			flow = new_flow(sk, cpu, HOOK_SOCKET);
		if (!flow)
			return 0;
		if (after == TCP_SYN_SENT)
			flow->role = ROLE_OPENED;
		if (!flow->pid) {
			flow->pid = bpf_get_current_pid_tgid() >> 32;
			/* The process' name, as in /proc/PID/comm: a thread may have a name of its
			 * own. */
			struct task_struct *task = (void *)bpf_get_current_task();
			BPF_CORE_READ_STR_INTO(&flow->name, task, group_leader, comm);
			flow->announced = false;
		}
		return 0;
	}
	if (after == TCP_ESTABLISHED && (before == TCP_SYN_SENT || before == TCP_SYN_RECV)) {
		flow = bpf_sk_storage_get(&flows, sk, 0, 0);
		if (!flow)
			flow = new_flow(sk, cpu, HOOK_SOCKET);
		if (!flow)
			return 0;
		if (before == TCP_SYN_RECV && !flow->role)
			flow->role = ROLE_ACCEPTED;
		emit(ctx, sk, RECORD_OPEN, 0);
	} else if (after == TCP_CLOSE && before != TCP_SYN_SENT && before != TCP_CLOSE) {
		/* Neither a listener nor a connection that nobody accepted is a flow. A connection
		 * without state is: sock_diag may have reported it, and nothing else reports its
		 * end. */
		if ((before != TCP_LISTEN && before != TCP_SYN_RECV) || bpf_sk_storage_get(&flows, sk, 0, 0))
			emit(ctx, sk, RECORD_CLOSE, sk->sk_err);
	}
	return 0;
}
