//! What `yuzuri watch --record` says of its recording.

use std::path::Path;
use yuzuri_trace::Session;
use yuzuri_trace::recording::RecordError;
use yuzuri_view::text;
use yuzuri_watch::{Ended, Teller};

/// A recording that tells on standard error what becomes of it.
pub type Recorder = yuzuri_watch::Recorder<Lines>;

/// Begins the file.
pub fn create(path: &Path, session: &Session, overwrite: bool) -> Result<Recorder, RecordError> {
    Recorder::create(path, session, overwrite, Lines)
}

/// Lines on standard error.
pub struct Lines;

impl Teller for Lines {
    fn stands_still(&mut self, error: &RecordError) {
        eprintln!("yuzuri: {error}");
        eprintln!("yuzuri: recording stands still; what it misses is counted, and it goes on when it can");
    }

    fn goes_on(&mut self, missing: u64) {
        eprintln!("yuzuri: recording goes on; {missing} records are missing from it");
    }

    fn ended(&mut self, ended: Ended) -> anyhow::Result<()> {
        let Ended { path, rows, bytes, lacks, stood_still, failed } = ended;
        let (rows, bytes) = (text::count(rows), text::bytes(bytes as f64));
        eprintln!("yuzuri: recorded {rows} rows, {bytes}: {}", path.display());
        if lacks > 0 {
            let full = stood_still || failed.is_some();
            let why = if full { "its disk was full or failed" } else { "its disk was too slow" };
            anyhow::bail!("the recording {} is readable but lacks {} records: {why}", path.display(), lacks);
        }
        match failed {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }
}
