/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * The kernel's types as far as our programs use them, for all objects. Offsets are relocated at
 * load time by the running kernel's BTF (CO-RE), so one object serves every kernel since 5.19.
 * Order and gaps here do not matter, and unused fields cost nothing.
 */
#ifndef YUZURI_KERNEL_H
#define YUZURI_KERNEL_H

#include "types.h"

#define NULL ((void *)0)

/* Values from uapi/linux/bpf.h that the helpers' header does not define. */
enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_STACK_TRACE = 7,
	BPF_MAP_TYPE_SK_STORAGE = 24,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_RB_FORCE_WAKEUP = 2,
	BPF_F_NO_PREALLOC = 1,
	BPF_F_MMAPABLE = 1024,
	BPF_SK_STORAGE_GET_F_CREATE = 1,
};

#define AF_INET 2
#define AF_INET6 10
#define LOOPBACK_IFINDEX 1
#define EEXIST 17

enum {
	TCP_ESTABLISHED = 1,
	TCP_SYN_SENT = 2,
	TCP_SYN_RECV = 3,
	TCP_FIN_WAIT1 = 4,
	TCP_CLOSE = 7,
	TCP_CLOSE_WAIT = 8,
	TCP_LAST_ACK = 9,
	TCP_LISTEN = 10,
	TCP_CLOSING = 11,
};
enum { TCP_CA_Open, TCP_CA_Disorder, TCP_CA_CWR, TCP_CA_Recovery, TCP_CA_Loss };
enum tcp_ca_event { CA_EVENT_TX_START };
enum { SK_PACING_NONE, SK_PACING_NEEDED };

#define TCP_CA_NAME_MAX 16
#define TCP_INFINITE_SSTHRESH 0x7fffffff

#define SOCK_NOSPACE 2  /* bit number in struct socket's flags */
#define TSQ_THROTTLED 0 /* and in sk_tsq_flags */
#define TSQ_QUEUED 1    /* there is room again, and the softirq will send the held segments */

#define TCPHDR_FIN 0x01
#define TCPHDR_SYN 0x02
#define TCPHDR_RST 0x04
#define TCPHDR_ECE 0x40

#define TCP_ECN_OK 1 /* since 6.18 TCP_ECN_MODE_RFC3168: ECE as in RFC 3168, not a bit of AccECN's counter */

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct task_struct {
	char comm[16];
	struct task_struct *group_leader;
};

struct in6_addr {
	union {
		__u8 u6_addr8[16];
		__be32 u6_addr32[4];
	} in6_u;
};

struct ns_common {
	unsigned int inum;
};

struct ack_sample {
	u32 pkts_acked;
	s32 rtt_us;
	u32 in_flight;
};

struct sock;

struct tcp_congestion_ops {
	u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, u32 ack, u32 acked);
	void (*set_state)(struct sock *sk, u8 new_state);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event ev);
	void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample);
	char name[TCP_CA_NAME_MAX];
	u32 (*undo_cwnd)(struct sock *sk);
	void (*init)(struct sock *sk);
	u32 (*min_tso_segs)(struct sock *sk);
};

struct netns_ipv4 {
	const struct tcp_congestion_ops *tcp_congestion_control;
};

struct net {
	struct ns_common ns;
	u64 net_cookie;
	struct netns_ipv4 ipv4;
};

typedef struct {
	struct net *net;
} possible_net_t;

typedef struct {
	int counter;
} atomic_t;

typedef struct {
	s64 counter;
} atomic64_t;

struct sock_common {
	union {
		struct {
			__be32 skc_daddr;
			__be32 skc_rcv_saddr;
		};
	};
	union {
		struct {
			__be16 skc_dport;
			__u16 skc_num;
		};
	};
	unsigned short skc_family;
	volatile unsigned char skc_state;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
	atomic64_t skc_cookie;
};

struct kernfs_node {
	u64 id;
};

struct cgroup {
	int level;
	struct kernfs_node *kn;
	struct cgroup *ancestors[];
};

struct sock_cgroup_data {
	struct cgroup *cgroup;
};

struct inode {
	unsigned long i_ino;
};

struct socket {
	short type;
	unsigned long flags;
};

struct socket_alloc {
	struct socket socket;
	struct inode vfs_inode;
};

struct net_device {
	int ifindex;
};

struct dst_entry {
	struct net_device *dev;
};

typedef struct refcount_struct {
	atomic_t refs;
} refcount_t;

struct sock {
	struct sock_common __sk_common;
	struct socket *sk_socket;
	struct dst_entry *sk_dst_cache;
	int sk_wmem_queued;
	int sk_sndbuf;
	refcount_t sk_wmem_alloc;
	unsigned long sk_tsq_flags;
	int sk_err;
	unsigned long sk_pacing_rate;
	unsigned long sk_max_pacing_rate;
	u32 sk_pacing_status;
	struct sock_cgroup_data sk_cgrp_data;
};

struct inet_sock {
	struct sock sk;
	__be16 inet_sport;
};

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	const struct tcp_congestion_ops *icsk_ca_ops;
	__u8 icsk_ca_state : 5;
	__u8 icsk_ca_setsockopt : 1;
	__u8 icsk_ca_dst_locked : 1;
	u64 icsk_ca_priv[13];
};

struct minmax_sample {
	u32 t;
	u32 v;
};

struct minmax {
	struct minmax_sample s[3];
};

struct tcp_options_received {
	u16 snd_wscale : 4;
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	u16 tcp_header_len;
	u64 bytes_received;
	u64 bytes_acked;
	u64 tcp_clock_cache;
	u64 tcp_wstamp_ns;
	u64 tcp_mstamp;
	u32 snd_una;
	u32 snd_nxt;
	u32 snd_wnd;
	u32 max_window;
	u32 rcv_wnd;
	u32 write_seq;
	u32 mss_cache;
	u32 snd_cwnd;
	u32 snd_cwnd_cnt;
	u32 snd_cwnd_clamp;
	u32 snd_ssthresh;
	u32 srtt_us;
	u32 mdev_us;
	struct minmax rtt_min;
	u32 packets_out;
	u32 sacked_out;
	u32 lost_out;
	u32 retrans_out;
	u32 total_retrans;
	u32 delivered;
	u32 lost;
	u32 app_limited;
	u32 max_packets_out;
	u32 lsndtime;
	u32 reordering;
	u32 reord_seen;
	u32 undo_marker;
	u32 prior_cwnd;
	u32 prior_ssthresh;
	u32 rate_delivered;
	u32 rate_interval_us;
	u8 rate_app_limited : 1;
	u8 is_cwnd_limited : 1;
	u8 is_sack_reneg : 1;
	u8 ecn_flags;
	struct tcp_options_received rx_opt;
};

struct sk_buff {
	unsigned int len;
	unsigned char *data;
	char cb[48];
};

/* Only used as a type with a 64-bit field at offset 8. */
struct timespec64 {
	long tv_nsec;
};

struct tcp_skb_cb {
	__u32 seq;
	__u32 end_seq;
	__u8 tcp_flags;
	__u32 ack_seq;
};

/* A map of type BPF_MAP_TYPE_ARRAY; only the offset of its values is used. */
struct bpf_array {
	char value[8];
};

struct seq_file {
};

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__tcp {
	struct bpf_iter_meta *meta;
	struct sock_common *sk_common;
};

#pragma clang attribute pop

#endif
