//! One table of facts about each algorithm, other than how it changes the window. They are looked
//! up by algorithm or by the name that a kernel uses.

use crate::{Algorithm, CubicConstants};
use serde::{Deserialize, Serialize};

/// What determines the window of a congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CcaKind {
    /// ACKs increase it and losses reduce it (RFC 5681, RFC 9438).
    Grows,
    /// The same, within bounds that a sharing group sets.
    Bounded,
    /// A model of the path determines it, and the sender paces at a rate (BBR).
    Model,
}

/// Name of the BPF congestion control that stays within the bounds of a sharing group. In a network
/// namespace other than the host's, a number follows the name: `yuzuri_4026532`.
pub const BOUNDED_CCA: &str = "yuzuri";

/// Names of BBR versions in other vendors' kernels, where `bbr` may be another version.
const BBR_OF_OTHERS: [&str; 2] = ["bbr1", "bbr2"];

impl CcaKind {
    /// The kind of the congestion control with this name; `None` if the name is unknown.
    pub fn of(congestion_control: &str) -> Option<CcaKind> {
        let bounded = congestion_control
            .strip_prefix(BOUNDED_CCA)
            .is_some_and(|number| number.is_empty() || number.starts_with('_'));
        if bounded {
            return Some(CcaKind::Bounded);
        }
        if BBR_OF_OTHERS.contains(&congestion_control) {
            return Some(CcaKind::Model);
        }
        Algorithm::named(congestion_control).map(|algorithm| algorithm.facts().kind)
    }
}

/// How common an algorithm is among senders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prevalence {
    /// Systems include it, and hosts run it by default (CUBIC of Linux, Apple and Windows, NewReno
    /// of the BSDs, BBR of large operators). The number is that of servers per thousand.
    Usual(u16),
    /// A system includes it, but somebody must select it. Studies of servers find it.
    Chosen,
    /// The same, for a purpose that few senders have (background transfers, satellites, data
    /// centres). Studies of servers do not find it.
    Special,
    /// No released kernel includes it.
    OutOfTree,
}

impl Prevalence {
    /// The fraction of all servers that run such an algorithm. Of 20,000 in 2019, CUBIC 36 % and
    /// BBR 18 % (Mishra et al., "The Great Internet TCP Congestion Control Census"); of 30,000 in
    /// 2011, NewReno 3 to 14 % (Yang et al., "TCP Congestion Avoidance Algorithm Identification").
    /// Each algorithm that must be selected runs on few servers.
    pub fn servers(self) -> f64 {
        match self {
            Prevalence::Usual(permille) => f64::from(permille) / 1000.0,
            Prevalence::Chosen => 0.01,
            Prevalence::Special => 0.0,
            Prevalence::OutOfTree => 0.01,
        }
    }
}

/// A form in which an algorithm may appear on a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As the kernel implements it.
    Plain,
    /// On a kernel with fewer ticks per second: its window depends on times in ticks, and a round
    /// trip may take only a few of them.
    SlowTicks,
    /// After slow start, it counts an ACK of several segments as one, as kernels before Linux 5.7
    /// did ("tcp: fix stretch ACK bugs in ...").
    CountsAcks,
    /// It backs off on delay at random times.
    Randomized,
    /// It may hold the window because of single measurements, or because of a threshold that it
    /// forgets at random times.
    MayHold,
    /// It learns nothing about one-way delays, because a random offset between the clocks hides
    /// them.
    Blind,
    /// It backs off at unpredictable times, may hold the window, and regains its window by slow
    /// start. It gets no timestamps.
    Unforeseen,
    /// With the constants at this index of [`Facts::constants`].
    Constants(usize),
}

