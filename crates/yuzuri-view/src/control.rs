//! What a user interface may change.

use serde::Serialize;
use yuzuri_trace::{Density, Filter};

/// Why a request was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// This mode does not support it at all (such as a filter while replaying); with the reason.
    #[error("not available here: {0}")]
    Unavailable(String),
    /// The attempt failed, or the value makes no sense here; with the reason and what to do.
    #[error("{0}")]
    Failed(String),
}

/// The state of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Replay {
    /// Whether it is paused.
    pub paused: bool,
    /// The replay's speed as a multiple of the recorded one; larger than 0.
    pub speed: f64,
    /// Its position, nanoseconds since the recording's start.
    pub position_ns: u64,
    /// The recording's length, nanoseconds.
    pub length_ns: u64,
}

/// What a user interface may change. Calls come from a thread that may block; implementations must
/// not hold the model's lock for long. By default a method refuses as not available. Errors are
/// shown to the user verbatim.
pub trait Control: Send + Sync {
    /// Selects the flows to watch.
    ///
    /// # Errors
    /// [`Refused`] with a reason.
    fn set_filter(&self, filter: Filter) -> Result<(), Refused> {
        let _ = filter;
        Err(Refused::Unavailable("the filter is fixed".into()))
    }

    /// Selects how many samples each flow produces.
    ///
    /// # Errors
    /// [`Refused`] with a reason.
    fn set_density(&self, density: Density) -> Result<(), Refused> {
        let _ = density;
        Err(Refused::Unavailable("the density is fixed".into()))
    }

    /// The state of the replay; `None` while watching live.
    fn replay(&self) -> Option<Replay> {
        None
    }

    /// Pauses or resumes a replay.
    ///
    /// # Errors
    /// [`Refused`] where nothing is replayed.
    fn set_paused(&self, paused: bool) -> Result<(), Refused> {
        let _ = paused;
        Err(no_replay())
    }

    /// Sets a replay's speed, 0.01 to 1000 times the recorded one.
    ///
    /// # Errors
    /// [`Refused`] where nothing is replayed.
    fn set_speed(&self, speed: f64) -> Result<(), Refused> {
        let _ = speed;
        Err(no_replay())
    }

    /// Moves a replay to a position, nanoseconds since the recording's start, at most its length.
    ///
    /// # Errors
    /// [`Refused`] where nothing is replayed.
    fn seek(&self, position_ns: u64) -> Result<(), Refused> {
        let _ = position_ns;
        Err(no_replay())
    }
}

fn no_replay() -> Refused {
    Refused::Unavailable("a live view cannot be paused, sped up or moved in time".into())
}

/// Refuses every change.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoControl;

impl Control for NoControl {}
