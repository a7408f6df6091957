//! Decoder for kernel timestamps from a socket's error queue
//! (Documentation/networking/timestamping.rst). A message contains the time, the event, the number
//! of the byte and the connection's statistics at that moment. The decoder does not rely on
//! well-formed input.

use crate::sys::{SCM_TIMESTAMPING_OPT_STATS, SO_TIMESTAMPING_NEW, SO_TIMESTAMPING_OLD};

/// The event that was timestamped (`SCM_TSTAMP_*`, linux/errqueue.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StampEvent {
    /// The device driver accepted the packet (`SCM_TSTAMP_SND`).
    Wire,
    /// TCP passed the packet to the device queue (`SCM_TSTAMP_SCHED`). The literature calls this
    /// sending.
    Sent,
    /// All bytes up to and including the timestamped one were acknowledged (`SCM_TSTAMP_ACK`).
    Acked,
}

/// The connection's statistics at the time of the timestamp. Values that the kernel did not report
/// are `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Stats {
    /// Segments.
    pub cwnd: Option<u32>,
    /// Segments.
    pub ssthresh: Option<u32>,
    /// Microseconds.
    pub srtt_us: Option<u32>,
    /// Microseconds.
    pub min_rtt_us: Option<u32>,
    /// `enum tcp_ca_state`.
    pub ca_state: Option<u8>,
    /// Segments since the connection began.
    pub total_retrans: Option<u64>,
    /// Bytes per second.
    pub delivery_rate_bytes_per_s: Option<u64>,
}

/// One message of the error queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// The event.
    pub event: StampEvent,
    /// Number of the timestamped byte since timestamping was enabled, modulo 2^32.
    pub byte: u32,
    /// Time of the event, `CLOCK_REALTIME`, nanoseconds since the Unix epoch.
    pub unix_ns: i64,
    /// The connection's statistics at that moment.
    pub stats: Stats,
}

// Attribute types, from the enum in linux/tcp.h.
const TCP_NLA_TOTAL_RETRANS: u16 = 5;
const TCP_NLA_DELIVERY_RATE: u16 = 7;
const TCP_NLA_SND_CWND: u16 = 8;
const TCP_NLA_MIN_RTT: u16 = 10;
const TCP_NLA_CA_STATE: u16 = 14;
const TCP_NLA_SND_SSTHRESH: u16 = 15;
const TCP_NLA_SRTT: u16 = 22;

/// `NLA_TYPE_MASK`: removes the flags `NLA_F_NESTED` and `NLA_F_NET_BYTEORDER`.
const NLA_TYPE_MASK: u16 = 0x3fff;

const SO_EE_ORIGIN_TIMESTAMPING: u8 = 4;

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

/// Iterates over the control messages in a `recvmsg` buffer as level, type and data. Stops at the
/// first one that does not fit.
fn control_messages(mut rest: &[u8]) -> impl Iterator<Item = (i32, i32, &[u8])> {
    const WORD: usize = size_of::<usize>();
    const HEADER: usize = WORD + 8;
    std::iter::from_fn(move || {
        // On 64-bit musl, `cmsg_len` is 32 bits plus 32 bits of padding; the kernel writes all 64
        // bits.
        let length = usize::from_ne_bytes(rest.get(..WORD)?.try_into().ok()?);
        let level = u32_at(rest, WORD)? as i32;
        let kind = u32_at(rest, WORD + 4)? as i32;
        if length < HEADER {
            return None;
        }
        let data = rest.get(HEADER..length)?;
        let next = length.checked_next_multiple_of(WORD)?.min(rest.len());
        rest = &rest[next..];
        Some((level, kind, data))
    })
}

/// Iterates over the attributes in a netlink buffer as type and payload. Stops at the first one
/// that does not fit.
fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = u16_at(rest, 0)? as usize;
        let kind = u16_at(rest, 2)? & NLA_TYPE_MASK;
        if length < 4 {
            return None;
        }
        let payload = rest.get(4..length)?;
        rest = &rest[length.next_multiple_of(4).min(rest.len())..];
        Some((kind, payload))
    })
}

