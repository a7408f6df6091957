//! Simulated TCP senders and receivers over the radio and wire model, for sweeps over many
//! settings: hundreds of runs take minutes instead of the virtual machine's hours.
//!
//! ```
//! use yuzuri_netmodel::radio::Phy;
//! use yuzuri_sim::{NoBounds, Scenario, Terminal, path, run};
//!
//! // Four 802.11ac terminals upload through one access point over a path of 100 Mbit/s, 50 packets, 64 ms.
//! let terminals = vec![Terminal::uploading(); 4];
//! let scenario = Scenario::wireless(&[Phy::ac(80, 1, 8); 4], path(100_000_000, 50, 64_000), terminals, 2_000);
//! let results = run(&scenario.seeded(7), &mut NoBounds)?;
//! assert!(results.total_mbps() > 20.0 && results.total_mbps() < 100.0);
//! assert!(results.jain() > 0.25 && results.jain() <= 1.0);
//! # Ok::<(), yuzuri_sim::ScenarioError>(())
//! ```
//!
//! `docs/simulation.md` lists what is modelled, the kernel function behind each part, what is left
//! out, and how the results are checked.

pub mod cc;
mod experiment;
mod histogram;
mod messages;
mod network;
mod receive_window;
mod receiver;
mod recovery;
mod results;
mod scenario;
mod segment;
mod sender;
mod share;
mod steer;
mod units;
mod watch;
mod workload;

pub use experiment::{refused, sharing, simulated};
pub use messages::Messages;
pub use network::{ScenarioError, run, run_watched};
pub use receiver::{Receiver, ReceiverConfig};
pub use recovery::TimeoutRule;
pub use results::{Results, RttSummary, TerminalResult, TracePoint};
pub use scenario::{Change, ChangeKind, LocalDrop, Scenario, Terminal, Traffic, path};
pub use segment::{Block, Kind, MSS_BYTES, SACK_BLOCKS, Segment};
pub use sender::{LocalQueue, Sender, SenderConfig, SenderCounts};
pub use share::{FalseReports, FalseSummaries, Oracle, Sharing, TrueCapacity, hint_of};
pub use steer::{FixedBounds, NoBounds, Observation, Steer};
pub use watch::{FlowState, Watch, WatchedAt};
pub use yuzuri_scenario::Direction;
