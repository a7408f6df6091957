//! The group of an access point's stations, inside one process: no messages are sent. Each station
//! has a view of it, and so has the access point, which leads.

use yuzuri_policy::{Group, Limit, Moment, Report, SendersSeen, Summary};

/// A member's view of the group at one tick.
#[derive(Debug)]
pub(super) struct GroupView<'a> {
    /// The number of stations.
    pub(super) members: u16,
    /// The station's share relative to that of a station of weight 1.
    pub(super) part: f64,
    /// It cannot use its share.
    pub(super) is_limited: bool,
    /// Its report.
    pub(super) report: Option<Report>,
    /// The stations' reports; only for the access point.
    pub(super) reports: Option<Vec<&'a Report>>,
    /// What limits the group, if that is known.
    pub(super) limit: Option<Limit>,
    /// What the stations' data in flight carry at most, bit/s, if that is known.
    pub(super) in_flight_bps: Option<f64>,
    /// The access point's last summary.
    pub(super) summary: Option<Summary>,
}

impl Group for GroupView<'_> {
    fn report(&mut self, _now: Moment, mut report: Option<Report>) {
        // A terminal that cannot use its share leaves the rest to the others.
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

    fn in_flight_bps(&self) -> Option<f64> {
        self.in_flight_bps
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
    fn challenge_senders(&mut self, _now: Moment) {}
}
