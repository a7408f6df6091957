/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * BIC, Scalable TCP, Veno and YeAH as in Linux before 5.7 ("tcp: fix stretch ACK bugs in ..."):
 * after slow start an ACK counts as one segment, however many it acknowledges. The lab captures
 * such senders, with the running kernel's TCP in all other respects, to evaluate identification.
 */
#include "kernel.h"
#include "skipped_runs.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

const volatile u32 hz = 250; /* jiffies per second */

/* The kernel's own functions. */
extern u32 tcp_slow_start(struct tcp_sock *tp, u32 acked) __ksym;
extern void tcp_cong_avoid_ai(struct tcp_sock *tp, u32 w, u32 acked) __ksym;
extern void tcp_reno_cong_avoid(struct sock *sk, u32 ack, u32 acked) __ksym;
extern u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;

#define NO_RTT_US 0x7fffffff
#define CWND_RESTART 1 /* CA_EVENT_CWND_RESTART */

static __always_inline struct tcp_sock *tcp_sk(const struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

static __always_inline void *state_of(const struct sock *sk)
{
	return ((struct inet_connection_sock *)sk)->icsk_ca_priv;
}

static __always_inline bool in_slow_start(const struct tcp_sock *tp)
{
	return tp->snd_cwnd < tp->snd_ssthresh;
}

/* As tcp_is_cwnd_limited(). */
static __always_inline bool is_cwnd_limited(struct tcp_sock *tp)
{
	return BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited) ||
	       (in_slow_start(tp) && tp->snd_cwnd < 2 * tp->max_packets_out);
}

static __always_inline bool is_open(const struct sock *sk)
{
	return BPF_CORE_READ_BITFIELD((struct inet_connection_sock *)sk, icsk_ca_state) == TCP_CA_Open;
}

static __always_inline u32 at_least_two(u32 cwnd)
{
	return cwnd > 2 ? cwnd : 2;
}

static __always_inline void grow_by_one(struct tcp_sock *tp)
{
	if (tp->snd_cwnd < tp->snd_cwnd_clamp)
		tp->snd_cwnd = tp->snd_cwnd + 1;
}

/* The last word of the private area is the largest legitimate window or ssthresh, for every
 * algorithm. */
#define HIGHEST_WORD (104 / sizeof(u32) - 1)

static __always_inline u32 *highest_of(const struct sock *sk)
{
	return (u32 *)state_of(sk) + HIGHEST_WORD;
}

static __always_inline void init_highest(const struct sock *sk)
{
	*highest_of(sk) = highest_at_init(tcp_sk(sk));
}

/* Must be called at every run before the window is read. Returns as repair_cwnd(). */
static __always_inline u32 check_cwnd(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 *highest = highest_of(sk), before = repair_cwnd(tp, *highest);

	if (*highest < tp->snd_cwnd)
		*highest = tp->snd_cwnd;
	return before;
}

/* As check(), and replaces a random ssthresh: `reduced` returns ssthresh after a reduction. */
static __always_inline void repair(struct sock *sk, u32 (*reduced)(struct sock *sk, u32 cwnd))
{
	u32 before = check_cwnd(sk);

	if (before)
		tcp_sk(sk)->snd_ssthresh = reduced(sk, before);
}

