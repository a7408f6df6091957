//! A flow as reported by a walk.

#![expect(unsafe_code, reason = "the kernel's records")]

use super::types::{self, steer_record};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use yuzuri_trace::{CaState, FlowId};

const DEFAULT: u8 = types::control_state::CONTROL_DEFAULT.0 as u8;
const MIGRATED: u8 = types::control_state::CONTROL_MIGRATED.0 as u8;
const OURS: u8 = types::control_state::CONTROL_OURS.0 as u8;
const CHOSEN: u8 = types::control_state::CONTROL_CHOSEN.0 as u8;
const LOCKED: u8 = types::control_state::CONTROL_LOCKED.0 as u8;
const OTHER: u8 = types::control_state::CONTROL_OTHER.0 as u8;
const FLAG_APP_LIMITED: u8 = types::flag::FLAG_APP_LIMITED.0 as u8;
const FLAG_RATE_APP_LIMITED: u8 = types::flag::FLAG_RATE_APP_LIMITED.0 as u8;
const FLAG_CWND_LIMITED: u8 = types::flag::FLAG_CWND_LIMITED.0 as u8;
const FLAG_PACED: u8 = types::flag::FLAG_PACED.0 as u8;
const FLAG_IDLE: u8 = types::flag::FLAG_IDLE.0 as u8;

/// Bytes of a record.
pub(super) const RECORD: usize = size_of::<steer_record>();

/// The name of a congestion control (`TCP_CA_NAME_MAX` with its end).
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Name([u8; 16]);

impl Name {
    /// As text.
    pub fn as_str(&self) -> &str {
        let end = self.0.iter().position(|b| *b == 0).unwrap_or(self.0.len());
        std::str::from_utf8(&self.0[..end]).unwrap_or("?")
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// Whether a flow is under our congestion control, and if not, why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlState {
    /// It has the namespace's default, not chosen explicitly: it is migrated if migration is
    /// enabled.
    Default,
    /// We migrated it to our congestion control.
    Migrated {
        /// Its previous congestion control.
        former: Name,
    },
    /// It has our congestion control by its program's choice, its route's or the sysctl's. It may
    /// be bounded; it is not migrated away at the end.
    Ours,
    /// Its program chose its congestion control (`TCP_CONGESTION`), or an earlier steering, now
    /// gone, migrated it back.
    Chosen,
    /// Its route fixes its congestion control (`congctl lock NAME`).
    Locked,
    /// It has a congestion control other than the namespace's default, not chosen by its program:
    /// by its route (`congctl NAME`), or because the default was another when it began.
    Other,
    /// The kernel refused to migrate it; we do not try again.
    Refused {
        /// The errno(3).
        errno: i32,
    },
}

impl ControlState {
    /// Whether its window follows our bounds.
    pub fn is_ours(self) -> bool {
        matches!(self, ControlState::Migrated { .. } | ControlState::Ours)
    }
}

impl fmt::Display for ControlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ControlState::Default => f.write_str("the default: it can be migrated"),
            ControlState::Migrated { former } => write!(f, "migrated from {former}"),
            ControlState::Ours => f.write_str("Yuzuri's by its own choice"),
            ControlState::Chosen => f.write_str("chosen by its program"),
            ControlState::Locked => f.write_str("locked by its route"),
            ControlState::Other => f.write_str("not the default: chosen by its route, or an earlier default"),
            ControlState::Refused { errno } => {
                write!(f, "the kernel refused: {}", std::io::Error::from_raw_os_error(*errno))
            }
        }
    }
}

/// One flow at the moment of the walk, read under its socket's lock, so the values are consistent.
/// Names are `struct tcp_sock`'s; counters start with the flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowState {
    /// The socket's cookie.
    pub id: FlowId,
    /// Local address; IPv4 as IPv4, on a socket of either family.
    pub local: SocketAddr,
    /// The peer's.
    pub remote: SocketAddr,
    /// Its network namespace (`SO_NETNS_COOKIE`).
    pub netns_cookie: u64,
    /// Payload of a full segment, bytes (`mss_cache`).
    pub mss: u32,
    /// Congestion window, segments (`snd_cwnd`).
    pub cwnd: u32,
    /// Slow start threshold, segments (`snd_ssthresh`); 0x7fffffff before the first reduction.
    pub ssthresh: u32,
    /// Segments sent and not acknowledged.
    pub packets_out: u32,
    /// Of those, SACKed.
    pub sacked_out: u32,
    /// Of those, marked lost.
    pub lost_out: u32,
    /// Of those, retransmitted.
    pub retrans_out: u32,
    /// Smoothed round-trip time, µs; 0 before the first sample.
    pub srtt_us: u32,
    /// Minimum round-trip time in `net.ipv4.tcp_min_rtt_wlen` (300 s), µs; 0 before the first
    /// sample.
    pub min_rtt_us: u32,
    /// Segments delivered; wraps.
    pub delivered: u32,
    /// Payload acknowledged, bytes (with the SYN and the FIN, as in `TCP_INFO`).
    pub bytes_acked: u64,
    /// Segments ever marked lost; wraps.
    pub lost: u32,
    /// Segments ever retransmitted; wraps.
    pub total_retrans: u32,
    /// The kernel's mark `app_limited != 0`. The kernel sets it at a write that finds nothing
    /// waiting, the network not full and the window open; it lasts until a window of data has been
    /// delivered. So within the last round trip the application left the path idle. See
    /// [`FlowState::is_application_limited`].
    pub app_limited: bool,
    /// The same for the last delivery rate sample (`tcpi_delivery_rate_app_limited`), which may be
    /// old.
    pub rate_app_limited: bool,
    /// The congestion window limits transmission (`is_cwnd_limited`).
    pub cwnd_limited: bool,
    /// Its segments are paced, by TCP's own timer or the queueing discipline `fq`
    /// (`sk_pacing_status`).
    pub paced: bool,
    /// Congestion state.
    pub ca_state: CaState,
    /// The send buffer's limit, bytes with the kernel's overhead (`sk_sndbuf`): it admits about
    /// half of that as payload.
    pub sndbuf_bytes: u32,
    /// The receiver's window from the first unacknowledged byte, bytes.
    pub snd_wnd_bytes: u32,
    /// Payload not sent yet, bytes (`write_seq - snd_nxt`).
    pub unsent_bytes: u32,
    /// Its current congestion control.
    pub control: Name,
    /// Whether that is ours, and why.
    pub control_state: ControlState,
    /// Nothing has happened on it for
    /// [`SteerOptions::idle_after_walks`](super::SteerOptions::idle_after_walks) walks: walks do
    /// not report it until something does, except those that report all flows.
    pub is_idle: bool,
}