/// Decodes the statistics in an `SCM_TIMESTAMPING_OPT_STATS` message.
pub(crate) fn decode_stats(raw: &[u8]) -> Stats {
    let mut stats = Stats::default();
    for (kind, payload) in attributes(raw) {
        match kind {
            TCP_NLA_SND_CWND => stats.cwnd = u32_at(payload, 0),
            TCP_NLA_SND_SSTHRESH => stats.ssthresh = u32_at(payload, 0),
            TCP_NLA_SRTT => stats.srtt_us = u32_at(payload, 0),
            TCP_NLA_MIN_RTT => stats.min_rtt_us = u32_at(payload, 0),
            TCP_NLA_CA_STATE => stats.ca_state = payload.first().copied(),
            TCP_NLA_TOTAL_RETRANS => stats.total_retrans = u64_at(payload, 0),
            TCP_NLA_DELIVERY_RATE => stats.delivery_rate_bytes_per_s = u64_at(payload, 0),
            _ => {}
        }
    }
    stats
}

/// Software timestamp, the first of the three in `struct scm_timestamping`; `None` if it is not
/// set.
fn decode_time(raw: &[u8], wide: bool) -> Option<i64> {
    let (seconds, nanos) = if wide || size_of::<usize>() == 8 {
        (u64_at(raw, 0)? as i64, u64_at(raw, 8)? as i64)
    } else {
        (u32_at(raw, 0)? as i32 as i64, u32_at(raw, 4)? as i32 as i64)
    };
    let time = seconds.checked_mul(1_000_000_000)?.checked_add(nanos)?;
    (time != 0).then_some(time)
}

/// Decodes event and byte number from a `struct sock_extended_err`; `None` if it is not about a
/// timestamp.
fn decode_error(raw: &[u8]) -> Option<(StampEvent, u32)> {
    let errno = u32_at(raw, 0)? as i32;
    let origin = *raw.get(4)?;
    if errno != libc::ENOMSG || origin != SO_EE_ORIGIN_TIMESTAMPING {
        return None;
    }
    let event = match u32_at(raw, 8)? {
        0 => StampEvent::Wire,
        1 => StampEvent::Sent,
        2 => StampEvent::Acked,
        _ => return None,
    };
    Some((event, u32_at(raw, 12)?))
}

