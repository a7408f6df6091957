/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * The monitor: typed tracepoints of TCP, each writing a record of the connection's variables into its CPU's
 * ring. docs/monitor.md tells what each hook can and cannot see.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include "event.h"

#define NULL ((void *)0)

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* ---- maps and settings ----------------------------------------------------------------------------------- */

/* The rings: for each CPU `slots_per_cpu` slots in one array that user space maps. The kernel's own BPF ring
 * buffer costs 50 ns more per record: it is shared by all CPUs behind a lock, and each record takes two helper
 * calls. Here the place of a record is one atomic add on a line that only this CPU writes. */
const volatile u32 slots_per_cpu = 4096; /* a power of two */
/* False where the kernel has no tcp:tcp_cong_state_set (before 5.19): then the next ACK shows the change. */
const volatile bool state_hook = true;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, union record);
} slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct ring_control);
} controls SEC(".maps");

/* Records that may be on their way on one CPU at once: one program can be interrupted by another. */
#define NESTING 8

struct {
	__uint(type, BPF_MAP_TYPE_STACK_TRACE);
	__uint(max_entries, 2048);
	__uint(key_size, sizeof(u32));
	__uint(value_size, 12 * sizeof(u64));
} stacks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, u64);
	__type(value, struct owner);
} owners SEC(".maps");

/* What we remember of a flow; it goes with the socket. What each ACK touches is in the first 64 bytes. */
struct flow {
	u64 cookie;
	u64 last_ns; /* of the last record */
	const void *ca_ops;
	u32 generation; /* of the config that it was decided under; 0: none */
	u32 ssthresh;
	u32 reord_seen;
	u16 marks; /* since the last record, as the counts */
	u16 acks;
	u16 dup_acks;
	u16 sacks;
	u8 dsacks;
	u8 chosen;
	u8 undecided;
	u8 announced; /* its identity reached the ring */
	u8 detached;  /* when announced, no file stood behind the socket yet: nobody had accepted it */
	u8 ca_state;  /* at the last record */
	u8 pending;   /* of MARKS_ALONE, found and not told yet, >> 8 */
	u8 undoable;  /* undo_marker was set: a reduction stands that may be undone */
	u8 lent;      /* last_ns and acks are in its lease */
	u32 restored; /* the window that an undo by the last segment gives back; 0: none larger */
	/* 64 */
	u32 pid;
	char name[16];
	u8 role;
	u8 after_rto;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct flow);
} flows SEC(".maps");

struct config config = {.generation = 1, .interval_ns = 1000000};

/* Nearly every segment tells nothing that struct flow must know of. What such a one needs is lent to a table of
 * its own, found by the socket's address: a merged ACK takes 90 instructions instead of 210, of which the call
 * for struct flow was 45 and the looks at what seldom changes the most (x86 puts seven more around each load
 * from a tcp_sock). Only the socket that holds a lease reads and writes it, under the socket's lock; user space
 * reads `merged`. See lend(). */
struct lease {
	const struct sock *sk; /* who holds it; NULL: nobody */
	u64 due_ns;            /* from then on a sample is due for its time; see waits() */
	u32 generation;
	u32 tick;  /* jiffies when it was lent, or the clock was last read for it */
	u32 usual; /* what the bits UNUSUAL of the TCP header are */
	u32 ssthresh;
	u32 merged; /* segments that neither a record nor the account has told yet */
	u16 acks;   /* segments that the account has told, and no record yet */
	u8 header;  /* bytes of the TCP header */
	u8 data;    /* at every ACK: segments told that only brought data, at most MANY_ACKS */
	u64 cookie;
	u64 last_ns;
	const void *ca_ops;
};

_Static_assert(sizeof(struct lease) == 64, "a cache line");

#define LEASES_SHIFT 12
struct lease leases[1 << LEASES_SHIFT] __attribute__((aligned(64)));

/* From 6.2 a pointer can be declared to be of a type; before, what it points to is copied. */
extern void *bpf_rdonly_cast(const void *obj, u32 btf_id) __ksym __weak;

/* For sockets that are known to be TCP's. */
static __always_inline struct tcp_sock *tcp_of(struct sock *sk)
{
	if (&bpf_rdonly_cast != NULL)
		return bpf_rdonly_cast(sk, bpf_core_type_id_kernel(struct tcp_sock));
	return bpf_skc_to_tcp_sock(sk);
}

/* The same socket for following the pointers in it. Where the verifier trusts a pointer, as the tracepoint's,
 * it searches all the kernel's types by name at each such step, to find out whether to trust where it leads:
 * loading took half a second longer on a machine of 10^9 instructions a second. */
static __always_inline struct sock *untrusted(struct sock *sk)
{
	return (struct sock *)tcp_of(sk);
}

/* ---- the ring -------------------------------------------------------------------------------------------- */

static __always_inline struct ring_control *ring_control(u32 cpu)
{
	return bpf_map_lookup_elem(&controls, &cpu);
}

