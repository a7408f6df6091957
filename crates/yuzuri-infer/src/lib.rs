//! Identifies congestion control algorithms and their constants: from captures and recordings to
//! windows by round, to algorithms, to names.
//!
//! [`packets::Tracker`] reconstructs [window traces](window_trace::WindowTrace) from packets,
//! [`replay`] determines what each algorithm would have done on a window trace, [`name`] ranks the
//! algorithms, and [`identify`](identify()) combines everything.

pub mod cubic;
mod cubic_replay;
mod evidence;
mod identify;
pub mod name;
pub mod packets;
mod player;
mod probes;
pub mod replay;
pub mod samples;
pub mod score;
mod unmodelled;
mod unseen;
pub mod verdict;
pub mod window_trace;

pub use identify::identify;
