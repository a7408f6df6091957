/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * A congestion control: CUBIC (RFC 9438) with the kernel's own integer arithmetic
 * (net/ipv4/tcp_cubic.c), HyStart, fast convergence and Reno-friendly region, with configurable
 * constants and bounds on the window. While no bound is in force and the constants are the
 * kernel's, it behaves as the kernel's CUBIC. docs/control.md explains each rule.
 */
#include "kernel.h"
#include "bound_report.h"
#include "skipped_runs.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* ---- settings, fixed when the control is registered ------------------------------------------ */

const volatile u32 c_1024 = 410;    /* C in 1/1024 segments per s^3 */
const volatile u32 beta_1024 = 717; /* fraction of the window after a reduction, in 1/1024 */
const volatile bool fast_convergence = true;
const volatile bool reno_friendly = true;
const volatile bool hystart = true;
/* The mode of the kernel monitor's paper: neither window nor ssthresh is reduced at a loss. */
const volatile bool no_decrease = false;
const volatile u32 hz = 250; /* jiffies per second */
/* Distinguishes this registration from an earlier one of the same name with live flows. */
const volatile u64 instance = 0;
/* A bound for every flow under this control, without expiry. 0: none. */
const volatile u32 lower_always = 0;
const volatile u32 upper_always = 0;

/* An idle flow has begun to send since user space set this to 0. */
u32 tx_started = 0;

/* The settings of one flow, written by user space. Each part is valid until a time of the monotonic
 * clock: whatever happens to its writer, the flow is plain CUBIC again by then. */
struct bound {
	u32 lower; /* segments; 0: none */
	u32 upper; /* segments; 0: none */
	u64 bound_expiry_ns;
	/* Until then the flow is not reduced at losses that are no signs of congestion; see
	 * yuzuri_ssthresh(). */
	u64 no_decrease_expiry_ns;
	u32 burst; /* segments per burst at the pacing rate; 0: no pacing. Until bound_expiry_ns */
	u32 unused;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536); /* user space sizes it by the number of sockets */
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u64); /* socket cookie */
	__type(value, struct bound);
} bounds SEC(".maps");

/* User space sets it while any flow has a bound; otherwise flows need not look one up. */
bool any_bounds = false;

/* ---- the flow's state, in the socket's private area ------------------------------------------ */

/* CUBIC's clock: 1024 ticks per second. */
#define TICK_SHIFT 10

struct cubic {
	u64 instance; /* must be first: the steering reads it here */
	u32 count;    /* ACKed segments per segment of growth */
	u32 last_max; /* W_max */
	u32 last_cwnd;
	u32 last_time; /* jiffies at the last evaluation of the curve */
	u32 origin;    /* of the curve: the plateau */
	u32 k;         /* ticks from the epoch's start to the plateau */
	u32 delay_min_us;
	u32 epoch_start; /* jiffies; 0: none begun */
	u32 ack_count;   /* ACKed segments not yet in reno_cwnd */
	u32 reno_cwnd;   /* W_est */
	/* HyStart */
	u32 round_start_us;
	u32 end_seq;
	u32 last_ack_us;
	u32 current_rtt_us;
	u8 samples;
	u8 found;
	u8 after_timeout; /* no lower bound until slow start has ended */
	/* Persistent loss */
	u8 close_reductions;     /* in a row, each too soon after the one before */
	u8 decrease_skipped;     /* ssthresh was kept at the last reduction */
	u8 paced;                /* the previous congestion control had enabled pacing */
	u8 burst;                /* of the bound in force */
	u32 reduction_delivered; /* `delivered` at the last reduction */
	u32 highest;             /* the largest legitimate window or ssthresh */
	u64 unused[2];
	u64 bound_report; /* must be last: the monitor reads it here */
};

_Static_assert(sizeof(struct cubic) == 104, "ICSK_CA_PRIV_SIZE");
_Static_assert(__builtin_offsetof(struct cubic, bound_report) == BOUND_REPORT * sizeof(u64),
	       "where the monitor looks");

