//! Monitors the experiment's flows with the kernel monitor and writes a recording.

use crate::LabError;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use yuzuri_kernel::{Monitor, Options, Watch};
use yuzuri_trace::recording::Writer;
use yuzuri_trace::{Account, Density, Filter, Item};
use yuzuri_watch::drive;

/// A monitor that writes a recording on a separate thread.
#[derive(Debug)]
pub struct Recorder {
    thread: Option<JoinHandle<Result<Account, LabError>>>,
    stop: Arc<AtomicBool>,
}

impl Recorder {
    /// Starts the monitor.
    ///
    /// # Errors
    /// If the monitor cannot be loaded, or if the file cannot be created.
    pub fn start(filter: Filter, sample: Duration, path: &Path) -> Result<Recorder, LabError> {
        let density = match sample.as_nanos() as u64 {
            0 => Density::EveryAck,
            ns => Density::Interval { ns },
        };
        let options = Options { filter, density, ring_bytes: None };
        let monitor = Monitor::start(&options).map_err(|e| LabError::Run(e.to_string()))?;
        let session = monitor.session().clone();
        let mut writer = Writer::create(path, &session, false)
            .map_err(|e| LabError::Run(format!("the recording: {e}")))?;
        let stop = Arc::new(AtomicBool::new(false));
        let stop_flag = stop.clone();
        let body = move || {
            // The writer counts what could not be written, and retries.
            let mut write = |items: &mut Vec<_>| {
                let _ = writer.write(items, Instant::now());
                items.clear();
            };
            let continues = || !stop_flag.load(Ordering::Relaxed);
            let rest = |monitor: &mut dyn Watch| std::thread::sleep(monitor.read_interval());
            // On this thread alone: in virtual time, each wakeup of another one would be part of
            // the result.
            let (mut items, account) = drive(Box::new(monitor), continues, &mut write, rest);
            // The final account is written last and includes what the recording lost.
            items.pop_if(|last| matches!(last, Item::Account(_)));
            write(&mut items);
            let (account, summary) = writer.conclude(account);
            match summary.failed {
                Some(error) => Err(LabError::Run(format!("the recording: {error}"))),
                None => Ok(account),
            }
        };
        let thread = std::thread::Builder::new().name("yuzuri-watch".into()).spawn(body);
        let thread = thread.map_err(LabError::network("starting the monitor thread"))?;
        Ok(Recorder { thread: Some(thread), stop })
    }

    /// Stops the monitor; returns the number of records seen, kept and lost.
    ///
    /// # Errors
    /// If the recording could not be written.
    pub fn finish(mut self) -> Result<Account, LabError> {
        self.stop.store(true, Ordering::Relaxed);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Err(LabError::Stopped),
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
