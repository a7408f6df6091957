/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * Steering: reports the flows of one network namespace, migrates those for which nobody chose a
 * congestion control to ours, and migrates them back. A walk of the TCP iterator does all three; a
 * sockops program at the control group migrates new flows immediately.
 */
#include "steer.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* ---- settings -------------------------------------------------------------------------------- */

const volatile char ours[TCP_CA_NAME_MAX] = {}; /* the control's name */
const volatile u64 instance = 0; /* distinguishes it from an earlier one of that name; see control.bpf.c */
const volatile u64 netns_cookie = 0;
const volatile u32 initial_window = 0; /* segments, of new flows; 0: the kernel's */

/* A flow counts as idle after this many walks without activity; 0: no flow does. */
const volatile u32 idle_after_walks = 0;

u32 mode = MODE_OBSERVE;
u32 reports_all = 0; /* the walk reports idle flows, too */
u32 walks = 0;       /* the number of this walk */
u32 idle_flows = 0;  /* flows that the walk did not report because they are idle */
u32 unsignaled = 0;  /* of these, flows whose control does not signal when they begin to send */
u32 opened = 0;      /* a flow was established since user space set this to 0 */
/* Two, so that user space changes one while the other is in use. */
struct scope scopes[2] = {};
u32 scope_now = 0;

/* The build derives user space's types from these. */
const volatile struct steer_record shape = {};
const volatile enum mode modes = MODE_OBSERVE;
const volatile enum control_state control_states = CONTROL_DEFAULT;
const volatile enum flag flags = FLAG_APP_LIMITED;

/* ---- per-flow state -------------------------------------------------------------------------- */

/* Freed with the socket. */
struct flow {
	char former[TCP_CA_NAME_MAX]; /* its previous congestion control */
	s32 refused;                  /* why it was not migrated, errno; not retried */
	u8 migrated;
	u8 idle;
	u8 unsignaled;       /* its congestion control does not signal when it begins to send */
	u16 unchanged_walks; /* consecutive walks without activity */
	u32 walk;            /* the last walk that changed anything here */
	/* Values at the last of these walks. */
	u32 write_seq;
	const void *ops;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct flow);
} flows SEC(".maps");

/* Flows that an earlier steering migrated and migrated back. The kernel has noted that a program
 * chose their control, irrevocably. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* user space sizes it by its content */
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u64); /* socket cookie */
	__type(value, u8);
} migrated_before SEC(".maps");

/* ---- names and addresses --------------------------------------------------------------------- */

static __always_inline void copy_name(char *to, const struct tcp_congestion_ops *ops)
{
	*(u64 *)to = *(const u64 *)&ops->name[0];
	*(u64 *)(to + 8) = *(const u64 *)&ops->name[8];
}

static __always_inline bool has_our_name(const struct tcp_congestion_ops *ops)
{
	const volatile u64 *name = (const volatile u64 *)ours;

	return *(const u64 *)&ops->name[0] == name[0] && *(const u64 *)&ops->name[8] == name[1];
}

static __always_inline void addresses(const struct sock_common *sk, u32 *local, u32 *remote)
{
	if (sk->skc_family == AF_INET) {
		local[0] = local[1] = remote[0] = remote[1] = 0;
		local[2] = remote[2] = bpf_htonl(0xffff);
		local[3] = sk->skc_rcv_saddr;
		remote[3] = sk->skc_daddr;
		return;
	}
	for (int i = 0; i < 4; i++) {
		local[i] = sk->skc_v6_rcv_saddr.in6_u.u6_addr32[i];
		remote[i] = sk->skc_v6_daddr.in6_u.u6_addr32[i];
	}
}

/* Loopback by its address, or by the device: a host reaches its own interface addresses over
 * loopback. */
static __always_inline bool is_loopback(const struct sock *sk, const u32 *local, const u32 *remote)
{
	const struct dst_entry *dst = sk->sk_dst_cache;

	if (!local[0] && !local[1] && local[2] == bpf_htonl(0xffff) &&
	    (local[3] & bpf_htonl(0xff000000)) == bpf_htonl(127 << 24))
		return true;
	if (local[0] == remote[0] && local[1] == remote[1] && local[2] == remote[2] && local[3] == remote[3])
		return true;
	return dst && dst->dev->ifindex == LOOPBACK_IFINDEX;
}

