//! The feed of a page, in addition to the model.

use yuzuri_trace::Item;

/// Consumes the stream that fills a model, for displays finer than the model.
pub trait Ingest: Send {
    /// Processes items that were just applied to the model. The caller does not hold the model's
    /// lock.
    fn ingest(&self, items: &[Item]);

    /// Discards everything: the model is about to be filled from the beginning again.
    fn reset(&self);

    /// Reports the total number of events that never reached the feed.
    fn missed(&self, events: u64);

    /// Records that were due to a connected viewer, and skipped.
    fn lost(&self) -> u64;
}
