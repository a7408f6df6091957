//! Configuration of a cell.

use super::phy::OFDM_RATES;
use super::{Band, Phy};
use crate::ConfigError;
use crate::error::check_range;
use crate::queue::QueueConfig;
use serde::{Deserialize, Serialize};

/// Channel access parameters: EDCA for best effort, or DCF.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Access {
    /// Number of idle slots after SIFS.
    pub aifsn: u8,
    /// Minimum contention window, one less than a power of two.
    pub cw_min: u16,
    /// Maximum contention window, one less than a power of two.
    pub cw_max: u16,
}

impl Access {
    /// EDCA, best effort (table 9-155, aCWmin 15, aCWmax 1023).
    pub const BEST_EFFORT: Access = Access { aifsn: 3, cw_min: 15, cw_max: 1023 };
    /// EDCA, voice (table 9-155).
    pub const VOICE: Access = Access { aifsn: 2, cw_min: 3, cw_max: 7 };
    /// DCF. DIFS is SIFS and two slots (10.3.2.3.5).
    pub const DCF: Access = Access { aifsn: 2, cw_min: 15, cw_max: 1023 };

    fn check(&self) -> Result<(), ConfigError> {
        check_range("aifsn", self.aifsn, 1, 15)?;
        for (field, value) in [("cw_min", self.cw_min), ("cw_max", self.cw_max)] {
            if value == u16::MAX || !(value + 1).is_power_of_two() {
                return Err(ConfigError::new(
                    field,
                    value,
                    "allowed are 0, 1, 3, 7, 15 ... 32767 (10.23.2.2)",
                ));
            }
        }
        check_range("cw_max", self.cw_max, self.cw_min, 32_767)
    }
}

/// Limits of aggregation (A-MPDU).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AmpduConfig {
    /// Maximum number of MPDUs in an A-MPDU. 1 disables aggregation; n and ac allow at most 64.
    pub mpdus: u16,
    /// Maximum length, bytes. Default: the standard's maximum, 65,535 for n and 1,048,575 for ac
    /// and ax.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u32>,
    /// Maximum duration of a PPDU, µs. aPPDUMaxTime is 5,484 (tables 19-25, 21-29, 27-52).
    pub duration_us: u32,
    /// Block acknowledgement window: how many MPDUs, from the first unacknowledged one, may be in
    /// flight. 64; with ax up to 256.
    pub window: u16,
}

impl Default for AmpduConfig {
    fn default() -> AmpduConfig {
        AmpduConfig { mpdus: 64, bytes: None, duration_us: 5484, window: 64 }
    }
}

impl AmpduConfig {
    fn check(&self) -> Result<(), ConfigError> {
        check_range("mpdus", self.mpdus, 1, 256)?;
        if let Some(bytes) = self.bytes {
            check_range("bytes", bytes, 1, 6_500_631)?;
        }
        check_range("duration_us", self.duration_us, 100, 5484)?;
        check_range("window", self.window, 1, 256)
    }
}

/// Configuration of a station.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StationConfig {
    /// Standard and rate in both directions.
    pub phy: Phy,
    /// Queue of the station. Default: drop-tail with 1000 packets, Linux's `txqueuelen`.
    #[serde(default = "station_queue")]
    pub queue: QueueConfig,
    /// Channel access. Default: [`Access::DCF`] for 802.11g, otherwise [`Access::BEST_EFFORT`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<Access>,
    /// Probability, 0 to 1, that an MPDU between the station and the access point is corrupted, in
    /// either direction.
    #[serde(default)]
    pub mpdu_error_rate: f64,
}

fn station_queue() -> QueueConfig {
    QueueConfig::drop_tail(1000)
}

impl StationConfig {
    /// A station with default settings.
    pub fn new(phy: Phy) -> StationConfig {
        StationConfig { phy, queue: station_queue(), access: None, mpdu_error_rate: 0.0 }
    }

    pub(super) fn access(&self) -> Access {
        self.access.unwrap_or(if self.phy.is_qos() { Access::BEST_EFFORT } else { Access::DCF })
    }

    pub(super) fn check(&self, band: Band) -> Result<(), ConfigError> {
        self.phy.check().map_err(|error| error.within("phy"))?;
        if band == Band::Ghz2 {
            match self.phy {
                Phy::Ac { .. } => {
                    return Err(ConfigError::new(
                        "phy.standard",
                        "ac",
                        "802.11ac is for 5 GHz only; allowed are g, n, ax",
                    ));
                }
                Phy::Ax { width_mhz, .. } if width_mhz > 40 => {
                    return Err(ConfigError::new(
                        "phy.width_mhz",
                        width_mhz,
                        "allowed in 2.4 GHz are 20, 40",
                    ));
                }
                _ => {}
            }
        }
        self.queue.check().map_err(|error| error.within("queue"))?;
        if let Some(access) = self.access {
            access.check().map_err(|error| error.within("access"))?;
        }
        check_range("mpdu_error_rate", self.mpdu_error_rate, 0.0, 1.0)
    }
}

