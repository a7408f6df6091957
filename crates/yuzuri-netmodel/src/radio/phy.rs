//! Physical layer: available rates and the duration of a PPDU. Clauses refer to IEEE Std
//! 802.11-2020, for HE to IEEE Std 802.11ax-2021.

use crate::ConfigError;
use crate::error::check_range;
use serde::{Deserialize, Serialize};

/// Standard and rate of the data frames between a station and the access point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "standard", rename_all = "lowercase", deny_unknown_fields)]
pub enum Phy {
    /// 802.11g (or a): OFDM, no aggregation, no QoS (clauses 17 and 18).
    G {
        /// 6, 9, 12, 18, 24, 36, 48 or 54 Mbit/s.
        rate_mbps: u32,
    },
    /// 802.11n, HT mixed format (clause 19).
    N {
        /// 20 or 40 MHz.
        width_mhz: u32,
        /// Spatial streams, 1 to 4.
        streams: u8,
        /// MCS per stream, 0 to 7. The standard's MCS 15 is two streams with MCS 7.
        mcs: u8,
        /// 400 or 800 ns.
        #[serde(default = "long_guard")]
        guard_ns: u32,
    },
    /// 802.11ac, VHT (clause 21).
    Ac {
        /// 20, 40, 80 or 160 MHz.
        width_mhz: u32,
        /// Spatial streams, 1 to 8.
        streams: u8,
        /// 0 to 9.
        mcs: u8,
        /// 400 or 800 ns.
        #[serde(default = "long_guard")]
        guard_ns: u32,
    },
    /// 802.11ax, HE single-user (clause 27).
    Ax {
        /// 20, 40, 80 or 160 MHz.
        width_mhz: u32,
        /// Spatial streams, 1 to 8.
        streams: u8,
        /// 0 to 11.
        mcs: u8,
        /// 800, 1600 or 3200 ns.
        #[serde(default = "long_guard")]
        guard_ns: u32,
    },
}

fn long_guard() -> u32 {
    800
}

impl Phy {
    /// 802.11g at this rate.
    pub const fn g(rate_mbps: u32) -> Phy {
        Phy::G { rate_mbps }
    }
    /// 802.11n with the long guard interval.
    pub const fn n(width_mhz: u32, streams: u8, mcs: u8) -> Phy {
        Phy::N { width_mhz, streams, mcs, guard_ns: 800 }
    }
    /// 802.11ac with the long guard interval.
    pub const fn ac(width_mhz: u32, streams: u8, mcs: u8) -> Phy {
        Phy::Ac { width_mhz, streams, mcs, guard_ns: 800 }
    }
    /// 802.11ax with the shortest guard interval.
    pub const fn ax(width_mhz: u32, streams: u8, mcs: u8) -> Phy {
        Phy::Ax { width_mhz, streams, mcs, guard_ns: 800 }
    }

    /// Whether the station uses QoS (EDCA, QoS header, aggregation, block acknowledgement). All
    /// standards but 802.11g do.
    pub const fn is_qos(&self) -> bool {
        !matches!(self, Phy::G { .. })
    }

    /// Maximum A-MPDU length that the standard allows a receiver to announce, bytes (9.4.2.55.3,
    /// 9.4.2.157.2); `None` without aggregation.
    pub const fn ampdu_bytes(&self) -> Option<u32> {
        match self {
            Phy::G { .. } => None,
            Phy::N { .. } => Some(65_535),
            Phy::Ac { .. } | Phy::Ax { .. } => Some(1_048_575),
        }
    }