static __always_inline bool in_scope(const u32 *local)
{
	struct scope *scope = &scopes[scope_now & 1];
	u32 count = scope->count;

	if (!count)
		return true;
	for (int i = 0; i < MAX_PREFIXES; i++) {
		const struct prefix *prefix = &scope->prefixes[i];

		if (i >= count)
			return false;
		if ((local[0] & prefix->mask[0]) == prefix->address[0] &&
		    (local[1] & prefix->mask[1]) == prefix->address[1] &&
		    (local[2] & prefix->mask[2]) == prefix->address[2] &&
		    (local[3] & prefix->mask[3]) == prefix->address[3])
			return true;
	}
	return false;
}

/* ---- a flow's control state ----------------------------------------------------------------------- */

/* Never returns CONTROL_REFUSED, which is stored instead. */
static __always_inline u8 control_state_of(struct tcp_sock *tp, u64 cookie, bool migrated)
{
	struct inet_connection_sock *icsk = &tp->inet_conn;
	const struct tcp_congestion_ops *ops = icsk->icsk_ca_ops;
	struct net *net = icsk->icsk_inet.sk.__sk_common.skc_net.net;

	if (has_our_name(ops)) {
		if (icsk->icsk_ca_priv[0] == instance)
			return migrated ? CONTROL_MIGRATED : CONTROL_OURS;
		/* For a flow whose instance ended without migrating it back. */
		return BPF_CORE_READ_BITFIELD(icsk, icsk_ca_dst_locked) ? CONTROL_LOCKED : CONTROL_DEFAULT;
	}
	if (BPF_CORE_READ_BITFIELD(icsk, icsk_ca_dst_locked))
		return CONTROL_LOCKED;
	if (BPF_CORE_READ_BITFIELD(icsk, icsk_ca_setsockopt) && !bpf_map_lookup_elem(&migrated_before, &cookie))
		return CONTROL_CHOSEN;
	return ops == net->ipv4.tcp_congestion_control ? CONTROL_DEFAULT : CONTROL_OTHER;
}

/*
 * The control to store: the flow's own, or the namespace's default if it has one of an ended
 * instance of ours.
 */
static __always_inline void store_former(struct flow *flow, struct tcp_sock *tp)
{
	const struct tcp_congestion_ops *ops = tp->inet_conn.icsk_ca_ops;

	if (has_our_name(ops))
		ops = tp->inet_conn.icsk_inet.sk.__sk_common.skc_net.net->ipv4.tcp_congestion_control;
	copy_name(flow->former, ops);
}

/* ---- the walk -------------------------------------------------------------------------------- */

static __always_inline u8 migrate(struct tcp_sock *tp, struct flow *flow)
{
	store_former(flow, tp);
	flow->refused = bpf_setsockopt(tp, SOL_TCP, TCP_CONGESTION, (void *)ours, sizeof(ours));
	flow->migrated = !flow->refused;
	return flow->migrated ? CONTROL_MIGRATED : CONTROL_REFUSED;
}

static __always_inline u8 migrate_back(struct tcp_sock *tp, struct flow *flow)
{
	char standard[TCP_CA_NAME_MAX];
	int error = bpf_setsockopt(tp, SOL_TCP, TCP_CONGESTION, flow->former, sizeof(flow->former));

	if (error) {
		/* Its module was unloaded. */
		copy_name(standard,
			  tp->inet_conn.icsk_inet.sk.__sk_common.skc_net.net->ipv4.tcp_congestion_control);
		error = bpf_setsockopt(tp, SOL_TCP, TCP_CONGESTION, standard, sizeof(standard));
	}
	flow->refused = error;
	flow->migrated = 0;
	return error ? CONTROL_REFUSED : CONTROL_DEFAULT;
}

/* Whether there is payload that can still be sent, or that awaits acknowledgement. A FIN takes one
 * sequence number. */
