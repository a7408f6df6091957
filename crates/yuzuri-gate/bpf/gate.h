/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * The interface between the gate's programs and user space. "Station" is the side whose uploads are
 * bounded, "server" the other one; "down" is towards the station. Nothing here depends on the
 * kernel's own types, so the programs load on kernels without BTF.
 */
#ifndef YUZURI_GATE_H
#define YUZURI_GATE_H

#include "types.h"

/* An address of IPv6 in network order; one of IPv4 as ::ffff:a.b.c.d. */
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

/* The bound on a connection's flight. Only user space writes it: the programs keep no state in
 * entries that user space writes. */
struct bound {
	u64 until_ns; /* of the kernel's monotonic clock; expired: as if there were none */
	u32 bytes;    /* 0: not bounded, and no default looked for */
	u32 thin;     /* ACKs of fewer bytes than this may be dropped; 0: none is */
};

#define FLOW_STATION_SYN 1 /* the station's SYN was seen */
#define FLOW_SERVER_SYN 2  /* the server's was */
#define FLOW_KNOWN 4       /* the SYN-ACK was seen, too: the window's scale is known */
#define FLOW_FOREIGN 8     /* never touched: MPTCP, a signed header, or a handshake that is not clear */
#define FLOW_CLOSED 16     /* a RST was seen */
#define FLOW_DATA 32       /* up_end holds */
#define FLOW_STAMPS 64     /* RFC 7323 time stamps were seen */

/* The state of a connection. */
struct flow {
	/* The highest right edge that the station was advertised (sequence number), and EDGE_KNOWN.
	 * CPUs that handle ACKs of one connection at a time change it by compare-and-exchange. */
	u64 right_edge;
	u64 first_ns;
	u64 last_ns;
	u64 acked_bytes;       /* acknowledged to the station since the handshake */
	u64 up_bytes;          /* payload that came up, repetitions included */
	u64 up_segments;       /* packets with payload that came up, as the kernel merged them */
	u64 repeated_segments; /* of these, such with nothing new */
	u64 lowered;           /* ACKs whose window the gate lowered */
	u64 passed;            /* ACKs whose window it left */
	u64 thinned;           /* ACKs that it left out */
	u64 wire_sum_us;       /* round-trip times between here and the server */
	u64 air_sum_us;        /* between here and the station, its own queue included */
	u64 quiet_sum_ns;      /* between an ACK of all that had come up and the next data */
	u64 quiet_ns;          /* since when that lasts; 0: data is in flight */
	u64 wire_sent_ns;      /* 0: nothing is being timed */
	u64 air_sent_ns;
	u64 ack_ns;     /* when an ACK went down last */
	u64 recover;    /* what had come up at the last sign of a loss (RFC 6675's RecoveryPoint), and
			   RECOVERS; 0: all of it is acknowledged */
	u64 wire_other; /* what had passed up that no window bounds, when what is being timed passed, bytes */
	u64 arrived_other; /* the part of it that had arrived when the last measurement ended, ... */
	u64 arrived_ns;    /* which was then; 0: none did */
	u32 wire_samples;
	u32 wire_min_us;
	u32 air_samples;
	u32 air_min_us;
	u32 wire_end;   /* the ACK that ends the measurement acknowledges this */
	u32 air_mark;   /* the time stamp that the segment which ends it echoes; without stamps the edge beyond
			   which it goes */
	u32 stamp;      /* the server's last time stamp */
	u32 ack;        /* the highest that came from the server */
	u32 ack_down;   /* the highest that went down */
	u32 up_end;     /* the highest sequence number that came up */
	u32 advertised; /* the window that went down last, bytes */
	u32 offered;    /* the window that the server sent */
	u32 quiets;     /* intervals in quiet_sum_ns */
	/* The least that the station left unused of its window, bytes, in this period and in the
	 * one before. */
	u32 room;
	u32 room_before;
	u32 room_period;
	u32 iss;      /* the initial sequence number of the side that opened */
	u32 syn_ack;  /* that of the other */
	u16 syn_data; /* bytes in the SYN (TCP Fast Open) */
	u16 mss;      /* what the server accepts, bytes; 0: not announced */
	u8 flags;     /* FLOW_ */
	u8 scale;     /* of the windows that go down */
	u8 opener_scale;
	u8 answer_scale;
	u8 mac[6]; /* the station's, or of what stands before it */
	u16 unused;
};

#define PERIOD_SHIFT 29 /* a period is 2^29 ns, 0.54 s */
#define ROOM_UNKNOWN 0xffffffff

#define EDGE_KNOWN (1ULL << 32)
#define RECOVERS (1ULL << 32)

/* A station with traffic that no window bounds (QUIC and other UDP, tunnels), by its hardware
 * address. */
struct mac {
	u8 address[6];
	u16 zero;
};

/* The rate limit for that traffic. Written only by user space. */
struct rate {
	u64 until_ns;    /* expired: as much as it wants */
	u64 bytes_per_s; /* IP packets, headers included */
};

/* The token bucket for that traffic. */
struct bucket {
	u64 filled_ns;
	s64 tokens;  /* bytes; below 0: a debt */
	u64 last_ns; /* the last packet */
	u64 bytes;
	u64 packets;
	u64 marked; /* packets that passed with a mark of congestion */
	u64 dropped;
	u64 all_passed; /* what had passed of all stations after its last packet that did, bytes */
};

/* The programs' counters; indices into `counts`. */
enum count {
	COUNT_DOWN,     /* TCP segments towards stations */
	COUNT_UP,       /* from stations */
	COUNT_LOWERED,  /* windows lowered */
	COUNT_STRANGER, /* segments down of connections whose beginning was not seen */
	COUNT_FOREIGN,  /* segments down of connections that are never touched */
	COUNT_FAILED,   /* windows that could not be written: the packet went on as it was */
	COUNT_THINNED,  /* ACKs left out */
	COUNT_OTHER,    /* packets from stations that no window bounds */
	COUNT_MARKED,   /* of these, marked */
	COUNT_DROPPED,  /* dropped */
	COUNT_BYTES,    /* all that came from stations, frames, bytes */
	COUNTS,
};

#endif
