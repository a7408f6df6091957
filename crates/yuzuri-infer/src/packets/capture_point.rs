//! Where a capture was taken, and its effect on times.

use crate::window_trace::{CapturePoint, Round, WindowTrace};

/// The delays of the two directions, as seen from the capture.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Delays {
    there_ns: Option<i64>,
    back_ns: Option<i64>,
    there_count: u32,
    back_count: u32,
}

/// Samples of each direction after which the capture point is determined without a handshake.
const ENOUGH: u32 = 16;

impl Delays {
    /// Records the delay from data to its acknowledgement.
    pub(super) fn there(&mut self, ns: i64) {
        self.there_ns = Some(self.there_ns.map_or(ns, |least| least.min(ns)));
        self.there_count += 1;
    }

    /// Records the delay from an acknowledgement to the data sent in response.
    pub(super) fn back(&mut self, ns: i64) {
        self.back_ns = Some(self.back_ns.map_or(ns, |least| least.min(ns)));
        self.back_count += 1;
    }

    /// Whether the capture is so close to the receiver that acknowledgements may follow the data
    /// within this time.
    pub(super) fn is_at_receiver(&self, at_once_ns: i64) -> bool {
        self.there_ns.is_some_and(|there_ns| there_ns < at_once_ns)
    }

    /// The least delay from an acknowledgement to the data sent in response.
    pub(super) fn min_back_ns(&self) -> Option<i64> {
        self.back_ns
    }

    /// The capture point, once there are enough samples.
    pub(super) fn capture_point(&self) -> Option<CapturePoint> {
        let enough = self.there_count >= ENOUGH && self.back_count >= ENOUGH;
        enough.then(|| self.there_ns.zip(self.back_ns).map(|(there, back)| capture_point(there, back)))?
    }
}

/// At the receiver a growing queue stretches intervals: this gives rounds and reductions the
/// sender's times, except for a constant.
pub(super) fn as_sent(window_trace: &mut WindowTrace) {
    let queued_ns = |rtt_us: u32| i64::from(rtt_us.saturating_sub(window_trace.min_rtt_us)) * 1000;
    let mut shifts = Vec::with_capacity(window_trace.rounds.len());
    let mut shift = 0;
    for round in &window_trace.rounds {
        let before = shift;
        if round.rtt_last_us > 0 {
            shift = queued_ns(round.rtt_last_us);
        }
        shifts.push((before, shift));
    }
    for (round, (start, end)) in window_trace.rounds.iter_mut().zip(&shifts) {
        round.start_ns -= start;
        round.end_ns = (round.end_ns - end).max(round.start_ns);
    }
    for reduction in &mut window_trace.reductions {
        let place = reduction.round as usize;
        let of = |place: Option<usize>| place.and_then(|place| shifts.get(place));
        reduction.at_ns -= of(place.checked_sub(2)).map_or(0, |(_, end)| *end);
        reduction.over_ns =
            (reduction.over_ns - of(place.checked_sub(1)).map_or(0, |(_, end)| *end)).max(reduction.at_ns);
    }
    // Times were measured from data to the data sent in response to its acknowledgement, which
    // includes the queueing delay of the latter. The sender measures that delay a round later.
    let mut queued = Rtts::all(window_trace.min_rtt_us);
    for round in &mut window_trace.rounds {
        let own = std::mem::replace(&mut queued, Rtts::of(round));
        own.set(round);
    }
}

/// The round-trip times of a round, µs.
#[derive(Clone, Copy)]
struct Rtts([u32; 5]);

impl Rtts {
    fn all(rtt_us: u32) -> Rtts {
        Rtts([rtt_us; 5])
    }

    fn of(round: &Round) -> Rtts {
        Rtts([round.rtt_first_us, round.rtt_min_us, round.rtt_max_us, round.rtt_last_us, round.rtt_mean_us])
    }

    fn set(self, round: &mut Round) {
        [round.rtt_first_us, round.rtt_min_us, round.rtt_max_us, round.rtt_last_us, round.rtt_mean_us] =
            self.0;
    }
}

/// Where a capture was taken, from the delay of data to its acknowledgement and that of
/// acknowledgements to the data sent in response.
pub(super) fn capture_point(there_ns: i64, back_ns: i64) -> CapturePoint {
    let all = there_ns + back_ns;
    if back_ns * 5 < all {
        CapturePoint::Sender
    } else if there_ns * 5 < all {
        CapturePoint::Receiver
    } else {
        CapturePoint::Middle
    }
}