static __always_inline struct tcp_sock *tcp_sk(const struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

static __always_inline struct cubic *state_of(const struct sock *sk)
{
	return (struct cubic *)((struct inet_connection_sock *)sk)->icsk_ca_priv;
}

static __always_inline u32 jiffies32(void)
{
	return (u32)bpf_jiffies64();
}

static __always_inline bool in_slow_start(const struct tcp_sock *tp)
{
	return tp->snd_cwnd < tp->snd_ssthresh;
}

/* Reports to the monitor whether the window is at its upper bound. A bound that every flow has is
 * not reported: it does not come from a sharing group, and the monitor would attribute it to
 * one. */
static __always_inline void report_bound(struct cubic *ca, bool at_bound)
{
	if (upper_always)
		return;
	ca->bound_report = BOUND_REPORT_BY_CONTROL | (at_bound ? BOUND_REPORT_AT_BOUND : 0);
}

static __always_inline void cubic_reset(struct cubic *ca)
{
	ca->count = 0;
	ca->last_max = 0;
	ca->last_cwnd = 0;
	ca->last_time = 0;
	ca->origin = 0;
	ca->k = 0;
	ca->delay_min_us = 0;
	ca->epoch_start = 0;
	ca->ack_count = 0;
	ca->reno_cwnd = 0;
	ca->found = 0;
}

static __always_inline void hystart_reset(struct tcp_sock *tp, struct cubic *ca)
{
	ca->round_start_us = ca->last_ack_us = (u32)tp->tcp_mstamp;
	ca->end_seq = tp->snd_nxt;
	ca->current_rtt_us = ~0u;
	ca->samples = 0;
}

/* Whether a congestion control enabled pacing (BBR does, and nothing disables it), and not the
 * program. */
static __always_inline bool was_paced(const struct sock *sk)
{
	return sk->sk_pacing_status == SK_PACING_NEEDED && sk->sk_max_pacing_rate == ~0ul;
}

SEC("struct_ops")
void BPF_PROG(yuzuri_init, struct sock *sk)
{
	struct cubic *ca = state_of(sk);

	cubic_reset(ca);
	ca->instance = instance;
	report_bound(ca, false);
	/* A live flow may come from another congestion control in any state. */
	ca->after_timeout = BPF_CORE_READ_BITFIELD(&tcp_sk(sk)->inet_conn, icsk_ca_state) == TCP_CA_Loss;
	ca->close_reductions = 0;
	ca->decrease_skipped = 0;
	ca->reduction_delivered = tcp_sk(sk)->delivered;
	ca->paced = was_paced(sk);
	ca->burst = 0;
	ca->highest = highest_at_init(tcp_sk(sk));
	hystart_reset(tcp_sk(sk), ca);
}

/* After a pause of the application the epoch is shifted by the pause: the curve does not advance
 * meanwhile. */
SEC("struct_ops")
void BPF_PROG(yuzuri_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct cubic *ca = state_of(sk);
	u32 now = jiffies32();
	s32 idle;

	if (event != CA_EVENT_TX_START)
		return;
	/* Written once between two walks: the CPUs share the cache line and otherwise only read
	 * it. */
	if (!tx_started)
		tx_started = 1;
	idle = (s32)(now - tcp_sk(sk)->lsndtime);
	if (ca->epoch_start && idle > 0) {
		ca->epoch_start += idle;
		if ((s32)(ca->epoch_start - now) > 0)
			ca->epoch_start = now;
	}
}

/* ---- the curve ------------------------------------------------------------------------------- */

/* The cube root of `a` < 2^63, by Newton's method from above: each step removes a third of the
 * distance until the result is near; it ends exact or one too large. No branch and not `static`, so
 * that the verifier checks a single path, once. */
__noinline u32 cube_root(u64 a)
{
	u64 root = 1 << 21;

	for (int step = 0; step < 44; step++)
		root = (2 * root + a / (root * root)) / 3;
	return (u32)root;
}

static __always_inline void cubic_update(struct cubic *ca, u32 cwnd, u32 acked)
{
	u32 now = jiffies32();
	u64 t, offset, delta, target;
	u32 cnt;

	ca->ack_count += acked;
	if (ca->last_cwnd == cwnd && now - ca->last_time <= hz / 32)
		return;
	/* Evaluate at most once per jiffy; each reduction ends the epoch, and the next call always
	 * evaluates. */
	if (!(ca->epoch_start && now == ca->last_time)) {
		ca->last_cwnd = cwnd;
		ca->last_time = now;
		if (!ca->epoch_start) {
			ca->epoch_start = now ? now : 1;
			ca->ack_count = acked;
			ca->reno_cwnd = cwnd;
			if (ca->last_max <= cwnd) {
				ca->k = 0;
				ca->origin = cwnd;
			} else {
				/* K = cbrt((W_max - cwnd) / C) in ticks: a factor of 2^30 under the
				 * root, and C in 1/1024. */
				ca->k = cube_root((1ull << 40) / c_1024 * (ca->last_max - cwnd));
				ca->origin = ca->last_max;
			}
		}
		/* The window one round trip ahead, as in the kernel's CUBIC. */
		t = (u64)(now - ca->epoch_start) + ((u64)ca->delay_min_us * hz + 999999) / 1000000;
		t = (t << TICK_SHIFT) / hz;
		offset = t < ca->k ? ca->k - t : t - ca->k;
		/* Beyond 2^20 ticks (17 minutes) the cube would overflow; by then other limits
		 * determine the window. */
		if (offset > 1 << 20)
			offset = 1 << 20;
		delta = ((offset * offset * offset >> 20) * c_1024) >> 20;
		if (t < ca->k)
			target = delta < ca->origin ? ca->origin - delta : 0;
		else
			target = ca->origin + delta;
		cnt = target > cwnd ? cwnd / (u32)(target - cwnd) : 100 * cwnd;
		/* The first epoch has no W_max: grow at least 5 % per round trip. */
		if (!ca->last_max && cnt > 20)
			cnt = 20;
		ca->count = cnt;
	}
	if (reno_friendly) {
		/* alpha = 3 (1 - beta) / (1 + beta) segments per round trip (RFC 9438 section 4.3),
		 * in eighths.
		 */
		u32 scale = 8 * (1024 + beta_1024) / 3 / (1024 - beta_1024);
		u32 per_segment = cwnd * scale >> 3;
		if (per_segment && ca->ack_count > per_segment) {
			/* Equivalent to a loop that subtracts per_segment while more is left. */
			u32 times = (ca->ack_count - 1) / per_segment;
			ca->ack_count -= times * per_segment;
			ca->reno_cwnd += times;
		}
		if (ca->reno_cwnd > cwnd) {
			u32 most = cwnd / (ca->reno_cwnd - cwnd);
			if (ca->count > most)
				ca->count = most;
		}
	}
	/* Grow at most half a window per round trip. */
	if (ca->count < 2)
		ca->count = 2;
}

/* ---- bounds ---------------------------------------------------------------------------------- */

static __always_inline struct bound *bound_report(struct sock *sk)
{
	u64 cookie;

	if (!any_bounds)
		return (void *)0;
	cookie = sk->__sk_common.skc_cookie.counter;
	return cookie ? bpf_map_lookup_elem(&bounds, &cookie) : (void *)0;
}

static __always_inline void bound_of(struct sock *sk, u32 *lower, u32 *upper, u32 *burst)
{
	struct bound *bound = bound_report(sk);

	*lower = lower_always;
	*upper = upper_always;
	*burst = 0;
	if (bound && bpf_ktime_get_ns() < bound->bound_expiry_ns) {
		*lower = bound->lower;
		*upper = bound->upper;
		*burst = bound->burst;
	}
	/* Below two segments a flow would wait for delayed ACKs. */
	if (*upper == 1)
		*upper = 2;
	if (*upper && *lower > *upper)
		*lower = *upper;
}

/* Persistent loss: this many reductions in a row, each too soon after the previous one. */
#define PERSISTENT_REDUCTIONS 3

/* Whether a window of `cwnd` is not sustainable with a loss at this distance from the previous one.
 * A Reno flow at loss rate p has a window of about 1.2 / sqrt(p) (RFC 3649), so it reduces once in
 * 2/3 w^2 segments. RFC 8083 section 4.3 infers persistent congestion from ten times the rate of
 * Reno, also three times in a row. For windows below 300 another criterion is reached earlier: a
 * reduction in every second round trip. */
static __always_inline bool too_soon(u32 segments, u32 cwnd)
{
	u64 least = (u64)cwnd * cwnd / 150;

	if (least < 2 * (u64)cwnd)
		least = 2 * (u64)cwnd;
	return segments < least;
}

/* Whether the lower bound would hold the window at a size that the losses do not sustain. */
static __always_inline bool under_persistent_loss(const struct tcp_sock *tp, struct cubic *ca, u32 lower)
{
	if (ca->close_reductions < PERSISTENT_REDUCTIONS)
		return false;
	if (too_soon(tp->delivered - ca->reduction_delivered, lower))
		return true;
	ca->close_reductions = 0;
	return false;
}

static __always_inline void set_cwnd(struct tcp_sock *tp, struct cubic *ca, u32 cwnd)
{
	tp->snd_cwnd = cwnd < tp->snd_cwnd_clamp ? cwnd : tp->snd_cwnd_clamp;
	if (ca->highest < tp->snd_cwnd)
		ca->highest = tp->snd_cwnd;
}

/* The largest burst, bytes: 64 kB, as for segmentation offload. */
#define MAX_BURST 44
/* The default of `net.ipv4.tcp_min_tso_segs`. */
#define DEFAULT_TSO_SEGS 2

/* Paces by the kernel's own timers, as BBR does; without a burst, pacing ends as it does for BBR. A
 * program's own pacing (SO_MAX_PACING_RATE) and fq's stay. */
static __always_inline void set_pacing(struct sock *sk, struct cubic *ca, u32 burst)
{
	if (burst) {
		if (sk->sk_pacing_status == SK_PACING_NONE)
			sk->sk_pacing_status = SK_PACING_NEEDED;
		ca->burst = burst < MAX_BURST ? burst : MAX_BURST;
		ca->paced = 0;
	} else if (ca->burst) {
		ca->burst = 0;
		ca->paced = was_paced(sk);
	}
}

static __always_inline u32 reduced(u32 cwnd)
{
	u32 cwnd_after = cwnd * beta_1024 / 1024;

	return cwnd_after > 2 ? cwnd_after : 2;
}

static __always_inline void repair(struct tcp_sock *tp, struct cubic *ca)
{
	u32 before = repair_cwnd(tp, ca->highest);

	if (before)
		tp->snd_ssthresh = reduced(before);
}

static __always_inline void update_cwnd(struct sock *sk, struct tcp_sock *tp, struct cubic *ca, u32 acked,
					u32 lower, u32 upper)
{
	u32 cwnd = tp->snd_cwnd, count;

	if (upper && cwnd > upper) {
		/* Shrink by the segments acknowledged: the data in flight stays within the
		 * window. */
		set_cwnd(tp, ca, cwnd - upper > acked ? cwnd - acked : upper);
		ca->epoch_start = 0;
		return;
	}
	/* Pacing left behind by BBR ends when the window is full: ending it earlier would send the
	 * rest of the window in one burst. */
	if (ca->paced && BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited)) {
		ca->paced = 0;
		if (was_paced(sk))
			sk->sk_pacing_status = SK_PACING_NONE;
	}
	/* As tcp_is_cwnd_limited(). */
	if (!BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited) &&
	    !(in_slow_start(tp) && cwnd < 2 * tp->max_packets_out))
		return;
	if (ca->after_timeout && !in_slow_start(tp))
		ca->after_timeout = 0;
	if (cwnd < lower && !ca->after_timeout &&
	    BPF_CORE_READ_BITFIELD(&tp->inet_conn, icsk_ca_state) == TCP_CA_Open &&
	    !under_persistent_loss(tp, ca, lower)) {
		/* Grow by the segments acknowledged, as in slow start: never a burst of more than
		 * twice that. */
		set_cwnd(tp, ca, lower - cwnd > acked ? cwnd + acked : lower);
		ca->epoch_start = 0;
		return;
	}
	if (in_slow_start(tp)) {
		/* As tcp_slow_start(). */
		u32 grown = cwnd + acked < tp->snd_ssthresh ? cwnd + acked : tp->snd_ssthresh;
		if (upper && grown > upper)
			grown = upper;
		acked -= grown - cwnd;
		set_cwnd(tp, ca, grown);
		if (!acked || grown == upper)
			return;
		cwnd = tp->snd_cwnd;
	}
	if (upper && cwnd >= upper) {
		ca->epoch_start = 0;
		return;
	}
	cubic_update(ca, cwnd, acked);
	/* As tcp_cong_avoid_ai(). */
	count = tp->snd_cwnd_cnt;
	if (count >= ca->count) {
		count = 0;
		cwnd++;
	}
	count += acked;
	if (count >= ca->count && ca->count) {
		u32 more = count / ca->count;
		count -= more * ca->count;
		cwnd += more;
	}
	tp->snd_cwnd_cnt = count;
	if (upper && cwnd > upper)
		cwnd = upper;
	set_cwnd(tp, ca, cwnd);
}

