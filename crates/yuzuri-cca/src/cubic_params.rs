//! Parameters of a CUBIC variant for an experiment, or for the BPF CUBIC that Yuzuri registers with
//! the kernel.

use crate::CubicConstants;

/// Parameters of a CUBIC variant. The default corresponds to Linux's CUBIC.
#[derive(Debug, Clone, PartialEq)]
pub struct CubicParams {
    /// Name to register: 1 to 15 letters, digits, `_` and `.` (`TCP_CA_NAME_MAX` including the
    /// terminator).
    pub name: String,
    /// C of RFC 9438, section 4.1, segments per second cubed, from 1/1024 to 4. Linux: 410/1024.
    pub c: f64,
    /// Multiplicative decrease factor, beta_cubic of RFC 9438: the window after a reduction as a
    /// fraction of the window before it, 0.1 to 0.95. Linux: 717/1024. (The CUBIC papers use beta
    /// for 1 minus this value.)
    pub beta: f64,
    /// Whether a flow reduced below its last W_max releases further bandwidth (fast convergence,
    /// RFC 9438, section 4.7).
    pub fast_convergence: bool,
    /// Whether CUBIC grows at least as fast as Reno (RFC 9438, section 4.3).
    pub reno_friendly: bool,
    /// Whether HyStart ends slow start before a loss.
    pub hystart: bool,
    /// Congestion signals reduce neither window nor ssthresh. For experiments only, not for
    /// networks shared with others.
    pub no_decrease: bool,
    /// Bounds on every flow of this congestion control. They do not expire.
    pub always: Bound,
}

impl Default for CubicParams {
    fn default() -> CubicParams {
        CubicParams {
            name: "yuzuri".into(),
            c: 410.0 / 1024.0,
            beta: 717.0 / 1024.0,
            fast_convergence: true,
            reno_friendly: true,
            hystart: true,
            no_decrease: false,
            always: Bound::default(),
        }
    }
}

/// Bounds on a window, in segments; 0 means no bound.
///
/// At the upper bound growth stops, and a window above it shrinks by the number of acknowledged
/// segments. The lower bound is approached by growth per ACK, in the Open state and while the flow
/// is cwnd-limited, but not between a retransmission timeout and the end of the slow start that
/// follows it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bound {
    /// Minimum window.
    pub lower: u32,
    /// Maximum window. 1 is treated as 2, and a lower bound above the upper one is reduced to it.
    pub upper: u32,
}

/// Error: a parameter is out of range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("congestion control {name:?}: {what}")]
pub struct CubicParamsError {
    /// Name of the congestion control.
    pub name: String,
    /// The parameter and its allowed range.
    pub what: String,
}

impl CubicParams {
    /// Checks the ranges of all parameters.
    ///
    /// # Errors
    /// Returns an error for the first parameter that is out of range.
    pub fn check(&self) -> Result<(), CubicParamsError> {
        // `bpf_obj_name_cpy` accepts no other characters.
        let name_fits = (1..16).contains(&self.name.len())
            && self.name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'.');
        let what = if !name_fits {
            "a name has 1 to 15 ASCII letters, digits, underscores and dots"
        } else if !(self.c >= 1.0 / 1024.0 && self.c <= 4.0) {
            "C must be from 1/1024 to 4"
        } else if !(self.beta >= 0.1 && self.beta <= 0.95) {
            "beta must be from 0.1 to 0.95"
        } else {
            return Ok(());
        };
        Err(CubicParamsError { name: self.name.clone(), what: what.into() })
    }
}

impl From<&CubicParams> for CubicConstants {
    /// Converts to the integers of `tcp_cubic.c` (`beta_scale` and so on).
    fn from(params: &CubicParams) -> CubicConstants {
        let part = |x: f64| (x * 1024.0).round() as u32;
        let beta_1024 = part(params.beta).min(1023);
        CubicConstants {
            c_1024: part(params.c),
            beta_1024,
            fast_convergence_2048: params.fast_convergence.then_some(1024 + beta_1024),
            friendly_eighths: params.reno_friendly.then(|| 8 * (1024 + beta_1024) / 3 / (1024 - beta_1024)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_parameters_are_those_of_linux() {
        assert_eq!(CubicConstants::from(&CubicParams::default()), CubicConstants::LINUX);
    }

    #[test]
    fn parameters_out_of_range_are_named() {
        let bad = [
            CubicParams { name: String::new(), ..CubicParams::default() },
            CubicParams { name: "sixteen-letters-".into(), ..CubicParams::default() },
            CubicParams { name: "a b".into(), ..CubicParams::default() },
            CubicParams { name: "a-b".into(), ..CubicParams::default() },
            CubicParams { c: 0.0, ..CubicParams::default() },
            CubicParams { c: f64::NAN, ..CubicParams::default() },
            CubicParams { beta: 1.0, ..CubicParams::default() },
        ];
        for cubic in bad {
            assert!(cubic.check().is_err(), "{cubic:?}");
        }
        assert_eq!(CubicParams::default().check(), Ok(()));
    }
}
