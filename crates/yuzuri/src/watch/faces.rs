//! The live model behind the page and the screen as a sink.

use super::sinks::Sink;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use yuzuri_kernel::clock;
use yuzuri_trace::{Item, Session};
use yuzuri_view::{Limits, LiveModel};
use yuzuri_web::Page;

/// A model that several threads share.
pub type SharedModel = Arc<Mutex<LiveModel>>;

/// An empty model for a stream.
pub fn model(session: &Arc<Session>) -> SharedModel {
    Arc::new(Mutex::new(LiveModel::new(session.clone(), Limits::default())))
}

/// Fills the model and feeds the page.
pub struct Faces {
    pub model: SharedModel,
    pub page: Option<Page>,
    pub time: Time,
}

/// Which time it is in a model.
pub enum Time {
    /// Now.
    Live,
    /// This one, `CLOCK_MONOTONIC` of the recording, nanoseconds.
    At(Arc<AtomicU64>),
}

impl Faces {
    /// Empties the model: it will be filled from the beginning.
    pub fn anew(&self, session: &Arc<Session>) {
        *self.model.lock() = LiveModel::new(session.clone(), Limits::default());
        if let Some(page) = &self.page {
            page.reset();
        }
    }
}

/// Items applied under one lock: a face waits at most about a millisecond for it.
const AT_ONCE: usize = 4096;

impl Sink for Faces {
    fn take(&mut self, items: &[Item]) -> anyhow::Result<()> {
        for part in items.chunks(AT_ONCE) {
            let mut model = self.model.lock();
            part.iter().for_each(|item| model.apply(item));
            drop(model);
            if let Some(page) = &self.page {
                page.ingest(part);
            }
        }
        self.tick()
    }

    fn tick(&mut self) -> anyhow::Result<()> {
        let now_ns = match &self.time {
            Time::Live => clock::mono_ns(),
            Time::At(now) => now.load(Ordering::Relaxed),
        };
        self.model.lock().advance(now_ns);
        Ok(())
    }

    fn lost(&self) -> u64 {
        self.page.as_ref().map_or(0, Page::browsers_lost)
    }

    fn missed(&mut self, events: u64) {
        if let Some(page) = &self.page {
            page.missed(events);
        }
    }
}
