/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * The only definition of the records between kernel and user space. The Rust side uses the types
 * that the build derives from this header's BTF, and asserts their sizes.
 */
#ifndef YUZURI_EVENT_H
#define YUZURI_EVENT_H

enum record_kind {
	RECORD_ACK = 1,   /* state at tcp_probe */
	RECORD_STATE = 2, /* ca_state set */
	RECORD_RETRANSMIT = 3,
	RECORD_OPEN = 4,
	RECORD_CLOSE = 5,
	RECORD_FLOW = 6, /* struct flow_record: identity */
	RECORD_MARK = 7, /* one of EVENT_MARKS, where the hook's own record cannot carry it */
};

/* The counters, by hook. */
enum hook {
	HOOK_ACK,
	HOOK_STATE,
	HOOK_RETRANSMIT,
	HOOK_SOCKET,
	HOOK_FLOW, /* not a hook: identity records, written by any of the others */
	HOOKS,
};

/* The first six are the bits of yuzuri_trace::Marks; from 0x100 on, that crate represents them
 * differently. */
enum mark {
	MARK_DUP_ACK = 1,
	MARK_SACK = 2,
	MARK_DSACK = 4,
	MARK_ECE = 8,
	MARK_APP_LIMITED = 16,
	MARK_SSTHRESH = 32,
	/* These two are also bits of yuzuri_trace::Marks, four higher there. */
	MARK_AT_BOUND = 0x40,      /* the window is at the window control's upper bound */
	MARK_REPORTS_BOUND = 0x80, /* the flow is under the window control, which reports that */
	MARK_UNDO = 0x100,         /* undo_marker was reset: a reduction was undone */
	MARK_REORDERING = 0x200,   /* reord_seen grew */
	MARK_CONTROL = 0x400,      /* the congestion control has changed */
	MARK_AFTER_RTO = 0x800,    /* first retransmission after the timer set Loss */
	MARK_RENEGING = 0x1000,    /* is_sack_reneg */
	/* From here on these are bits of yuzuri_trace::Marks again, six lower there. */
	MARK_NO_SPACE = 0x2000,     /* SOCK_NOSPACE, if all is sent and over half of the buffer used */
	MARK_CWND_LIMITED = 0x4000, /* is_cwnd_limited */
	MARK_THROTTLED = 0x8000,    /* TSQ_THROTTLED */
};

/* Marks that are events of their own; a record carries one. */
#define EVENT_MARKS (MARK_UNDO | MARK_REORDERING | MARK_CONTROL)

enum role {
	ROLE_UNKNOWN,
	ROLE_OPENED,
	ROLE_ACCEPTED,
};

#define NO_STACK 0xffffffffu
#define RECORD_BYTES 160

/* A sample or event. Both records have RECORD_BYTES, so slots need no length. Programs write them
 * directly into the ring buffer's slot; `seq` is written last and publishes the rest. */
struct event_record {
	__u64 mono_ns;
	__u64 cookie;
	__u64 bytes_acked;
	__u64 bytes_received;
	__u64 pacing_rate; /* bytes per second */
	__u32 snd_cwnd;
	__u32 snd_ssthresh;
	__u32 srtt_us; /* not shifted: eighths */
	__u32 mdev_us; /* not shifted: quarters */
	__u32 min_rtt_us;
	__u32 packets_out;
	__u32 sacked_out;
	__u32 lost_out;
	__u32 retrans_out;
	__u32 snd_wnd;
	__u32 rcv_wnd;
	__u32 wmem_queued;
	__u32 notsent;
	__u32 rate_delivered;
	__u32 rate_interval_us;
	__u32 total_retrans;
	__u32 sndbuf;
	__u32 wmem_alloc;
	__u32 outstanding; /* bytes */
	__u32 max_window;
	__u32 prior_cwnd;
	__u32 pacing_wait_us;
	__u16 mss;
	__u16 reordering;
	__u32 stack;   /* key in `stacks`, or NO_STACK; RECORD_CLOSE: sk_err; RECORD_OPEN: nothing */
	__u32 room[2]; /* for later fields; neither written nor read */
	__u8 kind;
	__u8 ca_state; /* RECORD_STATE: the new one; RECORD_OPEN: enum role */
	__u8 ca_before;
	__u8 dsacks;
	__u16 marks;
	__u16 acks;
	__u16 dup_acks;
	__u16 sacks;
	__u32 seq;
};

