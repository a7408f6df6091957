//! What the page looks at: the model, the fine feed, and the browsers that look.

use crate::feed::Feed;
use crate::hub::Hub;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use yuzuri_trace::{FlowId, Item};
use yuzuri_view::limited::FlowLimits;
use yuzuri_view::{Control, Ingest, LiveModel};

/// The live page of one model. Cheap to clone; all clones are the same page.
#[derive(Clone)]
pub struct Page {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) model: Arc<Mutex<LiveModel>>,
    pub(crate) control: Arc<dyn Control>,
    pub(crate) hub: Mutex<Hub>,
    feed: Mutex<Feed>,
    /// Whether anybody is subscribed to a flow, so that [`Page::ingest`] costs nothing when nobody is.
    wanted: AtomicBool,
}

impl std::fmt::Debug for Page {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Page").field("browsers", &self.browsers()).finish_non_exhaustive()
    }
}

impl Page {
    /// A page over a model that somebody else fills.
    pub fn new(model: Arc<Mutex<LiveModel>>, control: Arc<dyn Control>) -> Page {
        Page {
            shared: Arc::new(Shared {
                model,
                control,
                hub: Mutex::new(Hub::default()),
                feed: Mutex::new(Feed::default()),
                wanted: AtomicBool::new(false),
            }),
        }
    }

    /// Takes in the items that were just applied to the model, for the finest view of those flows that somebody
    /// looks at. Without a browser this is a single load. Call it without holding the model's lock.
    pub fn ingest(&self, items: &[Item]) {
        if self.shared.wanted.load(Ordering::Relaxed) {
            self.shared.feed.lock().push(items);
        }
    }

    /// Tells every browser to forget what it has and to ask anew. Call it once the model has been filled anew (a
    /// replay's seek).
    pub fn reset(&self) {
        self.shared.feed.lock().clear();
        self.shared.hub.lock().reset();
    }

    /// How many browsers look on.
    pub fn browsers(&self) -> usize {
        self.shared.hub.lock().len()
    }

    /// Tells browsers that so many events, all in all, never reached this page.
    pub fn missed(&self, events: u64) {
        self.shared.hub.lock().set_missed(events);
    }

    /// Records that some browser does not show: those of [`Page::browsers_lost`], and those that never reached the page.
    pub fn face_lost(&self) -> u64 {
        self.shared.hub.lock().face_lost()
    }

    /// Records (rows, buckets, events) that were due to a browser and skipped because it did not keep up.
    /// Nothing else is touched by that: the model and recordings have them.
    pub fn browsers_lost(&self) -> u64 {
        self.shared.hub.lock().browsers_lost()
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
    /// What the model knows of the limits of those flows. Not under the feed's lock: whoever fills the model may wait for that.
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
