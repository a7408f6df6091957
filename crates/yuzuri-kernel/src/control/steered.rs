//! What a flow under the control can be told.

use yuzuri_cca::Bound;

/// All that a flow can be told for a time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Steered {
    /// The bounds of its window.
    pub bound: Bound,
    /// Whether it is spared reductions ([`Control::no_decrease`](super::Control::no_decrease)).
    pub no_decrease: bool,
    /// Not 0: segments leave at the pacing rate (`sk_pacing_rate`, 1.2 times the window per round trip; twice in slow start), so many
    /// at once, 44 at most. A program's own pacing and that of the fq queueing discipline stay as they are.
    pub burst: u32,
}
