//! Identifies the congestion control algorithm of a flow, and its constants, from captures and
//! recordings.
//!
//! [`packets::Tracker`] reconstructs [window traces](window_trace::WindowTrace) from packets,
//! [`replay`] determines what each algorithm would have done on a window trace, [`name`] ranks the
//! algorithms, and [`identify`](identify()) combines everything.
//!
//! ```no_run
//! use yuzuri_capture::{Capture, Item, Options};
//! use yuzuri_infer::{identify, packets::Tracker, verdict::Answer};
//!
//! let mut capture = Capture::open("transfer.pcap", &Options::default())?;
//! let mut tracker = Tracker::new();
//! while let Some(item) = capture.next_item()? {
//!     match item {
//!         Item::Segment(segment) => tracker.segment(segment),
//!         Item::Ended(flow) => drop(tracker.end(flow)),
//!     }
//! }
//! for flow in tracker.live().filter_map(|slot| tracker.now(slot)) {
//!     for window_trace in flow.window_traces.into_iter().flatten() {
//!         match identify(window_trace, Some(flow.seen), None, None).answer {
//!             Answer::Named { name, set } => println!("{name}, of {set:?}"),
//!             Answer::Unknown { because } => println!("unknown: {because}"),
//!         }
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod cause;
mod chance;
pub mod cubic;
mod cubic_replay;
mod evidence;
mod identify;
mod loss_trace;
pub mod name;
pub mod packets;
mod player;
mod probes;
pub mod replay;
pub mod samples;
pub mod score;
pub mod ssthresh;
mod unmodelled;
pub mod verdict;
pub mod window_trace;

pub use identify::identify;
