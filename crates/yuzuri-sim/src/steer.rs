//! Where a policy takes hold: what it sees of each terminal, and the bounds it answers with.

use crate::cc::Bounds;
use yuzuri_netmodel::Time;

/// What a terminal knows of its own upload.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Observation {
    /// Smoothed round-trip time, µs; 0 before the first sample.
    pub srtt_us: u64,
    /// Least round-trip time, µs; 0 before the first sample.
    pub min_rtt_us: u64,
    /// Segments delivered since the start.
    pub delivered: u64,
    /// Bytes acknowledged cumulatively since the start.
    pub acked_bytes: u64,
    /// Window, segments.
    pub cwnd: u32,
    /// Segments in flight.
    pub in_flight: u32,
    /// Whether the application holds the sender back.
    pub app_limited: bool,
    /// Segments retransmitted since the start.
    pub retransmitted: u64,
    /// Segments marked lost since the start.
    pub lost: u64,
    /// Full payload of a segment, bytes.
    pub mss_bytes: u32,
    /// Bytes of payload that send buffer and receive window admit.
    pub window_bytes: u64,
}

/// A policy. It is asked at fixed intervals of simulated time.
pub trait Steer {
    /// Sets `bounds` of the terminals' uploads. `terminals` and `bounds` are numbered as in the scenario; `None` is a terminal without upload, or
    /// one that has not begun. Bounds stay until they are changed.
    fn steer(&mut self, now: Time, terminals: &[Option<Observation>], bounds: &mut [Bounds]);
}

/// No bounds.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSteer;

impl Steer for NoSteer {
    fn steer(&mut self, _now: Time, _terminals: &[Option<Observation>], _bounds: &mut [Bounds]) {}
}

/// The same bounds all the time, one pair per terminal; terminals beyond the list have none.
#[derive(Clone, Debug, Default)]
pub struct Fixed(pub Vec<Bounds>);

impl Steer for Fixed {
    fn steer(&mut self, _now: Time, _terminals: &[Option<Observation>], bounds: &mut [Bounds]) {
        for (bound, fixed) in bounds.iter_mut().zip(&self.0) {
            *bound = *fixed;
        }
    }
}
