//! Whether a writer waits for room in the send buffer, for observers without SOCK_NOSPACE.

use crate::Observation;
use crate::losses::may_go_on;

/// A writer that waits for room is woken once a third of the send buffer is free
/// (`sk_stream_min_wspace`).
pub(crate) const fn wakes_writer_below(buffer_bytes: u64) -> u64 {
    buffer_bytes / 3 * 2
}

/// A buffer in which a writer waits fills and drains at least once in two round trips. It is
/// observed for this time, and for at least this many observations, which may all fall between two
/// fillings.
const ROUND_TRIPS: u64 = 2;
const OBSERVATIONS: u32 = 20;

/// The last distinct state of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PreviousState {
    /// Full except for less than a segment: a writer with more has to wait
    /// (`sk_stream_memory_free`).
    Full,
    /// So empty that a waiting writer has been woken.
    Woken,
    /// Unknown.
    Unseen,
}

/// The number of observations from which it is known how often a buffer is full.
const REMEMBERED: u64 = 200;

/// Follows the memory of the send queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendBuffer {
    was: PreviousState,
    since_us: u64,
    observations: u32,
    /// Observations of a full buffer, all observations up to the last of these, and those after it.
    /// While a waiting writer's data is in flight, most polls find the buffer partly empty.
    full: u64,
    until_full: u64,
    since_full: u64,
}

impl Default for SendBuffer {
    fn default() -> Self {
        SendBuffer {
            was: PreviousState::Unseen,
            since_us: 0,
            observations: 0,
            full: 0,
            until_full: 0,
            since_full: 0,
        }
    }
}

impl SendBuffer {
    pub(crate) fn add(&mut self, now: &Observation) {
        let (Some(memory_bytes), Some(buffer_bytes)) = (now.send_memory_bytes, now.send_buffer_bytes) else {
            *self = SendBuffer::default();
            return;
        };
        self.since_full += 1;
        // A segment's memory is nearly twice its data.
        let is = if memory_bytes + 2 * u64::from(now.mss_bytes) >= buffer_bytes {
            self.until_full += self.since_full;
            self.since_full = 0;
            self.full += 1;
            if self.until_full > REMEMBERED {
                self.full = (self.full * REMEMBERED).div_ceil(self.until_full);
                self.until_full = REMEMBERED;
            }
            PreviousState::Full
        } else if memory_bytes < wakes_writer_below(buffer_bytes) {
            if self.was == PreviousState::Woken && self.observations == 1 {
                // The writer was woken and has not written: it does not wait for room.
                (self.full, self.until_full, self.since_full) = (0, 0, 0);
            }
            PreviousState::Woken
        } else if self.observations == 0 {
            PreviousState::Unseen
        } else {
            self.observations = self.observations.saturating_add(1);
            return;
        };
        *self = SendBuffer { was: is, since_us: now.time_us, observations: 1, ..*self };
    }

    /// Whether the writer waits.
    pub(crate) fn writer_waits(&self, now: &Observation) -> Option<bool> {
        let rtt_us = u64::from(now.srtt_us?) + 4 * u64::from(now.rttvar_us);
        let long = self.observations > OBSERVATIONS
            && now.time_us.saturating_sub(self.since_us) > ROUND_TRIPS * rtt_us;
        // A single observation of a full buffer does not show how often it is full. If it was full
        // more often, polls in step with the round trip may see only the time in between.
        let fills = match self.full {
            0 | 1 => Some(false),
            full => may_go_on(full, self.until_full, self.since_full).then_some(true),
        };
        match self.was {
            // The buffer has been between both states for longer than a waiting writer leaves it
            // there.
            _ if long => fills,
            PreviousState::Full => Some(true),
            PreviousState::Woken => fills,
            PreviousState::Unseen => None,
        }
    }
}
