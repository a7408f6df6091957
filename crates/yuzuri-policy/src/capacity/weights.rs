//! Weights that normalise the members' rates: the rate that each would reach alone, on the air or
//! on the wire.

use super::total::Total;
use std::sync::Arc;

/// If members use less than the first fraction of airtime, the wire is the limit; above the second,
/// the air. In between, weights are interpolated, so that shares do not jump.
const FULL: [f64; 2] = [0.50, 0.70];

/// The limit of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// The air that all its members share.
    Air,
    /// The wire behind it, however much airtime its members use on one or several radios.
    Wire,
}

/// The degree to which the air is the limit: 0 is not at all, 1 is only the air.
pub(super) fn by_air(air: f64, limit: Option<Limit>) -> f64 {
    match limit {
        Some(Limit::Air) => 1.0,
        Some(Limit::Wire) => 0.0,
        None => ((air - FULL[0]) / (FULL[1] - FULL[0])).clamp(0.0, 1.0),
    }
}

/// A member's weight: the rate that it would reach alone, up to a maximum.
#[derive(Debug, Clone, Copy)]
pub(super) struct Weights {
    most_bps: Option<f64>,
    known: bool,
}

impl Weights {
    /// The weights of a group with this maximum rate and this use of airtime.
    pub(super) fn of(total: Total, best_bps: f64, air: f64, limit: Option<Limit>) -> Weights {
        let alone_bps = total.most_alone_bps;
        let by_air = by_air(air, limit);
        let wire = best_bps > 0.0 && best_bps < alone_bps && by_air < 1.0;
        let most_bps = wire.then(|| best_bps * (alone_bps / best_bps).powf(by_air));
        Weights { most_bps, known: alone_bps > 0.0 }
    }

    /// Whether any member knows its radio's rate.
    pub(super) fn are_known(&self) -> bool {
        self.known
    }

    pub(super) fn most_bps(&self) -> Option<f64> {
        self.most_bps
    }

    /// The weight of a member with this rate alone on the air, bit/s; equal for all if no member
    /// knows its rate.
    pub(super) fn of_member(&self, alone_bps: f64) -> f64 {
        if !self.known {
            return 1.0;
        }
        self.most_bps.map_or(alone_bps, |most_bps| alone_bps.min(most_bps)).max(1.0)
    }

    /// The normalised rate of members, each given as its rate alone and its rate, bit/s.
    pub(super) fn parts_of(self, members: Arc<[[f64; 2]]>) -> Parts {
        Parts { sum: self.sum_of(&members), members }
    }

    fn sum_of(&self, members: &[[f64; 2]]) -> f64 {
        members.iter().map(|[alone_bps, rate_bps]| rate_bps / self.of_member(*alone_bps)).sum()
    }
}

/// A normalised rate: the sum of rate over weight.
#[derive(Debug, Clone, Default)]
pub(super) struct Parts {
    pub(super) sum: f64,
    /// Each member's rate alone and its rate at that time, bit/s, to convert the sum to other
    /// weights. Empty: unknown.
    members: Arc<[[f64; 2]]>,
}

impl Parts {
    /// As another leader announced it.
    pub(super) fn announced(sum: f64) -> Parts {
        Parts { sum, members: Arc::default() }
    }

    /// The conversion from weights to others, at this rate.
    pub(super) fn rescaling(&self, from: Weights, to: Weights) -> Rescale {
        Rescale { from, to, members: self.members.clone() }
    }

    pub(super) fn rescale(&mut self, to: &Rescale) {
        self.sum *= to.factor(&self.members);
    }
}

/// A conversion of normalised rates to other weights.
#[derive(Debug, Clone)]
pub(super) struct Rescale {
    from: Weights,
    to: Weights,
    /// The current members.
    members: Arc<[[f64; 2]]>,
}

impl Rescale {
    /// The factor for the rate of these members: it depends on their rates.
    fn factor(&self, members: &[[f64; 2]]) -> f64 {
        let members = if members.is_empty() { &self.members } else { members };
        let [from, to] = [self.from, self.to].map(|weights| weights.sum_of(members));
        if from > 0.0 && to > 0.0 { to / from } else { 1.0 }
    }

    /// The factor for announced windows, which were the same multiple of each member's weight.
    pub(super) fn of_level(&self) -> f64 {
        let by = |[alone_bps, _]: &[f64; 2]| self.from.of_member(*alone_bps) / self.to.of_member(*alone_bps);
        self.members.iter().map(by).sum::<f64>() / self.members.len().max(1) as f64
    }
}
