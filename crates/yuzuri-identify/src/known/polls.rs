//! Checks whether a log was polled often enough: changes of the window between two rows are
//! invisible.

use yuzuri_infer::samples::Sample;

/// The intervals between the rows of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Polls {
    last_ns: Option<i64>,
    /// Intervals, their sum, and how many of them were longer than the round-trip time.
    count: u64,
    sum_us: u64,
    rare: u64,
    /// Sum of the smoothed round-trip times at their ends, µs.
    srtt_us: u64,
}

/// Minimum number of intervals for a decision.
const MIN_INTERVALS: u64 = 8;

impl Polls {
    pub(super) fn row(&mut self, sample: &Sample) {
        let last_ns = self.last_ns.replace(sample.at_ns);
        let Some(last_ns) = last_ns.filter(|_| sample.srtt_us > 0) else { return };
        let interval_us = u64::try_from(sample.at_ns.saturating_sub(last_ns) / 1000).unwrap_or(0);
        self.count += 1;
        self.sum_us = self.sum_us.saturating_add(interval_us);
        self.rare += u64::from(interval_us > u64::from(sample.srtt_us));
        self.srtt_us += u64::from(sample.srtt_us);
    }

    /// Why no algorithm can be named if most intervals are longer than a round trip: each decides
    /// once in a round trip, and of a reduction neither the window before it nor the one after it
    /// is seen.
    pub(super) fn too_rare(&self) -> Option<String> {
        (self.count >= MIN_INTERVALS && self.rare * 2 > self.count).then(|| {
            let mean_ms = |sum_us: u64| sum_us as f64 / self.count as f64 / 1000.0;
            format!(
                "polled too rarely: its rows are {:.1} ms apart, and a round trip takes {:.1} ms; what the window did between two rows was not seen, so poll more often",
                mean_ms(self.sum_us),
                mean_ms(self.srtt_us)
            )
        })
    }
}