SEC("struct_ops")
u32 BPF_PROG(old_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

/* ---- BIC ------------------------------------------------------------------------------------- */

struct bic {
	u32 cnt;      /* ACKs per segment of growth */
	u32 last_max; /* W_max */
	u32 last_cwnd;
	u32 last_time; /* jiffies */
	u32 ratio;     /* segments per ACK, in sixteenths */
};

#define BIC_BETA_1024 819
#define BIC_LOW_WINDOW 14
#define BIC_MAX_INCREMENT 16
#define BIC_SEARCH 4  /* a step is this fraction of the distance to W_max */
#define BIC_SMOOTH 20 /* round trips for a segment near W_max, times BIC_SEARCH */
#define BIC_RATIO_SHIFT 4
#define BIC_UNKNOWN_PATH 20

static __always_inline void bic_reset(struct bic *ca)
{
	ca->cnt = 0;
	ca->last_max = 0;
	ca->last_cwnd = 0;
	ca->last_time = 0;
	ca->ratio = 2 << BIC_RATIO_SHIFT;
}

SEC("struct_ops")
void BPF_PROG(bic_init, struct sock *sk)
{
	init_highest(sk);
	bic_reset(state_of(sk));
}

static __always_inline void bic_update(struct bic *ca, u32 cwnd)
{
	u32 now = (u32)bpf_jiffies64(), slowest = cwnd * BIC_SMOOTH / BIC_SEARCH, cnt, dist;

	if (ca->last_cwnd == cwnd && (s32)(now - ca->last_time) <= (s32)(hz / 32))
		return;
	ca->last_cwnd = cwnd;
	ca->last_time = now;
	if (cwnd <= BIC_LOW_WINDOW) {
		ca->cnt = cwnd;
		return;
	}
	if (cwnd < ca->last_max) {
		dist = (ca->last_max - cwnd) / BIC_SEARCH;
		cnt = dist <= 1 ? slowest : cwnd / (dist < BIC_MAX_INCREMENT ? dist : BIC_MAX_INCREMENT);
	} else {
		dist = cwnd - ca->last_max;
		if (dist < BIC_SEARCH)
			cnt = slowest;
		else if (dist < BIC_MAX_INCREMENT * (BIC_SEARCH - 1))
			cnt = cwnd * (BIC_SEARCH - 1) / dist;
		else
			cnt = cwnd / BIC_MAX_INCREMENT;
	}
	if (!ca->last_max && cnt > BIC_UNKNOWN_PATH)
		cnt = BIC_UNKNOWN_PATH;
	cnt = (cnt << BIC_RATIO_SHIFT) / (ca->ratio ? ca->ratio : 1);
	ca->cnt = cnt ? cnt : 1;
}

static __always_inline u32 bic_reduced(struct sock *sk, u32 cwnd)
{
	struct bic *ca = state_of(sk);

	ca->last_max = cwnd < ca->last_max ? cwnd * (1024 + BIC_BETA_1024) / 2048 : cwnd;
	return at_least_two(cwnd <= BIC_LOW_WINDOW ? cwnd >> 1 : cwnd * BIC_BETA_1024 / 1024);
}

SEC("struct_ops")
void BPF_PROG(bic_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bic *ca = state_of(sk);

	repair(sk, bic_reduced);
	if (!is_cwnd_limited(tp))
		return;
	if (in_slow_start(tp)) {
		tcp_slow_start(tp, acked);
	} else {
		bic_update(ca, tp->snd_cwnd);
		tcp_cong_avoid_ai(tp, ca->cnt, 1);
	}
}

SEC("struct_ops")
u32 BPF_PROG(bic_ssthresh, struct sock *sk)
{
	check_cwnd(sk);
	return bic_reduced(sk, tcp_sk(sk)->snd_cwnd);
}

SEC("struct_ops")
void BPF_PROG(bic_set_state, struct sock *sk, u8 state)
{
	if (state == TCP_CA_Loss)
		bic_reset(state_of(sk));
}

SEC("struct_ops")
void BPF_PROG(bic_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct bic *ca = state_of(sk);

	repair(sk, bic_reduced);
	if (is_open(sk))
		ca->ratio += sample->pkts_acked - (ca->ratio >> BIC_RATIO_SHIFT);
}

/* ---- Scalable TCP ---------------------------------------------------------------------------- */

/* The most ACKs per segment of growth (TCP_SCALABLE_AI_CNT): half of Scalable TCP's 100 segments,
 * since ACKs are delayed. */
#define SCALABLE_ACKS 50

static __always_inline u32 scalable_reduced(struct sock *sk, u32 cwnd)
{
	return at_least_two(cwnd - (cwnd >> 3));
}

SEC("struct_ops")
void BPF_PROG(scalable_init, struct sock *sk)
{
	init_highest(sk);
}

SEC("struct_ops")
void BPF_PROG(scalable_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	repair(sk, scalable_reduced);
}

SEC("struct_ops")
void BPF_PROG(scalable_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	repair(sk, scalable_reduced);
	if (!is_cwnd_limited(tp))
		return;
	if (in_slow_start(tp))
		tcp_slow_start(tp, acked);
	else
		tcp_cong_avoid_ai(tp, tp->snd_cwnd < SCALABLE_ACKS ? tp->snd_cwnd : SCALABLE_ACKS, 1);
}

SEC("struct_ops")
u32 BPF_PROG(scalable_ssthresh, struct sock *sk)
{
	check_cwnd(sk);
	return scalable_reduced(sk, tcp_sk(sk)->snd_cwnd);
}

/* ---- Veno ------------------------------------------------------------------------------------ */

struct veno {
	u32 on;
	u32 samples;
	u32 min_us;
	u32 base_us;
	u32 grows;
	u32 queued; /* twice the segments in the queue */
};

#define VENO_CONGESTED (3 << 1)

static __always_inline void veno_enable(struct veno *ca)
{
	ca->base_us = NO_RTT_US;
	ca->grows = 1;
	ca->on = 1;
	ca->min_us = NO_RTT_US;
}

SEC("struct_ops")
void BPF_PROG(veno_init, struct sock *sk)
{
	struct veno *ca = state_of(sk);

	init_highest(sk);
	ca->samples = 0;
	ca->queued = 0;
	veno_enable(ca);
}

static __always_inline u32 veno_reduced(struct sock *sk, u32 cwnd)
{
	struct veno *ca = state_of(sk);

	return at_least_two((s32)ca->queued < VENO_CONGESTED ? cwnd * 4 / 5 : cwnd >> 1);
}

SEC("struct_ops")
void BPF_PROG(veno_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct veno *ca = state_of(sk);
	u32 rtt_us;

	repair(sk, veno_reduced);
	if (sample->rtt_us < 0)
		return;
	rtt_us = sample->rtt_us + 1;
	if (rtt_us < ca->base_us)
		ca->base_us = rtt_us;
	if (rtt_us < ca->min_us)
		ca->min_us = rtt_us;
	ca->samples = (ca->samples + 1) & 0xffff; /* 16 bits */
}

SEC("struct_ops")
void BPF_PROG(veno_set_state, struct sock *sk, u8 state)
{
	struct veno *ca = state_of(sk);

	ca->on = state == TCP_CA_Open;
	if (ca->on)
		ca->min_us = NO_RTT_US;
}

SEC("struct_ops")
void BPF_PROG(veno_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	if (event == CA_EVENT_TX_START || event == CWND_RESTART)
		veno_enable(state_of(sk));
}

SEC("struct_ops")
void BPF_PROG(veno_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct veno *ca = state_of(sk);
	u64 would_be;

	repair(sk, veno_reduced);
	if (!ca->on) {
		tcp_reno_cong_avoid(sk, ack, acked);
		return;
	}
	if (!is_cwnd_limited(tp))
		return;
	if (ca->samples <= 2) {
		tcp_reno_cong_avoid(sk, ack, acked);
		ca->min_us = NO_RTT_US;
		return;
	}
	would_be = ((u64)tp->snd_cwnd * ca->base_us << 1) / (ca->min_us ? ca->min_us : 1);
	ca->queued = (tp->snd_cwnd << 1) - (u32)would_be;
	if (in_slow_start(tp)) {
		tcp_slow_start(tp, acked);
	} else if ((s32)ca->queued < VENO_CONGESTED) {
		tcp_cong_avoid_ai(tp, tp->snd_cwnd, 1);
	} else if (tp->snd_cwnd_cnt >= tp->snd_cwnd) {
		/* Every second round trip. */
		if (ca->grows)
			grow_by_one(tp);
		ca->grows = !ca->grows;
		tp->snd_cwnd_cnt = 0;
	} else {
		tp->snd_cwnd_cnt = tp->snd_cwnd_cnt + 1;
	}
	ca->min_us = NO_RTT_US;
}

SEC("struct_ops")
u32 BPF_PROG(veno_ssthresh, struct sock *sk)
{
	check_cwnd(sk);
	return veno_reduced(sk, tcp_sk(sk)->snd_cwnd);
}

/* ---- YeAH ------------------------------------------------------------------------------------ */

struct yeah {
	u32 on;
	u32 samples;
	u32 min_us;
	u32 base_us;
	u32 end; /* snd_nxt at the round's beginning */
	u32 queue;
	u32 as_reno;
	u32 reno_cwnd;
	u32 fast_rounds;
	u32 acked; /* at the last ACK */
};

#define YEAH_QUEUE 80
#define YEAH_DELAY_SHARE 8
#define YEAH_COMPETING_ROUNDS 16
#define YEAH_FAST_ROUNDS 50
#define YEAH_ACKED 100

static __always_inline void yeah_next_round(struct tcp_sock *tp, struct yeah *ca)
{
	ca->end = tp->snd_nxt;
	ca->samples = 0;
	ca->min_us = NO_RTT_US;
}

static __always_inline void yeah_enable(struct tcp_sock *tp, struct yeah *ca)
{
	ca->base_us = NO_RTT_US;
	ca->on = 1;
	yeah_next_round(tp, ca);
}

SEC("struct_ops")
void BPF_PROG(yeah_init, struct sock *sk)
{
	struct yeah *ca = state_of(sk);

	init_highest(sk);
	yeah_enable(tcp_sk(sk), ca);
	ca->queue = 0;
	ca->as_reno = 0;
	ca->reno_cwnd = 2;
	ca->fast_rounds = 0;
	ca->acked = 0;
}

static __always_inline u32 yeah_reduced(struct sock *sk, u32 cwnd)
{
	struct yeah *ca = state_of(sk);
	u32 half = at_least_two(cwnd >> 1), cut = half;

	if (ca->as_reno < YEAH_COMPETING_ROUNDS) {
		cut = ca->queue < half ? ca->queue : half;
		if (cut < cwnd >> 3)
			cut = cwnd >> 3;
	}
	ca->fast_rounds = 0;
	ca->reno_cwnd = at_least_two(ca->reno_cwnd >> 1);
	return cwnd > cut ? at_least_two(cwnd - cut) : 2;
}

SEC("struct_ops")
void BPF_PROG(yeah_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct yeah *ca = state_of(sk);
	u32 rtt_us;

	repair(sk, yeah_reduced);
	if (is_open(sk))
		ca->acked = sample->pkts_acked;
	if (sample->rtt_us < 0)
		return;
	rtt_us = sample->rtt_us + 1;
	if (rtt_us < ca->base_us)
		ca->base_us = rtt_us;
	if (rtt_us < ca->min_us)
		ca->min_us = rtt_us;
	ca->samples++;
}

SEC("struct_ops")
void BPF_PROG(yeah_set_state, struct sock *sk, u8 state)
{
	struct yeah *ca = state_of(sk);

	ca->on = state == TCP_CA_Open;
	if (ca->on)
		yeah_next_round(tcp_sk(sk), ca);
}

SEC("struct_ops")
void BPF_PROG(yeah_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	if (event == CA_EVENT_TX_START || event == CWND_RESTART)
		yeah_enable(tcp_sk(sk), state_of(sk));
}

/* Once per round trip: a short queue selects the fast mode, a long one Reno, and a queue of more
 * than 80 segments is drained. */
static __always_inline void yeah_adjust_cwnd(struct tcp_sock *tp, struct yeah *ca)
{
	u32 cwnd = tp->snd_cwnd, delay_us = ca->min_us - ca->base_us, cut;
	u32 queue = (u32)((u64)cwnd * delay_us / (ca->min_us ? ca->min_us : 1));

	ca->queue = queue;
	if (queue <= YEAH_QUEUE && delay_us <= ca->base_us / YEAH_DELAY_SHARE) {
		ca->fast_rounds++;
		if (ca->fast_rounds > YEAH_FAST_ROUNDS) {
			ca->reno_cwnd = 2;
			ca->fast_rounds = 0;
		}
		ca->as_reno = 0;
		return;
	}
	if (queue > YEAH_QUEUE && cwnd > ca->reno_cwnd) {
		cut = queue < cwnd >> 1 ? queue : cwnd >> 1;
		cwnd -= cut;
		if (cwnd < ca->reno_cwnd)
			cwnd = ca->reno_cwnd;
		tp->snd_cwnd = cwnd;
		tp->snd_ssthresh = cwnd;
	}
	ca->reno_cwnd = ca->reno_cwnd <= 2 ? at_least_two(cwnd >> 1) : ca->reno_cwnd + 1;
	if (ca->as_reno < 0xffffff)
		ca->as_reno++;
}

SEC("struct_ops")
void BPF_PROG(yeah_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct yeah *ca = state_of(sk);

	repair(sk, yeah_reduced);
	if (!is_cwnd_limited(tp))
		return;
	if (in_slow_start(tp)) {
		tcp_slow_start(tp, acked);
	} else if (ca->as_reno) {
		tcp_cong_avoid_ai(tp, tp->snd_cwnd, 1);
	} else {
		/* Counts segments; each step drops the remainder. */
		u32 count = tp->snd_cwnd_cnt + ca->acked;

		if (count > (tp->snd_cwnd < YEAH_ACKED ? tp->snd_cwnd : YEAH_ACKED)) {
			grow_by_one(tp);
			count = 0;
		}
		tp->snd_cwnd_cnt = count;
		ca->acked = 1;
	}
	if ((s32)(ack - ca->end) > 0) {
		if (ca->samples > 2)
			yeah_adjust_cwnd(tp, ca);
		yeah_next_round(tp, ca);
	}
}

SEC("struct_ops")
u32 BPF_PROG(yeah_ssthresh, struct sock *sk)
{
	check_cwnd(sk);
	return yeah_reduced(sk, tcp_sk(sk)->snd_cwnd);
}

/* ---- registration ---------------------------------------------------------------------------- */

SEC(".struct_ops.link")
struct tcp_congestion_ops bic = {
    .init = (void *)bic_init,
    .ssthresh = (void *)bic_ssthresh,
    .cong_avoid = (void *)bic_cong_avoid,
    .set_state = (void *)bic_set_state,
    .undo_cwnd = (void *)old_undo_cwnd,
    .pkts_acked = (void *)bic_pkts_acked,
    .name = "bic_5_6",
};

SEC(".struct_ops.link")
struct tcp_congestion_ops scalable = {
    .init = (void *)scalable_init,
    .ssthresh = (void *)scalable_ssthresh,
    .cong_avoid = (void *)scalable_cong_avoid,
    .undo_cwnd = (void *)old_undo_cwnd,
    .pkts_acked = (void *)scalable_pkts_acked,
    .name = "scalable_5_6",
};

SEC(".struct_ops.link")
struct tcp_congestion_ops veno = {
    .init = (void *)veno_init,
    .ssthresh = (void *)veno_ssthresh,
    .cong_avoid = (void *)veno_cong_avoid,
    .set_state = (void *)veno_set_state,
    .undo_cwnd = (void *)old_undo_cwnd,
    .cwnd_event = (void *)veno_cwnd_event,
    .pkts_acked = (void *)veno_pkts_acked,
    .name = "veno_5_6",
};

SEC(".struct_ops.link")
struct tcp_congestion_ops yeah = {
    .init = (void *)yeah_init,
    .ssthresh = (void *)yeah_ssthresh,
    .cong_avoid = (void *)yeah_cong_avoid,
    .set_state = (void *)yeah_set_state,
    .undo_cwnd = (void *)old_undo_cwnd,
    .cwnd_event = (void *)yeah_cwnd_event,
    .pkts_acked = (void *)yeah_pkts_acked,
    .name = "yeah_5_6",
};
