//! Clocks: the process's own, and its difference from the kernel's.
//!
//! Every time in this workspace is in the process's own `CLOCK_MONOTONIC`. The kernel's programs
//! write and compare the machine's (`bpf_ktime_get_ns`). The two differ in a time namespace, so a
//! [`KernelClock`] converts every timestamp that crosses.

use crate::MonitorError;
use crate::features::with_log;
use crate::skel::clock::{ClockSkel, ClockSkelBuilder};
use libbpf_rs::ProgramInput;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};
use std::fmt;
use std::mem::MaybeUninit;

fn read_ns(clock: ClockId) -> i64 {
    // Both clocks exist on every Linux; a failure would mean a broken libc.
    clock_gettime(clock).map_or(0, |time| time.num_nanoseconds())
}

/// The process's own `CLOCK_MONOTONIC`, nanoseconds.
pub fn mono_ns() -> u64 {
    read_ns(ClockId::CLOCK_MONOTONIC) as u64
}

/// Wall time minus monotonic time, nanoseconds: exact to about a microsecond.
pub fn wall_offset_ns() -> i64 {
    // Of a few attempts, use the one with the shortest time between its two readings of the
    // monotonic clock.
    let tries = (0..5).map(|_| {
        let before = read_ns(ClockId::CLOCK_MONOTONIC);
        let wall = read_ns(ClockId::CLOCK_REALTIME);
        let after = read_ns(ClockId::CLOCK_MONOTONIC);
        (after - before, wall - (before + (after - before) / 2))
    });
    tries.min_by_key(|(width, _)| *width).map_or(0, |(_, offset)| offset)
}

/// The difference between the clock of the kernel's programs and the process's own. It never
/// changes: a process with threads cannot change its time namespace, and both clocks stop while the
/// machine is suspended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelClock {
    /// The kernel's clock minus ours, nanoseconds.
    ahead_ns: i64,
}

impl KernelClock {
    /// As outside time namespaces.
    #[cfg(test)]
    pub(crate) const SAME: KernelClock = KernelClock { ahead_ns: 0 };

    /// Measures the difference: a program in the kernel reads its clock between two readings of
    /// ours.
    ///
    /// # Errors
    /// If the kernel refuses to run a program, or the readings contradict each other.
    pub fn measure() -> Result<KernelClock, MonitorError> {
        const MAX_TRIES: usize = 20;
        let reader = Reader::load()?;
        let mut bounds = (i64::MIN, i64::MAX);
        for _ in 0..MAX_TRIES {
            let before = read_ns(ClockId::CLOCK_MONOTONIC);
            let (kernel_ns, _) = reader.read()?;
            let after = read_ns(ClockId::CLOCK_MONOTONIC);
            // The kernel's clock was read at some moment in between: each attempt bounds the
            // difference from both sides.
            let kernel_ns = kernel_ns as i64;
            bounds = (bounds.0.max(kernel_ns - after), bounds.1.min(kernel_ns - before));
        }
        KernelClock::within(bounds)
    }

    /// The clock whose difference lies within these bounds, inclusive.
    fn within((least, most): (i64, i64)) -> Result<KernelClock, MonitorError> {
        if least > most {
            return Err(MonitorError::Load(format!(
                "comparing the kernel's clock (bpf_ktime_get_ns) with CLOCK_MONOTONIC: their difference is not constant, \
                 at least {least} ns and at most {most} ns; without a constant difference the kernel's time stamps cannot be converted"
            )));
        }
        // Outside time namespaces the difference is exactly zero.
        let ahead_ns = if least <= 0 && most >= 0 { 0 } else { least + (most - least) / 2 };
        Ok(KernelClock { ahead_ns })
    }

    /// Converts a kernel timestamp to our time, nanoseconds.
    pub fn ours(self, kernel_ns: u64) -> u64 {
        kernel_ns.saturating_add_signed(self.ahead_ns.saturating_neg())
    }