SEC("struct_ops")
void BPF_PROG(yuzuri_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct cubic *ca = state_of(sk);
	u32 lower, upper, burst;

	repair(tp, ca);
	bound_of(sk, &lower, &upper, &burst);
	set_pacing(sk, ca, burst);
	update_cwnd(sk, tp, ca, acked, lower, upper);
	report_bound(ca, upper && tp->snd_cwnd >= upper);
}

/* The minimum number of segments per TSO burst (`tcp_tso_autosize()`), which pacing sends at
 * once. */
SEC("struct_ops")
u32 BPF_PROG(yuzuri_min_tso_segs, struct sock *sk)
{
	u32 burst = state_of(sk)->burst;

	return burst > DEFAULT_TSO_SEGS ? burst : DEFAULT_TSO_SEGS;
}

/* ---- loss ------------------------------------------------------------------------------------ */

/* Whether to spare the window: this reduction responds to a loss that a sender may attribute to the
 * link, and user space has requested it for the flow. The kernel leaves 0 in prior_ssthresh if the
 * reduction cannot be undone because congestion was reported: at an ECN echo, and if a local queue
 * dropped a packet (tcp_enter_cwr(), tcp_enter_recovery()). */
static __always_inline bool skips_decrease(struct sock *sk, struct cubic *ca)
{
	struct bound *bound;

	if (!tcp_sk(sk)->prior_ssthresh || ca->close_reductions >= PERSISTENT_REDUCTIONS)
		return false;
	bound = bound_report(sk);
	return bound && bpf_ktime_get_ns() < bound->no_decrease_expiry_ns;
}

