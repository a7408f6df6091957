//! Trickle timers (RFC 6206): messages follow soon after a change, are rare in steady state, and
//! are suppressed if others sent the same.

use super::config::{TRICKLE_MAX, TRICKLE_MIN, TRICKLE_REDUNDANCY};
use crate::Moment;
use rand_core::Rng;
use std::time::Duration;

#[derive(Debug, Clone)]
pub(super) struct Trickle {
    interval: Duration,
    begins: Moment,
    /// When to send in this interval; `None`: already decided for this interval.
    send_at: Option<Moment>,
    heard: u32,
}

/// A uniformly distributed duration up to `most`.
pub(super) fn up_to(random: &mut impl Rng, most: Duration) -> Duration {
    let nanos = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
    Duration::from_nanos(((u128::from(random.next_u64()) * (u128::from(nanos) + 1)) >> 64) as u64)
}

impl Trickle {
    pub fn new(random: &mut impl Rng, now: Moment) -> Trickle {
        let mut trickle = Trickle { interval: TRICKLE_MIN, begins: now, send_at: None, heard: 0 };
        trickle.begin(random, now, TRICKLE_MIN);
        trickle
    }

    fn begin(&mut self, random: &mut impl Rng, now: Moment, interval: Duration) {
        self.interval = interval;
        self.begins = now;
        self.heard = 0;
        self.send_at = Some(now + interval / 2 + up_to(random, interval / 2));
    }

    /// Restarts with the shortest interval, after a change.
    pub fn reset(&mut self, random: &mut impl Rng, now: Moment) {
        self.begin(random, now, TRICKLE_MIN);
    }

    /// The same, sending within `soon`.
    pub fn reset_soon(&mut self, random: &mut impl Rng, now: Moment, soon: Duration) {
        self.begin(random, now, TRICKLE_MIN);
        self.send_at = Some(now + up_to(random, soon));
    }

    /// Restarts with the longest interval, if nothing is to be sent for a while.
    pub fn rest(&mut self, random: &mut impl Rng, now: Moment) {
        self.begin(random, now, TRICKLE_MAX);
    }

    /// Counts a consistent message of another member.
    pub fn hear(&mut self) {
        self.heard = self.heard.saturating_add(1);
    }

    /// When to poll next.
    pub fn next(&self) -> Moment {
        self.send_at.unwrap_or(self.begins + self.interval)
    }

    /// Whether to send now. Whole intervals without a poll (suspend) are skipped.
    pub fn poll(&mut self, random: &mut impl Rng, now: Moment) -> bool {
        let is_due = self.send_at.is_some_and(|at| at <= now);
        if is_due {
            self.send_at = None;
        }
        let sends = is_due && self.heard < TRICKLE_REDUNDANCY;
        if self.begins + self.interval <= now {
            let behind = now.since(self.begins + self.interval);
            let begins = if behind < self.interval { self.begins + self.interval } else { now };
            self.begin(random, begins, (self.interval * 2).min(TRICKLE_MAX));
        }
        sends
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_core::SeedableRng;
    use rand_pcg::Pcg32;

    /// The times at which it sends until `end`, if `heard` others send before it in each interval.
    fn send_times(trickle: &mut Trickle, random: &mut Pcg32, end: Duration, heard: u32) -> Vec<Duration> {
        let mut times = Vec::new();
        while trickle.next() <= Moment::at(end) {
            let now = trickle.next();
            if trickle.send_at.is_some() {
                (0..heard).for_each(|_| trickle.hear());
            }
            if trickle.poll(random, now) {
                times.push(now.since_beginning());
            }
        }
        times
    }

    #[test]
    fn one_message_in_the_second_half_of_each_doubling_interval() {
        let mut random = Pcg32::from_seed([3; 16]);
        let mut trickle = Trickle::new(&mut random, Moment::default());
        let times = send_times(&mut trickle, &mut random, Duration::from_millis(39_500), 0);
        // 0.5, 1, 2, 4, 8, 8, 8, 8 s.
        let mut begins = Duration::ZERO;
        assert_eq!(times.len(), 8);
        for (time, seconds) in times.iter().zip([0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0, 8.0]) {
            let interval = Duration::from_secs_f64(seconds);
            assert!(*time >= begins + interval / 2 && *time <= begins + interval, "{times:?}");
            begins += interval;
        }
    }

    #[test]
    fn suppressed_after_three_messages_and_fast_after_a_change() {
        let mut random = Pcg32::from_seed([3; 16]);
        let mut trickle = Trickle::new(&mut random, Moment::default());
        assert_eq!(send_times(&mut trickle, &mut random, Duration::from_secs(40), 3), []);
        assert!(!send_times(&mut trickle, &mut random, Duration::from_secs(80), 2).is_empty());
        let now = Moment::at(Duration::from_secs(81));
        trickle.reset(&mut random, now);
        assert!(trickle.next() >= now + TRICKLE_MIN / 2 && trickle.next() <= now + TRICKLE_MIN);
        trickle.reset_soon(&mut random, now, Duration::from_millis(100));
        assert!(trickle.next() <= now + Duration::from_millis(100));
    }

    #[test]
    fn a_suspend_counts_as_one_interval() {
        let mut random = Pcg32::from_seed([3; 16]);
        let mut trickle = Trickle::new(&mut random, Moment::default());
        let morning = Moment::at(Duration::from_secs(8 * 3600));
        assert!(trickle.poll(&mut random, morning));
        assert!(!trickle.poll(&mut random, morning));
        assert!(trickle.next() > morning);
    }
}