/* The identity of a flow. `kind` and `seq` are at the same offsets as in struct event_record. */
struct flow_record {
	__u64 mono_ns;
	__u64 cookie;
	__u8 local[16]; /* IPv4 as ::ffff:a.b.c.d */
	__u8 remote[16];
	__u64 cgroup;
	__u64 inode;
	__u32 netns;
	__u32 pid; /* 0: not known yet */
	char name[16];
	char control[15]; /* without the NUL of a name of TCP_CA_NAME_MAX - 1 characters */
	__u8 undecided;   /* the filter selects by owner, which is not known yet */
	__u16 local_port; /* host order */
	__u16 remote_port;
	__u32 spare[9];
	__u8 kind;
	__u8 role;
	__u8 pad[2];
	__u32 spare2;
	__u32 spare3;
	__u32 seq;
};

_Static_assert(sizeof(struct event_record) == RECORD_BYTES, "of whole words");
_Static_assert(sizeof(struct flow_record) == RECORD_BYTES, "as struct event_record");
_Static_assert(__builtin_offsetof(struct event_record, kind) == __builtin_offsetof(struct flow_record, kind),
	       "");
_Static_assert(__builtin_offsetof(struct event_record, seq) == __builtin_offsetof(struct flow_record, seq), "");

struct hook_counters {
	__u64 selected;    /* runs for selected flows */
	__u64 thinned;     /* of these: merged into a later sample */
	__u64 lost_ring;   /* of these: no room in the ring */
	__u64 lost_memory; /* no memory for the flow's state */
};

/* One per CPU, shared with user space by mmap. The producer writes `head` and the counters, the
 * reader `tail`; each has its own cache lines. */
struct ring_control {
	__u64 head;
	__u64 merged; /* runs for chosen flows that only counted a segment into a later sample; not in any
			 hook's counters */
	__u64 pad[6];
	struct hook_counters hooks[HOOKS];
	/* Unlike the hooks' counters, these are written by all programs, atomically. */
	__u64 undecided;  /* hook runs for flows that cannot be decided yet, since their process is not
			     known; one CPU subtracts what another added, so only the sum over all CPUs is
			     valid */
	__u64 lost_owner; /* such runs, for flows that turned out to be selected */
	__u64 lost_stack; /* stacks for which `stacks` had no room; their records have no stack */
	__u64 pad2[1];
	__u64 tail;
	__u64 pad3[7];
};

_Static_assert(sizeof(struct ring_control) == 320, "whole cache lines");

/* A slot of the ring buffer. */
union record {
	struct event_record event;
	struct flow_record flow;
};

#define MAX_TERMS 8 /* yuzuri_trace::Filter::MAX_TERMS */

struct port_term {
	__u16 port;
	__u8 end; /* 0 either, 1 local, 2 remote */
	__u8 pad;
};

struct prefix_term {
	__u32 addr[4];
	__u32 mask[4];
	__u8 end;
	__u8 pad[3];
};

/* The configuration. User space writes the terms first and `generation` last; flows decided under
 * an older generation are decided again at their next event. */
struct config {
	__u64 interval_ns; /* 0: every ACK */
	__u32 generation;
	__u8 ports, prefixes, pids, names, cgroups, netns;
	__u8 pad[6];
	struct port_term port[MAX_TERMS];
	struct prefix_term prefix[MAX_TERMS];
	__u32 pid[MAX_TERMS];
	char name[MAX_TERMS][16];
	__u64 cgroup[MAX_TERMS];
	__u32 ns[MAX_TERMS];
};

/* Owners that user space found in /proc, by socket cookie. */
struct owner {
	__u32 pid;
	char name[16];
};

#endif
