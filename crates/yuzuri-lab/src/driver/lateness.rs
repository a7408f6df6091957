//! Measures whether the driver keeps up: how much later than their nominal time packets are
//! delivered.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The lateness of a run's packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Lateness {
    /// Packets delivered.
    pub delivered: u64,
    /// Of these, packets later than [`Lateness::BOUND`].
    pub late: u64,
    /// Maximum lateness, nanoseconds.
    pub worst_ns: u64,
    /// Histogram: index k counts packets delivered within 2^k microseconds of their time; the last
    /// element counts all later ones.
    pub within_us: [u64; 24],
    /// Frames that a TAP device dropped because the driver did not read them in time, or did not
    /// accept from the driver.
    pub refused: u64,
}

impl Lateness {
    /// A packet later than this counts as late. 1 ms is small compared with the round-trip times
    /// under study, and more than a scheduler with a free core needs.
    pub const BOUND: Duration = Duration::from_millis(1);
    /// A run with a larger fraction of late packets is not valid.
    pub const MAX_LATE: f64 = 0.01;
    /// Advice for a late run in real time.
    pub const IN_REAL_TIME: &str = "the host is too slow or too busy for this experiment in real time: run fewer jobs, leave it a core of its own, or use \
                                    virtual time";
    /// Advice for a late run in virtual time, which does not depend on the host's load.
    pub const IN_VIRTUAL_TIME: &str = "the guest's processor is too slow for this experiment: set processor_mips in the scenario to 2000 or 4000";

    /// Counts a packet.
    pub fn count(&mut self, late_ns: u64) {
        self.delivered += 1;
        self.late += u64::from(late_ns > Self::BOUND.as_nanos() as u64);
        self.worst_ns = self.worst_ns.max(late_ns);
        let class = (u64::BITS - (late_ns / 1000).leading_zeros()) as usize;
        self.within_us[class.min(self.within_us.len() - 1)] += 1;
    }

    /// The fraction of late packets, 0 to 1.
    pub fn share(&self) -> f64 {
        if self.delivered == 0 { 0.0 } else { self.late as f64 / self.delivered as f64 }
    }

    /// Why the run is not valid, with `advice`; `None` if it is.
    pub fn invalid_because(&self, advice: &str) -> Option<String> {
        if self.refused > 0 {
            return Some(format!(
                "{} frames were dropped at the TAP devices, because the driver or a host did not take them in time; {advice}",
                self.refused
            ));
        }
        if self.share() > Self::MAX_LATE {
            return Some(format!(
                "{:.1} % of {} packets were more than {:?} late (worst {:.1} ms, allowed {:.0} %); {advice}",
                self.share() * 100.0,
                self.delivered,
                Self::BOUND,
                self.worst_ns as f64 / 1e6,
                Self::MAX_LATE * 100.0
            ));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn one_packet_in_a_hundred_may_be_late() {
        let mut lateness = Lateness::default();
        for _ in 0..99 {
            lateness.count(20_000);
        }
        lateness.count(1_500_000);
        assert_eq!((lateness.late, lateness.delivered, lateness.worst_ns), (1, 100, 1_500_000));
        assert_eq!(lateness.invalid_because(Lateness::IN_REAL_TIME), None);
        lateness.count(1_500_000);
        let why = lateness.invalid_because(Lateness::IN_REAL_TIME).unwrap();
        assert!(why.contains("2.0 % of 101 packets"), "{why}");
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
