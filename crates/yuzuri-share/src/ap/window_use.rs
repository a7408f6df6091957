//! Tracks whether a station sends more than the windows that the gate advertises to it allow. Such
//! a station ignores its window, or ACKs reach it without passing the gate. A bound has no effect
//! on it then.

/// A station that exceeds its windows for this many ticks in a row in which it sends ...
const MAX_TICKS_BEYOND: u32 = 20;
/// ... is not bounded for this many ticks.
const UNBOUNDED_FOR: u32 = 600;

/// A station's use of its windows over time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct WindowUse {
    /// Ticks in a row in which it sent beyond a window.
    beyond: u32,
    /// Ticks for which it is not bounded.
    unbounded: u32,
}

impl WindowUse {
    /// Processes a tick: for each of its connections that sent new data, whether they were beyond
    /// the right edge.
    pub(super) fn observe(&mut self, connections: impl Iterator<Item = bool>) {
        self.unbounded = self.unbounded.saturating_sub(1);
        // A station that sends nothing shows nothing.
        let Some(is_beyond) = connections.reduce(|one, other| one || other) else { return };
        self.beyond = if is_beyond && self.unbounded == 0 { self.beyond + 1 } else { 0 };
        if self.beyond == MAX_TICKS_BEYOND {
            (self.beyond, self.unbounded) = (0, UNBOUNDED_FOR);
        }
    }

    /// Whether windows have no effect on the station, so that it is not bounded.
    pub(crate) fn is_ignored(&self) -> bool {
        self.unbounded > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(ticks: &[(&[bool], u32)]) -> bool {
        let mut windows = WindowUse::default();
        for (connections, times) in ticks {
            (0..*times).for_each(|_| windows.observe(connections.iter().copied()));
        }
        windows.is_ignored()
    }

    #[test]
    fn a_station_beyond_its_windows_for_long_is_not_bounded_for_a_while() {
        assert!(!after(&[(&[false], 100)]));
        // Once after the other path that it had used: an ACK through the gate sets the edge.
        assert!(!after(&[(&[true], 19), (&[false, false], 1), (&[true], 19)]));
        assert!(after(&[(&[true], 20)]));
        assert!(after(&[(&[true], 10), (&[], 50), (&[false, true], 10)]), "it was silent in between");
        // While it is not bounded, the edge is that of the server.
        assert!(after(&[(&[true], 20), (&[false], 599)]));
        assert!(!after(&[(&[true], 20), (&[true], 600)]), "its windows are tried again");
        assert!(after(&[(&[true], 20), (&[true], 600), (&[true], 20)]));
    }
}
