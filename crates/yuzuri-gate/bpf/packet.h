/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * Parses a packet as a TCP segment. Anything not understood to the last byte is rejected:
 * fragments, IPv6 extension headers, lengths that contradict each other.
 */
#ifndef YUZURI_GATE_PACKET_H
#define YUZURI_GATE_PACKET_H

#include "gate.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

/* uapi/linux/bpf.h: the context of a tc program, as far as it is used here. */
struct __sk_buff {
	u32 len;
	u32 before_data[18];
	u32 data;
	u32 data_end;
	u32 before_gso_size[23];
	u32 gso_size;
};
_Static_assert(__builtin_offsetof(struct __sk_buff, data) == 76, "as in uapi/linux/bpf.h");
_Static_assert(__builtin_offsetof(struct __sk_buff, gso_size) == 176, "as in uapi/linux/bpf.h");

#define ETH_HEADER 14
#define ETH_P_IP 0x0800
#define ETH_P_IPV6 0x86dd
#define ETH_P_8021Q 0x8100
#define ETH_P_8021AD 0x88a8
#define ETH_P_PPP_SES 0x8864
#define PPP_IP 0x0021
#define PPP_IPV6 0x0057
#define PROTO_IPIP 4
#define PROTO_TCP 6
#define PROTO_UDP 17
#define PROTO_DCCP 33
#define PROTO_IPV6 41
#define PROTO_GRE 47
#define PROTO_ESP 50
#define PROTO_AH 51
#define PROTO_L2TP 115
#define PROTO_SCTP 132
#define PROTO_UDPLITE 136
#define MAX_TAGS 2 /* 802.1ad outside, 802.1Q inside */

#define TCP_FIN 1
#define TCP_SYN 2
#define TCP_RST 4
#define TCP_ACK 16
#define TCP_ECE 64

#define ECN_CE 3 /* both bits (RFC 3168) */

#define TCP_HEADER 20
#define MAX_TCP_OPTIONS 40 /* bytes */
#define STAMPS 12          /* timestamps with two NOPs, bytes */
#define MAX_OPTION_COUNT 24
/* Ethernet, two tags, PPPoE, IPv4 with options, TCP with options. */
#define MAX_HEADERS (ETH_HEADER + 4 * MAX_TAGS + 8 + 60 + TCP_HEADER + MAX_TCP_OPTIONS)

#define NO_SCALE 0xff
#define MAX_SCALE 14 /* RFC 7323, 2.3 */

struct ipv4_header {
	u8 version_length;
	u8 tos;
	u16 total;
	u16 id;
	u16 fragment;
	u8 ttl;
	u8 protocol;
	u16 sum;
	u32 source;
	u32 destination;
};

struct ipv6_header {
	u32 version_class_label;
	u16 payload;
	u8 next;
	u8 hops;
	u8 source[16];
	u8 destination[16];
};

struct tcp_header {
	u16 source;
	u16 destination;
	u32 seq;
	u32 ack;
	u8 length;
	u8 flags;
	u16 window;
	u16 sum;
	u16 urgent;
};

struct pppoe_header {
	u8 version_type;
	u8 code;
	u16 session;
	u16 length;
	u16 protocol;
};

/* A TCP segment; numbers in the host's order. */
struct segment {
	struct flow_key key;
	u32 seq;
	u32 ack;
	u32 payload; /* bytes */
	u32 packet;  /* the IP packet, bytes */
	u32 stamp;
	u32 echo;
	u16 window; /* not scaled */
	u16 at;     /* offset of the TCP header */
	u16 ip;     /* offset of the IP header */
	u16 first;  /* first two bytes of the IP header, with the ECN field; network order
		     */
	u8 version;
	u16 header; /* its length, bytes */
	u8 flags;
	bool has_stamps;
	bool is_plain; /* a pure ACK: no data, mark, other flag, or option but timestamps */
	bool has_more; /* options other than timestamps, such as SACK */
	u8 mac[6];     /* the station's */
};

enum parsed {
	PARSED,
	PARSED_OTHER, /* data without a known window: only addresses, ports and length are valid */
	PARSED_NOT_OURS,
	PARSED_SHORT, /* the headers are not all in the packet's linear part */
};

/* Protocols other than TCP that carry users' data. Others, such as ICMP and routing protocols, keep
 * a network working. */
static __always_inline bool carries_data(u8 protocol)
{
	switch (protocol) {
	case PROTO_IPIP:
	case PROTO_UDP:
	case PROTO_DCCP:
	case PROTO_IPV6:
	case PROTO_GRE:
	case PROTO_ESP:
	case PROTO_AH:
	case PROTO_L2TP:
	case PROTO_SCTP:
	case PROTO_UDPLITE:
		return true;
	}
	return false;
}

