//! The live model behind the page and the screen as a sink.

use super::sinks::Sink;
use std::sync::{Arc, Mutex, MutexGuard};
use yuzuri_kernel::clock;
use yuzuri_trace::{Item, Session};
use yuzuri_view::{Book, Limits};
use yuzuri_web::Page;

/// A book that several threads share.
pub type SharedBook = Arc<Mutex<Book>>;

/// An empty book for a stream.
pub fn book(session: &Arc<Session>) -> SharedBook {
    Arc::new(Mutex::new(Book::new(session.clone(), Limits::default())))
}

/// Locks a book. A thread that panicked with the lock leaves at worst one half-applied item behind.
pub fn lock(book: &Mutex<Book>) -> MutexGuard<'_, Book> {
    book.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Fills the book and feeds the page.
pub struct Faces {
    pub book: SharedBook,
    pub page: Option<Page>,
    /// Whether the book's time is now, and not the time of a recording.
    pub live: bool,
}

/// Items applied under one lock: a face waits at most about a millisecond for it.
const AT_ONCE: usize = 4096;

impl Sink for Faces {
    fn take(&mut self, items: &[Item]) -> anyhow::Result<()> {
        for part in items.chunks(AT_ONCE) {
            let mut book = lock(&self.book);
            part.iter().for_each(|item| book.apply(item));
            drop(book);
            if let Some(page) = &self.page {
                page.ingest(part);
            }
        }
        self.tick()
    }

    fn tick(&mut self) -> anyhow::Result<()> {
        if self.live {
            lock(&self.book).advance(clock::mono_ns());
        }
        Ok(())
    }

    fn lost(&self) -> u64 {
        self.page.as_ref().map_or(0, Page::face_lost)
    }
}
