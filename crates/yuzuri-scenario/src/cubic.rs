//! A congestion control made for an experiment: constants, bounds and modes.

use serde::{Deserialize, Serialize};
use yuzuri_cca::{Bound, CubicParams};

/// CUBIC with other constants, bounds of every flow, or the mode without decrease; see `docs/control.md`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CubicSpec {
    /// C of RFC 9438, segments per cubic second; Linux's 410/1024.
    pub c: f64,
    /// What a reduction keeps of the window; Linux's 717/1024.
    pub beta: f64,
    /// Whether a flow that was reduced below its last W_max gives way further; true.
    pub fast_convergence: bool,
    /// Whether it grows at least as fast as Reno; true.
    pub reno_friendly: bool,
    /// Whether slow start ends by HyStart, before loss; true.
    pub hystart: bool,
    /// Whether nothing is cut on a sign of loss; false.
    pub no_decrease: bool,
    /// Least window of every flow, segments; none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floor: Option<u32>,
    /// Largest window of every flow, segments; none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cap: Option<u32>,
}

impl Default for CubicSpec {
    fn default() -> CubicSpec {
        let cubic = CubicParams::default();
        CubicSpec {
            c: cubic.c,
            beta: cubic.beta,
            fast_convergence: cubic.fast_convergence,
            reno_friendly: cubic.reno_friendly,
            hystart: cubic.hystart,
            no_decrease: cubic.no_decrease,
            floor: None,
            cap: None,
        }
    }
}

impl CubicSpec {
    /// As the kernel is to register it.
    pub fn cubic(&self, name: String) -> CubicParams {
        CubicParams {
            name,
            c: self.c,
            beta: self.beta,
            fast_convergence: self.fast_convergence,
            reno_friendly: self.reno_friendly,
            hystart: self.hystart,
            no_decrease: self.no_decrease,
            always: Bound { lower: self.floor.unwrap_or(0), upper: self.cap.unwrap_or(0) },
        }
    }
}
