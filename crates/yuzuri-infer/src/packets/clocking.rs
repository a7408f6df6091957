//! What determined when a sender's bursts left: acknowledgements, or a clock.

/// Uncertainty of the hosts' and the capture's clocks, milliseconds.
const TIMESTAMP_UNCERTAINTY_MS: f64 = 0.01;
/// The two possible causes of an interval must differ by this many times the uncertainty to be
/// distinguished (95 %). Intervals that match both causes would only dilute the evidence.
const MIN_DEVIATION: f64 = 2.0;
const MIN_DEVIATION_MS2: f64 =
    (MIN_DEVIATION * MIN_DEVIATION + 1.0) * TIMESTAMP_UNCERTAINTY_MS * TIMESTAMP_UNCERTAINTY_MS;
/// The logarithm of one burst's ratio is limited to this absolute value.
const MAX_LOGARITHM: f64 = 4.0;

/// How well the intervals between bursts match those between acknowledgements, relative to how well
/// they match a clock's, the mean or the previous one: the number of bursts, the sum of the
/// logarithms of that ratio, and the sum of the squares of these.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AckClocking {
    /// By the last acknowledgements that the sender had seen at each burst.
    pub by_last: (u32, f32, f32),
    /// By the first acknowledgements since the previous burst, for bursts that begin with an empty
    /// queue: any of them may have woken the writer. For other bursts by the last.
    pub by_first: (u32, f32, f32),
}

impl AckClocking {
    /// Adds a burst: a clock that keeps an interval determined its time, or acknowledgements with
    /// the same intervals. `last` and `first`: the acknowledgements of this burst and of the
    /// previous one.
    pub(super) fn add(&mut self, gap_ms: f64, [last, first]: [Option<(i64, i64)>; 2], gaps: &mut Gaps) {
        if gap_ms <= 0.0 {
            return;
        }
        // Only if there is something to compare: the mean is the most expensive step.
        let mean_ms = last.or(first).and_then(|_| gaps.mean_ms());
        let previous_ms = gaps.previous_ms();
        gaps.add(gap_ms);
        let Some(mean_ms) = mean_ms else { return };
        // A clock whose interval has just changed repeats the last interval, while the mean is
        // still that of the interval before.
        let is_new = (gap_ms - previous_ms).abs() < (gap_ms - mean_ms).abs();
        let clock_ms = if is_new { previous_ms } else { mean_ms };
        let off =
            |from_ms: f64| (gap_ms - from_ms).powi(2) + TIMESTAMP_UNCERTAINTY_MS * TIMESTAMP_UNCERTAINTY_MS;
        let part = |acks: Option<(i64, i64)>| {
            let (of, before) = acks?;
            let (off_acks, off_clock) = (off((of - before) as f64 / 1e6), off(clock_ms));
            // The limit for a single burst, which may come from a stalling host.
            let part = || (off_acks / off_clock).ln().clamp(-MAX_LOGARITHM, MAX_LOGARITHM);
            (off_acks.max(off_clock) >= MIN_DEVIATION_MS2).then(part)
        };
        let add = |(count, sum, squares): &mut (u32, f32, f32), part: Option<f64>| {
            let Some(part) = part.map(|part| part as f32) else { return };
            *count += 1;
            *sum += part;
            *squares += part * part;
        };
        let by_last = part(last);
        add(&mut self.by_last, by_last);
        // For bursts that begin with more to send they are the same.
        add(&mut self.by_first, if first == last { by_last } else { part(first) });
    }
}

/// The latest intervals between bursts, milliseconds.
#[derive(Clone, Debug, Default)]
pub(super) struct Gaps {
    last: [f64; 16],
    count: usize,
}

impl Gaps {
    fn add(&mut self, gap_ms: f64) {
        self.last[self.count % self.last.len()] = gap_ms;
        self.count += 1;
    }

    fn previous_ms(&self) -> f64 {
        self.last[self.count.wrapping_sub(1) % self.last.len()]
    }

    /// Their mean without the two largest and the two smallest: those of a stalling host, which
    /// then catches up, and of the start of a capture.
    fn mean_ms(&self) -> Option<f64> {
        if self.count < self.last.len() {
            return None;
        }
        // No value is NaN, so a comparison suffices; it costs less than `f64::min`.
        let less: fn(f64, f64) -> f64 = |a, b| if a < b { a } else { b };
        let more: fn(f64, f64) -> f64 = |a, b| if a > b { a } else { b };
        // Two values at a time, which the compiler vectorises.
        let both = |f: fn(f64, f64) -> f64, a: [f64; 2], b: [f64; 2]| [f(a[0], b[0]), f(a[1], b[1])];
        let (mut least, mut next) = ([f64::MAX; 2], [f64::MAX; 2]);
        let (mut largest, mut second) = ([f64::MIN; 2], [f64::MIN; 2]);
        let mut sum = [0.0; 2];
        for &gaps in self.last.as_chunks().0 {
            sum = both(|a, b| a + b, sum, gaps);
            next = both(less, next, both(more, gaps, least));
            least = both(less, least, gaps);
            second = both(more, second, both(less, gaps, largest));
            largest = both(more, largest, gaps);
        }
        let least = less(least[0], least[1]) + less(more(least[0], least[1]), less(next[0], next[1]));
        let largest =
            more(largest[0], largest[1]) + more(less(largest[0], largest[1]), more(second[0], second[1]));
        let others = self.last.len() - 4;
        Some((sum[0] + sum[1] - least - largest) / others as f64)
    }
}
