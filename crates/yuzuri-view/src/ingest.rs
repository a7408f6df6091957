//! What a page is fed with beside the model.

use yuzuri_trace::Item;

/// Takes the stream that fills a model, for what shows finer than the model keeps.
pub trait Ingest: Send {
    /// Takes in the items that were just applied to the model. The model's lock is not held.
    fn ingest(&self, items: &[Item]);

    /// Forgets everything: the model is filled anew.
    fn reset(&self);

    /// Learns how many events, all in all, never reached it.
    fn missed(&self, events: u64);

    /// Records that were due to somebody who looks on, and skipped.
    fn lost(&self) -> u64;
}
