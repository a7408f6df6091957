//! The interface to a policy: what it observes of each terminal, and the bounds that it sets.

use crate::cc::{Bounds, Timestamps};
use crate::segment::Segment;
use yuzuri_netmodel::Time;

/// A terminal's view of its own upload.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Observation {
    /// Smoothed RTT, µs; 0 before the first sample.
    pub srtt_us: u64,
    /// Minimum RTT, µs; 0 before the first sample.
    pub min_rtt_us: u64,
    /// Segments delivered since the start.
    pub delivered: u64,
    /// Bytes acknowledged cumulatively since the start.
    pub acked_bytes: u64,
    /// Congestion window, segments.
    pub cwnd: u32,
    /// Segments in flight.
    pub in_flight: u32,
    /// Whether the sender is application-limited.
    pub app_limited: bool,
    /// Segments retransmitted since the start.
    pub retransmitted: u64,
    /// Segments marked lost since the start.
    pub lost: u64,
    /// Full payload of a segment, bytes.
    pub mss_bytes: u32,
    /// Maximum payload in flight that send buffer and receive window allow, bytes.
    pub window_bytes: u64,
    /// Timestamps of the last ACK; `None` before the first.
    pub timestamps: Option<Timestamps>,
    /// Segments in the queue of the terminal's own interface.
    pub local_segments: u32,
}

/// A policy. The simulation calls it at fixed intervals of simulated time, and for each segment at
/// the access point.
pub trait Steer {
    /// Sets the `bounds` of the terminals' uploads. `terminals` and `bounds` follow the order of
    /// the scenario; `None` is a terminal without an upload, or one that has not started. Bounds
    /// persist until they are changed.
    fn steer(&mut self, now: Time, terminals: &[Option<Observation>], bounds: &mut [Bounds]);

    /// A segment passes the access point from its cell to the wire. Returns whether it is
    /// forwarded.
    fn forwards_up(&mut self, _now: Time, _terminal: usize, _segment: &mut Segment) -> bool {
        true
    }

    /// A segment passes the access point from the wire to its cell, before the queue there. Returns
    /// whether it is forwarded. The window may be lowered; the sender keeps the highest right edge
    /// that was advertised to it.
    fn forwards_down(&mut self, _now: Time, _terminal: usize, _segment: &mut Segment) -> bool {
        true
    }
}

/// No bounds.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoBounds;

impl Steer for NoBounds {
    fn steer(&mut self, _now: Time, _terminals: &[Option<Observation>], _bounds: &mut [Bounds]) {}
}

/// Constant bounds, one pair per terminal; terminals beyond the list have none.
#[derive(Clone, Debug, Default)]
pub struct FixedBounds(pub Vec<Bounds>);

impl Steer for FixedBounds {
    fn steer(&mut self, _now: Time, _terminals: &[Option<Observation>], bounds: &mut [Bounds]) {
        for (bound, fixed) in bounds.iter_mut().zip(&self.0) {
            *bound = *fixed;
        }
    }
}
