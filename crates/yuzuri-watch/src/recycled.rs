//! Reuses the memory of batches that every sink has read. Memory of this size that is freed goes
//! back to the system (the command's `memory.rs` explains why), and new memory costs a page fault
//! and the clearing of a page for each 14 records.

use std::collections::VecDeque;
use std::sync::Arc;
use yuzuri_trace::{Batch, Item};

/// The batches given to the sinks, oldest first.
#[derive(Default)]
pub(crate) struct RecycledBatches {
    given: VecDeque<Batch>,
}

/// Maximum number of batches remembered. If more are waiting, a sink is slow for other reasons than
/// memory.
const MAX_GIVEN: usize = 8;
/// A buffer that has more than this many times the room of the last batch is freed: bursts are
/// rare.
const MAX_ROOM: usize = 4;

impl RecycledBatches {
    /// Passes `items` on as a batch, and leaves an empty vector in its place.
    pub(crate) fn pass_on(&mut self, items: &mut Vec<Item>, give: impl FnOnce(&Batch)) {
        let needed = items.len();
        let batch: Batch = Arc::new(std::mem::replace(items, self.recycled(needed)));
        give(&batch);
        if self.given.len() == MAX_GIVEN {
            self.given.pop_front();
        }
        self.given.push_back(batch);
    }

    /// The vector of the oldest batch if nobody reads it any more, otherwise a new one.
    fn recycled(&mut self, needed: usize) -> Vec<Item> {
        if self.given.front().is_none_or(|batch| Arc::strong_count(batch) > 1) {
            return Vec::new();
        }
        let Some(mut items) = self.given.pop_front().and_then(Arc::into_inner) else { return Vec::new() };
        items.clear();
        if items.capacity() > MAX_ROOM * needed { Vec::new() } else { items }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use yuzuri_trace::Event;

    fn items(count: usize) -> Vec<Item> {
        vec![Item::Event(Event::default()); count]
    }

    #[test]
    fn a_batch_that_was_read_gives_its_memory_to_the_next_items() {
        let mut recycled = RecycledBatches::default();
        let mut buffer = items(100);
        let first = buffer.as_ptr();
        recycled.pass_on(&mut buffer, |batch| assert_eq!(batch.len(), 100));
        assert_eq!(buffer.capacity(), 0);
        buffer = items(90);
        recycled.pass_on(&mut buffer, |_| {});
        assert!(buffer.is_empty());
        assert_eq!(buffer.as_ptr(), first);
    }

    #[test]
    fn a_batch_that_a_sink_still_reads_is_not_reused() {
        let mut recycled = RecycledBatches::default();
        let mut held = None;
        recycled.pass_on(&mut items(100), |batch| held = Some(batch.clone()));
        let mut buffer = items(90);
        recycled.pass_on(&mut buffer, |_| {});
        assert_eq!(buffer.capacity(), 0);
        assert_eq!(held.map(|batch| batch.len()), Some(100));
    }

    #[test]
    fn the_memory_of_a_burst_is_freed() {
        let mut recycled = RecycledBatches::default();
        recycled.pass_on(&mut items(1000), |_| {});
        let mut buffer = items(10);
        recycled.pass_on(&mut buffer, |_| {});
        assert_eq!(buffer.capacity(), 0);
    }

    #[test]
    fn batches_that_are_not_returned_are_dropped() {
        let mut recycled = RecycledBatches::default();
        let mut held = Vec::new();
        for _ in 0..3 * MAX_GIVEN {
            recycled.pass_on(&mut items(1), |batch| held.push(batch.clone()));
        }
        assert_eq!(recycled.given.len(), MAX_GIVEN);
    }
}
