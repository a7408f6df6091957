//! The radio's information about a terminal, and the rate that follows from it.

use crate::UnknownName;
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// How a link aggregates frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Aggregation {
    /// Each packet is a separate frame (802.11a, b, g).
    None,
    /// A-MPDU of up to 65,535 bytes (802.11n).
    Ht,
    /// A-MPDU of up to 64 packets and 1 MB (802.11ac and later).
    Vht,
}

/// The longest A-MPDU of 802.11n, bytes (IEEE 802.11-2020, 9.4.2.55.3).
const HT_AMPDU_BYTES: u32 = 65_535;

impl Aggregation {
    /// From the longest A-MPDU that the link's receiver accepts, bytes; `None`: none.
    pub const fn up_to(ampdu_bytes: Option<u32>) -> Aggregation {
        match ampdu_bytes {
            None => Aggregation::None,
            Some(..=HT_AMPDU_BYTES) => Aggregation::Ht,
            Some(_) => Aggregation::Vht,
        }
    }
}

/// A kind of radio on which ACKs take so much airtime that dropping some may be worthwhile (RFC
/// 3449).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SlowRadio {
    /// 802.11a, b, g: each ACK is a frame of its own.
    G,
    /// 802.11n: an ACK is a part of an aggregate of 64 kB.
    N,
}

impl SlowRadio {
    /// How it aggregates.
    pub const fn aggregation(self) -> Aggregation {
        match self {
            SlowRadio::G => Aggregation::None,
            SlowRadio::N => Aggregation::Ht,
        }
    }
}

impl FromStr for SlowRadio {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<SlowRadio, UnknownName> {
        match text {
            "a" | "b" | "g" => Ok(SlowRadio::G),
            "n" => Ok(SlowRadio::N),
            _ => Err(UnknownName::new("slow radio", text, &["g (a, b and g)", "n"])),
        }
    }
}

/// The radio's information about this terminal (nl80211: station dump), as far as it is known.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RadioHint {
    /// The rate that this terminal could deliver alone on the air, payload bits per second; 0:
    /// unknown.
    pub alone_bps: u64,
    /// Full segments in one aggregate (A-MPDU); 0: none, or unknown.
    pub aggregate_segments: u32,
}

/// Payload of a segment of 1500 bytes with timestamps, bits.
pub(crate) const PAYLOAD_BITS: f64 = 1448.0 * 8.0;
/// The same segment on the air: MAC header, FCS, delimiter and padding, security; and an
/// acknowledgement.
const SEGMENT_BITS: f64 = 1544.0 * 8.0;
const ACK_BITS: f64 = 108.0 * 8.0;
/// The overhead before a frame: AIFS and half of aCWmin's slots; preamble; and after it: SIFS and
/// the response. IEEE 802.11-2020, tables 17-21, 19-25 and 21-29, for best effort at 5 GHz; 2.4 GHz
/// differs little.
const ACCESS_S: f64 = 43e-6 + 67.5e-6;
const PREAMBLE_S: f64 = 40e-6;
const LEGACY_PREAMBLE_S: f64 = 26e-6;
const RESPONSE_S: f64 = 16e-6 + 32e-6;
/// The longest PPDU.
const MAX_PPDU_S: f64 = 5.484e-3;

impl RadioHint {
    /// For a link that sends at `rate_bps` (the PHY rate of the last frames): a cycle of one full
    /// aggregate and of the aggregate of its acknowledgements, one per two segments, without
    /// collisions.
    pub fn of_link(rate_bps: u64, aggregation: Aggregation) -> RadioHint {
        let rate_bps = rate_bps as f64;
        if rate_bps <= 0.0 {
            return RadioHint::default();
        }
        let (segments, preamble_s) = match aggregation {
            Aggregation::None => (1.0, LEGACY_PREAMBLE_S),
            Aggregation::Ht => {
                let most = f64::from(HT_AMPDU_BYTES) * 8.0 / SEGMENT_BITS;
                (most.min(MAX_PPDU_S * rate_bps / SEGMENT_BITS), PREAMBLE_S)
            }
            Aggregation::Vht => ((MAX_PPDU_S * rate_bps / SEGMENT_BITS).min(64.0), PREAMBLE_S),
        };
        let segments = segments.floor().max(1.0);
        let frame_s = |bits: f64| ACCESS_S + preamble_s + bits / rate_bps + RESPONSE_S;
        // Without aggregation an acknowledgement is a separate frame, one per two segments.
        let cycle_s = if aggregation == Aggregation::None {
            frame_s(SEGMENT_BITS) + frame_s(ACK_BITS) / 2.0
        } else {
            frame_s(segments * SEGMENT_BITS) + frame_s((segments / 2.0).ceil() * ACK_BITS)
        };
        RadioHint {
            alone_bps: (segments * PAYLOAD_BITS / cycle_s) as u64,
            aggregate_segments: if aggregation == Aggregation::None { 0 } else { segments as u32 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Collision-free limits with one acknowledgement per two segments, Mbit/s, found by running
    /// the radio model (`cargo test -p yuzuri-netmodel --test head_room -- --nocapture`).
    #[test]
    fn alone_is_what_the_radio_model_carries_within_7_percent() {
        let rows =
            [(54, Aggregation::None, 23.9), (65, Aggregation::Ht, 55.0), (390, Aggregation::Vht, 298.0)];
        for (rate_mbps, aggregation, expected_mbps) in rows {
            let hint = RadioHint::of_link(rate_mbps * 1_000_000, aggregation);
            let ratio = hint.alone_bps as f64 / 1e6 / expected_mbps;
            assert!((ratio - 1.0).abs() < 0.07, "{rate_mbps}: {hint:?}, ratio {ratio}");
        }
    }

    #[test]
    fn each_standard_has_its_aggregation() {
        use yuzuri_netmodel::radio::Phy;
        let of = |phy: Phy| Aggregation::up_to(phy.ampdu_bytes());
        assert_eq!(of(Phy::g(54)), Aggregation::None);
        assert_eq!(of(Phy::n(20, 1, 7)), Aggregation::Ht);
        assert_eq!(of(Phy::ac(80, 2, 9)), Aggregation::Vht);
        assert_eq!(of(Phy::ax(20, 1, 0)), Aggregation::Vht);
        assert_eq!(Aggregation::up_to(Some(65_536)), Aggregation::Vht);
    }

    #[test]
    fn an_unknown_rate_gives_no_estimate() {
        assert_eq!(RadioHint::of_link(0, Aggregation::Vht), RadioHint::default());
    }
}