/* A slot for a record, or NULL (counted). The record becomes visible by publish(). */
static __always_inline void *reserve(struct ring_control *ring, u32 cpu, u32 hook, u32 *seq)
{
	u64 head = *(volatile u64 *)&ring->head;

	if (unlikely(head - *(volatile u64 *)&ring->tail >= slots_per_cpu - NESTING)) {
		__sync_fetch_and_add(&ring->hooks[hook].lost_ring, 1);
		return NULL;
	}
	head = __sync_fetch_and_add(&ring->head, 1);
	*seq = (u32)head + 1;
	u32 slot = cpu * slots_per_cpu + ((u32)head & (slots_per_cpu - 1));
	return bpf_map_lookup_elem(&slots, &slot);
}

static __always_inline void publish(u32 *where, u32 seq)
{
#ifdef __TARGET_ARCH_arm64
	/* An exchange is the only full barrier that every BPF instruction set has. */
	__sync_lock_test_and_set(where, seq);
#else
	/* x86 keeps stores in order; the compiler must, too. */
	asm volatile("" ::: "memory");
	*(volatile u32 *)where = seq;
#endif
}

/* ---- which flows ----------------------------------------------------------------------------------------- */

static __always_inline void addresses(struct sock *sk, u32 local[4], u32 remote[4])
{
	if (sk->__sk_common.skc_family == AF_INET6) {
		__builtin_memcpy(local, &sk->__sk_common.skc_v6_rcv_saddr, 16);
		__builtin_memcpy(remote, &sk->__sk_common.skc_v6_daddr, 16);
	} else {
		local[0] = remote[0] = local[1] = remote[1] = 0;
		local[2] = remote[2] = bpf_htonl(0xffff);
		local[3] = sk->__sk_common.skc_rcv_saddr;
		remote[3] = sk->__sk_common.skc_daddr;
	}
}

/* What the filter looks at. */
struct subject {
	u32 local[4], remote[4];
	u16 local_port, remote_port;
	u32 netns;
	u64 cgroup; /* address of the socket's struct cgroup */
	char name[16];
	u32 pid;
};

enum verdict {
	LEFT_OUT,
	CHOSEN,
	UNDECIDED, /* but for the owner it would be chosen, and nobody knows the owner */
};

static __always_inline bool in_prefix(const u32 addr[4], const struct prefix_term *term)
{
	return !(((addr[0] & term->mask[0]) ^ term->addr[0]) | ((addr[1] & term->mask[1]) ^ term->addr[1]) |
		 ((addr[2] & term->mask[2]) ^ term->addr[2]) | ((addr[3] & term->mask[3]) ^ term->addr[3]));
}

/* These four are not `static`, so that the verifier looks at each once and not at each call. */

__noinline bool address_chosen(const struct subject *subject)
{
	bool holds = !config.ports;

	if (!subject)
		return false;
	for (u32 i = 0; i < MOST_TERMS && i < config.ports; i++) {
		const struct port_term *term = &config.port[i];
		if ((term->end != 2 && term->port == subject->local_port) ||
		    (term->end != 1 && term->port == subject->remote_port)) {
			holds = true;
			break;
		}
	}
	if (!holds || !config.prefixes)
		return holds;
	for (u32 i = 0; i < MOST_TERMS && i < config.prefixes; i++) {
		const struct prefix_term *term = &config.prefix[i];
		if ((term->end != 2 && in_prefix(subject->local, term)) ||
		    (term->end != 1 && in_prefix(subject->remote, term)))
			return true;
	}
	return false;
}

__noinline bool group_wanted(u64 id)
{
	for (u32 i = 0; i < MOST_TERMS && i < config.cgroups; i++)
		if (config.cgroup[i] == id)
			return true;
	return false;
}

__noinline bool group_chosen(const struct subject *subject)
{
	struct cgroup *cgroup, *ancestor;

	if (!subject)
		return false;
	cgroup = (struct cgroup *)subject->cgroup;
	if (!cgroup)
		return false;
	if (group_wanted(BPF_CORE_READ(cgroup, kn, id)))
		return true;
	if (!bpf_core_field_exists(cgroup->ancestors))
		return false; /* before 6.1: the group itself only */
	for (int level = 0; level < 16 && level < BPF_CORE_READ(cgroup, level); level++) {
		if (bpf_probe_read_kernel(&ancestor, sizeof(ancestor), &cgroup->ancestors[level]))
			return false;
		if (group_wanted(BPF_CORE_READ(ancestor, kn, id)))
			return true;
	}
	return false;
}

__noinline bool owner_chosen(const struct subject *subject)
{
	bool holds = !config.pids;

	if (!subject)
		return false;
	for (u32 i = 0; i < MOST_TERMS && i < config.pids; i++) {
		if (config.pid[i] == subject->pid) {
			holds = true;
			break;
		}
	}
	if (!holds || !config.names)
		return holds;
	for (u32 i = 0; i < MOST_TERMS && i < config.names; i++) {
		const u64 *name = (const u64 *)subject->name, *wanted = (const u64 *)config.name[i];
		if (name[0] == wanted[0] && name[1] == wanted[1])
			return true;
	}
	return false;
}

