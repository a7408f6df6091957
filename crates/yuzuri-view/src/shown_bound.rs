//! The upper bound of a window by sharing, inferred from records.
//!
//! A record reports whether the window is at its upper bound, not the bound itself. The congestion
//! control shrinks a larger window by each acknowledged segment, and no window grows beyond the
//! bound. So a window that is at its bound, and stayed the same while data was acknowledged, equals
//! the bound.

use yuzuri_trace::{CaState, Event};

/// Follows the records of one flow.
#[derive(Debug, Clone, Copy, Default)]
pub struct ShownBound {
    /// Window and acknowledged bytes of the latest record, if it was at its bound: segments, bytes.
    at_bound: Option<(u32, u64)>,
}

impl ShownBound {
    /// The upper bound at a record, segments. `None`: the window is below its bound, shrinks
    /// towards it, or the record does not report it.
    pub fn segments(&mut self, event: &Event) -> Option<u32> {
        // Other states set the window by other rules.
        let is_open = event.ca_state == CaState::Open && event.ca_before == CaState::Open;
        let here = (event.snapshot.cwnd, event.snapshot.bytes_acked);
        let now = (is_open && event.marks.at_bound() == Some(true)).then_some(here);
        let before = std::mem::replace(&mut self.at_bound, now);
        let ((was, acked_before), (is, acked)) = before.zip(now)?;
        (is == was && acked > acked_before).then_some(is)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use yuzuri_trace::{Marks, Snapshot};

    fn record(cwnd: u32, bytes_acked: u64, marks: &[Marks]) -> Event {
        let snapshot = Snapshot { cwnd, bytes_acked, ..Snapshot::default() };
        let mut event = Event { snapshot, ..Event::default() };
        marks.iter().for_each(|mark| event.marks.insert(*mark));
        event
    }

    const AT: [Marks; 2] = [Marks::REPORTS_BOUND, Marks::AT_BOUND];
    const BELOW: [Marks; 1] = [Marks::REPORTS_BOUND];

    #[test]
    fn a_window_that_stays_at_its_bound_shows_it() {
        let mut bound = ShownBound::default();
        // It shrinks from 20 to 12, stays there, grows to a new bound of 15, and leaves that.
        let cwnds = [20, 16, 12, 12, 12, 15, 15];
        let shown: Vec<_> = cwnds
            .iter()
            .zip(1..)
            .map(|(cwnd, acked)| bound.segments(&record(*cwnd, acked * 1000, &AT)))
            .collect();
        assert_eq!(shown, [None, None, None, Some(12), Some(12), None, Some(15)]);
        assert_eq!(bound.segments(&record(15, 9000, &BELOW)), None);
        assert_eq!(bound.segments(&record(15, 10_000, &AT)), None, "one record alone does not tell");
    }

    #[test]
    fn inconclusive_windows_show_no_bound() {
        let mut bound = ShownBound::default();
        let at = |acked| record(12, acked, &AT);
        bound.segments(&at(1000));
        assert_eq!(bound.segments(&at(1000)), None, "nothing was acknowledged");
        assert_eq!(bound.segments(&at(2000)), Some(12));
        let recovers = Event { ca_state: CaState::Recovery, ..at(3000) };
        assert_eq!(bound.segments(&recovers), None);
        assert_eq!(bound.segments(&at(4000)), None, "the window may have shrunk without an ACK's doing");
        // Without a report, a constant window is not conclusive.
        let mut bound = ShownBound::default();
        bound.segments(&record(12, 1000, &[]));
        assert_eq!(bound.segments(&record(12, 2000, &[])), None);
    }
}
