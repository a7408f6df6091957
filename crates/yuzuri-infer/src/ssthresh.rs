//! What a sender's ssthresh, as its kernel reports it, shows of its algorithm outside loss
//! recovery.
//!
//! Most algorithms set ssthresh only when they reduce the window: to a part of it, and to no less
//! than two segments (RFC 5681, equation 4, and each `ssthresh` of Linux). Delay-based algorithms
//! also set it to the window to which they back off. Vegas may set it below two segments:
//! `tcp_vegas_ssthresh` is the lesser of ssthresh and the window, before the window is raised to
//! its minimum.

use crate::samples::Sample;
use yuzuri_cca::{Algorithm, CaState};

/// The least ssthresh of a reduction, segments.
const MIN_SSTHRESH: u32 = 2;
/// The largest fraction of the window to which an algorithm sets ssthresh at a reduction (Scalable,
/// Illinois). HighSpeed's fraction is larger for windows above 51,000 segments.
const MAX_PART: f32 = 7.0 / 8.0;

/// Changes of ssthresh that no reduction makes, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SsthreshChanges {
    /// It became less than two segments.
    pub below_minimum: u32,
    /// It fell in congestion avoidance, without loss recovery, to more than a reduction leaves.
    pub without_reduction: u32,
}

impl SsthreshChanges {
    /// Counts what changed between two samples.
    pub(crate) fn observe(&mut self, last: &Sample, sample: &Sample) {
        let Some(now) = sample.ssthresh.filter(|now| last.ssthresh.is_none_or(|before| *now < before)) else {
            return;
        };
        if now < MIN_SSTHRESH {
            self.below_minimum += 1;
            return;
        }
        // In slow start HyStart sets it to the window. (Between two samples, the window may have
        // grown by a segment.)
        let avoids_congestion = last.ssthresh.is_some_and(|before| last.cwnd >= before);
        let reduces = |sample: &Sample| sample.is_in_recovery() || sample.state == Some(CaState::Cwr);
        let reduced = reduces(last) || reduces(sample) || last.retransmitted != sample.retransmitted;
        let most = MAX_PART * (last.cwnd as f32 + 1.0);
        if avoids_congestion && !reduced && now as f32 > most {
            self.without_reduction += 1;
        }
    }
}

/// The log-likelihood of a change of ssthresh that the algorithm never makes, in a kernel's log.
const IMPOSSIBLE: f64 = -2.5;
/// The maximum number of such changes that count: one cause may make several.
const MAX_CHANGES: u32 = 4;

/// The log-likelihood of such changes for an algorithm; `None` is a flight that follows none.
pub(crate) fn evidence(changes: SsthreshChanges, algorithm: Option<Algorithm>) -> f64 {
    let below_minimum = algorithm == Some(Algorithm::Vegas);
    let without_reduction =
        algorithm.is_some_and(|algorithm| algorithm.facts().sets_ssthresh_without_reduction);
    let impossible = if below_minimum { 0 } else { changes.below_minimum }
        + if without_reduction { 0 } else { changes.without_reduction };
    IMPOSSIBLE * f64::from(impossible.min(MAX_CHANGES))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(rows: &[(u32, Option<u32>, u64)]) -> SsthreshChanges {
        let sample = |(cwnd, ssthresh, retransmitted): (u32, Option<u32>, u64)| Sample {
            cwnd,
            ssthresh,
            retransmitted: Some(retransmitted),
            ..Sample::default()
        };
        let mut changes = SsthreshChanges::default();
        rows.windows(2).for_each(|pair| changes.observe(&sample(pair[0]), &sample(pair[1])));
        changes
    }

    /// Rows of a log of Vegas in windows of two to four segments, and in larger ones.
    #[test]
    fn vegas_lowers_ssthresh_without_a_loss() {
        let small =
            changes(&[(40, None, 0), (2, Some(1), 0), (5, Some(3), 0), (2, Some(2), 0), (2, Some(1), 0)]);
        assert_eq!(small, SsthreshChanges { below_minimum: 2, without_reduction: 0 });
        let larger = changes(&[(31, Some(31), 0), (30, Some(30), 0), (31, Some(30), 0), (29, Some(29), 0)]);
        assert_eq!(larger, SsthreshChanges { below_minimum: 0, without_reduction: 2 });
        assert!(
            evidence(small, Some(Algorithm::Vegas)) == 0.0 && evidence(larger, Some(Algorithm::Nv)) == 0.0
        );
        for other in [Some(Algorithm::Reno), Some(Algorithm::Cubic), Some(Algorithm::Bbr), None] {
            assert!(evidence(small, other) < -4.0 && evidence(larger, other) < -4.0, "{other:?}");
        }
        assert!(evidence(small, Some(Algorithm::Nv)) < -4.0, "NV leaves more than two segments");
    }

    #[test]
    fn reductions_and_the_end_of_slow_start_are_no_ssthresh_changes() {
        let none = SsthreshChanges::default();
        assert_eq!(changes(&[(40, Some(30), 0), (21, Some(20), 0)]), none, "ECN, or the own device");
        assert_eq!(changes(&[(40, Some(30), 0), (39, Some(36), 2)]), none, "a loss");
        assert_eq!(changes(&[(40, None, 0), (40, Some(40), 0)]), none, "HyStart");
        assert_eq!(changes(&[(40, Some(60), 0), (44, Some(44), 0)]), none, "HyStart after a timeout");
        assert_eq!(changes(&[(40, Some(20), 0), (40, Some(30), 0)]), none, "the application paused");
        assert_eq!(changes(&[(3, Some(3), 0), (2, Some(2), 0), (3, Some(2), 0)]), none, "as Reno's minimum");
    }
}
