//! The state of the token buckets, and the traffic that they drop, in the stations' group.

use super::super::loss_cause::Buckets;
use super::{Bottleneck, Controller, Station, StationId, UnwindowedSender};
use yuzuri_policy::Report;

impl Controller {
    /// The state of the token buckets for traffic that no window bounds.
    pub(super) fn buckets(&self, at: Bottleneck) -> Buckets {
        let holds = |(id, station): (&StationId, &Station)| {
            let is_left_alone = self.rules.no_police || self.is_exempt(*id);
            let other = station.other.as_ref().filter(|other| !is_left_alone && other.is_upload())?;
            Some(other.rate_bps.is_some())
        };
        let here = self.stations.iter().filter(|(_, station)| station.bottleneck == at);
        match here.filter_map(holds).reduce(|one, other| one || other) {
            None => Buckets::None,
            Some(false) => Buckets::Ready,
            Some(true) => Buckets::Hold,
        }
    }

    /// The stations' reports, including traffic that the token buckets dropped: it was transmitted
    /// over the air, and filled queues before the gate. It counts only as far as the carried rate
    /// is below `most_bps`. Without it, the policy would attribute the queue to senders outside the
    /// group.
    pub(super) fn with_dropped_traffic(&self, at: Bottleneck, most_bps: f64) -> Vec<Report> {
        let dropped = |station: &Station| station.other.as_ref().map_or(0.0, UnwindowedSender::dropped_bps);
        let here = || self.stations.values().filter(|station| station.bottleneck == at);
        let all_bps: f64 = here().map(dropped).sum();
        let reports = || here().filter_map(|s| Some((s, s.report.as_ref()?)));
        let carried_bps: f64 = reports().map(|(_, report)| report.rate_bps as f64).sum();
        let part = ((most_bps - carried_bps).max(0.0) / all_bps.max(1.0)).min(1.0);
        let whole = |(station, report): (&Station, &Report)| Report {
            rate_bps: report.rate_bps + (part * dropped(station)) as u64,
            ..report.clone()
        };
        reports().map(whole).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::super::rules::StationRule;
    use super::super::*;
    use super::*;

    const TICK_NS: u64 = 500_000_000;
    const HERE: Bottleneck = Bottleneck::Channel(Channel(0));

    /// A station that reports 4 Mbit/s. `came` and `passed`: its QUIC traffic before and after the
    /// gate, Mbit/s.
    fn station(came: u64, passed: u64) -> Station {
        let mbit = 1_000_000 / 8 / 2;
        let begin = OtherTraffic { mac: [2; 6], ..OtherTraffic::default() };
        let mut other = UnwindowedSender::new(0, begin);
        let packets = came * mbit / 1250;
        let dropped = (came - passed) * mbit / 1250;
        other.observe(TICK_NS, OtherTraffic { bytes: came * mbit, packets, dropped, ..begin });
        let report = Report { rate_bps: 4_000_000, elastic: true, ..Report::default() };
        Station { report: Some(report), other: Some(other), ..Station::new(PolicyConfig::default()) }
    }

    fn controller(rules: Rules) -> Controller {
        let mut controller = Controller::new(PolicyConfig::default(), rules);
        for (number, came, passed) in [(0, 20, 4), (1, 4, 4)] {
            controller.stations.insert(StationId([2, 0, 0, 0, 0, number]), station(came, passed));
        }
        controller
    }

    /// 8 Mbit/s are carried, and 16 Mbit/s of IP packets were dropped. The dropped ones make up
    /// what is missing, but never more than was dropped.
    #[test]
    fn dropped_traffic_counts_as_demand() {
        let controller = controller(Rules::default());
        let sum = |most_bps| {
            let heard = controller.with_dropped_traffic(HERE, most_bps);
            heard.iter().map(|report| report.rate_bps as f64 / 1e6).sum::<f64>()
        };
        let all = 8.0 + 16.0 * 1448.0 / 1500.0;
        for (most, expected) in [(0.0, 8.0), (8.0, 8.0), (12.0, 12.0), (20.0, 20.0), (100.0, all)] {
            assert!((sum(most * 1e6) - expected).abs() < 0.2, "{most}: {}", sum(most * 1e6));
        }
        let heard = controller.with_dropped_traffic(HERE, 12e6);
        assert_eq!((heard[0].rate_bps > 7_900_000, heard[1].rate_bps), (true, 4_000_000));
        assert!(controller.stations.values().all(|s| s.report.as_ref().unwrap().rate_bps == 4_000_000));
    }

    #[test]
    fn losses_are_not_tested_where_traffic_cannot_be_limited() {
        let of = |rules| controller(rules).buckets(HERE);
        assert_eq!(of(Rules::default()), Buckets::Ready);
        assert_eq!(of(Rules { no_police: true, ..Rules::default() }), Buckets::None);
        let guests = StationRule { exempt: true, ..StationRule::default() };
        assert_eq!(of(Rules { guests, ..Rules::default() }), Buckets::None);
        let mut held = controller(Rules::default());
        let first = held.stations.values_mut().next().unwrap();
        first.other.as_mut().unwrap().rate_bps = Some(1);
        assert_eq!(held.buckets(HERE), Buckets::Hold);
        held.stations.values_mut().for_each(|station| station.other = None);
        assert_eq!(held.buckets(HERE), Buckets::None);
    }
}
