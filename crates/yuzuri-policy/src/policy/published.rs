//! The published rules, unchanged: by the number of terminals and by the increase of the round-trip
//! time (Shimada 2016), and the mode without decrease (Miki 2010).

use super::{PolicyConfig, unbounded};
use crate::{Bound, Decision, FlowSeen, Rule, Summary};

/// Bounds for round-trip times that exceed their minimum by at least this much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RttBounds {
    /// Increase of the round-trip time, ms.
    pub from_ms: u32,
    /// Smallest window, segments.
    pub lower: u32,
    /// Largest window, segments.
    pub upper: u32,
}

/// A table of bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RttTable(pub &'static [RttBounds]);

const fn row(from_ms: u32, upper: u32, lower: u32) -> RttBounds {
    RttBounds { from_ms, lower, upper }
}

impl RttTable {
    /// As first published (Hayakawa 2015), and as Shimada 2016 compares with it ("before").
    pub const BEFORE: RttTable = RttTable(&[
        row(0, 555, 200),
        row(51, 555, 50),
        row(106, 555, 10),
        row(161, 555, 2),
        row(331, 555, 1),
    ]);
    /// Shimada 2016, improved.
    pub const IMPROVED: RttTable = RttTable(&[
        row(0, 600, 300),
        row(51, 555, 200),
        row(106, 500, 150),
        row(161, 500, 100),
        row(331, 300, 50),
    ]);

    /// The row for an increase of the round-trip time.
    pub fn at(self, increase_ms: u32) -> RttBounds {
        let row = self.0.iter().rev().find(|row| row.from_ms <= increase_ms);
        row.copied().unwrap_or(self.0[0])
    }
}

/// The round-trip time from which on the mode without decrease gained in Miki 2010.
const STEADY_FROM_US: u32 = 64_000;

pub(super) struct Published<'a> {
    pub(super) config: PolicyConfig,
    pub(super) summary: Option<&'a Summary>,
}

impl Published<'_> {
    /// hi1 = C * min RTT / (MSS * n), and half of it. No publication gives C, so without a
    /// configured C there is no bound: the group's rate is limited by the bound itself, and would
    /// keep the bound where it is.
    fn by_count(&self, flow: &FlowSeen) -> Option<Bound> {
        let terminals = self.summary.map_or(1, |s| s.senders.max(1));
        let capacity_bps = self.config.capacity_bps.filter(|bps| *bps > 0)?;
        if flow.min_rtt_us == 0 || flow.mss_bytes == 0 {
            return None;
        }
        let segments = capacity_bps as f64 / 8.0 * f64::from(flow.min_rtt_us)
            / 1e6
            / (f64::from(flow.mss_bytes) * f64::from(terminals));
        let upper = (segments as u32).max(2);
        Some(Bound { lower: upper / 2, upper })
    }

    pub(super) fn count(&self, flow: &FlowSeen) -> Decision {
        match self.by_count(flow) {
            Some(bound) => Decision { flow: flow.id, bound, no_decrease: false, burst: 0, why: Rule::Count },
            None => unbounded(flow.id, Rule::Unknown),
        }
    }

    /// The smaller of the bounds by count and by table.
    pub(super) fn table(&self, flow: &FlowSeen, table: RttTable) -> Decision {
        if flow.srtt_us == 0 || flow.min_rtt_us == 0 {
            return unbounded(flow.id, Rule::Unknown);
        }
        let row = table.at(flow.srtt_us.saturating_sub(flow.min_rtt_us) / 1000);
        let by_table = Bound { lower: row.lower, upper: row.upper };
        let by_count = self.by_count(flow).unwrap_or(by_table);
        let bound =
            Bound { lower: by_count.lower.min(by_table.lower), upper: by_count.upper.min(by_table.upper) };
        let why = if by_count.upper < by_table.upper { Rule::Count } else { Rule::RttTable };
        Decision { flow: flow.id, bound, no_decrease: false, burst: 0, why }
    }
}

pub(super) fn steady(flow: &FlowSeen) -> Decision {
    let no_decrease = flow.min_rtt_us >= STEADY_FROM_US;
    let why = if no_decrease { Rule::Steady } else { Rule::None };
    Decision { no_decrease, ..unbounded(flow.id, why) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(srtt_us: u32, min_rtt_us: u32) -> FlowSeen {
        FlowSeen { id: 7, mss_bytes: 1448, srtt_us, min_rtt_us, ..FlowSeen::default() }
    }

    /// Every row of `papers/tables/shimada2016_rtt_bounds.csv`, at its first and its last
    /// millisecond.
    #[test]
    fn the_tables_are_the_published_ones() {
        let rows = [
            (0, 50, 555, 200, 600, 300),
            (51, 105, 555, 50, 555, 200),
            (106, 160, 555, 10, 500, 150),
            (161, 330, 555, 2, 500, 100),
            (331, 100_000, 555, 1, 300, 50),
        ];
        for (first, last, upper_before, lower_before, upper, lower) in rows {
            for ms in [first, last] {
                assert_eq!(
                    (RttTable::BEFORE.at(ms).upper, RttTable::BEFORE.at(ms).lower),
                    (upper_before, lower_before)
                );
                assert_eq!(
                    (RttTable::IMPROVED.at(ms).upper, RttTable::IMPROVED.at(ms).lower),
                    (upper, lower)
                );
            }
        }
    }

    #[test]
    fn the_smaller_of_count_and_table_holds() {
        // 13 Mbit/s, 512 ms, six terminals: 13e6 / 8 * 0.512 / 1448 / 6 = 95 segments.
        let summary = Summary { senders: 6, ..Summary::default() };
        let config = PolicyConfig { capacity_bps: Some(13_000_000), ..PolicyConfig::default() };
        let rules = Published { config, summary: Some(&summary) };
        let decision = rules.table(&flow(520_000, 512_000), RttTable::IMPROVED);
        assert_eq!((decision.bound, decision.why), (Bound { lower: 47, upper: 95 }, Rule::Count));
        let config = PolicyConfig { capacity_bps: Some(1_000_000_000), ..PolicyConfig::default() };
        let rules = Published { config, summary: Some(&summary) };
        let decision = rules.table(&flow(520_000, 512_000), RttTable::IMPROVED);
        assert_eq!((decision.bound, decision.why), (Bound { lower: 300, upper: 600 }, Rule::RttTable));
        let decision = rules.table(&flow(912_000, 512_000), RttTable::BEFORE);
        assert_eq!(decision.bound, Bound { lower: 1, upper: 555 });
    }

    /// The bound limits the group's rate: taken as capacity, that rate would lock the bound.
    #[test]
    fn without_a_capacity_the_count_sets_no_bound() {
        let summary = Summary { senders: 6, capacity_bps: 3_000_000, ..Summary::default() };
        let rules = Published { config: PolicyConfig::default(), summary: Some(&summary) };
        for table in [RttTable::BEFORE, RttTable::IMPROVED] {
            let row = table.at(8);
            let decision = rules.table(&flow(520_000, 512_000), table);
            let bound = Bound { lower: row.lower, upper: row.upper };
            assert_eq!((decision.bound, decision.why), (bound, Rule::RttTable));
        }
        let decision = rules.count(&flow(520_000, 512_000));
        assert_eq!((decision.bound, decision.why), (Bound::NONE, Rule::Unknown));
    }

    #[test]
    fn no_reductions_from_64_ms_on() {
        assert!(steady(&flow(70_000, 64_000)).no_decrease);
        assert!(!steady(&flow(70_000, 63_999)).no_decrease);
    }
}
