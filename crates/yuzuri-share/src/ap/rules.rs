//! The user's rules for stations: weights, limits, exemptions; and their configuration file.

use super::group::ApGroup;
use crate::{DEFAULT_PORT, InterfaceConfig, KeySource, RadioConfig, ShareError};
use serde::Deserialize;
use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use toml::Spanned;
use yuzuri_policy::{Aggregation, Objective, SlowRadio};

/// A station, by its hardware address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StationId(pub [u8; 6]);

impl fmt::Display for StationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// A string that is not a hardware address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a hardware address: write it as 02:00:5e:10:00:01")]
pub struct ParseStationError(String);

impl FromStr for StationId {
    type Err = ParseStationError;

    /// Six pairs of hexadecimal digits.
    fn from_str(text: &str) -> Result<StationId, ParseStationError> {
        let wrong = || ParseStationError(text.to_owned());
        let pairs: Vec<&str> = text.split([':', '-']).collect();
        let pair = |pair: &&str| (pair.len() == 2).then(|| u8::from_str_radix(pair, 16).ok()).flatten();
        let bytes: Option<Vec<u8>> = pairs.iter().map(pair).collect();
        bytes.and_then(|bytes| bytes.try_into().ok()).map(StationId).ok_or_else(wrong)
    }
}

/// A station's rule.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StationRule {
    /// Its share relative to others: at weight 2, twice that of an equal station of weight 1.
    pub weight: f64,
    /// The limit for all its uploads together, payload bit/s.
    pub max_bps: Option<f64>,
    /// It is never bounded.
    pub exempt: bool,
}

impl Default for StationRule {
    fn default() -> StationRule {
        StationRule { weight: 1.0, max_bps: None, exempt: false }
    }
}

/// The user's rules. They may change while the daemon runs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rules {
    /// The rules of certain stations.
    pub stations: HashMap<StationId, StationRule>,
    /// The rule of all others.
    pub guests: StationRule,
    /// The radios on which ACKs that a later one makes redundant are dropped.
    pub thin_acks: Vec<SlowRadio>,
    /// Whether traffic without a window (QUIC and other UDP, tunnels) stays unlimited instead of
    /// being limited to a share.
    pub no_police: bool,
}

impl Rules {
    /// The rule for a station.
    pub fn of(&self, station: StationId) -> StationRule {
        self.stations.get(&station).copied().unwrap_or(self.guests)
    }
}

/// A validated configuration file. Settings that it omits keep their defaults.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ApFile {
    /// The devices towards the stations.
    pub interface: Vec<String>,
    /// Report what would be done, without bounding anything.
    pub dry_run: bool,
    /// The objective of the policy.
    pub objective: Option<Objective>,
    /// The radios on which ACKs are dropped.
    pub thin_acks: Vec<SlowRadio>,
    /// Whether traffic without a window is limited to a share.
    pub police: Option<bool>,
    /// Attach by clsact in any case.
    pub clsact: bool,
    /// PHY rate of every station, if the kernel does not report it, Mbit/s.
    pub rate_mbps: Option<Spanned<f64>>,
    /// Its aggregation: none, ht or vht.
    pub aggregation: Option<Spanned<String>>,
    /// The metrics file, for a collector that reads files.
    pub metrics_file: Option<PathBuf>,
    /// Whether stations are asked to move between the radios if all gain.
    pub steering: SteeringFile,
    /// The groups of stations that run yuzuri themselves.
    pub members: MembersFile,
    station: Vec<FileStation>,
    guests: FileRule,
}

/// The radios between which stations are moved.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SteeringFile {
    /// hostapd's control socket of each radio; with fewer than two, no station is moved.
    pub hostapd: Vec<PathBuf>,
}

/// How stations that run `yuzuri share` are led.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MembersFile {
    /// Their key file.
    pub key_file: Option<PathBuf>,
    /// A passphrase instead.
    pub passphrase: Option<Spanned<String>>,
    /// The name of their group, if they have one.
    pub group: Option<String>,
    /// Their UDP port.
    pub port: Option<Spanned<u16>>,
}