static __always_inline bool sends(const struct tcp_sock *tp, u8 state)
{
	switch (state) {
	case TCP_ESTABLISHED:
	case TCP_CLOSE_WAIT:
		return true;
	case TCP_FIN_WAIT1:
	case TCP_CLOSING:
	case TCP_LAST_ACK:
		return tp->write_seq - tp->snd_una > 1;
	default:
		return false;
	}
}

/* Whether nothing has happened since an earlier walk that could change the flow's record: nothing
 * written since, nothing in flight then, and the same congestion control. */
static __always_inline bool is_unchanged(const struct tcp_sock *tp, const struct flow *flow, u8 state)
{
	return (state == TCP_ESTABLISHED || state == TCP_CLOSE_WAIT) && tp->write_seq == flow->write_seq &&
	       tp->snd_una == flow->write_seq && tp->inet_conn.icsk_ca_ops == flow->ops;
}

/* Whether the flow is idle from this walk on, which reports it for the last time. */
static __always_inline bool becomes_idle(const struct tcp_sock *tp, struct flow *flow, u8 state)
{
	if (flow->walk == walks)
		return flow->idle;
	flow->walk = walks;
	if (is_unchanged(tp, flow, state)) {
		if (flow->unchanged_walks < idle_after_walks)
			flow->unchanged_walks++;
	} else {
		flow->unchanged_walks = 0;
		flow->write_seq = tp->write_seq;
		flow->ops = tp->inet_conn.icsk_ca_ops;
	}
	flow->idle = flow->unchanged_walks >= idle_after_walks;
	return flow->idle;
}

SEC("iter/tcp")
int walk(struct bpf_iter__tcp *ctx)
{
	struct sock_common *common = ctx->sk_common;
	struct seq_file *seq = ctx->meta->seq;
	struct steer_record record = {};
	struct inet_connection_sock *icsk;
	struct flow *flow;
	struct tcp_sock *tp;
	struct sock *sk;
	bool is_repeated;
	u8 control_state;

	if (!common)
		return 0;
	tp = bpf_skc_to_tcp_sock(common);
	if (!tp)
		return 0;
	icsk = &tp->inet_conn;
	sk = &icsk->icsk_inet.sk;
	record.state = sk->__sk_common.skc_state;
	flow = bpf_sk_storage_get(&flows, tp, NULL, 0);
	/* If the kernel's buffer has no room for a record, it calls again for the same flow. */
	is_repeated = flow && flow->walk == walks;
	/* Nothing else of such a flow is read: most of a walk's cost is to load flows into the
	 * caches. */
	if (flow && flow->idle && !is_repeated && !reports_all && mode != MODE_MIGRATE_BACK &&
	    is_unchanged(tp, flow, record.state)) {
		idle_flows++;
		if (flow->unsignaled)
			unsignaled++;
		return 0;
	}
	record.cookie = bpf_get_socket_cookie(tp);
	control_state = control_state_of(tp, record.cookie, flow && flow->migrated);
	if (mode == MODE_MIGRATE_BACK) {
		/* In every TCP state. */
		if (!flow || (control_state != CONTROL_MIGRATED && !is_repeated))
			return 0;
		control_state =
		    is_repeated ? (flow->refused ? CONTROL_REFUSED : CONTROL_DEFAULT) : migrate_back(tp, flow);
		flow->walk = walks;
	}
	addresses(&sk->__sk_common, record.local, record.remote);
	if (mode != MODE_MIGRATE_BACK) {
		if (!sends(tp, record.state) || is_loopback(sk, record.local, record.remote) ||
		    !in_scope(record.local)) {
			if (flow)
				flow->idle = false;
			return 0;
		}
		if (control_state == CONTROL_DEFAULT && flow && flow->refused)
			control_state = CONTROL_REFUSED;
		if (control_state == CONTROL_DEFAULT && mode == MODE_MIGRATE) {
			flow = bpf_sk_storage_get(&flows, tp, NULL, BPF_SK_STORAGE_GET_F_CREATE);
			if (flow)
				control_state = migrate(tp, flow);
		}
		if (idle_after_walks) {
			if (!flow)
				flow = bpf_sk_storage_get(&flows, tp, NULL, BPF_SK_STORAGE_GET_F_CREATE);
			if (flow && becomes_idle(tp, flow, record.state)) {
				flow->unsignaled =
				    control_state != CONTROL_MIGRATED && control_state != CONTROL_OURS;
				record.flags |= FLAG_IDLE;
			}
		}
	}
	if (flow) {
		record.refused = flow->refused;
		*(u64 *)&record.former[0] = *(u64 *)&flow->former[0];
		*(u64 *)&record.former[8] = *(u64 *)&flow->former[8];
	}
	record.control_state = control_state;
	copy_name(record.control, icsk->icsk_ca_ops);
	record.netns_cookie = sk->__sk_common.skc_net.net->net_cookie;
	record.local_port = sk->__sk_common.skc_num;
	record.remote_port = bpf_ntohs(sk->__sk_common.skc_dport);
	record.ca_state = BPF_CORE_READ_BITFIELD(icsk, icsk_ca_state);
	record.bytes_acked = tp->bytes_acked;
	record.mss = tp->mss_cache;
	record.cwnd = tp->snd_cwnd;
	record.ssthresh = tp->snd_ssthresh;
	record.packets_out = tp->packets_out;
	record.sacked_out = tp->sacked_out;
	record.lost_out = tp->lost_out;
	record.retrans_out = tp->retrans_out;
	record.srtt_us = tp->srtt_us >> 3;
	record.min_rtt_us = tp->rtt_min.s[0].v;
	record.delivered = tp->delivered;
	record.lost = tp->lost;
	record.total_retrans = tp->total_retrans;
	record.sndbuf = sk->sk_sndbuf;
	record.snd_wnd = tp->snd_wnd;
	/* After the FIN the difference is -1. */
	record.unsent = (s32)(tp->write_seq - tp->snd_nxt) > 0 ? tp->write_seq - tp->snd_nxt : 0;
	if (tp->app_limited)
		record.flags |= FLAG_APP_LIMITED;
	if (BPF_CORE_READ_BITFIELD(tp, rate_app_limited))
		record.flags |= FLAG_RATE_APP_LIMITED;
	if (BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited))
		record.flags |= FLAG_CWND_LIMITED;
	if (sk->sk_pacing_status)
		record.flags |= FLAG_PACED;
	bpf_seq_write(seq, &record, sizeof(record));
	return 0;
}

