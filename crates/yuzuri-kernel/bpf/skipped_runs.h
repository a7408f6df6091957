/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * If the kernel skips our programs (a hardened kernel for packets that interrupt a process that it
 * shields, a kernel before 6.1 for a program that interrupts itself), it uses uninitialized stack
 * memory as their result: a random window. The congestion control detects and repairs that at its
 * next run.
 */
#ifndef YUZURI_SKIPPED_RUNS_H
#define YUZURI_SKIPPED_RUNS_H

#include "kernel.h"
#include <bpf/bpf_helpers.h>

/* Only the initial window of `TCP_BPF_IW` may raise the window beyond its previous size. */
#define MAX_INITIAL 100 /* `SteerOptions::MAX_INITIAL` */

/* The largest legitimate window or ssthresh of a flow that comes under a congestion control. */
static __always_inline u32 highest_at_init(const struct tcp_sock *tp)
{
	u32 ssthresh = tp->snd_ssthresh;

	return ssthresh < TCP_INFINITE_SSTHRESH && ssthresh > tp->snd_cwnd ? ssthresh : tp->snd_cwnd;
}

/* `highest`: the largest legitimate window or ssthresh so far. */
static __always_inline bool is_random(u32 highest, u32 segments)
{
	return segments > 2 * (u64)highest + MAX_INITIAL;
}

/* Replaces a random window by the previous one. Returns 0, or the previous window if ssthresh is
 * random, too: then the algorithm has to compute it. */
static __always_inline u32 repair_cwnd(struct tcp_sock *tp, u32 highest)
{
	u32 before = tp->prior_cwnd && tp->prior_cwnd < highest ? tp->prior_cwnd : highest;
	u32 ssthresh = tp->snd_ssthresh;

	if (is_random(highest, tp->snd_cwnd))
		tp->snd_cwnd = before;
	return ssthresh != TCP_INFINITE_SSTHRESH && is_random(highest, ssthresh) ? before : 0;
}

#endif
