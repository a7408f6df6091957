//! Channel timing: slots, interframe spaces and control frames. Clauses refer to IEEE Std
//! 802.11-2020.

use super::Phy;
use serde::{Deserialize, Serialize};

/// Frequency band.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Band {
    /// 2.4 GHz, ERP-OFDM with short slots: SIFS 10 µs, signal extension 6 µs (18.3.2.4, table
    /// 18-5).
    #[serde(rename = "2.4GHz")]
    Ghz2,
    /// 5 (or 6) GHz: SIFS 16 µs (table 17-21).
    #[default]
    #[serde(rename = "5GHz")]
    Ghz5,
}

/// Slot time, interframe spaces and durations of control frames in one band.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    band: Band,
}

/// aSlotTime, ns, of all OFDM PHYs at 20 MHz and above (tables 17-21, 18-5 short slot).
pub const SLOT_NS: u64 = 9_000;
/// aPHY-RX-START-Delay of the non-HT OFDM frames that carry responses, ns (table 17-21).
pub const RX_START_DELAY_NS: u64 = 20_000;
/// aCCATime, ns (table 17-21: less than 4 µs). Nodes that start within this time of each other
/// cannot sense each other.
pub const CCA_NS: u64 = 4_000;

/// Length of an RTS (9.3.1.2) including FCS, bytes.
pub const RTS_BYTES: u32 = 20;
/// Length of CTS and Ack (9.3.1.3, 9.3.1.4) including FCS, bytes.
pub const ACK_BYTES: u32 = 14;
/// Length of a compressed BlockAckReq (9.3.1.7) including FCS, bytes.
pub const BLOCK_ACK_REQ_BYTES: u32 = 24;

impl Timing {
    /// The timing of `band`.
    pub const fn new(band: Band) -> Timing {
        Timing { band }
    }

    /// SIFS, ns.
    pub const fn sifs_ns(&self) -> u64 {
        match self.band {
            Band::Ghz2 => 10_000,
            Band::Ghz5 => 16_000,
        }
    }

    /// AIFS (10.3.2.3.6), ns: SIFS and `aifsn` slots. DIFS corresponds to two slots.
    pub const fn aifs_ns(&self, aifsn: u8) -> u64 {
        self.sifs_ns() + aifsn as u64 * SLOT_NS
    }

    /// Duration of a PPDU including the signal extension of 2.4 GHz (18.3.2.4), ns.
    pub fn ppdu_ns(&self, phy: &Phy, bytes: u32) -> u64 {
        phy.ppdu_ns(bytes) + self.extension_ns()
    }

    /// Maximum PSDU length in a PPDU of at most `nanos`, bytes.
    pub fn bytes_within(&self, phy: &Phy, nanos: u64) -> u32 {
        phy.bytes_within(nanos.saturating_sub(self.extension_ns()))
    }

    /// Duration of a frame of `bytes` in a non-HT PPDU at `rate_mbps`, ns.
    pub fn legacy_ns(&self, rate_mbps: u32, bytes: u32) -> u64 {
        self.ppdu_ns(&Phy::g(rate_mbps), bytes)
    }

    /// Difference between EIFS and DIFS or AIFS (10.3.2.3.7), ns: SIFS and an Ack at the lowest
    /// mandatory rate, 6 Mbit/s.
    pub fn eifs_extra_ns(&self) -> u64 {
        self.sifs_ns() + self.legacy_ns(6, ACK_BYTES)
    }

    /// AckTimeout (10.3.2.11): how long a sender waits for the start of a response, ns.
    pub const fn response_timeout_ns(&self) -> u64 {
        self.sifs_ns() + SLOT_NS + RX_START_DELAY_NS
    }

    const fn extension_ns(&self) -> u64 {
        match self.band {
            Band::Ghz2 => 6_000,
            Band::Ghz5 => 0,
        }
    }
}

/// Length of a compressed BlockAck (9.3.1.8.2) including FCS, bytes. The bitmap has 64 bits, or 256
/// with a larger window.
pub const fn block_ack_bytes(window: u16) -> u32 {
    if window <= 64 { 32 } else { 56 }
}