/* The headers, as far as they are in the linear part. Not inlined, since it is called a second time
 * after more was made linear. */
static __noinline int parse_linear(struct __sk_buff *skb, struct segment *s, bool down)
{
	void *data = (void *)(long)skb->data;
	void *end = (void *)(long)skb->data_end;
	u32 at = ETH_HEADER, left, total, header;
	u16 protocol;
	u8 ecn, carried;
	bool is_fragment = false;

	if (data + ETH_HEADER > end)
		return PARSED_SHORT;
	__builtin_memcpy(s->mac, data + (down ? 0 : 6), 6);
	protocol = bpf_ntohs(*(u16 *)(data + 12));
	for (int i = 0; i < MAX_TAGS; i++) {
		if (protocol != ETH_P_8021Q && protocol != ETH_P_8021AD)
			break;
		if (data + at + 4 > end)
			return PARSED_SHORT;
		protocol = bpf_ntohs(*(u16 *)(data + at + 2));
		at += 4;
	}
	if (skb->len < at)
		return PARSED_NOT_OURS;
	left = skb->len - at;
	if (protocol == ETH_P_PPP_SES) {
		struct pppoe_header *ppp = data + at;
		u32 said;

		if ((void *)(ppp + 1) > end)
			return PARSED_SHORT;
		said = bpf_ntohs(ppp->length);
		if (ppp->version_type != 0x11 || ppp->code || said < 2 || said + 6 > left)
			return PARSED_NOT_OURS;
		if (ppp->protocol == bpf_htons(PPP_IP))
			protocol = ETH_P_IP;
		else if (ppp->protocol == bpf_htons(PPP_IPV6))
			protocol = ETH_P_IPV6;
		else
			return PARSED_NOT_OURS;
		at += 8;
		left = said - 2;
	}
	s->ip = at;
	if (data + at + 2 > end)
		return PARSED_SHORT;
	s->first = *(u16 *)(data + at);
	if (protocol == ETH_P_IP) {
		struct ipv4_header *ip = data + at;
		u32 *station = (u32 *)s->key.station.address, *server = (u32 *)s->key.server.address;

		if ((void *)(ip + 1) > end)
			return PARSED_SHORT;
		header = (ip->version_length & 15) * 4;
		if (ip->version_length >> 4 != 4 || header < 20)
			return PARSED_NOT_OURS;
		carried = ip->protocol;
		is_fragment = ip->fragment & bpf_htons(0x3fff);
		total = bpf_ntohs(ip->total);
		/* 0 in a packet of more than 64 kB, which the kernel will segment. */
		if (!total && skb->gso_size)
			total = left;
		if (total < header || total > left)
			return PARSED_NOT_OURS;
		left = total - header;
		s->packet = total;
		s->version = 4;
		ecn = ip->tos;
		station[0] = station[1] = server[0] = server[1] = 0;
		station[2] = server[2] = bpf_htonl(0xffff);
		station[3] = down ? ip->destination : ip->source;
		server[3] = down ? ip->source : ip->destination;
		at += header;
	} else if (protocol == ETH_P_IPV6) {
		struct ipv6_header *ip = data + at;

		if ((void *)(ip + 1) > end)
			return PARSED_SHORT;
		if (*(u8 *)ip >> 4 != 6 || left < sizeof(*ip))
			return PARSED_NOT_OURS;
		carried = ip->next;
		left -= sizeof(*ip);
		total = bpf_ntohs(ip->payload);
		if (!total && skb->gso_size)
			total = left;
		if (total > left)
			return PARSED_NOT_OURS;
		left = total;
		s->packet = left + sizeof(*ip);
		s->version = 6;
		ecn = bpf_ntohl(ip->version_class_label) >> 20;
		if (down) {
			__builtin_memcpy(&s->key.station, ip->destination, 16);
			__builtin_memcpy(&s->key.server, ip->source, 16);
		} else {
			__builtin_memcpy(&s->key.station, ip->source, 16);
			__builtin_memcpy(&s->key.server, ip->destination, 16);
		}
		at += sizeof(*ip);
	} else {
		return PARSED_NOT_OURS;
	}
	if (carried != PROTO_TCP) {
		u16 *ports = data + at;

		s->key.station_port = s->key.server_port = 0;
		if (down || !carries_data(carried))
			return PARSED_NOT_OURS;
		if (is_fragment || (carried != PROTO_UDP && carried != PROTO_UDPLITE) || left < 8)
			return PARSED_OTHER;
		if ((void *)(ports + 2) > end)
			return PARSED_SHORT;
		s->key.station_port = ports[0];
		s->key.server_port = ports[1];
		return PARSED_OTHER;
	}
	if (is_fragment || left < TCP_HEADER || at > MAX_HEADERS - TCP_HEADER)
		return PARSED_NOT_OURS;

	struct tcp_header *tcp = data + at;

	if ((void *)(tcp + 1) > end)
		return PARSED_SHORT;
	header = (tcp->length >> 4) * 4;
	if (header < TCP_HEADER || header > left)
		return PARSED_NOT_OURS;
	s->key.station_port = down ? tcp->destination : tcp->source;
	s->key.server_port = down ? tcp->source : tcp->destination;
	s->seq = bpf_ntohl(tcp->seq);
	s->ack = bpf_ntohl(tcp->ack);
	s->window = bpf_ntohs(tcp->window);
	s->flags = tcp->flags;
	s->payload = left - header;
	s->at = at;
	s->header = header;
	/* The layout that RFC 7323 (appendix A) recommends, and all stacks use. */
	u32 *option = (u32 *)(tcp + 1);

	s->has_stamps = header >= 32 && (void *)(option + 3) <= end && option[0] == bpf_htonl(0x0101080a);
	if (s->has_stamps) {
		s->stamp = bpf_ntohl(option[1]);
		s->echo = bpf_ntohl(option[2]);
	}
	s->has_more = header > TCP_HEADER + (s->has_stamps ? STAMPS : 0);
	/* The low bits of the length are the former nonce sum, now AccECN's (RFC 9768). */
	s->is_plain = !s->payload && tcp->flags == TCP_ACK && !(tcp->length & 15) && !s->has_more &&
		      (ecn & ECN_CE) != ECN_CE;
	return PARSED;
}

