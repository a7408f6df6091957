//! The share of a sender's time that each limit took.

use crate::Limit;

/// The time of each limit, microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitTimes {
    time_us: [u64; Limit::ALL.len()],
}

impl LimitTimes {
    /// Adds an interval of `time_us` microseconds in which `limit` limited the sender.
    pub fn add(&mut self, limit: Limit, time_us: u64) {
        let sum = &mut self.time_us[limit as usize];
        *sum = sum.saturating_add(time_us);
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        Limit::ALL.iter().for_each(|&limit| self.add(limit, other.time_us(limit)));
    }

    /// Microseconds in which `limit` limited the sender.
    pub fn time_us(&self, limit: Limit) -> u64 {
        self.time_us[limit as usize]
    }

    /// The total time, microseconds.
    pub fn total_us(&self) -> u64 {
        self.time_us.iter().fold(0, |sum, time| sum.saturating_add(*time))
    }

    /// The share of the time in which `limit` limited the sender, 0 to 1; 0 if there is no time.
    pub fn share(&self, limit: Limit) -> f64 {
        match self.total_us() {
            0 => 0.0,
            total => self.time_us(limit) as f64 / total as f64,
        }
    }

    /// The limits that took time, those with the most first.
    pub fn ranked(&self) -> Vec<(Limit, f64)> {
        let mut ranked: Vec<_> = Limit::ALL
            .into_iter()
            .filter(|&limit| self.time_us(limit) > 0)
            .map(|limit| (limit, self.share(limit)))
            .collect();
        ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
        ranked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_sum_to_one_and_are_ranked() {
        let mut times = LimitTimes::default();
        assert_eq!(times.share(Limit::Pacing), 0.0);
        assert_eq!(times.ranked(), []);
        times.add(Limit::Pacing, 1_000);
        times.add(Limit::Recovery, 3_000);
        let mut both = times;
        both.merge(&times);
        assert_eq!(both.total_us(), 8_000);
        assert_eq!(both.ranked(), [(Limit::Recovery, 0.75), (Limit::Pacing, 0.25)]);
        assert_eq!(Limit::ALL.iter().map(|&limit| both.share(limit)).sum::<f64>(), 1.0);
    }
}
