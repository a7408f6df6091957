//! A sink that writes a recording.

use crate::Sink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use yuzuri_trace::recording::{RecordError, Writer};
use yuzuri_trace::{Account, Item, Session};

/// Is notified of failures and of the end of a recording, and informs the user.
pub trait RecordingObserver: Send + 'static {
    /// The recording cannot be written. Missing records are counted, and the recorder retries.
    fn write_failed(&mut self, error: &RecordError);

    /// The recording can be written again. Called at most once per failure.
    fn resumed(&mut self, _missing: u64) {}

    /// The recording has ended.
    ///
    /// # Errors
    /// The program's closing error, if the recording is not complete.
    fn ended(&mut self, ended: Ended) -> anyhow::Result<()>;
}

/// How a recording ended.
pub struct Ended {
    /// The file.
    pub path: PathBuf,
    /// Rows in the file.
    pub rows: u64,
    /// Length of the file, bytes.
    pub bytes: u64,
    /// Records missing from the file.
    pub lacks: u64,
    /// Whether writing failed at any time.
    pub writer_stalled: bool,
    /// The error with which writing failed at the end, if it did.
    pub failed: Option<RecordError>,
}

/// Writes a recording, and continues after a full disk has room again.
pub struct Recorder<T> {
    writer: Writer,
    observer: T,
    failing: bool,
    writer_stalled: bool,
    /// Events that never reached the recorder because writing was too slow.
    missed: u64,
    /// The last account written.
    account: Option<Arc<Account>>,
}

/// How often an account is written while nothing else happens: each takes a batch of its own in the
/// file (6 kB).
const IDLE_ACCOUNT_NS: u64 = 60_000_000_000;

impl<T: RecordingObserver> Recorder<T> {
    /// Creates the file.
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
        Ok(Recorder { writer, observer, failing: false, writer_stalled: false, missed: 0, account: None })
    }

    /// Whether the item is worth writing: all are, except an account like the last one.
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

    /// Reports a failure once, and its end once. The rest of the program continues.
    fn note(&mut self, result: Result<(), RecordError>) {
        match result {
            Err(error) if !self.failing => {
                self.failing = true;
                self.writer_stalled = true;
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
        let (writer_stalled, missed) = (self.writer_stalled, self.missed);
        let summary = self.writer.finish();
        self.observer.ended(Ended {
            path,
            rows: summary.rows,
            bytes: summary.bytes,
            lacks: summary.lost + missed,
            writer_stalled,
            failed: summary.failed,
        })
    }
}
