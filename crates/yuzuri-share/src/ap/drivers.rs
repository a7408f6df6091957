//! Determines for `yuzuri doctor` what the drivers of this machine's radios report about stations.
//! Shares need the rates; airtime, retries and queues are shown to people. Without a station that
//! shows a value, its support is unknown unless the driver announces it.

use crate::wireless::{self, StationReport};
use std::path::Path;
use yuzuri_kernel::doctor::{CheckResult, Finding};

/// Extended features (`enum nl80211_ext_feature_index`): queues of its own for each station, and
/// airtime that is counted.
const TXQS: usize = 28;
const AIRTIME_FAIRNESS: usize = 33;
/// After this many packets to a station, a counter of 0 means that the driver does not count.
const COUNTS_AFTER: u32 = 100;

/// Whether a driver reports something; `None`: not known yet.
type Support = Option<bool>;

/// What a driver reports.
#[derive(Debug, Clone, Copy, PartialEq)]
struct DriverFeatures {
    rate: Support,
    airtime: Support,
    retries: Support,
    queue: Support,
}

impl DriverFeatures {
    fn of(peers: &[StationReport], features: &[u8]) -> DriverFeatures {
        let announces = |bit: usize| features.get(bit / 8).is_some_and(|byte| byte & 1 << (bit % 8) != 0);
        let shows = |what: fn(&StationReport) -> bool| peers.iter().any(what);
        let is_busy = peers.iter().any(|peer| peer.sent.unwrap_or(0) >= COUNTS_AFTER);
        // A value that is present is supported. A value that stays absent for stations with much
        // traffic is not, whatever the driver announces.
        let support = |shown: bool, silent: bool, announced: bool| {
            if shown {
                Some(true)
            } else if silent {
                Some(false)
            } else {
                announced.then_some(true)
            }
        };
        let is_there = !peers.is_empty();
        DriverFeatures {
            rate: support(shows(|peer| peer.radio.is_some()), is_busy, false),
            airtime: support(shows(|peer| peer.airtime_us.is_some()), is_busy, announces(AIRTIME_FAIRNESS)),
            retries: support(shows(|peer| peer.retries.is_some()), is_there, false),
            queue: support(shows(|peer| peer.queued.is_some()), is_there, announces(TXQS)),
        }
    }

    /// The finding as text, with advice.
    fn finding(self, interface: &str, driver: &str) -> Finding {
        let all = [
            ("rate", self.rate),
            ("airtime", self.airtime),
            ("retries", self.retries),
            ("queue", self.queue),
        ];
        let which = |support: Support| {
            all.iter().filter(|(_, one)| *one == support).map(|(name, _)| *name).collect::<Vec<_>>()
        };
        let parts = [
            ("reports", which(Some(true))),
            ("does not report", which(Some(false))),
            ("not known yet:", which(None)),
        ];
        let parts = parts.iter().filter(|(_, names)| !names.is_empty());
        let found: Vec<String> = parts.map(|(verb, names)| format!("{verb} {}", names.join(", "))).collect();
        let (result, advice) = match self.rate {
            Some(true) => (CheckResult::Ok, ""),
            Some(false) => (
                CheckResult::Fallback,
                "`yuzuri ap --radio RATE:STANDARD` states what the driver does not \
                report",
            ),
            None => (
                CheckResult::Fallback,
                "run this again while a station is connected and has sent \
            something",
            ),
        };
        Finding {
            what: format!("radio {interface}"),
            result,
            found: format!("{driver}: {}", found.join("; ")),
            gives: "ap: shares by rates; airtime, retries and queues in its status".into(),
            advice: advice.into(),
        }
    }
}

/// One finding for each radio interface of this network namespace.
pub(super) fn examine() -> Vec<Finding> {
    let Ok(interfaces) = std::fs::read_dir("/sys/class/net") else { return Vec::new() };
    let mut paths: Vec<_> = interfaces.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths.iter().filter_map(|path| of_interface(path)).collect()
}

