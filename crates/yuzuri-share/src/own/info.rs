//! Converts `TCP_INFO` of an own socket (`struct tcp_info` of linux/tcp.h) to the flow state of a
//! walk.

use std::net::SocketAddr;
use yuzuri_kernel::steer::{ControlState, FlowState};
use yuzuri_kernel::tcp_state::{TCP_CLOSE_WAIT, TCP_ESTABLISHED};
use yuzuri_trace::{CaState, FlowId};

/// The decoded fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Info {
    /// Whether the socket can still send data.
    pub open: bool,
    pub flow: FlowState,
}

/// Decodes the kernel's bytes; fields that an older kernel lacks are 0.
pub(super) fn decode(raw: &[u8], id: FlowId, local: SocketAddr, remote: SocketAddr) -> Info {
    let byte = |at: usize| raw.get(at).copied().unwrap_or(0);
    let word = |at: usize| raw.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_ne_bytes);
    let long = |at: usize| raw.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_ne_bytes);
    let total_retrans = word(100);
    let flow = FlowState {
        id,
        local,
        remote,
        netns_cookie: 0,
        mss: word(16),
        cwnd: word(80),
        ssthresh: word(76),
        packets_out: word(24),
        sacked_out: word(28),
        lost_out: word(32),
        retrans_out: word(36),
        srtt_us: word(68),
        min_rtt_us: word(148),
        delivered: word(192),
        bytes_acked: long(120),
        // Not reported: every retransmission counts as a lost segment, although tail loss probes
        // are included.
        lost: total_retrans,
        total_retrans,
        app_limited: byte(7) & 1 != 0,
        rate_app_limited: byte(7) & 1 != 0,
        cwnd_limited: false,
        paced: true,
        ca_state: CaState::from_kernel(byte(1)).unwrap_or_default(),
        sndbuf_bytes: u32::MAX,
        snd_wnd_bytes: if raw.len() >= 232 { word(228) } else { u32::MAX },
        unsent_bytes: word(144),
        control: Default::default(),
        control_state: ControlState::Ours,
        is_idle: false,
    };
    Info { open: matches!(byte(0), TCP_ESTABLISHED | TCP_CLOSE_WAIT), flow }
}
