//! Whether a full window that does not grow is at a bound.

use crate::Observation;
use crate::previous::Previous;
use yuzuri_cca::CaState;
use yuzuri_cca::CcaKind;

/// The length of CUBIC's plateau: within |t - K| < 1.36 s the curve W(t) = C (t - K)^3 + W_max is
/// less than a segment from W_max, with C = 0.4 (RFC 9438 section 4.2).
const PLATEAU_US: u64 = 2_720_000;

/// The smallest usual reduction of a window (CUBIC: 0.3; Reno: half), and the least growth per
/// round trip, segments (CUBIC's Reno-friendly region, RFC 9438 section 4.3: 3 × 0.3 / 1.7).
const REDUCED: f64 = 0.3;
const GROWS: f64 = 0.53;

/// A window that stays constant.
#[derive(Clone, Copy, Debug)]
struct ConstantWindow {
    cwnd_segments: u32,
    since_us: u64,
    acked_bytes: u64,
    /// It fell to this size without a reduction.
    fell: bool,
    /// It grew to this size.
    grew: bool,
}

impl ConstantWindow {
    fn has_grown(&self, now: &Observation) -> bool {
        now.cwnd_segments > self.cwnd_segments.saturating_add(blur(now, self.cwnd_segments))
    }
}

/// The uncertainty of the window: if the algorithm is unknown, only the data in flight is seen,
/// which varies by a segment or two.
fn blur(now: &Observation, cwnd_segments: u32) -> u32 {
    if now.cca.is_none() { 1 + cwnd_segments / 50 } else { 0 }
}

/// Whether there is a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BoundPresence {
    No,
    /// The window does not grow, but not for long enough to be sure.
    Perhaps,
    Yes,
}

/// Whether the algorithm may have bounds: an unknown one may.
fn may_be_bounded(seen: &Observation) -> bool {
    !matches!(seen.cca, Some(CcaKind::Grows | CcaKind::Model))
}

/// Follows a full window.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bound {
    flat: Option<ConstantWindow>,
    /// The bound found.
    segments: Option<u32>,
}

impl Bound {
    /// Processes an observation. `full`: the congestion window was the limit.
    pub(crate) fn add(&mut self, last: &Previous, now: &Observation, full: bool) {
        if !may_be_bounded(now) {
            *self = Bound::default();
            return;
        }
        // A raised bound lets the window grow.
        self.segments = self.segments.filter(|bound| now.cwnd_segments <= *bound);
        let calm = |state| matches!(state, CaState::Open | CaState::Disorder);
        if !full || !calm(now.state) || !calm(last.state) || now.reduction.is_some() {
            self.flat = None;
            return;
        }
        let new = ConstantWindow {
            cwnd_segments: now.cwnd_segments,
            since_us: now.time_us,
            acked_bytes: now.acked_bytes,
            fell: false,
            grew: false,
        };
        let flat = self.flat.get_or_insert(new);
        if flat.has_grown(now) {
            *flat = ConstantWindow { grew: true, ..new };
        } else if now.cwnd_segments < flat.cwnd_segments && now.cca == Some(CcaKind::Bounded) {
            *flat = ConstantWindow { fell: true, ..new };
        }
        if self.find(now) == BoundPresence::Yes {
            self.segments = Some(now.cwnd_segments);
        }
    }

    fn find(&self, now: &Observation) -> BoundPresence {
        let Some(flat) = self.flat.filter(|flat| !flat.has_grown(now)) else { return BoundPresence::No };
        if flat.fell {
            return BoundPresence::Yes;
        }
        let Some(srtt_us) = now.srtt_us.filter(|srtt| *srtt > 0) else { return BoundPresence::No };
        let acked_bytes = now.acked_bytes.saturating_sub(flat.acked_bytes);
        // In slow start each acknowledged segment adds one.
        let slow_start = now.ssthresh_segments.is_none_or(|ssthresh| now.cwnd_segments < ssthresh);
        if slow_start {
            return match acked_bytes {
                bytes if bytes >= now.cwnd_bytes() => BoundPresence::Yes,
                bytes if bytes > u64::from(now.mss_bytes) => BoundPresence::Perhaps,
                _ => BoundPresence::No,
            };
        }
        let flat_us = now.time_us.saturating_sub(flat.since_us);
        let round_trips = flat_us as f64 / f64::from(srtt_us);
        // The Reno-friendly window grows from the reduced window up to this one, and then beyond
        // it.
        let more = if now.cca.is_none() { 2.0 + f64::from(now.cwnd_segments) / 50.0 } else { 1.0 };
        let friendly = (f64::from(now.cwnd_segments) * REDUCED + more) / GROWS;
        if flat_us >= PLATEAU_US + u64::from(srtt_us) || round_trips >= friendly {
            BoundPresence::Yes
        } else if round_trips >= 1.0 / GROWS {
            BoundPresence::Perhaps
        } else {
            BoundPresence::No
        }
    }

    /// Whether the window was seen to grow, and has not since been constant for longer than growth
    /// beyond its uncertainty takes.
    pub(crate) fn grows(&self, now: &Observation) -> bool {
        let Some(flat) = self.flat else { return false };
        let more = f64::from(blur(now, flat.cwnd_segments) + 2);
        let flat_us = now.time_us.saturating_sub(flat.since_us) as f64;
        let stands = now.srtt_us.is_none_or(|srtt_us| flat_us * GROWS > more * f64::from(srtt_us));
        flat.has_grown(now) || (flat.grew && !stands)
    }

    /// Whether the window is at its bound: as reported by its congestion control, or else because
    /// the window is constant.
    pub(crate) fn holds(&self, seen: &Observation) -> BoundPresence {
        match seen.at_bound {
            Some(true) => return BoundPresence::Yes,
            Some(false) => return BoundPresence::No,
            None => {}
        }
        if !may_be_bounded(seen) {
            return BoundPresence::No;
        }
        if self.segments == Some(seen.cwnd_segments) { BoundPresence::Yes } else { self.find(seen) }
    }
}