impl FlowState {
    /// Segments in flight as far as the sender knows (`tcp_packets_in_flight`).
    pub fn in_flight(&self) -> u32 {
        let left = self.sacked_out.saturating_add(self.lost_out);
        self.packets_out.saturating_add(self.retrans_out).saturating_sub(left)
    }

    /// Whether the application, not the window, limits the flow at this moment: less than a
    /// segment waits to be sent, the window is not full, and all lost segments have been
    /// retransmitted. These are the kernel's own conditions for its mark
    /// (`tcp_rate_check_app_limited`), which it evaluates when the application writes. So the
    /// kernel does not mark a flow whose application has stopped writing, and still marks one that
    /// has resumed. For an observation every 0.5 s, the current moment is the better criterion;
    /// [`FlowState::app_limited`] covers the round trip before it, for stricter callers.
    pub fn is_application_limited(&self) -> bool {
        self.unsent_bytes < self.mss && self.in_flight() < self.cwnd && self.lost_out <= self.retrans_out
    }

    /// Decodes one record.
    pub(super) fn of(bytes: &[u8; RECORD]) -> FlowState {
        // SAFETY: the record is integers without padding (checked below), every bit pattern is
        // valid, and the read needs no alignment.
        let record: steer_record = unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) };
        let name = |from: [i8; 16]| Name(from.map(|b| b as u8));
        let control_state = match record.control_state {
            DEFAULT => ControlState::Default,
            MIGRATED => ControlState::Migrated { former: name(record.former) },
            OURS => ControlState::Ours,
            CHOSEN => ControlState::Chosen,
            LOCKED => ControlState::Locked,
            OTHER => ControlState::Other,
            _ => ControlState::Refused { errno: -record.refused },
        };
        FlowState {
            id: FlowId(record.cookie),
            local: address(record.local, record.local_port),
            remote: address(record.remote, record.remote_port),
            netns_cookie: record.netns_cookie,
            mss: record.mss,
            cwnd: record.cwnd,
            ssthresh: record.ssthresh,
            packets_out: record.packets_out,
            sacked_out: record.sacked_out,
            lost_out: record.lost_out,
            retrans_out: record.retrans_out,
            srtt_us: record.srtt_us,
            // The kernel starts with the largest number.
            min_rtt_us: if record.min_rtt_us == u32::MAX { 0 } else { record.min_rtt_us },
            delivered: record.delivered,
            bytes_acked: record.bytes_acked,
            lost: record.lost,
            total_retrans: record.total_retrans,
            app_limited: record.flags & FLAG_APP_LIMITED != 0,
            rate_app_limited: record.flags & FLAG_RATE_APP_LIMITED != 0,
            cwnd_limited: record.flags & FLAG_CWND_LIMITED != 0,
            paced: record.flags & FLAG_PACED != 0,
            ca_state: CaState::from_kernel(record.ca_state).unwrap_or_default(),
            sndbuf_bytes: record.sndbuf,
            snd_wnd_bytes: record.snd_wnd,
            unsent_bytes: record.unsent,
            control: name(record.control),
            control_state,
            is_idle: record.flags & FLAG_IDLE != 0,
        }
    }
}

fn address(words: [u32; 4], port: u16) -> SocketAddr {
    let mut bytes = [0; 16];
    for (to, from) in bytes.chunks_exact_mut(4).zip(words) {
        to.copy_from_slice(&from.to_ne_bytes());
    }
    SocketAddr::new(IpAddr::V6(Ipv6Addr::from(bytes)).to_canonical(), port)
}

// Three words of 8 bytes, 26 of 4, two names, two ports and four bytes: no padding.
const _: () = assert!(RECORD == 3 * 8 + (4 + 4 + 16) * 4 + 2 * 16 + 2 * 2 + 4);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn idle() -> FlowState {
        let mut bytes = [0; RECORD];
        // mss and cwnd follow the names.
        let mss = std::mem::offset_of!(steer_record, mss);
        bytes[mss..mss + 4].copy_from_slice(&1448u32.to_ne_bytes());
        bytes[mss + 4..mss + 8].copy_from_slice(&10u32.to_ne_bytes());
        FlowState::of(&bytes)
    }

    #[test]
    fn a_flow_is_application_limited_where_nothing_is_unsent_and_the_window_is_open() {
        assert!(idle().is_application_limited());
        assert!(!FlowState { unsent_bytes: 1448, ..idle() }.is_application_limited());
        assert!(FlowState { unsent_bytes: 1447, ..idle() }.is_application_limited());
        assert!(!FlowState { packets_out: 10, ..idle() }.is_application_limited());
        assert!(!FlowState { packets_out: 5, lost_out: 1, ..idle() }.is_application_limited());
        assert!(FlowState { packets_out: 5, lost_out: 1, retrans_out: 1, ..idle() }.is_application_limited());
    }
}
