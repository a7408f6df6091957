//! The live model of flows that every user interface shows: a [`LiveModel`] with a row per flow,
//! each flow's [`History`], which keeps extremes while its resolution decreases with age, and
//! quantities as [`text`].
//!
//! Nothing here does I/O or has its own clock. Time is the items' time (`CLOCK_MONOTONIC` of the
//! observed machine), so a replay shows exactly what the live view showed.
//!
//! ```
//! use std::sync::Arc;
//! use yuzuri_limits::Limit;
//! use yuzuri_trace::{Event, Flow, FlowId, Item, Kind, Snapshot};
//! use yuzuri_view::LimitedBy;
//!
//! // A sender in slow start whose congestion window is full, in two records a millisecond apart.
//! let record = |ms: u64| {
//!     let snapshot = Snapshot {
//!         cwnd: 20,
//!         ssthresh: Snapshot::SSTHRESH_INFINITE,
//!         packets_out: 20,
//!         mss: 1000,
//!         notsent: 100_000,
//!         srtt_us: 20_000,
//!         min_rtt_us: 20_000,
//!         snd_wnd: 1_000_000,
//!         bytes_acked: ms * 1000,
//!         ..Snapshot::default()
//!     };
//!     Item::Event(Event { flow: FlowId(1), mono_ns: ms * 1_000_000, kind: Kind::Sample, snapshot, ..Event::default() })
//! };
//! let mut limits = LimitedBy::default();
//! limits.limit_of(&Item::Flow(Arc::new(Flow { id: FlowId(1), congestion_control: "cubic".into(), ..Flow::default() })));
//! assert_eq!(limits.limit_of(&record(0)), None);
//! assert_eq!(limits.limit_of(&record(1)), Some(Limit::SlowStart));
//!
//! assert_eq!(yuzuri_view::text::rate(12_345_678.0), "12.3 Mbit/s");
//! ```

mod control;
mod deferred_limits;
mod dominant_limit;
mod flow_delays;
mod history;
mod ingest;
pub mod limited;
mod limited_by;
mod model;
pub mod order;
mod rate;
pub mod shared_bottleneck;
mod shown_bound;
pub mod text;
mod totals;
pub mod why;

pub use control::{Control, NoControl, Refused, Replay};
pub use dominant_limit::{DominantLimit, RecordLimits, short};
pub use flow_delays::{FlowDelays, TimedFlows, share_bottlenecks};
pub use history::{Bucket, History, Level};
pub use ingest::Ingest;
pub use limited_by::LimitedBy;
pub use model::{Limits, LiveModel, Logged, Row, Tally};
pub use order::SortKey;
pub use shown_bound::ShownBound;
pub use totals::{FlowTotals, Totals};
