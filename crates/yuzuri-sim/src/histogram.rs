//! Quantiles of many round-trip times in little memory.

/// A logarithmic histogram: 32 buckets per octave, so a quantile is off by at most 1.6 %.
#[derive(Clone, Debug, Default)]
pub(crate) struct Histogram {
    counts: Vec<u64>,
    samples: u64,
    sum: u64,
    min: Option<u64>,
}

const BUCKETS_PER_OCTAVE: u32 = 32;

fn index(value: u64) -> usize {
    let value = value.max(u64::from(BUCKETS_PER_OCTAVE));
    let octave = value.ilog2() - BUCKETS_PER_OCTAVE.ilog2();
    (octave * BUCKETS_PER_OCTAVE) as usize + ((value >> octave) as usize - BUCKETS_PER_OCTAVE as usize)
}

fn midpoint(index: usize) -> f64 {
    let (octave, step) = (index as u32 / BUCKETS_PER_OCTAVE, index as u32 % BUCKETS_PER_OCTAVE);
    (f64::from(BUCKETS_PER_OCTAVE + step) + 0.5) * f64::from(octave).exp2()
}

impl Histogram {
    pub(crate) fn add(&mut self, value: u64) {
        let index = index(value);
        if index >= self.counts.len() {
            self.counts.resize(index + 1, 0);
        }
        self.counts[index] += 1;
        self.samples += 1;
        self.sum += value;
        self.min = Some(self.min.map_or(value, |min| min.min(value)));
    }

    pub(crate) fn samples(&self) -> u64 {
        self.samples
    }

    pub(crate) fn min(&self) -> Option<u64> {
        self.min
    }

    pub(crate) fn mean(&self) -> Option<f64> {
        (self.samples > 0).then(|| self.sum as f64 / self.samples as f64)
    }

    /// The nearest rank of `yuzuri-stats`, as the middle of its bucket.
    pub(crate) fn quantile(&self, q: f64) -> Option<f64> {
        let rank = (self.samples as f64 * q).ceil().max(1.0) as u64;
        let mut seen = 0;
        let at = self.counts.iter().position(|count| {
            seen += count;
            seen >= rank
        })?;
        Some(midpoint(at))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_the_bucket_width() {
        let mut histogram = Histogram::default();
        (1..=100_000).for_each(|value| histogram.add(value));
        for (q, expected) in [(0.05, 5_000.0), (0.5, 50_000.0), (0.95, 95_000.0)] {
            let got = histogram.quantile(q).unwrap();
            assert!((got / expected - 1.0_f64).abs() < 0.033, "{q}: {got}");
        }
        assert_eq!(histogram.mean(), Some(50_000.5));
        assert_eq!(Histogram::default().quantile(0.5), None);
    }
}
