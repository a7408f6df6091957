//! Weights that normalise the members' rates: the rate that each would reach alone, on the air or
//! on the wire.

use super::total::Total;

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
}
