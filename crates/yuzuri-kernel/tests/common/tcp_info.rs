//! `TCP_INFO` by the kernel's own definition (linux/tcp.h), read without the code under test.

#![expect(unsafe_code, reason = "system calls of the test")]

use std::mem::{offset_of, size_of};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the kernel fills in `tcpi_rcv_wnd` (since Linux 6.2).
static HAS_RCV_WND: AtomicBool = AtomicBool::new(true);

/// `struct tcp_info` up to `tcpi_total_rto_time` (Linux 6.7); fields unknown to an older kernel
/// stay 0.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TcpInfo {
    pub tcpi_state: u8,
    pub tcpi_ca_state: u8,
    pub tcpi_retransmits: u8,
    pub tcpi_probes: u8,
    pub tcpi_backoff: u8,
    pub tcpi_options: u8,
    /// `tcpi_snd_wscale : 4, tcpi_rcv_wscale : 4`
    pub wscale: u8,
    /// `tcpi_delivery_rate_app_limited : 1, tcpi_fastopen_client_fail : 2`
    pub flags: u8,
    pub tcpi_rto: u32,
    pub tcpi_ato: u32,
    pub tcpi_snd_mss: u32,
    pub tcpi_rcv_mss: u32,
    pub tcpi_unacked: u32,
    pub tcpi_sacked: u32,
    pub tcpi_lost: u32,
    pub tcpi_retrans: u32,
    pub tcpi_fackets: u32,
    pub tcpi_last_data_sent: u32,
    pub tcpi_last_ack_sent: u32,
    pub tcpi_last_data_recv: u32,
    pub tcpi_last_ack_recv: u32,
    pub tcpi_pmtu: u32,
    pub tcpi_rcv_ssthresh: u32,
    pub tcpi_rtt: u32,
    pub tcpi_rttvar: u32,
    pub tcpi_snd_ssthresh: u32,
    pub tcpi_snd_cwnd: u32,
    pub tcpi_advmss: u32,
    pub tcpi_reordering: u32,
    pub tcpi_rcv_rtt: u32,
    pub tcpi_rcv_space: u32,
    pub tcpi_total_retrans: u32,
    pub tcpi_pacing_rate: u64,
    pub tcpi_max_pacing_rate: u64,
    pub tcpi_bytes_acked: u64,
    pub tcpi_bytes_received: u64,
    pub tcpi_segs_out: u32,
    pub tcpi_segs_in: u32,
    pub tcpi_notsent_bytes: u32,
    pub tcpi_min_rtt: u32,
    pub tcpi_data_segs_in: u32,
    pub tcpi_data_segs_out: u32,
    pub tcpi_delivery_rate: u64,
    pub tcpi_busy_time: u64,
    pub tcpi_rwnd_limited: u64,
    pub tcpi_sndbuf_limited: u64,
    pub tcpi_delivered: u32,
    pub tcpi_delivered_ce: u32,
    pub tcpi_bytes_sent: u64,
    pub tcpi_bytes_retrans: u64,
    pub tcpi_dsack_dups: u32,
    pub tcpi_reord_seen: u32,
    pub tcpi_rcv_ooopack: u32,
    pub tcpi_snd_wnd: u32,
    pub tcpi_rcv_wnd: u32,
    pub tcpi_rehash: u32,
    pub tcpi_total_rto: u16,
    pub tcpi_total_rto_recoveries: u16,
    pub tcpi_total_rto_time: u32,
}

const _: () = assert!(size_of::<TcpInfo>() == 248);

impl TcpInfo {
    pub fn app_limited(&self) -> bool {
        self.flags & 1 != 0
    }
}

pub fn read(socket: &impl AsRawFd) -> TcpInfo {
    let mut info = TcpInfo::default();
    let mut length = size_of::<TcpInfo>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into a plain structure of integers.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &mut length,
        )
    };
    assert_eq!(result, 0, "TCP_INFO: {}", std::io::Error::last_os_error());
    HAS_RCV_WND.store(length as usize > offset_of!(TcpInfo, tcpi_rcv_wnd), Ordering::Relaxed);
    info
}

/// Compares a record with `TCP_INFO` of the same moment, field by field; returns the differences in
/// words.
pub fn differences(event: &yuzuri_trace::Event, info: &TcpInfo) -> Vec<String> {
    let s = &event.snapshot;
    let pairs: [(&str, u64, u64); 20] = [
        ("ca_state", event.ca_state as u64, info.tcpi_ca_state.into()),
        ("cwnd", s.cwnd.into(), info.tcpi_snd_cwnd.into()),
        ("ssthresh", s.ssthresh.into(), info.tcpi_snd_ssthresh.into()),
        ("srtt_us", s.srtt_us.into(), info.tcpi_rtt.into()),
        ("rttvar_us", s.rttvar_us.into(), info.tcpi_rttvar.into()),
        ("min_rtt_us", s.min_rtt_us.into(), info.tcpi_min_rtt.into()),
        ("packets_out", s.packets_out.into(), info.tcpi_unacked.into()),
        ("sacked_out", s.sacked_out.into(), info.tcpi_sacked.into()),
        ("lost_out", s.lost_out.into(), info.tcpi_lost.into()),
        ("retrans_out", s.retrans_out.into(), info.tcpi_retrans.into()),
        ("mss", s.mss.into(), info.tcpi_snd_mss.into()),
        ("snd_wnd", s.snd_wnd.into(), info.tcpi_snd_wnd.into()),
        ("rcv_wnd", s.rcv_wnd.into(), info.tcpi_rcv_wnd.into()),
        ("notsent", s.notsent.into(), info.tcpi_notsent_bytes.into()),
        ("bytes_acked", s.bytes_acked, info.tcpi_bytes_acked),
        ("bytes_received", s.bytes_received, info.tcpi_bytes_received),
        ("total_retrans", s.total_retrans.into(), info.tcpi_total_retrans.into()),
        ("reordering", s.reordering.into(), info.tcpi_reordering.into()),
        ("pacing_rate", s.pacing_rate_bps, info.tcpi_pacing_rate.saturating_mul(8)),
        // Ours is rounded down to a bit, the kernel's to a byte.
        ("delivery_rate", s.delivery_rate_bps / 8, info.tcpi_delivery_rate),
    ];
    let mut words: Vec<String> = pairs
        .iter()
        .filter(|(_, ours, kernels)| ours != kernels)
        .filter(|(name, ..)| *name != "rcv_wnd" || HAS_RCV_WND.load(Ordering::Relaxed))
        .map(|(name, ours, kernels)| format!("{name}: ours {ours}, TCP_INFO {kernels}"))
        .collect();
    if event.marks.contains(yuzuri_trace::Marks::APP_LIMITED) != info.app_limited() {
        words.push(format!("app_limited: TCP_INFO {}", info.app_limited()));
    }
    words
}