static __always_inline enum verdict judge(const struct subject *subject)
{
	bool holds = !config.netns;

	for (u32 i = 0; i < MOST_TERMS && i < config.netns; i++) {
		if (config.ns[i] == subject->netns) {
			holds = true;
			break;
		}
	}
	if (!holds || !address_chosen(subject) || (config.cgroups && !group_chosen(subject)))
		return LEFT_OUT;
	if (!config.pids && !config.names)
		return CHOSEN;
	if (!subject->pid)
		return UNDECIDED;
	return owner_chosen(subject) ? CHOSEN : LEFT_OUT;
}

/* Decides whether the flow is chosen by the config as it stands. */
static __noinline void decide(struct sock *sk, struct flow *flow)
{
	u32 generation = *(volatile u32 *)&config.generation;
	struct subject subject = {};
	struct sock *from = untrusted(sk);
	enum verdict verdict;

	if ((config.pids || config.names) && !flow->pid) {
		struct owner *owner = bpf_map_lookup_elem(&owners, &flow->cookie);
		if (owner) {
			flow->pid = owner->pid;
			__builtin_memcpy(flow->name, owner->name, sizeof(flow->name));
		}
	}
	addresses(sk, subject.local, subject.remote);
	subject.local_port = sk->__sk_common.skc_num;
	subject.remote_port = bpf_ntohs(sk->__sk_common.skc_dport);
	subject.netns = from ? from->__sk_common.skc_net.net->ns.inum : 0;
	bpf_probe_read_kernel(&subject.cgroup, sizeof(subject.cgroup), &sk->sk_cgrp_data.cgroup);
	subject.pid = flow->pid;
	__builtin_memcpy(subject.name, flow->name, sizeof(subject.name));

	verdict = judge(&subject);
	/* User space keeps to itself what is undecided: once decided, it is told again. */
	if (flow->generation != generation || (flow->undecided && verdict != UNDECIDED))
		flow->announced = false;
	flow->chosen = verdict == CHOSEN;
	flow->undecided = verdict == UNDECIDED;
	flow->generation = generation;
}

/* Writes the flow's identity. */
static __noinline void announce(struct sock *sk, struct flow *flow, u32 cpu)
{
	struct ring_control *ring = ring_control(cpu);
	struct sock *from = untrusted(sk);
	struct flow_record *record;
	struct socket *socket;
	u64 inode = 0;
	u32 seq;

	/* Tried again at the next event where the ring has no room. */
	if (!ring || !from)
		return;
	socket = from->sk_socket;
	/* Unlike the other hooks' counters, which one program writes each, this one may be interrupted by its
	 * like. */
	__sync_fetch_and_add(&ring->hooks[HOOK_FLOW].chosen, 1);
	record = reserve(ring, cpu, HOOK_FLOW, &seq);
	if (!record)
		return;
	if (socket) {
		unsigned long ino = 0;
		bpf_probe_read_kernel(&ino, sizeof(ino),
				      (void *)socket + bpf_core_field_offset(struct socket_alloc, vfs_inode) +
					  bpf_core_field_offset(struct inode, i_ino));
		inode = ino;
	}
	record->mono_ns = bpf_ktime_get_ns();
	record->cookie = flow->cookie;
	addresses(sk, (u32 *)record->local, (u32 *)record->remote);
	record->local_port = sk->__sk_common.skc_num;
	record->remote_port = bpf_ntohs(sk->__sk_common.skc_dport);
	record->cgroup = from->sk_cgrp_data.cgroup ? from->sk_cgrp_data.cgroup->kn->id : 0;
	record->inode = inode;
	record->netns = from->__sk_common.skc_net.net->ns.inum;
	record->pid = flow->pid;
	__builtin_memcpy(record->name, flow->name, sizeof(record->name));
	__builtin_memset(record->control, 0, sizeof(record->control));
	bpf_probe_read_kernel_str(record->control, sizeof(record->control),
				  ((struct inet_connection_sock *)from)->icsk_ca_ops->name);
	record->undecided = flow->undecided;
	record->role = flow->role;
	record->kind = RECORD_FLOW;
	publish(&record->seq, seq);
	flow->announced = true;
	flow->detached = !socket;
}

/* The lease that this socket may hold. Others may have the same place: they go without. */
static __always_inline struct lease *lease_of(const struct sock *sk)
{
	struct lease *lease;
	u32 low;

	/* The verifier lets half of a pointer be a number. */
	asm volatile("%[low] = %[sk]" : [low] "=w"(low) : [sk] "w"((u32)(u64)sk));
	lease = &leases[low * 0x9e3779b1 >> (32 - LEASES_SHIFT)];
	/* Or else the compiler works the address out again at each use. */
	asm volatile("" : "+r"(lease));
	return lease;
}

static __always_inline void give_up(struct lease *lease)
{
	lease->merged = 0;
	/* An exchange: nothing that was read of the lease may be read after another took it. */
	__sync_lock_test_and_set((u64 *)&lease->sk, 0);
}