SEC("struct_ops")
u32 BPF_PROG(yuzuri_ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct cubic *ca = state_of(sk);
	u32 cwnd, lower, upper, burst;

	repair(tp, ca);
	cwnd = tp->snd_cwnd;
	/* If a lower bound requires more, the losses must sustain that window. */
	bound_of(sk, &lower, &upper, &burst);
	if (!too_soon(tp->delivered - ca->reduction_delivered, cwnd > lower ? cwnd : lower))
		ca->close_reductions = 0;
	else if (ca->close_reductions < PERSISTENT_REDUCTIONS)
		ca->close_reductions++;
	ca->reduction_delivered = tp->delivered;
	ca->epoch_start = 0;
	if (cwnd < ca->last_max && fast_convergence)
		ca->last_max = cwnd * (1024 + beta_1024) / 2048;
	else
		ca->last_max = cwnd;
	ca->decrease_skipped = skips_decrease(sk, ca);
	if (no_decrease || ca->decrease_skipped)
		return cwnd > 2 ? cwnd : 2;
	report_bound(ca, false);
	return reduced(cwnd);
}

SEC("struct_ops")
void BPF_PROG(yuzuri_set_state, struct sock *sk, u8 state)
{
	struct cubic *ca = state_of(sk);

	if (state == TCP_CA_Loss) {
		cubic_reset(ca);
		hystart_reset(tcp_sk(sk), ca);
		ca->after_timeout = 1;
		report_bound(ca, false);
		/* A timeout is stronger evidence than a loss: a window spared just now, or in the
		 * previous recovery, is reduced. */
		if (ca->decrease_skipped)
			tcp_sk(sk)->snd_ssthresh = reduced(tcp_sk(sk)->snd_ssthresh);
		ca->decrease_skipped = 0;
	} else if (state < TCP_CA_CWR) {
		ca->decrease_skipped = 0;
	}
}

