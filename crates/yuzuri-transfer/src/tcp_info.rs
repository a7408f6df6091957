//! `TCP_INFO` (`struct tcp_info` in linux/tcp.h), as far as the running kernel fills it in.

/// The fields that this crate uses. A field that the kernel does not provide is 0, or `None` where
/// 0 is a valid value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TcpInfo {
    pub ca_state: u8,
    /// Number of unanswered zero-window probes.
    pub probes: u8,
    pub rto_us: u32,
    pub mss: u32,
    pub unacked: u32,
    /// Time since the latest ACK arrived.
    pub last_ack_recv_ms: u32,
    pub srtt_us: u32,
    pub ssthresh: u32,
    pub cwnd: u32,
    pub total_retrans: u32,
    pub pacing_rate_bytes_per_s: u64,
    /// Bytes acknowledged since the connection began. Counts the SYN if this end opened the
    /// connection.
    pub bytes_acked: u64,
    pub notsent_bytes: u32,
    pub min_rtt_us: u32,
    pub delivery_rate_bytes_per_s: u64,
    pub busy_us: u64,
    pub rwnd_limited_us: u64,
    pub sndbuf_limited_us: u64,
    pub bytes_retrans: u64,
    /// The peer's receive window, bytes; `None` before Linux 5.4.
    pub snd_wnd: Option<u32>,
}

impl TcpInfo {
    /// Decodes the bytes returned by the kernel.
    pub(crate) fn decode(raw: &[u8]) -> TcpInfo {
        let byte = |at: usize| raw.get(at).copied().unwrap_or(0);
        let word = |at: usize| raw.get(at..at + 4).and_then(|b| b.try_into().ok()).map(u32::from_ne_bytes);
        let long =
            |at: usize| raw.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_ne_bytes);
        let u32_at = |at: usize| word(at).unwrap_or(0);
        TcpInfo {
            ca_state: byte(1),
            probes: byte(3),
            rto_us: u32_at(8),
            mss: u32_at(16),
            unacked: u32_at(24),
            last_ack_recv_ms: u32_at(56),
            srtt_us: u32_at(68),
            ssthresh: u32_at(76),
            cwnd: u32_at(80),
            total_retrans: u32_at(100),
            pacing_rate_bytes_per_s: long(104),
            bytes_acked: long(120),
            notsent_bytes: u32_at(144),
            min_rtt_us: u32_at(148),
            delivery_rate_bytes_per_s: long(160),
            busy_us: long(168),
            rwnd_limited_us: long(176),
            sndbuf_limited_us: long(184),
            bytes_retrans: long(208),
            snd_wnd: word(228),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fields_are_at_the_kernels_offsets() {
        let mut raw = [0u8; 232];
        raw[1] = 3;
        raw[3] = 2;
        for (at, value) in
            [(16, 1448u32), (68, 20_000), (76, 77), (80, 88), (100, 9), (144, 4096), (228, 65_536)]
        {
            raw[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        }
        for (at, value) in [(120, 1u64 << 40), (160, 2_500_000), (208, 1448)] {
            raw[at..at + 8].copy_from_slice(&value.to_ne_bytes());
        }
        let info = TcpInfo::decode(&raw);
        assert_eq!((info.ca_state, info.probes, info.mss), (3, 2, 1448));
        assert_eq!((info.srtt_us, info.ssthresh, info.cwnd, info.total_retrans), (20_000, 77, 88, 9));
        assert_eq!((info.notsent_bytes, info.snd_wnd), (4096, Some(65_536)));
        assert_eq!((info.bytes_acked, info.delivery_rate_bytes_per_s), (1 << 40, 2_500_000));
        assert_eq!(info.bytes_retrans, 1448);
    }

    proptest! {
        #[test]
        fn a_short_tcp_info_is_read_as_far_as_it_goes(raw in proptest::collection::vec(any::<u8>(), 0..300)) {
            let info = TcpInfo::decode(&raw);
            prop_assert_eq!(info.snd_wnd.is_some(), raw.len() >= 232);
            if raw.len() < 128 {
                prop_assert_eq!(info.bytes_acked, 0);
            }
        }
    }
}
