//! The guest's clock and the processor speed relative to it.

use serde::Serialize;
pub use yuzuri_scenario::Mips;

/// The clock of a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Time {
    /// The clock counts the guest's instructions and skips idle time. The guest's behaviour does
    /// not depend on the load of the host and is identical for the same seed.
    Virtual {
        /// Speed of the processor.
        processor: Mips,
        /// Seed of all random numbers in the guest.
        seed: u64,
    },
    /// The host's clock.
    Real,
}

/// QEMU's `-icount` shift for a processor: an instruction takes 2^n ns.
pub(crate) fn shift(processor: Mips) -> u32 {
    (1000 / u32::from(processor)).checked_ilog2().unwrap_or(0)
}

/// Whether a second of the guest's clock spans more than one second of QEMU's clock.
pub(crate) fn is_faster(processor: Mips) -> bool {
    processor > Mips::ONE_PER_NS
}

impl Time {
    /// Kernel parameters that make one second of an x86 guest's clock span several seconds of
    /// QEMU's, each of which has 1000 million instructions. They declare the time-stamp counter,
    /// the guest's clock, to run faster than it does. The kernel then calibrates its timer
    /// interrupt against that counter, provided that the machine has no PIT, whose rate the kernel
    /// takes as known. The calibration takes 5 to 10 s of CPU time.
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