impl MembersFile {
    /// How the access point takes part; `None`: it does not have the members' key. `key_file` comes
    /// first.
    pub fn group(&self, key_file: Option<&Path>) -> Option<ApGroup> {
        let file = key_file.or(self.key_file.as_deref()).map(|file| KeySource::File(file.to_owned()));
        let words = || Some(KeySource::Passphrase(self.passphrase.as_ref()?.get_ref().clone()));
        Some(ApGroup {
            key: file.or_else(words)?,
            group: self.group.as_deref().map(InterfaceConfig::group_named),
            port: self.port.as_ref().map_or(DEFAULT_PORT, |port| *port.get_ref()),
        })
    }

    fn check(&self) -> Result<(), Problem> {
        let at = |span: std::ops::Range<usize>| Some(span.start);
        match (&self.passphrase, &self.port) {
            (Some(words), _) if self.key_file.is_some() => {
                Err((at(words.span()), "passphrase: there is a key_file already; remove one of them".into()))
            }
            (_, Some(port)) if *port.get_ref() == 0 => Err((at(port.span()), "port: 0 is not a port".into())),
            _ => Ok(()),
        }
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileStation {
    mac: Spanned<String>,
    weight: Option<Spanned<f64>>,
    max_mbps: Option<Spanned<f64>>,
    #[serde(default)]
    exempt: bool,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct FileRule {
    weight: Option<Spanned<f64>>,
    max_mbps: Option<Spanned<f64>>,
    exempt: bool,
}

type Problem = (Option<usize>, String);

/// Reads and validates a configuration file.
///
/// # Errors
/// If the file cannot be read or is invalid, as `FILE:LINE:COLUMN: what`.
pub fn read_ap_file(file: &Path) -> Result<(ApFile, Rules), ShareError> {
    let text = std::fs::read_to_string(file)
        .map_err(|e| ShareError::Config(format!("reading the configuration {}: {e}", file.display())))?;
    parse(&text).map_err(|(at, what)| crate::file::config_error(file, &text, at, &what))
}

fn parse(text: &str) -> Result<(ApFile, Rules), Problem> {
    let file: ApFile =
        toml::from_str(text).map_err(|e| (e.span().map(|span| span.start), e.message().to_owned()))?;
    file.radio()?;
    file.members.check()?;
    let mut rules = Rules {
        guests: rule(file.guests.weight.as_ref(), file.guests.max_mbps.as_ref(), file.guests.exempt)?,
        thin_acks: file.thin_acks.clone(),
        no_police: file.police == Some(false),
        ..Rules::default()
    };
    for station in &file.station {
        let at = Some(station.mac.span().start);
        let id: StationId = station.mac.get_ref().parse().map_err(|why| (at, format!("mac: {why}")))?;
        let of_it = rule(station.weight.as_ref(), station.max_mbps.as_ref(), station.exempt)?;
        if rules.stations.insert(id, of_it).is_some() {
            return Err((at, format!("mac: {id} is listed twice")));
        }
    }
    Ok((file, rules))
}

fn rule(
    weight: Option<&Spanned<f64>>,
    max_mbps: Option<&Spanned<f64>>,
    exempt: bool,
) -> Result<StationRule, Problem> {
    let within = |name: &str, value: Option<&Spanned<f64>>, from: f64, to: f64| match value {
        Some(value) if !(from..=to).contains(value.get_ref()) => {
            let what = format!("{name}: {} is not from {from} to {to}", value.get_ref());
            Err((Some(value.span().start), what))
        }
        value => Ok(value.map(|value| *value.get_ref())),
    };
    let usual = StationRule::default();
    Ok(StationRule {
        weight: within("weight", weight, 0.1, 10.0)?.unwrap_or(usual.weight),
        max_bps: within("max_mbps", max_mbps, 0.1, 100_000.0)?.map(|mbps| mbps * 1e6),
        exempt,
    })
}

impl ApFile {
    /// The radio of every station, if the kernel does not report it.
    ///
    /// # Errors
    /// If only one of its two values is given, or the combination is invalid.
    pub fn radio(&self) -> Result<Option<RadioConfig>, (Option<usize>, String)> {
        crate::file::radio(self.rate_mbps.as_ref(), self.aggregation.as_ref())
    }
}

/// A text that is not a valid radio.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a radio: write RATE:STANDARD, a rate of 0.1 to 100000 Mbit/s and g, n, ac or ax")]
pub struct ParseRadioError(String);

/// A radio on the command line: `RATE:STANDARD`.
impl FromStr for RadioConfig {
    type Err = ParseRadioError;

    fn from_str(text: &str) -> Result<RadioConfig, ParseRadioError> {
        let wrong = || ParseRadioError(text.to_owned());
        let (rate, standard) = text.split_once(':').ok_or_else(wrong)?;
        let rate_mbps =
            rate.parse().ok().filter(|rate| (0.1..=100_000.0).contains(rate)).ok_or_else(wrong)?;
        let aggregation = match standard {
            "a" | "b" | "g" => Aggregation::None,
            "n" => Aggregation::Ht,
            "ac" | "ax" | "be" => Aggregation::Vht,
            _ => return Err(wrong()),
        };
        Ok(RadioConfig { rate_mbps, aggregation })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn stations_and_radios_are_read() {
        let station = |text: &str| text.parse::<StationId>();
        assert_eq!(station("02:00:5E:10:00:01").unwrap(), StationId([2, 0, 0x5e, 0x10, 0, 1]));
        for wrong in ["", "02:00:5e:10:00", "02:00:5e:10:00:01:02", "2:0:5e:10:0:1", "02:00:5e:10:00:0g"] {
            assert!(station(wrong).is_err(), "{wrong}");
        }
        let radio = |text: &str| text.parse::<RadioConfig>();
        assert_eq!(radio("65:n").unwrap(), RadioConfig { rate_mbps: 65.0, aggregation: Aggregation::Ht });
        for wrong in ["65", "0:n", "n:65", "65:", "65:xy", "NaN:n"] {
            assert!(radio(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_file_sets_weights_and_limits_of_stations() {
        let (file, rules) = parse(
            "interface = [\"br-lan\"]\nobjective = \"latency\"\nthin_acks = [\"g\"]\npolice = false\nrate_mbps = 65.0\n\
             aggregation = \"ht\"\n[[station]]\nmac = \"02:00:00:00:00:01\"\nweight = 2.0\n[[station]]\n\
             mac = \"02-00-00-00-00-02\"\nexempt = true\n[guests]\nweight = 0.5\nmax_mbps = 3\n",
        )
        .unwrap();
        assert_eq!((file.interface, file.objective), (vec!["br-lan".to_owned()], Some(Objective::Latency)));
        assert!(rules.no_police && rules.thin_acks == [SlowRadio::G]);
        let of = |n: u8| rules.of(StationId([2, 0, 0, 0, 0, n]));
        assert_eq!(of(1), StationRule { weight: 2.0, ..StationRule::default() });
        assert!(of(2).exempt);
        assert_eq!(of(3), StationRule { weight: 0.5, max_bps: Some(3e6), exempt: false });
        assert_eq!(parse("").unwrap().1, Rules::default());
    }

    #[test]
    fn an_error_in_the_file_names_its_position() {
        let station = "[[station]]\nmac = \"02:00:00:00:00:01\"\n";
        for (text, what) in [
            ("interfaces = []", "unknown field"),
            ("thin_acks = [\"ac\"]", "unknown variant"),
            ("rate_mbps = 65.0", "needs `aggregation`"),
            ("[members]\nkey = \"k\"", "unknown field"),
            ("[members]\nkey_file = \"k\"\npassphrase = \"w\"", "remove one of them"),
            ("[members]\nport = 0", "0 is not a port"),
            ("[guests]\nweight = 0", "weight: 0 is not from 0.1 to 10"),
            ("[guests]\nmax_mbps = -1", "max_mbps: -1 is not from"),
            ("[[station]]\nmac = \"02:00\"", "is not a hardware address"),
            ("[[station]]\nweight = 2", "missing field `mac`"),
            (&[station, station].concat(), "is listed twice"),
        ] {
            let (at, why) = parse(text).unwrap_err();
            assert!(why.contains(what) && at.is_some(), "{text}: {at:?} {why}");
        }
    }
}
