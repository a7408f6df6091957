//! The recording as a sink.

use super::sinks::Sink;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use yuzuri_trace::recording::{RecordError, Writer};
use yuzuri_trace::{Account, Item, Session};
use yuzuri_view::text;

/// Writes a recording; goes on when the disk was full and has room again.
pub struct Recorder {
    writer: Writer,
    failing: bool,
    /// It could not be written at some time.
    stood_still: bool,
    /// Events that it never got, because writing was too slow.
    missed: u64,
    /// The last account that was written.
    account: Option<Arc<Account>>,
}

/// While nothing happens an account is written only this often: each costs the file a batch of its own (6 kB).
const IDLE_ACCOUNT_NS: u64 = 60_000_000_000;

impl Recorder {
    /// Begins the file.
    pub fn create(path: &Path, session: &Session, overwrite: bool) -> Result<Recorder, RecordError> {
        let writer = Writer::create(path, session, overwrite)?;
        Ok(Recorder { writer, failing: false, stood_still: false, missed: 0, account: None })
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

    /// A failure is said once, and its end is said: the rest of the program goes on.
    fn note(&mut self, result: Result<(), RecordError>) {
        match result {
            Err(error) if !self.failing => {
                self.failing = true;
                self.stood_still = true;
                eprintln!("yuzuri: {error}");
                eprintln!(
                    "yuzuri: recording stands still; what it misses is counted, and it goes on when it can"
                );
            }
            Ok(()) if self.failing && !self.writer.is_failing() => {
                self.failing = false;
                eprintln!("yuzuri: recording goes on; {} records are missing from it", self.writer.lost());
            }
            _ => {}
        }
    }
}

impl Sink for Recorder {
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

    fn finish(self: Box<Self>) -> anyhow::Result<()> {
        let path = self.writer.path().to_owned();
        let (stood_still, missed) = (self.stood_still, self.missed);
        let summary = self.writer.finish();
        let (rows, bytes) = (text::count(summary.rows), text::bytes(summary.bytes as f64));
        eprintln!("yuzuri: recorded {rows} rows, {bytes}: {}", path.display());
        let lacks = summary.lost + missed;
        if lacks > 0 {
            let full = stood_still || summary.failed.is_some();
            let why = if full { "its disk was full or failed" } else { "its disk was too slow" };
            anyhow::bail!("the recording {} is readable but lacks {} records: {why}", path.display(), lacks);
        }
        match summary.failed {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }
}