SEC("struct_ops")
u32 BPF_PROG(yuzuri_undo_cwnd, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct cubic *ca = state_of(sk);

	/* The loss was spurious. */
	if (ca->close_reductions)
		ca->close_reductions--;
	/* As tcp_reno_undo_cwnd(). */
	return tp->snd_cwnd > tp->prior_cwnd ? tp->snd_cwnd : tp->prior_cwnd;
}

/* ---- HyStart --------------------------------------------------------------------------------- */

#define HYSTART_LOW_WINDOW 16
#define HYSTART_ACK_DELTA_US 2000
#define HYSTART_SAMPLES 8

static __always_inline void hystart_update(struct sock *sk, struct tcp_sock *tp, struct cubic *ca, u32 delay_us)
{
	u32 now_us = (u32)tp->tcp_mstamp, threshold, cwnd = tp->snd_cwnd;

	if ((s32)(ca->end_seq - tp->snd_una) < 0)
		hystart_reset(tp, ca);
	if (cwnd < HYSTART_LOW_WINDOW)
		return;
	/* ACKs that arrive in a train longer than half the minimum RTT: the path is full. */
	if ((s32)(now_us - ca->last_ack_us) <= HYSTART_ACK_DELTA_US) {
		unsigned long rate = sk->sk_pacing_rate;
		u64 gso_us = rate ? 4ull * 65536 * 1000000 / rate : 0;

		ca->last_ack_us = now_us;
		threshold = ca->delay_min_us + (u32)(gso_us < 1000 ? gso_us : 1000);
		/* Pacing spreads a window over half the round trip. */
		if (sk->sk_pacing_status == SK_PACING_NONE)
			threshold >>= 1;
		if ((s32)(now_us - ca->round_start_us) > (s32)threshold) {
			ca->found = 1;
			tp->snd_ssthresh = cwnd;
		}
	}
	/* The round's minimum delay rose by an eighth, within 4 and 16 ms. */
	if (ca->current_rtt_us > delay_us)
		ca->current_rtt_us = delay_us;
	if (ca->samples < HYSTART_SAMPLES) {
		ca->samples++;
	} else {
		u32 rise = ca->delay_min_us >> 3;
		rise = rise < 4000 ? 4000 : rise > 16000 ? 16000 : rise;
		if (ca->current_rtt_us > ca->delay_min_us + rise) {
			ca->found = 1;
			tp->snd_ssthresh = cwnd;
		}
	}
}

