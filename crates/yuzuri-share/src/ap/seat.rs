//! A station's place in the group of its access point, and the access point's own, which leads it:
//! all are in one process, and nothing is sent.

use yuzuri_policy::{Group, Limit, Moment, Report, SendersSeen, Summary};

/// A member's place at one tick.
#[derive(Debug)]
pub(super) struct Seat<'a> {
    /// Stations.
    pub(super) members: u16,
    /// The station has this part of a usual one's share.
    pub(super) part: f64,
    /// It cannot take its share.
    pub(super) is_limited: bool,
    /// Its report.
    pub(super) report: Option<Report>,
    /// The access point's alone: the stations' reports.
    pub(super) reports: Option<Vec<&'a Report>>,
    /// What limits the group, if it is known.
    pub(super) limit: Option<Limit>,
    /// The access point's last summary.
    pub(super) summary: Option<Summary>,
}

impl Group for Seat<'_> {
    fn report(&mut self, _now: Moment, mut report: Option<Report>) {
        // A terminal that cannot take its share leaves the rest to the others.
        if let Some(report) = report.as_mut().filter(|_| self.is_limited) {
            report.elastic = false;
        }
        self.report = report;
    }

    fn is_leader(&self, _now: Moment) -> bool {
        self.reports.is_some()
    }

    fn members(&self, _now: Moment) -> u16 {
        self.members
    }

    fn reports<'a>(&'a self, _now: Moment) -> Box<dyn Iterator<Item = &'a Report> + 'a> {
        Box::new(self.reports.iter().flatten().copied())
    }

    fn limit(&self) -> Option<Limit> {
        self.limit
    }

    fn summarize(&mut self, _now: Moment, summary: Summary) {
        self.summary = Some(summary);
    }

    fn summary(&mut self, _now: Moment) -> Option<Summary> {
        Some(self.summary.as_ref()?.weighted(self.part))
    }

    fn senders(&self, _now: Moment) -> SendersSeen {
        let proved = (f64::from(self.members) / self.part).ceil().min(u16::MAX.into());
        SendersSeen { proved: proved as u16, unproved: 0 }
    }

    /// All stations are known.
    fn ask_senders(&mut self, _now: Moment) {}
}
