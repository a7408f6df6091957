//! Which congestion control is this, and with which constants? From captures and recordings to windows round by round, to laws, to names.
//!
//! [`packets::Tracker`] rebuilds [courses](course::Course) from packets, [`replay`] asks each law what it would have done on a course, [`name`]
//! ranks the laws, and [`identify`](identify()) says it all.

pub mod course;
pub mod cubic;
mod evidence;
mod identify;
pub mod name;
pub mod packets;
mod probes;
pub mod replay;
pub mod score;
pub mod verdict;

pub use identify::identify;
