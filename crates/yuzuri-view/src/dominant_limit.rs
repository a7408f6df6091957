//! The limit of a flow for most of the time: over an interval, which can be merged with others, and
//! over the last seconds.

use crate::limited::FlowLimits;
use serde::Serialize;
use std::collections::VecDeque;
use yuzuri_limits::{Limit, LimitInterval, LimitTimes};
use yuzuri_trace::Event;

/// What limited a flow for more than half of a time, if there is one such limit; otherwise one of
/// those that applied. This is Boyer and Moore's majority vote, weighted by time: it needs two
/// numbers, and two votes can be merged without the intervals from which they were made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DominantLimit {
    /// The limit.
    pub limit: Limit,
    /// By how much its time exceeds the time of other limits, microseconds; 0: nothing is known
    /// yet.
    pub lead_us: u32,
}

impl DominantLimit {
    /// Nothing is known yet.
    pub const NOTHING: DominantLimit = DominantLimit { limit: Limit::Unknown, lead_us: 0 };

    /// Adds time in which `limit` applied.
    pub fn add(&mut self, limit: Limit, time_us: u64) {
        let time_us = u32::try_from(time_us).unwrap_or(u32::MAX);
        if limit == self.limit {
            self.lead_us = self.lead_us.saturating_add(time_us);
        } else if time_us > self.lead_us {
            *self = DominantLimit { limit, lead_us: time_us - self.lead_us };
        } else {
            self.lead_us -= time_us;
        }
    }

    /// Merges another vote into this one.
    pub fn merge(&mut self, other: DominantLimit) {
        self.add(other.limit, other.lead_us.into());
    }

    /// The limit, if anything is known.
    pub fn known(self) -> Option<Limit> {
        (self.lead_us > 0).then_some(self.limit)
    }
}

impl Default for DominantLimit {
    fn default() -> DominantLimit {
        DominantLimit::NOTHING
    }
}

impl Serialize for DominantLimit {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.known().map(Limit::name).serialize(serializer)
    }
}

/// The information of a record about the time since the previous one: one interval or two.
#[derive(Debug, Clone, Copy)]
pub struct RecordLimits {
    intervals: [LimitInterval; 2],
    count: usize,
}

impl RecordLimits {
    /// Processes a record. If a flow only receives, all of its time is unknown: only the sender
    /// sees what limits a transfer.
    pub fn by(limits: &mut FlowLimits, event: &Event) -> RecordLimits {
        let nothing = LimitInterval { from_us: 0, to_us: 0, limit: Limit::Unknown };
        let mut known = RecordLimits { intervals: [nothing; 2], count: 0 };
        limits.add(event, |interval| {
            if let Some(place) = known.intervals.get_mut(known.count) {
                *place = interval;
                known.count += 1;
            }
        });
        if !limits.sends() {
            known.intervals.iter_mut().for_each(|interval| interval.limit = Limit::Unknown);
        }
        known
    }
}

impl std::ops::Deref for RecordLimits {
    type Target = [LimitInterval];

    fn deref(&self) -> &[LimitInterval] {
        &self.intervals[..self.count]
    }
}

/// A limit in six characters at most, where there is no room for its name.
pub fn short(limit: Limit) -> &'static str {
    match limit {
        Limit::Application => "app",
        Limit::SendBuffer => "sndbuf",
        Limit::ReceiverWindow => "rwnd",
        Limit::SlowReader => "reader",
        Limit::Receiver => "rcvr",
        Limit::SlowStart => "start",
        Limit::CongestionAvoidance => "cwnd",
        Limit::Loss => "loss",
        Limit::Sharing => "share",
        Limit::Recovery => "recov",
        Limit::Timeout => "rto",
        Limit::Pacing => "pacing",
        Limit::OwnDevice => "device",
        Limit::SenderRate => "sender",
        Limit::Path => "path",
        Limit::Unknown => "?",
    }
}

