//! What all reports come to.

use crate::{Destination, Report};

/// Sums and means over the members that send.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Total {
    /// What they deliver, bit/s.
    pub(super) rate_bps: f64,
    /// Of the air: the sum of rate over alone.
    pub(super) air: f64,
    pub(super) senders: usize,
    /// Those that would send more.
    pub(super) elastic: usize,
    /// Sum of what the members would deliver alone, bit/s.
    pub(super) sum_alone_bps: f64,
    /// Mean part of the segments lost, by rate.
    pub(super) lost: f64,
    /// Mean time above the least round-trip time, and that, seconds.
    pub(super) queue_s: f64,
    pub(super) base_s: f64,
    /// What they hold in flight, bit: rate by round-trip time.
    pub(super) in_flight_bits: f64,
    /// What a member that does not know what it would deliver alone is taken to deliver, bit/s; 0: nobody knows.
    unknown_alone_bps: f64,
}

impl Total {
    pub(super) fn of(reports: &[&Report], bases: &[(Destination, u32)]) -> Total {
        let known: Vec<f64> =
            reports.iter().filter(|r| r.alone_bps > 0).map(|r| r.alone_bps as f64).collect();
        let mut total = Total {
            senders: reports.len(),
            unknown_alone_bps: known.iter().sum::<f64>() / known.len().max(1) as f64,
            ..Total::default()
        };
        let mut lost_bps = 0.0;
        for report in reports {
            let rate_bps = report.rate_bps as f64;
            total.rate_bps += rate_bps;
            total.in_flight_bits += rate_bps * f64::from(report.srtt_us) / 1e6;
            total.air += total.air_of(report);
            total.sum_alone_bps += total.alone_of(report);
            total.elastic += usize::from(report.elastic);
            lost_bps += rate_bps * f64::from(report.lost_permille) / 1000.0;
            let to = report.destinations.first().map(|(to, _)| *to);
            let base_us = bases.iter().find(|(d, _)| Some(*d) == to).map_or(report.srtt_us, |(_, us)| *us);
            total.queue_s += f64::from(report.srtt_us.saturating_sub(base_us)) / 1e6;
            total.base_s += f64::from(base_us) / 1e6;
        }
        let all = reports.len().max(1) as f64;
        total.queue_s /= all;
        total.base_s /= all;
        total.lost = if total.rate_bps > 0.0 { lost_bps / total.rate_bps } else { 0.0 };
        total
    }

    /// What a member would deliver alone on the air, bit/s; 0 where nobody knows.
    pub(super) fn alone_of(&self, report: &Report) -> f64 {
        if report.alone_bps > 0 { report.alone_bps as f64 } else { self.unknown_alone_bps }
    }

    /// What part of the air a member takes.
    pub(super) fn air_of(&self, report: &Report) -> f64 {
        let alone_bps = self.alone_of(report);
        if alone_bps > 0.0 { report.rate_bps as f64 / alone_bps } else { 0.0 }
    }
}
