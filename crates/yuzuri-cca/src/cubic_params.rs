//! The parameters of a CUBIC that is made for an experiment, or that the kernel registers for us.

use crate::CubicConstants;

/// The parameters of a CUBIC. The default is Linux's own CUBIC.
#[derive(Debug, Clone, PartialEq)]
pub struct CubicParams {
    /// The name to register: 1 to 15 letters, digits, `_` and `.` (`TCP_CA_NAME_MAX` with its end).
    pub name: String,
    /// C of RFC 9438 section 4.1, segments per cubic second; above 0, at most 4. Linux has 410/1024.
    pub c: f64,
    /// What a reduction keeps of the window, 0.1 to 0.95 (1 - beta of CUBIC's papers). Linux has 717/1024.
    pub beta: f64,
    /// Whether a flow that was reduced below its last W_max gives way further (RFC 9438 section 4.7).
    pub fast_convergence: bool,
    /// Whether it grows at least as fast as Reno (RFC 9438 section 4.3).
    pub reno_friendly: bool,
    /// Whether slow start ends by HyStart, before loss.
    pub hystart: bool,
    /// The mode of paper 1: neither window nor ssthresh is cut on a sign of loss. An experiment, not for
    /// other people's networks.
    pub no_decrease: bool,
    /// A bound on every flow under this control, without expiry.
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

/// Bounds on a window, in segments; 0 is none.
///
/// At the upper one growth stops; a window beyond it shrinks by what is acknowledged. The lower one is approached by
/// growth per ACK, in Open state and while the window limits the flow, and not between a timeout and the end of the slow
/// start that follows it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bound {
    /// The least window.
    pub lower: u32,
    /// The largest window; 1 is taken as 2, and a lower bound above it as it.
    pub upper: u32,
}

/// A parameter is out of its range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("congestion control {name:?}: {what}")]
pub struct CubicParamsError {
    /// The name of the congestion control.
    pub name: String,
    /// Which parameter, and its range.
    pub what: String,
}

impl CubicParams {
    /// Whether all parameters are in their ranges.
    ///
    /// # Errors
    /// The first that is not.
    pub fn check(&self) -> Result<(), CubicParamsError> {
        // `bpf_obj_name_cpy` takes no other characters.
        let name_fits = (1..16).contains(&self.name.len())
            && self.name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'.');
        let what = if !name_fits {
            "a name has 1 to 15 ASCII letters, digits, underscores and dots"
        } else if !(self.c >= 1.0 / 1024.0 && self.c <= 4.0) {
            "C must be from 1/1024 to 4"
        } else if !(self.beta >= 0.1 && self.beta <= 0.95) {
            "what a reduction keeps must be from 0.1 to 0.95"
        } else {
            return Ok(());
        };
        Err(CubicParamsError { name: self.name.clone(), what: what.into() })
    }
}

impl From<&CubicParams> for CubicConstants {
    /// The integers that `tcp_cubic.c` would work with (`beta_scale` and the like).
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
    fn the_default_is_linux() {
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