fn of_interface(path: &Path) -> Option<Finding> {
    if !path.join("phy80211").exists() {
        return None;
    }
    let interface = path.file_name()?.to_str()?;
    let index = std::fs::read_to_string(path.join("ifindex")).ok()?.trim().parse().ok()?;
    let driver = std::fs::read_link(path.join("device/driver")).ok();
    let driver = driver.as_deref().and_then(Path::file_name).and_then(|name| name.to_str());
    let peers = wireless::peers(index)?;
    let features = wireless::features(index).unwrap_or_default();
    Some(DriverFeatures::of(&peers, &features).finding(interface, driver.unwrap_or("unknown driver")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::wireless::recorded::{attribute, entry, nested};
    use crate::wireless::{
        RATE_BITRATE, RATE_MCS, STA_INFO_RX_BITRATE, STA_INFO_RX_DURATION, STA_INFO_TID_STATS,
        STA_INFO_TX_PACKETS, STA_INFO_TX_RETRIES, TID_STATS_TXQ_STATS, TXQ_STATS_BACKLOG_PACKETS, parsed,
    };

    fn number(kind: u16, value: u32) -> Vec<u8> {
        attribute(kind, &value.to_ne_bytes())
    }

    fn rate() -> Vec<u8> {
        nested(
            STA_INFO_RX_BITRATE,
            &[attribute(RATE_BITRATE, &650_u16.to_ne_bytes()), attribute(RATE_MCS, &[7])],
        )
    }

    fn airtime(us: u64) -> Vec<u8> {
        attribute(STA_INFO_RX_DURATION, &us.to_ne_bytes())
    }

    fn queue() -> Vec<u8> {
        let stats = nested(TID_STATS_TXQ_STATS, &[number(TXQ_STATS_BACKLOG_PACKETS, 0)]);
        nested(STA_INFO_TID_STATS, &[nested(1, &[stats])])
    }

    fn found(peers: &[Vec<Vec<u8>>], features: &[u8]) -> (CheckResult, String) {
        let peers: Vec<StationReport> = peers.iter().map(|one| parsed(&entry(one)).unwrap()).collect();
        let finding = DriverFeatures::of(&peers, features).finding("wlan0", "ath9k");
        assert_eq!(finding.advice.is_empty(), finding.result == CheckResult::Ok, "{finding:?}");
        assert_eq!(finding.what, "radio wlan0");
        (finding.result, finding.found)
    }

    fn ok(found: &str) -> (CheckResult, String) {
        (CheckResult::Ok, format!("ath9k: {found}"))
    }

    fn fallback(found: &str) -> (CheckResult, String) {
        (CheckResult::Fallback, format!("ath9k: {found}"))
    }

    /// A bitmap in which these features are announced.
    fn announced(bits: &[usize]) -> Vec<u8> {
        let mut bytes = vec![0; 6];
        bits.iter().for_each(|bit| bytes[bit / 8] |= 1 << (bit % 8));
        bytes
    }

    #[test]
    fn what_a_stations_entry_shows_is_reported() {
        let packets = |count| number(STA_INFO_TX_PACKETS, count);
        let retries = number(STA_INFO_TX_RETRIES, 0);
        let all = vec![rate(), packets(900), retries.clone(), airtime(7_000), queue()];
        assert_eq!(found(std::slice::from_ref(&all), &[]), ok("reports rate, airtime, retries, queue"));
        // One of two stations has sent nothing yet.
        assert_eq!(
            found(&[vec![retries.clone(), packets(2), airtime(0)], all], &[]),
            ok("reports rate, airtime, retries, queue")
        );
        // Like mac80211_hwsim, which does not count airtime.
        let hwsim = vec![rate(), packets(900), retries.clone(), airtime(0), queue()];
        assert_eq!(
            found(std::slice::from_ref(&hwsim), &[]),
            ok("reports rate, retries, queue; does not report airtime")
        );
        assert_eq!(
            found(&[hwsim], &announced(&[AIRTIME_FAIRNESS])),
            ok("reports rate, retries, queue; does not report airtime"),
            "announced, and yet not there"
        );
        // A driver whose firmware has its own counters.
        assert_eq!(
            found(&[vec![packets(900)]], &[]),
            fallback("does not report rate, airtime, retries, queue")
        );
        assert_eq!(
            found(&[vec![packets(3), retries]], &[]),
            fallback("reports retries; does not report queue; not known yet: rate, airtime")
        );
    }

    #[test]
    fn without_stations_only_announced_features_are_known() {
        assert_eq!(found(&[], &[]), fallback("not known yet: rate, airtime, retries, queue"));
        assert_eq!(
            found(&[], &announced(&[TXQS, AIRTIME_FAIRNESS])),
            fallback("reports airtime, queue; not known yet: rate, retries")
        );
        assert_eq!(found(&[], &announced(&[TXQS - 1, AIRTIME_FAIRNESS + 1])), found(&[], &[]));
    }

    /// Devices that are no radios, as in this test's namespace, give no finding.
    #[test]
    fn loopback_is_no_radio() {
        assert_eq!(of_interface(Path::new("/sys/class/net/lo")), None);
        assert_eq!(wireless::peers(1), None);
    }
}
