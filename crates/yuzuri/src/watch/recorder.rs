//! The recording as a sink.

use super::sinks::Sink;
use std::path::Path;
use std::time::Instant;
use yuzuri_trace::recording::{RecordError, Writer};
use yuzuri_trace::{Item, Session};
use yuzuri_view::text;

/// Writes a recording; goes on when the disk was full and has room again.
pub struct Recorder {
    writer: Writer,
    failing: bool,
}

impl Recorder {
    /// Begins the file.
    pub fn create(path: &Path, session: &Session, overwrite: bool) -> Result<Recorder, RecordError> {
        Ok(Recorder { writer: Writer::create(path, session, overwrite)?, failing: false })
    }

    /// A failure is said once, and its end is said: the rest of the program goes on.
    fn note(&mut self, result: Result<(), RecordError>) {
        match result {
            Err(error) if !self.failing => {
                self.failing = true;
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
        let result = self.writer.write(items, Instant::now());
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

    fn finish(self: Box<Self>) -> anyhow::Result<()> {
        let path = self.writer.path().to_owned();
        let summary = self.writer.finish();
        let (rows, bytes) = (text::count(summary.rows), text::bytes(summary.bytes as f64));
        eprintln!("yuzuri: recorded {rows} rows, {bytes}: {}", path.display());
        if summary.lost > 0 {
            anyhow::bail!(
                "the recording {} is readable but lacks {} records: its disk was full or failed",
                path.display(),
                summary.lost
            );
        }
        Ok(())
    }
}