/* ---- new flows ------------------------------------------------------------------------------- */

SEC("sockops")
int on_established(struct bpf_sock_ops *ctx)
{
	u32 local[4], remote[4], window = initial_window;
	struct bpf_sock *socket = ctx->sk;
	struct flow *flow;
	struct tcp_sock *tp;
	struct sock *sk;

	if (ctx->op != BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB && ctx->op != BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB)
		return 1;
	if (!socket || bpf_get_netns_cookie(ctx) != netns_cookie)
		return 1;
	if (!opened)
		opened = 1;
	if (mode != MODE_MIGRATE)
		return 1;
	tp = bpf_skc_to_tcp_sock(socket);
	if (!tp)
		return 1;
	sk = &tp->inet_conn.icsk_inet.sk;
	addresses(&sk->__sk_common, local, remote);
	if (is_loopback(sk, local, remote) || !in_scope(local))
		return 1;
	/* A new flow is not in the list of earlier ones. */
	if (control_state_of(tp, 0, false) != CONTROL_DEFAULT)
		return 1;
	flow = bpf_sk_storage_get(&flows, socket, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (!flow)
		return 1;
	store_former(flow, tp);
	flow->refused = bpf_setsockopt(ctx, SOL_TCP, TCP_CONGESTION, (void *)ours, sizeof(ours));
	flow->migrated = !flow->refused;
	/* A route's own initial window stays, and so does the single segment after a lost SYN (RFC
	 * 6928 section 2). */
	if (flow->migrated && window && tp->snd_cwnd == TCP_INIT_CWND)
		bpf_setsockopt(ctx, SOL_TCP, TCP_BPF_IW, &window, sizeof(window));
	return 1;
}
