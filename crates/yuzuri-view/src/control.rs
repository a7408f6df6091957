//! What a face may change.

use serde::Serialize;
use yuzuri_trace::{Density, Filter};

/// Why a wish was not granted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It cannot be done in this mode at all (such as a filter while replaying); with the reason.
    #[error("not available here: {0}")]
    Unavailable(String),
    /// It was tried and failed, or the value makes no sense here; with the reason and what to do.
    #[error("{0}")]
    Failed(String),
}

/// Where a replay stands.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Replay {
    /// Whether it stands still.
    pub paused: bool,
    /// How many times faster than it was recorded; larger than 0.
    pub speed: f64,
    /// How far it is, nanoseconds since the recording's start.
    pub position_ns: u64,
    /// How long the recording is, nanoseconds.
    pub length_ns: u64,
}

/// What a face may change. Calls come from a thread that may block; they must not take the model's lock for
/// long. What a method does by itself is to say that it is not available. Errors are shown to the user as they are.
pub trait Control: Send + Sync {
    /// Chooses which flows are watched.
    ///
    /// # Errors
    /// [`Refused`] with a reason.
    fn set_filter(&self, filter: Filter) -> Result<(), Refused> {
        let _ = filter;
        Err(Refused::Unavailable("the filter is fixed".into()))
    }

    /// Chooses how many samples a flow gives.
    ///
    /// # Errors
    /// [`Refused`] with a reason.
    fn set_density(&self, density: Density) -> Result<(), Refused> {
        let _ = density;
        Err(Refused::Unavailable("the density is fixed".into()))
    }

    /// Where the replay stands; `None` while watching live.
    fn replay(&self) -> Option<Replay> {
        None
    }

    /// Halts a replay or lets it go on.
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
    Refused::Unavailable("this is a live view, there is nothing to pause, speed up or seek in".into())
}

/// Nothing may be changed.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoControl;

impl Control for NoControl {}
