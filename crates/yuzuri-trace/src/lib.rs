//! The types that all crates of Yuzuri share: a [`Flow`], an [`Event`] with its [`Snapshot`] of the
//! connection, the [`Reason`] for it and the [`Place`] in the kernel where it happened, the
//! [`Account`] of what was seen, kept and lost, and the recording format that carries them.
//!
//! ```
//! use yuzuri_trace::{CaState, Event, Kind, Marks};
//!
//! let mut event = Event::default();
//! event.kind = Kind::State;
//! event.ca_state = CaState::Recovery;
//! event.marks.insert(Marks::SACK);
//! assert_eq!(event.kind.name(), "state");
//! assert_eq!(event.snapshot.in_flight(), 0);
//! ```
//!
//! See also: [`Session`] (where and how a stream was recorded), [`Item`] (an element of a stream),
//! [`recording`] (a stream in a file), `docs/recording-format.md`.

mod account;
mod event;
mod filter;
mod flow;
mod place;
pub mod recording;
mod session;
mod snapshot;
mod visible;

pub use account::{Account, CpuAccount, LossReason};
pub use event::{Event, Kind, Marks, Reason};
pub use filter::{End, Filter, FilterError, FilterProblem, Prefix};
pub use flow::{Flow, FlowId, Owner, Role};
pub use place::Place;
pub use session::{Density, Hook, HookState, Session, Setting, Source};
pub use snapshot::{Counts, Sender, Snapshot};
pub use visible::visible;
pub use yuzuri_cca::CaState;

use std::sync::Arc;

/// An item on its way from a source (kernel, polling, recording) to the sinks (recording, page,
/// screen).
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    /// A flow was seen for the first time, or something about its identity was learned or changed.
    Flow(Arc<Flow>),
    /// A sample or an event of a flow. Its `Flow` precedes it, unless that record was lost.
    Event(Event),
    /// Records seen, kept and lost since the start; once a second and at the end.
    Account(Arc<Account>),
    /// The filter or the density was changed.
    Setting(Arc<Setting>),
}

/// A batch of items in the order of the source. Events of one flow are in order of time; events of
/// flows on different CPUs may be out of order by up to one reading interval (10 ms).
pub type Batch = Arc<Vec<Item>>;
