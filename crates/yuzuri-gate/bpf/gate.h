/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * The interface between the gate's programs and user space. "Station" is the side whose uploads are
 * bounded, "server" the other one; "down" is towards the station. Nothing here depends on the
 * kernel's own types, so the programs load on kernels without BTF.
 */
#ifndef YUZURI_GATE_H
#define YUZURI_GATE_H

#include "types.h"

/* An IPv6 address in network order; IPv4 as ::ffff:a.b.c.d. */
struct station {
	u8 address[16];
};

/* A connection. Ports in network order. */
struct flow_key {
	struct station station;
	struct station server;
	u16 station_port;
	u16 server_port;
};

/* The bound on a connection's bytes in flight. Only user space writes it: the programs keep no
 * state in entries that user space writes. */
struct bound {
	u64 until_ns; /* kernel's monotonic clock; an expired bound has no effect */
	u32 bytes;    /* 0: not bounded, not even by a default */
	u32 thin;     /* ACKs of fewer bytes may be dropped; 0: none */
};

#define FLOW_STATION_SYN 1    /* the station's SYN was seen */
#define FLOW_SERVER_SYN 2     /* the server's SYN was seen */
#define FLOW_KNOWN 4          /* the SYN-ACK was seen, too: the window's scale is known */
#define FLOW_NEVER_MODIFIED 8 /* never modified: MPTCP, a signed header, or an ambiguous handshake */
#define FLOW_CLOSED 16        /* a RST was seen */
#define FLOW_DATA 32          /* up_end is valid */
#define FLOW_STAMPS 64        /* RFC 7323 timestamps were seen */

/* The state of a connection. */
struct flow {
	/* The highest right edge that the station was advertised (sequence number), and EDGE_KNOWN.
	 * CPUs that handle ACKs of one connection concurrently change it by
	 * compare-and-exchange. */
	u64 right_edge;
	u64 first_ns;
	u64 last_ns;
	u64 acked_bytes;       /* acknowledged to the station since the handshake */
	u64 up_bytes;          /* payload from the station, with retransmissions */
	u64 up_segments;       /* packets with payload from the station, as merged by GRO */
	u64 repeated_segments; /* of these, packets without new data */
	u64 beyond_edge;       /* new payload beyond the right edge, bytes */
	u64 lowered;           /* ACKs whose window the gate lowered */
	u64 passed;            /* ACKs whose window the gate left unchanged */
	u64 thinned;           /* ACKs that the gate dropped */
	u64 wire_sum_us;       /* sum of round-trip times between gate and server */
	u64 air_sum_us;        /* between gate and station, with the station's queue */
	u64 quiet_sum_ns;      /* time from an ACK of everything to the next data */
	u64 quiet_ns;          /* start of the current such pause; 0: data is in flight */
	u64 wire_sent_ns;      /* 0: nothing is being timed */
	u64 air_sent_ns;
	u64 ack_ns; /* time of the last ACK to the station */
	/* Bytes that the server acknowledged in ACKs that were dropped, times how long the station
	 * waited for an ACK of them: byte microseconds. */
	u64 waited_byte_us;
	u64 counted_ns; /* the time up to which these waits are counted: the server's last ACK */
	u64 recover;    /* RecoveryPoint (RFC 6675): up_end at the last sign of a loss, and RECOVERS; 0: none */
	u64 wire_other; /* traffic without a window that passed before the timed segment, bytes */
	u64 arrived_other; /* the part of it that had arrived at arrived_ns */
	u64 arrived_ns;    /* end of the last measurement; 0: none ended */
	u32 wire_samples;
	u32 wire_min_us;
	u32 air_samples;
	u32 air_min_us;
	u32 wire_end;   /* the ACK that ends the measurement acknowledges this */
	u32 air_mark;   /* timestamp that the ending segment echoes, or the edge that it exceeds */
	u32 stamp;      /* the server's last timestamp */
	u32 ack;        /* highest acknowledgement from the server */
	u32 ack_down;   /* highest acknowledgement to the station */
	u32 up_end;     /* highest sequence number from the station */
	u32 advertised; /* last window to the station, bytes */
	u32 offered;    /* the server's window in that segment */
	u32 quiets;     /* intervals in quiet_sum_ns */
	/* Minimum unused part of the station's window, bytes, in this period and in the previous
	 * one. */
	u32 room;
	u32 room_before;
	u32 room_period;
	u32 iss;      /* the initial sequence number of the side that opened */
	u32 syn_ack;  /* that of the other side */
	u16 syn_data; /* bytes in the SYN (TCP Fast Open) */
	u16 mss;      /* the server's MSS, bytes; 0: not announced */
	u8 flags;     /* FLOW_ */
	u8 scale;     /* of windows to the station */
	u8 opener_scale;
	u8 answer_scale;
	u8 mac[6]; /* the station's, or that of a device in front of it */
	u16 unused;
};

#define PERIOD_SHIFT 29 /* a period is 2^29 ns, 0.54 s */
#define ROOM_UNKNOWN 0xffffffff

#define EDGE_KNOWN (1ULL << 32)
#define RECOVERS (1ULL << 32)

/* A station with traffic without a window (QUIC and other UDP, tunnels), by its hardware
 * address. */
struct mac {
	u8 address[6];
	u16 zero;
};

/* The rate limit for that traffic. Written only by user space. */
struct rate {
	u64 until_ns;    /* expired: unlimited */
	u64 bytes_per_s; /* IP packets, headers included */
};

/* The token bucket for that traffic. */
struct bucket {
	u64 filled_ns;
	s64 tokens;  /* bytes; below 0: a debt */
	u64 last_ns; /* the last packet */
	u64 bytes;
	u64 packets;
	u64 marked; /* packets that passed with a congestion mark (CE) */
	u64 dropped;
	u64 all_passed; /* bytes of all stations just after its last packet passed */
};

/* The programs' counters; indices into `counts`. */
enum count {
	COUNT_DOWN,              /* TCP segments towards stations */
	COUNT_UP,                /* from stations */
	COUNT_LOWERED,           /* windows lowered */
	COUNT_UNKNOWN_HANDSHAKE, /* segments to stations of connections whose handshake was not seen */
	COUNT_NEVER_MODIFIED,    /* segments to stations of connections that are never modified */
	COUNT_FAILED,            /* windows that could not be written: the packet passed unchanged */
	COUNT_THINNED,           /* ACKs dropped as redundant */
	COUNT_OTHER,             /* packets from stations without a TCP window */
	COUNT_MARKED,            /* of these, marked */
	COUNT_DROPPED,           /* dropped */
	COUNT_BYTES,             /* all frames from stations, bytes */
	COUNTS,
};

#endif
