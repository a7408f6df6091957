//! What members' rates are measured by: what each would have alone, of the air or of the wire.

use super::total::Total;

/// Where less than the first part of the air is taken, the wire limits; where more than the second,
/// the air. In between the weights are in between: nothing jumps.
const FULL: [f64; 2] = [0.50, 0.70];

/// What limits a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// The air that all its members share.
    Air,
    /// The wire behind it, whatever its members take of one air or of several.
    Wire,
}

/// How far the air is the limit: 0 is not at all, 1 is only the air.
pub(super) fn by_air(air: f64, limit: Option<Limit>) -> f64 {
    match limit {
        Some(Limit::Air) => 1.0,
        Some(Limit::Wire) => 0.0,
        None => ((air - FULL[0]) / (FULL[1] - FULL[0])).clamp(0.0, 1.0),
    }
}

/// A member's weight is what it would have alone, but no more than this.
#[derive(Debug, Clone, Copy)]
pub(super) struct Weights {
    most_bps: Option<f64>,
    known: bool,
}

impl Weights {
    /// Of a group that carried so much at its best, and took so much of the air.
    pub(super) fn of(total: Total, best_bps: f64, air: f64, limit: Option<Limit>) -> Weights {
        let alone_bps = total.most_alone_bps;
        let by_air = by_air(air, limit);
        let wire = best_bps > 0.0 && best_bps < alone_bps && by_air < 1.0;
        let most_bps = wire.then(|| best_bps * (alone_bps / best_bps).powf(by_air));
        Weights { most_bps, known: alone_bps > 0.0 }
    }

    /// Whether anybody knows its radio.
    pub(super) fn are_known(&self) -> bool {
        self.known
    }

    pub(super) fn most_bps(&self) -> Option<f64> {
        self.most_bps
    }

    /// Of a member that would have so much alone on the air, bit/s. All are alike where nobody
    /// knows.
    pub(super) fn of_member(&self, alone_bps: f64) -> f64 {
        if !self.known {
            return 1.0;
        }
        self.most_bps.map_or(alone_bps, |most_bps| alone_bps.min(most_bps)).max(1.0)
    }
}
