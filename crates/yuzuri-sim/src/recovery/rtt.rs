//! RTT estimation and the retransmission timeout (RFC 6298), with Linux's arithmetic
//! (`tcp_rtt_estimator`) or the RFC's.

use serde::{Deserialize, Serialize};

/// How the RTO is computed from RTT samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeoutRule {
    /// At least 200 ms above the smoothed RTT; a decreasing RTT raises the RTO only slowly
    /// (`tcp_rtt_estimator`).
    #[default]
    Linux,
    /// The smoothed RTT plus four times its variation (RFC 6298, section 2.3).
    Rfc6298 {
        /// Minimum RTO, ms (RFC 6298, section 2.4: 1000).
        min_ms: u64,
    },
}

/// Minimum of the variance term, µs (`TCP_RTO_MIN`): the RTO exceeds the smoothed RTT by at least
/// this.
const RTO_MIN_US: u64 = 200_000;
/// Maximum RTO, µs (`TCP_RTO_MAX`).
const RTO_MAX_US: u64 = 120_000_000;
/// Clock granularity in [`TimeoutRule::Rfc6298`], µs.
const CLOCK_GRANULARITY_US: u64 = 1000;
/// RTO before the first sample, µs (`TCP_TIMEOUT_INIT`).
const RTO_INITIAL_US: u64 = 1_000_000;

/// Estimates in µs. As in the kernel, `srtt` is scaled by 8 and `mdev` by 4.
#[derive(Clone, Debug)]
pub(crate) struct RttEstimator {
    rule: TimeoutRule,
    srtt_eighths: u64,
    mdev_quarters: u64,
    mdev_max: u64,
    rttvar: u64,
    /// The variance may decrease once per round trip: when this segment is acknowledged.
    rtt_seq: u32,
    rto: u64,
}

impl RttEstimator {
    pub(crate) fn new(rule: TimeoutRule) -> RttEstimator {
        RttEstimator {
            rule,
            srtt_eighths: 0,
            mdev_quarters: 0,
            mdev_max: 0,
            rttvar: 0,
            rtt_seq: 0,
            rto: RTO_INITIAL_US,
        }
    }

    pub(crate) fn srtt_us(&self) -> u64 {
        self.srtt_eighths >> 3
    }

    pub(crate) fn rttvar_us(&self) -> u64 {
        self.mdev_quarters >> 2
    }

    pub(crate) fn rto_us(&self) -> u64 {
        self.rto
    }

    pub(crate) fn min_rto_us() -> u64 {
        RTO_MIN_US
    }

    /// Doubles the RTO after it expired.
    pub(crate) fn back_off(&mut self) {
        self.rto = (self.rto * 2).min(RTO_MAX_US);
    }

    /// Takes an RTT sample and resets the backoff.
    pub(crate) fn sample(&mut self, rtt_us: u64, snd_una: u32, snd_nxt: u32) {
        let rtt = rtt_us.max(1);
        match self.rule {
            TimeoutRule::Linux => self.sample_linux(rtt, snd_una, snd_nxt),
            TimeoutRule::Rfc6298 { min_ms } => self.sample_rfc6298(rtt, min_ms * 1000),
        }
    }

    fn sample_rfc6298(&mut self, rtt: u64, min_us: u64) {
        if self.srtt_eighths == 0 {
            self.srtt_eighths = rtt << 3;
            self.mdev_quarters = rtt << 1;
        } else {
            let error = rtt as i64 - (self.srtt_eighths >> 3) as i64;
            let mdev = self.mdev_quarters as i64;
            self.srtt_eighths = (self.srtt_eighths as i64 + error).max(1) as u64;
            self.mdev_quarters = (mdev + error.abs() - (mdev >> 2)).max(0) as u64;
        }
        let variance_term = self.mdev_quarters.max(CLOCK_GRANULARITY_US);
        self.rto = ((self.srtt_eighths >> 3) + variance_term).clamp(min_us, RTO_MAX_US);
    }

    fn sample_linux(&mut self, rtt: u64, snd_una: u32, snd_nxt: u32) {
        if self.srtt_eighths == 0 {
            self.srtt_eighths = rtt << 3;
            self.mdev_quarters = rtt << 1;
            self.rttvar = self.mdev_quarters.max(RTO_MIN_US);
            self.mdev_max = self.rttvar;
            self.rtt_seq = snd_nxt;
        } else {
            let error = rtt as i64 - (self.srtt_eighths >> 3) as i64;
            self.srtt_eighths = (self.srtt_eighths as i64 + error).max(1) as u64;
            let mdev = self.mdev_quarters as i64;
            let mut change = error.abs() - (mdev >> 2);
            if error < 0 && change > 0 {
                // A decreasing RTT raises the variance more slowly (see the Eifel comment in
                // tcp_rtt_estimator).
                change >>= 3;
            }
            self.mdev_quarters = (mdev + change).max(0) as u64;
            if self.mdev_quarters > self.mdev_max {
                self.mdev_max = self.mdev_quarters;
                self.rttvar = self.rttvar.max(self.mdev_max);
            }
            if snd_una > self.rtt_seq {
                if self.mdev_max < self.rttvar {
                    self.rttvar -= (self.rttvar - self.mdev_max) >> 2;
                }
                self.rtt_seq = snd_nxt;
                self.mdev_max = RTO_MIN_US;
            }
        }
        self.rto = ((self.srtt_eighths >> 3) + self.rttvar).min(RTO_MAX_US);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_linux_rto_is_200_ms_above_the_srtt_of_a_steady_path() {
        let mut rtt = RttEstimator::new(TimeoutRule::Linux);
        assert_eq!(rtt.rto_us(), 1_000_000);
        for n in 0..400 {
            rtt.sample(50_000, n, n + 10);
        }
        assert_eq!((rtt.srtt_us(), rtt.rto_us()), (50_000, 250_000));
        rtt.back_off();
        assert_eq!(rtt.rto_us(), 500_000);
        rtt.sample(50_000, 401, 411);
        assert_eq!(rtt.rto_us(), 250_000);
    }

    #[test]
    fn the_rfc_6298_rto_is_the_srtt_of_a_steady_path_but_at_least_the_minimum() {
        let mut rtt = RttEstimator::new(TimeoutRule::Rfc6298 { min_ms: 100 });
        rtt.sample(400_000, 0, 1);
        assert_eq!(rtt.rto_us(), 400_000 + 4 * 200_000);
        for n in 1..400 {
            rtt.sample(400_000, n, n + 1);
        }
        assert_eq!(rtt.rto_us(), 401_000);
        for n in 400..800 {
            rtt.sample(20_000, n, n + 1);
        }
        assert_eq!(rtt.rto_us(), 100_000);
    }
}
