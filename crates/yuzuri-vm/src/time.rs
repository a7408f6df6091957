//! The clock that a guest runs by, and how fast a processor it has by that clock.

use serde::Serialize;
pub use yuzuri_scenario::Mips;

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

/// The QEMU shift of a processor: 2^n ns for each instruction.
pub(crate) fn shift(processor: Mips) -> u32 {
    (1000 / u32::from(processor)).checked_ilog2().unwrap_or(0)
}

/// Whether a second of the guest's clock is more than one of QEMU's.
pub(crate) fn is_faster(processor: Mips) -> bool {
    processor > Mips::ONE_PER_NS
}

impl Time {
    /// What the kernel of an x86 guest is told so that a second of its clock lasts several of QEMU's, in each of which go a thousand million
    /// instructions: its clock, the time-stamp counter, is said to tick so many times faster than it does. The timer of its interrupts
    /// is measured against that clock then, provided that the machine has no PIT, whose rate the kernel believes to know. Measuring
    /// takes 5 to 10 s of CPU.
    pub(crate) fn clock_parameters(self) -> Option<String> {
        match self {
            Time::Virtual { processor, .. } if is_faster(processor) => {
                Some(format!("tsc_early_khz={} tsc=reliable", u64::from(u32::from(processor)) * 1000))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{shift as shift_of, *};

    #[test]
    fn a_thousand_halved_or_doubled() {
        for (text, shift) in [("1000", 0), ("500", 1), ("125", 3), ("2000", 0), ("8000", 0)] {
            let mips: Mips = text.parse().expect(text);
            assert_eq!((shift_of(mips), is_faster(mips)), (shift, u32::from(mips) > 1000), "{text}");
        }
        for text in ["0", "100", "333", "1500", "3000", "16000", "-1", "fast"] {
            assert!(text.parse::<Mips>().is_err(), "{text}");
        }
    }

    #[test]
    fn only_a_faster_processor_needs_another_clock() {
        let with = |mips: u32| {
            Time::Virtual { processor: mips.try_into().expect("a speed"), seed: 1 }.clock_parameters()
        };
        assert_eq!(with(1000), None);
        assert_eq!(with(4000).as_deref(), Some("tsc_early_khz=4000000 tsc=reliable"));
        assert_eq!(Time::Real.clock_parameters(), None);
    }
}
