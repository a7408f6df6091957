//! `yuzuri send --record`: the variables of this program's own connections, polled every 10 ms,
//! which needs no privilege. The transfer continues whatever happens to the recording.

use crate::transfer::EventReporter;
use anyhow::anyhow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use yuzuri_kernel::own::OwnSockets;
use yuzuri_kernel::{Poller, Watch};
use yuzuri_trace::Density;
use yuzuri_trace::recording::RecordError;
use yuzuri_transfer::{Shown, WarningKind};
use yuzuri_view::text;
use yuzuri_watch::{Ended, Pump, Recorder, RecordingObserver, SinkPurpose, Sinks};

/// The interval at which records are passed to the writer: waking another thread at each poll costs
/// more than the poll.
const BATCH_INTERVAL: Duration = Duration::from_millis(50);

/// A recording made during a transfer.
pub struct OwnRecord {
    own: OwnSockets,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<anyhow::Result<()>>,
}

impl OwnRecord {
    /// Begins the file. `None` if that fails, which has then been reported.
    pub fn start(path: &Path, overwrite: bool, reporter: EventReporter) -> Option<OwnRecord> {
        OwnRecord::try_start(path, overwrite, reporter)
            .map_err(|error| reporter.warn(WarningKind::Recording, &format!("not recorded: {error}")))
            .ok()
    }

    fn try_start(path: &Path, overwrite: bool, reporter: EventReporter) -> anyhow::Result<OwnRecord> {
        let own = OwnSockets::default();
        let poller = Poller::of_own(own.clone(), Density::default())?;
        let observer = FileReports { reporter, failed: false };
        let recorder = Recorder::create(path, poller.session(), overwrite, observer)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::Builder::new().spawn(move || {
            let mut sinks = Sinks::default();
            sinks.add(recorder, SinkPurpose::Recording);
            Pump::new(&sinks, &stopped).gathering(BATCH_INTERVAL).run(Box::new(poller));
            sinks.finish()
        })?;
        Ok(OwnRecord { own, stop, thread })
    }

    /// Adds each connection to the recording.
    pub fn shown(&self) -> Shown {
        let own = self.own.clone();
        Shown::new(move |connection| own.add(connection.socket))
    }

    /// Ends the file; returns whether it is complete. Problems have then been reported.
    pub fn finish(self, reporter: EventReporter) -> bool {
        self.stop.store(true, Ordering::Relaxed);
        // A panic in the recorder must not lose the transfer's result.
        let ended = self.thread.join().unwrap_or_else(|_| Err(anyhow!("the recorder thread panicked")));
        ended.map_err(|error| reporter.note(&error.to_string())).is_ok()
    }
}

/// Reports about the file. A failure is reported once.
struct FileReports {
    reporter: EventReporter,
    failed: bool,
}

impl RecordingObserver for FileReports {
    fn write_failed(&mut self, error: &RecordError) {
        if !std::mem::replace(&mut self.failed, true) {
            self.reporter.warn(WarningKind::Recording, &format!("{error}; the transfer continues"));
        }
    }

    fn ended(&mut self, ended: Ended) -> anyhow::Result<()> {
        let Ended { path, rows, bytes, lacks, failed, .. } = ended;
        // The last rows are written at the end, and may be the first for which the disk has no
        // room.
        if let (Some(error), false) = (&failed, self.failed) {
            self.reporter.warn(WarningKind::Recording, &error.to_string());
        }
        let (rows, bytes) = (text::counted(text::count(rows), "row"), text::bytes(bytes as f64));
        self.reporter.note(&format!("recorded {rows}, {bytes}: {}", path.display()));
        if lacks > 0 || failed.is_some() {
            anyhow::bail!("that recording is readable but lacks {}", text::counted(lacks, "record"));
        }
        Ok(())
    }
}
