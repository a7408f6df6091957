//! Frame sizes and durations between a station and the access point, computed once per station and
//! rate.

use super::timing::{ACK_BYTES, BLOCK_ACK_REQ_BYTES, RTS_BYTES, block_ack_bytes};
use super::{CellConfig, Phy, Timing};

/// LLC and SNAP headers, which replace the Ethernet header's type field (RFC 1042).
const LLC_BYTES: u32 = 8;
/// Length of the Ethernet header, which [`Packet::bytes`](crate::Packet::bytes) includes but the
/// channel does not carry.
const ETHERNET_BYTES: u32 = 14;
const FCS_BYTES: u32 = 4;
/// MAC header of data frames (9.3.2.1), without and with the QoS Control field.
const HEADER_BYTES: u32 = 24;
const QOS_HEADER_BYTES: u32 = 26;
/// Length of an MPDU delimiter (9.7.1).
const DELIMITER_BYTES: u32 = 4;

/// Sizes and durations of frames between the access point and one station.
#[derive(Clone, Debug)]
pub(super) struct FrameTerms {
    pub(super) phy: Phy,
    timing: Timing,
    /// Whether frames are aggregated and acknowledged by BlockAck.
    pub(super) block_ack: bool,
    pub(super) max_mpdus: usize,
    pub(super) window: usize,
    pub(super) max_psdu_bytes: u32,
    mpdu_overhead_bytes: u32,
    rts_threshold_bytes: u32,
    pub(super) sifs_ns: u64,
    ack_ns: u64,
    block_ack_ns: u64,
    pub(super) rts_ns: u64,
    pub(super) cts_ns: u64,
    pub(super) block_ack_req_ns: u64,
}

impl FrameTerms {
    pub(super) fn new(phy: Phy, config: &CellConfig, timing: Timing) -> FrameTerms {
        let block_ack = phy.is_qos() && config.ampdu.mpdus > 1;
        let control_mbps = control_rate_mbps(&phy, &config.basic_rates_mbps);
        let header = if phy.is_qos() { QOS_HEADER_BYTES } else { HEADER_BYTES };
        let fits = timing.bytes_within(&phy, u64::from(config.ampdu.duration_us) * 1000);
        // HE introduced windows beyond 64 (10.25.2).
        let max_window = if matches!(phy, Phy::Ax { .. }) { 256 } else { 64 };
        let window = config.ampdu.window.min(max_window);
        let most = config.ampdu.bytes.unwrap_or(u32::MAX).min(phy.ampdu_bytes().unwrap_or(u32::MAX));
        FrameTerms {
            phy,
            timing,
            block_ack,
            max_mpdus: if block_ack { usize::from(config.ampdu.mpdus.min(max_window)) } else { 1 },
            window: if block_ack { usize::from(window) } else { 1 },
            max_psdu_bytes: most.min(fits),
            mpdu_overhead_bytes: header + LLC_BYTES + config.security_bytes + FCS_BYTES,
            rts_threshold_bytes: config.rts_threshold_bytes.unwrap_or(u32::MAX),
            sifs_ns: timing.sifs_ns(),
            ack_ns: timing.legacy_ns(control_mbps, ACK_BYTES),
            block_ack_ns: timing.legacy_ns(control_mbps, block_ack_bytes(window)),
            rts_ns: timing.legacy_ns(control_mbps, RTS_BYTES),
            cts_ns: timing.legacy_ns(control_mbps, ACK_BYTES),
            block_ack_req_ns: timing.legacy_ns(control_mbps, BLOCK_ACK_REQ_BYTES),
        }
    }

    /// Length of the MPDU that carries a packet, bytes.
    pub(super) fn mpdu_bytes(&self, packet_bytes: u32) -> u32 {
        packet_bytes.saturating_sub(ETHERNET_BYTES) + self.mpdu_overhead_bytes
    }

    /// Duration of a PPDU, ns.
    pub(super) fn ppdu_ns(&self, psdu_bytes: u32) -> u64 {
        self.timing.ppdu_ns(&self.phy, psdu_bytes)
    }

    /// Duration of the response without the preceding SIFS, ns. A single MPDU is acknowledged by an
    /// Ack.
    pub(super) fn response_ns(&self, mpdus: usize) -> u64 {
        if mpdus == 1 { self.ack_ns } else { self.block_ack_ns }
    }

    /// Duration of a BlockAck, ns.
    pub(super) fn block_ack_ns(&self) -> u64 {
        self.block_ack_ns
    }

    /// Whether a PSDU of this length is protected by RTS and CTS.
    pub(super) fn is_protected(&self, psdu_bytes: u32) -> bool {
        psdu_bytes > self.rts_threshold_bytes
    }
}

/// Duration of a group-addressed frame, ns. It is sent at the group rate, without QoS and
/// aggregation.
pub(super) fn group_ns(config: &CellConfig, timing: Timing, packet_bytes: u32) -> u64 {
    let overhead = HEADER_BYTES + LLC_BYTES + config.security_bytes + FCS_BYTES;
    timing.legacy_ns(config.group_rate_mbps, packet_bytes.saturating_sub(ETHERNET_BYTES) + overhead)
}

/// Rate of control responses: the highest basic rate that does not exceed the frame's rate
/// (10.6.6.5.2). 6 Mbit/s is always a basic rate.
fn control_rate_mbps(phy: &Phy, basic_rates_mbps: &[u32]) -> u32 {
    let reference = phy.reference_rate_mbps();
    basic_rates_mbps.iter().copied().filter(|rate| *rate <= reference).max().unwrap_or(6)
}

/// A PSDU to which MPDUs are added.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Psdu {
    /// Number of MPDUs.
    pub(super) mpdus: usize,
    /// Length of all subframes, including the padding of the last one, bytes.
    padded: u32,
    /// Transmitted length, bytes.
    pub(super) bytes: u32,
}

impl Psdu {
    /// Adds an MPDU if it fits. The first one always fits.
    pub(super) fn add(&mut self, mpdu_bytes: u32, terms: &FrameTerms) -> bool {
        let subframe = DELIMITER_BYTES + mpdu_bytes;
        // A VHT or HE PPDU is an A-MPDU even with a single MPDU (10.12.8); HT and older PPDUs are
        // not.
        let alone = match terms.phy {
            Phy::G { .. } | Phy::N { .. } => mpdu_bytes,
            Phy::Ac { .. } | Phy::Ax { .. } => subframe,
        };
        let bytes = if self.mpdus == 0 { alone } else { self.padded + subframe };
        if self.mpdus > 0 && (self.mpdus >= terms.max_mpdus || bytes > terms.max_psdu_bytes) {
            return false;
        }
        self.mpdus += 1;
        self.bytes = bytes;
        self.padded += subframe.next_multiple_of(4);
        true
    }
}
