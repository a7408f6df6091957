//! The available congestion control algorithms.

use crate::{
    Bbr, Bbr3, Bic, Cdg, CongestionControl, Cubic, CubicConstants, Dctcp, HighSpeed, Htcp, Hybla, Illinois,
    Lp, Nv, Reno, Scalable, SlowStartExit, Vegas, Veno, Westwood, Yeah,
};
use serde::{Deserialize, Serialize};

/// A congestion control algorithm. Names are those of Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Algorithm {
    /// CUBIC as in `tcp_cubic.c` (RFC 9438 with Linux's constants).
    Cubic,
    /// CUBIC with [the constants of Apple's systems](CubicConstants::APPLE).
    CubicApple,
    /// CUBIC with [the constants of Apple's systems before RFC 9438](CubicConstants::APPLE_OLD).
    CubicAppleOld,
    /// CUBIC with [the constants measured on an iPhone in 2017](CubicConstants::IPHONE_2017).
    #[serde(rename = "cubic_iphone_2017")]
    CubicIphone2017,
    /// Reno (RFC 5681, `tcp_cong.c`).
    Reno,
    /// BIC (`tcp_bic.c`).
    Bic,
    /// H-TCP (`tcp_htcp.c`).
    Htcp,
    /// HighSpeed TCP (RFC 3649, `tcp_highspeed.c`).
    Highspeed,
    /// Scalable TCP (`tcp_scalable.c`).
    Scalable,
    /// Hybla (`tcp_hybla.c`).
    Hybla,
    /// TCP-Illinois (`tcp_illinois.c`).
    Illinois,
    /// Vegas (`tcp_vegas.c`).
    Vegas,
    /// Veno (`tcp_veno.c`).
    Veno,
    /// Westwood+ (`tcp_westwood.c`).
    Westwood,
    /// YeAH (`tcp_yeah.c`).
    Yeah,
    /// TCP-LP (`tcp_lp.c`).
    Lp,
    /// TCP-NV (`tcp_nv.c`).
    Nv,
    /// CAIA Delay-Gradient (`tcp_cdg.c`).
    Cdg,
    /// DCTCP (RFC 8257, `tcp_dctcp.c`).
    Dctcp,
    /// BBR, version 1 (`tcp_bbr.c`).
    Bbr,
    /// BBR, version 3 (draft-ietf-ccwg-bbr).
    Bbr3,
}

impl Algorithm {
    /// All algorithms.
    pub const ALL: [Algorithm; 21] = [
        Algorithm::Cubic,
        Algorithm::CubicApple,
        Algorithm::CubicAppleOld,
        Algorithm::CubicIphone2017,
        Algorithm::Reno,
        Algorithm::Bic,
        Algorithm::Htcp,
        Algorithm::Highspeed,
        Algorithm::Scalable,
        Algorithm::Hybla,
        Algorithm::Illinois,
        Algorithm::Vegas,
        Algorithm::Veno,
        Algorithm::Westwood,
        Algorithm::Yeah,
        Algorithm::Lp,
        Algorithm::Nv,
        Algorithm::Cdg,
        Algorithm::Dctcp,
        Algorithm::Bbr,
        Algorithm::Bbr3,
    ];

    /// Name as in Linux, with a suffix for variants that Linux does not distinguish.
    pub fn name(self) -> &'static str {
        self.facts().name
    }

    /// The algorithm with this [name](Algorithm::name).
    pub fn named(name: &str) -> Option<Algorithm> {
        Algorithm::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }

    /// The constants of a CUBIC variant; `None` for other algorithms.
    pub fn cubic_constants(self) -> Option<CubicConstants> {
        self.facts().constants.first().copied()
    }

    /// Creates the algorithm in its initial state. `exit` determines how CUBIC leaves slow start;
    /// `seed` initialises algorithms that use random numbers.
    pub fn make(self, exit: SlowStartExit, seed: u64) -> Box<dyn CongestionControl> {
        match self {
            Algorithm::Cubic
            | Algorithm::CubicApple
            | Algorithm::CubicAppleOld
            | Algorithm::CubicIphone2017 => {
                let constants = self.cubic_constants().unwrap_or(CubicConstants::LINUX);
                Box::new(Cubic::with(constants, exit))
            }
            Algorithm::Reno => Box::new(Reno),
            Algorithm::Bic => Box::new(Bic::default()),
            Algorithm::Htcp => Box::new(Htcp::default()),
            Algorithm::Highspeed => Box::new(HighSpeed::default()),
            Algorithm::Scalable => Box::new(Scalable::default()),
            Algorithm::Hybla => Box::new(Hybla::default()),
            Algorithm::Illinois => Box::new(Illinois::default()),
            Algorithm::Vegas => Box::new(Vegas::default()),
            Algorithm::Veno => Box::new(Veno::default()),
            Algorithm::Westwood => Box::new(Westwood::default()),
            Algorithm::Yeah => Box::new(Yeah::default()),
            Algorithm::Lp => Box::new(Lp::default()),
            Algorithm::Nv => Box::new(Nv::new(seed)),
            Algorithm::Cdg => Box::new(Cdg::new(seed)),
            Algorithm::Dctcp => Box::new(Dctcp::default()),
            Algorithm::Bbr => Box::new(Bbr::new(seed)),
            Algorithm::Bbr3 => Box::new(Bbr3::new(seed)),
        }
    }

    /// The algorithm as in Linux before 5.7 ("tcp: fix stretch ACK bugs in ..."), in its initial
    /// state. After slow start it counts ACKs: the caller passes one segment per ACK. `None` if it
    /// was the same then.
    pub fn make_counting_acks(self) -> Option<Box<dyn CongestionControl>> {
        match self {
            Algorithm::Bic => Some(Box::new(Bic::default())),
            Algorithm::Scalable => Some(Box::new(Scalable::counting_acks())),
            Algorithm::Veno => Some(Box::new(Veno::default())),
            Algorithm::Yeah => Some(Box::new(Yeah::counting_acks())),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_scenario_files() {
        for algorithm in Algorithm::ALL {
            let written = serde_json::to_value(algorithm).expect("a name");
            assert_eq!(written, algorithm.name());
            assert_eq!(Algorithm::named(algorithm.name()), Some(algorithm));
            let cca = algorithm.make(SlowStartExit::Hystart, 1);
            assert!(algorithm.name().starts_with(cca.name()));
        }
        assert_eq!(Algorithm::named("tahoe"), None);
    }
}
