/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * The content of a segment.
 */
#ifndef YUZURI_MONITOR_SEGMENT_H
#define YUZURI_MONITOR_SEGMENT_H

#include "state.h"
#include <bpf/bpf_endian.h>

struct sack_block {
	u32 start, end;
};

/* A segment's options, at most 40 bytes, with room for a broken length that points beyond them. */
struct options {
	u8 bytes[96];
};

/* The content of the SACK option (RFC 2018 and RFC 2883). Not `static`: so the verifier checks it
 * once, and not in every state of its caller. */
__noinline u32 sack_marks(const struct options *options, u32 length, u32 ack_seq)
{
	struct sack_block block[2];
	const u8 *bytes;
	u32 at = 0;

	if (!options)
		return 0;
	bytes = options->bytes;
	/* No more options than these fit before a SACK block, unless there is long padding. */
	for (int i = 0; i < 16 && bytes[at] != 5; i++) {
		u32 size = bytes[at] == 1 ? 1 : bytes[(at + 1) & 63];
		if (!bytes[at] || !size)
			return 0;
		at = (at + size) & 63;
	}
	u32 size = bytes[(at + 1) & 63];
	if (length > 40 || bytes[at] != 5 || size < 10 || at + size > length || at > 40 - 10)
		return 0;
	/* Blocks are not aligned; after the option's end, `bytes` has zeros or the next option. */
	__builtin_memcpy(block, bytes + at + 2, sizeof(block));
	u32 start = bpf_ntohl(block[0].start), end = bpf_ntohl(block[0].end);
	/* As tcp_check_dsack: the first block lies below the ACK, or within the second block. */
	if ((s32)(start - ack_seq) < 0)
		return MARK_SACK | MARK_DSACK;
	if (size >= 18 && (s32)(end - bpf_ntohl(block[1].end)) <= 0 &&
	    (s32)(start - bpf_ntohl(block[1].start)) >= 0)
		return MARK_SACK | MARK_DSACK;
	return MARK_SACK;
}

struct segment {
	u32 seq, end_seq, ack_seq;
	u8 flags;
};

static __always_inline bool read_segment(struct sk_buff *skb, struct segment *segment)
{
	if (&bpf_rdonly_cast != NULL) {
		struct tcp_skb_cb *cb = bpf_rdonly_cast(skb->cb, bpf_core_type_id_kernel(struct tcp_skb_cb));
		segment->seq = cb->seq;
		segment->end_seq = cb->end_seq;
		segment->ack_seq = cb->ack_seq;
		segment->flags = cb->tcp_flags;
		return true;
	}
	const void *cb = skb->cb;
	u8 raw[32];
	if (bpf_probe_read_kernel(raw, sizeof(raw), cb))
		return false;
	segment->seq = *(u32 *)(raw + bpf_core_field_offset(struct tcp_skb_cb, seq));
	segment->end_seq = *(u32 *)(raw + bpf_core_field_offset(struct tcp_skb_cb, end_seq));
	segment->ack_seq = *(u32 *)(raw + bpf_core_field_offset(struct tcp_skb_cb, ack_seq));
	segment->flags = raw[bpf_core_field_offset(struct tcp_skb_cb, tcp_flags)];
	return true;
}

/* The class of a segment, in addition to its content. */
enum segment_class {
	USUAL = 1,     /* it may fill a fast path */
	DATA_ONLY = 2, /* usual, with payload and without a new acknowledgement */
};

/* Records the content of this segment. Returns its class, of enum segment_class. */
static __always_inline u32 classify_segment(struct tcp_sock *tp, struct sk_buff *skb, struct flow *flow)
{
	struct segment segment;
	u32 payload, header;
	bool usual;

	if (flow->acks != 0xffff)
		flow->acks++;
	if (!read_segment(skb, &segment))
		return 0;
	usual = !(segment.flags & (TCPHDR_ECE | TCPHDR_RST | TCPHDR_SYN | TCPHDR_FIN));
	if (unlikely(segment.flags & TCPHDR_ECE) && tp->ecn_flags & TCP_ECN_OK)
		flow->marks |= MARK_ECE;
	/* SYN and FIN each take a sequence number, but no byte. */
	payload =
	    segment.end_seq - segment.seq - !!(segment.flags & TCPHDR_SYN) - !!(segment.flags & TCPHDR_FIN);
	header = skb->len - payload;
	usual &= header == tp->tcp_header_len;
	/* As in the kernel's header prediction: a header longer than usual has more options than
	 * timestamps. */
	if (unlikely(header > tp->tcp_header_len)) {
		/* The options are in the linear part: TCP has pulled them. */
		struct options options = {};
		bpf_probe_read_kernel(options.bytes, 40, skb->data + 20);
		u32 marks = sack_marks(&options, header - 20, segment.ack_seq);
		if (marks & MARK_SACK && flow->sacks != 0xffff)
			flow->sacks++;
		if (marks & MARK_DSACK && flow->dsacks != 0xff)
			flow->dsacks++;
		flow->marks |= marks;
	}
	/* RFC 5681 section 2. */
	if (unlikely(segment.ack_seq == tp->snd_una && segment.end_seq == segment.seq && tp->packets_out &&
		     !(segment.flags & TCPHDR_RST))) {
		usual = false;
		u16 window = 0;
		bpf_probe_read_kernel(&window, sizeof(window), skb->data + 14);
		/* A separate variable: the macro counts the offset from the start of its
		 * expression. */
		struct tcp_options_received *rx_opt = &tp->rx_opt;
		u32 scale = BPF_CORE_READ_BITFIELD(rx_opt, snd_wscale);
		if ((u32)bpf_ntohs(window) << (scale & 15) == tp->snd_wnd) {
			flow->marks |= MARK_DUP_ACK;
			if (flow->dup_acks != 0xffff)
				flow->dup_acks++;
		}
	}
	if (!usual)
		return 0;
	return payload && segment.ack_seq == tp->snd_una ? USUAL | DATA_ONLY : USUAL;
}

#endif