/// Configuration of the access point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ApConfig {
    /// Queue towards the stations. With FQ-CoDel each station has its own flows, and stations are
    /// served by round robin.
    pub queue: QueueConfig,
    /// With FQ-CoDel: serve stations by used airtime instead of round robin, as Linux's mac80211
    /// does.
    pub airtime_fairness: bool,
    /// Channel access. Default: [`Access::BEST_EFFORT`] if any station uses QoS, otherwise
    /// [`Access::DCF`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access: Option<Access>,
}

impl Default for ApConfig {
    fn default() -> ApConfig {
        ApConfig { queue: QueueConfig::drop_tail(400), airtime_fairness: false, access: None }
    }
}

/// Configuration of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CellConfig {
    /// Initial stations, numbered from 0. At most 2007, the number of association identifiers.
    pub stations: Vec<StationConfig>,
    /// The access point.
    #[serde(default)]
    pub ap: ApConfig,
    /// Frequency band.
    #[serde(default)]
    pub band: Band,
    /// Basic rates, Mbit/s. A response uses the highest basic rate that does not exceed the rate of
    /// the frame (10.6.6.5.2).
    #[serde(default = "mandatory_rates")]
    pub basic_rates_mbps: Vec<u32>,
    /// Rate of group-addressed frames, Mbit/s; must be a basic rate.
    #[serde(default = "lowest_rate")]
    pub group_rate_mbps: u32,
    /// PSDUs longer than this many bytes are protected by RTS/CTS. Default: no protection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rts_threshold_bytes: Option<u32>,
    /// Number of attempts after which a frame is discarded (dot11ShortRetryLimit).
    #[serde(default = "default_retry_limit")]
    pub retry_limit: u8,
    /// Limits of aggregation.
    #[serde(default)]
    pub ampdu: AmpduConfig,
    /// Bytes that encryption adds to each MPDU: 0 without encryption, 16 for CCMP-128 and GCMP.
    #[serde(default)]
    pub security_bytes: u32,
    /// Whether a missing block acknowledgement is requested (BlockAckReq) before anything else is
    /// sent.
    #[serde(default)]
    pub request_missed_block_ack: bool,
}

fn mandatory_rates() -> Vec<u32> {
    vec![6, 12, 24]
}

fn lowest_rate() -> u32 {
    6
}

fn default_retry_limit() -> u8 {
    7
}

impl CellConfig {
    /// A cell with default settings, in the 2.4 GHz band if all stations are 802.11g.
    pub fn new(stations: Vec<StationConfig>) -> CellConfig {
        let only_g = !stations.is_empty() && stations.iter().all(|station| !station.phy.is_qos());
        CellConfig {
            stations,
            ap: ApConfig::default(),
            band: if only_g { Band::Ghz2 } else { Band::Ghz5 },
            basic_rates_mbps: mandatory_rates(),
            group_rate_mbps: lowest_rate(),
            rts_threshold_bytes: None,
            retry_limit: default_retry_limit(),
            ampdu: AmpduConfig::default(),
            security_bytes: 0,
            request_missed_block_ack: false,
        }
    }

    /// Checks the configuration.
    ///
    /// # Errors
    /// Returns an error that names the first invalid field, its value and the allowed values.
    pub fn check(&self) -> Result<(), ConfigError> {
        check_range("stations", self.stations.len(), 0, MAX_STATIONS)?;
        for (index, station) in self.stations.iter().enumerate() {
            station.check(self.band).map_err(|error| error.within(format!("stations[{index}]")))?;
        }
        self.ap.queue.check().map_err(|error| error.within("ap.queue"))?;
        if self.ap.airtime_fairness && !matches!(self.ap.queue, QueueConfig::FqCodel(_)) {
            let why = "airtime fairness needs a queue per station: allowed with ap.queue.kind fq_codel only";
            return Err(ConfigError::new("ap.airtime_fairness", true, why));
        }
        if let Some(access) = self.ap.access {
            access.check().map_err(|error| error.within("ap.access"))?;
        }
        if !self.basic_rates_mbps.contains(&6) {
            let rates = format!("{:?}", self.basic_rates_mbps);
            return Err(ConfigError::new(
                "basic_rates_mbps",
                rates,
                "6 must be among them: all stations can receive it",
            ));
        }
        for rate in &self.basic_rates_mbps {
            if !OFDM_RATES.contains(rate) {
                return Err(ConfigError::new(
                    "basic_rates_mbps",
                    rate,
                    format!("allowed are {OFDM_RATES:?}"),
                ));
            }
        }
        if !self.basic_rates_mbps.contains(&self.group_rate_mbps) {
            let why = format!("allowed are the basic rates, {:?}", self.basic_rates_mbps);
            return Err(ConfigError::new("group_rate_mbps", self.group_rate_mbps, why));
        }
        check_range("retry_limit", self.retry_limit, 1, 255)?;
        self.ampdu.check().map_err(|error| error.within("ampdu"))?;
        check_range("security_bytes", self.security_bytes, 0, 100)
    }
}

/// Highest association identifier (9.4.1.8).
pub(super) const MAX_STATIONS: usize = 2007;
