//! The messages of `yuzuri watch --record` about its recording.

use std::path::Path;
use yuzuri_trace::Session;
use yuzuri_trace::recording::RecordError;
use yuzuri_view::text;
use yuzuri_watch::{Ended, RecordingObserver};

/// A recording that reports its state on standard error.
pub type Recorder = yuzuri_watch::Recorder<Lines>;

/// Begins the file.
pub fn create(path: &Path, session: &Session, overwrite: bool) -> Result<Recorder, RecordError> {
    Recorder::create(path, session, overwrite, Lines)
}

/// Lines on standard error.
pub struct Lines;

impl RecordingObserver for Lines {
    fn write_failed(&mut self, error: &RecordError) {
        yuzuri_exit::note!("yuzuri: {error}");
        yuzuri_exit::note!(
            "yuzuri: recording paused; missing records are counted, and it resumes as soon as possible"
        );
    }

    fn resumed(&mut self, missing: u64) {
        yuzuri_exit::note!("yuzuri: recording resumed; it lacks {}", text::counted(missing, "record"));
    }

    fn ended(&mut self, ended: Ended) -> anyhow::Result<()> {
        let Ended { path, rows, bytes, lacks, writer_stalled, failed } = ended;
        let (rows, bytes) = (text::counted(text::count(rows), "row"), text::bytes(bytes as f64));
        yuzuri_exit::note!("yuzuri: recorded {rows}, {bytes}: {}", path.display());
        if lacks > 0 {
            let full = writer_stalled || failed.is_some();
            let why = if full { "its disk was full or failed" } else { "its disk was too slow" };
            anyhow::bail!(
                "the recording {} is readable but lacks {}: {why}",
                path.display(),
                text::counted(lacks, "record")
            );
        }
        match failed {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }
}
