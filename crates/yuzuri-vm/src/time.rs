//! The clock that a guest runs by, and how fast a processor it has by that clock.

use serde::{Deserialize, Serialize};

/// Which clock a guest runs by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Time {
    /// The clock counts the guest's instructions and skips the time in which the guest waits. What happens in the guest does not
    /// depend on how busy this machine is: with the same seed it is the same.
    Virtual {
        /// How fast the processor is.
        processor: Mips,
        /// Of all the guest's random numbers.
        seed: u64,
    },
    /// The clock on the wall.
    Real,
}

/// The speed of a processor in virtual time, million instructions per second of the guest's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct Mips(u32);

impl Mips {
    /// What QEMU's clock gives by itself: an instruction a nanosecond.
    pub const ONE_PER_NS: Mips = Mips(1000);

    /// 2^n ns for each instruction.
    pub(crate) fn shift(self) -> u32 {
        (1000 / self.0).checked_ilog2().unwrap_or(0)
    }

    /// Whether a second of the guest's is more than one of QEMU's.
    pub(crate) fn is_faster(self) -> bool {
        self > Mips::ONE_PER_NS
    }
}

impl Default for Mips {
    fn default() -> Mips {
        Mips::ONE_PER_NS
    }
}

impl TryFrom<u32> for Mips {
    type Error = String;

    fn try_from(mips: u32) -> Result<Mips, String> {
        match mips {
            125 | 250 | 500 | 1000 | 2000 | 4000 | 8000 => Ok(Mips(mips)),
            _ => Err(format!("{mips} is not possible: 1000 halved or doubled is, from 125 to 8000")),
        }
    }
}

impl From<Mips> for u32 {
    fn from(mips: Mips) -> u32 {
        mips.0
    }
}

impl std::str::FromStr for Mips {
    type Err = String;

    fn from_str(text: &str) -> Result<Mips, String> {
        let mips: u32 = text.parse().map_err(|_| format!("'{text}' is no whole number"))?;
        mips.try_into()
    }
}

impl std::fmt::Display for Mips {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl Time {
    /// What the kernel of an x86 guest is told so that a second of its clock lasts several of QEMU's, in each of which go a thousand million
    /// instructions: its clock, the time-stamp counter, is said to tick so many times faster than it does. The timer of its interrupts
    /// is measured against that clock then, provided that the machine has no PIT, whose rate the kernel believes to know. Measuring
    /// takes 5 to 10 s of CPU.
    pub(crate) fn clock_parameters(self) -> Option<String> {
        match self {
            Time::Virtual { processor, .. } if processor.is_faster() => {
                Some(format!("tsc_early_khz={} tsc=reliable", u64::from(processor.0) * 1000))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_halved_or_doubled() {
        for (text, shift) in [("1000", 0), ("500", 1), ("125", 3), ("2000", 0), ("8000", 0)] {
            let mips: Mips = text.parse().expect(text);
            assert_eq!((mips.shift(), mips.is_faster()), (shift, u32::from(mips) > 1000), "{text}");
        }
        for text in ["0", "100", "333", "1500", "3000", "16000", "-1", "fast"] {
            assert!(text.parse::<Mips>().is_err(), "{text}");
        }
    }

    #[test]
    fn only_a_faster_processor_needs_another_clock() {
        let with = |mips: u32| Time::Virtual { processor: Mips(mips), seed: 1 }.clock_parameters();
        assert_eq!(with(1000), None);
        assert_eq!(with(4000).as_deref(), Some("tsc_early_khz=4000000 tsc=reliable"));
        assert_eq!(Time::Real.clock_parameters(), None);
    }
}
