//! Whether the driver kept time: how much later than their nominal time packets were delivered.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How late the packets of a run were.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Lateness {
    /// Packets delivered.
    pub delivered: u64,
    /// Of these, later than [`Lateness::BOUND`].
    pub late: u64,
    /// The latest, nanoseconds.
    pub worst_ns: u64,
    /// Packets delivered within 2^k microseconds of their time, by k; the last holds all that were later.
    pub within_us: [u64; 24],
    /// Frames that a TAP device refused because the driver did not take them in time.
    pub refused: u64,
}

impl Lateness {
    /// A packet later than this counts as late. A millisecond is small beside the round-trip times that are studied
    /// here and more than a scheduler that has a core free needs.
    pub const BOUND: Duration = Duration::from_millis(1);
    /// A run of which more than this part was late is not valid.
    pub const MAX_LATE: f64 = 0.01;
    /// What to do about a run that was late, in real time.
    pub const IN_REAL_TIME: &str = "the host is too slow or too busy for this experiment in real time: run fewer jobs, leave it a core of its own, or use \
                                    virtual time";
    /// The same in virtual time, where the load of this host changes nothing.
    pub const IN_VIRTUAL_TIME: &str = "the guest's processor is too slow for this experiment: set processor_mips in the scenario to 2000 or 4000";

    /// Counts a packet.
    pub fn count(&mut self, late_ns: u64) {
        self.delivered += 1;
        self.late += u64::from(late_ns > Self::BOUND.as_nanos() as u64);
        self.worst_ns = self.worst_ns.max(late_ns);
        let class = (u64::BITS - (late_ns / 1000).leading_zeros()) as usize;
        self.within_us[class.min(self.within_us.len() - 1)] += 1;
    }

    /// The part of all packets that was late, 0 to 1.
    pub fn share(&self) -> f64 {
        if self.delivered == 0 { 0.0 } else { self.late as f64 / self.delivered as f64 }
    }

    /// Whether the run may be believed; else why not, and `advice`.
    ///
    /// # Errors
    /// The reason.
    pub fn verdict(&self, advice: &str) -> Result<(), String> {
        if self.refused > 0 {
            return Err(format!(
                "{} frames were lost because the driver did not take them in time; {advice}",
                self.refused
            ));
        }
        if self.share() > Self::MAX_LATE {
            return Err(format!(
                "{:.1} % of {} packets were more than {:?} late (worst {:.1} ms, allowed {:.0} %); {advice}",
                self.share() * 100.0,
                self.delivered,
                Self::BOUND,
                self.worst_ns as f64 / 1e6,
                Self::MAX_LATE * 100.0
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn one_in_a_hundred_may_be_late() {
        let mut lateness = Lateness::default();
        for _ in 0..99 {
            lateness.count(20_000);
        }
        lateness.count(1_500_000);
        assert_eq!((lateness.late, lateness.delivered, lateness.worst_ns), (1, 100, 1_500_000));
        assert_eq!(lateness.verdict(Lateness::IN_REAL_TIME), Ok(()));
        lateness.count(1_500_000);
        assert!(lateness.verdict(Lateness::IN_REAL_TIME).unwrap_err().contains("2.0 % of 101 packets"));
    }

    #[test]
    fn classes_are_powers_of_two_microseconds() {
        let mut lateness = Lateness::default();
        for late_ns in [0, 999, 1_000, 3_999, 4_000, u64::MAX] {
            lateness.count(late_ns);
        }
        assert_eq!(lateness.within_us[..4], [2, 1, 1, 1]);
        assert_eq!(lateness.within_us.last(), Some(&1));
    }
}