/// Facts about an algorithm.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// Name as in Linux, with a suffix for variants that Linux does not distinguish.
    pub name: &'static str,
    /// Name of the module or of the system's setting. Several variants may share it.
    pub kernel_name: &'static str,
    /// What determines its window.
    pub kind: CcaKind,
    /// It needs ECN (`TCP_CONG_NEEDS_ECN`): its SYN is ECN-capable, others never are.
    pub needs_ecn: bool,
    /// Its window depends on random numbers, so a single run is not representative.
    pub randomized: bool,
    /// Its window depends on the minimum RTT of the connection.
    pub uses_min_rtt: bool,
    /// Its window depends on its estimate of a competing flow since the connection began.
    pub estimates_competitor: bool,
    /// Its window grows towards the one before the last loss.
    pub remembers_max: bool,
    /// It lowers ssthresh without a reduction: to the window to which it backs off because of
    /// delay, or, with ECN, to nearly the whole window.
    pub sets_ssthresh_without_reduction: bool,
    /// How common it is among senders.
    pub spread: Prevalence,
    /// The algorithm that it cannot be distinguished from: their constants differ by less than the
    /// rounding of a window, or the other algorithm has these constants as one of its forms.
    pub stands_for: Option<Algorithm>,
    /// The constants that a CUBIC with this name may use, the plainest first.
    pub constants: &'static [CubicConstants],
    /// The forms in which it may appear, the plainest first.
    pub forms: &'static [Form],
    /// Further forms in a polled log, which has means of round-trip times: this algorithm decides
    /// by single ones.
    pub forms_if_polled: &'static [Form],
}

/// An algorithm without special properties.
const PLAIN: Facts = Facts {
    name: "",
    kernel_name: "",
    kind: CcaKind::Grows,
    needs_ecn: false,
    randomized: false,
    uses_min_rtt: false,
    estimates_competitor: false,
    remembers_max: false,
    sets_ssthresh_without_reduction: false,
    spread: Prevalence::Chosen,
    stands_for: None,
    constants: &[],
    forms: &[Form::Plain],
    forms_if_polled: &[],
};

impl Facts {
    const fn named(name: &'static str) -> Facts {
        Facts { name, kernel_name: name, ..PLAIN }
    }

    /// Whether one of its forms backs off at random times.
    pub fn backs_off_at_random(&self) -> bool {
        self.forms.iter().any(|form| matches!(form, Form::Randomized | Form::Unforeseen))
    }
}

const COUNTED_ACKS: &[Form] = &[Form::Plain, Form::CountsAcks];
const IN_TICKS: &[Form] = &[Form::Plain, Form::SlowTicks];