    /// Checks that the standard defines this combination.
    ///
    /// # Errors
    /// Returns an error that names the invalid field, its value and the allowed values.
    pub fn check(&self) -> Result<(), ConfigError> {
        let one_of = |field: &str, value: u32, allowed: &[u32]| {
            if allowed.contains(&value) {
                return Ok(());
            }
            let allowed: Vec<_> = allowed.iter().map(u32::to_string).collect();
            Err(ConfigError::new(field, value, format!("allowed are {}", allowed.join(", "))))
        };
        match *self {
            Phy::G { rate_mbps } => one_of("rate_mbps", rate_mbps, &OFDM_RATES),
            Phy::N { width_mhz, streams, mcs, guard_ns } => {
                one_of("width_mhz", width_mhz, &[20, 40])?;
                check_range("streams", streams, 1, 4)?;
                check_range("mcs", mcs, 0, 7)?;
                one_of("guard_ns", guard_ns, &[400, 800])
            }
            Phy::Ac { width_mhz, streams, mcs, guard_ns } => {
                one_of("width_mhz", width_mhz, &[20, 40, 80, 160])?;
                check_range("streams", streams, 1, 8)?;
                check_range("mcs", mcs, 0, 9)?;
                one_of("guard_ns", guard_ns, &[400, 800])?;
                if vht_excludes(width_mhz, streams, mcs) {
                    let why =
                        format!("802.11ac has no MCS {mcs} at {width_mhz} MHz with {streams} streams (21.5)");
                    return Err(ConfigError::new("mcs", mcs, why));
                }
                Ok(())
            }
            Phy::Ax { width_mhz, streams, mcs, guard_ns } => {
                one_of("width_mhz", width_mhz, &[20, 40, 80, 160])?;
                check_range("streams", streams, 1, 8)?;
                check_range("mcs", mcs, 0, 11)?;
                one_of("guard_ns", guard_ns, &[800, 1600, 3200])
            }
        }
    }

    /// Data bits per OFDM symbol, N_DBPS.
    pub fn bits_per_symbol(&self) -> u32 {
        match *self {
            Phy::G { rate_mbps } => rate_mbps * 4,
            Phy::N { width_mhz, streams, mcs, .. } => {
                let (bits, code) = MODULATIONS[usize::from(mcs)];
                code.of((if width_mhz == 20 { 52 } else { 108 }) * u32::from(streams) * bits)
            }
            Phy::Ac { width_mhz, streams, mcs, .. } => {
                let (bits, code) = MODULATIONS[usize::from(mcs)];
                let carriers = match width_mhz {
                    20 => 52,
                    40 => 108,
                    80 => 234,
                    _ => 468,
                };
                code.of(carriers * u32::from(streams) * bits)
            }
            Phy::Ax { width_mhz, streams, mcs, .. } => {
                let (bits, code) = MODULATIONS[usize::from(mcs)];
                let carriers = match width_mhz {
                    20 => 234,
                    40 => 468,
                    80 => 980,
                    _ => 1960,
                };
                code.of(carriers * u32::from(streams) * bits)
            }
        }
    }

    /// Duration of an OFDM symbol including its guard interval, ns.
    pub fn symbol_ns(&self) -> u64 {
        match *self {
            Phy::G { .. } => 4000,
            Phy::N { guard_ns, .. } | Phy::Ac { guard_ns, .. } => 3200 + u64::from(guard_ns),
            Phy::Ax { guard_ns, .. } => 12_800 + u64::from(guard_ns),
        }
    }

    /// Data rate, bits per second.
    pub fn rate_bps(&self) -> u64 {
        u64::from(self.bits_per_symbol()) * 1_000_000_000 / self.symbol_ns()
    }

    /// Duration of preamble and PHY header, ns.
    pub fn preamble_ns(&self) -> u64 {
        match *self {
            // L-STF 8, L-LTF 8, L-SIG 4 µs (table 17-5).
            Phy::G { .. } => 20_000,
            // L-STF, L-LTF and L-SIG, then HT-SIG 8, HT-STF 4, HT-LTF 4 each (table 19-6,
            // 19.3.9.4.6).
            Phy::N { streams, .. } => 20_000 + 8_000 + 4_000 + 4_000 * training_fields(streams),
            // L-STF, L-LTF and L-SIG, then VHT-SIG-A 8, VHT-STF 4, VHT-LTF 4 each, VHT-SIG-B 4
            // (table 21-5, 21.3.8.3.5).
            Phy::Ac { streams, .. } => 20_000 + 8_000 + 4_000 + 4_000 * training_fields(streams) + 4_000,
            // L-STF, L-LTF and L-SIG, then RL-SIG 4, HE-SIG-A 8, HE-STF 4, HE-LTF: 2x (6.4 µs) with
            // GI 0.8 and 1.6 µs, 4x (12.8 µs) with 3.2 µs (table 27-12, 27.3.11.10).
            Phy::Ax { streams, guard_ns, .. } => {
                let training = if guard_ns == 3200 { 12_800 } else { 6_400 } + u64::from(guard_ns);
                20_000 + 4_000 + 8_000 + 4_000 + training * training_fields(streams)
            }
        }
    }

