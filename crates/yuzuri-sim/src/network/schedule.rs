//! The event queue for everything except cell and wire.

use crate::segment::Segment;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use yuzuri_netmodel::Time;

/// An event.
#[derive(Clone, Debug)]
pub(super) enum Event {
    Sender(u32),
    Receiver(u32),
    Workload(u32),
    /// A segment delayed by the server's extra distance.
    Delayed(Box<Segment>),
    Steer,
    /// Index into [`Scenario::changes`](crate::Scenario::changes).
    Change(u32),
    Sample,
    Trace,
    WarmUp,
    Watch,
}

struct Entry {
    at: Time,
    /// Insertion order breaks ties, so that a seed always gives the same result.
    order: u64,
    event: Event,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}
impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Entry {
    fn cmp(&self, other: &Entry) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

#[derive(Default)]
pub(super) struct Schedule {
    heap: BinaryHeap<Reverse<Entry>>,
    order: u64,
}

impl Schedule {
    pub(super) fn add(&mut self, at: Time, event: Event) {
        self.order += 1;
        self.heap.push(Reverse(Entry { at, order: self.order, event }));
    }

    pub(super) fn delay(&mut self, at: Time, segment: Segment) {
        self.add(at, Event::Delayed(Box::new(segment)));
    }

    pub(super) fn next(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse(entry)| entry.at)
    }

    pub(super) fn pop_due(&mut self, now: Time) -> Option<Event> {
        if self.next()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse(entry)| entry.event)
    }
}
