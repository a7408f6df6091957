/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * The kernel's types as the congestion control needs them; CO-RE as kernel.h, whose fields the monitor reads.
 */
#ifndef YUZURI_CONTROL_H
#define YUZURI_CONTROL_H

#include "types.h"

enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_F_NO_PREALLOC = 1,
};
enum { TCP_CA_Open, TCP_CA_Disorder, TCP_CA_CWR, TCP_CA_Recovery, TCP_CA_Loss };
enum tcp_ca_event { CA_EVENT_TX_START };
#define TCP_INFINITE_SSTHRESH 0x7fffffff
enum { SK_PACING_NONE, SK_PACING_NEEDED };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct {
	s64 counter;
} atomic64_t;

struct sock_common {
	atomic64_t skc_cookie;
};

struct sock {
	struct sock_common __sk_common;
	unsigned long sk_pacing_rate;
	unsigned long sk_max_pacing_rate;
	u32 sk_pacing_status;
};

struct inet_sock {
	struct sock sk;
};

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	__u8 icsk_ca_state : 5;
	u64 icsk_ca_priv[13];
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	u64 tcp_mstamp;
	u32 snd_una;
	u32 snd_nxt;
	u32 snd_cwnd;
	u32 snd_cwnd_cnt;
	u32 snd_cwnd_clamp;
	u32 snd_ssthresh;
	u32 prior_cwnd;
	u32 prior_ssthresh;
	u32 delivered;
	u32 max_packets_out;
	u32 lsndtime;
	u8 is_cwnd_limited : 1;
};

struct ack_sample {
	u32 pkts_acked;
	s32 rtt_us;
	u32 in_flight;
};

struct tcp_congestion_ops {
	u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, u32 ack, u32 acked);
	void (*set_state)(struct sock *sk, u8 new_state);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event ev);
	void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample);
	char name[16];
	u32 (*undo_cwnd)(struct sock *sk);
	void (*init)(struct sock *sk);
	u32 (*min_tso_segs)(struct sock *sk);
};

#pragma clang attribute pop

#endif
