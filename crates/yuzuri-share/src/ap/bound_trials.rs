//! Decides when bounds are suspended. If segments are lost although neither a queue nor the air is
//! full, the policy paces windows over the round trip, and supports them with lower bounds. A gate
//! can do neither. Either upper bounds end the losses (a queue that only unbounded windows fill),
//! or small windows that shrink at each loss carry less than large ones (a lossy path, or a queue
//! shorter than a burst). This cannot be predicted. Therefore bounds are tried, once unbounded
//! senders have recovered and shown what they carry.

use std::collections::HashMap;
use yuzuri_policy::FlowSeen;

/// The policy reacts to losses of more than this fraction of a tick's segments. `CHANCE` further
/// lost segments may be random.
pub(super) const LOST: f64 = 0.002;
pub(super) const CHANCE: f64 = 4.0;
/// The number of ticks in which bounds take effect.
pub(super) const SETTLES: u32 = 4;
/// Bounded connections should carry this fraction of the previous maximum. The shortfall is summed
/// up from tick to tick, but never below zero (a cumulative sum, Page 1954). A sum of more than
/// `MISSING` ticks is not random.
const CARRIES: f64 = 0.97;
const MISSING: f64 = 0.3;
/// After this many ticks without a failure, earlier failures no longer count.
pub(super) const HOLDS: u32 = 60;
/// The number of ticks without bounds when losses begin and after a failure; each further failure
/// doubles it. Meanwhile the policy measures the maximum rate, and remembers it for the same time.
const OFF: u32 = 60;
const MAX_OFF: u32 = 16 * OFF;

/// The trials of bounds and their results.
#[derive(Debug, Default)]
pub(super) struct BoundTrials {
    /// The segments lost and delivered by each connection at the last tick.
    before: HashMap<u64, (u64, u64)>,
    was_lossy: bool,
    /// The remaining ticks without bounds.
    off: u32,
    last_off: u32,
    /// Ticks with bounds since then, and the segments lost, delivered and missing in them.
    bounded: u32,
    lost: f64,
    delivered: f64,
    missing: f64,
}

impl BoundTrials {
    /// Processes a tick. `is_lossy`: the policy sees losses although nothing is full; `part`: the
    /// rate relative to the maximum before. Returns whether nothing is to be bounded.
    pub(super) fn observe<'a>(
        &mut self,
        is_lossy: bool,
        part: f64,
        flows: impl Iterator<Item = &'a FlowSeen>,
    ) -> bool {
        let mut now = HashMap::new();
        let (mut lost, mut delivered) = (0, 0);
        for flow in flows {
            let seen = (flow.lost, flow.delivered);
            let before = self.before.get(&flow.id).unwrap_or(&seen);
            lost += seen.0.saturating_sub(before.0);
            delivered += seen.1.saturating_sub(before.1);
            now.insert(flow.id, seen);
        }
        let (lost, delivered) = (lost as f64, delivered as f64);
        if !is_lossy {
            *self = BoundTrials { before: now, ..BoundTrials::default() };
            return false;
        }
        self.before = now;
        if self.off > 0 || !self.was_lossy {
            self.off = if self.was_lossy { self.off - 1 } else { OFF };
            self.was_lossy = true;
            (self.bounded, self.lost, self.delivered, self.missing) = (0, 0.0, 0.0, 0.0);
            return self.off > 0;
        }
        self.bounded += 1;
        if self.bounded > SETTLES {
            (self.lost, self.delivered) = (self.lost + lost, self.delivered + delivered);
            self.missing = (self.missing + CARRIES - part).max(0.0);
        }
        if self.missing > MISSING || self.lost > CHANCE + LOST * self.delivered {
            self.off = (2 * self.last_off).clamp(OFF, MAX_OFF);
            self.last_off = self.off;
        } else if self.bounded == HOLDS {
            (self.last_off, self.bounded) = (0, SETTLES);
            (self.lost, self.delivered) = (0.0, 0.0);
        }
        self.off > 0
    }

    /// Whether bounds are suspended.
    pub(super) fn is_off(&self) -> bool {
        self.off > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A connection in a group that carries a fraction of its capacity.
    struct Path {
        seen: FlowSeen,
        bound_trials: BoundTrials,
    }

    impl Path {
        fn new() -> Path {
            let seen = FlowSeen { id: 1, cwnd: 100, ..FlowSeen::default() };
            let mut path = Path { seen, bound_trials: BoundTrials::default() };
            assert!(!path.bound_trials.observe(false, 1.0, [path.seen].iter()));
            path
        }

        fn observe(&mut self, lost: u64, part: f64) -> bool {
            self.seen.delivered += 1000;
            self.seen.lost += lost;
            self.bound_trials.observe(true, part, [self.seen].iter())
        }
    }

    #[test]
    fn bounds_are_lifted_for_a_while_when_losses_begin() {
        let mut path = Path::new();
        assert!((0..OFF).all(|_| path.observe(50, 0.7)));
        assert!((0..200).all(|_| !path.observe(0, 1.0)));
    }

    #[test]
    fn failed_trials_lift_the_bounds_with_doubling_intervals() {
        for (lost, part) in [(0, 0.8), (6, 1.0)] {
            let mut path = Path::new();
            let mut bounded = Vec::new();
            for _ in 0..3 {
                while path.observe(20, 1.0) {
                    assert!(path.bound_trials.is_off());
                }
                let mut ticks = 1;
                while !path.observe(lost, part) {
                    ticks += 1;
                    assert!(ticks < 20);
                }
                bounded.push(ticks);
            }
            assert!(bounded.iter().all(|ticks| *ticks <= SETTLES + 3), "{bounded:?}");
            assert_eq!(path.bound_trials.last_off, 4 * OFF, "{lost} {part}");
        }
    }

    #[test]
    fn random_losses_are_not_a_failure() {
        let mut path = Path::new();
        while path.observe(0, 1.0) {}
        assert!((0..1000).all(|n| !path.observe(n % 2, if n % 2 == 0 { 0.92 } else { 1.03 })));
    }

    #[test]
    fn bounds_return_when_the_losses_end() {
        let mut path = Path::new();
        assert!(path.observe(50, 1.0));
        assert!(!path.bound_trials.observe(false, 0.5, [path.seen].iter()));
        assert!(!path.bound_trials.is_off());
    }
}
