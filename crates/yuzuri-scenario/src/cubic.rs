//! A congestion control made for an experiment: constants, bounds and modes.

use serde::{Deserialize, Serialize};
use yuzuri_cca::{Bound, CubicParams};

/// CUBIC with other constants, with bounds for every flow, or without reductions; see
/// `docs/control.md`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CubicSpec {
    /// C of RFC 9438, segments per cubic second; default: Linux's 410/1024.
    pub c: f64,
    /// Multiplicative decrease factor β of RFC 9438; default: Linux's 717/1024.
    pub beta: f64,
    /// Fast convergence (RFC 9438, section 4.7); default: true.
    pub fast_convergence: bool,
    /// Reno-friendly region (RFC 9438, section 4.3); default: true.
    pub reno_friendly: bool,
    /// HyStart, which ends slow start before a loss; default: true.
    pub hystart: bool,
    /// Whether to ignore congestion signals instead of reducing the window; default: false.
    pub no_decrease: bool,
    /// Minimum window of every flow, segments; default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floor: Option<u32>,
    /// Maximum window of every flow, segments; default: none.
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
    /// The parameters for registration in the kernel.
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
