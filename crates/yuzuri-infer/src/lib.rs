//! Which congestion control is this, and with which constants? From captures and recordings to windows round by round, to algorithms, to names.
//!
//! [`packets::Tracker`] rebuilds [window traces](window_trace::WindowTrace) from packets, [`replay`] asks
//! each algorithm what it would have done on a window trace, [`name`] ranks the algorithms, and
//! [`identify`](identify()) says it all.

pub mod cubic;
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
