//! What the page serves: the model, the fine feed, and the connected browsers.

use crate::broadcast::Broadcaster;
use crate::feed::Feed;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use yuzuri_trace::{FlowId, Item};
use yuzuri_view::limited::FlowLimits;
use yuzuri_view::{Control, Ingest, LiveModel};

/// The live page of one model. Clones are cheap and refer to the same page.
#[derive(Clone)]
pub struct Page {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) model: Arc<Mutex<LiveModel>>,
    pub(crate) control: Arc<dyn Control>,
    pub(crate) broadcast: Mutex<Broadcaster>,
    feed: Mutex<Feed>,
    /// Whether any browser is subscribed to a flow; otherwise [`Page::ingest`] costs nothing.
    wanted: AtomicBool,
}

impl std::fmt::Debug for Page {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Page").field("browsers", &self.browsers()).finish_non_exhaustive()
    }
}

impl Page {
    /// A page over a model that another thread fills.
    pub fn new(model: Arc<Mutex<LiveModel>>, control: Arc<dyn Control>) -> Page {
        Page {
            shared: Arc::new(Shared {
                model,
                control,
                broadcast: Mutex::new(Broadcaster::default()),
                feed: Mutex::new(Feed::default()),
                wanted: AtomicBool::new(false),
            }),
        }
    }

    /// Processes items that were just applied to the model, for the finest view of subscribed
    /// flows. Without a browser this is a single load. Do not hold the model's lock when calling
    /// it.
    pub fn ingest(&self, items: &[Item]) {
        if self.shared.wanted.load(Ordering::Relaxed) {
            self.shared.feed.lock().push(items);
        }
    }

    /// Makes every browser discard its data and request it again. Call it after the model was
    /// refilled (a replay's seek).
    pub fn reset(&self) {
        self.shared.feed.lock().clear();
        self.shared.broadcast.lock().reset();
    }

    /// The number of connected browsers.
    pub fn browsers(&self) -> usize {
        self.shared.broadcast.lock().len()
    }

    /// Reports the total number of events that never reached this page.
    pub fn missed(&self, events: u64) {
        self.shared.broadcast.lock().set_missed(events);
    }

    /// Records missing in some browser: those of [`Page::browsers_lost`], and those that never
    /// reached the page.
    pub fn not_shown(&self) -> u64 {
        self.shared.broadcast.lock().not_shown()
    }

    /// Records (rows, buckets, events) that were due to a browser and skipped because it did not
    /// keep up. The model and recordings do have them.
    pub fn browsers_lost(&self) -> u64 {
        self.shared.broadcast.lock().browsers_lost()
    }
}

impl Ingest for Page {
    fn ingest(&self, items: &[Item]) {
        Page::ingest(self, items);
    }

    fn reset(&self) {
        Page::reset(self);
    }

    fn missed(&self, events: u64) {
        Page::missed(self, events);
    }

    fn lost(&self) -> u64 {
        self.browsers_lost()
    }
}

impl Shared {
    /// The model's knowledge of the flows' limits. Not under the feed's lock: the thread that fills
    /// the model may wait for that.
    pub(crate) fn limits_of(&self, flows: &[FlowId]) -> HashMap<FlowId, FlowLimits> {
        let model = self.model.lock();
        flows.iter().filter_map(|id| Some((*id, model.row(*id)?.limits.clone()))).collect()
    }

    pub(crate) fn with_feed<T>(&self, action: impl FnOnce(&mut Feed) -> T) -> T {
        let mut feed = self.feed.lock();
        let out = action(&mut feed);
        self.wanted.store(!feed.is_empty(), Ordering::Relaxed);
        out
    }
}
