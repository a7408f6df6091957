//! Airtime information from drivers: rates for the shares, and for the status each station's
//! airtime, retransmitted frames and queue.

use super::bottleneck::Channel;
use super::controller::StationLocation;
use crate::RadioConfig;
use crate::wireless::StationReport;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// A station's airtime since the previous query; absent: its driver does not report it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct AirStatus {
    /// The fraction of time in which frames to or from it were on the air.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub airtime: Option<f64>,
    /// Retransmitted fraction of the frames that were sent to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<f64>,
    /// Packets queued for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_packets: Option<u32>,
}

/// The stations of all radios, as last reported.
#[derive(Debug, Default)]
pub(super) struct Air {
    asked_ns: u64,
    heard: HashMap<[u8; 6], StationReport>,
    status: HashMap<[u8; 6], AirStatus>,
}

impl Air {
    /// Processes the drivers' reports at `now_ns`.
    pub(super) fn receive_reports(&mut self, now_ns: u64, heard: HashMap<[u8; 6], StationReport>) {
        let passed_us = now_ns.saturating_sub(self.asked_ns) as f64 / 1e3;
        let status = heard.iter().map(|(mac, now)| {
            let before = self.heard.get(mac).copied().unwrap_or_default();
            // A lower value than before: the station has reassociated.
            let since = |now: Option<u64>, before: Option<u64>| Some(now?.checked_sub(before?)? as f64);
            let airtime = since(now.airtime_us, before.airtime_us).filter(|_| passed_us > 0.0);
            let count =
                |now: Option<u32>, before: Option<u32>| since(now.map(u64::from), before.map(u64::from));
            let (sent, again) = (count(now.sent, before.sent), count(now.retries, before.retries));
            let frames = sent.zip(again).map(|(sent, again)| (again, sent + again));
            let status = AirStatus {
                airtime: airtime.map(|us| us / passed_us),
                retries: frames.filter(|(_, all)| *all > 0.0).map(|(again, all)| again / all),
                queue_packets: now.queued,
            };
            (*mac, status)
        });
        self.status = status.collect();
        (self.asked_ns, self.heard) = (now_ns, heard);
    }

    /// A station's radio, if its driver reports the rate.
    pub(super) fn radio(&self, mac: [u8; 6]) -> Option<RadioConfig> {
        self.heard.get(&mac)?.radio
    }

    /// A station's radio and channel.
    pub(super) fn place(&self, mac: [u8; 6]) -> StationLocation {
        let Some(heard) = self.heard.get(&mac) else { return StationLocation::default() };
        StationLocation { radio: heard.radio, channel: Channel(heard.channel_mhz.unwrap_or(0)) }
    }

    /// A station's status; `None` if it is not associated with a radio of this machine.
    pub(super) fn status(&self, mac: [u8; 6]) -> Option<AirStatus> {
        self.status.get(&mac).copied()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn airtime_and_retries_are_relative_to_the_previous_query() {
        let mut air = Air::default();
        let mac = [2, 0, 0, 0, 0, 1];
        let heard = |airtime_us, sent, retries| StationReport {
            airtime_us,
            sent: Some(sent),
            retries: Some(retries),
            queued: Some(7),
            ..StationReport::default()
        };
        let ask = |air: &mut Air, second: u64, heard| {
            air.receive_reports(second * 1_000_000_000, HashMap::from([(mac, heard)]));
            air.status(mac).unwrap()
        };
        let first = ask(&mut air, 2, heard(Some(5_000_000), 1_000, 500));
        assert_eq!(
            first,
            AirStatus { queue_packets: Some(7), ..AirStatus::default() },
            "nothing to compare with"
        );
        let second = ask(&mut air, 4, heard(Some(5_500_000), 1_090, 510));
        assert_eq!((second.airtime, second.retries), (Some(0.25), Some(0.1)));
        // It reassociated, and then sent nothing.
        let third = ask(&mut air, 6, heard(Some(100), 3, 0));
        assert_eq!((third.airtime, third.retries), (None, None));
        let fourth = ask(&mut air, 8, heard(Some(100), 3, 0));
        assert_eq!((fourth.airtime, fourth.retries), (Some(0.0), None));
        // A driver that reports no airtime.
        assert_eq!(ask(&mut air, 10, heard(None, 103, 0)).airtime, None);
        air.receive_reports(12_000_000_000, HashMap::new());
        assert_eq!(air.status(mac), None);
    }
}