/// Decodes the timestamp in the control data of one error queue message; `None` if there is none.
pub(crate) fn decode(control: &[u8]) -> Option<Stamp> {
    let mut time = None;
    let mut about = None;
    let mut stats = Stats::default();
    for (level, kind, data) in control_messages(control) {
        match (level, kind) {
            (libc::SOL_SOCKET, SO_TIMESTAMPING_NEW) => time = decode_time(data, true),
            (libc::SOL_SOCKET, SO_TIMESTAMPING_OLD) => time = decode_time(data, false),
            (libc::SOL_SOCKET, SCM_TIMESTAMPING_OPT_STATS) => stats = decode_stats(data),
            (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR) => {
                about = decode_error(data);
            }
            _ => {}
        }
    }
    let (event, byte) = about?;
    Some(Stamp { event, byte, unix_ns: time?, stats })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn control_message(level: i32, kind: i32, data: &[u8]) -> Vec<u8> {
        let length = size_of::<usize>() + 8 + data.len();
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend(level.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(data);
        bytes.resize(bytes.len().next_multiple_of(size_of::<usize>()), 0);
        bytes
    }

    fn attribute(kind: u16, payload: &[u8]) -> Vec<u8> {
        let mut bytes = ((payload.len() + 4) as u16).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(payload);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn stamp_control(level: i32, kind: i32, unix_ns: i64, info: u32, byte: u32, stats: &[u8]) -> Vec<u8> {
        let mut times = (unix_ns / 1_000_000_000).to_ne_bytes().to_vec();
        times.extend((unix_ns % 1_000_000_000).to_ne_bytes());
        times.resize(48, 0);
        let mut error = libc::ENOMSG.to_ne_bytes().to_vec();
        error.extend([SO_EE_ORIGIN_TIMESTAMPING, 0, 0, 0]);
        error.extend(info.to_ne_bytes());
        error.extend(byte.to_ne_bytes());
        error.resize(32, 0);
        let mut control = control_message(libc::SOL_SOCKET, SO_TIMESTAMPING_NEW, &times);
        control.extend(control_message(libc::SOL_SOCKET, SCM_TIMESTAMPING_OPT_STATS, stats));
        control.extend(control_message(level, kind, &error));
        control
    }

    #[test]
    fn a_kernel_timestamp_message_is_decoded() {
        let mut stats = attribute(TCP_NLA_TOTAL_RETRANS, &7u64.to_ne_bytes());
        stats.extend(attribute(0, &[])); // padding that aligns the 64-bit value
        stats.extend(attribute(TCP_NLA_DELIVERY_RATE, &2_500_000u64.to_ne_bytes()));
        stats.extend(attribute(TCP_NLA_SND_CWND, &42u32.to_ne_bytes()));
        stats.extend(attribute(TCP_NLA_CA_STATE, &[3]));
        stats.extend(attribute(TCP_NLA_SND_SSTHRESH, &30u32.to_ne_bytes()));
        stats.extend(attribute(TCP_NLA_SRTT, &20_500u32.to_ne_bytes()));
        stats.extend(attribute(TCP_NLA_MIN_RTT, &20_000u32.to_ne_bytes()));
        let unix_ns = 1_700_000_000_123_456_789;
        for (level, kind) in [(libc::SOL_IP, libc::IP_RECVERR), (libc::SOL_IPV6, libc::IPV6_RECVERR)] {
            let stamp = decode(&stamp_control(level, kind, unix_ns, 1, 999_999, &stats)).unwrap();
            assert_eq!((stamp.event, stamp.byte, stamp.unix_ns), (StampEvent::Sent, 999_999, unix_ns));
            let expected = Stats {
                cwnd: Some(42),
                ssthresh: Some(30),
                srtt_us: Some(20_500),
                min_rtt_us: Some(20_000),
                ca_state: Some(3),
                total_retrans: Some(7),
                delivery_rate_bytes_per_s: Some(2_500_000),
            };
            assert_eq!(stamp.stats, expected);
        }
    }

    #[test]
    fn a_message_that_is_no_timestamp_is_ignored() {
        let other = stamp_control(libc::SOL_IP, libc::IP_RECVERR, 1, 3, 0, &[]);
        assert_eq!(decode(&other), None, "a stamp of an unknown kind");
        let no_time = stamp_control(libc::SOL_IP, libc::IP_RECVERR, 0, 1, 0, &[]);
        assert_eq!(decode(&no_time), None, "no software stamp");
        assert_eq!(decode(&[]), None);
    }

    #[test]
    fn an_attribute_of_invalid_length_ends_parsing() {
        assert_eq!(attributes(&[0, 0, 8, 0, 1, 2, 3, 4]).count(), 0);
        assert_eq!(attributes(&[0xff, 0xff, 8, 0, 1, 2, 3, 4]).count(), 0);
        assert_eq!(control_messages(&[0; 64]).count(), 0);
        assert_eq!(control_messages(&[0xff; 64]).count(), 0);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(raw in proptest::collection::vec(any::<u8>(), 0..600)) {
            let _ = decode(&raw);
            let _ = decode_stats(&raw);
            // Every iterator must advance: each message takes at least its header.
            prop_assert!(control_messages(&raw).count() <= raw.len() / 12);
            prop_assert!(attributes(&raw).count() <= raw.len() / 4);
        }

        #[test]
        fn a_corrupted_timestamp_message_does_not_panic(
            at in 0usize..400, value: u8, cut in 0usize..400, byte: u32, cwnd: u32
        ) {
            let stats = attribute(TCP_NLA_SND_CWND, &cwnd.to_ne_bytes());
            let whole = stamp_control(libc::SOL_IP, libc::IP_RECVERR, 1_700_000_000_000_000_001, 2, byte, &stats);
            let stamp = decode(&whole).unwrap();
            prop_assert_eq!((stamp.event, stamp.byte, stamp.stats.cwnd), (StampEvent::Acked, byte, Some(cwnd)));
            let mut corrupted = whole.clone();
            let at = at % corrupted.len();
            corrupted[at] = value;
            let _ = decode(&corrupted);
            // Truncation may only lose information, never yield a different byte or time.
            if let Some(stamp) = decode(&whole[..cut.min(whole.len())]) {
                prop_assert_eq!((stamp.event, stamp.byte), (StampEvent::Acked, byte));
            }
        }
    }
}
