//! A sink that fills the live model behind the page and the screen.

use crate::Sink;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use yuzuri_kernel::clock;
use yuzuri_trace::{Item, Session};
use yuzuri_view::{Ingest, Limits, LiveModel};

/// A model shared by several threads.
pub type SharedModel = Arc<Mutex<LiveModel>>;

/// An empty model for a stream.
pub fn model(session: &Arc<Session>) -> SharedModel {
    Arc::new(Mutex::new(LiveModel::new(session.clone(), Limits::default())))
}

/// Fills the model, and feeds the page if there is one.
pub struct Live {
    model: SharedModel,
    feed: Option<Box<dyn Ingest>>,
    time: Time,
}

/// The source of a model's current time.
enum Time {
    /// The present.
    Now,
    /// The stored `CLOCK_MONOTONIC` of the recording, nanoseconds.
    At(Arc<AtomicU64>),
}

impl Live {
    /// For a live stream.
    pub fn now(model: SharedModel) -> Live {
        Live { model, feed: None, time: Time::Now }
    }

    /// For a stream with its own time, such as a replay.
    pub fn at(model: SharedModel, time: Arc<AtomicU64>) -> Live {
        Live { model, feed: None, time: Time::At(time) }
    }

    /// Also feeds a page that shows this model.
    pub fn feeding(self, feed: Option<Box<dyn Ingest>>) -> Live {
        Live { feed, ..self }
    }

    /// Empties the model before it is filled from the beginning again.
    pub fn restart(&self, session: &Arc<Session>) {
        *self.model.lock() = LiveModel::new(session.clone(), Limits::default());
        if let Some(feed) = &self.feed {
            feed.reset();
        }
    }
}

/// Items applied under one lock: a user interface waits for it at most about a millisecond.
const AT_ONCE: usize = 4096;

impl Sink for Live {
    fn take(&mut self, items: &[Item]) -> anyhow::Result<()> {
        for part in items.chunks(AT_ONCE) {
            let mut model = self.model.lock();
            part.iter().for_each(|item| model.apply(item));
            drop(model);
            if let Some(feed) = &self.feed {
                feed.ingest(part);
            }
        }
        self.tick()
    }

    fn tick(&mut self) -> anyhow::Result<()> {
        let now_ns = match &self.time {
            Time::Now => clock::mono_ns(),
            Time::At(now) => now.load(Ordering::Relaxed),
        };
        self.model.lock().advance(now_ns);
        Ok(())
    }

    fn lost(&self) -> u64 {
        self.feed.as_ref().map_or(0, |feed| feed.lost())
    }

    fn missed(&mut self, events: u64) {
        if let Some(feed) = &self.feed {
            feed.missed(events);
        }
    }
}
