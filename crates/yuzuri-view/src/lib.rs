//! The live model of flows that every user interface shows: a [`LiveModel`] with a row per flow,
//! each flow's [`History`], which thins with age but keeps extremes, and quantities as [`text`].
//!
//! Nothing here does I/O or has its own clock. Time is the items' time (`CLOCK_MONOTONIC` of the
//! observed machine), so a replay shows exactly what the live view showed.

mod control;
mod held;
mod history;
mod ingest;
pub mod limited;
mod limited_by;
mod model;
pub mod order;
mod rate;
pub mod text;
pub mod together;
pub mod why;

pub use control::{Control, NoControl, Refused, Replay};
pub use held::{Held, RecordLimits, short};
pub use history::{Bucket, History, Level};
pub use ingest::Ingest;
pub use limited_by::LimitedBy;
pub use model::{Limits, LiveModel, Logged, Row, Tally};
pub use order::SortKey;
