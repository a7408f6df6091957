//! Moves stations between an access point's radios if no station loses: [`plan`] decides,
//! [`hostapd`] sends the request.

#[cfg(any(fuzzing, debug_assertions))]
mod fuzz;
mod hostapd;
mod plan;

use super::rules::StationId;
use crate::RadioConfig;
use hostapd::{Bss, Hostapd, RadioStation};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use yuzuri_policy::Aggregation;

#[cfg(any(fuzzing, debug_assertions))]
pub use fuzz::fuzz_hostapd;
pub use plan::{Candidate, ClientSteering, Request};

/// A station that has more to send than it can, as seen by the daemon.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sending {
    pub(crate) id: StationId,
    pub(crate) rate_bps: f64,
    /// Its current radio, if the kernel reports it.
    pub(crate) radio: Option<RadioConfig>,
}

/// The results of requests to move to another radio.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SteeringStatus {
    /// Requests that were sent.
    pub asked: u64,
    /// Of these, requests that undid a move.
    pub undone: u64,
    /// Stations that accepted.
    pub accepted: u64,
    /// Stations that refused.
    pub refused: u64,
}

/// A radio, and the connection to its hostapd while there is one.
#[derive(Debug)]
struct Radio {
    socket: PathBuf,
    hostapd: Option<Hostapd>,
}

impl Radio {
    /// Sends a request to hostapd. After a failure, the next request reconnects: a restarted
    /// hostapd has another socket at the same path, and a late answer would be mistaken for that of
    /// the next request.
    fn ask<T>(&mut self, what: impl FnOnce(&mut Hostapd) -> io::Result<T>) -> io::Result<T> {
        let mut hostapd = match self.hostapd.take() {
            Some(hostapd) => hostapd,
            None => Hostapd::open(&self.socket)?,
        };
        let answer = what(&mut hostapd)?;
        self.hostapd = Some(hostapd);
        Ok(answer)
    }
}

/// All radios of an access point.
#[derive(Debug)]
pub(crate) struct Steerer {
    radios: Vec<Radio>,
    plan: ClientSteering,
    /// The known radio properties of each station on each radio that it has used.
    known: HashMap<(StationId, usize), RadioConfig>,
    dry_run: bool,
    pub(crate) status: SteeringStatus,
}

impl Steerer {
    /// For radios whose hostapd has these sockets. It is connected to at the first tick.
    pub(crate) fn new(sockets: &[PathBuf]) -> Steerer {
        let radio = |socket: &PathBuf| Radio { socket: socket.clone(), hostapd: None };
        Steerer {
            radios: sockets.iter().map(radio).collect(),
            plan: ClientSteering::default(),
            known: HashMap::new(),
            dry_run: false,
            status: SteeringStatus::default(),
        }
    }

    /// Sets whether it only decides and sends no requests.
    pub(crate) fn set_dry_run(&mut self, dry_run: bool) {
        self.dry_run = dry_run;
    }

    /// Determines the radio of each station, and asks one to move if all gain by it. `air_limits`:
    /// shares are enforced, and the air is the limit.
    pub(crate) fn tick(&mut self, now: Duration, air_limits: bool, sending: &[Sending]) -> io::Result<()> {
        let (mut bss, mut place) = (Vec::new(), HashMap::new());
        for (number, radio) in self.radios.iter_mut().enumerate() {
            let (answers, is, stations) =
                radio.ask(|hostapd| Ok((hostapd.answers()?, hostapd.bss()?, hostapd.stations()?)))?;
            for (station, status) in answers {
                self.status.accepted += u64::from(status == 0);
                self.status.refused += u64::from(status != 0);
                self.plan.answered(now, station, status);
            }
            bss.push(is);
            place.extend(stations.into_iter().map(|station| (station.id, (number, station))));
        }
        let mut candidates = Vec::new();
        for one in sending {
            let Some((on, station)) = place.get(&one.id) else { continue };
            if let Some(radio) = one.radio {
                self.known.insert((one.id, *on), radio);
            }
            let alone_bps = (0..bss.len()).map(|radio| self.alone_bps(station, *on, radio, &bss));
            let alone_bps = alone_bps.collect();
            candidates.push(Candidate { id: one.id, on: *on, alone_bps, rate_bps: one.rate_bps });
        }
        // Forget stations that are gone from all radios.
        self.known.retain(|(id, _), _| place.contains_key(id));
        let request = self.plan.tick(now, air_limits && !self.dry_run, &candidates);
        let Some((request, to)) = request.and_then(|request| Some((request, bss.get(request.to)?))) else {
            return Ok(());
        };
        let Some(radio) = self.radios.get_mut(request.from) else { return Ok(()) };
        if radio.ask(|hostapd| hostapd.request_move(request.id, to))? {
            self.status.asked += 1;
            self.status.undone += u64::from(request.is_undone);
        } else {
            // hostapd does not know it any more, or was built without 802.11v.
            self.plan.answered(now, request.id, 1);
        }
        Ok(())
    }