    /// Duration of a PPDU with a PSDU of `bytes`, ns, without the signal extension of 2.4 GHz
    /// (TXTIME of 17.4.3, 19.4.3, 21.4.3, 27.4.3).
    pub fn ppdu_ns(&self, bytes: u32) -> u64 {
        let bits = SERVICE_BITS + self.tail_bits() + 8 * u64::from(bytes);
        let symbols = bits.div_ceil(u64::from(self.bits_per_symbol()));
        let data = symbols * self.symbol_ns();
        match self {
            // With the short guard interval, the data field is extended to a multiple of 4 µs.
            Phy::N { guard_ns: 400, .. } | Phy::Ac { guard_ns: 400, .. } => {
                self.preamble_ns() + data.div_ceil(4000) * 4000
            }
            _ => self.preamble_ns() + data,
        }
    }

    /// Maximum PSDU length in a PPDU of `nanos`, bytes.
    pub fn bytes_within(&self, nanos: u64) -> u32 {
        let room = nanos.saturating_sub(self.preamble_ns());
        let room = match self {
            Phy::N { guard_ns: 400, .. } | Phy::Ac { guard_ns: 400, .. } => room / 4000 * 4000,
            _ => room,
        };
        let bits = room / self.symbol_ns() * u64::from(self.bits_per_symbol());
        (bits.saturating_sub(SERVICE_BITS + self.tail_bits()) / 8).min(u64::from(u32::MAX)) as u32
    }

    /// Number of tail bits: six per convolutional encoder, none with LDPC, which HE is assumed to
    /// use.
    fn tail_bits(&self) -> u64 {
        let encoders = match *self {
            Phy::G { .. } => 1,
            // HT: one encoder up to 300 Mbit/s, else two (19.3.11.4).
            Phy::N { .. } => {
                if self.rate_bps() > 300_000_000 {
                    2
                } else {
                    1
                }
            }
            // VHT: one per 600 Mbit/s at the short guard interval (21.5).
            Phy::Ac { .. } => {
                (u64::from(self.bits_per_symbol()) * 1_000_000_000 / 3600).div_ceil(600_000_000)
            }
            Phy::Ax { .. } => 0,
        };
        6 * encoders
    }

    /// Non-HT reference rate (10.6.11, table 10-10), Mbit/s, which determines the rate of control
    /// responses.
    pub fn reference_rate_mbps(&self) -> u32 {
        match *self {
            Phy::G { rate_mbps } => rate_mbps,
            Phy::N { mcs, .. } | Phy::Ac { mcs, .. } | Phy::Ax { mcs, .. } => {
                [6, 12, 18, 24, 36, 48, 54].get(usize::from(mcs)).copied().unwrap_or(54)
            }
        }
    }
}

/// OFDM rates at 20 MHz, Mbit/s (table 17-4).
pub(crate) const OFDM_RATES: [u32; 8] = [6, 9, 12, 18, 24, 36, 48, 54];
/// Length of the SERVICE field (17.3.5.2), bits.
const SERVICE_BITS: u64 = 16;

#[derive(Clone, Copy)]
struct CodeRate(u32, u32);

impl CodeRate {
    fn of(self, coded_bits: u32) -> u32 {
        coded_bits * self.0 / self.1
    }
}

/// Coded bits per subcarrier and code rate, by MCS (tables 19-27, 21-30, 27-54).
const MODULATIONS: [(u32, CodeRate); 12] = [
    (1, CodeRate(1, 2)),
    (2, CodeRate(1, 2)),
    (2, CodeRate(3, 4)),
    (4, CodeRate(1, 2)),
    (4, CodeRate(3, 4)),
    (6, CodeRate(2, 3)),
    (6, CodeRate(3, 4)),
    (6, CodeRate(5, 6)),
    (8, CodeRate(3, 4)),
    (8, CodeRate(5, 6)),
    (10, CodeRate(3, 4)),
    (10, CodeRate(5, 6)),
];

/// Number of long training fields for a number of streams (tables 19-13, 21-13).
fn training_fields(streams: u8) -> u64 {
    match streams {
        0 | 1 => 1,
        2 => 2,
        3 | 4 => 4,
        5 | 6 => 6,
        _ => 8,
    }
}

/// Combinations that VHT excludes (tables 21-30 to 21-61).
fn vht_excludes(width_mhz: u32, streams: u8, mcs: u8) -> bool {
    match (width_mhz, mcs) {
        (20, 9) => !matches!(streams, 3 | 6),
        (80, 6) => matches!(streams, 3 | 7),
        (80, 9) => streams == 6,
        (160, 9) => streams == 3,
        _ => false,
    }
}
