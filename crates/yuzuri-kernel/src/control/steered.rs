//! The settings of a flow under the control.

use yuzuri_cca::Bound;

/// All settings of a flow, valid for a limited time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Steered {
    /// The bounds of its window.
    pub bound: Bound,
    /// Whether it is exempt from reductions
    /// ([`CongestionControl::no_decrease`](super::CongestionControl::no_decrease)).
    pub no_decrease: bool,
    /// Not 0: segments leave at the pacing rate (`sk_pacing_rate`, 1.2 times the window per round
    /// trip; twice in slow start) in bursts of this size, at most 44. The pacing of a program and
    /// of the fq queueing discipline stays as it is.
    pub burst: u32,
}
