//! The recording as a sink.

use crate::Sink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use yuzuri_trace::recording::{RecordError, Writer};
use yuzuri_trace::{Account, Item, Session};

/// Learns what becomes of a recording, and tells the user.
pub trait RecordingObserver: Send + 'static {
    /// It cannot be written. What it misses is counted, and it is tried again.
    fn write_failed(&mut self, error: &RecordError);

    /// It can be written again. Each failure has one end at most.
    fn resumed(&mut self, _missing: u64) {}

    /// It has ended.
    ///
    /// # Errors
    /// The program's closing error, if the recording is not whole.
    fn ended(&mut self, ended: Ended) -> anyhow::Result<()>;
}

/// What became of a recording.
pub struct Ended {
    /// The file.
    pub path: PathBuf,
    /// Rows in it.
    pub rows: u64,
    /// Its length.
    pub bytes: u64,
    /// Records that are not in it.
    pub lacks: u64,
    /// It could not be written at some time.
    pub stood_still: bool,
    /// It could not be written at its end.
    pub failed: Option<RecordError>,
}

/// Writes a recording; goes on when the disk was full and has room again.
pub struct Recorder<T> {
    writer: Writer,
    observer: T,
    failing: bool,
    stood_still: bool,
    /// Events that it never got, because writing was too slow.
    missed: u64,
    /// The last account that was written.
    account: Option<Arc<Account>>,
}

/// While nothing happens an account is written only this often: each costs the file a batch of its own (6 kB).
const IDLE_ACCOUNT_NS: u64 = 60_000_000_000;

impl<T: RecordingObserver> Recorder<T> {
    /// Begins the file.
    ///
    /// # Errors
    /// If it exists and may not be overwritten, or cannot be created.
    pub fn create(
        path: &Path,
        session: &Session,
        overwrite: bool,
        observer: T,
    ) -> Result<Recorder<T>, RecordError> {
        let writer = Writer::create(path, session, overwrite)?;
        Ok(Recorder { writer, observer, failing: false, stood_still: false, missed: 0, account: None })
    }

    /// Whether the item tells something new.
    fn is_news(&mut self, item: &Item) -> bool {
        let Item::Account(account) = item else { return true };
        let same = |last: &Arc<Account>| {
            last.cpus == account.cpus && account.mono_ns.saturating_sub(last.mono_ns) < IDLE_ACCOUNT_NS
        };
        if self.account.as_ref().is_some_and(same) {
            return false;
        }
        self.account = Some(account.clone());
        true
    }

    /// A failure is told once, and its end is told: the rest of the program goes on.
    fn note(&mut self, result: Result<(), RecordError>) {
        match result {
            Err(error) if !self.failing => {
                self.failing = true;
                self.stood_still = true;
                self.observer.write_failed(&error);
            }
            Ok(()) if self.failing && !self.writer.is_failing() => {
                self.failing = false;
                self.observer.resumed(self.writer.lost());
            }
            _ => {}
        }
    }
}

impl<T: RecordingObserver> Sink for Recorder<T> {
    fn take(&mut self, items: &[Item]) -> anyhow::Result<()> {
        // An account comes alone or at the end of a batch: the rest is one slice.
        let news = match items {
            [rest @ .., last] if !self.is_news(last) => rest,
            all => all,
        };
        let result = self.writer.write(news, Instant::now());
        self.note(result);
        Ok(())
    }

    fn tick(&mut self) -> anyhow::Result<()> {
        let result = self.writer.flush_due(Instant::now());
        self.note(result);
        Ok(())
    }

    fn lost(&self) -> u64 {
        self.writer.lost()
    }

    fn settle(&mut self) {
        self.writer.settle();
    }

    fn missed(&mut self, events: u64) {
        self.missed = events;
    }

    fn finish(mut self: Box<Self>) -> anyhow::Result<()> {
        let path = self.writer.path().to_owned();
        let (stood_still, missed) = (self.stood_still, self.missed);
        let summary = self.writer.finish();
        self.observer.ended(Ended {
            path,
            rows: summary.rows,
            bytes: summary.bytes,
            lacks: summary.lost + missed,
            stood_still,
            failed: summary.failed,
        })
    }
}
