//! Groups the stations by bottleneck, and makes their summaries.

use super::{Bottleneck, Channel, Controller, Phase, Row, Sharers, Station, StationId};
use std::collections::BTreeSet;
use yuzuri_policy::{Report, Summary, Terminal};

impl Controller {
    /// Assigns the stations to their bottlenecks.
    pub(super) fn part_by_bottleneck(&mut self) {
        let starts = |channel: &Channel| {
            let own = self.sharers.get(&Bottleneck::Channel(*channel));
            own.is_some_and(|own| own.summary.as_ref().is_none_or(|s| s.phase == Phase::StartUp))
        };
        let mut behind_wire = self.radios.behind_wire(self.stations.values());
        // No station is bounded there yet, because the capacity is unknown.
        behind_wire.retain(|channel| !starts(channel));
        if behind_wire.len() < 2 {
            behind_wire.clear();
        }
        let at = |channel| match behind_wire.contains(&channel) {
            true => Bottleneck::Wire,
            false => Bottleneck::Channel(channel),
        };
        let mut before = BTreeSet::new();
        for station in self.stations.values_mut() {
            let was = std::mem::replace(&mut station.bottleneck, at(station.channel));
            // Stations that stay on their radio keep their state when they change the group.
            if was != station.bottleneck
                && (was == Bottleneck::Wire || was == Bottleneck::Channel(station.channel))
            {
                before.insert(station.bottleneck);
            }
        }
        // The state of a group whose bottleneck is now shared differently is no longer valid.
        self.sharers.retain(|at, _| match at {
            Bottleneck::Wire => !behind_wire.is_empty(),
            Bottleneck::Channel(channel) => !behind_wire.contains(channel),
        });
        let mut used: BTreeSet<Bottleneck> = self.stations.values().map(|s| s.bottleneck).collect();
        if used.is_empty() && self.sharers.is_empty() {
            used.insert(Bottleneck::Channel(Channel::default()));
        }
        for at in used {
            if self.sharers.contains_key(&at) {
                continue;
            }
            let mut sharers = Sharers::new(self.config);
            if before.contains(&at) {
                sharers.leader = Terminal::regrouping(self.config);
            }
            self.sharers.insert(at, sharers);
        }
    }

    fn reports(&self, at: Bottleneck) -> impl Iterator<Item = (&StationId, &Station, &Report)> {
        let here = self.stations.iter().filter(move |(_, station)| station.bottleneck == at);
        here.filter_map(|(id, station)| Some((id, station, station.report.as_ref()?)))
    }

    /// What the windows of stations at a bottleneck carry at most, bit/s: each connection has at
    /// most its window in flight per round trip. `None`: the gate does not see all windows.
    pub(super) fn in_flight_bps(&self, at: Bottleneck) -> Option<f64> {
        let here = || self.stations.iter().filter(|(_, station)| station.bottleneck == at);
        let is_seen = |(id, station): (&StationId, &Station)| {
            station.other.is_none() && (!station.rows.is_empty() || !self.members.contains_key(id))
        };
        let rows = || here().flat_map(|(_, station)| &station.rows);
        let carries_bps = |row: &Row| {
            let bits = f64::from(row.seen.cwnd) * f64::from(row.seen.mss_bytes) * 8.0;
            bits * 1e6 / f64::from(row.seen.srtt_us.max(1))
        };
        here().all(is_seen).then(|| rows().map(carries_bps).sum())
    }

    /// The mean weight of the stations that have more to send, weighted by their shares.
    pub(super) fn mean_weight(&self, at: Bottleneck, summary: Option<&Summary>) -> f64 {
        let Some(summary) = summary else { return 1.0 };
        let with_backlog = self.reports(at).filter(|(.., report)| report.elastic);
        let (with, without) = with_backlog.fold((0.0, 0.0), |(with, without), (id, station, _)| {
            let share_bps = summary.share_of(station.radio);
            (with + share_bps * self.rules.of(*id).weight, without + share_bps)
        });
        if without > 0.0 { with / without } else { 1.0 }
    }

    /// The summary for members on a channel, with the share of a station of weight 1.
    pub fn summary_for(&self, channel: Channel) -> Option<Summary> {
        let own = Bottleneck::Channel(channel);
        let at = self.stations.values().find(|s| s.channel == channel).map_or(own, |s| s.bottleneck);
        match self.sharers.get(&at) {
            Some(sharers) => {
                let summary = sharers.summary.as_ref()?;
                Some(summary.weighted(1.0 / self.mean_weight(at, Some(summary))))
            }
            // No station is on that channel, or only a new one, which is not bounded yet.
            None => (!self.sharers.is_empty()).then(Summary::default),
        }
    }

    /// The groups with stations that were active recently.
    pub(crate) fn in_use(&self) -> impl Iterator<Item = (Bottleneck, &Sharers)> {
        let is_used = |at: Bottleneck| self.stations.values().any(|station| station.bottleneck == at);
        let all = self.sharers.iter().map(|(at, sharers)| (*at, sharers));
        all.filter(move |(at, _)| self.sharers.len() == 1 || is_used(*at))
    }

    /// The summary of the last tick; for several bottlenecks, their sum.
    pub fn summary(&self) -> Option<Summary> {
        let all = self.in_use().filter_map(|(_, sharers)| sharers.summary.as_ref());
        all.cloned().reduce(|one, other| Summary {
            members: one.members.saturating_add(other.members),
            senders: one.senders.saturating_add(other.senders),
            phase: if one.capacity_bps >= other.capacity_bps { one.phase } else { other.phase },
            capacity_bps: one.capacity_bps + other.capacity_bps,
            air_share_ppm: one.air_share_ppm.min(other.air_share_ppm),
            share_bps: one.share_bps.min(other.share_bps),
            alone_max_bps: 0,
            queue_us: one.queue_us.max(other.queue_us),
            paced: one.paced || other.paced,
            srtt_us: one.srtt_us.max(other.srtt_us),
            destinations: Vec::new(),
        })
    }

    /// Whether shares are enforced, and the air is their limit on each radio. Radios whose group is
    /// in start-up are ignored.
    pub fn is_limited_by_air(&self) -> bool {
        let by_wire = |(at, sharers): (Bottleneck, &Sharers)| {
            at == Bottleneck::Wire
                || sharers.holds()
                    && sharers.summary.as_ref().is_some_and(|s| s.senders > 0 && s.alone_max_bps > 0)
        };
        self.in_use().any(|(_, sharers)| sharers.holds()) && !self.in_use().any(by_wire)
    }

    /// Whether bounds are in force: `Some(false)` if they are suspended because they would not
    /// help; `None` while the shares have not been determined yet.
    pub(in super::super) fn is_sharing(&self) -> Option<bool> {
        if self.in_use().any(|(_, sharers)| sharers.is_suspended) {
            return Some(false);
        }
        let holds = |s: &Summary| matches!(s.phase, Phase::Hold | Phase::Probe | Phase::Contend);
        self.in_use().any(|(_, sharers)| sharers.summary.as_ref().is_some_and(holds)).then_some(true)
    }
}
