//! The sum of all reports.

use crate::{Destination, Report};

/// Sums and means over the members that send.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Total {
    /// Their delivery rate, bit/s.
    pub(super) rate_bps: f64,
    /// Airtime: the sum of each member's rate over its rate alone.
    pub(super) air: f64,
    /// The number of members that send.
    pub(super) senders: usize,
    /// Of these, the number that would send more.
    pub(super) elastic: usize,
    /// The highest rate that a member would deliver alone, bit/s; 0: unknown.
    pub(super) most_alone_bps: f64,
    /// The mean fraction of lost segments, weighted by rate.
    pub(super) lost: f64,
    /// The mean queuing delay above the minimum RTT, and that minimum, seconds: see [`Mean`].
    pub(super) queue_s: f64,
    pub(super) base_s: f64,
    /// The assumed rate alone of a member that does not know its own, bit/s; 0: unknown.
    unknown_alone_bps: f64,
}

/// The members' parts in the means of queue and minimum RTT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mean {
    /// Equal weights.
    OverMembers,
    /// Weighted by load: airtime, or bits if no rate alone is known. Little's law holds for this
    /// mean: the rate is the data in flight over it. It does not hold for the other mean where
    /// queues differ. This mean needs current rates, which only a leader that measures the data in
    /// flight has.
    OverLoad,
}

impl Total {
    pub(super) fn of(reports: &[&Report], bases: &[(Destination, u32)], mean: Mean) -> Total {
        let known: Vec<f64> =
            reports.iter().filter(|r| r.alone_bps > 0).map(|r| r.alone_bps as f64).collect();
        let mut total = Total {
            senders: reports.len(),
            unknown_alone_bps: known.iter().sum::<f64>() / known.len().max(1) as f64,
            ..Total::default()
        };
        let (mut lost_bps, mut weights) = (0.0, 0.0);
        for report in reports {
            let rate_bps = report.rate_bps as f64;
            total.rate_bps += rate_bps;
            total.air += total.air_of(report);
            total.most_alone_bps = total.most_alone_bps.max(total.alone_of(report));
            total.elastic += usize::from(report.elastic);
            lost_bps += rate_bps * f64::from(report.lost_permille) / 1000.0;
            // A summary names only the busiest destinations: for others, use the member's own
            // minimum.
            let named = |(to, own_us): &(Destination, u32)| {
                bases.iter().find(|(d, _)| d == to).map_or(*own_us, |(_, us)| *us)
            };
            let base_us = report.destinations.first().map_or(report.srtt_us, named);
            let weight = match mean {
                Mean::OverMembers => 1.0,
                // While nothing is carried, all members count alike.
                Mean::OverLoad if known.is_empty() => rate_bps.max(f64::EPSILON),
                Mean::OverLoad => total.air_of(report).max(f64::EPSILON),
            };
            total.queue_s += weight * f64::from(report.srtt_us.saturating_sub(base_us)) / 1e6;
            total.base_s += weight * f64::from(base_us) / 1e6;
            weights += weight;
        }
        if weights > 0.0 {
            total.queue_s /= weights;
            total.base_s /= weights;
        }
        total.lost = if total.rate_bps > 0.0 { lost_bps / total.rate_bps } else { 0.0 };
        total
    }

    /// Limits the rate, and returns the factor.
    pub(super) fn limit_to(&mut self, most_bps: f64) -> f64 {
        let factor = if self.rate_bps > most_bps { most_bps / self.rate_bps } else { 1.0 };
        self.rate_bps *= factor;
        self.air *= factor;
        factor
    }

    /// The assumed rate alone of a member that does not know its own, bit/s; 0: unknown.
    pub(super) fn alone_unknown_bps(&self) -> f64 {
        self.unknown_alone_bps
    }

    /// The rate that a member would deliver alone on the air, bit/s; 0 if unknown.
    pub(super) fn alone_of(&self, report: &Report) -> f64 {
        if report.alone_bps > 0 { report.alone_bps as f64 } else { self.unknown_alone_bps }
    }

    /// The fraction of airtime that a member takes.
    pub(super) fn air_of(&self, report: &Report) -> f64 {
        let alone_bps = self.alone_of(report);
        if alone_bps > 0.0 { report.rate_bps as f64 / alone_bps } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::min_round_trips;

    /// Many members with different destinations, each with half a second of queue: the group has
    /// half a second of queue, although a summary names only a few destinations.
    #[test]
    fn a_queue_is_measured_for_any_number_of_destinations() {
        for destinations in [1, 4, 5, 16] {
            let reports: Vec<Report> = (0..16)
                .map(|number| Report {
                    rate_bps: 1_000_000,
                    srtt_us: 550_000,
                    destinations: vec![(Destination(number % destinations), 50_000)],
                    ..Report::default()
                })
                .collect();
            let reports: Vec<&Report> = reports.iter().collect();
            let seen = reports.iter().flat_map(|r| r.destinations.iter().map(|(to, us)| (*to, *us, 1e6)));
            let total = Total::of(&reports, &min_round_trips(seen), Mean::OverMembers);
            assert!((total.queue_s - 0.5).abs() < 1e-9, "{destinations}: {}", total.queue_s);
            assert!((total.base_s - 0.05).abs() < 1e-9, "{destinations}: {}", total.base_s);
        }
    }

    /// Slow radios wait for the long frames of fast ones, and have long queues. The group's data in
    /// flight over its mean round-trip time is still its rate, here in airtime.
    #[test]
    fn data_in_flight_over_the_round_trip_is_the_rate() {
        let member = |rate_bps, alone_bps, srtt_us| Report {
            rate_bps,
            alone_bps,
            srtt_us,
            destinations: vec![(Destination(1), 16_000)],
            ..Report::default()
        };
        let fast = member(40_000_000, 100_000_000, 30_000);
        let slow = member(1_000_000, 25_000_000, 300_000);
        let reports = [&fast, &fast, &slow, &slow];
        let total = Total::of(&reports, &[(Destination(1), 16_000)], Mean::OverLoad);
        let in_flight = |r: &&Report| total.air_of(r) * f64::from(r.srtt_us) / 1e6;
        let in_flight: f64 = reports.iter().map(in_flight).sum();
        let rate = in_flight / (total.base_s + total.queue_s);
        assert!((rate - total.air).abs() < 1e-9, "{rate} {total:?}");
        assert!((total.base_s - 0.016).abs() < 1e-9, "{total:?}");
        // While nobody carries anything, all members count alike.
        let [fast, slow] = [fast, slow].map(|report| Report { rate_bps: 0, ..report });
        let total = Total::of(&[&fast, &slow], &[(Destination(1), 16_000)], Mean::OverLoad);
        assert!((total.queue_s - 0.149).abs() < 1e-9, "{total:?}");
    }
}
