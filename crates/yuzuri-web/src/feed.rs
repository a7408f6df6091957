//! The fine-grained history of subscribed flows.

use std::collections::HashMap;
use yuzuri_trace::{Event, FlowId, Item};
use yuzuri_view::limited::FlowLimits;
use yuzuri_view::{Bucket, Level, RecordLimits, ShownBound};

/// Width of the finest buckets, nanoseconds: about a pixel of a four-second window.
pub(crate) const FINE_NS: u64 = 4_000_000;
/// Fine buckets kept per flow until they are sent: 16 s, or a tenth of a second of a replay at 160
/// times real time.
const MAX_FINE: usize = 4096;
/// Maximum number of buckets of a flow in one message; more (a fast replay) are merged.
const MAX_MESSAGE_BUCKETS: usize = 256;

/// A subscribed flow.
#[derive(Debug)]
struct SubscribedFlow {
    users: u32,
    level: Level,
    /// The flow's limits: the model's state at the subscription, updated since.
    limits: FlowLimits,
    bound: ShownBound,
}

/// Fine buckets of subscribed flows.
#[derive(Debug, Default)]
pub(crate) struct Feed {
    flows: HashMap<FlowId, SubscribedFlow>,
}

impl Feed {
    pub(crate) fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// Forgets all history.
    pub(crate) fn clear(&mut self) {
        for subscribed in self.flows.values_mut() {
            subscribed.level = Level::new(FINE_NS, MAX_FINE);
            subscribed.limits = FlowLimits::default();
            subscribed.bound = ShownBound::default();
        }
    }

    /// Adds flows; `known` returns the model's knowledge of a flow's limits. Records that it
    /// already includes add nothing new.
    pub(crate) fn subscribe(&mut self, flows: &[FlowId], known: impl Fn(FlowId) -> FlowLimits) {
        for flow in flows {
            let new = || SubscribedFlow {
                users: 0,
                level: Level::new(FINE_NS, MAX_FINE),
                limits: known(*flow),
                bound: ShownBound::default(),
            };
            self.flows.entry(*flow).or_insert_with(new).users += 1;
        }
    }

    pub(crate) fn unsubscribe(&mut self, flows: &[FlowId]) {
        for flow in flows {
            if let Some(subscribed) = self.flows.get_mut(flow) {
                subscribed.users -= 1;
                if subscribed.users == 0 {
                    self.flows.remove(flow);
                }
            }
        }
    }

    pub(crate) fn push(&mut self, items: &[Item]) {
        for item in items {
            // The time of an unobserved close is unknown, so there is nothing to draw.
            if let Item::Event(event) = item
                && event.has_snapshot()
            {
                self.push_event(event);
            }
        }
    }

    fn push_event(&mut self, event: &Event) {
        if let Some(subscribed) = self.flows.get_mut(&event.flow) {
            let by_record = RecordLimits::by(&mut subscribed.limits, event);
            subscribed.level.push(event, &by_record, subscribed.bound.segments(event));
        }
    }

    /// Removes and returns, for each flow that has some, the buckets that ended before `now_ns`,
    /// and whether older ones were dropped because there were too many.
    pub(crate) fn take_finished(&mut self, now_ns: u64) -> Vec<(FlowId, Vec<Bucket>, bool)> {
        let taken = self.flows.iter_mut().map(|(id, SubscribedFlow { level, .. })| {
            let buckets = level.take_finished(now_ns);
            let overflown = buckets.len() + level.buckets().len() >= MAX_FINE;
            (*id, merged(buckets), overflown)
        });
        taken.filter(|(_, buckets, _)| !buckets.is_empty()).collect()
    }
}

fn merged(buckets: Vec<Bucket>) -> Vec<Bucket> {
    if buckets.len() <= MAX_MESSAGE_BUCKETS {
        return buckets;
    }
    let group = buckets.len().div_ceil(MAX_MESSAGE_BUCKETS);
    let joined = buckets.chunks(group).map(|chunk| {
        let mut first = chunk[0];
        for later in &chunk[1..] {
            first.merge(later);
        }
        first
    });
    joined.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(flow: u64, ms: u64) -> Item {
        Item::Event(Event { flow: FlowId(flow), mono_ns: ms * 1_000_000, ..Event::default() })
    }

    #[test]
    fn only_subscribed_flows_are_held_and_each_bucket_is_passed_on_once() {
        let mut feed = Feed::default();
        feed.subscribe(&[FlowId(1)], |_| FlowLimits::default());
        feed.subscribe(&[FlowId(1)], |_| FlowLimits::default());
        feed.push(&[sample(1, 0), sample(2, 0), sample(1, 5)]);
        let taken = feed.take_finished(6_000_000);
        assert_eq!(taken.iter().map(|(id, b, _)| (id.0, b.len())).collect::<Vec<_>>(), [(1, 1)]);
        feed.unsubscribe(&[FlowId(1)]);
        assert_eq!(feed.take_finished(8_000_000).len(), 1);
        feed.unsubscribe(&[FlowId(1)]);
        assert!(feed.is_empty());
    }

    #[test]
    fn a_fast_replay_is_merged_without_losing_counts() {
        let mut feed = Feed::default();
        feed.subscribe(&[FlowId(1)], |_| FlowLimits::default());
        let items: Vec<Item> = (0..10_000).map(|ms| sample(1, ms)).collect();
        feed.push(&items);
        let taken = feed.take_finished(10_000_000_000);
        assert!(taken[0].1.len() <= MAX_MESSAGE_BUCKETS);
        assert_eq!(taken[0].1.iter().map(|b| b.events).sum::<u32>(), 10_000);
        assert!(!taken[0].2);
        let items: Vec<Item> = (10_000..40_000).map(|ms| sample(1, ms)).collect();
        feed.push(&items);
        assert!(feed.take_finished(50_000_000_000)[0].2, "30 s at once are more than is kept");
    }
}
