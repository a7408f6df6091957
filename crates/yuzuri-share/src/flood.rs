//! Under a flood a thread that wakes for each datagram spends its time on waking. This one then lets them gather for a moment.

use std::time::Duration;
use yuzuri_policy::Moment;

/// Refused datagrams a second that are taken as they come. A group of a thousand says about ten messages a second.
const MAX_QUIET_PER_S: f64 = 500.0;
/// How many at once are no flood yet.
const MAX_BURST: f64 = 100.0;
/// How long they gather: a fiftieth of what the receive buffer holds at 20,000 a second; far below anything that the group waits for.
const REST: Duration = Duration::from_millis(4);

/// How many datagrams were refused lately.
#[derive(Debug, Default)]
pub(crate) struct Flood {
    level: f64,
    at: Moment,
}

impl Flood {
    /// So many more were refused; how long to let the next ones gather.
    pub(crate) fn note(&mut self, now: Moment, refused: u64) -> Option<Duration> {
        let drained = now.since(self.at).as_secs_f64() * MAX_QUIET_PER_S;
        self.at = self.at.max(now);
        // Bounded, so that the end of a flood is noticed within a fraction of a second.
        self.level = ((self.level - drained).max(0.0) + refused as f64).min(2.0 * MAX_BURST);
        (self.level > MAX_BURST).then_some(REST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_known_by_its_rate() {
        let mut flood = Flood::default();
        let at = |ms| Moment::at(Duration::from_millis(ms));
        assert!((0..5000).all(|ms| flood.note(at(ms * 4), 2).is_none()), "500 a second");
        assert!(flood.note(at(20_000), 90).is_none());
        assert!(flood.note(at(20_001), 20).is_some());
        assert!((20_002..30_000).all(|ms| flood.note(at(ms), 20).is_some()), "20,000 a second");
        assert!(flood.note(at(30_250), 0).is_none(), "over");
    }
}
