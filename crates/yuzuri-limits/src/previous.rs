//! What the classifier compares the next observation with.

use crate::{Moment, Observation};
use yuzuri_cca::CaState;

/// The part of an observation that is compared with the next one.
///
/// Every record writes it to its flow's memory, so it has a quarter of an [`Observation`]'s size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Previous {
    pub(crate) time_us: u64,
    pub(crate) moment: Moment,
    pub(crate) state: CaState,
    /// Nothing that the application had written was unsent.
    pub(crate) had_sent_all: bool,
    pub(crate) cwnd_segments: u32,
    pub(crate) receive_window_bytes: Option<u64>,
    pub(crate) outstanding_bytes: u64,
    pub(crate) acked_bytes: u64,
}

impl Previous {
    pub(crate) fn of(seen: &Observation) -> Previous {
        Previous {
            time_us: seen.time_us,
            moment: seen.moment,
            state: seen.state,
            had_sent_all: seen.unsent_bytes == Some(0),
            cwnd_segments: seen.cwnd_segments,
            receive_window_bytes: seen.receive_window_bytes,
            outstanding_bytes: seen.outstanding_bytes,
            acked_bytes: seen.acked_bytes,
        }
    }
}
