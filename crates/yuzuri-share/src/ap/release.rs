//! Releases a connection. A bounded sender is still in slow start: if it were released in one step,
//! it would overshoot like a new sender. Therefore its bound grows step by step until a loss ends
//! slow start, or until the bound is no longer the limit.

use yuzuri_gate::FlowSeen;

/// A released bound grows by this factor each half second ...
const GROWS: f64 = 1.25;
/// ... this many times: in total, by a factor of nine.
const STEPS: u32 = 10;

/// The bound of a connection that is being released.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Release {
    bytes: f64,
    steps: u32,
    repeated: u64,
}

impl Release {
    /// Starts from its current bound, bytes.
    pub(crate) fn from(bytes: u32, seen: &FlowSeen) -> Release {
        Release { bytes: bytes.into(), steps: 0, repeated: seen.repeated_segments }
    }

    /// The bound for the next half second, bytes; `None`: it is released.
    pub(crate) fn step(&mut self, seen: &FlowSeen) -> Option<u32> {
        let is_loose = u64::from(seen.offered_bytes) <= self.bytes as u64 || seen.in_flight_bytes == 0;
        if self.steps == STEPS || seen.repeated_segments > self.repeated || is_loose {
            return None;
        }
        self.steps += 1;
        self.bytes *= GROWS;
        Some(self.bytes as u32)
    }
}