impl Algorithm {
    /// Facts about this algorithm.
    pub const fn facts(self) -> Facts {
        match self {
            Algorithm::Cubic => Facts {
                spread: Prevalence::Usual(360),
                remembers_max: true,
                constants: &[CubicConstants::LINUX],
                ..Facts::named("cubic")
            },
            Algorithm::CubicApple => Facts {
                kernel_name: "cubic",
                stands_for: Some(Algorithm::Cubic),
                constants: &[CubicConstants::APPLE],
                ..Facts::named("cubic_apple")
            },
            Algorithm::CubicAppleOld => Facts {
                kernel_name: "cubic",
                remembers_max: true,
                constants: &[
                    CubicConstants::APPLE_OLD,
                    CubicConstants::BETA_EIGHT_TENTHS,
                    CubicConstants::IPHONE_2017,
                ],
                forms: &[Form::Constants(0), Form::Constants(1), Form::Constants(2)],
                ..Facts::named("cubic_apple_old")
            },
            Algorithm::CubicIphone2017 => Facts {
                kernel_name: "cubic",
                stands_for: Some(Algorithm::CubicAppleOld),
                constants: &[CubicConstants::IPHONE_2017],
                ..Facts::named("cubic_iphone_2017")
            },
            Algorithm::Reno => Facts { spread: Prevalence::Usual(90), ..Facts::named("reno") },
            Algorithm::Bic => Facts { remembers_max: true, forms: COUNTED_ACKS, ..Facts::named("bic") },
            Algorithm::Htcp => Facts { uses_min_rtt: true, forms: IN_TICKS, ..Facts::named("htcp") },
            Algorithm::Highspeed => Facts::named("highspeed"),
            Algorithm::Scalable => Facts { forms: COUNTED_ACKS, ..Facts::named("scalable") },
            Algorithm::Hybla => {
                Facts { uses_min_rtt: true, spread: Prevalence::Special, ..Facts::named("hybla") }
            }
            Algorithm::Illinois => Facts { uses_min_rtt: true, ..Facts::named("illinois") },
            Algorithm::Vegas => Facts {
                uses_min_rtt: true,
                sets_ssthresh_without_reduction: true,
                forms_if_polled: &[Form::MayHold],
                ..Facts::named("vegas")
            },
            Algorithm::Veno => Facts { uses_min_rtt: true, forms: COUNTED_ACKS, ..Facts::named("veno") },
            Algorithm::Westwood => Facts { uses_min_rtt: true, forms: IN_TICKS, ..Facts::named("westwood") },
            Algorithm::Yeah => Facts {
                uses_min_rtt: true,
                estimates_competitor: true,
                sets_ssthresh_without_reduction: true,
                forms: COUNTED_ACKS,
                ..Facts::named("yeah")
            },
            Algorithm::Lp => Facts {
                forms: &[Form::Plain, Form::Blind, Form::Unforeseen],
                spread: Prevalence::Special,
                ..Facts::named("lp")
            },
            Algorithm::Nv => Facts {
                randomized: true,
                uses_min_rtt: true,
                sets_ssthresh_without_reduction: true,
                forms: &[Form::MayHold],
                spread: Prevalence::Special,
                ..Facts::named("nv")
            },
            Algorithm::Cdg => Facts {
                randomized: true,
                forms: &[Form::Randomized],
                spread: Prevalence::Special,
                ..Facts::named("cdg")
            },
            Algorithm::Dctcp => Facts {
                needs_ecn: true,
                sets_ssthresh_without_reduction: true,
                spread: Prevalence::Special,
                ..Facts::named("dctcp")
            },
            // Only the phase in which its cycle begins is random.
            Algorithm::Bbr => {
                Facts { kind: CcaKind::Model, spread: Prevalence::Usual(180), ..Facts::named("bbr") }
            }
            Algorithm::Bbr3 => Facts {
                kernel_name: "bbr",
                kind: CcaKind::Model,
                spread: Prevalence::OutOfTree,
                ..Facts::named("bbr3")
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SlowStartExit;

    #[test]
    fn the_table_agrees_with_the_algorithms() {
        for algorithm in Algorithm::ALL {
            let facts = algorithm.facts();
            let cca = algorithm.make(SlowStartExit::Loss, 1);
            assert_eq!(cca.controls_all(), facts.kind == CcaKind::Model, "{algorithm:?}");
            assert_eq!(facts.constants.is_empty(), cca.name() != "cubic", "{algorithm:?}");
            assert!(!facts.forms.is_empty() && facts.name.starts_with(facts.kernel_name), "{algorithm:?}");
            for form in facts.forms {
                assert!(!matches!(form, Form::Constants(place) if *place >= facts.constants.len()));
            }
            let counts_acks = facts.forms.contains(&Form::CountsAcks);
            assert_eq!(counts_acks, algorithm.make_counting_acks().is_some(), "{algorithm:?}");
            if let Some(other) = facts.stands_for {
                assert_eq!(other.facts().stands_for, None, "{algorithm:?}");
                assert!(facts.constants.iter().all(|c| other.facts().constants.contains(c)), "{algorithm:?}");
            }
        }
    }

    #[test]
    fn a_name_from_the_kernel_gives_the_kind_or_nothing() {
        let of = CcaKind::of;
        assert_eq!((of("cubic"), of("dctcp")), (Some(CcaKind::Grows), Some(CcaKind::Grows)));
        assert_eq!(
            (of("bbr"), of("bbr2"), of("bbr3")),
            (Some(CcaKind::Model), Some(CcaKind::Model), Some(CcaKind::Model))
        );
        assert_eq!((of("yuzuri"), of("yuzuri_f00d")), (Some(CcaKind::Bounded), Some(CcaKind::Bounded)));
        assert_eq!((of(""), of("yuzurin"), of("tahoe")), (None, None, None));
    }
}