const SLOT_US: u64 = 500_000;
/// The number of slots looked back over: two seconds.
const SLOTS: u64 = 4;

/// The time of each limit within the last two seconds.
#[derive(Debug, Clone, Default)]
pub(crate) struct LimitMeter {
    /// (number, times), oldest first.
    slots: VecDeque<(u64, LimitTimes)>,
}

impl LimitMeter {
    /// Adds an interval to the slots in which it lies. Slots that are too old are ignored.
    pub(crate) fn add(&mut self, known: LimitInterval) {
        let newest = known.to_us.saturating_sub(1) / SLOT_US;
        for slot in (known.from_us / SLOT_US).max(newest.saturating_sub(SLOTS))..=newest {
            let from_us = known.from_us.max(slot * SLOT_US);
            let time_us = known.to_us.min((slot + 1) * SLOT_US).saturating_sub(from_us);
            match self.slots.back_mut() {
                Some((last, times)) if *last >= slot => times.add(known.limit, time_us),
                _ => {
                    let mut times = LimitTimes::default();
                    times.add(known.limit, time_us);
                    self.slots.push_back((slot, times));
                }
            }
        }
        while self.slots.len() as u64 > SLOTS + 1 {
            self.slots.pop_front();
        }
    }

    /// The limit that applied longest within the known part of the last two seconds, and its share
    /// of that part.
    pub(crate) fn most(&self, now_us: u64) -> Option<(Limit, f64)> {
        let oldest = (now_us / SLOT_US).saturating_sub(SLOTS);
        let mut times = LimitTimes::default();
        self.slots.iter().filter(|(slot, _)| *slot >= oldest).for_each(|(_, slot)| times.merge(slot));
        times.ranked().first().copied()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn limits() -> impl Strategy<Value = Vec<(usize, u32)>> {
        prop::collection::vec((0..4usize, 0..10_000u32), 1..100)
    }

    proptest! {
        #[test]
        fn the_limit_of_more_than_half_wins_in_any_merge_order(parts in limits(), cut in 0..100usize) {
            let mut times = LimitTimes::default();
            let (mut whole, mut first, mut second) = (DominantLimit::NOTHING, DominantLimit::NOTHING, DominantLimit::NOTHING);
            for (n, (limit, us)) in parts.iter().enumerate() {
                let limit = Limit::ALL[*limit];
                times.add(limit, u64::from(*us));
                whole.add(limit, u64::from(*us));
                if n < cut { first.add(limit, u64::from(*us)) } else { second.add(limit, u64::from(*us)) }
            }
            first.merge(second);
            if let Some((limit, share)) = times.ranked().first() && *share > 0.5 {
                prop_assert_eq!(whole.known(), Some(*limit));
                prop_assert_eq!(first.known(), Some(*limit));
            }
        }
    }

    #[test]
    fn short_names_are_short_and_differ() {
        let mut names: Vec<_> = Limit::ALL.into_iter().map(short).collect();
        assert!(names.iter().all(|name| name.len() <= 6));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Limit::ALL.len());
    }

    #[test]
    fn the_meter_counts_a_long_interval_only_within_its_window() {
        let mut meter = LimitMeter::default();
        let at = |from_us, to_us, limit| LimitInterval { from_us, to_us, limit };
        assert_eq!(meter.most(0), None);
        meter.add(at(0, 60_000_000, Limit::Application));
        meter.add(at(60_000_000, 60_400_000, Limit::Path));
        let (limit, share) = meter.most(60_400_000).unwrap();
        assert_eq!(limit, Limit::Application);
        assert!(share < 0.9, "{share}");
        meter.add(at(60_400_000, 63_000_000, Limit::Path));
        assert_eq!(meter.most(63_000_000), Some((Limit::Path, 1.0)));
        // What has limited it since is unknown.
        assert_eq!(meter.most(66_000_000), None);
        assert!(meter.slots.len() as u64 <= SLOTS + 1);
    }
}
