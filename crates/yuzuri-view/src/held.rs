//! Which limit held a flow: over a stretch of time that can be joined with others, and over the last seconds.

use crate::limited::FlowLimits;
use serde::Serialize;
use std::collections::VecDeque;
use yuzuri_limits::{Limit, LimitTimes, Stretch};
use yuzuri_trace::Event;

/// The limit that held a flow for more than half of a time, if one did; otherwise one of those that held it. It is the
/// majority vote of Boyer and Moore, weighted by time: two numbers, and two of them can be joined without what they were
/// made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// Which one.
    pub limit: Limit,
    /// By how much its time exceeds what spoke against it, microseconds; 0: nothing is told yet.
    pub lead_us: u32,
}

impl Held {
    /// Nothing is told yet.
    pub const NOTHING: Held = Held { limit: Limit::Unknown, lead_us: 0 };

    /// Adds time in which `limit` held the flow.
    pub fn add(&mut self, limit: Limit, time_us: u64) {
        let time_us = u32::try_from(time_us).unwrap_or(u32::MAX);
        if limit == self.limit {
            self.lead_us = self.lead_us.saturating_add(time_us);
        } else if time_us > self.lead_us {
            *self = Held { limit, lead_us: time_us - self.lead_us };
        } else {
            self.lead_us -= time_us;
        }
    }

    /// Joins another one's time to this one's.
    pub fn merge(&mut self, other: Held) {
        self.add(other.limit, other.lead_us.into());
    }

    /// The limit, where anything is told.
    pub fn told(self) -> Option<Limit> {
        (self.lead_us > 0).then_some(self.limit)
    }
}

impl Default for Held {
    fn default() -> Held {
        Held::NOTHING
    }
}

impl Serialize for Held {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.told().map(Limit::name).serialize(serializer)
    }
}

/// What a record tells of the time since the one before: one stretch or two.
#[derive(Debug, Clone, Copy)]
pub struct RecordLimits {
    stretches: [Stretch; 2],
    count: usize,
}

impl RecordLimits {
    /// Takes a record in. Of a flow that only receives all time is unknown: what limits the transfer is seen at its sender.
    pub fn by(limits: &mut FlowLimits, event: &Event) -> RecordLimits {
        let nothing = Stretch { from_us: 0, to_us: 0, limit: Limit::Unknown };
        let mut told = RecordLimits { stretches: [nothing; 2], count: 0 };
        limits.add(event, |stretch| {
            if let Some(place) = told.stretches.get_mut(told.count) {
                *place = stretch;
                told.count += 1;
            }
        });
        if !limits.sends() {
            told.stretches.iter_mut().for_each(|stretch| stretch.limit = Limit::Unknown);
        }
        told
    }
}

impl std::ops::Deref for RecordLimits {
    type Target = [Stretch];

    fn deref(&self) -> &[Stretch] {
        &self.stretches[..self.count]
    }
}

/// A limit in six characters at most, for where there is no room for its name.
pub fn short(limit: Limit) -> &'static str {
    match limit {
        Limit::Application => "app",
        Limit::SendBuffer => "sndbuf",
        Limit::ReceiverWindow => "rwnd",
        Limit::SlowReader => "reader",
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
/// The time that is looked back over.
const SLOTS: u64 = 4;

/// The time of each limit within the last two seconds.
#[derive(Debug, Clone, Default)]
pub(crate) struct LimitMeter {
    /// (number, times), oldest first.
    slots: VecDeque<(u64, LimitTimes)>,
}

impl LimitMeter {
    /// Adds a stretch. It belongs to the slots in which it lies; what lies further back is over.
    pub(crate) fn add(&mut self, told: Stretch) {
        let newest = told.to_us.saturating_sub(1) / SLOT_US;
        for slot in (told.from_us / SLOT_US).max(newest.saturating_sub(SLOTS))..=newest {
            let from_us = told.from_us.max(slot * SLOT_US);
            let time_us = told.to_us.min((slot + 1) * SLOT_US).saturating_sub(from_us);
            match self.slots.back_mut() {
                Some((last, times)) if *last >= slot => times.add(told.limit, time_us),
                _ => {
                    let mut times = LimitTimes::default();
                    times.add(told.limit, time_us);
                    self.slots.push_back((slot, times));
                }
            }
        }
        while self.slots.len() as u64 > SLOTS + 1 {
            self.slots.pop_front();
        }
    }

    /// The limit that held the flow for most of the time that is told of the last two seconds, and its part of it.
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
        fn what_held_for_more_than_half_wins_however_it_is_joined(parts in limits(), cut in 0..100usize) {
            let mut times = LimitTimes::default();
            let (mut whole, mut first, mut second) = (Held::NOTHING, Held::NOTHING, Held::NOTHING);
            for (n, (limit, us)) in parts.iter().enumerate() {
                let limit = Limit::ALL[*limit];
                times.add(limit, u64::from(*us));
                whole.add(limit, u64::from(*us));
                if n < cut { first.add(limit, u64::from(*us)) } else { second.add(limit, u64::from(*us)) }
            }
            first.merge(second);
            if let Some((limit, share)) = times.ranked().first() && *share > 0.5 {
                prop_assert_eq!(whole.told(), Some(*limit));
                prop_assert_eq!(first.told(), Some(*limit));
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
    fn the_meter_forgets_and_counts_a_long_stretch_only_as_far_as_it_reaches_back() {
        let mut meter = LimitMeter::default();
        let at = |from_us, to_us, limit| Stretch { from_us, to_us, limit };
        assert_eq!(meter.most(0), None);
        meter.add(at(0, 60_000_000, Limit::Application));
        meter.add(at(60_000_000, 60_400_000, Limit::Path));
        let (limit, share) = meter.most(60_400_000).unwrap();
        assert_eq!(limit, Limit::Application);
        assert!(share < 0.9, "{share}");
        meter.add(at(60_400_000, 63_000_000, Limit::Path));
        assert_eq!(meter.most(63_000_000), Some((Limit::Path, 1.0)));
        // Nobody knows what held it since.
        assert_eq!(meter.most(66_000_000), None);
        assert!(meter.slots.len() as u64 <= SLOTS + 1);
    }
}
