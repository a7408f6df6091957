//! Detects a flood of invalid datagrams. Under a flood, a thread that wakes for each datagram
//! spends most of its time on wake-ups; the pause returned here lets datagrams accumulate first.

use std::time::Duration;
use yuzuri_policy::Moment;

/// Refused datagrams per second that do not count as a flood. A group of 1000 members sends about
/// ten messages per second.
const MAX_QUIET_PER_S: f64 = 500.0;
/// Largest burst of refused datagrams that does not count as a flood.
const MAX_BURST: f64 = 100.0;
/// How long datagrams accumulate: a twentieth of the time in which 20,000 datagrams per second fill
/// the receive buffer, and far below any timeout of the group.
const PAUSE: Duration = Duration::from_millis(10);

/// A leaky bucket of refused datagrams.
#[derive(Debug, Default)]
pub(crate) struct Flood {
    level: f64,
    at: Moment,
}

impl Flood {
    /// Adds `refused` datagrams. Returns how long to pause under a flood.
    pub(crate) fn note(&mut self, now: Moment, refused: u64) -> Option<Duration> {
        let drained = now.since(self.at).as_secs_f64() * MAX_QUIET_PER_S;
        self.at = self.at.max(now);
        // Bound the level, so that the end of a flood is detected within a fraction of a second.
        self.level = ((self.level - drained).max(0.0) + refused as f64).min(2.0 * MAX_BURST);
        (self.level > MAX_BURST).then_some(PAUSE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_detected_by_its_rate() {
        let mut flood = Flood::default();
        let at = |ms| Moment::at(Duration::from_millis(ms));
        assert!((0..5000).all(|ms| flood.note(at(ms * 4), 2).is_none()), "500 a second");
        assert!(flood.note(at(20_000), 90).is_none());
        assert!(flood.note(at(20_001), 20).is_some());
        assert!((20_002..30_000).all(|ms| flood.note(at(ms), 20).is_some()), "20,000 a second");
        assert!(flood.note(at(30_250), 0).is_none(), "over");
    }
}