    /// Converts our time to a kernel timestamp, nanoseconds; saturates.
    pub fn kernels(self, mono_ns: u64) -> u64 {
        if mono_ns == u64::MAX { u64::MAX } else { mono_ns.saturating_add_signed(self.ahead_ns) }
    }
}

impl fmt::Display for KernelClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.ahead_ns.unsigned_abs() as f64 / 1e9;
        match self.ahead_ns {
            0 => f.write_str("as CLOCK_MONOTONIC"),
            1.. => write!(f, "{seconds:.3} s ahead of CLOCK_MONOTONIC: a time namespace"),
            _ => write!(f, "{seconds:.3} s behind CLOCK_MONOTONIC: a time namespace"),
        }
    }
}

/// A program that reads the kernel's clocks.
pub(crate) struct Reader(ClockSkel<'static>);

impl Reader {
    pub(crate) fn load() -> Result<Reader, MonitorError> {
        // As in Monitor::start.
        let object = Box::leak(Box::new(MaybeUninit::uninit()));
        let open = with_log("opening the BPF object", || ClockSkelBuilder::default().open(object))?;
        with_log("loading the reader of the kernel's clocks", || open.load()).map(Reader)
    }

    /// The kernel's monotonic clock, nanoseconds, and its ticks (jiffies).
    pub(crate) fn read(&self) -> Result<(u64, u64), MonitorError> {
        // The packet for a test run of a socket filter: the kernel requires at least an Ethernet
        // header.
        const INPUT: [u8; 64] = [0; 64];
        with_log("reading the kernel's clocks", || {
            let input = ProgramInput { data_in: Some(&INPUT), ..ProgramInput::default() };
            self.0.progs.read_clocks.test_run(input).map(drop)
        })?;
        let state = self.0.maps.bss_data.as_deref();
        Ok(state.map_or((0, 0), |state| (state.clock_ns, state.clock_jiffies)))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn clocks_with_the_same_origin_have_no_difference() {
        match KernelClock::measure() {
            Ok(clock) if std::path::Path::new("/proc/self/ns/time").exists() => {
                // The tests may themselves run in a time namespace.
                let offsets = std::fs::read_to_string("/proc/self/timens_offsets").unwrap();
                let zero = offsets.lines().all(|line| line.split_whitespace().skip(1).all(|n| n == "0"));
                assert_eq!(clock.ahead_ns == 0, zero, "{clock:?}: {offsets}");
            }
            Ok(clock) => assert_eq!(clock.ahead_ns, 0),
            Err(MonitorError::NotPermitted(why)) => println!("skipped: {why}"),
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn a_difference_is_taken_from_what_bounds_it() {
        assert_eq!(KernelClock::within((-3, 5)).unwrap().ahead_ns, 0);
        assert_eq!(KernelClock::within((0, 9)).unwrap().ahead_ns, 0);
        assert_eq!(KernelClock::within((1000, 1010)).unwrap().ahead_ns, 1005);
        assert_eq!(KernelClock::within((-1010, -1000)).unwrap().ahead_ns, -1005);
        assert_eq!(KernelClock::SAME.to_string(), "as CLOCK_MONOTONIC");
        let behind = KernelClock { ahead_ns: -1_500_000_000 };
        assert_eq!(behind.to_string(), "1.500 s behind CLOCK_MONOTONIC: a time namespace");
        let error = KernelClock::within((7, 6)).unwrap_err().to_string();
        assert!(error.contains("at least 7 ns and at most 6 ns"), "{error}");
    }

    #[test]
    fn a_converted_time_converts_back() {
        for ahead_ns in [0, 1_000_000_000_000_000, -1_000_000_000_000_000] {
            let clock = KernelClock { ahead_ns };
            let ours = 2_000_000_000_000_000;
            assert_eq!(clock.ours(clock.kernels(ours)), ours);
            assert_eq!(clock.kernels(u64::MAX), u64::MAX);
        }
        // Kernel times before the start of our clock become its start.
        assert_eq!(KernelClock { ahead_ns: 10 }.ours(3), 0);
    }
}