    /// The rate that a station would have alone on a radio; `None`: it cannot use that radio, or
    /// the rate is unknown.
    fn alone_bps(&self, station: &RadioStation, on: usize, radio: usize, bss: &[Bss]) -> Option<f64> {
        let alone = |radio: RadioConfig| Some(radio.hint().alone_bps as f64).filter(|bps| *bps > 0.0);
        if radio == on {
            return alone(*self.known.get(&(station.id, on))?);
        }
        let to = bss.get(radio).filter(|to| station.takes_requests && to.can_have(&station.classes))?;
        if let Some(known) = self.known.get(&(station.id, radio)) {
            return alone(*known);
        }
        let here = self.known.get(&(station.id, on))?;
        alone(elsewhere(*here, bss.get(on)?, to))
    }
}

/// The estimate for a radio that the station has not used yet: the same modulation and streams,
/// with the number of subcarriers of that channel. Measurement after the move corrects an error.
fn elsewhere(here: RadioConfig, from: &Bss, to: &Bss) -> RadioConfig {
    let aggregation = match here.aggregation {
        Aggregation::None => Aggregation::None,
        Aggregation::Ht | Aggregation::Vht if to.is_vht => Aggregation::Vht,
        Aggregation::Ht | Aggregation::Vht => Aggregation::Ht,
    };
    // Without aggregation there are no wider channels.
    let factor = match here.aggregation {
        Aggregation::None => 1.0,
        _ => subcarriers(to.width) / subcarriers(from.width),
    };
    RadioConfig { rate_mbps: here.rate_mbps * factor, aggregation }
}

/// Data subcarriers of a channel (IEEE 802.11-2020, tables 19-6 and 21-5).
fn subcarriers(width_mhz: u16) -> f64 {
    match width_mhz {
        0..=20 => 52.0,
        21..=40 => 108.0,
        41..=80 => 234.0,
        _ => 468.0,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::hostapd::{Band, listening};
    use super::*;

    #[test]
    fn hostapd_is_reconnected_after_a_late_start_or_restart() {
        let folder = tempfile::tempdir().unwrap();
        let sockets = ["wlan0", "wlan1"].map(|name| folder.path().join(name));
        let mut steerer = Steerer::new(&sockets);
        let mut tick = |at: u64| steerer.tick(Duration::from_secs(at), true, &[]).map_err(|e| e.to_string());
        let one = listening(&sockets[0]);
        let missing = tick(0).unwrap_err();
        assert!(missing.contains("wlan1") && missing.contains("is hostapd running"), "{missing}");
        let other = listening(&sockets[1]);
        tick(2).unwrap();
        // One hostapd is gone for a while: that is reported, and the other one is still queried.
        let asked = one.end();
        assert!(asked.iter().any(|text| text == "STATUS"), "{asked:?}");
        std::fs::remove_file(&sockets[0]).unwrap();
        assert!(tick(4).unwrap_err().contains("wlan0"));
        assert!(tick(6).is_err());
        let again = listening(&sockets[0]);
        tick(8).unwrap();
        let asked = again.end();
        assert_eq!(asked.iter().filter(|text| *text == "ATTACH").count(), 1, "{asked:?}");
        other.end();
    }

    fn bss(channel: u8, width: u16, is_vht: bool) -> Bss {
        let band = if channel <= 14 { Band::Ghz2 } else { Band::Ghz5 };
        Bss { bssid: StationId([2, 0, 0, 0, 0, channel]), band, channel, width, is_vht }
    }

    #[test]
    fn another_radio_is_estimated_with_the_same_modulation() {
        let (five, two) = (bss(36, 80, true), bss(6, 20, false));
        let here = RadioConfig { rate_mbps: 390.0, aggregation: Aggregation::Vht };
        let there = elsewhere(here, &five, &two);
        // 802.11ac, 80 MHz, MCS 9, one stream; 20 MHz and the same modulation.
        assert!((there.rate_mbps - 86.7).abs() < 0.1 && there.aggregation == Aggregation::Ht, "{there:?}");
        let back = elsewhere(there, &two, &five);
        assert!((back.rate_mbps - 390.0).abs() < 1e-9 && back.aggregation == Aggregation::Vht);
        let old = RadioConfig { rate_mbps: 54.0, aggregation: Aggregation::None };
        assert_eq!(elsewhere(old, &two, &five), old);
    }

    #[test]
    fn classes_follow_channel_and_width() {
        for (channel, width, class) in
            [(1, 20, 81), (14, 20, 82), (36, 20, 115), (44, 40, 116), (100, 80, 128), (149, 20, 125)]
        {
            assert_eq!(bss(channel, width, true).class(), class);
        }
        for (width, class) in [(20, 131), (40, 132), (80, 133), (160, 134)] {
            let six = Bss { band: Band::Ghz6, ..bss(1, width, true) };
            assert_eq!(six.class(), class);
            assert!(six.can_have(&[81, class]) && !six.can_have(&[81, 128]));
        }
    }
}
