//! What the radios and the wire of a setting carry at each moment.

use super::draw::Drawn;
use yuzuri_netmodel::Time;
use yuzuri_sim::{Change, ChangeKind, hint_of};

/// The rates at the time of the last call of [`advance`](Rates::advance).
pub struct Rates {
    /// The rate of each terminal alone on the air, payload bit/s.
    pub alone_bps: Vec<f64>,
    /// The wire's rate, bit/s.
    pub wire_bps: f64,
    /// Pending changes, the next one last.
    changes: Vec<Change>,
}

impl Rates {
    /// The rates at the beginning.
    pub fn of(drawn: &Drawn) -> Rates {
        let mut changes = drawn.scenario.changes.clone();
        changes.sort_by_key(|change| std::cmp::Reverse(change.at_ms));
        Rates {
            alone_bps: drawn.phys.iter().map(|phy| hint_of(*phy).alone_bps as f64).collect(),
            wire_bps: drawn.scenario.wire.up.rate_bps.unwrap_or(u64::MAX) as f64,
            changes,
        }
    }

    /// Applies all changes up to `now`.
    pub fn advance(&mut self, now: Time) {
        while let Some(change) = self.changes.pop_if(|next| next.at_ms * 1_000_000 <= now.as_nanos()) {
            match change.what {
                ChangeKind::Radio { terminal, phy } => {
                    self.alone_bps[usize::from(terminal)] = hint_of(phy).alone_bps as f64;
                }
                ChangeKind::Wire { rate_bps } => self.wire_bps = rate_bps as f64,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::draw;
    use super::*;

    #[test]
    fn changes_apply_in_the_order_of_their_times() {
        let change = |at_ms, rate_bps| Change { at_ms, what: ChangeKind::Wire { rate_bps } };
        let mut drawn = draw::setting(5, 0);
        drawn.scenario.changes = vec![change(9_000, 30), change(7_000, 20)];
        let mut rates = Rates::of(&drawn);
        let before_bps = rates.wire_bps;
        for (at_ms, bps) in [(6_999, before_bps), (7_000, 20.0), (8_000, 20.0), (10_000, 30.0)] {
            rates.advance(Time::from_nanos(at_ms * 1_000_000));
            assert_eq!(rates.wire_bps, bps, "{at_ms} ms");
        }
    }
}
