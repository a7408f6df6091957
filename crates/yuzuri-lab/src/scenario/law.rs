//! A congestion control made for an experiment: constants, bounds and modes.

use serde::{Deserialize, Serialize};
use yuzuri_kernel::control::{Bound, Law};

/// CUBIC with other constants, bounds of every flow, or the mode without decrease; see `docs/control.md`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LawSpec {
    /// C of RFC 9438, segments per cubic second; Linux's 410/1024.
    pub c: f64,
    /// What a reduction keeps of the window; Linux's 717/1024.
    pub keeps: f64,
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

impl Default for LawSpec {
    fn default() -> LawSpec {
        let law = Law::default();
        LawSpec {
            c: law.c,
            keeps: law.keeps,
            fast_convergence: law.fast_convergence,
            reno_friendly: law.reno_friendly,
            hystart: law.hystart,
            no_decrease: law.no_decrease,
            floor: None,
            cap: None,
        }
    }
}

impl LawSpec {
    /// As the kernel is to register it.
    pub fn law(&self, name: String) -> Law {
        Law {
            name,
            c: self.c,
            keeps: self.keeps,
            fast_convergence: self.fast_convergence,
            reno_friendly: self.reno_friendly,
            hystart: self.hystart,
            no_decrease: self.no_decrease,
            always: Bound { lower: self.floor.unwrap_or(0), upper: self.cap.unwrap_or(0) },
        }
    }
}