SEC("struct_ops")
void BPF_PROG(yuzuri_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct cubic *ca = state_of(sk);
	u32 delay_us;

	/* During a recovery none of our other programs runs. */
	repair(tp, ca);
	if (sample->rtt_us < 0)
		return;
	/* Right after a reduction the queue drains: its delay does not measure the path. */
	if (ca->epoch_start && (s32)(jiffies32() - ca->epoch_start) < (s32)hz)
		return;
	delay_us = sample->rtt_us ? sample->rtt_us : 1;
	if (!ca->delay_min_us || ca->delay_min_us > delay_us)
		ca->delay_min_us = delay_us;
	if (hystart && !ca->found && in_slow_start(tp))
		hystart_update(sk, tp, ca, delay_us);
}

/* ---- registration ---------------------------------------------------------------------------- */

SEC(".struct_ops.link")
struct tcp_congestion_ops yuzuri = {
    .init = (void *)yuzuri_init,
    .ssthresh = (void *)yuzuri_ssthresh,
    .cong_avoid = (void *)yuzuri_cong_avoid,
    .set_state = (void *)yuzuri_set_state,
    .undo_cwnd = (void *)yuzuri_undo_cwnd,
    .cwnd_event = (void *)yuzuri_cwnd_event,
    .pkts_acked = (void *)yuzuri_pkts_acked,
    .min_tso_segs = (void *)yuzuri_min_tso_segs,
    .name = "yuzuri",
};