static __always_inline int parse(struct __sk_buff *skb, struct segment *s, bool down)
{
	u32 headers = skb->len < MAX_HEADERS ? skb->len : MAX_HEADERS;
	int parsed = parse_linear(skb, s, down);

	if (parsed == PARSED_SHORT && !bpf_skb_pull_data(skb, headers))
		parsed = parse_linear(skb, s, down);
	return parsed;
}

/* The options of a SYN. */
struct offer {
	u8 scale; /* NO_SCALE: no such option */
	bool mptcp;
	bool is_signed; /* MD5 (RFC 2385) or TCP-AO (RFC 5925): the tag covers the window */
	bool broken;
	u16 mss;
};

#define OPTION_END 0
#define OPTION_NOP 1
#define OPTION_MSS 2
#define OPTION_SCALE 3
#define OPTION_MD5 19
#define OPTION_AO 29
#define OPTION_MPTCP 30

/* Hides a value's range from the compiler, so that it does not make a branch of it. */
#define opaque(x) asm volatile("" : "+r"(x))

/* For each option kind below 32: the position of its last occurrence, plus one. There is no branch
 * for each kind, because the verifier would follow every sequence of kinds. */
static __always_inline void read_offer(struct __sk_buff *skb, struct segment *s, struct offer *offer)
{
	u8 options[64 + 4] = {}; /* any 6-bit position and the bytes after it are inside */
	u8 places[32] = {};
	u32 length = s->header - TCP_HEADER, beyond_one = length - 1, p = 0;

	offer->scale = NO_SCALE;
	if (!length)
		return;
	offer->broken = true;
	if (beyond_one >= MAX_TCP_OPTIONS)
		return;
	/* The verifier of Linux 6.1 does not conclude from a comparison with 0 that it is at
	 * least 1. */
	opaque(beyond_one);
	if (bpf_skb_load_bytes(skb, s->at + TCP_HEADER, options, beyond_one + 1))
		return;
	for (int i = 0; i < MAX_OPTION_COUNT; i++) {
		u32 kind, step, is_nop, is_small;

		if (p >= length || p >= MAX_TCP_OPTIONS || options[p] == OPTION_END) {
			offer->broken = false;
			break;
		}
		kind = options[p];
		step = options[p + 1];
		/* All ones, or nothing. */
		is_nop = (u32)((s32)((kind ^ OPTION_NOP) - 1) >> 31);
		is_small = (u32)((s32)((kind >> 5) - 1) >> 31);
		opaque(is_nop);
		opaque(is_small);
		step = (step & ~is_nop) | (OPTION_NOP & is_nop);
		if (step < 2 + is_nop || p + step > length)
			return;
		places[kind & 31 & is_small] = p + 1;
		p += step;
	}
	if (offer->broken)
		return;
	offer->is_signed = places[OPTION_MD5] || places[OPTION_AO];
	offer->mptcp = places[OPTION_MPTCP];
	p = places[OPTION_SCALE] & 63;
	if (p && options[p] == 3)
		offer->scale = options[p + 1] > MAX_SCALE ? MAX_SCALE : options[p + 1];
	p = places[OPTION_MSS] & 63;
	if (p && options[p] == 4)
		offer->mss = options[p + 1] << 8 | options[p + 2];
}

#endif