/* Brings home what was lent. Whoever looks at the flow or changes it begins with this. */
static __noinline void take_back(struct sock *sk, struct flow *flow, u32 cpu, u32 hook)
{
	struct ring_control *ring = ring_control(cpu);
	struct lease *lease = lease_of(sk);
	u32 acks;

	flow->lent = false;
	if (lease->sk != sk || !ring)
		return;
	ring->hooks[hook].chosen += lease->merged;
	ring->hooks[hook].thinned += lease->merged;
	acks = lease->acks + lease->merged;
	flow->acks = acks < 0xffff ? acks : 0xffff;
	flow->last_ns = lease->last_ns;
	give_up(lease);
}

/* Makes the state for a flow that has none yet. */
static __noinline struct flow *new_flow(struct sock *sk, u32 cpu, u32 hook)
{
	struct flow *flow = bpf_sk_storage_get(&flows, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);

	if (!flow) {
		struct ring_control *ring = ring_control(cpu);
		if (ring) {
			ring->hooks[hook].chosen++;
			ring->hooks[hook].lost_memory++;
		}
		return NULL;
	}
	flow->cookie = bpf_get_socket_cookie(sk);
	/* The kernel may skip a program, and so we may have missed the end of a former socket at this address.
	 */
	struct lease *lease = lease_of(sk);
	if (unlikely(lease->sk == sk))
		give_up(lease);
	return flow;
}

static __always_inline bool has_file(struct sock *sk)
{
	struct sock *from = untrusted(sk);

	return from && from->sk_socket;
}

/* The flow's state if it is chosen. */
static __always_inline struct flow *chosen_flow(struct sock *sk, u32 cpu, u32 hook)
{
	struct flow *flow = bpf_sk_storage_get(&flows, sk, 0, 0);

	if (unlikely(!flow)) {
		flow = new_flow(sk, cpu, hook);
		if (!flow)
			return NULL;
	}
	if (flow->lent)
		take_back(sk, flow, cpu, hook);
	if (unlikely(flow->generation != *(volatile u32 *)&config.generation || flow->undecided))
		decide(sk, flow);
	if (unlikely(!flow->announced || (flow->detached && has_file(sk))) && (flow->chosen || flow->undecided))
		announce(sk, flow, cpu);
	return flow->chosen ? flow : NULL;
}

/* ---- a record -------------------------------------------------------------------------------------------- */

/* The connection's variables. */
static __always_inline void write_variables(struct event_record *record, struct sock *sk, struct tcp_sock *tp)
{
	record->bytes_acked = tp->bytes_acked;
	record->bytes_received = tp->bytes_received;
	record->pacing_rate = sk->sk_pacing_rate;
	record->snd_cwnd = tp->snd_cwnd;
	record->snd_ssthresh = tp->snd_ssthresh;
	record->srtt_us = tp->srtt_us;
	record->mdev_us = tp->mdev_us;
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
	record->total_retrans = tp->total_retrans;
	record->mss = tp->mss_cache;
	record->reordering = tp->reordering;
}

