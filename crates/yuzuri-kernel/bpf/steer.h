/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * The interface between the steering's programs and user space, and the parts of uapi that those
 * programs need.
 */
#ifndef YUZURI_STEER_H
#define YUZURI_STEER_H

#include "kernel.h"

/* ---- between user space and the programs ----------------------------------------------------- */

/* What a walk does besides reporting. */
enum mode {
	MODE_OBSERVE,
	MODE_MIGRATE,      /* migrates flows to our congestion control */
	MODE_MIGRATE_BACK, /* migrates them back, and takes no new ones */
};

/* Whether a flow is under our congestion control, and if not, why. */
enum control_state {
	CONTROL_DEFAULT,  /* it has the namespace's default and could be migrated */
	CONTROL_MIGRATED, /* we migrated it to ours */
	CONTROL_OURS,     /* it has ours by its program's choice, its route's or the sysctl's */
	CONTROL_CHOSEN,   /* its program chose another */
	CONTROL_LOCKED,   /* its route does */
	CONTROL_OTHER,    /* not the default, and not its program's choice: by its route, or an
			      earlier default */
	CONTROL_REFUSED,  /* the kernel refused to migrate it */
};

enum flag {
	FLAG_APP_LIMITED = 1,      /* tp->app_limited */
	FLAG_RATE_APP_LIMITED = 2, /* tp->rate_app_limited */
	FLAG_CWND_LIMITED = 4,     /* tp->is_cwnd_limited */
	FLAG_PACED = 8,            /* sk->sk_pacing_status */
	FLAG_IDLE = 16,            /* not reported again until something happens, or all are requested */
};

/* A flow, as the iterator writes it. Addresses are IPv6 addresses in network order; IPv4 addresses
 * are mapped. */
struct steer_record {
	u64 cookie;
	u64 netns_cookie;
	u64 bytes_acked;
	u32 local[4];
	u32 remote[4];
	char control[TCP_CA_NAME_MAX];
	char former[TCP_CA_NAME_MAX];
	u32 mss;
	u32 cwnd;
	u32 ssthresh;
	u32 packets_out;
	u32 sacked_out;
	u32 lost_out;
	u32 retrans_out;
	u32 srtt_us;
	u32 min_rtt_us;
	u32 delivered;
	u32 lost;
	u32 total_retrans;
	u32 sndbuf;
	u32 snd_wnd;
	u32 unsent;
	s32 refused; /* errno, negative */
	u16 local_port;
	u16 remote_port;
	u8 state;
	u8 ca_state;
	u8 control_state;
	u8 flags;
};

#define MAX_PREFIXES 64

struct prefix {
	u32 address[4]; /* masked */
	u32 mask[4];
};

/* The flows in scope, by their local address. No prefix: all. Flows over loopback are never in
 * scope. */
struct scope {
	u32 count;
	struct prefix prefixes[MAX_PREFIXES];
};

/* ---- uapi ------------------------------------------------------------------------------------ */

enum {
	BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB = 4,
	BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB = 5,
};

#define SOL_TCP 6
#define TCP_CONGESTION 13
#define TCP_BPF_IW 1001
#define TCP_INIT_CWND 10

/* uapi: no relocation. */
struct bpf_sock;

struct bpf_sock_ops {
	__u32 op;
	union {
		__u32 args[4];
		__u32 reply;
		__u32 replylong[4];
	};
	__u32 family;
	__u32 remote_ip4;
	__u32 local_ip4;
	__u32 remote_ip6[4];
	__u32 local_ip6[4];
	__u32 remote_port;
	__u32 local_port;
	__u32 is_fullsock;
	__u32 snd_cwnd;
	__u32 srtt_us;
	__u32 bpf_sock_ops_cb_flags;
	__u32 state;
	__u32 rtt_min;
	__u32 snd_ssthresh;
	__u32 rcv_nxt;
	__u32 snd_nxt;
	__u32 snd_una;
	__u32 mss_cache;
	__u32 ecn_flags;
	__u32 rate_delivered;
	__u32 rate_interval_us;
	__u32 packets_out;
	__u32 retrans_out;
	__u32 total_retrans;
	__u32 segs_in;
	__u32 data_segs_in;
	__u32 segs_out;
	__u32 data_segs_out;
	__u32 lost_out;
	__u32 sacked_out;
	__u32 sk_txhash;
	__u64 bytes_received;
	__u64 bytes_acked;
	union {
		struct bpf_sock *sk;
		__u64 : 64;
	} __attribute__((aligned(8)));
};

#endif
