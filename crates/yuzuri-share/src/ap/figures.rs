//! The stations' figures without bounds and with them, maintained by the daemon for comparison.

use serde::{Deserialize, Serialize};

/// The number of ticks that a mean covers: a minute.
const TICKS: f64 = 120.0;

/// Means over the last minute of ticks of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// The time that they cover, seconds.
    pub seconds: f64,
    /// The stations' total rate, payload bit/s.
    pub rate_bps: f64,
    /// Round-trip time of a station's uploads, µs.
    pub rtt_us: f64,
    /// Jain's index of the rates relative to the shares, among stations that would take more.
    pub fairness: f64,
}

/// The figures of a station at a tick.
#[derive(Debug, Clone, Copy)]
pub(super) struct Point {
    pub(super) rate_bps: f64,
    pub(super) rtt_us: f64,
    /// Its rate relative to its share, if it would take more.
    pub(super) part: Option<f64>,
}

impl Figures {
    /// Adds a tick in which at least two stations would take more; a single one has nothing to
    /// compare.
    pub(super) fn add(&mut self, seconds: f64, points: impl Iterator<Item = Point> + Clone) {
        let parts = points.clone().filter_map(|point| point.part);
        let (n, sum, squares) = parts
            .fold((0.0, 0.0, 0.0), |(n, sum, squares), part| (n + 1.0, sum + part, squares + part * part));
        let rtts = points.clone().map(|point| point.rtt_us).filter(|us| *us > 0.0);
        let (of, total_us) = rtts.fold((0.0, 0.0), |(of, total), us| (of + 1.0, total + us));
        if n < 2.0 || squares <= 0.0 || of == 0.0 {
            return;
        }
        self.seconds += seconds;
        let ticks = (self.seconds / seconds.max(1e-3)).min(TICKS);
        let blend = |mean: &mut f64, now: f64| *mean += (now - *mean) / ticks;
        blend(&mut self.rate_bps, points.map(|point| point.rate_bps).sum());
        blend(&mut self.rtt_us, total_us / of);
        blend(&mut self.fairness, sum * sum / (n * squares));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_cover_ticks_with_at_least_two_busy_stations() {
        let point = |rate_bps: f64, part| Point { rate_bps, rtt_us: 50_000.0, part };
        let mut figures = Figures::default();
        figures.add(0.5, [point(9e6, Some(1.0))].into_iter());
        figures.add(0.5, [point(9e6, Some(1.0)), point(1e6, None)].into_iter());
        assert_eq!(figures, Figures::default());
        for _ in 0..10 {
            figures.add(0.5, [point(30e6, Some(3.0)), point(10e6, Some(1.0)), point(1e6, None)].into_iter());
        }
        assert_eq!((figures.seconds, figures.rate_bps, figures.rtt_us), (5.0, 41e6, 50_000.0));
        assert!((figures.fairness - 0.8).abs() < 1e-9, "{figures:?}");
        // Values from a minute ago fade.
        for _ in 0..1000 {
            figures.add(0.5, [point(10e6, Some(1.0)), point(10e6, Some(1.0))].into_iter());
        }
        assert!(figures.fairness > 0.999 && (figures.rate_bps - 20e6).abs() < 1e4, "{figures:?}");
    }
}