static __always_inline u16 app_limited(struct tcp_sock *tp)
{
	return BPF_CORE_READ_BITFIELD(tp, rate_app_limited) ? MARK_APP_LIMITED : 0;
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
	record->marks = flow->marks | app_limited(tp);
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

/* What differs from the last record and is worth one of its own, also between two samples. */
static __always_inline u16 changes(struct tcp_sock *tp, struct flow *flow, u8 ca_before)
{
	const void *ca_ops = tp->inet_conn.icsk_ca_ops;
	u32 ssthresh = tp->snd_ssthresh, reord_seen = tp->reord_seen;
	u16 marks = 0;

	if (unlikely(ssthresh != flow->ssthresh)) {
		/* The first look at a flow is no change. */
		if (flow->ssthresh)
			marks |= MARK_SSTHRESH;
		flow->ssthresh = ssthresh;
	}
	/* Set where Recovery or Loss begins, taken back by tcp_undo_cwnd_reduction: in the state that it
	 * undoes, or by a DSACK long after. Unlike ssthresh it also tells of controls that keep none, as BBR.
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

/* A record of its own for one of the pending marks, where the hook's own record cannot tell it. No loop over
 * all of them: the verifier would follow each way through it, and loading would take three times as long. */
static __noinline void note(struct sock *sk, struct flow *flow, u32 hook, u32 stack)
{
	u32 cpu = bpf_get_smp_processor_id(), seq;
	struct tcp_sock *tp = tcp_of(sk);
	struct ring_control *ring = ring_control(cpu);
	struct event_record *record;
	u8 pending = flow->pending, ca_state;

	if (!tp || !ring)
		return;
	ring->hooks[hook].chosen++;
	record = reserve(ring, cpu, hook, &seq);
	flow->pending = pending & (pending - 1);
	if (!record)
		return;
	flow->marks |= (u16)(pending ^ flow->pending) << 8;
	ca_state = BPF_CORE_READ_BITFIELD(&tp->inet_conn, icsk_ca_state);
	write_record(record, sk, tp, flow, bpf_ktime_get_ns(), RECORD_NOTE, ca_state, ca_state, stack, seq);
}

/* A record of anything but an ACK. `detail` is the new state of RECORD_STATE, the error of RECORD_CLOSE. */
static __noinline void emit(void *ctx, struct sock *sk, u8 kind, u32 detail)
{
	u32 hook = HOOK_SOCKET;
	u32 cpu = bpf_get_smp_processor_id(), stack = detail, seq;
	struct tcp_sock *tp = tcp_of(sk);
	struct event_record *record;
	struct ring_control *ring;
	struct flow *flow;
	u8 ca_before, ca_state;
	u16 marks, alone;

	if (!tp)
		return;
	if (kind == RECORD_STATE || kind == RECORD_RETRANSMIT)
		hook = kind == RECORD_STATE ? HOOK_STATE : HOOK_RETRANSMIT;
	flow = chosen_flow(sk, cpu, hook);
	ring = ring_control(cpu);
	if (!flow || !ring)
		return;
	ring->hooks[hook].chosen++;
	ca_before = BPF_CORE_READ_BITFIELD(&tp->inet_conn, icsk_ca_state);
	/* tcp_enter_cwr and tcp_simple_retransmit forget the marker: nothing is undone by them. */
	if (kind == RECORD_STATE && detail >= TCP_CA_CWR && !tp->undo_marker)
		flow->undoable = false;
	marks = changes(tp, flow, ca_before);
	/* A DSACK may undo one reduction in the very segment that begins the next, which sets the marker
	 * again. But the next begins from the window that was given back.
	 */
	if (kind == RECORD_STATE && detail == TCP_CA_Recovery && ca_before <= TCP_CA_Disorder &&
	    flow->undoable && flow->restored && tp->prior_cwnd >= flow->restored)
		marks |= MARK_UNDO;
	alone = MARKS_ALONE;
	/* A return to Open or Disorder tells by its reason that it is an undo. */
	if (kind == RECORD_STATE && detail <= TCP_CA_Disorder)
		alone &= ~MARK_UNDO;
	flow->pending |= (marks & alone) >> 8;
	flow->marks |= marks & ~alone;
	if (unlikely(!flow->announced))
		announce(sk, flow, cpu);
	ca_state = ca_before;
	if (kind == RECORD_STATE) {
		ca_state = flow->ca_state = detail;
		flow->undoable = tp->undo_marker != 0;
		flow->after_rto = ca_state == TCP_CA_Loss;
		if (ca_state == TCP_CA_Loss && BPF_CORE_READ_BITFIELD(tp, is_sack_reneg))
			flow->marks |= MARK_RENEGING;
	} else if (kind == RECORD_RETRANSMIT) {
		if (flow->after_rto)
			flow->marks |= MARK_AFTER_RTO;
		flow->after_rto = false;
	} else if (kind == RECORD_OPEN) {
		ca_state = flow->role;
	}
	if (kind == RECORD_STATE || kind == RECORD_RETRANSMIT) {
		/* Who called tells the place in the kernel, and the reason. */
		long id = bpf_get_stackid(ctx, &stacks, 0);
		stack = id < 0 ? NO_STACK : (u32)id;
	}
	if (unlikely(flow->pending) && kind != RECORD_RETRANSMIT)
		note(sk, flow, hook, kind == RECORD_CLOSE || kind == RECORD_OPEN ? NO_STACK : stack);
	record = reserve(ring, cpu, hook, &seq);
	if (record)
		write_record(record, sk, tp, flow, bpf_ktime_get_ns(), kind, ca_state, ca_before, stack, seq);
	/* The kernel counts a retransmission before it tells of it: total_retrans in a note must not be ahead
	 * of the retransmissions told. */
	if (unlikely(flow->pending) && kind == RECORD_RETRANSMIT)
		note(sk, flow, hook, stack);
}

/* ---- the ACK --------------------------------------------------------------------------------------------- */

struct sack_block {
	u32 start, end;
};

/* A segment's options, at most 40 bytes; behind them room for wherever a broken length points. */
struct options {
	u8 bytes[96];
};

/* RFC 2018 and RFC 2883: what the SACK option says. Not `static`: the verifier then looks at it once, and not
 * again in every state of its caller. */
__noinline u32 sack_marks(const struct options *options, u32 length, u32 ack_seq)
{
	struct sack_block block[2];
	const u8 *bytes;
	u32 at = 0;

	if (!options)
		return 0;
	bytes = options->bytes;
	/* More options than these do not fit before a SACK block, unless somebody pads at length. */
	for (int i = 0; i < 16 && bytes[at] != 5; i++) {
		u32 size = bytes[at] == 1 ? 1 : bytes[(at + 1) & 63];
		if (!bytes[at] || !size)
			return 0;
		at = (at + size) & 63;
	}
	u32 size = bytes[(at + 1) & 63];
	if (length > 40 || bytes[at] != 5 || size < 10 || at + size > length || at > 40 - 10)
		return 0;
	/* Blocks are not aligned; behind the option's end `bytes` has zeros or the next option. */
	__builtin_memcpy(block, bytes + at + 2, sizeof(block));
	u32 start = bpf_ntohl(block[0].start), end = bpf_ntohl(block[0].end);
	/* As tcp_check_dsack: the first block lies below the ACK, or within the second. */
	if ((s32)(start - ack_seq) < 0)
		return MARK_SACK | MARK_DSACK;
	if (size >= 18 && (s32)(end - bpf_ntohl(block[1].end)) <= 0 &&
	    (s32)(start - bpf_ntohl(block[1].start)) >= 0)
		return MARK_SACK | MARK_DSACK;
	return MARK_SACK;
}

struct segment {
	u32 seq, end_seq, ack_seq;
	u8 flags;
};

static __always_inline bool read_segment(struct sk_buff *skb, struct segment *segment)
{
	if (&bpf_rdonly_cast != NULL) {
		struct tcp_skb_cb *cb = bpf_rdonly_cast(skb->cb, bpf_core_type_id_kernel(struct tcp_skb_cb));
		segment->seq = cb->seq;
		segment->end_seq = cb->end_seq;
		segment->ack_seq = cb->ack_seq;
		segment->flags = cb->tcp_flags;
		return true;
	}
	const void *cb = skb->cb;
	u8 raw[32];
	if (bpf_probe_read_kernel(raw, sizeof(raw), cb))
		return false;
	segment->seq = *(u32 *)(raw + bpf_core_field_offset(struct tcp_skb_cb, seq));
	segment->end_seq = *(u32 *)(raw + bpf_core_field_offset(struct tcp_skb_cb, end_seq));
	segment->ack_seq = *(u32 *)(raw + bpf_core_field_offset(struct tcp_skb_cb, ack_seq));
	segment->flags = raw[bpf_core_field_offset(struct tcp_skb_cb, tcp_flags)];
	return true;
}

/* What a segment is beside what it says. */
enum looks {
	USUAL = 1,     /* a lease may be lent at it */
	DATA_ONLY = 2, /* usual, and it brings payload and acknowledges nothing new */
};

/* Notes what this segment says. Returns what it is, of enum looks. */
static __always_inline u32 look_at_segment(struct tcp_sock *tp, struct sk_buff *skb, struct flow *flow)
{
	struct segment segment;
	u32 payload, header;
	bool usual;

	if (flow->acks != 0xffff)
		flow->acks++;
	if (!read_segment(skb, &segment))
		return 0;
	usual = !(segment.flags & (TCPHDR_ECE | TCPHDR_RST | TCPHDR_SYN | TCPHDR_FIN));
	if (unlikely(segment.flags & TCPHDR_ECE) && tp->ecn_flags & TCP_ECN_OK)
		flow->marks |= MARK_ECE;
	/* SYN and FIN each take a number of the sequence space, but no byte. */
	payload =
	    segment.end_seq - segment.seq - !!(segment.flags & TCPHDR_SYN) - !!(segment.flags & TCPHDR_FIN);
	header = skb->len - payload;
	usual &= header == tp->tcp_header_len;
	/* As the kernel's header prediction: a header longer than usual has more options than timestamps. */
	if (unlikely(header > tp->tcp_header_len)) {
		/* The options are in the linear part: TCP pulled them before. */
		struct options options = {};
		bpf_probe_read_kernel(options.bytes, 40, skb->data + 20);
		u32 marks = sack_marks(&options, header - 20, segment.ack_seq);
		if (marks & MARK_SACK && flow->sacks != 0xffff)
			flow->sacks++;
		if (marks & MARK_DSACK && flow->dsacks != 0xff)
			flow->dsacks++;
		flow->marks |= marks;
	}
	/* RFC 5681 section 2. */
	if (unlikely(segment.ack_seq == tp->snd_una && segment.end_seq == segment.seq && tp->packets_out &&
		     !(segment.flags & TCPHDR_RST))) {
		usual = false;
		u16 window = 0;
		bpf_probe_read_kernel(&window, sizeof(window), skb->data + 14);
		/* A variable of its own: the macro counts the offset from where its expression begins. */
		struct tcp_options_received *rx_opt = &tp->rx_opt;
		u32 scale = BPF_CORE_READ_BITFIELD(rx_opt, snd_wscale);
		if ((u32)bpf_ntohs(window) << (scale & 15) == tp->snd_wnd) {
			flow->marks |= MARK_DUP_ACK;
			if (flow->dup_acks != 0xffff)
				flow->dup_acks++;
		}
	}
	if (!usual)
		return 0;
	return payload && segment.ack_seq == tp->snd_una ? USUAL | DATA_ONLY : USUAL;
}

/* What is the same in every usual segment: the header's length, and no flag that means anything to us. */
#define UNUSUAL bpf_htonl(0xf0000000 | (TCPHDR_ECE | TCPHDR_RST | TCPHDR_SYN | TCPHDR_FIN) << 16)

/* A word of the TCP header. */
static __always_inline u32 header_word(const struct sk_buff *skb, u32 at)
{
	if (&bpf_rdonly_cast != NULL) {
		const u32 *words = bpf_rdonly_cast(skb->data, bpf_core_type_id_kernel(union tcp_word_hdr));
		return words[at];
	}
	u32 word;
	bpf_probe_read_kernel(&word, sizeof(word), skb->data + at * sizeof(word));
	return word;
}

static __always_inline bool acknowledges(struct tcp_sock *tp, const struct sk_buff *skb)
{
	return bpf_ntohl(header_word(skb, 2)) != tp->snd_una;
}

/* Whether the segment tells nothing but that it came. One without payload may be a duplicate ACK, or the first
 * after HyStart has set ssthresh; where there is payload, tell() looks for the latter. */
static __always_inline bool is_usual(struct tcp_sock *tp, const struct sk_buff *skb, const struct lease *lease)
{
	return (header_word(skb, 3) & UNUSUAL) == lease->usual &&
	       (skb->len != lease->header || (acknowledges(tp, skb) && tp->snd_ssthresh == lease->ssthresh));
}

/* With so few ACKs an interval a lease is not worth its making, and reading the clock at each is. */
#define MANY_ACKS 4

/* Segments that only bring data are thinned further, where they come in numbers also at every ACK: they change
 * nothing that congestion control knows, and at a receiver nearly all are such. */
#define DATA_INTERVAL_NS 10000000
#define DATA_INTERVAL_EVERY_ACK_NS 1000000

/* From one sample on, the soonest that another is due for its time. */
static __always_inline u64 lease_interval_ns(void)
{
	return config.interval_ns ? config.interval_ns : DATA_INTERVAL_EVERY_ACK_NS;
}

/* From one sample on, until another is due for segments that only bring data. */
static __always_inline u64 data_interval_ns(void)
{
	u64 interval_ns = config.interval_ns;

	/* Whoever asks for few samples gets so many. */
	return interval_ns > DATA_INTERVAL_NS ? interval_ns : DATA_INTERVAL_NS;
}

/* Whether a sample that is due waits on, because this segment only brings data. Asked once an interval, and not
 * at each segment. */
static __always_inline bool postponed(struct tcp_sock *tp, const struct sk_buff *skb, struct lease *lease,
				      u64 now)
{
	if (!config.interval_ns || now >= lease->last_ns + data_interval_ns() || acknowledges(tp, skb))
		return false;
	lease->due_ns = now + config.interval_ns;
	return true;
}

/* Whether a usual segment waits for the flow's next sample. The time that TCP itself took for the flow's last
 * segment is a little older than now, and in this tick: a sample is told at most one segment too late, and the
 * clock is not read. */
static __always_inline bool waits(struct tcp_sock *tp, const struct sk_buff *skb, struct lease *lease)
{
	if (!config.interval_ns) {
		if (acknowledges(tp, skb))
			return false;
		if (lease->data < MANY_ACKS) {
			lease->data++;
			return false;
		}
	}
	return tp->tcp_clock_cache < lease->due_ns || postponed(tp, skb, lease, tp->tcp_clock_cache);
}

/* Lends to a flow what its next segments need, if they can be expected to need no more: in Open the kernel's
 * own hooks tell of a change of state, and of undo and reordering a segment with a SACK option comes first,
 * which is not usual. Another congestion control shows at the next record, or when jiffies tick. */
static __always_inline void lend(struct sock *sk, struct tcp_sock *tp, struct flow *flow, u16 acks)
{
	u64 interval_ns = config.interval_ns;
	struct lease *lease;

	if (!state_hook || (interval_ns && acks <= MANY_ACKS) || flow->ca_state != TCP_CA_Open ||
	    flow->pending || flow->marks || !flow->announced || flow->detached)
		return;
	lease = lease_of(sk);
	if (lease->sk || __sync_val_compare_and_swap((u64 *)&lease->sk, 0, (u64)sk))
		return;
	lease->due_ns = flow->last_ns + lease_interval_ns();
	lease->generation = flow->generation;
	lease->tick = bpf_jiffies64();
	lease->header = tp->tcp_header_len;
	lease->data = 0;
	lease->usual = bpf_htonl((u32)lease->header << 26);
	lease->ssthresh = flow->ssthresh;
	lease->acks = flow->acks;
	lease->cookie = flow->cookie;
	lease->last_ns = flow->last_ns;
	lease->ca_ops = flow->ca_ops;
	flow->lent = true;
}

/* The record of a usual segment, or what is left to be done when jiffies have ticked. False if the flow has to
 * be looked at after all. */
static __noinline bool tell(struct sock *sk, struct sk_buff *skb, struct lease *lease, u32 tick)
{
	u32 cpu = bpf_get_smp_processor_id(), acks = lease->acks + lease->merged + 1, seq;
	struct ring_control *ring = ring_control(cpu);
	struct tcp_sock *tp = tcp_of(sk);
	struct event_record *record;
	u64 now;

	if (!tp || !ring || tp->inet_conn.icsk_ca_ops != lease->ca_ops || tp->snd_ssthresh != lease->ssthresh)
		return false;
	now = bpf_ktime_get_ns();
	if (lease->tick != tick) {
		lease->tick = tick;
		lease->data = 0;
	}
	if (config.interval_ns) {
		if (now < lease->due_ns || postponed(tp, skb, lease, now)) {
			lease->merged++;
			return true;
		}
		if (acks <= MANY_ACKS)
			return false;
	}
	ring->hooks[HOOK_ACK].chosen += lease->merged + 1;
	ring->hooks[HOOK_ACK].thinned += lease->merged;
	lease->merged = 0;
	lease->acks = acks < 0xffff ? acks : 0xffff;
	record = reserve(ring, cpu, HOOK_ACK, &seq);
	if (!record)
		return true;
	write_variables(record, sk, tp);
	record->mono_ns = now;
	record->cookie = lease->cookie;
	record->stack = NO_STACK;
	record->kind = RECORD_ACK;
	record->ca_state = record->ca_before = BPF_CORE_READ_BITFIELD(&tp->inet_conn, icsk_ca_state);
	record->marks = app_limited(tp);
	record->acks = lease->acks;
	record->dup_acks = 0;
	record->sacks = 0;
	record->dsacks = 0;
	publish(&record->seq, seq);

	lease->acks = 0;
	lease->last_ns = now;
	lease->due_ns = now + lease_interval_ns();
	return true;
}

/* Looks at everything. */
static __noinline void look(struct sock *sk, struct sk_buff *skb)
{
	u32 cpu = bpf_get_smp_processor_id(), seq;
	struct flow *flow = chosen_flow(sk, cpu, HOOK_ACK);
	struct tcp_sock *tp = tcp_of(sk);
	struct event_record *record;
	struct ring_control *ring;
	u8 kind = RECORD_ACK, ca_state, ca_before;
	u16 marks, pending, acks;
	u64 now, interval_ns;
	u32 looks;

	if (!flow)
		return;
	ring = ring_control(cpu);
	if (!ring || !tp)
		return;
	ring->hooks[HOOK_ACK].chosen++;
	looks = look_at_segment(tp, skb, flow);
	interval_ns = config.interval_ns;
	if (interval_ns && looks & DATA_ONLY)
		interval_ns = data_interval_ns();
	ca_state = BPF_CORE_READ_BITFIELD(&tp->inet_conn, icsk_ca_state);
	ca_before = flow->last_ns ? flow->ca_state : ca_state;
	if (!state_hook && ca_state != ca_before)
		kind = RECORD_STATE;
	marks = changes(tp, flow, ca_state) | (u16)flow->pending << 8;
	if (unlikely(flow->undoable && !(looks & USUAL)))
		flow->restored = tp->prior_cwnd > tp->snd_cwnd ? tp->prior_cwnd : 0;
	acks = flow->acks;
	now = bpf_ktime_get_ns();
	if (likely(!marks && kind == RECORD_ACK) && now - flow->last_ns < interval_ns) {
		ring->hooks[HOOK_ACK].thinned++;
	} else {
		/* One of MARKS_ALONE is told by this record, as its kind; others by the next. */
		pending = marks & MARKS_ALONE;
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
	if (looks & USUAL)
		lend(sk, tp, flow, acks);
}

SEC("tp_btf/tcp_probe")
int BPF_PROG(on_ack, struct sock *sk, struct sk_buff *skb)
{
	struct lease *lease = lease_of(sk);

	if (likely(lease->sk == sk && lease->generation == *(volatile u32 *)&config.generation)) {
		struct tcp_sock *tp = tcp_of(sk);
		u32 tick = bpf_jiffies64();

		if (tp && is_usual(tp, skb, lease)) {
			if (lease->tick == tick && waits(tp, skb, lease)) {
				lease->merged++;
				return 0;
			}
			if (tell(sk, skb, lease, tick))
				return 0;
		}
	}
	look(sk, skb);
	return 0;
}

/* ---- the rest -------------------------------------------------------------------------------------------- */

SEC("tp_btf/tcp_cong_state_set")
int BPF_PROG(on_state, struct sock *sk, u8 ca_state)
{
	struct tcp_sock *tp = tcp_of(sk);

	/* Open is set to Open now and then; Loss is set again by each further timeout. */
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
		/* connect() and close(): the current process is the owner. Packets cause every other change. */
		flow = bpf_sk_storage_get(&flows, sk, 0, 0);
		if (!flow)
			flow = new_flow(sk, cpu, HOOK_SOCKET);
		if (!flow)
			return 0;
		if (after == TCP_SYN_SENT)
			flow->role = ROLE_OPENED;
		if (!flow->pid) {
			flow->pid = bpf_get_current_pid_tgid() >> 32;
			/* The process' name, as /proc/PID/comm: a thread may have one of its own. */
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
		/* Neither a listener nor a connection that nobody accepted is a flow. One that we never met is:
		 * sock_diag may have shown it, and nothing else tells that it ended. */
		if ((before != TCP_LISTEN && before != TCP_SYN_RECV) || bpf_sk_storage_get(&flows, sk, 0, 0))
			emit(ctx, sk, RECORD_CLOSE, sk->sk_err);
	}
	return 0;
}
